"""Merges the recordings of one run's processes, and those before and after a reset of Dynamo, into
one.

The ids of all but the main process get a prefix, frames new numbers, and generated files, whose
paths can be others in every run, are named by what made them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from graphdoctor.facts.base import Fact, Fields
from graphdoctor.facts.evidence import LogEvidence
from graphdoctor.facts.recording import CaptureGap, Recording

_Fact = TypeVar("_Fact", bound=Fact)
_JOINED = (
    "compile_calls",
    "frames",
    "compiles",
    "ddp_splits",
    "breaks",
    "cache_bypasses",
    "ignored_caches",
)


@dataclass(frozen=True)
class Part:
    """A recording in which every compile id is unique."""

    recording: Recording
    process: str | None = None
    reset: int = 0

    @cached_property
    def compile_ids(self) -> frozenset[str]:
        """Its compile ids."""
        return frozenset(compile_.compile_id for compile_ in self.recording.compiles)

    @property
    def prefix(self) -> str:
        """The prefix of its compile ids."""
        process = f"{self.process}:" if self.process else ""
        return f"{process}reset{self.reset}:" if self.reset else process

    def named(self, fact: _Fact) -> _Fact:
        """A fact of this part as it is among those of all parts."""
        return _renamed(fact, self, 0) if self.prefix else fact


def merge(parts: Sequence[Part]) -> Recording:
    """Merge parts into one recording."""
    frame_base = 0
    renamed = []
    for part in parts:
        recording = part.recording
        if part.prefix:
            fields = {
                name: tuple(_renamed(item, part, frame_base) for item in value)
                for name, value in vars(recording).items()
                if isinstance(value, tuple) and name not in ("gaps", "calls", "sources")
            }
            recording = recording.replace(**fields)
        frame_ids = (compile_.frame_id + 1 for compile_ in recording.compiles)
        frame_base = max(frame_ids, default=frame_base)
        renamed.append(recording)
    main = renamed[0]
    if len(renamed) == 1:
        return main
    graphs = (graph for recording in renamed for graph in recording.graphs)
    joined = {
        name: tuple(item for recording in renamed for item in getattr(recording, name))
        for name in _JOINED
    }
    # Ranks run the same lines.
    branches = dict.fromkeys(it for recording in renamed for it in recording.tracing_branches)
    environments = (item.environment for item in renamed if item.environment.torch)
    return main.replace(
        **joined,
        environment=next(environments, main.environment),
        is_partial=any(recording.is_partial for recording in renamed),
        graphs=tuple(graph.replace(index=index) for index, graph in enumerate(graphs)),
        sources=tuple(
            {item.code: item for recording in renamed for item in recording.sources}.values()
        ),
        tracing_branches=tuple(branches),
        evidence=joined_evidence(parts),
        gaps=_merge_gaps(parts),
    )


def joined_evidence(parts: Iterable[Part]) -> LogEvidence:
    """Join the evidence of several processes' logs."""
    joined: Fields = {}
    for part in parts:
        for name, value in vars(part.recording.evidence).items():
            items = value
            if isinstance(value, tuple):
                items = tuple(
                    part.prefix + item if isinstance(item, str) else part.named(item)
                    for item in value
                )
            joined[name] = joined[name] + items if name in joined else items
    return LogEvidence(**joined)


def _renamed(fact: _Fact, part: Part, frame_base: int) -> _Fact:
    """One fact with its ids renamed, and those of the facts in it; lines of code and graph nodes
    have none.
    """
    update = {}
    for name, value in vars(fact).items():
        if name == "compile_id" and value is not None:
            update[name] = part.prefix + value
        elif name == "nearest" and value in part.compile_ids:
            # A forked process also has its parent's cache entries, which keep the parent's ids.
            update[name] = part.prefix + value
        elif name == "frame_id":
            update[name] = frame_base + value
        elif name == "process":
            update[name] = part.process
        elif isinstance(value, Fact):
            update[name] = _renamed(value, part, frame_base)
    return fact.replace(**update)


def _merge_gaps(parts: Iterable[Part]) -> tuple[CaptureGap, ...]:
    """Each gap once, with the part's prefix if it has one, since the message can name compile
    ids.
    """
    gaps = {}
    for part in parts:
        for gap in part.recording.gaps:
            # Those of the main process come first.
            if (gap.code, gap.message) not in gaps:
                message = f"{part.prefix} {gap.message}".strip()
                gaps[gap.code, message] = gap.replace(message=message)
    return tuple(gaps.values())


def generated_names(processes: Iterable[Mapping[str, str | None]]) -> dict[str, str]:
    """A name for each generated file, such as ``<generated by model.Conv>``."""
    names = {}
    for files in processes:
        taken: dict[str, int] = {}
        for file, maker in files.items():
            words = "generated" if maker is None else f"generated by {maker}"
            taken[words] = number = taken.get(words, 0) + 1
            names[file] = f"<{words}>" if number == 1 else f"<{words} {number}>"
    return names


def with_generated(recording: Recording, names: Mapping[str, str]) -> Recording:
    """The recording with names in the place of paths."""
    return _Renaming(names).of(recording) if names else recording


class _Renaming:
    def __init__(self, names: Mapping[str, str]) -> None:
        # A path can begin with another one.
        self._names = dict(sorted(names.items(), key=lambda item: -len(item[0])))
        # Thousands of stacks share their entries; the entry itself is kept so that its id stays its
        # own.
        self._facts: dict[int, tuple[Fact, Fact]] = {}

    def of(self, value: Any) -> Any:  # noqa: ANN401 - as many types as fields
        if isinstance(value, str):
            for file, name in self._names.items():
                if file in value:
                    value = value.replace(file, name)
            return value
        if isinstance(value, Fact):
            if id(value) not in self._facts:
                self._facts[id(value)] = value, self._renamed(value)
            return self._facts[id(value)][1]
        if isinstance(value, tuple):
            items = tuple(map(self.of, value))
            is_changed = any(new is not old for new, old in zip(items, value, strict=True))
            return items if is_changed else value
        if isinstance(value, dict):
            return {key: self.of(item) for key, item in value.items()}
        return value

    def _renamed(self, fact: Fact) -> Fact:
        values = vars(fact)
        changed = {name: new for name, old in values.items() if (new := self.of(old)) is not old}
        if "origin" in values and values.get("file") in self._names:
            changed |= {"origin": "generated", "package": None}
        return fact.replace(**changed) if changed else fact
