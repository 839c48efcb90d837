"""Recompiles to causes: which compiles one change caused, and which changes recur from call to
call.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from graphdoctor.facts.base import grouped, sum_of_known
from graphdoctor.facts.evidence import ShapeEvent
from graphdoctor.facts.expressions import expression
from graphdoctor.facts.fixes import SnippetPlace, Where
from graphdoctor.facts.guards import GuardChange
from graphdoctor.facts.recording import Compile, Frame, Recording, TargetInfo
from graphdoctor.facts.stack import StackEntry, innermost
from graphdoctor.wording import counted, names, quoted, without_middle

_STATE_KINDS = frozenset(
    {
        "grad_mode",
        "autocast",
        "default_dtype",
        "default_device",
        "threads",
        "determinism",
        "global_state",
        "function_mode",
    }
)
"""Changes of process-wide state, which every frame sees alike."""

_COUNTS = frozenset({"size", "number", "module_number"})
_MAX_VALUES = 5
_MAX_NAMES = 3
_UNEXPLAINED = GuardChange(kind="unknown", expression="a guard that torch did not name")


@dataclass(frozen=True, eq=False)
class RecompileEvent:
    """Recompiles in one call because of one change.

    Args:
        frame: The function that recompiled first.
        compiles: Its compile, then those that followed because the change reached other functions
            or resume functions.
        frames: The frame of each compile.
    """

    frame: Frame
    compiles: tuple[Compile, ...]
    frames: tuple[Frame, ...]

    @property
    def changes(self) -> tuple[GuardChange, ...]:
        """The guarded values that differed from the nearest cache entry at the first compile."""
        cause = self.compiles[0].cause
        return cause.changes if cause and cause.changes else (_UNEXPLAINED,)

    @property
    def call_index(self) -> int | None:
        """The number of the user's call, or None if calls have no numbers."""
        return self.compiles[0].call_index

    @property
    def is_over_limit(self) -> bool:
        """Torch compiled nothing, because the frame was over its recompile limit."""
        return self.compiles[0].outcome == "limit"

    @property
    def call_site(self) -> StackEntry | None:
        """The line of user or package code that made the call, or None if there is none."""
        first = self.compiles[0]
        return innermost(first.stack[:-1] or (first.cause.caller if first.cause else ()))

    @property
    def cost_s(self) -> float | None:
        """Seconds of all its compiles; None if torch reported none."""
        return sum_of_known(compile_.duration_s for compile_ in self.compiles)


@dataclass
class RecompileGroup:
    """A value, or several that change together, over all calls in which it made the same function
    recompile.

    Args:
        frame: The function.
        pairs: The changes of these values, in order, each with the event that it is of.
        names: Expressions of the values, each once.
        target: What is compiled, if its own call is what recompiles; None for a function that other
            code calls, where the names of arguments aren't known.
        is_within_call: The value changed within one call of the target, as a loop's counter does
            after a break.
        constants: What lines of the program made of symbolic sizes, in any of its compiles.
        is_static: Each call of ``torch.compile`` has ``dynamic=False``.
        config: torch config values in force, by dotted name.
    """

    frame: Frame
    pairs: list[tuple[RecompileEvent, GuardChange]] = field(default_factory=list)
    names: dict[str, None] = field(default_factory=dict)
    target: TargetInfo | None = None
    is_within_call: bool = False
    constants: tuple[ShapeEvent, ...] = ()
    is_static: bool = False
    config: Mapping[str, str] = field(default_factory=dict)

    @property
    def first(self) -> GuardChange:
        """The change that the finding is about."""
        return self.pairs[0][1]

    @property
    def events(self) -> list[RecompileEvent]:
        """What happened, in order."""
        return list(dict.fromkeys(event for event, _ in self.pairs))

    @property
    def changes(self) -> list[GuardChange]:
        """All changes of the values, in order."""
        return [change for _, change in self.pairs]

    def of(self, names: Iterable[str]) -> RecompileGroup:
        """Return what some of its values did."""
        kept = dict.fromkeys(names)
        pairs = [pair for pair in self.pairs if pair[1].expression in kept]
        return replace(self, names=kept, pairs=pairs)

    @property
    def compiles(self) -> tuple[Compile, ...]:
        """All compiles that the change caused."""
        return tuple(compile_ for event in self.events for compile_ in event.compiles)

    @property
    def compile_count(self) -> int:
        """Return how many compiles got code; those over the limit didn't."""
        return sum(compile_.outcome == "compiled" for compile_ in self.compiles)

    def steps(self, name: str) -> str:
        """Return a value in each event, ``4 → 6 → 7``; an empty string if no value is known. Those
        over the limit, which recompiled nothing, don't count.

        What an entry was compiled for can be of a call from long ago, so it only counts before the
        first event.
        """
        texts: list[str] = []
        for event, change in self.pairs:
            if change.expression == name and not event.is_over_limit:
                before = change.old if not texts and change.previous is None else change.previous
                texts += [text for text in (before, change.new) if text is not None]
        values = [without_middle(text) for text, _ in groupby(texts)]
        if len(values) == 1:
            return f"was {values[0]}"
        if len(values) > _MAX_VALUES:
            values[_MAX_VALUES - 1 : -1] = ["…"]
        return " → ".join(values)

    @property
    def changed(self) -> str:
        """Describe the change with its values: ``x.shape[0]`` changed: 4 → 6 → 7."""
        steps = {name: self.steps(name) for name in self.names}
        if len(common := set(steps.values())) == 1:
            return ": ".join(filter(None, (f"{names(steps)} changed", *common)))
        shown = [
            f"{quoted(name)} changed" + (f" ({step})" if step else "")
            for name, step in steps.items()
        ]
        more = len(shown) - _MAX_NAMES
        rest = f" and {counted(more, 'more value')}" if more > 0 else ""
        return ", ".join(shown[:_MAX_NAMES]) + rest

    def call_sites(self) -> Iterator[tuple[StackEntry, str]]:
        """Yield the user's lines that made the calls, each once, with the numbers of the calls."""
        sites = ((event.call_site, event.call_index) for event in self.events)
        for lines in grouped((site.at, (site, number)) for site, number in sites if site).values():
            numbers = dict.fromkeys(str(number) for _, number in lines if number is not None)
            note = f"called here in call {', '.join(numbers)}" if numbers else "called here"
            yield lines[0][0], note

    @property
    def is_from_first(self) -> bool:
        """Return whether the first call had these values: its cache entry guards on them.

        What later calls pass needn't be there in it: an argument can be None then.
        """
        causes = (event.compiles[0].cause for event in self.events)
        return any(cause is not None and (cause.nearest or "").endswith("/0") for cause in causes)

    def passed(self, change: GuardChange) -> str | None:
        """Return the changed value's name in the target's own call, such as ``batch['ids']``; None
        if it isn't passed there.

        A value that exists only inside compiled functions isn't passed by any call that can be
        changed.
        """
        source = None if self.target is None else self.target.argument(change.source)
        return None if source is None else expression(source)

    def at_call(self, where: Where, *values: str) -> SnippetPlace:
        """Return the code that calls the target, as the place of a snippet about what ``passed``
        returned.
        """
        arguments = dict.fromkeys(re.split(r"[\[.]", value, maxsplit=1)[0] for value in values)
        return SnippetPlace(where=where, function=self.frame.described, arguments=tuple(arguments))


def recompile_events(recording: Recording) -> tuple[RecompileEvent, ...]:
    """List recompiles and calls over the limit, in order; those that one change caused in one call
    are one event.
    """
    frames = {frame.frame_id: frame for frame in recording.frames}
    calls = _Calls()
    for compile_ in recording.compiles:
        frame = frames.get(compile_.frame_id)
        if frame is not None and (compile_.is_recompile or compile_.outcome == "limit"):
            calls.add(compile_, frame)
    return tuple(calls.events)


_Function = tuple[str, str]
"""A file and the name of a function in it."""


class _Calls:
    """Finds the events of the call that a compile belongs to without looking at those of other
    calls.

    Calls of a script have no number: what one call caused is consecutive and has the same calling
    line. A stack of lines is kept as one number: that of the line in the stack above it.
    """

    def __init__(self) -> None:
        self.events: list[RecompileEvent] = []
        self._stacks: dict[tuple[int, str, int, str], int] = {}
        self._begun: dict[tuple[int, _Function], list[int]] = {}
        self._last_of_frame: dict[int, int] = {}

    def add(self, compile_: Compile, frame: Frame) -> None:
        """Let a compile join the event that it follows from, or begin one."""
        around = self._around(compile_, frame)
        number = next((index for index in around if _follows(self.events[index], compile_)), None)
        if number is None:
            number = len(self.events)
            *_, above = self._numbered(compile_.stack[:-1])
            self._begun.setdefault((above, (frame.file, frame.function)), []).append(number)
            self.events.append(RecompileEvent(frame, (compile_,), (frame,)))
        else:
            event = self.events[number]
            compiles, frames = (*event.compiles, compile_), (*event.frames, frame)
            self.events[number] = RecompileEvent(event.frame, compiles, frames)
        last = self._last_of_frame.get(compile_.frame_id, number)
        self._last_of_frame[compile_.frame_id] = max(number, last)

    def _around(self, compile_: Compile, frame: Frame) -> Iterator[int]:
        """Yield the numbers of the events of the call that a compile belongs to, latest first."""
        if compile_.call_index is None:
            yield from heapq.merge(*self._unnumbered(compile_, frame), reverse=True)
            return
        for number in range(len(self.events) - 1, -1, -1):
            if self.events[number].call_index != compile_.call_index:
                return
            yield number

    def _unnumbered(self, compile_: Compile, frame: Frame) -> Iterator[Iterator[int]]:
        """Yield the events of functions through which the compile was reached, for each depth of
        its stack.
        """
        if not compile_.stack:
            return
        inner = compile_.stack[:-1]
        first: list[_Function | None] = [None]
        for entry in reversed(inner):
            first.append(first[-1] if entry.origin == "torch" else (entry.file, entry.function))
        for above, function in zip(self._numbered(inner), reversed(first), strict=True):
            # At the same depth only a resume function belongs to the same call.
            if function is None and frame.resumes_at is None:
                continue
            if begun := self._begun.get((above, function or (frame.file, frame.function))):
                yield self._latest(begun, compile_, frame if function is None else None)

    def _latest(
        self, begun: Sequence[int], compile_: Compile, resumed: Frame | None
    ) -> Iterator[int]:
        """Yield the latest call's events of one function at one line: it begins once, and continues
        from each line once.
        """
        seen: set[int] = set()
        end = self._last_of_frame.get(compile_.frame_id, -1)
        for number in reversed(begun):
            frame = self.events[number].frame
            if number <= end or frame.resumes_at in seen:
                return
            if resumed is None or (resumed.resumes_at or 0) >= frame.line:
                yield number
            if frame.resumes_at is None:
                return
            seen.add(frame.resumes_at)

    def _numbered(self, stack: Sequence[StackEntry]) -> Iterator[int]:
        """Yield the number of each beginning of a stack, the empty one first."""
        number = 0
        yield number
        for entry in stack:
            key = (number, entry.file, entry.line, entry.function)
            number = self._stacks.setdefault(key, len(self._stacks) + 1)
            yield number


def _follows(event: RecompileEvent, compile_: Compile) -> bool:
    """Return whether every value that differed for a compile changed like one of the event's first
    compile.
    """
    if compile_.cause is None or compile_.frame_id in (
        compiled.frame_id for compiled in event.compiles
    ):
        return False
    changes = compile_.cause.changes
    return bool(changes) and all(
        any(_is_same(first, change) for first in event.changes) for change in changes
    )


def _is_same(first: GuardChange, change: GuardChange) -> bool:
    """Return whether one change brought about the other.

    It did if they are the same process-wide state, the same value under the same name, or the same
    step from old to new. A size computed from another one grows by the same factor.
    """
    is_same_step = first.new == change.new and (
        (first.old is not None and first.old == change.old)
        or (first.previous is not None and first.previous == change.previous)
    )
    # A batch size can be a dim in one function and an int in the next.
    if is_same_step and {first.kind, change.kind} <= _COUNTS:
        return True
    if first.kind != change.kind:
        return False
    is_same_name = first.expression == change.expression
    if first.kind in _STATE_KINDS:
        return is_same_name
    if first.kind == "size" and not is_same_step:
        factor = _factor(first)
        return factor is not None and factor == _factor(change)
    return is_same_step or is_same_name


def _factor(change: GuardChange) -> float | None:
    try:
        return int(change.new or "") / int(change.previous or change.old or "")
    except (ValueError, ZeroDivisionError):
        return None


def can_be_dynamic(change: GuardChange) -> bool:
    """Return whether a size changed between sizes that dynamic code can have: torch compiles 0 and
    1 on their own.
    """
    return change.kind == "size" and not {change.old, change.new} & {"0", "1"}


def dynamic_sizes(changes: Iterable[GuardChange]) -> dict[str, set[str]]:
    """Collect the sizes of each dim that changed which one dynamic graph can have, also where 0 or
    1 comes between them.
    """
    sizes: dict[str, set[str]] = {}
    for change in (change for change in changes if change.kind == "size"):
        values = {value for value in (change.old, change.new) if value is not None}
        sizes.setdefault(change.expression, set()).update(values - {"0", "1"})
    return sizes


def fits_dynamic(event: RecompileEvent) -> bool:
    """Return whether one graph of dynamic sizes would have fitted all the sizes of an event."""
    return all(can_be_dynamic(change) for change in event.changes if change.kind == "size")


def is_specialized(change: GuardChange) -> bool:
    """Return whether a size changed from one to another that torch always compiles on its own: from
    1 to 0, or from 0 to 1.
    """
    return change.kind == "size" and {change.old, change.new} == {"0", "1"}


def hidden_change_count(events: Iterable[RecompileEvent]) -> int:
    """Return the most changed values that one of the events has beyond those that were recorded."""
    causes = (event.compiles[0].cause for event in events)
    return max((cause.hidden_change_count for cause in causes if cause), default=0)
