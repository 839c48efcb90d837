"""Runs a command of graphdoctor as a child process, in a group of its own that ends with the
request and with us.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

import anyio
from anyio.abc import ByteReceiveStream, Process

from graphdoctor.facts.progress import PHASES_VARIABLE
from graphdoctor.trials.launch.lifeline import Lifeline
from graphdoctor.views.printable import printable

_GRACE_S = 5.0
"""How long a command may take to stop its own children after it was told to end."""
_BEAT_S = 1.0
_LAST_BYTES = 4096
"""How much of standard error is kept."""

Report = Callable[[float, str], Awaitable[None]]
"""Takes the seconds so far and what is being done."""


Ended = tuple[int, bytes, tuple[str, ...]]
"""A command's status, its standard output, and the last lines of standard error, the program's own
among them."""


async def _unreported(_seconds: float, _doing: str) -> None: ...


async def run_command(
    arguments: Sequence[str], folder: Path, report: Report = _unreported, stdin_bytes: bytes = b""
) -> Ended:
    """Run ``graphdoctor ARGUMENTS`` in a folder; when the caller is cancelled, the command and its
    group end.

    Args:
        arguments: The command, and what it is given.
        folder: Where it runs.
        report: Told what it does, at least once a second.
        stdin_bytes: Its standard input.
    """
    reading, writing = os.pipe()
    with Lifeline() as lifeline, os.fdopen(reading, "rb", 0), os.fdopen(writing, "wb", 0) as phases:
        process = await anyio.open_process(
            # -P, so that no file of the folder hides a module of Python.
            [sys.executable, "-P", "-m", "graphdoctor", *arguments],
            env=os.environ | {PHASES_VARIABLE: str(writing), "NO_COLOR": "1"},
            cwd=folder,
            start_new_session=True,
            pass_fds=(writing, lifeline.descriptor),
        )
        lifeline.hold(-process.pid)
        phases.close()
        stdout, stderr = bytearray(), bytearray()
        try:
            async with anyio.create_task_group() as watching:
                watching.start_soon(_follow, reading, report)
                async with anyio.create_task_group() as streams:
                    streams.start_soon(_collect, process.stdout, stdout)
                    streams.start_soon(_collect, process.stderr, stderr, _LAST_BYTES)
                    with suppress(anyio.BrokenResourceError):
                        await process.stdin.send(stdin_bytes)
                    await process.stdin.aclose()
                status = await process.wait()
                watching.cancel_scope.cancel()
        finally:
            await _end(process)
    return (
        status,
        bytes(stdout),
        tuple(map(printable, stderr.decode(errors="replace").splitlines())),
    )


async def _follow(phases: int, report: Report) -> None:
    began, doing = time.monotonic(), "starting"
    while True:
        await report(time.monotonic() - began, doing)
        with anyio.move_on_after(_BEAT_S):
            await anyio.wait_readable(phases)
            if text := os.read(phases, 65536):
                doing = printable(text.decode(errors="replace").splitlines()[-1])
            else:
                await anyio.sleep(_BEAT_S)


async def _collect(stream: ByteReceiveStream, into: bytearray, most: int = sys.maxsize) -> None:
    async for chunk in stream:
        into += chunk
        del into[:-most]


async def _end(process: Process) -> None:
    """Tell the command to end, which stops what it started, and kill its group if it doesn't."""
    with anyio.CancelScope(shield=True):
        if process.returncode is None:
            process.terminate()
            with anyio.move_on_after(_GRACE_S):
                await process.wait()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.aclose()
