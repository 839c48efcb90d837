"""What listens to torch in every recording: a handler of its trace, what keeps that there,
recompiles and graphs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from itertools import chain

from ..events import EventFile
from ..torch_private import torch_api
from ..torch_private.replacing import Undo
from ..torch_private.torch_hooks import watch_ignored_caches
from ..torch_private.torch_trace import TraceKeeper
from .backend import GraphRecorder
from .guards import RecompileRecorder
from .listener import TraceListener
from .reports import failure_gaps, hooking


class Hooks:
    """All of them, on a trace that is written to ``folder``, or to where it is written first."""

    def __init__(
        self, events: EventFile, listener: TraceListener, folder: str | None = None
    ) -> None:
        self._events, self._listener = events, listener
        self.keeper = TraceKeeper(listener, folder)
        self._recompiles = RecompileRecorder(listener)
        self.graphs = GraphRecorder(listener.want_file)
        self.by_module: dict[str, list[tuple[str, Callable[[], Undo]]]] = {
            "torch._dynamo.convert_frame": [
                ("compiles after a change of torch's trace logger", self.keeper.install),
                ("the causes of recompiles", self._recompiles.install),
            ],
            "torch._dynamo.output_graph": [
                ("the operations and inputs of graphs", self.graphs.install)
            ],
            "torch._dynamo.variables.functions": [
                (
                    "calls of functions with a cache",
                    partial(watch_ignored_caches, listener.write_ignored_cache),
                )
            ],
        }
        """What needs a module of torch's: what it records, and what installs it."""
        self._ends = contextlib.ExitStack()

    def install(self) -> None:
        """Listen until ``close``."""
        for what, install in chain.from_iterable(self.by_module.values()):
            with hooking(self._events, what):
                self._ends.callback(install())

    def report_failures(self) -> None:
        """Report what raised in our own handlers and what never reached them, usually nothing."""
        for gap in failure_gaps(self._listener, self._recompiles, self.keeper):
            self._events.gap(*gap)

    def begin_in_fork(self) -> None:
        """Nothing has been seen so far in a forked process."""
        self.graphs.count = 0
        self._listener.begin_anew()
        self.keeper.begin_anew()
        self.keeper.restore()

    def close(self) -> None:
        """Stop listening."""
        self._ends.close()
        torch_api.trace_logger().removeHandler(self._listener)
