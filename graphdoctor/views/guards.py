"""Guards: what their checks cost, then each compile's guards by argument and module."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from graphdoctor.facts.base import grouped
from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.guards import GuardNode, Guards, GuardSet
from graphdoctor.facts.recording import Frame
from graphdoctor.facts.stack import ORIGINS
from graphdoctor.views import parts
from graphdoctor.views.finding_cards import card_of, closing, partial_note
from graphdoctor.views.measures import time_text
from graphdoctor.views.next_step import after_run, guards_command
from graphdoctor.views.words import (
    clusters,
    diagnosis_view,
    few_text,
    other_gaps,
    short_place,
    unknown_section,
)
from graphdoctor.wording import counted, join_texts, percent, shortened

_MOST_OUTER = 12
_DEEPEST = 3
"""Of the parts that are shown in short: as deep as ``self.transformer.h[0]``."""
_MOST_SETS = 12
_MOST_KINDS = 5
_MOST_OWN = 3
_MOST_TEXT = 70
_MOST_OF_ONE = 24
_HIGH_SHARE = 0.1
_TELLING = (
    "GLOBAL_STATE",
    "TENSOR_MATCH",
    "EQUALS_MATCH",
    "NONE_MATCH",
    "LENGTH_CHECK",
    "LAMBDA_GUARD",
    "DICT_CONTAINS",
)
_VALUES = frozenset(
    {"EQUALS_MATCH", "NONE_MATCH", "TENSOR_MATCH", "LENGTH_CHECK", "ID_MATCH", "LAMBDA_GUARD"}
)
_ITEM = re.compile(r"\d+|'[^']*'")
_NO_VALUE = frozenset({"DIMENSION_DYNAMIC_MARKING_GUARD", "OBJECT_ALIASING", "NO_TENSOR_ALIASING"})
STATE = "process-wide state"
_TOKEN = re.compile(r"\[[^\]]*\]|[^.\[\]]+")
_INDEX = re.compile(r"\[\d+\]$")
_BOUND = re.compile(r"[\[\]…]")
VARIES = "different in each"
"""Stands for the expected value of a guard that differs among folded parts."""


def guards_view(diagnosis: Diagnosis) -> parts.View:
    """The guards of a diagnosis that has some; findings about anything else are only counted."""
    pieces = _parts(diagnosis, diagnosis.recording.guards or Guards())
    return diagnosis_view(diagnosis, "guards", pieces, after_run(diagnosis))


def _parts(diagnosis: Diagnosis, guards: Guards) -> Iterator[parts.Block]:
    yield from partial_note(diagnosis)
    if not guards.sets and (diagnosis.recording.compiles or guards.call_us is None):
        yield parts.Verdict("This recording holds no guards.", "warning")
        yield parts.Note(
            ("To record them: ", parts.Span(guards_command(diagnosis.recording.target), "code"))
        )
        return
    yield from _answer(guards, diagnosis)
    findings = [finding for finding in diagnosis.findings if finding.code.startswith("GD3")]
    yield parts.Cards(tuple(map(card_of, clusters(findings))))
    frames = diagnosis.recording.frames_by_compile()
    counts = {
        compile_.compile_id: compile_.guard_count for compile_ in diagnosis.recording.compiles
    }
    costliest = _costliest(guards.sets, frames)
    if len(costliest) > 1:
        rows = (_set_row(guard_set, frames.get(guard_set.compile_id)) for guard_set in costliest)
        columns = ("compile", "function", "#guards", "#check in the call", "#of the call")
        yield parts.Table(columns, rows, "compile", _MOST_SETS, show="short")
    if guards.sets:
        first = max(costliest, key=_weight)
        yield parts.Section(
            _title(first, frames.get(first.compile_id)), _costs_of_parts(first), show="short"
        )
    if hidden := len(guards.sets) - len(costliest):
        more = f"{counted(hidden, 'more compile')} of the same functions or with fewer guards: -v"
        yield parts.Note(more, "dim", show="short")
    for guard_set in guards.sets:
        title, torch_count = (
            _title(guard_set, frames.get(guard_set.compile_id)),
            counts.get(guard_set.compile_id),
        )
        yield parts.Section(
            title, _compile(guard_set, torch_count), guard_set.compile_id, show="long"
        )
    yield unknown_section(other_gaps(diagnosis))
    yield from closing(diagnosis, prefix="GD3")
    if others := len(diagnosis.findings) - len(findings):
        yield parts.Note(f"{counted(others, 'more finding')}: graphdoctor report", "dim")


def _costliest(sets: Sequence[GuardSet], frames: Mapping[str, Frame]) -> list[GuardSet]:
    """The compile of each function whose checks cost most; of these the costliest, in the order of
    the log.
    """
    first: dict[object, GuardSet] = {}
    for guard_set in sorted(sets, key=_weight, reverse=True):
        frame = frames.get(guard_set.compile_id)
        first.setdefault(guard_set.compile_id if frame is None else frame.frame_id, guard_set)
    chosen = {guard_set.compile_id for guard_set in list(first.values())[:_MOST_SETS]}
    return [guard_set for guard_set in sets if guard_set.compile_id in chosen]


def _weight(guard_set: GuardSet) -> tuple[float, int]:
    return guard_set.known_share or 0, guard_set.guard_count


def _set_row(guard_set: GuardSet, frame: Frame | None) -> parts.TableRow:
    name = "" if frame is None else frame.name
    cost = "" if guard_set.search_us is None else time_text(guard_set.search_us)
    share = "" if guard_set.share is None else percent(guard_set.share)
    return guard_set.compile_id, parts.Span(name), str(guard_set.guard_count), cost, share


def _answer(guards: Guards, diagnosis: Diagnosis) -> Iterator[parts.Block]:
    total = sum(guard_set.guard_count for guard_set in guards.sets)
    line = f"{counted(total, 'guard')} in {counted(len(guards.sets), 'compile')}"
    if guards.call_us is not None:
        line += f" · steady call {time_text(guards.call_us)}{_spread(guards.call_low_us, guards.call_high_us)}"
    if guards.searches_us is not None and guards.share is not None:
        yield parts.Verdict(
            f"Guard checks take {percent(guards.share)} of a steady call.", _tone(guards.share)
        )
        line += f" · its guard checks {time_text(guards.searches_us)}"
        if guards.checks_us is not None:
            line += f", repeated with warm caches {time_text(guards.checks_us)}"
    elif guards.checks_us is not None and guards.warm_share is not None:
        text = f"Guard checks take at least {percent(guards.warm_share)} of a steady call: timed with warm caches."
        yield parts.Verdict(text, _tone(guards.warm_share))
        line += f" · its guard checks at least {time_text(guards.checks_us)}"
    elif guards.call_us is not None and (guards.searches_us or guards.checks_us):
        yield parts.Verdict(
            "Too noisy to say which share of a steady call guard checks take.", "warning"
        )
        line += f" · its guard checks {time_text(guards.searches_us or guards.checks_us or 0.0)}"
    elif guards.call_us is not None and not any(
        guard_set.runs_per_call for guard_set in guards.sets
    ):
        yield parts.Verdict(
            "The steady call runs no compiled code, so there are no checks to time.", "warning"
        )
    yield parts.Note(line)
    if (
        guards.call_us is not None
        and diagnosis.recording.target.compile_arguments.get("backend") == "eager"
    ):
        yield parts.Note(
            "Measured with the eager backend; use --backend inductor for the share of an optimized call.",
            "dim",
        )


def _tone(share: float) -> parts.Tone:
    return "warning" if share >= _HIGH_SHARE else "good"


# One compile.


def _title(guard_set: GuardSet, frame: Frame | None) -> parts.Inline:
    if frame is None:
        return guard_set.compile_id
    return (f"{guard_set.compile_id} ", parts.Span(frame.described), "  ", short_place(frame.entry))


def _costs_of_parts(guard_set: GuardSet) -> Iterator[parts.Block]:
    costs = ["#without it (warm)"] if guard_set.bill else []
    pieces = sorted(parts_of(guard_set), key=lambda part: -part.guard_count * part.times)
    rows = [
        _part_row(depth, part, guard_set, most=1)
        for depth, part in walk(pieces)
        if depth <= _DEEPEST
    ]
    yield parts.Table(("#part", "#guards", *costs, "checks"), rows, "part", _MOST_OUTER)
    values = ((*row[:2], "") for row in map(tuple, _values(guard_set)))
    yield parts.Table(("value", "must be", "from line"), values, "value", _MOST_OUTER)


def _compile(guard_set: GuardSet, torch_count: int | None) -> Iterator[parts.Block]:
    yield parts.Rows(_facts(guard_set, torch_count))
    costs = ["#without it (warm)"] if guard_set.bill else []
    rows = (_part_row(depth, part, guard_set) for depth, part in walk(parts_of(guard_set)))
    yield parts.Table(("#part", "#guards", *costs, "checks"), rows, "part")
    if guard_set.unbilled_count and guard_set.bill:
        yield parts.Note(f"{counted(guard_set.unbilled_count, 'part')} not timed separately", "dim")
    names = ("value", "must be", "from line")
    yield parts.Table(("kind", *names), _guard_rows(guard_set), "guard", show="long")


def _facts(guard_set: GuardSet, torch_count: int | None) -> Iterator[parts.Row]:
    # Those that check no value say least, however many there are.
    kinds = [
        f"{count} {kind}"
        for kind, count in sorted(guard_set.kinds.items(), key=lambda item: item[0] in _NO_VALUE)
    ]
    yield parts.Row("guards", f"{guard_set.guard_count}: {few_text(kinds, _MOST_KINDS)}")
    if torch_count is not None and torch_count != guard_set.guard_count:
        text = (
            f"torch counts {torch_count}, as Dynamo installs them; each can become several checks"
        )
        yield parts.Row("", parts.Note(text, "dim"))
    label = "cost"
    if guard_set.search_us is not None:
        spread = _spread(guard_set.search_low_us, guard_set.search_high_us)
        yield parts.Row(
            label,
            f"{time_text(guard_set.search_us)} per check in the call{spread}{_of_call(guard_set, guard_set.share)}",
        )
        label = ""
    if guard_set.check_us is not None:
        spread = _spread(guard_set.check_low_us, guard_set.check_high_us)
        share = _of_call(guard_set, guard_set.warm_share) if label else ""
        yield parts.Row(
            label, f"{time_text(guard_set.check_us)} repeated with warm caches{spread}{share}"
        )
    elif guard_set.runs_per_call == 0:
        yield parts.Row(label, parts.Note("the steady call doesn't run it", "dim"))
    if guard_set.latency_us:
        text = f"torch measured {time_text(guard_set.latency_us)} once, right after compiling with cold caches"
        yield parts.Row("", parts.Note(text, "dim"))


def _spread(low_us: float | None, high_us: float | None) -> str:
    return f" ({time_text(low_us or 0)} to {time_text(high_us or 0)})"


def _of_call(guard_set: GuardSet, share: float | None) -> str:
    if share is None:
        return ""
    times = "" if guard_set.runs_per_call == 1 else f" ({guard_set.runs_per_call} checks)"
    return f" · {percent(share)} of the steady call{times}"


def _part_row(
    depth: int, part: Part, guard_set: GuardSet, *, most: int = _MOST_OWN
) -> parts.TableRow:
    name = parts.Span("· " * depth + (part.label if depth else part.path))
    count = f"{part.times} x {part.guard_count}" if part.times > 1 else str(part.guard_count)
    costs = []
    if guard_set.bill:
        share = (
            f"  {percent(min(part.check_us / guard_set.check_us, 1))}"
            if part.check_us and guard_set.check_us
            else ""
        )
        costs.append(
            parts.Cell(
                "" if part.check_us is None else f"-{time_text(part.check_us)}{share}",
                value=part.check_us,
            )
        )
    alike = parts.Span(f"  {part.times} alike", tone="dim") if part.times > 1 else ""
    return ((name, alike), count, *costs, parts.Span(_own_text(part, most)))


def _own_text(part: Part, most: int) -> str:
    values = [
        node for node in part.guards if not node.is_module_internal and node.kind not in _NO_VALUE
    ]
    # Stable: torch's order within a kind.
    values.sort(
        key=lambda node: _TELLING.index(node.kind) if node.kind in _TELLING else len(_TELLING)
    )
    texts = list(dict.fromkeys(_value_text(node, part.path) for node in values if node.expected))
    limit = _MOST_TEXT if most > 1 else _MOST_OF_ONE
    shown = few_text([shortened(text, limit) for text in texts], most, between="; ", end="; ")
    internal = sum(node.is_module_internal for node in part.guards)
    return join_texts("; ", shown, f"{internal} internal" if internal else None)


def _value_text(node: GuardNode, path: str) -> str:
    if path in (STATE, node.expression):
        return node.expected or ""
    name = (
        node.expression if node.path == "globals" else node.expression.removeprefix(node.path or "")
    )
    verb = " is" if node.kind in ("NONE_MATCH", "ID_MATCH", "TYPE_MATCH") else ""
    return f"{name}{verb} {node.expected}"


# Values and guards, one by one.


def _values(guard_set: GuardSet) -> Iterator[parts.TableRow]:
    """Guards on values of the program, which cause a recompile when they change, those of the
    user's lines first.

    Guards of repeated modules, or of the items of one list or dict, are shown as one.
    """
    nodes = (
        node
        for node in guard_set.nodes
        if node.path not in (None, "globals") and not node.is_module_internal
    )
    alike = grouped(
        (
            (
                _ITEM.sub("…", node.expression),
                node.kind,
                node.location and (node.location.file, node.location.line),
            ),
            node,
        )
        for node in nodes
        if node.kind in _VALUES and node.expected
    )
    for first, *others in sorted(alike.values(), key=_origin_rank):
        more = f"  and {len(others)} like this" if others else ""
        is_same = all(node.expected == first.expected for node in others)
        must = parts.Cell(parts.Span(first.expected or "" if is_same else VARIES))
        yield (parts.Span(first.expression), parts.Span(more, tone="dim")), must, _because(first)


def _origin_rank(nodes: list[GuardNode]) -> tuple[int, bool]:
    """The user's own lines first, and of each origin what is a tensor or a size, which is likeliest
    to change.
    """
    origin = ORIGINS.index(nodes[0].location.origin) if nodes[0].location else len(ORIGINS)
    return origin, nodes[0].kind not in ("TENSOR_MATCH", "LAMBDA_GUARD")


def _guard_rows(guard_set: GuardSet) -> Iterator[parts.TableRow]:
    # torch prints one guard on a tensor's dynamic marking as five identical lines.
    for (kind, value, expected), nodes in groupby(guard_set.nodes, _cells):
        same = list(nodes)
        must = parts.Cell(
            (
                parts.Span(expected),
                parts.Span(f"  {len(same)} times" if len(same) > 1 else "", tone="dim"),
            )
        )
        yield parts.Span(kind), parts.Span(value), must, _because(same[0])
    yield from (("?", "", parts.Span(line.strip(" |+-")), "") for line in guard_set.unread_lines)


def _cells(node: GuardNode) -> tuple[str, str, str]:
    return node.kind or "?", node.expression, node.guard if node.expected is None else node.expected


def _because(node: GuardNode) -> parts.Cell:
    if node.location is None:
        return parts.Cell("")
    place = short_place(node.location)
    return parts.Cell(
        (place, parts.Span(f"  {node.location.text}", tone="dim")) if node.location.text else place
    )


# Guards as a tree of arguments and modules, with repeated modules folded.


@dataclass
class Part:
    """An argument, a module or a group of these, each with its cost with everything inside; None if
    not measured.
    """

    path: str
    label: str
    guards: list[GuardNode] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    times: int = 1
    costs_us: list[float | None] = field(default_factory=list)

    @property
    def guard_count(self) -> int:
        """Guards of one part, with everything inside."""
        return len(self.guards) + sum(part.guard_count * part.times for part in self.parts)

    @property
    def check_us(self) -> float | None:
        """Cost of all folded parts together; None unless each was measured."""
        measured = [cost for cost in self.costs_us if cost is not None]
        return sum(measured) if measured and len(measured) == self.times else None


def parts_of(guard_set: GuardSet) -> list[Part]:
    """The parts of a compile's guards in the order of torch's tree: process-wide state first,
    repetitions folded.
    """
    root = Part("", "")
    by_path = {"": root}
    for node in guard_set.nodes:
        _part(node.path or STATE, by_path).guards.append(node)
    costs = {cost.path: cost.check_us for cost in guard_set.bill}
    for path, part in by_path.items():
        part.costs_us = [costs.get(path)]
    return _folded(root.parts)


def walk(pieces: list[Part], depth: int = 0) -> Iterator[tuple[int, Part]]:
    """Each part with its depth, outer ones first."""
    for part in pieces:
        yield depth, part
        yield from walk(part.parts, depth + 1)


def _part(path: str, by_path: dict[str, Part]) -> Part:
    """The part with a path; it and its parents are made if needed."""
    if path in by_path:
        return by_path[path]
    tokens = [path] if path == STATE else _TOKEN.findall(path)
    last = tokens[-1] if tokens else path
    above = path[: -len(last)].removesuffix(".") if len(tokens) > 1 else ""
    part = by_path[path] = Part(path, last if last.startswith("[") or not above else f".{last}")
    _part(above, by_path).parts.append(part)
    return part


def _folded(pieces: list[Part]) -> list[Part]:
    """The parts, with neighbors ``[0]``, ``[1]``, … that check the same merged."""
    kept: list[Part] = []
    before: object = None
    for part in pieces:
        part.parts = _folded(part.parts)
        shape = _shape(part, part.path)
        if (
            kept
            and _INDEX.search(part.label)
            and kept[-1].label.startswith("[")
            and shape == before
        ):
            first = kept.pop()
            label = f"[{_BOUND.split(first.label)[1]}…{_BOUND.split(part.label)[1]}]"
            path, costs = (
                first.path.removesuffix(first.label) + label,
                first.costs_us + part.costs_us,
            )
            kept.append(Part(path, label, *_both(first, part), first.times + 1, costs))
        else:
            kept.append(part)
        before = shape
    return kept


def _both(first: Part, other: Part) -> tuple[list[GuardNode], list[Part]]:
    guards = [
        node if node.expected == same.expected else node.replace(expected=VARIES)
        for node, same in zip(first.guards, other.guards, strict=True)
    ]
    below = [
        Part(part.path, part.label, *_both(part, same), part.times)
        for part, same in zip(first.parts, other.parts, strict=True)
    ]
    return guards, below


def _shape(part: Part, root: str) -> object:
    guards = tuple((node.kind, node.expression.replace(root, "")) for node in part.guards)
    return guards, tuple((below.label, below.times, _shape(below, root)) for below in part.parts)
