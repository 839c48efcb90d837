"""The user's program as a replay runs it: untouched, or with edits of its source and changes of how
it runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from graphdoctor.facts.run import Setting
from graphdoctor.facts.trials import CompilerPartKind


@dataclass(frozen=True)
class ExportPlan:
    """A plan to export the target before the calls."""

    is_strict: bool


@dataclass(frozen=True)
class RunChange:
    """A fix's changes of a run, apart from source.

    ``asks_as_compiled``: questions whether torch.compile is at work are answered with yes.
    ``without``: parts of the compiler to leave out, by kind: names, or None for all; what is used
    is reported then, even if nothing is left out.
    """

    settings: tuple[Setting, ...] = ()
    setup: tuple[str, ...] = ()
    dynamic: bool | None = None
    fullgraph: bool = False
    marks: tuple[tuple[str, int], ...] = ()
    tensors: tuple[str, ...] = ()
    contiguous: tuple[str, ...] = ()
    static: tuple[str, ...] = ()
    buffers: tuple[str, ...] = ()
    on_device: tuple[str, ...] = ()
    warm_up: bool = False
    without: Mapping[CompilerPartKind, tuple[str, ...] | None] | None = None
    alike: Literal["sizes"] | None = None
    asks_as_compiled: bool = False
    export: ExportPlan | None = None

    def joined(self, other: RunChange) -> RunChange:
        """Both changes together."""
        both: dict[str, Any] = {}
        for item in fields(self):
            mine, theirs = getattr(self, item.name), getattr(other, item.name)
            if isinstance(mine, tuple):
                both[item.name] = tuple(dict.fromkeys((*mine, *theirs)))
            else:
                # An empty mapping, and False where None is the default, say something.
                both[item.name] = mine if theirs == item.default else theirs
        return RunChange(**both)

    @property
    def config(self) -> dict[str, object]:
        """Values of torch's config by dotted name."""
        return {setting.name: setting.value for setting in self.settings if setting.member is None}

    @property
    def lines(self) -> tuple[str, ...]:
        """Lines of Python to run before the target is compiled, those that add to a setting among
        them.
        """
        return (
            *(setting.code for setting in self.settings if setting.member is not None),
            *self.setup,
        )

    def plan(self) -> dict[str, object]:
        """Write its part of the request's ``trial``; ``dynamic``, ``fullgraph``
        and ``config`` are in the request itself.
        """
        elsewhere = ("settings", "dynamic", "fullgraph")
        plan = {name: value for name, value in asdict(self).items() if name not in elsewhere}
        return plan | {"setup": "\n".join(self.lines) or None}


@dataclass(frozen=True)
class Program:
    """The user's program, untouched or with changes; ``content``: bytes to import in place of
    files.
    """

    content: Mapping[Path, bytes] = field(default_factory=dict)
    change: RunChange = field(default_factory=RunChange)

    def __hash__(self) -> int:
        return hash(frozenset(self.content))

    def changed(self, change: RunChange) -> Program:
        """Run it in another way."""
        return Program(self.content, self.change.joined(change))
