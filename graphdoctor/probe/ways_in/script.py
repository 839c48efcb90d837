"""Where a program that runs by itself becomes a recording, in its main process and in those it
starts.

Everything hangs on torch being imported, which imports ``recorder.py``; until then nothing but
``os``, ``sys`` and ``atexit`` is needed, so that a program without torch waits for nothing else.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys

from ..file_names import EVENTS_FILE, RUN_CHANGE_VARIABLE
from ..torch_private.imports import AfterImport
from .process import hold

TYPE_CHECKING = False  # typing would be most of what a program without torch waits for
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from ..wire import RunChange
    from .recorder import Recorder

_HOOKED = (
    "torch",
    "torch._dynamo.convert_frame",
    "torch._dynamo.eval_frame",
    "torch._dynamo.output_graph",
    "torch._inductor.compiler_bisector",
)
"""Modules that ``Recorder`` hooks once they are there."""


def begin(recording: str) -> None:
    """Get ready for torch; called once at Python's start."""
    hold(recording)
    path = os.path.join(recording, EVENTS_FILE)  # noqa: PTH118 - pathlib takes longer than all of this
    program = _Program(recording, path, is_main=_claim(path))
    watched: dict[str, Callable[[ModuleType], None]] = dict.fromkeys(_HOOKED, program.on_import)
    if (change := os.environ.get(RUN_CHANGE_VARIABLE)) is not None:
        watched |= program.changed(change)
    for name, callback in list(watched.items()):
        if (loaded := sys.modules.get(name)) is not None:  # another start-up file imported it
            callback(loaded)
            del watched[name]
    sys.meta_path.insert(0, AfterImport(watched))
    if program.is_main:
        atexit.register(program.end)


def _claim(path: str) -> bool:
    """Make the event file; the first Python of the program does, and that is the main process."""
    first = b'{"event": "process", "pid": %d}\n' % os.getpid()
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        # A program may replace itself by another Python (os.execv): the process is the same.
        with open(path, "rb") as events:  # noqa: PTH123
            return events.readline() == first
    os.write(descriptor, first)
    os.close(descriptor)
    return True


class _Program:
    def __init__(self, recording: str, event_path: str, *, is_main: bool) -> None:
        self.is_main = is_main
        self._recording = recording
        self._event_path = event_path
        self._pid = os.getpid()
        self._change: RunChange | None = None
        self._recorder: Recorder | None = None
        self._waiting: list[str] = []

    def changed(self, text: str) -> dict[str, Callable[[ModuleType], None]]:
        """Apply the change under which a script is run again, once torch's modules are there."""
        import json
        from functools import partial

        change: RunChange = json.loads(text)
        self._change = change
        values: dict[str, list[tuple[str, object]]] = {}
        for dotted, value in change["settings"]:
            module, _, name = dotted.rpartition(".")
            values.setdefault(module, []).append((name, value))
        return {module: partial(_set, values=found) for module, found in values.items()}

    def on_import(self, module: ModuleType) -> None:
        """Have the recorder hook a module once torch itself is there; no error of ours may reach
        the program.
        """
        self._waiting.append(module.__name__)
        with contextlib.suppress(Exception):
            if module.__name__ == "torch":
                from .recorder import Recorder

                self._recorder = Recorder(
                    self._recording, self._event_path, self._change, is_main=self.is_main
                )
            if self._recorder is not None:
                # Torch itself first, which has imported the others.
                waiting, self._waiting = sorted(self._waiting), []
                for name in waiting:
                    self._recorder.hook(name)

    def end(self) -> None:
        """Report how the program ended; ``os._exit`` and signals leave no time for it."""
        if self._pid != os.getpid():
            return
        error = last_error()
        with contextlib.suppress(Exception):
            if self._recorder is not None:
                self._recorder.write_last_facts()
            if isinstance(error, BaseException) or "torch" in sys.modules:
                self._write_end(error)
            else:
                append(self._event_path, b'{"event": "ended"}\n')
        if isinstance(error, KeyboardInterrupt) and _has_ended_the_program(error):
            _end_by_interrupt()

    def _write_end(self, error: object) -> None:
        from pathlib import Path

        from ..events import EventFile
        from ..record.errors import described_error

        events = EventFile(Path(self._event_path))
        if self._recorder is None and "torch" in sys.modules:
            message = (
                "graphdoctor didn't see the program import torch, so its own records are missing."
            )
            events.gap("recorder_not_loaded", message)
        events.write(
            "ended",
            **({"error": described_error(error)} if isinstance(error, BaseException) else {}),
        )


def append(path: str, line: bytes) -> None:
    """Add a line without ``EventFile``, so that a program without torch doesn't wait for its
    modules.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    os.write(descriptor, line)
    os.close(descriptor)


def _set(module: ModuleType, *, values: list[tuple[str, object]]) -> None:
    for name, value in values:
        with contextlib.suppress(AttributeError):  # this torch doesn't have it
            setattr(module, name, value)


def last_error() -> object:
    """What Python printed a traceback of, if anything (kept in ``last_exc`` from 3.12 on)."""
    return getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)


def _has_ended_the_program(error: BaseException) -> bool:
    """It left the main module's own code; an interactive loop only prints its traceback."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == "<frozen runpy>":  # python -m
        trace = trace.tb_next
    return trace is not None and (
        trace.tb_frame.f_code.co_name == "<module>"
        and trace.tb_frame.f_globals is vars(sys.modules.get("__main__", sys))
    )


def _end_by_interrupt() -> None:
    """Have Python end by SIGINT, as it does after an unhandled ``KeyboardInterrupt``, although we
    ran code since.

    ``run_eval_code_obj`` (CPython 3.11 to 3.14) notes the exception, and forgets it when the next
    text is evaluated, as the import of ``collections`` does.
    """
    with contextlib.suppress(KeyboardInterrupt):
        exec("raise KeyboardInterrupt")
