"""Records what torch.compile does in a program that runs by itself: in its main process and in those it starts.

Comes in: the recording's folder. Goes out: torch's trace log with our records in it, one a process, and from the main
process ``probe.jsonl``. Everything hangs on torch being imported; until then nothing but ``os``, ``sys`` and
``atexit`` is needed. Nothing of ours is called by a call that is compiled already.

``graphdoctor_compile_call``  {"file", "line", "function", "compiled", "arguments"}: a call of torch.compile
``graphdoctor_graph``  as in ``backend``, here from torch's own path to whatever backend the program chose
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys

from ..torch_private.imports import AfterImport

TYPE_CHECKING = False  # typing would be most of what a program without torch waits for
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType
    from typing import Any

    from ..events import EventFile
    from ..record.guards import RecompileRecorder
    from ..record.listener import TraceListener

_MAX_MESSAGE = 20_000


def begin(recording: str) -> None:
    """Get ready for torch; called once at Python's start.

    Args:
        recording: The recording's folder.
    """
    path = os.path.join(recording, "probe.jsonl")  # noqa: PTH118 - pathlib takes longer than all of this
    recorder = _Recorder(recording, path, is_main=_claim(path))
    watched = {
        "torch": recorder.on_torch,
        "torch._dynamo.convert_frame": recorder.on_convert_frame,
        "torch._dynamo.output_graph": recorder.on_output_graph,
        "torch._inductor.compiler_bisector": recorder.on_compiler_bisector,
    }
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
    """Add a line without ``EventFile``, whose modules a program without torch need not wait for."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    os.write(descriptor, line)
    os.close(descriptor)


class _Recorder:
    """What one process records.

    Args:
        recording: The recording's folder.
        event_path: Its event file.
        is_main: The process is the main one, which has the event file to itself.
    """

    def __init__(self, recording: str, event_path: str, *, is_main: bool) -> None:
        self.is_main = is_main
        self._recording = recording
        self._event_path = event_path
        self._pid = os.getpid()
        self._events: EventFile | None = None
        self._listener: TraceListener | None = None
        self._recompiles: RecompileRecorder | None = None
        self._graph_count = 0
        self._has_compiled = False
        self._unwritten_calls: list[dict[str, Any]] = []

    # What torch's modules call back.

    def on_torch(self, _torch: ModuleType) -> None:
        """Listen from torch's import on."""
        with self._surviving("listening to the trace"):
            from ..record.environment import describe_environment
            from ..torch_private import torch_hooks

            self._write("environment", **describe_environment(None))
            torch_hooks.write_trace_to(os.path.join(self._recording, "trace"))  # noqa: PTH118
            torch_hooks.after_log_setup(self._attach)
            self._attach()
            os.register_at_fork(after_in_child=self._begin_in_fork)
            # Before logging's own exit function, which was registered earlier, closes the trace log.
            atexit.register(self._write_last_sources)

    def on_convert_frame(self, _module: ModuleType) -> None:
        """The module sets up its loggers when it is imported."""
        with self._surviving("frames skipped outside symbolic execution"):
            self._attach()
        with self._surviving("the causes of recompiles"):
            from ..record.files import user_file_test
            from ..record.guards import RecompileRecorder

            self._recompiles = RecompileRecorder(user_file_test(), self._want_source, self._want_file)
            if (lost := self._recompiles.install()) is not None:
                self._gap(lost)

    def on_output_graph(self, _module: ModuleType) -> None:
        """Watch graphs on their way to the backend."""
        with self._surviving("the operations and inputs of graphs"):
            from ..torch_private import torch_hooks

            torch_hooks.watch_graphs(before=self._describe_graph, after=self._write_graph)

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
        """Trouble of ours must never reach the program; it becomes a gap."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - see the docstring
            self._gap(f"With this torch graphdoctor cannot record {what} ({type(error).__name__}: {error}).")

    def _attach(self) -> None:
        """Come last among the trace logger's handlers: our records follow those they belong to."""
        from ..record.files import FileTexts
        from ..record.listener import TraceListener
        from ..torch_private import torch_api

        logger = torch_api.trace_logger()
        if self._listener is None:
            self._listener = TraceListener(self._on_compile, FileTexts())
        logger.removeHandler(self._listener)
        logger.addHandler(self._listener)
        torch_api.record_skipped_frames()
        torch_api.keep_trace_enabled()

    # What happens while torch compiles.

    def _on_compile(self, compile_id: str | None) -> None:
        if compile_id is None:
            # At the end of each compile, so that a process that is killed, or a forked one, which has no exit
            # functions, leaves them too.
            self._write_last_sources()
        elif not self._has_compiled:
            self._has_compiled = True
            calls, self._unwritten_calls = self._unwritten_calls, []
            for call in calls:
                self._write_compile_call(call)

    def _on_compile_call(self, call: dict[str, Any]) -> None:
        if self.is_main or self._has_compiled:
            self._write_compile_call(call)
        else:
            # Each data loader worker imports the program again; one that compiles nothing leaves no log.
            self._unwritten_calls.append(call)

    def _write_compile_call(self, call: dict[str, Any]) -> None:
        self._write_artifact("graphdoctor_compile_call", call)
        self._want_file(call["file"])

    def _describe_graph(self, gm: Any) -> dict[str, Any]:  # noqa: ANN401
        from ..record.backend import describe_graph, files_of_graph

        for file in files_of_graph(gm):
            self._want_file(file)
        index = self._graph_count
        self._graph_count += 1
        return {"index": index, **describe_graph(gm)}

    def _write_graph(self, record: dict[str, Any]) -> None:
        self._write_artifact("graphdoctor_graph", record)

    def _write_last_sources(self) -> None:
        if self._listener is not None and self._pid == os.getpid():
            with contextlib.suppress(Exception):  # an extra; nothing is worth a word in the program's last moments
                self._listener.write_sources()

    # Other processes.

    def _begin_in_fork(self) -> None:
        """Be the recorder of a process of its own; what the parent has not written yet stays the parent's."""
        from ..torch_private import torch_api, torch_hooks

        self._pid = os.getpid()
        self.is_main = False
        self._events = None
        self._graph_count = 0
        self._has_compiled = False
        self._unwritten_calls = []
        with contextlib.suppress(Exception):
            torch_hooks.begin_log_anew()
            if self._listener is not None:
                torch_api.trace_logger().removeHandler(self._listener)
            self._listener = None
            self._attach()

    # The end.

    def end(self) -> None:
        """Say how the program ended; ``os._exit`` and signals leave no time for it."""
        if self._pid != os.getpid() or not self.is_main:
            return
        # Python keeps here what it printed a traceback of (3.12 on in last_exc).
        error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
        with contextlib.suppress(Exception):
            if "torch" in sys.modules:
                self._write_last_facts()
            if isinstance(error, BaseException):
                self._write("ended", error=_describe_error(error))
            else:
                _append(self._event_path, b'{"event": "ended"}\n')

    def _write_last_facts(self) -> None:
        import torch

        from ..record.environment import describe_environment
        from ..torch_private import torch_api

        if torch.cuda.is_initialized():
            with contextlib.suppress(RuntimeError):  # a device that was lost has no name
                self._write("environment", **describe_environment(torch.cuda.get_device_name(0)))
        if self._listener is None:
            self._gap("torch was imported in a way that graphdoctor could not see; its own records are missing.")
            return
        for name, count in self._listener.failures.items():
            self._gap(f"{count} of torch's records could not be looked at while running ({name}).")
        for name, count in (self._recompiles.failures if self._recompiles else {}).items():
            self._gap(f"{count} sets of guards could not be looked at while running ({name}).")
        if "torch._dynamo" in sys.modules:
            with self._surviving("torch's config"):
                from ..torch_private.torch_config import changed_config

                self._write("config", values=changed_config())
            if torch_api.is_compile_disabled():
                self._gap("torch.compile was disabled: it did nothing, so there are no graphs.")
            said = torch_api.unrecorded_breaks()
            if said:
                self._gap(f"torch.compile left a function to eager mode and wrote no record of it. {'; '.join(said)}")

    # Writing.

    def _write_artifact(self, name: str, payload: object) -> None:
        from ..torch_private import torch_api

        torch_api.write_artifact(name, payload)

    def _gap(self, message: str) -> None:
        self._write("gap", message=message)

    def _write(self, event: str, **values: Any) -> None:  # noqa: ANN401
        if not self.is_main:
            return
        if self._events is None:
            from pathlib import Path

            from ..events import EventFile

            self._events = EventFile(Path(self._event_path))
        self._events.write(event, **values)


def _describe_error(error: BaseException) -> dict[str, Any]:
    import traceback

    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - any __str__ of the program's
        message = ""
    return {
        "type": name,
        "message": message[:_MAX_MESSAGE],
        "traceback": "".join(traceback.format_exception(error))[-_MAX_MESSAGE:],
    }
