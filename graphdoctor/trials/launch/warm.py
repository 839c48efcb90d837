"""Starts probes from one process that has imported torch.

Each is as if it had been started anew, but sooner. ``graphdoctor/probe/ways_in/warm.py`` is the other side. Linux
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
from typing import IO

from graphdoctor.probe.wire import WARM_ARGUMENT, WarmRequest
from graphdoctor.trials.launch.lifeline import Lifeline

_END_S = 1.0
_INDUCTOR = "inductor"


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
        self._of_inductor: socket.socket | None = None
        self._closing = contextlib.ExitStack()
        self._is_usable = sys.platform == "linux"

    def close(self) -> None:
        """Stop the process, and probes that still run."""
        for requests in filter(None, (self._of_inductor, self._requests)):
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
    ) -> WarmProcess | None:
        """Fork a probe; None where it can't be, so that it must be started."""
        with self._lock:
            requests = self._connected(environment)
            if requests is not None and backend == _INDUCTOR:
                requests = self._branched(requests)
            if requests is None:
                return None
            ours, theirs = socket.socketpair()
            reading, writing = os.pipe()
            asked = WarmRequest(path=str(request), library=library, inherited=list(descriptors))
            content = json.dumps(asked).encode()
            stdout = os.fdopen(reading, "rb", buffering=0)
            pid = b""
            ours.settimeout(timeout_s)
            try:
                with theirs, os.fdopen(writing, "wb"):
                    socket.send_fds(requests, [content], [theirs.fileno(), writing, held, *descriptors])
                # An interpreter without torch ends before it answers.
                pid = ours.makefile("rb", buffering=0).readline()
            except OSError:  # the server is gone, or has been asked for too long
                self._is_usable = False
                if self._server is not None:
                    self._server.kill()
        if not pid:
            ours.close()
            stdout.close()
            return None
        ours.settimeout(None)
        return WarmProcess(int(pid), stdout, ours)

    def prepare(self, backend: str) -> None:
        """Have what probes with a backend need imported meanwhile, if any have been forked yet."""
        with self._lock:
            if self._requests is not None and backend == _INDUCTOR:
                self._branched(self._requests)

    def _branched(self, requests: socket.socket) -> socket.socket:
        """Where to ask for probes that have imported Inductor."""
        if self._of_inductor is None:
            self._of_inductor, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            asked = WarmRequest(path=None, library=None, inherited=[])
            with theirs, contextlib.suppress(OSError):  # asking it for a probe will show that it's gone
                socket.send_fds(requests, [json.dumps(asked).encode()], [theirs.fileno()])
        return self._of_inductor

    def _connected(self, environment: dict[str, str]) -> socket.socket | None:
        if self._is_usable and self._server is None:
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
                    self._is_usable = False
                    ours.close()
                    return None
            self._requests = ours
        return self._requests if self._is_usable else None
