"""Several recordings of one run to one: those of several processes, and those on both sides of a reset of Dynamo.

Each counts its compiles from 0, so all ids but those of the main process get a prefix, and frames new numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from graphdoctor.model.base import Fact
from graphdoctor.model.recording import CaptureGap, Recording


@dataclass(frozen=True)
class Part:
    """A recording whose compile ids are distinct in themselves.

    Args:
        recording: What one process did, up to a reset.
        process: The process's name; None for the main one.
        reset: How often Dynamo was reset before.
    """

    recording: Recording
    process: str | None = None
    reset: int = 0

    @cached_property
    def compile_ids(self) -> frozenset[str]:
        """The compile ids in it."""
        return frozenset(compile_.compile_id for compile_ in self.recording.compiles)

    @property
    def prefix(self) -> str:
        """What its compile ids begin with."""
        names = [*([self.process] if self.process else []), *([f"reset{self.reset}"] if self.reset else [])]
        return "".join(f"{name}:" for name in names)


def merge(parts: Sequence[Part]) -> Recording:
    """One recording of them all.

    Args:
        parts: At least one; the first is of the main process, whose target, exit, calls and coverage hold for all.

    Returns:
        Everything in the order of the parts; sources and gaps that several have alike once.
    """
    frame_base = 0
    renamed: list[Recording] = []
    for part in parts:
        recording = part.recording if not part.prefix else _rename(part, frame_base)
        frame_base = max((compile_.frame_id + 1 for compile_ in recording.compiles), default=frame_base)
        renamed.append(recording)
    main = renamed[0]
    if len(renamed) == 1:
        return main
    graphs = (graph for recording in renamed for graph in recording.graphs)
    return main.model_copy(
        update={
            "environment": next((item.environment for item in renamed if item.environment.torch), main.environment),
            "is_partial": any(recording.is_partial for recording in renamed),
            "compile_calls": tuple(call for recording in renamed for call in recording.compile_calls),
            "frames": tuple(frame for recording in renamed for frame in recording.frames),
            "compiles": tuple(compile_ for recording in renamed for compile_ in recording.compiles),
            "graphs": tuple(graph.model_copy(update={"index": index}) for index, graph in enumerate(graphs)),
            "breaks": tuple(record for recording in renamed for record in recording.breaks),
            "sources": tuple(
                {(item.file, item.line): item for recording in renamed for item in recording.sources}.values()
            ),
            "gaps": _merge_gaps(parts),
        }
    )


def _rename(part: Part, frame_base: int) -> Recording:
    """The recording with prefixed compile ids and with frame ids from ``frame_base`` on."""
    update: dict[str, object] = {}
    for name in type(part.recording).model_fields:
        value = getattr(part.recording, name)
        if isinstance(value, tuple) and name not in ("gaps", "calls", "sources"):
            update[name] = tuple(_renamed(item, part, frame_base) for item in value)
    return part.recording.model_copy(update=update)


def _renamed(fact: Fact, part: Part, frame_base: int) -> Fact:
    """One fact with the ids in it and in the facts that it holds; lines of code and graph nodes hold none."""
    update: dict[str, object] = {}
    for name in type(fact).model_fields:
        value = getattr(fact, name)
        if name == "compile_id" and value is not None:
            update[name] = part.prefix + value
        elif name == "nearest" and value in part.compile_ids:
            # A forked process has its parent's cache entries too; they are called what the parent calls them.
            update[name] = part.prefix + value
        elif name == "frame_id":
            update[name] = frame_base + value
        elif name == "process":
            update[name] = part.process
        elif isinstance(value, Fact):
            update[name] = _renamed(value, part, frame_base)
    return fact.model_copy(update=update)


def _merge_gaps(parts: Iterable[Part]) -> tuple[CaptureGap, ...]:
    """Each gap once; one of another process or behind a reset says so, since it may name compile ids."""
    gaps: dict[tuple[str, str], CaptureGap] = {}
    said = set()
    for part in parts:
        for gap in part.recording.gaps:
            if (gap.code, gap.message) in said:
                continue
            if not part.prefix:
                said.add((gap.code, gap.message))
            message = f"{part.prefix} {gap.message}" if part.prefix else gap.message
            gaps[gap.code, message] = gap.model_copy(update={"message": message})
    return tuple(gaps.values())
