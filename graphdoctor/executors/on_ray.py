"""Works on pieces on a Ray cluster, which places them, tries again when a worker or a node ends,
and gives up.

The only module that imports ray, and only when it runs. Nodes run their own graphdoctor, of the
same version.
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
import pickle
import socket
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from graphdoctor.errors import GraphDoctorError, missing_package
from graphdoctor.executors.executor import (
    Environment,
    Executor,
    Failure,
    OnBegin,
    Outcome,
    Share,
    unpacked,
)
from graphdoctor.executors.machine import cores
from graphdoctor.facts.base import Fields
from graphdoctor.version import __version__
from graphdoctor.wording import bytes_text, counted

_ANSWER_S = 5.0
_RETRIES = 3
"""How often Ray begins a piece again whose worker or node ended; its own default."""

_PAUSE_S = 2.0
_ENVIRONMENT_HINT = "Nodes need the package index for pip, and room for a copy of the folders."


@dataclass(frozen=True)
class OnRay(Executor):
    """A Ray cluster: its address, None to start one here, and how many pieces it gets at once, None
    for all.
    """

    address: str | None
    at_once: int | None = None
    runtime_env: Environment | None = None

    @property
    def cluster(self) -> str:  # type: ignore[override]
        """See ``Executor``."""
        place = "of this machine" if self.address is None else f"at {self.address}"
        return f"the Ray cluster {place}"

    def run(
        self,
        work: Callable[[Any], Any],
        pieces: Sequence[Any],
        *,
        share: Share | None = None,
        on_begin: OnBegin | None = None,  # noqa: ARG002 - where a piece begins is Ray's business
    ) -> Iterator[Outcome[Any]]:
        """See ``Executor``."""
        with self._connected(share) as ray:
            options: Fields = {"max_retries": _RETRIES}
            if share is not None:
                _check_share(ray, share)
                options |= {"num_cpus": share.cpus, "num_gpus": share.gpus}
                options["memory"] = share.memory_bytes
            there = ray.remote(_remote_work()).options(**options)
            has_folder = self.runtime_env is not None and self.runtime_env.working_dir
            folder = None if has_folder else str(Path.cwd())
            hides_gpus = share is not None and share.gpus == 0
            waiting, running = deque(enumerate(pieces)), dict[Any, int]()
            while waiting or running:
                while waiting and len(running) < (self.at_once or len(pieces)):
                    index, piece = waiting.popleft()
                    packed = pickle.dumps((work, piece))
                    running[there.remote(__version__, folder, packed, hides_gpus)] = index
                (reference,), _ = ray.wait(list(running), num_returns=1)
                yield running.pop(reference), _outcome(ray, reference)

    @contextlib.contextmanager
    def _connected(self, share: Share | None) -> Iterator[Any]:
        """Connect to Ray; the end of the connection ends what is at work through it."""
        if importlib.util.find_spec("ray") is None:
            raise missing_package("--on", "ray", "ray")
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

    def _connect(self, ray: Any, share: Share | None) -> None:  # noqa: ANN401 - an untyped module
        options = {"log_to_driver": False, "logging_level": "ERROR", "address": self.address}
        if self.runtime_env is not None:
            options["runtime_env"] = {
                name: list(value) if isinstance(value, tuple) else value
                for name, value in vars(self.runtime_env).items()
                if value
            }
        if self.address is None:
            count = self.at_once if share is None else cores()
            options |= {"address": "local", "num_cpus": count, "include_dashboard": False}
        else:
            _check_answer(self.address)
        try:
            with warnings.catch_warnings(action="ignore"):
                try:
                    ray.init(**options)
                except ConnectionAbortedError:
                    # The server that Ray starts for a client dies in 4 of 60 connections: gRPC in
                    # its proxy is forked while it is called (Ray 2.60).
                    ray.shutdown()
                    time.sleep(_PAUSE_S)
                    ray.init(**options)
        except Exception as error:
            hint = None if self.runtime_env is None else _ENVIRONMENT_HINT
            raise GraphDoctorError(
                f"Can't use {self.cluster}: {error_summary(error)}.", hint=hint
            ) from error


def _check_answer(address: str) -> None:
    """Check that somebody listens; Ray itself tries for a minute."""
    if address == "auto":
        return
    url = urlsplit(address if "//" in address else f"//{address}")
    try:
        socket.create_connection((url.hostname or "", url.port or 0), timeout=_ANSWER_S).close()
    except (OSError, ValueError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise GraphDoctorError(
            f"There is no answer from a Ray cluster at {address}: {reason}.",
            hint="Is it running, and can this machine reach it? "
            "ray://HOST:10001 is Ray Client's usual address.",
        ) from error


def _check_share(ray: Any, share: Share) -> None:  # noqa: ANN401 - as above
    needs = {"CPU": share.cpus or 1, "GPU": share.gpus or 0, "memory": share.memory_bytes or 0}
    nodes = (node["Resources"] for node in ray.nodes() if node["Alive"])
    if not any(all(node.get(name, 0) >= needs[name] for name in needs) for node in nodes):
        parts = [counted(share.cpus or 1, "core")]
        parts += [counted(math.ceil(share.gpus), "GPU")] if share.gpus else []
        parts += [f"{bytes_text(share.memory_bytes)} of memory"] if share.memory_bytes else []
        raise GraphDoctorError(
            f"Each piece needs {' and '.join(parts)}, but no node of the Ray cluster has that.",
            hint="ray status shows the nodes; start one that is large enough, or ask for less.",
        )


def _outcome(ray: Any, reference: Any) -> Any:  # noqa: ANN401 - as above
    errors = ray.exceptions
    try:
        version, packed = ray.get(reference)
    except errors.RuntimeEnvSetupError as error:
        raise GraphDoctorError(
            f"Ray can't set up the runtime environment: {error_summary(error)}.",
            hint=_ENVIRONMENT_HINT,
        ) from error
    except errors.OutOfMemoryError as error:
        return Failure("memory", f"Ray gave it up: {error_summary(error)}")
    except errors.RayError as error:
        return Failure("lost", f"Ray gave it up: {error_summary(error)}")
    if version != __version__:
        state = "isn't installed" if version is None else f"is {version}, not {__version__}"
        raise GraphDoctorError(
            f"On a node of the Ray cluster, graphdoctor {state}.",
            hint=f"Install graphdoctor {__version__} in the environment of each node.",
        )
    return unpacked(packed)


def error_summary(error: Exception) -> str:
    """Return the line of an error of Ray's that says what is wrong: the last one of a traceback."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    is_traceback = any(line.startswith('File "') for line in lines)
    return lines[-1 if is_traceback else 0].rstrip(".") if lines else type(error).__name__


def _remote_work() -> Callable[..., tuple[str | None, bytes]]:
    """Return what Ray calls on a node, pickled by its code: a node without graphdoctor couldn't
    find it by its name.
    """

    def work_there(
        version: str, folder: str | None, packed: bytes, hides_gpus: bool
    ) -> tuple[str | None, bytes]:
        import contextlib
        import os
        import pickle

        try:
            from graphdoctor.version import __version__
        except ImportError:
            return None, b""
        if __version__ != version:
            return __version__, b""

        from graphdoctor.executors.executor import packed_attempt

        # Paths are as seen from where the command was given.
        if folder is not None:
            with contextlib.suppress(OSError):
                os.chdir(folder)
        if hides_gpus:
            os.environ["CUDA_VISIBLE_DEVICES"] = ""
        return __version__, packed_attempt(*pickle.loads(packed))

    return work_there
