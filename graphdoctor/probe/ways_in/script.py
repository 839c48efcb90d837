"""Records what torch.compile does in a program that runs by itself: in its main process and in those it starts.

Comes in: the recording's folder. Goes out: torch's trace log with our records in it, one for each process, and the
events of the main process. Everything hangs on torch being imported; until then nothing but ``os``, ``sys`` and
``atexit`` is needed. A call that is compiled already calls nothing of ours, but for the few that are watched.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys

from ..file_names import EVENTS_FILE, RUN_CHANGE_VARIABLE, TRACE_FOLDER
from ..torch_private.imports import AfterImport
from .process import hold

TYPE_CHECKING = False  # typing would be most of what a program without torch waits for
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType, ModuleType
    from typing import Any

    from ...facts.base import Fact
    from ...facts.recording import CompileCall, GapKind
    from ..events import EventFile
    from ..measure.watched_calls import BackwardSteps, CallWatcher, CompiledAt
    from ..record.backend import GraphDescriber
    from ..record.guards import RecompileRecorder
    from ..record.listener import TraceListener
    from ..torch_private.torch_trace import TraceKeeper
    from ..wire import (
        CalledArtifact,
        EventName,
        RunChange,
        WatchedCallArtifact,
    )


def begin(recording: str) -> None:
    """Get ready for torch; called once at Python's start."""
    hold(recording)
    path = os.path.join(recording, EVENTS_FILE)  # noqa: PTH118 - pathlib takes longer than all of this
    recorder = _Recorder(recording, path, is_main=_claim(path))
    watched = {
        "torch": recorder.on_torch,
        "torch._dynamo.convert_frame": recorder.on_convert_frame,
        "torch._dynamo.eval_frame": recorder.on_eval_frame,
        "torch._dynamo.output_graph": recorder.on_output_graph,
        "torch._inductor.compiler_bisector": recorder.on_compiler_bisector,
    }
    if (change := os.environ.get(RUN_CHANGE_VARIABLE)) is not None:
        watched |= recorder.change(change)
    for name, callback in list(watched.items()):
        if (loaded := sys.modules.get(name)) is not None:  # another start-up file imported it
            callback(loaded)
            del watched[name]
    sys.meta_path.insert(0, AfterImport(watched))
    if recorder.is_main:
        atexit.register(recorder.end)


def _claim(path: str) -> bool:
    """Make the event file; the first Python of the program does, and that is the main process."""
    first = b'{"event": "process", "pid": %d}\n' % os.getpid()
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    except FileExistsError:
        # A program may replace itself by another Python (os.execv): the process is the same.
        with open(path, "rb") as events:  # noqa: PTH123
            return events.readline() == first
    os.write(descriptor, first)
    os.close(descriptor)
    return True


def _append(path: str, line: bytes) -> None:
    """Add a line without ``EventFile``, so that a program without torch doesn't wait for its modules."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    os.write(descriptor, line)
    os.close(descriptor)


class _Recorder:
    def __init__(self, recording: str, event_path: str, *, is_main: bool) -> None:
        self.is_main = is_main
        self._trace_folder = os.path.join(recording, TRACE_FOLDER)  # noqa: PTH118
        self._event_path = event_path
        self._pid = os.getpid()
        self._events: EventFile | None = None
        self._listener: TraceListener | None = None
        self._keeper: TraceKeeper | None = None
        self._recompiles: RecompileRecorder | None = None
        self._watcher: CallWatcher | None = None
        self._describe_graph: GraphDescriber | None = None
        self._has_compiled = False
        self._unwritten_calls: list[CompileCall] = []
        self._has_steps = self._is_inside_ddp = False
        self._steps: BackwardSteps | None = None
        self._is_rank = False

    # A script that is run again under a change.

    def change(self, text: str) -> dict[str, Callable[[ModuleType], None]]:
        import json
        from functools import partial

        change: RunChange = json.loads(text)
        self._is_inside_ddp = change["compile_inside_ddp"]
        self._has_steps = True
        values: dict[str, list[tuple[str, object]]] = {}
        for dotted, value in change["settings"]:
            module, _, name = dotted.rpartition(".")
            values.setdefault(module, []).append((name, value))
        return {module: partial(_set, values=found) for module, found in values.items()}

    # Callbacks of torch's modules.

    def on_torch(self, _torch: ModuleType) -> None:
        """Listen from torch's import on."""
        with self._surviving("listening to the trace"):
            from ..record.reports import describe_environment
            from ..torch_private import torch_hooks

            self._write("environment", describe_environment(None))
            self._report_rank()
            torch_hooks.write_trace_to(self._trace_folder)
            torch_hooks.after_log_setup(self._attach)
            self._attach()
            self._time_steps()
            os.register_at_fork(after_in_child=self._begin_in_fork)
            # Before logging's own exit function, which was registered earlier, closes the trace log.
            atexit.register(self._write_last)

    def _report_rank(self) -> None:
        """Report which rank this is, so that one that compiles nothing, and writes no log, isn't forgotten."""
        rank, world_size = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
        if self.is_main or not (rank.isdecimal() and world_size.isdecimal() and int(world_size) > 1):
            return
        self._is_rank = True
        line = b'{"event": "rank", "pid": %d, "rank": %d, "world_size": %d}\n'
        _append(self._event_path, line % (self._pid, int(rank), int(world_size)))

    def _time_steps(self) -> None:
        if self._has_steps:
            with self._surviving("the time of a step"):
                from ..measure.watched_calls import BackwardSteps

                self._steps = BackwardSteps()

    def on_convert_frame(self, _module: ModuleType) -> None:
        with self._surviving("compiles after a change of torch's trace logger"):
            self._attach()
            self._install_keeper()
        with self._surviving("the causes of recompiles"):
            from ..record.files import user_file_test
            from ..record.guards import RecompileRecorder

            self._recompiles = RecompileRecorder(user_file_test(), self._want_source, self._want_file)
            if (lost := self._recompiles.install()) is not None:
                self._gap("recompile_causes", lost)

    def on_eval_frame(self, _module: ModuleType) -> None:
        """Watch some of the calls of compiled functions."""
        if self._is_inside_ddp:
            from ..torch_private.torch_hooks import compile_inside_ddp

            compile_inside_ddp()
        with self._surviving("coverage and the time of steady calls"):
            from ..measure.watched_calls import CallWatcher

            watcher = CallWatcher(self._write_watched_call, self._write_called)
            watcher.install_calls(self._compiled_at)
            self._watcher = watcher

    def on_output_graph(self, _module: ModuleType) -> None:
        """Watch graphs on their way to the backend."""
        with self._surviving("the operations and inputs of graphs"):
            from ..record.backend import GraphDescriber
            from ..torch_private import torch_hooks

            self._describe_graph = GraphDescriber(self._want_file)
            torch_hooks.watch_graphs(before=self._describe_graph, after=self._write_graph)
        with self._surviving("how much of a call runs in graphs"):
            if self._watcher is not None:
                self._watcher.install_graphs()

    def on_compiler_bisector(self, _module: ModuleType) -> None:
        """Watch calls of torch.compile."""
        with self._surviving("where torch.compile was called"):
            from ..torch_private import torch_hooks

            torch_hooks.watch_compile_calls(self._on_compile_call)

    def _want_source(self, file: str, line: int, function: str) -> None:
        # The listener of this process: a forked one has another.
        if self._listener is not None:
            self._listener.want_source(file, line, function)

    def _want_file(self, file: str) -> None:
        if self._listener is not None:
            self._listener.want_file(file)

    @contextlib.contextmanager
    def _surviving(self, what: str) -> Iterator[None]:
        """An error of ours must never reach the program; it becomes a gap."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - see the docstring
            from ..record.reports import hook_gap

            self._gap(*hook_gap(what, error))

    def _attach(self) -> None:
        """Be the last of the trace logger's handlers, so that our records follow those they belong to."""
        from ..record.files import FileTexts
        from ..record.listener import TraceListener
        from ..torch_private.torch_trace import TraceKeeper

        if self._listener is None or self._keeper is None:
            self._listener = TraceListener(self._on_compile, FileTexts(), on_limit=self._on_limit)
            self._keeper = TraceKeeper(self._listener, self._trace_folder)
        self._keeper.restore()

    def _install_keeper(self) -> None:
        if self._keeper is not None:
            self._keeper.install()

    # What happens while torch compiles.

    def _on_compile(self, compile_id: str | None) -> None:
        if compile_id is None:
            # At the end of each compile, so that a process that is killed, or a forked one, which has no exit
            # functions, leaves them too.
            self._write_last_sources()
            return
        if self._steps is not None:
            self._steps.has_compiled = True
        if self._watcher is not None:
            self._watcher.on_compile()
        if not self._has_compiled:
            self._has_compiled = True
            calls, self._unwritten_calls = self._unwritten_calls, []
            for call in calls:
                self._write_compile_call(call)

    def _on_limit(self) -> None:
        if self._watcher is not None:
            self._watcher.on_compile()

    def _on_compile_call(self, frame: FrameType) -> None:
        from ..record.compile_calls import compile_call, compiled_root

        call = compile_call(frame)
        if self._listener is not None:
            self._listener.roots.add(compiled_root(frame, call))
        if self.is_main or self._is_rank or self._has_compiled:
            self._write_compile_call(call)
        else:
            # Each data loader worker imports the program again; one that compiles nothing leaves no log.
            self._unwritten_calls.append(call)

    def _write_compile_call(self, call: CompileCall) -> None:
        from ..torch_private import torch_api

        if self._keeper is not None:
            self._keeper.restore()
        torch_api.write_artifact("graphdoctor_compile_call", call)
        self._want_file(call.file)

    # Calls that are watched.

    @staticmethod
    def _compiled_at(function: object) -> CompiledAt:
        from ..measure.watched_calls import CompiledAt
        from ..record.compile_calls import compile_call, compiled_name
        from ..torch_private import torch_hooks

        if (frame := torch_hooks.compile_frame()) is None:
            return CompiledAt(compiled_name(function))
        call = compile_call(frame)
        return CompiledAt(call.compiled, call.file, call.line)

    def _write_watched_call(self, artifact: WatchedCallArtifact) -> None:
        from ..torch_private import torch_api

        if self._writes_calls():
            torch_api.write_artifact("graphdoctor_watched_call", artifact)

    def _write_called(self, artifact: CalledArtifact) -> None:
        from ..torch_private import torch_api

        if self._writes_calls():
            torch_api.write_artifact("graphdoctor_called", artifact)

    def _writes_calls(self) -> bool:
        """Not in another process that has compiled nothing, which leaves no log."""
        if not (self.is_main or self._has_compiled):
            return False
        if self._keeper is not None:
            self._keeper.restore()
        return True

    # Graphs.

    def _write_graph(self, artifact: dict[str, Any]) -> None:
        from ..torch_private import torch_api

        torch_api.write_artifact("graphdoctor_graph", artifact)
        if self._watcher is not None and "index" in artifact and "tensor_op_count" in artifact:
            self._watcher.add_graph(artifact["index"], artifact["tensor_op_count"])

    def _write_last_sources(self) -> None:
        if self._listener is not None and self._pid == os.getpid():
            with contextlib.suppress(Exception):  # an extra, not worth an error in the program's last moments
                self._listener.write_sources()

    def _write_last(self) -> None:
        self._write_last_sources()
        if self._watcher is not None and self._pid == os.getpid():
            with contextlib.suppress(Exception):
                self._watcher.end()
        if self._steps is not None and self._pid == os.getpid() and self._writes_calls():
            from ..torch_private import torch_api

            with contextlib.suppress(Exception):
                torch_api.write_artifact("graphdoctor_steps", self._steps.seen())
        if self._is_rank and self._pid == os.getpid() and _last_error() is None:
            with contextlib.suppress(OSError):
                _append(self._event_path, b'{"event": "process_ended", "pid": %d}\n' % self._pid)

    # Other processes.

    def _begin_in_fork(self) -> None:
        """Become the recorder of this process; what the parent hasn't written yet remains the parent's."""
        from ..torch_private import torch_api, torch_hooks

        self._pid = os.getpid()
        self.is_main = False
        self._events = None
        self._has_compiled = False
        self._unwritten_calls = []
        with contextlib.suppress(Exception):
            if self._describe_graph is not None:
                self._describe_graph.count = 0
            torch_hooks.begin_log_anew()
            if self._listener is not None:
                torch_api.trace_logger().removeHandler(self._listener)
            if self._keeper is not None:
                self._keeper.uninstall()
            self._listener = self._keeper = None
            self._attach()
            if "torch._dynamo.convert_frame" in sys.modules:
                self._install_keeper()
            if self._watcher is not None:
                self._watcher.begin_in_fork()

    # The end.

    def end(self) -> None:
        """Report how the program ended; ``os._exit`` and signals leave no time for it."""
        if self._pid != os.getpid() or not self.is_main:
            return
        error = _last_error()
        with contextlib.suppress(Exception):
            if "torch" in sys.modules:
                self._write_last_facts()
            if isinstance(error, BaseException):
                from ..record.tracebacks import described_error

                self._write("ended", error=described_error(error))
            else:
                _append(self._event_path, b'{"event": "ended"}\n')
        if isinstance(error, KeyboardInterrupt) and _has_ended_the_program(error):
            _end_by_interrupt()

    def _write_last_facts(self) -> None:
        import torch

        from ..record.reports import describe_environment, failure_gaps, unrecorded_gap
        from ..torch_private import torch_api

        if torch.cuda.is_initialized():
            with contextlib.suppress(RuntimeError):  # a device that was lost has no name
                self._write("environment", describe_environment(torch.cuda.get_device_name(0)))
        if self._listener is None:
            message = "graphdoctor didn't see the program import torch, so its own records are missing."
            self._gap("recorder_not_loaded", message)
            return
        for gap in failure_gaps(self._listener, self._recompiles, self._keeper):
            self._gap(*gap)
        if "torch._dynamo" in sys.modules:
            with self._surviving("torch's config"):
                from ..torch_private.torch_config import changed_config

                self._write("config", values=changed_config())
            with self._surviving("what float32 computes with"):
                from ..torch_private.torch_config import float32_precision

                if (precision := float32_precision()) is not None:
                    self._write("float32_precision", precision)
            for kind, value in torch_api.compile_switches():
                self._write("compile_switch", kind=kind, value=value, call=None)
            if reasons := torch_api.unrecorded_breaks():
                self._gap(*unrecorded_gap(reasons))

    def _gap(self, kind: GapKind, message: str) -> None:
        self._write("gap", kind=kind, message=message)

    def _write(self, name: EventName, fact: Fact | None = None, /, **fields: object) -> None:
        if not self.is_main:
            return
        if self._events is None:
            from pathlib import Path

            from ..events import EventFile

            self._events = EventFile(Path(self._event_path))
        self._events.write(name, fact, **fields)


def _set(module: ModuleType, *, values: list[tuple[str, object]]) -> None:
    for name, value in values:
        with contextlib.suppress(AttributeError):  # this torch doesn't have it
            setattr(module, name, value)


def _last_error() -> object:
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
    """Have Python end by SIGINT, as it does after an unhandled ``KeyboardInterrupt``, although we ran code since.

    ``run_eval_code_obj`` (CPython 3.11 to 3.14) notes the exception, and forgets it when the next text is evaluated, as
    the import of ``collections`` does.
    """
    with contextlib.suppress(KeyboardInterrupt):
        exec("raise KeyboardInterrupt")
