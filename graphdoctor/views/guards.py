"""Guards on the terminal: what their checks cost, then each compile's guards by argument and module."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from rich.text import Text

from graphdoctor.facts.guards import GuardNode, Guards, GuardSet
from graphdoctor.facts.stack import PROGRAM_ORIGINS
from graphdoctor.facts.wording import counted, percent
from graphdoctor.views.cards import closing, finding_card, partial, title_line, unknown_rows
from graphdoctor.views.guard_parts import STATE, VARIES, Part, parts_of, walk
from graphdoctor.views.terminal_lines import clean, labeled_rows, write
from graphdoctor.views.words import base_name, clusters

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from graphdoctor.facts.diagnosis import Diagnosis
    from graphdoctor.facts.recording import Frame

_MAX_PARTS = 24
_MAX_SETS = 12
_MAX_VALUES = 12
_MAX_KINDS = 5
_MAX_OWN = 3
_MAX_TEXT = 70
_NARROW = 100
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
_VALUES = frozenset({"EQUALS_MATCH", "NONE_MATCH", "TENSOR_MATCH", "LENGTH_CHECK", "ID_MATCH", "LAMBDA_GUARD"})
_ORIGINS = (*PROGRAM_ORIGINS, "torch", "stdlib")
_ITEM = re.compile(r"\d+|'[^']*'")
_NO_VALUE = frozenset({"DIMENSION_DYNAMIC_MARKING_GUARD", "OBJECT_ALIASING", "NO_TENSOR_ALIASING"})


def render_guards(diagnosis: Diagnosis, console: Console, *, is_verbose: bool = False) -> None:
    """Write the guards of a diagnosis to a terminal.

    Args:
        diagnosis: What to show, with its ``guards``.
        console: Where to.
        is_verbose: Show every guard of every compile.
    """
    guards = diagnosis.recording.guards or Guards()
    write(console, title_line(diagnosis))
    write(console, Text())
    for line in (*partial(diagnosis), *_headline(guards, diagnosis)):
        write(console, line)
    shown = [finding for finding in diagnosis.findings if finding.code.startswith("GD3")]
    for cluster in clusters(shown):
        write(console, Text())
        for renderable in finding_card(cluster, is_verbose=is_verbose):
            write(console, renderable)
    frames = diagnosis.frames_by_compile()
    counts = {compile_.compile_id: compile_.guard_count for compile_ in diagnosis.recording.compiles}
    sets = guards.sets if is_verbose else _costliest(guards.sets, frames)
    for found in sets:
        write(console, Text())
        frame, torch_count = frames.get(found.compile_id), counts.get(found.compile_id)
        is_narrow = console.width < _NARROW
        for renderable in _compile(found, frame, torch_count, is_verbose=is_verbose, is_narrow=is_narrow):
            write(console, renderable)
    if len(sets) < len(guards.sets):
        hidden = counted(len(guards.sets) - len(sets), "more compile")
        write(console, Text(f"{hidden} of the same functions or with fewer guards (-v shows all)", style="dim"))
    for renderable in unknown_rows(diagnosis):
        write(console, renderable)
    others = len(diagnosis.findings) - len(shown)
    more = [Text(f"{counted(others, 'other finding')}: graphdoctor report", "dim")] if others else []
    for line in (*closing(diagnosis, prefix="GD3"), *more):
        write(console, Text())
        write(console, line)


def _costliest(sets: Sequence[GuardSet], frames: Mapping[str, Frame]) -> list[GuardSet]:
    """The compile of each function whose checks cost most; of these the costliest, in the order of the log."""
    first: dict[object, GuardSet] = {}
    for found in sorted(sets, key=lambda found: (found.known_share or 0, found.guard_count), reverse=True):
        frame = frames.get(found.compile_id)
        first.setdefault(found.compile_id if frame is None else frame.frame_id, found)
    chosen = {found.compile_id for found in list(first.values())[:_MAX_SETS]}
    return [found for found in sets if found.compile_id in chosen]


def _headline(guards: Guards, diagnosis: Diagnosis) -> Iterator[Text]:
    total = sum(found.guard_count for found in guards.sets)
    line = Text(f"{counted(total, 'guard')} in {counted(len(guards.sets), 'compile')}")
    if guards.call_us is not None:
        spread = f" ({_us(guards.call_low_us or 0)} to {_us(guards.call_high_us or 0)})"
        line.append(f" · steady call {_us(guards.call_us)}{spread}")
    if guards.searches_us is not None and guards.share is not None:
        style = "bold yellow" if guards.share >= _HIGH_SHARE else "bold green"
        yield Text(f"Guard checks take {percent(guards.share)} of a steady call.", style=style)
        line.append(f" · its guard checks {_us(guards.searches_us)}")
        if guards.checks_us is not None:
            line.append(f", repeated with warm caches {_us(guards.checks_us)}")
    elif guards.checks_us is not None and guards.warm_share is not None:
        style = "bold yellow" if guards.warm_share >= _HIGH_SHARE else "bold green"
        text = f"Guard checks take at least {percent(guards.warm_share)} of a steady call: timed with warm caches."
        yield Text(text, style=style)
        line.append(f" · its guard checks at least {_us(guards.checks_us)}")
    elif guards.call_us is not None and not any(found.runs_per_call for found in guards.sets):
        yield Text("The steady call runs no compiled code, so there are no checks to time.", style="bold yellow")
    yield line
    if guards.call_us is not None and diagnosis.recording.target.compile_arguments.get("backend") == "eager":
        note = "Measured with the eager backend; use --backend inductor for the share of an optimized call."
        yield Text(note, style="dim")


def _us(value: float) -> str:
    """Microseconds with three digits; milliseconds from ten thousand on."""
    if value >= 10_000:
        return f"{value / 1000:.3g} ms"
    return f"{value:.0f} µs" if value >= 100 else f"{value:.3g} µs"


# One compile.


def _compile(
    found: GuardSet, frame: Frame | None, torch_count: int | None, *, is_verbose: bool, is_narrow: bool
) -> Iterator[RenderableType]:
    heading = clean(f"{found.compile_id} ", "bold cyan")
    if frame is not None:
        place = "" if frame.resumes_at is None else f" from line {frame.resumes_at}"
        heading.append_text(clean((frame.qualname or frame.function) + place, "bold"))
        heading.append_text(clean(f"  {base_name(frame.file)}:{frame.line}", "dim"))
    yield heading
    yield labeled_rows(_facts(found, torch_count))
    parts = parts_of(found)
    yield _part_table(parts, found, is_verbose=is_verbose, is_narrow=is_narrow)
    if is_verbose:
        yield _guard_table(found)
    else:
        values = _values(found)
        if values:
            yield _value_table(values)


def _facts(found: GuardSet, torch_count: int | None) -> Iterator[tuple[str, Text]]:
    kinds = [f"{count} {kind}" for kind, count in found.kinds.items()]
    shown = ", ".join(kinds[:_MAX_KINDS])
    more = f" and {counted(len(kinds) - _MAX_KINDS, 'more kind')}" if len(kinds) > _MAX_KINDS else ""
    yield "guards", clean(f"{found.guard_count}: {shown}{more}")
    if torch_count is not None and torch_count != found.guard_count:
        yield "", clean(f"torch counts {torch_count}, as Dynamo installs them; each can become several checks", "dim")
    label = "cost"
    if found.search_us is not None:
        spread = f" ({_us(found.search_low_us or 0)} to {_us(found.search_high_us or 0)})"
        yield label, Text(f"{_us(found.search_us)} per check in the call{spread}{_of_call(found, found.share)}")
        label = ""
    if found.check_us is not None:
        spread = f" ({_us(found.check_low_us or 0)} to {_us(found.check_high_us or 0)})"
        share = _of_call(found, found.warm_share) if label else ""
        yield label, Text(f"{_us(found.check_us)} repeated with warm caches{spread}{share}")
    elif found.runs_per_call == 0:
        yield label, Text("the steady call doesn't run it", "dim")
    if found.latency_us:
        yield "", Text(f"torch measured {_us(found.latency_us)} once, right after compiling with cold caches", "dim")


def _of_call(found: GuardSet, share: float | None) -> str:
    if share is None:
        return ""
    times = "" if found.runs_per_call == 1 else f" ({found.runs_per_call} checks)"
    return f" · {percent(share)} of the steady call{times}"


def _part_table(parts: list[Part], found: GuardSet, *, is_verbose: bool, is_narrow: bool) -> Table:
    has_costs = bool(found.bill)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("part", overflow="fold")
    table.add_column("guards", justify="right", no_wrap=True)
    if has_costs:
        table.add_column("without it (warm)", justify="right", no_wrap=True)
    table.add_column("checks", overflow="fold", ratio=1)
    rows = _chosen(parts, is_verbose=is_verbose)
    for depth, part in rows:
        name = "  " * depth + (part.label if depth else part.path)
        label = clean(name).append(f"  {part.times} alike" if part.times > 1 else "", "cyan")
        count = f"{part.times} x {part.guard_count}" if part.times > 1 else str(part.guard_count)
        cells = [label, Text(count)]
        if has_costs:
            cells.append(_saving(part, found))
        table.add_row(*cells, clean(_own_text(part, is_narrow)))
    hidden = sum(1 for _ in walk(parts)) - len(rows)
    if hidden > 0:
        table.add_row(Text(f"… {counted(hidden, 'part')} inside these", "dim"))
    if found.unbilled_count and has_costs:
        table.add_row(Text(f"… {counted(found.unbilled_count, 'part')} not timed separately", "dim"))
    return table


def _chosen(parts: list[Part], *, is_verbose: bool) -> list[tuple[int, Part]]:
    """As many whole levels as fit, and at least the outermost."""
    rows = list(walk(parts))
    if is_verbose or len(rows) <= _MAX_PARTS:
        return rows
    deepest = max(depth for depth, _ in rows)
    for limit in range(deepest, 0, -1):
        kept = [row for row in rows if row[0] <= limit]
        if len(kept) <= _MAX_PARTS:
            return kept
    return [row for row in rows if row[0] == 0]


def _saving(part: Part, found: GuardSet) -> Text:
    cost = part.check_us
    if cost is None:
        return Text("")
    share = f"  {percent(min(cost / found.check_us, 1)):>5}" if found.check_us else ""
    return Text(f"-{_us(cost)}{share}")


def _own_text(part: Part, is_narrow: bool) -> str:
    """What its own guards check, in short: values first, then how many check its internals."""
    values = [node for node in part.guards if not node.is_module_internal and node.kind not in _NO_VALUE]
    # Stable: torch's order within a kind.
    values.sort(key=lambda node: _TELLING.index(node.kind) if node.kind in _TELLING else len(_TELLING))
    texts = list(dict.fromkeys(_value_text(node, part.path) for node in values if node.expected))
    shown = [_cut(text) for text in texts[: 1 if is_narrow else _MAX_OWN]]
    if len(texts) > len(shown):
        shown.append(f"{len(texts) - len(shown)} more")
    internal = sum(node.is_module_internal for node in part.guards)
    if internal:
        shown.append(f"{internal} internal")
    return "; ".join(shown)


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 1] + "…"


def _value_text(node: GuardNode, path: str) -> str:
    if path in (STATE, node.expression):
        return node.expected or ""
    name = node.expression if node.path == "globals" else node.expression.removeprefix(node.path or "")
    verb = " is" if node.kind in ("NONE_MATCH", "ID_MATCH", "TYPE_MATCH") else ""
    return f"{name}{verb} {node.expected}"


# Values and guards, one by one.


def _values(found: GuardSet) -> list[tuple[GuardNode, int]]:
    """Guards on values of the program, which cause a recompile when they change, those of the user's lines first.

    Guards of repeated modules, or of the items of one list or dict, are shown as one.
    """
    alike: dict[object, list[GuardNode]] = {}
    for node in found.nodes:
        is_value = node.kind in _VALUES and node.path not in (None, "globals") and not node.is_module_internal
        if is_value and node.expected:
            place = (node.location.file, node.location.line) if node.location else None
            alike.setdefault((_ITEM.sub("…", node.expression), node.kind, place), []).append(node)
    return [(_for_all(nodes), len(nodes)) for nodes in sorted(alike.values(), key=_origin_rank)]


def _origin_rank(nodes: list[GuardNode]) -> int:
    return _ORIGINS.index(nodes[0].location.origin) if nodes[0].location else len(_ORIGINS)


def _for_all(nodes: list[GuardNode]) -> GuardNode:
    """The first of several; its expected value is replaced if the others' differ."""
    is_same = all(node.expected == nodes[0].expected for node in nodes)
    return nodes[0] if is_same else nodes[0].model_copy(update={"expected": VARIES})


def _value_table(values: Sequence[tuple[GuardNode, int]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("value", overflow="fold")
    table.add_column("must be", overflow="fold")
    table.add_column("from line", overflow="fold", ratio=1)
    for node, times in values[:_MAX_VALUES]:
        more = f"  and {times - 1} like this" if times > 1 else ""
        table.add_row(clean(node.expression).append(more, "dim"), clean(node.expected or ""), _because(node))
    if len(values) > _MAX_VALUES:
        table.add_row(Text(f"… {len(values) - _MAX_VALUES} more (-v shows all)", "dim"))
    return table


def _guard_table(found: GuardSet) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("kind", "value", "must be", "from line"):
        table.add_column(heading, overflow="fold")
    # torch prints one guard on a tensor's dynamic marking as five identical lines.
    for (kind, value, expected), nodes in groupby(found.nodes, _cells):
        same = list(nodes)
        times = f"  {len(same)} times" if len(same) > 1 else ""
        table.add_row(clean(kind), clean(value), clean(expected).append(times, "dim"), _because(same[0]))
    for line in found.unread_lines:
        table.add_row(Text("?"), Text(""), clean(line.strip(" |+-")), Text(""))
    return table


def _cells(node: GuardNode) -> tuple[str, str, str]:
    return node.kind or "?", node.expression, node.guard if node.expected is None else node.expected


def _because(node: GuardNode) -> Text:
    if node.location is None:
        return Text("")
    text = clean(f"{base_name(node.location.file)}:{node.location.line}")
    return text.append_text(clean(f"  {node.location.text}", "dim")) if node.location.text else text
