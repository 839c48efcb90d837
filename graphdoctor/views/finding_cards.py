"""Findings as cards: what was found, where, torch's words, what it caused, what was tried.

Comes in: findings. Goes out: parts of a view.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from graphdoctor.facts.diagnosis import Diagnosis, Finding
from graphdoctor.facts.fixes import WORKING, Fix, Verdict
from graphdoctor.facts.stack import PROGRAM_ORIGINS, StackEntry
from graphdoctor.rules.diagnosis.comparison import partial_text
from graphdoctor.views import parts, words
from graphdoctor.views.next_step import after_run, explained
from graphdoctor.views.reasons import why_text
from graphdoctor.wording import bytes_text, counted, times

_MAX_COMPILE_IDS = 6
_MAX_TRIED = 4
_MAX_OTHERS = 3
_MAX_PARAMETERS = 4
_LABELS: dict[Verdict, str] = {
    "changes results": "changes",
    "makes it worse": "worse",
    "not tried": "untried",
}


def card_of(
    cluster: Sequence[Finding],
    *,
    has_path: bool = True,
    others: Sequence[Finding] = (),
    show: parts.Show = "always",
) -> parts.Card:
    """A card of findings that ``clusters`` grouped.

    Without ``has_path``, the short form has the user's own line in place of the whole call path,
    and of the calls that it recompiled in. It names ``others``, more findings that the same
    suggestion is for, in a line each.
    """
    where = cluster[0].location
    costs = [
        parts.Row("cost", text)
        for finding in cluster
        if finding.cost and (text := words.cost_text(finding.cost))
    ][:1]
    rows = (
        *(*_torch_rows(cluster), *_effects(cluster), *_way(cluster, has_path=has_path)),
        *(*costs, *_fix_rows(cluster), *_other_rows(others)),
    )
    anchors = (
        f"finding-{finding.fingerprint}" if finding.fingerprint else None for finding in cluster
    )
    headings = (
        parts.Heading(finding.code, finding.message, finding.severity, anchor)
        for finding, anchor in zip(cluster, anchors, strict=True)
    )
    pieces = (*_source(where), parts.Rows(rows))
    tried = [fix for finding in cluster for fix in finding.fixes if fix.verdict != "not tried"]
    tried.sort(key=lambda fix: fix.verdict not in WORKING)
    brief = f"{verdict_label(tried[0].verdict)}  {tried[0].title}" if tried else ""
    return parts.Card(
        tuple(headings), place_of(where), where.function, where.package, pieces, brief, show=show
    )


def partial_note(diagnosis: Diagnosis) -> Iterator[parts.Note]:
    """Say first that the run ended early."""
    if diagnosis.recording.is_partial:
        yield parts.Note(
            (parts.Span("PARTIAL  ", "strong", "bad"), parts.Span(partial_text(diagnosis))), "bad"
        )


def closing(diagnosis: Diagnosis, *, prefix: str = "GD") -> Iterator[parts.Note]:
    """Say what costs leave out, what is hidden, and where to read more of findings with this ``prefix``."""
    if any(
        finding.cost is not None and finding.cost.call_from == "host_gap"
        for finding in diagnosis.findings
    ):
        text = (
            "A host gap is the time that the host takes between two graphs. Lost fusion and time on the device aren't "
            "in it; only a verified fix measures them (--try)."
        )
        yield parts.Note(text, "dim")
    if hidden := diagnosis.summary.hidden_findings:
        yield parts.Note(
            f"{counted(hidden, 'finding')} hidden by --own-code, --select or --ignore.", "dim"
        )
    page = explained(
        finding.code for finding in diagnosis.findings if finding.code.startswith(prefix)
    )
    if page not in (None, after_run(diagnosis)):
        yield parts.Note(("Read more: ", parts.Span(page or "", "code")), "dim")


def finding_rows(finding: Finding, names: Sequence[str] = ()) -> Iterator[parts.Row]:
    """Show what holds a program, or variants of these names, back, and what to try."""
    which = (" (", parts.joined([parts.Span(name) for name in names]), ")") if names else ()
    yield parts.Row(parts.Span(finding.code, "strong"), parts.Note((finding.message, *which)))
    location = finding.location
    if location.file:
        place = parts.Place(location.file, location.line, location.shown_file)
        at = parts.Note((place, " in ", parts.Span(location.function, "code")), "dim")
        yield parts.Row("at", at, show="long" if names else "always")
    for number, fix in enumerate(words.worth_trying(finding.fixes)):
        yield parts.Row(
            "try", parts.Note(words.fix_text(fix), "good"), show="long" if number else "always"
        )
        if fix.snippet is not None:
            where = (
                () if fix.place is None else (parts.Note(f"{words.place_text(fix.place)}:", "dim"),)
            )
            yield parts.Row("", (*where, parts.Code(fix.snippet)), show="long")


def place_of(where: StackEntry) -> parts.Place:
    """Where a finding is."""
    return parts.Place(where.file, where.line, where.shown_file, where.column)


def _source(where: StackEntry) -> Iterator[parts.Part]:
    if where.text is None:
        return
    start = -1 if where.column is None else where.column - 1 - (where.indent or 0)
    # An expression of several lines is marked to the end of its first.
    end = where.end_column - 1 - (where.indent or 0) if where.end_column else len(where.text)
    yield parts.Source(where.line, where.text, *((start, end) if 0 <= start < end else ()))


def _torch_rows(cluster: Sequence[Finding]) -> Iterator[parts.Row]:
    first = cluster[0]
    if first.torch_reason:
        said = whole = words.first_sentence(first.torch_reason)
        if first.reasons and any(finding.fixes for finding in cluster):
            # The heading says the rest in plain words.
            said = re.split(r" \(unhinted: |: ", said, maxsplit=1)[0]
        body: tuple[parts.Block, ...] = (parts.Span(said),)
        if said != first.torch_reason:
            reason = (
                parts.Note(parts.Span(whole), show="long") if whole == first.torch_reason else None
            )
            body = (
                parts.Note(parts.Span(said), show="short"),
                reason or parts.Code(first.torch_reason, "text", show="long"),
            )
        yield parts.Row(first.torch_id or "torch", body, show="always" if first.reasons else "long")
    yield from (
        parts.Row("context", _words(reason.context), show="long")
        for reason in first.reasons
        if reason.context
    )
    is_hint_hidden = any(finding.fixes for finding in cluster)
    for number, hint in enumerate(first.hints):
        yield parts.Row("hint", _words(hint), show="long" if number or is_hint_hidden else "always")


def _words(text: str) -> parts.Block:
    return parts.Code(text, "text") if "\n" in text else parts.Span(text)


def _effects(cluster: Sequence[Finding]) -> Iterator[parts.Row]:
    first = cluster[0]
    if first.break_effects or first.compile_ids:
        caused = ", ".join(_caused(first))
        ids = words.few_text(first.compile_ids, _MAX_COMPILE_IDS, between=" ")
        listed = f"  [{ids}]" if caused and ids else ids
        yield parts.Row(
            "caused" if first.break_effects else "compile",
            parts.Note((caused, parts.Span(listed, tone="dim"))),
        )
    # The parts of a graph that torch split at DDP's buckets.
    for bucket in (
        bucket for finding in cluster if finding.ddp_split for bucket in finding.ddp_split.buckets
    ):
        size = (
            words.UNKNOWN if bucket.parameter_bytes is None else bytes_text(bucket.parameter_bytes)
        )
        names = (
            words.few_text([f"`{name}`" for name in bucket.parameters], _MAX_PARAMETERS, end=", ")
            or "no parameters"
        )
        operations = counted(bucket.op_count, "operation")
        yield parts.Row("part", f"{bucket.name}: {operations}, {size} of parameters: {names}")


def _caused(finding: Finding) -> Iterator[str]:
    effects = finding.effects
    if finding.break_effects:
        yield f"broke {times(finding.count)}"
    if "raised" in finding.break_effects:
        yield "raised an error because of fullgraph=True"
    yield from (f"`{name}` skipped: all of it runs eagerly" for name in effects.skipped_frames)
    yield from (f"the rest of `{name}` runs eagerly" for name in effects.rest_eager_frames)
    if effects.graphs:
        yield counted(len(effects.graphs), "graph")
    if effects.resume_functions:
        yield counted(len(effects.resume_functions), "resume function")


def _way(cluster: Sequence[Finding], *, has_path: bool) -> Iterator[parts.Row]:
    first = cluster[0]
    long: parts.Show = "always" if has_path else "long"
    if (path := _call_path(first)) is not None:
        yield parts.Row("path", parts.Note(path), show=long)
    user_entries = [entry for entry in first.user_stack if entry.origin == "user"]
    if not has_path and first.location.origin != "user" and user_entries:
        function = user_entries[-1].qualname or user_entries[-1].function
        called = (words.short_place(user_entries[-1]), parts.Span(f"  in {function}", tone="dim"))
        yield parts.Row(
            "called at", parts.Note(called), show="short" if path is not None else "always"
        )
    # A recompile's are the calls that it happened in.
    for finding in cluster:
        for related in finding.related:
            note = f"  {related.note}" if related.note else ""
            place = parts.Place(related.file, related.line, related.shown_file)
            yield parts.Row(
                "see also",
                parts.Note((place, note)),
                show="always" if first.break_effects else long,
            )


def _call_path(finding: Finding) -> parts.Inline | None:
    """The call path through the user's and packages' code; torch's own lines are only counted."""
    if len([entry for entry in finding.user_stack if entry.origin in PROGRAM_ORIGINS]) < 2:
        return None
    steps: list[parts.Inline] = []
    for is_torch, group in groupby(
        finding.user_stack, lambda entry: entry.origin in ("torch", "stdlib")
    ):
        if not is_torch:
            steps += [
                (parts.Span(entry.qualname or entry.function), " ", words.short_place(entry))
                for entry in group
            ]
    folded = sum(entry.origin in ("torch", "stdlib") for entry in finding.user_stack)
    hidden = f"  ({counted(folded, 'line')} of torch and Python hidden)" if folded else ""
    return (parts.joined(steps, " → "), parts.Span(hidden, tone="dim"))


def _other_rows(others: Sequence[Finding]) -> Iterator[parts.Row]:
    """More findings that the same suggestion is for."""
    for number, finding in enumerate(others[:_MAX_OTHERS]):
        place = words.short_place(finding.location)
        text = (
            finding.code,
            " ",
            place,
            parts.Span(f" in {finding.location.function}", tone="dim"),
        )
        yield parts.Row("also for" if number == 0 else "", parts.Note(text), show="short")
    if len(others) > _MAX_OTHERS:
        yield parts.Row(
            "",
            parts.Note(f"and {counted(len(others) - _MAX_OTHERS, 'more finding')}", "dim"),
            show="short",
        )


def _fix_rows(cluster: Sequence[Finding]) -> Iterator[parts.Row]:
    """Suggestions: those tried with their verdicts, then the others; a few of each in the short
    form.
    """
    fixes = list(dict.fromkeys(fix for finding in cluster for fix in finding.fixes))
    tried = [fix for fix in fixes if fix.verdict != "not tried" or fix.diff]
    rest = [fix for fix in fixes if fix not in tried]
    is_fixed = any(fix.verdict in WORKING for fix in tried)
    is_gone = not is_fixed and all(finding.is_mended for finding in cluster)
    if is_gone:
        yield parts.Row(
            "gone",
            parts.Note(
                companion_text(cluster) or "with the verified fixes of other findings", "good"
            ),
        )
    most = 0 if is_gone else _MAX_TRIED
    most_rest = 0 if is_gone or is_fixed or len(tried) > _MAX_TRIED else max(2 - len(tried), 0)
    for number, fix in enumerate(tried):
        # Beside one that holds, what wasn't tried would take the room that the verified edit needs.
        is_shown = number < most and not (is_fixed and fix.verdict == "not tried")
        yield parts.Row(
            verdict_label(fix.verdict), fix_parts(fix), show="always" if is_shown else "long"
        )
    for number, fix in enumerate(rest):
        label = "try" if number == 0 and not tried else "or"
        yield parts.Row(label, fix_parts(fix), show="always" if number < most_rest else "long")


def companion_text(cluster: Sequence[Finding]) -> str | None:
    """Whose consequence a finding is: ``goes with GD102 at line 12``; None if no trial showed
    it.
    """
    goes_with = next(
        (finding.goes_with for finding in cluster if finding.goes_with is not None), None
    )
    if goes_with is None:
        return None
    file, _, line = goes_with.place.rpartition(":")
    location = cluster[0].location
    return f"goes with {goes_with.code} at {f'line {line}' if file in (location.file, location.shown_file) else goes_with.place}"


def verdict_label(verdict: Verdict) -> str:
    """A verdict as a row's label."""
    return _LABELS.get(verdict, verdict)


def fix_parts(fix: Fix) -> tuple[parts.Block, ...]:
    """A suggestion with the reason for its verdict, and its edit, or its snippet and where that
    goes.
    """
    blocks: list[parts.Block] = [
        parts.Note(
            words.fix_text(fix),
            "good" if fix.verdict in WORKING or fix.verdict == "not tried" else None,
        )
    ]
    why = why_text(fix)
    if fix.verdict == "changes results":
        blocks.append(parts.Note(f"results differ: {why}", "bad"))
        if fix.attacked is not None and (worst := fix.attacked.worst) is not None and worst.code:
            blocks.append(parts.Code(worst.code))
    elif why:
        blocks.append(parts.Note(why, "dim"))
    if fix.verdict in WORKING and (same := words.same_text(fix.compared, fix.attacked)):
        blocks.append(parts.Note(same, "dim"))
    show: parts.Show = (
        "always" if fix.verdict in WORKING or fix.verdict in ("not tried", "unproven") else "long"
    )
    if fix.diff:
        blocks.append(parts.Diff(fix.diff, show=show))
    elif fix.snippet:
        if (place := fix.place) is not None:
            blocks.append(parts.Note(f"{words.place_text(place)}:", "dim", show=show))
        blocks.append(parts.Code(fix.snippet, show=show))
    return tuple(blocks)
