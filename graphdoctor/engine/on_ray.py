"""Works on pieces on a Ray cluster, which places them, tries again when a worker or a node ends, and gives up.

Comes in: an address. Goes out: an ``Engine``. The only module that imports ray, and only when it runs. Nodes run their
own graphdoctor, which has to be of the same version: what comes back are its objects.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pickle
import socket
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from graphdoctor import __version__
from graphdoctor.engine.work import Failed, Failure, Outcome, Piece, Result, unpacked
from graphdoctor.errors import GraphDoctorError

_ANSWER_S = 5.0
"""How long a cluster may take to accept a connection."""


@dataclass(frozen=True)
class OnRay:
    """A Ray cluster.

    Args:
        address: As ``ray.init`` takes it, such as ``ray://head:10001`` or ``head:6379``; None to start one on this
            machine. A cluster that this process is connected to is used as it is.
        at_once: How many pieces to hand over at once; None for all of them, and as many cores as there are for a
            cluster on this machine.
    """

    address: str | None
    at_once: int | None = None

    @property
    def jobs(self) -> int:
        """See ``Engine.jobs``: what Ray runs isn't in this machine's processes."""
        return 1

    @property
    def elsewhere(self) -> str:
        """See ``Engine.elsewhere``."""
        return "a Ray cluster of this machine" if self.address is None else f"the Ray cluster at {self.address}"

    def run(
        self, work: Callable[[Piece], Result], pieces: Sequence[Piece], *, ahead: int | None = None
    ) -> Iterator[Outcome[Result]]:
        """See ``Engine.run``."""
        with self._cluster() as ray:
            yield from _outcomes(ray, work, pieces, at_once=self.at_once, ahead=ahead)

    @contextlib.contextmanager
    def _cluster(self) -> Iterator[Any]:
        if importlib.util.find_spec("ray") is None:
            raise GraphDoctorError("--on ray needs Ray.", hint="pip install 'graphdoctor[ray]'")
        # Ray reads it when a cluster is started: nothing is sent to anybody.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        import ray

        if ray.is_initialized():
            yield ray
            return
        # A thread of Ray's prints about nodes that end, on standard output whatever it is told.
        with contextlib.redirect_stdout(sys.stderr):
            try:
                self._connect(ray)
                yield ray
            finally:
                ray.shutdown()

    def _connect(self, ray: Any) -> None:  # noqa: ANN401 - a module without types of its own
        quiet = {"log_to_driver": False, "logging_level": "ERROR"}
        if self.address is None:
            ray.init(
                address="local",
                num_cpus=self.at_once,
                include_dashboard=False,
                **quiet,
            )
            return
        _check_answer(self.address)
        try:
            with warnings.catch_warnings(action="ignore"):
                ray.init(address=self.address, **quiet)
        except Exception as error:
            words = str(error).strip().partition("\n")[0] or type(error).__name__
            raise GraphDoctorError(f"Can't use the Ray cluster at {self.address}: {words.rstrip('.')}.") from error


def _check_answer(address: str) -> None:
    """Find out soon whether anybody listens; Ray itself tries for a minute."""
    place = urlsplit(address if "//" in address else f"//{address}")
    try:
        host, port = place.hostname, place.port
    except ValueError:
        host = port = None
    if host is None or port is None:
        if address == "auto":
            return
        raise GraphDoctorError(f"{address} isn't the address of a Ray cluster.", hint="It's like ray://head:10001.")
    try:
        socket.create_connection((host, port), timeout=_ANSWER_S).close()
    except OSError as error:
        raise _no_answer(address, error.strerror or str(error)) from error
    if "RAY_USE_TLS" not in os.environ and not _is_ray(host, port, is_client="//" in address):
        raise _no_answer(address, "what listens there isn't Ray")


def _is_ray(host: str, port: int, *, is_client: bool) -> bool:
    """Whether what listens can be Ray: the cluster's own port says how it is, Ray Client's answers as gRPC does."""
    import grpc

    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    with grpc.insecure_channel(place, options=[("grpc.enable_http_proxy", 0)]) as channel:
        try:
            channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=_ANSWER_S, wait_for_ready=True)
        except grpc.RpcError as error:
            silent = {grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE}
            return error.code() not in (silent if is_client else {*silent, grpc.StatusCode.UNIMPLEMENTED})
    return True


def _no_answer(address: str, reason: str) -> GraphDoctorError:
    return GraphDoctorError(
        f"There is no answer from a Ray cluster at {address}: {reason}.",
        hint="Is it running, and can this machine reach it? ray://HOST:10001 is Ray Client's usual address.",
    )


def _outcomes(
    ray: Any,  # noqa: ANN401
    work: Callable[[Any], object],
    pieces: Sequence[Any],
    *,
    at_once: int | None,
    ahead: int | None,
) -> Iterator[Outcome[Any]]:
    there = ray.remote(_remote_work())
    begun: dict[Any, int] = {}
    following = 0

    def may_begin() -> bool:
        is_near = ahead is None or following <= min(begun.values(), default=following) + ahead
        return following < len(pieces) and is_near and (at_once is None or len(begun) < at_once)

    while True:
        while may_begin():
            packed = pickle.dumps((work, pieces[following]), pickle.HIGHEST_PROTOCOL)
            begun[there.remote(__version__, str(Path.cwd()), packed)] = following
            following += 1
        if not begun:
            return
        (ready, *_), _ = ray.wait(list(begun), num_returns=1)
        index = begun.pop(ready)
        try:
            version, answer = ray.get(ready)
        except ray.exceptions.RayError as error:
            yield Failed(index, _loss(ray, error))
            continue
        _check_version(version)
        yield unpacked(index, answer)


def _remote_work() -> Callable[[str, str, bytes], tuple[str | None, bytes]]:
    """The function that Ray calls on a node.

    Ray pickles a function of module level by name, which fails without a word of ours on a node without graphdoctor;
    this one it pickles by its code.
    """

    def work_there(version: str, folder: str, packed: bytes) -> tuple[str | None, bytes]:
        import contextlib
        import os
        import pickle

        try:
            from graphdoctor import __version__
        except ImportError:
            return None, b""
        if __version__ != version:
            return __version__, b""
        from graphdoctor.engine.work import packed_attempt

        # Paths are as seen from where the command was given.
        with contextlib.suppress(OSError):
            os.chdir(folder)
        work, piece = pickle.loads(packed)
        return __version__, packed_attempt(work, piece)

    return work_there


def _check_version(version: str | None) -> None:
    if version == __version__:
        return
    found = "isn't installed" if version is None else f"is {version}, not {__version__}"
    raise GraphDoctorError(
        f"On a node of the Ray cluster, graphdoctor {found}.",
        hint=f"Install graphdoctor {__version__} in the environment of each node.",
    )


def _loss(ray: Any, error: Exception) -> Failure:  # noqa: ANN401
    words = str(error).strip().partition("\n")[0] or type(error).__name__
    is_memory = isinstance(error, ray.exceptions.OutOfMemoryError)
    return Failure("memory" if is_memory else "lost", f"Ray gave it up: {words}")
