"""A Python that forks instead of starting anew, for tests that start many probes and commands.

Importing torch takes ten times as long as what most programs in these tests do. A server imports it
once, and ``Forking.python`` is a program that takes an interpreter's arguments. Started as the
server was, with other arguments at the end, that program has a child forked; from the first line of
the main script on everything is as always: a process of its own with its own Dynamo, environment,
directory, files, signals and end. A server with torch also runs scripts, ``script.py`` and its
arguments, and one that was started for ``graphdoctor run`` runs those as that command has them run,
as if another start-up file had imported torch. Started in another way, in another session, with a
variable that Python or torch reads when it starts, or before the server, it becomes the interpreter
itself. Needs Linux. May import the standard library only.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

_HERE = Path(__file__).resolve().parent
_PROBE = _HERE.parent.parent / "graphdoctor" / "probe"
_START_S = 120
BRIEF = "_TESTS_FORKING_BRIEF"
"""A variable of a forked ``graphdoctor`` that takes fewer and shorter turns
(``sitecustomize.py``)."""


class Forking:
    """A server, once it is started, and the way to it.

    Args:
        command: An interpreter's options and main script or module, the same for all children.
        load: What the server imports before it forks; ``scripts`` is torch, for the scripts of
            ``graphdoctor run``.
        environment: What it is started with, ``PYTHONPATH`` included.
        executable: ``sys.executable`` of the children; None for the interpreter's own.
        others: Servers to ask for what this one doesn't fork.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        load: Literal["torch", "packages", "scripts", "graphdoctor"],
        environment: Mapping[str, str],
        executable: Path | None = None,
        others: Sequence[Forking] = (),
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="forking")
        self._socket = Path(self._folder.name) / "socket"
        self._command = [sys.executable, *command, "none"]
        self._environment = {
            **environment,
            "PYTHONPATH": os.pathsep.join([str(_HERE), environment["PYTHONPATH"]]),
            "_TESTS_FORKING_SOCKET": str(self._socket),
            "_TESTS_FORKING_LOAD": load,
            "_TESTS_FORKING_PROBE": str(_PROBE),
            **({} if executable is None else {"_TESTS_FORKING_EXECUTABLE": str(executable)}),
        }
        self._server: subprocess.Popen[bytes] | None = None
        self.python = Path(self._folder.name) / "python"
        """What to start instead of ``sys.executable``."""
        sockets = os.pathsep.join(str(server._socket) for server in (self, *others))
        client = [sys.executable, "-IS", str(_HERE / "client.py"), sockets]
        self.python.write_text(f'#!/bin/sh\nexec {shlex.join(client)} "$@"\n')
        self.python.chmod(0o755)

    def start(self) -> None:
        """Start the server unless it runs already."""
        if self._server is not None:
            return
        # Pipes, as most of its children have: Python asks a stream once, when it starts, whether it
        # can seek.
        self._server = subprocess.Popen(
            self._command,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        deadline = time.monotonic() + _START_S
        while not self._socket.exists():
            if self._server.poll() is not None or time.monotonic() > deadline:
                self._server.kill()
                raise RuntimeError(
                    f"the forking Python did not start: {self._server.communicate()[0]!r}"
                )
            time.sleep(0.02)

    def close(self) -> None:
        """End the server, which ends when its standard input does."""
        if self._server is not None:
            with self._server:
                pass
        self._folder.cleanup()
