"""Records what torch.compile does in this process for a while, by the program's own calls of it.

As ``script.py`` does for a whole program: torch.compile and its arguments stay what they are, and nothing of ours runs
in a call that is compiled already. What the program compiled stays compiled; every hook is taken out again.
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
from ..record.files import FileTexts, user_file_test
from ..record.guards import RecompileRecorder
from ..record.listener import TraceListener
from ..record.tracebacks import described_error
from ..steps import sequence as steps
from ..torch_private import torch_api, torch_hooks, torch_trace
from ..torch_private.torch_loan import borrowed
from .inside import device_name


@contextlib.contextmanager
def recorded(recording: Path, *, outside: Collection[FrameType], is_reset: bool) -> Iterator[None]:
    """Record while the context lasts.

    Args:
        recording: The recording's folder.
        outside: Python frames around the block, which no stack shows.
        is_reset: Have torch forget what it has compiled, so that all is compiled again.

    Raises:
        BusyError: A recorder of ours is at work in this process.
    """
    with contextlib.ExitStack() as left_behind:
        left_behind.enter_context(borrowed(recording / "trace"))
        events = left_behind.enter_context(contextlib.closing(EventFile(recording / "probe.jsonl")))
        events.write("process", pid=os.getpid())
        linecache.checkcache()
        if is_reset:
            torch.compiler.reset()
        recorder = _BlockRecorder(events, outside, left_behind)
        try:
            yield
        except BaseException as error:
            events.write("ended", error=described_error(error))
            raise
        finally:
            recorder.end()


class _BlockRecorder:
    """What is installed while the block runs.

    Args:
        events: Where to say what the trace lacks.
        outside: Python frames that no stack shows.
        left_behind: Takes out what is installed.
    """

    def __init__(self, events: EventFile, outside: Collection[FrameType], left_behind: contextlib.ExitStack) -> None:
        self._events = events
        self._graph_count = 0
        self._listener = TraceListener(self._on_compile, FileTexts(), outside)
        torch_trace.listen(self._listener)
        left_behind.callback(torch_api.trace_logger().removeHandler, self._listener)
        self._recompiles = RecompileRecorder(
            user_file_test(), self._listener.want_source, self._listener.want_file, outside
        )
        if (lost := self._recompiles.install()) is not None:
            events.write("gap", message=lost)
        left_behind.callback(self._recompiles.uninstall)
        with self._surviving("the operations and inputs of graphs"):
            left_behind.callback(torch_hooks.watch_graphs(before=self._describe_graph, after=self._write_graph))
        with self._surviving("where torch.compile was called"):
            left_behind.callback(torch_hooks.watch_compile_calls(self._write_compile_call))
        self._counted = dict(torch_api.counters().get("unimplemented", {}))

    @contextlib.contextmanager
    def _surviving(self, what: str) -> Iterator[None]:
        """A torch without the place of a hook; it becomes a gap."""
        try:
            yield
        except (ImportError, AttributeError, KeyError) as error:
            message = f"With this torch graphdoctor cannot record {what} ({type(error).__name__}: {error})."
            self._events.write("gap", message=message)

    def _on_compile(self, compile_id: str | None) -> None:
        if compile_id is None:
            self._listener.write_sources()

    def _describe_graph(self, gm: Any) -> dict[str, Any]:  # noqa: ANN401
        for file in files_of_graph(gm):
            self._listener.want_file(file)
        index = self._graph_count
        self._graph_count += 1
        return {"index": index, **describe_graph(gm)}

    @staticmethod
    def _write_graph(record: dict[str, Any]) -> None:
        torch_api.write_artifact("graphdoctor_graph", record)

    def _write_compile_call(self, call: dict[str, Any]) -> None:
        torch_api.write_artifact("graphdoctor_compile_call", call)
        self._listener.want_file(call["file"])

    def end(self) -> None:
        """Write what is only known at the end."""
        self._listener.write_sources()
        steps.tell_environment(self._events, device_name())
        steps.tell_config(self._events)
        steps.tell_failures(self._listener, self._recompiles, self._events)
        if said := torch_api.unrecorded_breaks(self._counted):
            message = f"torch.compile left a function to eager mode and wrote no record of it. {'; '.join(said)}"
            self._events.write("gap", kind="unrecorded_compile", message=message)
