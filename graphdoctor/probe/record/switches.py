"""Reports what can keep torch.compile from compiling, where and when a run finds it."""

from __future__ import annotations

from ..events import EventFile
from ..torch_private import torch_api
from ..wire import CompileSwitchEvent


class CompileSwitches:
    """Reports each switch once."""

    def __init__(self, events: EventFile) -> None:
        self._events = events
        self._seen: set[tuple[str, str]] = set()

    @property
    def are_found(self) -> bool:
        """Whether one was reported."""
        return bool(self._seen)

    def look(self, call: int | None = None) -> None:
        """Report those that are in effect now and weren't before.

        Args:
            call: The call that is made now; None outside the calls.
        """
        for kind, value in torch_api.compile_switches():
            if (kind, value) not in self._seen:
                self._seen.add((kind, value))
                event = CompileSwitchEvent(event="compile_switch", kind=kind, value=value, call=call)
                self._events.write(event)
