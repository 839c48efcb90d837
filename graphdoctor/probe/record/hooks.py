"""What listens to torch in every recording: a handler of its trace, what keeps that there, recompiles and graphs."""

from __future__ import annotations

from ..events import EventFile
from ..torch_private import torch_api, torch_trace
from ..torch_private.replacing import Undo
from ..torch_private.torch_trace import TraceKeeper
from .backend import GraphRecorder
from .guards import RecompileRecorder
from .listener import TraceListener
from .reports import failure_gaps, hooking


class Hooks:
    """All of them, from now on until ``close``."""

    def __init__(self, events: EventFile, listener: TraceListener) -> None:
        self._events, self.listener = events, listener
        torch_trace.listen(listener)
        self.keeper = TraceKeeper(listener)
        with hooking(events, "compiles after a change of torch's trace logger"):
            self.keeper.install()
        self._recompiles = RecompileRecorder(listener)
        with hooking(events, "the causes of recompiles"):
            self._recompiles.install()
        self.graphs = GraphRecorder(listener.want_file)
        self._unwatch_graphs: Undo = lambda: None
        with hooking(events, "the operations and inputs of graphs"):
            self._unwatch_graphs = self.graphs.install()

    def report_failures(self) -> None:
        """Report what raised in our own handlers and what never reached them, usually nothing."""
        for gap in failure_gaps(self.listener, self._recompiles, self.keeper):
            self._events.gap(*gap)

    def close(self) -> None:
        """Stop listening."""
        self._unwatch_graphs()
        self._recompiles.uninstall()
        self.keeper.uninstall()
        torch_api.trace_logger().removeHandler(self.listener)
