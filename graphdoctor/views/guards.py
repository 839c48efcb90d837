"""Guards: what their checks cost, then each compile's guards by argument and module."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.guards import GuardNode, Guards, GuardSet
from graphdoctor.facts.recording import Frame
from graphdoctor.views.finding_cards import card_of, closing, partial_note
from graphdoctor.views.measures import time_text
from graphdoctor.views.next_step import after_run, guards_command
from graphdoctor.views.parts import (
    Block,
    Cards,
    Cell,
    Inline,
    Note,
    Row,
    Rows,
    Section,
    Show,
    Span,
    Table,
    TableRow,
    Tone,
    Verdict,
    View,
)
from graphdoctor.views.words import (
    clusters,
    diagnosis_view,
    few_text,
    other_gaps,
    short_place,
    unknown_section,
)
from graphdoctor.wording import counted, join_texts, percent, shortened

_DEEPEST = 3
"""Of the parts that are shown in short: as deep as ``self.transformer.h[0]``."""
_MOST_SETS = 12
_MOST_ROWS = 24
_MOST_KINDS = 5
_MOST_CHECKS = 3
_MOST_TEXT = 70
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
_NO_VALUE = frozenset({"DIMENSION_DYNAMIC_MARKING_GUARD", "OBJECT_ALIASING", "NO_TENSOR_ALIASING"})
STATE = "process-wide state"
_TOKEN = re.compile(r"\[[^\]]*\]|[^.\[\]]+")
_INDEX = re.compile(r"\[\d+\]$")
_BOUND = re.compile(r"[\[\]…]")
VARIES = "different in each"
"""Stands for the expected value of a guard that differs among folded parts."""


def guards_view(diagnosis: Diagnosis) -> View:
    """Return the guards of a diagnosis that has some; findings about anything else are only
    counted.
    """
    pieces = _parts(diagnosis, diagnosis.recording.guards or Guards())
    return diagnosis_view(diagnosis, "guards", pieces, after_run(diagnosis))


def _parts(diagnosis: Diagnosis, guards: Guards) -> Iterator[Block]:
    recording = diagnosis.recording
    yield from partial_note(diagnosis)
    if not guards.sets and (recording.compiles or guards.call_us is None):
        yield Verdict("This recording holds no guards.", "warning")
        yield Note(("To record them: ", Span(guards_command(recording.target), "code")))
        return
    yield from _answer(guards)
    if guards.call_us is not None and recording.target.compile_arguments.get("backend") == "eager":
        text = (
            "Measured with the eager backend; use --backend inductor for the share of an optimized"
            " call."
        )
        yield Note(text, "dim")
    findings = [finding for finding in diagnosis.findings if finding.code.startswith("GD3")]
    yield Cards(tuple(map(card_of, clusters(findings))))
    yield from _compiles(guards.sets, recording.frames_by_compile())
    for guard_set in guards.sets:
        frame = recording.frames_by_compile().get(guard_set.compile_id)
        title: Inline = guard_set.compile_id
        if frame is not None:
            title = (f"{title} ", Span(frame.described), "  ", short_place(frame.entry))
        yield Section(title, _compile(guard_set), guard_set.compile_id, show="long")
    yield unknown_section(other_gaps(diagnosis))
    yield from closing(diagnosis, prefix="GD3")
    if others := len(diagnosis.findings) - len(findings):
        yield Note(f"{counted(others, 'more finding')}: graphdoctor report", "dim")


def _answer(guards: Guards) -> Iterator[Block]:
    """Yield the share of a steady call that checks take, if it was measured, and the times."""
    call_us, searches_us, checks_us = guards.call_us, guards.searches_us, guards.checks_us
    total = sum(guard_set.guard_count for guard_set in guards.sets)
    texts = [f"{counted(total, 'guard')} in {counted(len(guards.sets), 'compile')}"]
    if call_us is not None:
        spread = _spread(guards.call_low_us, guards.call_high_us)
        texts.append(f"steady call {time_text(call_us)}{spread}")
    time_us = checks_us if searches_us is None else searches_us
    if time_us is not None:
        texts.append(f"its guard checks {time_text(time_us)}")
    share, least = guards.share, ""
    if searches_us is None:
        # Timed with warm caches.
        share, least = guards.warm_share, "at least "
    if share is not None:
        text = f"Guard checks take {least}{percent(share)} of a steady call."
        yield Verdict(text, _tone(share))
    elif call_us is not None and time_us:
        text = "Too noisy to say which share of a steady call guard checks take."
        yield Verdict(text, "warning")
    elif call_us is not None and not any(guard_set.runs_per_call for guard_set in guards.sets):
        text = "The steady call runs no compiled code, so there are no checks to time."
        yield Verdict(text, "warning")
    yield Note(" · ".join(texts))


def _tone(share: float) -> Tone:
    return "warning" if share >= _HIGH_SHARE else "good"


def _compiles(sets: Sequence[GuardSet], frames: Mapping[str, Frame]) -> Iterator[Block]:
    """In short: each compile with what its checks cost, the costliest first, with the guards of the
    first one by part.
    """
    if not sets:
        return
    ordered = sorted(sets, key=lambda item: (item.known_share or 0, item.guard_count), reverse=True)
    first = ordered[0]
    rows: list[TableRow] = []
    for guard_set in ordered[:_MOST_SETS]:
        frame, search_us = frames.get(guard_set.compile_id), guard_set.search_us
        name = f"{guard_set.compile_id} {frame.described if frame else ''}".rstrip()
        share = "" if guard_set.share is None else f", {percent(guard_set.share)} of it"
        costs = "" if search_us is None else f"{time_text(search_us)} in the call{share}"
        where: Inline = "" if frame is None else short_place(frame.entry)
        between = "; " if where and costs else ""
        count = str(guard_set.guard_count)
        rows.append((Span(name, "strong"), count, "", (where, between, costs)))
        if guard_set is first:
            pieces = sorted(parts_of(first), key=lambda part: -part.guard_count * part.times)
            inner = [(depth + 1, part) for depth, part in walk(pieces) if depth <= _DEEPEST]
            rows += _part_rows(inner, first, most=1)
    yield _part_table(rows, _MOST_ROWS, show="short")
    if (hidden := len(ordered) - _MOST_SETS) > 0:
        yield Note(f"{counted(hidden, 'more compile')} (show with -v)", "dim", show="short")


# One compile.


def _compile(guard_set: GuardSet) -> Iterator[Block]:
    yield Rows(_facts(guard_set))
    yield _part_table([*_part_rows([*walk(parts_of(guard_set))], guard_set)], None)
    rows: list[TableRow] = []
    # torch prints one guard on a tensor's dynamic marking as five identical lines.
    for (kind, value, expected), nodes in groupby(guard_set.nodes, _cells):
        first, *others = nodes
        times = Span(f"  {len(others) + 1} times" if others else "", tone="dim")
        rows.append((Span(kind), Span(value), (Span(expected), times), _because(first)))
    rows += [("?", "", Span(line.strip(" |+-")), "") for line in guard_set.unread_lines]
    yield Table(("kind", "value", "must be", "from line"), rows, "guard", show="long")


def _facts(guard_set: GuardSet) -> Iterator[Row]:
    # Those that check no value say least, however many there are.
    kinds = sorted(guard_set.kinds.items(), key=lambda item: item[0] in _NO_VALUE)
    texts = few_text([f"{count} {kind}" for kind, count in kinds], _MOST_KINDS)
    yield Row("guards", f"{guard_set.guard_count}: {texts}")
    runs, search_us, check_us = guard_set.runs_per_call, guard_set.search_us, guard_set.check_us
    share = guard_set.warm_share if search_us is None else guard_set.share
    times = "" if runs == 1 else f" ({runs} checks)"
    of_call = "" if share is None else f" · {percent(share)} of the steady call{times}"
    if search_us is not None:
        spread = _spread(guard_set.search_low_us, guard_set.search_high_us)
        yield Row("cost", f"{time_text(search_us)} per check in the call{spread}{of_call}")
    if check_us is not None:
        spread = _spread(guard_set.check_low_us, guard_set.check_high_us)
        text = f"{time_text(check_us)} repeated with warm caches{spread}"
        yield Row("cost", text + (of_call if search_us is None else ""))
    elif runs == 0:
        yield Row("cost", Note("the steady call doesn't run it", "dim"))


def _spread(low_us: float | None, high_us: float | None) -> str:
    return f" ({time_text(low_us or 0)} to {time_text(high_us or 0)})"


def _part_table(rows: Sequence[TableRow], most: int | None, show: Show = "always") -> Table:
    columns = ("#part", "#guards", "#time saved if removed (warm)", "checks")
    return Table(columns, rows, "part", most, show=show)


def _part_rows(
    pieces: Sequence[tuple[int, Part]], guard_set: GuardSet, most: int = _MOST_CHECKS
) -> Iterator[TableRow]:
    """Yield a row for each part with its depth, and so many of its checks."""
    for depth, part in pieces:
        name = Span("· " * depth + (part.label if depth else part.path))
        count, cost = str(part.guard_count), Cell("")
        alike: Inline = ""
        if part.times > 1:
            count = f"{part.times} x {count}"
            alike = Span(f"  {part.times} alike", tone="dim")
        if (check_us := part.check_us) is not None:
            whole_us = guard_set.check_us or 0.0
            share = f"  {percent(min(check_us / whole_us, 1))}" if check_us and whole_us else ""
            cost = Cell(f"-{time_text(check_us)}{share}", value=check_us)
        yield (name, alike), count, cost, Span(_checks_text(part, most))


def _checks_text(part: Part, most: int) -> str:
    """List the checks of a part's own guards, those that say most first."""
    ranks = {kind: rank for rank, kind in enumerate(_TELLING)}
    texts = []
    for node in sorted(part.guards, key=lambda node: ranks.get(node.kind or "", len(ranks))):
        if node.expected and not node.is_module_internal and node.kind not in _NO_VALUE:
            is_own = part.path in (STATE, node.expression)
            above = "" if node.path == "globals" else node.path or ""
            name = "" if is_own else f"{node.expression.removeprefix(above)} "
            texts.append(shortened(f"{name}{node.expected}", _MOST_TEXT))
    internal = sum(node.is_module_internal for node in part.guards)
    return join_texts(
        "; ",
        few_text([*dict.fromkeys(texts)], most, between="; ", end="; "),
        f"{internal} internal" if internal else None,
    )


# Guards, one by one.


def _cells(node: GuardNode) -> tuple[str, str, str]:
    return node.kind or "?", node.expression, node.guard if node.expected is None else node.expected


def _because(node: GuardNode) -> Inline:
    if (location := node.location) is None:
        return ""
    text = Span(f"  {location.text}", tone="dim") if location.text else ""
    lower = "" if node.lower_location is None else (short_place(node.lower_location), " and ")
    return (lower, short_place(location), text)


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

    def shape(self, root: str) -> object:
        """Describe its check, wherever it is below ``root``."""
        guards = tuple((node.kind, node.expression.replace(root, "")) for node in self.guards)
        return guards, tuple((part.label, part.times, part.shape(root)) for part in self.parts)

    def merge(self, other: Part) -> None:
        """Keep of each expected value only that it differs in another part of the same shape."""
        self.guards = [
            node if node.expected == same.expected else node.replace(expected=VARIES)
            for node, same in zip(self.guards, other.guards, strict=True)
        ]
        for part, same in zip(self.parts, other.parts, strict=True):
            part.costs_us = []
            part.merge(same)


def parts_of(guard_set: GuardSet) -> list[Part]:
    """Return the parts of a compile's guards in the order of torch's tree: process-wide state
    first, repetitions folded.
    """
    costs = {cost.path: cost.check_us for cost in guard_set.bill}
    by_path = {"": Part("", "")}

    def part_at(path: str) -> Part:
        """Return the part with a path; it and its parents are made if needed."""
        if path not in by_path:
            tokens = [path] if path == STATE else _TOKEN.findall(path)
            last = tokens[-1] if tokens else path
            above = path[: -len(last)].removesuffix(".") if len(tokens) > 1 else ""
            label = last if last.startswith("[") or not above else f".{last}"
            by_path[path] = Part(path, label, costs_us=[costs.get(path)])
            part_at(above).parts.append(by_path[path])
        return by_path[path]

    for node in guard_set.nodes:
        part_at(node.path or STATE).guards.append(node)
    return _folded(by_path[""].parts)


def walk(pieces: list[Part], depth: int = 0) -> Iterator[tuple[int, Part]]:
    """Yield each part with its depth, outer ones first."""
    for part in pieces:
        yield depth, part
        yield from walk(part.parts, depth + 1)


def _folded(pieces: list[Part]) -> list[Part]:
    """Return the parts, with neighbors ``[0]``, ``[1]``, … that check the same merged."""
    kept: list[Part] = []
    before: object = None
    for part in pieces:
        part.parts = _folded(part.parts)
        shape = part.shape(part.path)
        if _INDEX.search(part.label) and shape == before and kept[-1].label.startswith("["):
            first = kept[-1]
            label = f"[{_BOUND.split(first.label)[1]}…{_BOUND.split(part.label)[1]}]"
            first.path, first.label = first.path.removesuffix(first.label) + label, label
            first.times, first.costs_us = first.times + 1, first.costs_us + part.costs_us
            first.merge(part)
        else:
            kept.append(part)
        before = shape
    return kept
