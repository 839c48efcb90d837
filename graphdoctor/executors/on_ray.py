"""Works on pieces on a Ray cluster, which places them, tries again when a worker or a node ends,
and gives up.

The only module that imports ray, and only when it runs. Nodes run their own graphdoctor, of the
same version. A piece with a share has a process of its own there too. Ray counts cores and doesn't
say which ones, so pieces claim them by locks on files, which the system takes back when a process
ends.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pickle
import socket
import stat
import sys
import tempfile
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from graphdoctor import __version__
from graphdoctor.errors import GraphDoctorError
from graphdoctor.executors.executor import (
    Environment,
    Executor,
    Failure,
    Job,
    Outcome,
    Share,
    packed_attempt,
    unpacked,
)
from graphdoctor.executors.machine import GPU_VARIABLE, Slot, core_groups, cores, this_machine
from graphdoctor.executors.supervisor import Supervisors
from graphdoctor.wording import bytes_text, counted

_ANSWER_S = 5.0
_RETRIES = 3
"""How often Ray begins a piece again whose worker or node ended; its own default."""

_REPORT_S = 0.5
_LOOK_S = 10.0
_PATIENCE_S = 60.0
"""How long a cluster may have no node that can give a piece its share."""

_CONNECTIONS = 3
_PAUSE_S = 2.0
_ENVIRONMENT_HINT = "Nodes need the package index for pip, and room for a copy of the folders."


@dataclass(frozen=True)
class OnRay(Executor):
    """A Ray cluster at an address, None to start one here, that gets so many pieces at once, None
    for all.
    """

    address: str | None
    at_once: int | None = None
    runtime_env: Environment | None = None

    @property
    def elsewhere(self) -> str:
        """See ``Executor``."""
        return (
            "a Ray cluster of this machine"
            if self.address is None
            else f"the Ray cluster at {self.address}"
        )

    def outcomes(self, job: Job) -> Iterator[Outcome[Any]]:
        """See ``Executor``; a piece's place is the node's address and what it has of the node."""
        with self._cluster(job.share) as ray:
            asked: dict[str, object] = {}
            if (share := job.share) is not None:
                if not _can_give(ray, share):
                    raise GraphDoctorError(
                        f"Each piece needs {_words(share)}, but no node of the Ray cluster has that.",
                        hint="ray status shows what nodes have; one that an autoscaler would add has to be there.",
                    )
                asked = {
                    "num_cpus": share.cpus,
                    "num_gpus": share.gpus,
                    "memory": share.memory_bytes,
                }
            there = ray.remote(_remote_work()).options(max_retries=_RETRIES, **asked)
            has_folder = self.runtime_env is not None and self.runtime_env.working_dir is not None
            yield from _Pending(ray, there, None if has_folder else str(Path.cwd()), job).outcomes(
                self.at_once
            )

    @contextlib.contextmanager
    def _cluster(self, share: Share | None) -> Iterator[Any]:
        """Ray, connected; the end of the connection ends what is at work through it."""
        if importlib.util.find_spec("ray") is None:
            raise GraphDoctorError("--on ray needs Ray.", hint="pip install 'graphdoctor[ray]'")
        # Ray reads it when a cluster is started: nothing is sent to anybody.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        # Else it replaces this process's ``print`` when it says that a node ended
        # (ray/experimental/tqdm_ray.py, 2.60).
        os.environ.setdefault("RAY_TQDM_PATCH_PRINT", "0")
        import ray

        # A thread of Ray's prints about nodes that end, on standard output whatever it is told.
        with contextlib.redirect_stdout(sys.stderr):
            try:
                self._connect(ray, share)
                yield ray
            finally:
                ray.shutdown()

    def _connect(self, ray: Any, share: Share | None) -> None:  # noqa: ANN401 - a module without types of its own
        """Connect; over Ray Client again if the server that Ray starts for it died.

        It did so four times in 60 on Ray 2.60: gRPC in Ray's proxy takes it amiss to be forked
        while it is called.
        """
        options: dict[str, Any] = {
            "log_to_driver": False,
            "logging_level": "ERROR",
            "address": self.address,
        }
        if self.runtime_env is not None:
            options["runtime_env"] = self.runtime_env.described()
        if self.address is None:
            count = self.at_once if share is None else cores()
            options |= {"address": "local", "num_cpus": count, "include_dashboard": False}
        else:
            _check_answer(self.address)
        for rest in reversed(range(_CONNECTIONS)):
            try:
                with warnings.catch_warnings(action="ignore"):
                    ray.init(**options)
                return
            except Exception as error:
                # A runtime environment that can't be made costs minutes, and can't be made the next
                # time either.
                if (
                    not isinstance(error, ConnectionAbortedError)
                    or not rest
                    or "runtime_env" in str(error)
                ):
                    hint = None if self.runtime_env is None else _ENVIRONMENT_HINT
                    raise GraphDoctorError(
                        f"Can't use {self.elsewhere}: {error_summary(error)}.", hint=hint
                    ) from error
            ray.shutdown()
            time.sleep(_PAUSE_S)


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
        raise GraphDoctorError(
            f"{address} isn't the address of a Ray cluster.", hint="It's like ray://head:10001."
        )
    reason = None
    try:
        socket.create_connection((host, port), timeout=_ANSWER_S).close()
    except OSError as error:
        reason = error.strerror or str(error)
    if (
        reason is None
        and "RAY_USE_TLS" not in os.environ
        and not _is_ray(host, port, is_client="//" in address)
    ):
        reason = "what listens there isn't Ray"
    if reason is not None:
        raise GraphDoctorError(
            f"There is no answer from a Ray cluster at {address}: {reason}.",
            hint="Is it running, and can this machine reach it? ray://HOST:10001 is Ray Client's usual address.",
        )


def _is_ray(host: str, port: int, *, is_client: bool) -> bool:
    """Whether what listens can be Ray: the cluster's own port says how it is, Ray Client's answers
    as gRPC does.
    """
    import grpc

    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    with grpc.insecure_channel(place, options=[("grpc.enable_http_proxy", 0)]) as channel:
        try:
            channel.unary_unary("/grpc.health.v1.Health/Check")(
                b"", timeout=_ANSWER_S, wait_for_ready=True
            )
        except grpc.RpcError as error:
            silent = {grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE}
            return error.code() not in (
                silent if is_client else {*silent, grpc.StatusCode.UNIMPLEMENTED}
            )
    return True


@dataclass
class _Pending:
    """Pieces that were handed to Ray, which calls it on a node, in the folder or, for None, where
    it is.
    """

    _ray: Any
    _there: Any
    _folder: str | None
    _job: Job
    _question: Any = None
    _indices: dict[Any, int] = field(default_factory=dict)
    _begun: set[int] = field(default_factory=set)
    _has_succeeded: bool = False
    _hopeless_since: float | None = None

    @cached_property
    def _beginnings(self) -> Any:  # noqa: ANN401
        return None if self._job.on_begin is None else _beginnings(self._ray)

    def outcomes(self, at_once: int | None) -> Iterator[Outcome[Any]]:
        waiting, at_work = deque(range(len(self._job.pieces))), self._indices.values()
        while waiting or self._indices:
            while (at_once is None or len(at_work) < at_once) and self._job.may_begin(
                waiting, at_work
            ):
                index = waiting.popleft()
                # Nodes get one piece each, and what is to be told here stays here.
                sent = replace(self._job, pieces=[self._job.pieces[index]], on_begin=None)
                packed = pickle.dumps(sent, pickle.HIGHEST_PROTOCOL)
                self._indices[
                    self._there.remote(__version__, self._folder, packed, self._beginnings, index)
                ] = index
            yield from self._next()

    def _next(self) -> Iterator[Outcome[Any]]:
        wait_s = _REPORT_S if self._beginnings is not None else _LOOK_S
        ready, _ = self._ray.wait(list(self._indices), num_returns=1, timeout=wait_s)
        self._report_beginnings()
        if not ready:
            yield from self._hopeless()
            return
        index = self._indices[ready[0]]
        found = self._found(ready[0])
        if index not in self._begun:
            self._report_beginnings()
        # What is lost may never have begun.
        if index not in self._begun and not (isinstance(found, Failure) and found.kind == "lost"):
            self._job.begin(index)
        del self._indices[ready[0]]
        yield index, found

    def _found(self, reference: Any) -> Any:  # noqa: ANN401
        errors = self._ray.exceptions
        try:
            version, answer = self._ray.get(reference)
        except errors.RayError as error:
            summary = error_summary(error)
            if isinstance(error, errors.RuntimeEnvSetupError) and not self._has_succeeded:
                reason = f"Ray can't set up the runtime environment: {summary}."
                raise GraphDoctorError(reason, hint=_ENVIRONMENT_HINT) from error
            if isinstance(error, errors.RayTaskError):
                # Outside the work: what it needs can't be imported there.
                return Failure("lost", f"its node can't work on it: {summary}")
            is_memory = isinstance(error, errors.OutOfMemoryError)
            return Failure("memory" if is_memory else "lost", f"Ray gave it up: {summary}")
        if version != __version__:
            found = "isn't installed" if version is None else f"is {version}, not {__version__}"
            raise GraphDoctorError(
                f"On a node of the Ray cluster, graphdoctor {found}.",
                hint=f"Install graphdoctor {__version__} in the environment of each node.",
            )
        self._has_succeeded = True
        return unpacked(answer)

    def _report_beginnings(self) -> None:
        """Tell what nodes say has begun; an actor that a node took along doesn't answer for a
        while.

        Each answer is given once, so one that is late is waited for and not asked for again.
        """
        if self._beginnings is None:
            return
        question = self._beginnings.taken.remote() if self._question is None else self._question
        ready, _ = self._ray.wait([question], timeout=_REPORT_S)
        self._question = None if ready else question
        with contextlib.suppress(self._ray.exceptions.RayError):
            for index, place in self._ray.get(question) if ready else ():
                # A report may come after the outcome of another attempt.
                if index in self._indices.values():
                    self._begun.add(index)
                    self._job.begin(index, place)

    def _hopeless(self) -> Iterator[Outcome[Any]]:
        """Give up if no node has what a piece needs, and none has come for a while: Ray would wait
        forever.
        """
        share, now = self._job.share, time.monotonic()
        if share is None or _can_give(self._ray, share):
            self._hopeless_since = None
        elif self._hopeless_since is None:
            self._hopeless_since = now
        elif now - self._hopeless_since > _PATIENCE_S:
            for reference, index in list(self._indices.items()):
                del self._indices[reference]
                self._ray.cancel(reference, force=True)
                yield (
                    index,
                    Failure("lost", f"no node of the Ray cluster has {_words(share)} any more"),
                )


def _can_give(ray: Any, share: Share) -> bool:  # noqa: ANN401
    wanted = {"CPU": share.cpus or 1, "GPU": share.gpus or 0, "memory": share.memory_bytes or 0}
    return any(
        node["Alive"]
        and all(node["Resources"].get(name, 0) >= count for name, count in wanted.items())
        for node in ray.nodes()
    )


def _words(share: Share) -> str:
    parts = [counted(share.cpus or 1, "core")]
    if share.gpus:
        parts.append(counted(share.gpus, "GPU"))
    if share.memory_bytes:
        parts.append(f"{bytes_text(share.memory_bytes)} of memory")
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))


def _beginnings(ray: Any) -> Any:  # noqa: ANN401
    """An actor that nodes tell what they begin, near this process, which asks it. A node may take
    it along.
    """

    class Beginnings:
        def __init__(self) -> None:
            self.waiting: list[tuple[int, str]] = []

        def add(self, index: int, place: str) -> None:
            self.waiting.append((index, place))

        def taken(self) -> list[tuple[int, str]]:
            taken, self.waiting = self.waiting, []
            return taken

    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
    return (
        ray.remote(Beginnings)
        .options(num_cpus=0, max_restarts=-1, scheduling_strategy=here)
        .remote()
    )


def error_summary(error: Exception) -> str:
    """The line of an error of Ray's that says what is wrong: the last one where it is a traceback
    of a node's.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [
        type(error).__name__
    ]
    return lines[-1 if any(line.startswith('File "') for line in lines) else 0].rstrip(".")


# On a node.


def _remote_work() -> Callable[..., tuple[str | None, bytes]]:
    """What Ray calls on a node: pickled by its code, as a node without graphdoctor couldn't find it
    by its name.
    """

    def work_there(
        version: str,
        folder: str | None,
        packed: bytes,
        beginnings: Any,  # noqa: ANN401
        index: int,
    ) -> tuple[str | None, bytes]:
        import contextlib
        import os
        import pickle

        try:
            from graphdoctor import __version__
        except ImportError:
            return None, b""
        if __version__ != version:
            return __version__, b""
        import ray

        from graphdoctor.executors.on_ray import packed_outcome

        # Paths are as seen from where the command was given.
        if folder is not None:
            with contextlib.suppress(OSError):
                os.chdir(folder)

        def on_begin(_index: int, name: str | None) -> None:
            if beginnings is not None:
                node = ray.util.get_node_ip_address()
                beginnings.add.remote(index, node if name is None else f"{node}, {name}")

        return __version__, packed_outcome(pickle.loads(packed), on_begin)

    return work_there


def packed_outcome(job: Job, on_begin: Callable[[int, str | None], None]) -> bytes:
    """The outcome of a job's only piece, packed; ``on_begin`` takes the name of what it has of this
    machine.
    """
    (piece,) = job.pieces
    share = job.share
    if share is None:
        on_begin(0, None)
        return packed_attempt(job.work, piece)

    def work_apart(slot: Slot) -> object:
        ((_, found),) = Supervisors(replace(job, on_begin=on_begin), lambda: True).outcomes([slot])
        return found

    named = os.environ.get(GPU_VARIABLE)
    given = None if named is None else tuple(filter(None, named.split(",")))
    with claimed_cores(share.cpus) as claimed:
        return packed_attempt(
            work_apart,
            Slot(1, claimed, given if share.gpus else None if share.gpus is None else ()),
        )


@contextlib.contextmanager
def claimed_cores(
    count: int | None, folder: Path | None = None
) -> Iterator[tuple[int, ...] | None]:
    """So many cores that nobody else who asks here has meanwhile; None where there are none, or
    none can be pinned.
    """
    machine = this_machine()
    if count is None or not machine.can_pin:
        yield None
        return
    if folder is None:
        folder = (
            Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir())
            / f"graphdoctor-cores-{os.getuid()}"
        )
    with contextlib.ExitStack() as locks:
        yield _claim(core_groups(machine.siblings, count), folder, locks)


def _claim(
    groups: list[tuple[int, ...]], folder: Path, locks: contextlib.ExitStack
) -> tuple[int, ...] | None:
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if found.st_uid != os.getuid() or not stat.S_ISDIR(found.st_mode):
            # Anybody can make what lies in a folder for all; what it leads to isn't touched.
            return None
        with contextlib.ExitStack() as turn:
            # One after the other: two that each hold half a group would both go without.
            _lock(folder / "turn", turn, wait=True)
            for group in groups:
                with contextlib.ExitStack() as claim, contextlib.suppress(BlockingIOError):
                    for core in group:
                        _lock(folder / str(core), claim)
                    locks.push(claim.pop_all())
                    return group
    return None


def _lock(path: Path, holder: contextlib.ExitStack, *, wait: bool = False) -> None:
    import fcntl

    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    holder.callback(os.close, descriptor)
    fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
