"""Records what torch.compile does in a program that runs by itself; imported when the program has
imported torch.
"""

from __future__ import annotations

import atexit
import os
import sys
from contextlib import suppress
from pathlib import Path
from types import FrameType

from ...facts.recording import CompileCall
from ..events import EventFile
from ..file_names import OWN_VARIABLE, TRACE_FOLDER
from ..measure.watched_calls import CallWatcher, CompiledAt
from ..record.files import ProgramFiles
from ..record.listener import TraceListener, compile_call, compiled_name, compiled_root
from ..record.reports import (
    CompileSwitches,
    Hooks,
    Install,
    describe_environment,
    device_name,
    hooking,
    imported_names,
    report_config,
    report_float32_precision,
    unrecorded_gap,
)
from ..torch_private import torch_hooks, torch_trace
from ..torch_private.torch_api import unrecorded_breaks, write_artifact
from .process import append, last_error


class Recorder:
    """Hooks torch in one process of a program."""

    def __init__(self, recording: str, event_path: str, *, is_main: bool) -> None:
        self._is_main = is_main
        self._trace_folder = str(Path(recording, TRACE_FOLDER))
        self._event_path = event_path
        self._events = EventFile(Path(event_path) if is_main else None)
        self._watcher = CallWatcher(self._write_artifact)
        files = ProgramFiles(next(iter(sys.argv), None))
        self._listener = TraceListener(self._on_compile, files, on_limit=self._watcher.on_limit)
        self._hooks = hooks = Hooks(self._events, self._listener, self._trace_folder)
        self._has_compiled = self._is_rank = False
        self._unwritten_calls: list[CompileCall] = []
        self._own: tuple[str, ...] = ()

        self._ours: dict[str, list[Install]] = {
            "torch": [("listening to the trace", self._listen)],
            "torch._dynamo.eval_frame": [
                (
                    "coverage and the time of steady calls",
                    lambda: self._watcher.install_calls(_compiled_at),
                )
            ],
            "torch._dynamo.output_graph": [
                (
                    "how much of a call runs in graphs",
                    lambda: self._watcher.install_graphs(lambda: hooks.graphs.latest),
                )
            ],
            "torch._dynamo.decorators": [
                ("calls that a stance runs eagerly", self._watcher.install_stances)
            ],
            "torch._inductor.compiler_bisector": [
                (
                    "where torch.compile was called",
                    lambda: torch_hooks.watch_compile_calls(self._on_compile_call),
                )
            ],
        }

    def hook(self, module: str) -> None:
        """Install what needs a module of torch's, which has been imported."""
        for what, install in (*self._hooks.by_module.get(module, ()), *self._ours.get(module, ())):
            with hooking(self._events, what):
                install()

    def _listen(self) -> None:
        with hooking(self._events, "which packages are your own"):
            self._own = imported_names(os.environ.get(OWN_VARIABLE, "").split())
        self._events.write("environment", describe_environment(None, self._own))
        # Which rank this is, so that one that compiles nothing, and writes no log, isn't forgotten.
        rank, world_size = (os.environ.get(name, "") for name in ("RANK", "WORLD_SIZE"))
        is_job = rank.isdecimal() and world_size.isdecimal() and int(world_size) > 1
        if is_job and not self._is_main:
            self._is_rank = True
            numbers = os.getpid(), int(rank), int(world_size)
            line = b'{"event": "rank", "pid": %d, "rank": %d, "world_size": %d}\n' % numbers
            append(self._event_path, line)
        torch_trace.add_trace_to(self._trace_folder)
        # The last of the trace logger's handlers, so that our records follow those they belong to.
        torch_trace.after_log_setup(self._hooks.keeper.restore)
        self._hooks.keeper.restore()
        os.register_at_fork(after_in_child=self._begin_in_fork)
        # Before logging's own exit function, which was registered earlier, closes the trace log.
        atexit.register(self._write_last)

    # While torch compiles.

    def _on_compile(self, compile_id: str | None) -> None:
        if compile_id is None:
            # At the end of each compile, so that a process that is killed, or a forked one, which
            # has no exit functions, leaves them too.
            self._write_last_sources()
            return
        self._watcher.on_compile()
        self._watcher.eager_calls.on_compile(compile_id)
        if not self._has_compiled:
            self._has_compiled = True
            calls = self._unwritten_calls
            self._unwritten_calls = []
            for call in calls:
                self._write_compile_call(call)

    def _on_compile_call(self, frame: FrameType) -> None:
        call = compile_call(frame)
        self._listener.add_root(compiled_root(frame, call))
        if self._is_main or self._is_rank or self._has_compiled:
            self._write_compile_call(call)
        else:
            # Each data loader worker imports the program again; one that compiles nothing leaves no
            # log.
            self._unwritten_calls.append(call)

    def _write_compile_call(self, call: CompileCall) -> None:
        self._hooks.keeper.restore()
        self._listener.write_compile_call(call)

    def _write_artifact(self, name: str, artifact: object) -> None:
        # Not in another process that has compiled nothing, which leaves no log.
        if self._is_main or self._has_compiled:
            self._hooks.keeper.restore()
            write_artifact(name, artifact)

    # The end, here and in other processes.

    def _write_last_sources(self) -> None:
        with suppress(Exception):  # an extra, not worth an error in the program's last moments
            self._listener.write_sources()

    def _write_last(self) -> None:
        self._write_last_sources()
        with suppress(Exception):
            self._watcher.end()
        if self._is_rank and last_error() is None:
            with suppress(OSError):
                append(self._event_path, b'{"event": "process_ended", "pid": %d}\n' % os.getpid())

    def _begin_in_fork(self) -> None:
        """Become the recorder of this process; what the parent hasn't written yet remains the
        parent's.
        """
        self._is_main = self._has_compiled = False
        self._events = EventFile(None)
        self._unwritten_calls = []
        with suppress(Exception):
            torch_trace.begin_log_anew()
            self._hooks.begin_in_fork()
            self._watcher.begin_in_fork()

    def write_last_facts(self) -> None:
        """Write what only shows at the end of the main process."""
        if (name := device_name()) is not None:
            self._events.write("environment", describe_environment(name, self._own))
        self._hooks.report_failures()
        if "torch._dynamo" in sys.modules:
            report_config(self._events)
            with hooking(self._events, "what float32 computes with"):
                report_float32_precision(self._events)
            CompileSwitches(self._events).look()
            if reasons := unrecorded_breaks():
                self._events.gap(*unrecorded_gap(reasons))


def _compiled_at(function: object) -> CompiledAt:
    if (frame := torch_hooks.compile_frame()) is None:
        return compiled_name(function), None, None
    call = compile_call(frame)
    return call.compiled, call.file, call.line
