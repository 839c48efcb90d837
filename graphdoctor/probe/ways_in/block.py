"""Records what torch.compile does in a block of this process, through the program's own calls of it.

As ``script.py`` does for a whole program: torch.compile and its arguments stay as they are, and nothing of ours runs
in a call that is compiled already. What the program compiled stays compiled; every hook is removed again.
"""

from __future__ import annotations

import contextlib
import linecache
import os
from collections.abc import Collection, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from ..events import EventFile
from ..record.backend import describe_graph, files_of_graph
from ..record.compile_calls import compile_call, compiled_root
from ..record.files import FileTexts, user_file_test
from ..record.gaps import hook_gap, unrecorded_gap
from ..record.guards import RecompileRecorder
from ..record.listener import TraceListener
from ..record.switches import CompileSwitches
from ..record.tracebacks import described_error
from ..steps import reports
from ..torch_private import torch_api, torch_hooks, torch_trace
from ..torch_private.torch_loan import borrowed
from ..torch_private.torch_trace import TraceKeeper
from ..wire import EVENTS_FILE, TRACE_FOLDER, EndedEvent, GraphArtifact, ProcessEvent
from .call import device_name


@contextlib.contextmanager
def recorded(recording: Path, *, outside: Collection[FrameType], is_reset: bool) -> Iterator[None]:
    """Record while the context lasts.

    ``is_reset``: have torch forget what it has compiled, so that everything is compiled again.

    Raises:
        BusyError: A recorder of ours already works in this process.
    """
    with contextlib.ExitStack() as left_behind:
        left_behind.enter_context(borrowed(recording / TRACE_FOLDER))
        events = left_behind.enter_context(contextlib.closing(EventFile(recording / EVENTS_FILE)))
        events.write(ProcessEvent(event="process", pid=os.getpid()))
        linecache.checkcache()
        if is_reset:
            torch.compiler.reset()
        recorder = _BlockRecorder(events, outside, left_behind)
        try:
            yield
        except BaseException as error:
            events.write(EndedEvent(event="ended", error=described_error(error)))
            raise
        finally:
            recorder.end()


class _BlockRecorder:
    def __init__(self, events: EventFile, outside: Collection[FrameType], left_behind: contextlib.ExitStack) -> None:
        self._events = events
        self._graph_count = 0
        self._listener = TraceListener(self._on_compile, FileTexts(), outside)
        torch_trace.listen(self._listener)
        left_behind.callback(torch_api.trace_logger().removeHandler, self._listener)
        self._keeper = TraceKeeper(self._listener)
        with self._surviving("compiles after a change of torch's trace logger"):
            self._keeper.install()
        left_behind.callback(self._keeper.uninstall)
        self._recompiles = RecompileRecorder(
            user_file_test(), self._listener.want_source, self._listener.want_file, outside
        )
        if (lost := self._recompiles.install()) is not None:
            events.gap("recompile_causes", lost)
        left_behind.callback(self._recompiles.uninstall)
        with self._surviving("the operations and inputs of graphs"):
            left_behind.callback(torch_hooks.watch_graphs(before=self._describe_graph, after=self._write_graph))
        with self._surviving("where torch.compile was called"):
            left_behind.callback(torch_hooks.watch_compile_calls(self._write_compile_call))
        self._switches = CompileSwitches(events)
        self._switches.look()
        self._counted = dict(torch_api.counters().get("unimplemented", {}))

    @contextlib.contextmanager
    def _surviving(self, what: str) -> Iterator[None]:
        """A torch without the place of a hook becomes a gap."""
        try:
            yield
        except (ImportError, AttributeError, KeyError) as error:
            self._events.write(hook_gap(what, error))

    def _on_compile(self, compile_id: str | None) -> None:
        if compile_id is None:
            self._listener.write_sources()

    def _describe_graph(self, gm: Any) -> GraphArtifact:  # noqa: ANN401
        for file in files_of_graph(gm):
            self._listener.want_file(file)
        index = self._graph_count
        self._graph_count += 1
        return describe_graph(gm, index)

    @staticmethod
    def _write_graph(artifact: GraphArtifact) -> None:
        torch_api.write_artifact("graphdoctor_graph", artifact)

    def _write_compile_call(self, frame: FrameType) -> None:
        call = compile_call(frame)
        self._listener.roots.add(compiled_root(frame, call))
        self._keeper.restore()
        torch_api.write_artifact("graphdoctor_compile_call", call)
        self._listener.want_file(call["file"])

    def end(self) -> None:
        """Write what is only known at the end."""
        self._listener.write_sources()
        self._switches.look()
        reports.report_environment(self._events, device_name())
        reports.report_config(self._events)
        reports.report_float32_precision(self._events)
        reports.report_failures(self._listener, self._recompiles, self._keeper, self._events)
        if reasons := torch_api.unrecorded_breaks(self._counted):
            self._events.write(unrecorded_gap(reasons))
