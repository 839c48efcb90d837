"""Lints texts in a process of its own, which ends when this one does: its standard input is closed
then.
"""

from __future__ import annotations

import asyncio
import functools
import pickle
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from graphdoctor.facts.check import LintReport
from graphdoctor.fixes.lint import lint_files
from graphdoctor.fixes.lint.run import switches_in
from graphdoctor.rules.gate.check import Policy
from graphdoctor.version import __version__

_LENGTH = 8
"""Bytes before a message, which say how long it is."""
_COMMAND = "from graphdoctor.servers.lsp.linter import serve; serve()"
_KNOWN = functools.lru_cache(maxsize=64)(switches_in)
"""The settings that a project's files change: looked for again when a file is saved."""


class Linter:
    """The process, started when it is needed and again if it died."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()
        self._saves = 0

    def saved(self) -> None:
        """Files changed on disk."""
        self._saves += 1

    async def lint(
        self, path: Path, text: str, root: Path, policies: Sequence[Policy]
    ) -> LintReport | None:
        """Return what lint finds in the text of a file; None if the process died over it."""
        message = pickle.dumps((path, text, root, tuple(policies), self._saves))
        # An answer that nobody waits for any more is read all the same, or the next request would
        # get it.
        return await asyncio.shield(self._answer(message))

    async def _answer(self, message: bytes) -> LintReport | None:
        async with self._turn:
            if self._process is None or self._process.returncode is not None:
                self._process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-P",
                    "-c",
                    _COMMAND,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                )
            assert self._process.stdin is not None and self._process.stdout is not None
            with suppress(OSError, asyncio.IncompleteReadError):
                self._process.stdin.write(len(message).to_bytes(_LENGTH) + message)
                await self._process.stdin.drain()
                size = int.from_bytes(await self._process.stdout.readexactly(_LENGTH))
                report: LintReport = pickle.loads(await self._process.stdout.readexactly(size))
                return report
            return None

    async def close(self) -> None:
        """End it, and wait until it has ended: no later collection of garbage finds it half
        closed.
        """
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


def serve() -> None:
    """Answer until standard input ends."""
    answers, saves = sys.stdout.buffer, 0
    sys.stdout = sys.stderr
    while head := sys.stdin.buffer.read(_LENGTH):
        path, text, root, policies, saved = pickle.loads(
            sys.stdin.buffer.read(int.from_bytes(head))
        )
        if saved != saves:
            saves = saved
            _KNOWN.cache_clear()
        report = lint_files(
            [path],
            root=root,
            version=__version__,
            policies=policies,
            texts={path: text},
            switches=lambda folder, names: _KNOWN(folder, frozenset(names)),
        )
        message = pickle.dumps(report)
        answers.write(len(message).to_bytes(_LENGTH) + message)
        answers.flush()
