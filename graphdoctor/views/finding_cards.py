"""Findings as cards: what was found, where, torch's words, what it caused, what was tried.

Comes in: findings. Goes out: parts of a view.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from graphdoctor.facts.diagnosis import Diagnosis, Finding
from graphdoctor.facts.fixes import LOSSY, WORKING, Fix
from graphdoctor.facts.recording import RaisedBy
from graphdoctor.facts.stack import StackEntry
from graphdoctor.rules.diagnosis.comparison import partial_text
from graphdoctor.views import words
from graphdoctor.views.next_step import after_run, explained
from graphdoctor.views.parts import (
    Block,
    Card,
    Code,
    Diff,
    Heading,
    Inline,
    Note,
    Place,
    Row,
    Rows,
    Show,
    Source,
    Span,
    Tone,
    joined,
)
from graphdoctor.views.reasons import verdict_text, why_text
from graphdoctor.views.verdicts import verdict_label
from graphdoctor.wording import bytes_text, counted, join_texts, times

_MAX_COMPILE_IDS = 6
_MAX_TRIED = 4
_MAX_OTHERS = 3


def card_of(
    cluster: Sequence[Finding],
    *,
    has_path: bool = True,
    others: Sequence[Finding] = (),
    show: Show = "always",
) -> Card:
    """Return a card of findings that ``clusters`` grouped.

    Without ``has_path``, the short form has the user's own line in place of the whole call path,
    and of the calls that it recompiled in. It names ``others``, more findings that the same
    suggestion is for, in a line each.
    """
    headings = tuple(
        Heading(
            finding.code,
            finding.message,
            finding.severity,
            f"finding-{finding.fingerprint}" if finding.fingerprint else None,
        )
        for finding in cluster
    )
    costs = [words.cost_text(finding.cost) for finding in cluster if finding.cost]
    rows = (
        *_torch_rows(cluster),
        *_effects(cluster),
        *_way(cluster, has_path=has_path),
        *(Row("cost", text) for text in [text for text in costs if text][:1]),
        *_fix_rows(cluster),
        *_other_rows(others),
    )
    tried = [fix for finding in cluster for fix in finding.fixes if fix.verdict != "not tried"]
    brief = f"{verdict_label(tried[0])}  {tried[0].title}" if tried else ""
    where = cluster[0].location
    pieces = (*_source(where), Rows(rows))
    return Card(headings, place_of(where), where.function, where.package, pieces, brief, show=show)


def partial_note(diagnosis: Diagnosis) -> Iterator[Note]:
    """Say first that the run ended early."""
    if diagnosis.recording.is_partial:
        yield Note((Span("PARTIAL  ", "strong", "bad"), Span(partial_text(diagnosis))), "bad")


def closing(diagnosis: Diagnosis, *, prefix: str = "GD") -> Iterator[Note]:
    """Say what costs leave out, what is hidden, and where to read more of findings with this
    ``prefix``.
    """
    costs = (finding.cost for finding in diagnosis.findings)
    if any(cost is not None and cost.call_from == "host_gap" for cost in costs):
        text = (
            "A host gap is the time that the host takes between two graphs. Lost fusion and time on"
            " the device aren't in it; only a fix that works measures them (--try)."
        )
        yield Note(text, "dim")
    if hidden := diagnosis.summary.hidden_findings:
        yield Note(
            f"{counted(hidden, 'finding')} hidden by --own-code, --select or --ignore.", "dim"
        )
    codes = (finding.code for finding in diagnosis.findings)
    page = explained(code for code in codes if code.startswith(prefix))
    if page not in (None, after_run(diagnosis)):
        yield Note(("Read more: ", Span(page or "", "code")), "dim")


def finding_rows(finding: Finding, names: Sequence[str] = ()) -> Iterator[Row]:
    """Show what holds a program, or variants of these names, back, and what to try."""
    which = (" (", joined([Span(name) for name in names]), ")") if names else ()
    yield Row(Span(finding.code, "strong"), Note((finding.message, *which)))
    location = finding.location
    if location.file:
        place = Place(location.file, location.line, location.shown_file)
        at = Note((place, " in ", Span(location.function, "code")), "dim")
        yield Row("at", at, show="long" if names else "always")
    for number, fix in enumerate(words.worth_trying(finding.fixes)):
        yield Row("try", Note(words.fix_text(fix), "good"), show="long" if number else "always")
        if fix.snippet is not None:
            yield Row("", tuple(_snippet(fix, "always")), show="long")


def finding_line(finding: Finding, said: Inline) -> Row:
    """Return a finding as a row: its code, where it is, and what is said of it."""
    return Row(finding.code, Note((place_of(finding.location), "  ", said)))


def place_of(where: StackEntry) -> Place:
    """Return where a finding is."""
    return Place(where.file, where.line, where.shown_file, where.column)


def _source(where: StackEntry) -> Iterator[Source]:
    if where.text is not None:
        indent = where.indent or 0
        start = -1 if where.column is None else where.column - 1 - indent
        # An expression of several lines is marked to the end of its first.
        end = where.end_column - 1 - indent if where.end_column else len(where.text)
        is_within = 0 <= start < end
        yield Source(where.line, where.text, *((start, end) if is_within else ()))


def _torch_rows(cluster: Sequence[Finding]) -> Iterator[Row]:
    first, has_fixes = cluster[0], any(finding.fixes for finding in cluster)
    if first.torch_reason:
        said = words.first_sentence(first.torch_reason)
        if first.reasons and has_fixes:
            # The heading says the rest in plain words.
            said = re.split(r" \(unhinted: |: ", said, maxsplit=1)[0]
        show: Show = "always" if first.reasons else "long"
        yield Row(first.torch_id or "torch", Span(said), show=show)
        if said != first.torch_reason:
            yield Row("", Code(first.torch_reason, "text"), show="long")
    for context in (reason.context for reason in first.reasons if reason.context):
        yield Row("context", Code(context, "text"), show="long")
    for number, hint in enumerate(first.hints):
        yield Row("hint", Span(hint), show="long" if number or has_fixes else "always")


_RAISED: Mapping[RaisedBy | None, str] = {
    "fullgraph": "raised an error because of fullgraph=True",
    "error_on_graph_break": "raised an error because of torch._dynamo.error_on_graph_break(True)",
    None: "raised an error",
}


def _effects(cluster: Sequence[Finding]) -> Iterator[Row]:
    first, effects = cluster[0], cluster[0].effects
    if first.break_effects or first.compile_ids:
        caused = [f"broke {times(first.count)}"] if first.break_effects else []
        if "raised" in first.break_effects:
            caused.append(_RAISED[effects.raised_by])
        # Dynamo still compiles what a skipped frame calls.
        skipped = "skipped: its own lines run eagerly"
        caused += [f"`{name}` {skipped}" for name in effects.skipped_frames]
        caused += [f"the rest of `{name}` runs eagerly" for name in effects.rest_eager_frames]
        for items, noun in (
            (effects.graphs, "graph"),
            # Compiled anew for another value, it's still the same one.
            ({id_.rpartition("/")[0] for id_ in effects.resume_functions}, "resume function"),
        ):
            caused += [counted(len(items), noun)] if items else []
        ids = words.few_text(first.compile_ids, _MAX_COMPILE_IDS, between=" ")
        listed = f"  [{ids}]" if caused and ids else ids
        label = "caused" if first.break_effects else "compile"
        yield Row(label, Note((", ".join(caused), Span(listed, tone="dim"))))
    # The parts of a graph that torch split at DDP's buckets.
    splits = (finding.ddp_split for finding in cluster if finding.ddp_split)
    for bucket in (bucket for split in splits for bucket in split.buckets):
        size_bytes = bucket.parameter_bytes
        size = words.UNKNOWN if size_bytes is None else bytes_text(size_bytes)
        operations = counted(bucket.op_count, "operation")
        yield Row("part", f"{bucket.name}: {operations}, {size} of parameters")


def _way(cluster: Sequence[Finding], *, has_path: bool) -> Iterator[Row]:
    first, stack = cluster[0], cluster[0].user_stack
    long: Show = "always" if has_path else "long"
    # torch's own lines are left out.
    steps: list[Inline] = [
        (Span(entry.qualname or entry.function), " ", words.short_place(entry))
        for entry in stack
        if entry.origin not in ("torch", "stdlib")
    ]
    is_path = len(steps) > 1
    if is_path:
        yield Row("path", Note(joined(steps, " → ")), show=long)
    user_entries = [entry for entry in stack if entry.origin == "user"]
    if not has_path and first.location.origin != "user" and user_entries:
        entry = user_entries[-1]
        function = Span(f"  in {entry.qualname or entry.function}", tone="dim")
        called = Note((words.short_place(entry), function))
        yield Row("called at", called, show="short" if is_path else "always")
    # A recompile's are the calls that it happened in.
    show = "always" if first.break_effects else long
    lines: list[Inline] = [
        (
            Place(related.file, related.line, related.shown_file),
            f" ({related.note})" if related.note else "",
        )
        for finding in cluster
        for related in finding.related
    ]
    if lines:
        yield Row("see also", Note(joined(lines)), show=show)


def _other_rows(others: Sequence[Finding]) -> Iterator[Row]:
    """More findings that the same suggestion is for."""
    for number, finding in enumerate(others[:_MAX_OTHERS]):
        function = Span(f" in {finding.location.function}", tone="dim")
        text = Note((finding.code, " ", words.short_place(finding.location), function))
        yield Row("" if number else "also for", text, show="short")
    if (more := len(others) - _MAX_OTHERS) > 0:
        yield Row("", Note(f"and {counted(more, 'more finding')}", "dim"), show="short")


def _fix_rows(cluster: Sequence[Finding]) -> Iterator[Row]:
    """Suggestions: those tried with their verdicts, then the others; a few of each in the short
    form.
    """
    fixes = list(dict.fromkeys(fix for finding in cluster for fix in finding.fixes))
    tried = [fix for fix in fixes if fix.verdict != "not tried" or fix.diff]
    rest = [fix for fix in fixes if fix not in tried]
    is_fixed = any(fix.verdict in WORKING for fix in tried)
    is_gone = not is_fixed and all(finding.is_mended for finding in cluster)
    if is_gone:
        why = companion_text(cluster) or "with the fixes of other findings"
        yield Row("gone", Note(why, "good"))
    most = 0 if is_gone else _MAX_TRIED
    most_rest = 0 if is_gone or is_fixed or len(tried) > _MAX_TRIED else max(2 - len(tried), 0)
    for number, fix in enumerate(tried):
        # Beside one that holds, what wasn't tried would take the room that its edit needs.
        is_shown = number < most and not (is_fixed and fix.verdict == "not tried")
        show: Show = "always" if is_shown else "long"
        yield Row(verdict_label(fix), fix_parts(fix), show=show)
    for number, fix in enumerate(rest):
        label = "or" if number or tried else "try"
        yield Row(label, fix_parts(fix), show="always" if number < most_rest else "long")


def companion_text(cluster: Sequence[Finding]) -> str | None:
    """Whose consequence a finding is: ``goes with GD102 at line 12``; None if no trial showed
    it.
    """
    location = cluster[0].location
    for companion in (finding.goes_with for finding in cluster if finding.goes_with):
        file, _, line = companion.place.rpartition(":")
        is_same_file = file in (location.file, location.shown_file)
        return (
            f"goes with {companion.code} at {f'line {line}' if is_same_file else companion.place}"
        )
    return None


def fix_parts(fix: Fix) -> tuple[Block, ...]:
    """Return a suggestion with the reason for its verdict, and its edit, or its snippet and where
    that goes.
    """
    is_working, why = fix.verdict in WORKING, why_text(fix)
    is_good = is_working or fix.verdict == "not tried"
    tone: Tone | None = "warning" if fix.verdict == LOSSY else "good" if is_good else None
    said = verdict_text(fix) if is_working and fix.verdict != LOSSY else ""
    # Of one graph, the label says all but by what.
    said = said.partition(", ")[2] if fix.grade != "contained" else said
    blocks: list[Block] = [Note(f"{words.fix_text(fix)}{f' ({said})' if said else ''}", tone)]
    if fix.verdict == "changes results":
        blocks.append(Note(f"results differ: {why}", "bad"))
        worst = None if fix.attacked is None else fix.attacked.worst
        blocks += [Code(worst.code)] if worst is not None and worst.code else []
    elif fix.verdict == LOSSY:
        blocks.append(Note(join_texts(": ", verdict_text(fix), why), "warning"))
    elif why:
        blocks.append(Note(why, "dim"))
    if is_working and (same := words.same_text(fix.compared, fix.attacked)):
        blocks.append(Note(same, "dim"))
    show: Show = "always" if is_good or fix.verdict == "unproven" else "long"
    blocks += [Diff(fix.diff, show=show)] if fix.diff else _snippet(fix, show)
    return tuple(blocks)


def _snippet(fix: Fix, show: Show) -> Iterator[Block]:
    if fix.snippet and fix.snippet not in fix.title:
        if fix.place is not None:
            yield Note(f"{words.place_text(fix.place)}:", "dim", show=show)
        yield Code(fix.snippet, show=show)
