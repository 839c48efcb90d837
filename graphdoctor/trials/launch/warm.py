"""Starts probes from one process that has imported torch.

Each is as if it had been started anew, but sooner. ``graphdoctor/probe/ways_in/warm.py`` is the
other side. Linux
only: it needs to pass on open files and to wait for a process that isn't our child.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

from graphdoctor.probe.wire import WARM_ARGUMENT, WarmRequest
from graphdoctor.trials.launch.lifeline import Lifeline

_END_S = 1.0
_INDUCTOR = "inductor"


class _Imports(NamedTuple):
    """The imports of a warm process beside torch: the program's packages, Inductor."""

    has_packages: bool
    has_inductor: bool


_NOTHING = _Imports(has_packages=False, has_inductor=False)


@dataclass
class WarmProcess:
    """A probe that was forked; what ``subprocess.Popen`` is to one that was started."""

    pid: int
    stdout: IO[bytes]
    _answer: socket.socket
    returncode: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; its exit status, negative for a signal."""
        if self.returncode is None:
            ready, _, _ = select.select([self._answer], [], [], timeout)
            if not ready:
                raise subprocess.TimeoutExpired("probe", timeout or 0.0)
            text = b""
            with contextlib.suppress(OSError):
                text = self._answer.recv(32)
            # Without an answer, the process that forked it was killed, and took it along.
            self.returncode = int(text) if text else -signal.SIGKILL
            self._answer.close()
        return self.returncode


class WarmProbes:
    """Forks probes, from several threads at once."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = [*command, WARM_ARGUMENT]
        self._lock = threading.Lock()
        self._server: subprocess.Popen[bytes] | None = None
        self._requests: socket.socket | None = None
        self._modules: dict[str, str] = {}
        self._branches: dict[_Imports, socket.socket] = {}
        self._broken: set[_Imports] = set()
        self._closing = contextlib.ExitStack()
        self.is_usable = sys.platform == "linux"

    def close(self) -> None:
        """Stop the process, and probes that still run."""
        for requests in filter(None, (*reversed(self._branches.values()), self._requests)):
            with requests, contextlib.suppress(OSError):
                requests.shutdown(socket.SHUT_WR)
                requests.settimeout(_END_S)
                # Until it has stopped its probes, unless it is still importing.
                requests.recv(1)
        if self._server is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._server.pid, signal.SIGKILL)
            self._server.wait()
        self._closing.close()

    def start(
        self,
        request: Path,
        *,
        backend: str,
        environment: dict[str, str],
        descriptors: Sequence[int],
        held: int,
        timeout_s: float | None = None,
        library: str | None = None,
        folder: Path | None = None,
    ) -> WarmProcess | None:
        """Fork a probe; None where it can't be, so that it must be started.

        ``folder``: its working directory; None for ours.
        """
        with self._lock:
            main = self._connected(environment)
            if main is None:
                return None
            asked = WarmRequest(
                path=str(request),
                library=library,
                folder=str(folder or Path.cwd()),
                inherited=list(descriptors),
                modules=[],
                has_inductor=False,
            )
            imports = _Imports(
                bool(self._modules) and not self._is_edited(request), backend == _INDUCTOR
            )
            if imports != _NOTHING and imports not in self._broken:
                process = _forked(self._branched(main, imports), asked, held, timeout_s)
                if isinstance(process, WarmProcess):
                    return process
                # Something that it imported may have started a thread.
                self._broken.add(imports)
            process = _forked(main, asked, held, timeout_s)
            if isinstance(process, OSError):  # the server is gone, or has been asked for too long
                self.is_usable = False
                if self._server is not None:
                    self._server.kill()
            return process if isinstance(process, WarmProcess) else None

    def prepare(self, reads: Path, backend: str) -> None:
        """Have what probes need imported meanwhile, if any have been forked yet.

        Args:
            reads: The ``reads.json`` of a run of the program, whose imports they need.
            backend: What they compile with.
        """
        with self._lock:
            if self._requests is not None:
                modules: dict[str, str] = {}
                with contextlib.suppress(OSError, ValueError, KeyError):  # it didn't get so far
                    modules = json.loads(reads.read_bytes())["modules"]
                # What was imported for another program isn't for this one.
                self._modules = modules if not self._branches or modules == self._modules else {}
                self._branched(self._requests, _Imports(bool(self._modules), backend == _INDUCTOR))

    def _is_edited(self, request: Path) -> bool:
        trial = json.loads(request.read_bytes()).get("trial") or {}
        return not set(self._modules.values()).isdisjoint(trial.get("patches") or ())

    def _branched(self, main: socket.socket, imports: _Imports) -> socket.socket:
        """Connect to a process that forks probes which have imported more."""
        if imports == _NOTHING:
            return main
        if imports not in self._branches:
            parent = (
                self._branched(main, imports._replace(has_inductor=False))
                if imports.has_inductor
                else main
            )
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            modules = [] if imports.has_inductor else list(self._modules)
            asked = WarmRequest(
                path=None,
                library=None,
                folder=None,
                inherited=[],
                modules=modules,
                has_inductor=imports.has_inductor,
            )
            with (
                theirs,
                contextlib.suppress(OSError),
            ):  # asking it for a probe will show that it isn't there
                socket.send_fds(parent, [json.dumps(asked).encode()], [theirs.fileno()])
            self._branches[imports] = ours
        return self._branches[imports]

    def _connected(self, environment: dict[str, str]) -> socket.socket | None:
        if self.is_usable and self._server is None:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            lifeline = self._closing.enter_context(Lifeline())
            with theirs:
                try:
                    self._server = subprocess.Popen(
                        [*self._command, str(theirs.fileno())],
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL,
                        env=environment,
                        process_group=0,
                        pass_fds=[theirs.fileno(), lifeline.descriptor],
                    )
                    # It notices by itself that we are gone, but not while it imports torch.
                    lifeline.hold(-self._server.pid)
                except OSError:  # the same error is reported of the probe itself
                    self.is_usable = False
                    ours.close()
                    return None
            self._requests = ours
        return self._requests if self.is_usable else None


def _forked(
    requests: socket.socket, asked: WarmRequest, held: int, timeout_s: float | None
) -> WarmProcess | OSError | None:
    ours, theirs = socket.socketpair()
    reading, writing = os.pipe()
    stdout = os.fdopen(reading, "rb", buffering=0)
    failed: OSError | None = None
    pid = b""
    ours.settimeout(timeout_s)
    try:
        with theirs, os.fdopen(writing, "wb"):
            open_files = [theirs.fileno(), writing, held, *asked["inherited"]]
            socket.send_fds(requests, [json.dumps(asked).encode()], open_files)
        # An interpreter without torch ends before it answers.
        pid = ours.makefile("rb", buffering=0).readline()
    except OSError as error:
        failed = error
    if not pid:
        ours.close()
        stdout.close()
        return failed
    ours.settimeout(None)
    return WarmProcess(int(pid), stdout, ours)
