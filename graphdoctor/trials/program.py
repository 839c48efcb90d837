"""The user's program as a replay runs it: untouched, or with edits of its source and changes of how it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

from graphdoctor.facts.run import Setting
from graphdoctor.facts.trials import CompilerPartKind

_Item = TypeVar("_Item")


@dataclass(frozen=True)
class MinifierPlan:
    """What torch's minifier waits for."""

    after: Literal["dynamo", "aot"]
    folder: str
    is_wrong: bool


@dataclass(frozen=True)
class ExportPlan:
    """How to export the target before the calls are made.

    Args:
        dims: Sources of tensors with dims that are to stay dynamic; ``all`` for every dim of every tensor; None for
            none.
    """

    is_strict: bool
    dims: tuple[tuple[str, int], ...] | Literal["all"] | None = None
    hint: Literal["AUTO", "DYNAMIC"] = "AUTO"


@dataclass(frozen=True)
class RunChange:
    """What a fix changes about a run, apart from source.

    Args:
        dynamic: ``torch.compile``'s ``dynamic``, or None to leave it unchanged.
        without: Parts of the compiler to leave out, by kind: names, or None for all; what is used is reported then,
            even if nothing is left out. None to leave the compiler alone.
        minifier: Have torch's minifier write a script for the first graph that fails; None to have it do nothing.
        export: Export the target, and make the calls with the result; None to compile it.
    """

    settings: tuple[Setting, ...] = ()
    setup: tuple[str, ...] = ()
    dynamic: bool | None = None
    regional: bool = False
    marks: tuple[tuple[str, int], ...] = ()
    tensors: tuple[str, ...] = ()
    contiguous: tuple[str, ...] = ()
    static: tuple[str, ...] = ()
    buffers: tuple[str, ...] = ()
    on_device: tuple[str, ...] = ()
    sizes: tuple[tuple[str, int, int], ...] = ()
    warm_up: bool = False
    without: Mapping[CompilerPartKind, tuple[str, ...] | None] | None = None
    minifier: MinifierPlan | None = None
    alike: Literal["sizes", "kinds"] | None = None
    export: ExportPlan | None = None

    def joined(self, other: RunChange) -> RunChange:
        """Both changes together."""
        return RunChange(
            settings=_distinct(self.settings, other.settings),
            setup=_distinct(self.setup, other.setup),
            dynamic=other.dynamic if self.dynamic is None else self.dynamic,
            regional=self.regional or other.regional,
            marks=_distinct(self.marks, other.marks),
            tensors=_distinct(self.tensors, other.tensors),
            contiguous=_distinct(self.contiguous, other.contiguous),
            static=_distinct(self.static, other.static),
            buffers=_distinct(self.buffers, other.buffers),
            on_device=_distinct(self.on_device, other.on_device),
            sizes=_distinct(self.sizes, other.sizes),
            warm_up=self.warm_up or other.warm_up,
            without=self.without if other.without is None else other.without,
            minifier=self.minifier if other.minifier is None else other.minifier,
            alike=self.alike if other.alike is None else other.alike,
            export=self.export if other.export is None else other.export,
        )

    @property
    def config(self) -> dict[str, object]:
        """Values of torch's config by dotted name."""
        return {setting.name: setting.value for setting in self.settings if setting.member is None}

    @property
    def lines(self) -> tuple[str, ...]:
        """Lines of Python to run before the target is compiled, those that add to a setting among them."""
        return (*(setting.code for setting in self.settings if setting.member is not None), *self.setup)

    def plan(self) -> dict[str, object]:
        """Its part of the request's ``trial``; ``dynamic``, ``regional`` and ``config`` are in the request itself."""
        return {
            "warm_up": self.warm_up,
            "marks": [{"source": source, "dim": dim} for source, dim in self.marks],
            "tensors": list(self.tensors),
            "contiguous": list(self.contiguous),
            "static": list(self.static),
            "buffers": list(self.buffers),
            "on_device": list(self.on_device),
            "sizes": [{"source": source, "dim": dim, "size": size} for source, dim, size in self.sizes],
            "setup": "\n".join(self.lines) or None,
            "without": self.without,
            "minifier": None if self.minifier is None else asdict(self.minifier),
            "alike": self.alike,
            "export": None if self.export is None else asdict(self.export),
        }


@dataclass(frozen=True)
class Program:
    """The user's program, untouched or with changes.

    Args:
        content: Bytes to import in place of files.
    """

    content: Mapping[Path, bytes] = field(default_factory=dict)
    change: RunChange = field(default_factory=RunChange)


def _distinct(first: tuple[_Item, ...], second: tuple[_Item, ...]) -> tuple[_Item, ...]:
    return tuple(dict.fromkeys((*first, *second)))
