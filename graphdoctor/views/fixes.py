"""The fixes that were tried: each finding with its edits and verdicts, then all applied fixes
together.

Comes in: a diagnosis with its treatment. Goes out: a view, and the parts of it that a whole
diagnosis has too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from graphdoctor.facts.counts import Counts
from graphdoctor.facts.diagnosis import Diagnosis, Finding
from graphdoctor.facts.fixes import (
    LOSSY,
    VERIFIED,
    WORKING,
    LeftFinding,
    Treatment,
    TriedPatch,
    deciding,
    distinct,
)
from graphdoctor.facts.recording import TargetInfo
from graphdoctor.facts.trials import Difference
from graphdoctor.views import words
from graphdoctor.views.finding_cards import (
    card_of,
    closing,
    companion_text,
    finding_line,
    fix_parts,
    partial_note,
)
from graphdoctor.views.next_step import after_run, write_command, written_count
from graphdoctor.views.parts import (
    Block,
    Cards,
    Code,
    Diff,
    Note,
    Row,
    Rows,
    Section,
    Span,
    Table,
    Tone,
    Verdict,
    View,
)
from graphdoctor.views.reasons import (
    UNTRIED,
    detail_text,
    left_text,
    loss_text,
    reason_text,
    reasons_text,
    verdict_text,
)
from graphdoctor.views.verdicts import GONE, past_words, sites_text, verdict_label
from graphdoctor.wording import counted, duration, join_texts, kind_text, listed

_MOST_LATER = 12
"""Of the fixes for what showed later, and of what is left."""


def fixes_view(diagnosis: Diagnosis, *, is_written: bool = False) -> View:
    """Show what was tried, as a tree."""
    parts = (*partial_note(diagnosis), *_parts(diagnosis, is_written=is_written))
    then = after_run(diagnosis, is_written=is_written)
    return words.diagnosis_view(diagnosis, "fixes", parts, then)


def _parts(diagnosis: Diagnosis, *, is_written: bool) -> Iterator[Block]:
    recording, treatment = diagnosis.recording, diagnosis.recording.treatment
    if treatment is not None and treatment.patch is not None:
        yield from patch_parts(treatment, treatment.patch)
        return
    findings = [finding for finding in diagnosis.findings if finding.is_treatable]
    if not findings and recording.is_partial:
        text = "No fixes were tried: the run ended before torch broke or recompiled."
        yield Verdict(text, "warning")
        return
    if not findings:
        count = len(diagnosis.findings)
        rest = f"; nothing can be tried for {counted(count, 'other finding')}" if count else ""
        text = f"Nothing to fix: no graph breaks and no recompiles{rest}."
        yield Verdict(text, "warning" if rest else "good")
        yield from closing(diagnosis)
        return
    if treatment is None:
        yield Verdict("No fixes were tried.", "warning")
        return
    said = _tried_text(treatment) or _why_untried(treatment)
    is_good = any(fix.verdict in WORKING and fix.verdict != LOSSY for fix in treatment.tried)
    yield Verdict(f"{_capitalized(said)}.", "good" if is_good else "warning")
    # Findings that one fix works for are a card that names the others, and in full one for each.
    gone = []
    groups: dict[object, list[list[Finding]]] = {}
    for cluster in words.clusters(findings):
        fixes = [fix for finding in cluster for fix in finding.fixes]
        is_mended = all(finding.is_mended for finding in cluster)
        if is_mended and all(fix.verdict == "not tried" for fix in fixes):
            gone.append(cluster)
            continue
        works = next((fix for fix in fixes if fix.verdict in WORKING), None)
        key = cluster[0].fingerprint if works is None else (works.title, works.diff, works.snippet)
        groups.setdefault(key, []).append(cluster)
    cards = []
    for first, *others in groups.values():
        companions = [cluster[0] for cluster in others]
        cards.append(card_of(first, has_path=False, others=companions))
        cards += [card_of(cluster, show="long") for cluster in others]
    yield Cards(tuple(cards))
    lines = []
    for cluster in gone:
        goes_with = companion_text(cluster)
        why = f" ({goes_with})" if goes_with else ""
        lines += [
            finding_line(finding, Span(f"{finding.message}{why}", tone="dim"))
            for finding in cluster
        ]
    yield Section("Also gone with these fixes", Rows(lines))
    yield from treatment_parts(diagnosis, treatment)
    yield words.unknown_section(words.other_gaps(diagnosis))
    yield from closing(diagnosis)
    tone: Tone = "warning" if treatment.after is None else "good"
    yield Verdict(outcome(treatment, recording.target), tone)
    yield from keeping(diagnosis, treatment, is_written=is_written)


def _capitalized(text: str) -> str:
    return text[0].upper() + text[1:]


def treatment_parts(diagnosis: Diagnosis, treatment: Treatment) -> Iterator[Block]:
    """Show what comes after the findings: later fixes, all applied fixes together, what is left."""
    if treatment.patch is not None:
        yield Section("Patch", patch_parts(treatment, treatment.patch))
        return
    shown = {finding.fingerprint for finding in diagnosis.findings}
    later = (
        Row(
            verdict_label(fix),
            (Note((fix.code, " ", Span(fix.finding_place)), "dim"), *fix_parts(fix)),
            show="always" if fix.is_applied else "long",
        )
        for fix in treatment.tried
        if not fix.is_on_untouched and fix.fingerprint not in shown
    )
    yield Section("Found after these fixes", Rows(later, "fix", _MOST_LATER), "Later")
    if treatment.after is not None:
        count = len(treatment.applied)
        titles = {1: "The applied fix", 2: "Both applied fixes together"}
        title = titles.get(count, f"All {count} applied fixes together")
        yield Section(title, _together(treatment, treatment.after), "Together")
    yield _still_there(treatment)
    yield _notes(treatment)


def _still_there(treatment: Treatment) -> Section:
    def parts(left: LeftFinding) -> Iterator[Block]:
        yield Note((Span(left.place), f"  {left.message}"))
        # A patch wasn't written for any of them.
        if treatment.patch is None:
            because = "" if left.verdict in VERIFIED else "because "
            yield Note(f"{because}{left_text(left)}", "dim")

    rows = (Row(left.code, tuple(parts(left))) for left in treatment.left)
    return Section("Still there", Rows(rows, "finding", _MOST_LATER))


def _notes(treatment: Treatment) -> Rows:
    rows = (Row("note", Note(reason_text(note), "dim")) for note in treatment.notes)
    return Rows(rows, "note", _MOST_LATER)


def _changes(treatment: Treatment, after: Counts) -> Table:
    """Counts that differ, and times."""
    changed = (row for row in words.count_changes(treatment.before, after) if row[1] != row[2])
    rows = (*changed, *words.time_changes(treatment))
    columns = ("#count", "#before", "#after", "change")
    return Table(columns, rows, "number", label="Before and after")


def _together(treatment: Treatment, after: Counts) -> Iterator[Block]:
    yield _changes(treatment, after)
    yield from _whole(treatment)
    for place, snippet in words.applied_snippets(treatment):
        yield Note(f"{place or 'Also'}:", "dim")
        yield Code(snippet)
    compared, backend = treatment.compared, treatment.backend
    what = ", ".join(map(kind_text, compared.kinds if compared else ())) or "nothing"
    differing = ", ".join(
        f"{kind_text(difference.kind)} ({_difference(difference)})"
        for difference in (compared.differences if compared else ())
    )
    differs = f" Different: {differing}." if differing else ""
    under = f", under {backend}" if backend else ""
    text = f"Compared with the program without torch.compile{under}: {what}.{differs}"
    yield Note(text, "dim", show="always" if differs or compared is None else "long")
    if same := words.same_text(compared, treatment.attacked):
        yield Note(f"{_capitalized(same)}.", "dim")
    if compared is not None and compared.retyped is not None:
        kept = _difference(compared.retyped)
        yield Note(f"A tensor is kept in place of a number: {kept}.", "warning")


def _whole(treatment: Treatment) -> Iterator[Block]:
    """Say whether torch makes one graph of it, what stops that, and how long the edits are."""
    whole, sites = treatment.whole, treatment.sites
    if whole is not None and whole.is_one_graph:
        yield Note("Runs under fullgraph=True: each call is one graph.", "good")
    elif whole is not None:
        cause = join_texts(" at ", whole.code, whole.place)
        message = whole.message or "with these fixes, torch leaves a function uncompiled"
        yield Note(
            ("Not one graph: ", Span(f"{cause} " if cause else ""), f"{message}."), "warning"
        )
    if sites is not None and sites.changed_lines:
        yield Note(f"{counted(sites.changed_lines, 'changed line')}.", "dim")


def _difference(difference: Difference) -> str:
    if difference.largest is not None:
        return f"{difference.where} by {difference.largest:.3g}"
    # A text has one place, which its kind names already.
    return join_texts(
        ": ",
        "" if difference.where == kind_text(difference.kind) else difference.where,
        detail_text(difference),
    )


def keeping(
    diagnosis: Diagnosis, treatment: Treatment, *, is_written: bool = False
) -> Iterator[Block]:
    """Show the edits, and what the command that comes next writes."""
    if treatment.diff and treatment.patch is None:
        yield Section("The edits together", Diff(treatment.diff), "Edits", show="long")
    command = write_command(treatment, diagnosis.recording.target)
    if command is not None and not (is_written or treatment.is_written):
        count = written_count(treatment)
        edits = "edit" if count == 1 else f"{count} edits"
        is_by_hand = any(words.applied_snippets(treatment, is_by_hand=True))
        rest = "; add the lines above yourself" if is_by_hand else ""
        yield Note(f"--apply writes the {edits}{rest}.")


# What all fixes together changed. Whatever wasn't measured isn't claimed.


def outcome(treatment: Treatment, target: TargetInfo) -> str:
    """Say what changed with all applied fixes, or why nothing did, in one sentence."""
    if treatment.patch is not None:
        return patch_outcome(treatment.patch)
    if treatment.after is None:
        tried = _tried_text(treatment)
        if treatment.is_interrupted:
            before = f"fixes were put together: {tried}" if tried else "a fix was tried"
            return f"Interrupted before {before}."
        return f"Nothing changed: {f'{tried}, none kept' if tried else _why_untried(treatment)}."
    changes = [
        f"{was} → {now} {label}"
        for label, was, now, _ in words.count_changes(treatment.before, treatment.after)
        if was != now
        and words.UNKNOWN not in (was, now)
        and label not in ("compiles", "causes of recompiles")
    ]
    speed = _speed(treatment, target)
    losses = [loss_text(fix) for fix in treatment.applied if fix.verdict == LOSSY]
    lost = f"; {listed(list(dict.fromkeys(losses)))}" if losses else ""
    text = join_texts(", ", *(changes or ["no count changed"]), speed)
    text = join_texts("; ", sites_text(treatment), text)
    count = len(treatment.applied)
    subject = {1: "the fix", 2: "both fixes"}.get(count, f"all {count} fixes")
    if by_hand := words.applied_snippets(treatment, is_by_hand=True):
        number = sum(len(snippet.splitlines()) for _, snippet in by_hand)
        lines = f"{counted(number, 'line')} of them " if count > 1 else ""
        subject += f" ({lines}to add yourself)"
    untimed = "" if speed else "; the call wasn't timed"
    interrupted = "; interrupted before everything was tried" if treatment.is_interrupted else ""
    return f"With {subject}: {text}{untimed}{lost}{interrupted}."


def _speed(treatment: Treatment, target: TargetInfo) -> str | None:
    """Say how much faster or slower the call is, under the backend that decides; None if it wasn't
    timed.
    """
    times = deciding(treatment.times)
    if times is None:
        return None
    text = words.measured_speed(times, has_ends=False)
    if text == words.SAME_SPEED:
        return f"{text} in speed"
    if text == words.TOO_NOISY:
        return f"{words.TOO_NOISY} how fast"
    is_asked = times.backend == target.compile_arguments.get("backend")
    under = "" if is_asked else f" under {times.backend}"
    longer_us = times.after_us - times.before_us
    cost = f", by {duration(longer_us)} per call" if longer_us > 0 else ""
    return f"{text}{under}{cost}"


def _why_untried(treatment: Treatment) -> str:
    if not treatment.tried:
        is_by_hand = any(left.suggestions for left in treatment.left)
        left = "every known fix is to be made by hand" if is_by_hand else "no fix is known"
        return left if treatment.left else "there is nothing to fix"
    causes = {fix.untried_cause for fix in treatment.tried} - {None, "unsafe"}
    reasons = {UNTRIED[cause] for cause in causes if cause is not None}
    if not reasons:
        count = len(distinct(treatment.tried))
        subject = f"{counted(count, 'fix')} {'changes' if count == 1 else 'change'}"
        return f"{subject} behavior in ways you should check: add --unsafe-fixes"
    return f"nothing was tried{f', because {reasons.pop()}' if len(reasons) == 1 else ''}"


def _tried_text(treatment: Treatment) -> str:
    """Count the fixes that were tried, and each kind of verdict; empty for none."""
    tried = distinct([fix for fix in treatment.tried if fix.verdict != "not tried"])
    verdicts = Counter(
        f"{past_words(fix)}, but {loss_text(fix)}" if fix.verdict == LOSSY else past_words(fix)
        for fix in tried
    )
    counts = "; ".join(f"{number} {verdict}" for verdict, number in verdicts.items())
    return f"{counted(len(tried), 'fix')} tried ({counts})" if counts else ""


_BAD = {
    "no effect": "gains nothing",
    "moved": "only moves the break",
    "makes it worse": "makes it worse",
    "changes results": "changes results",
    "failed": "fails",
    "unproven": "isn't proven",
}
"""What a patch does that doesn't hold, by its verdict."""


def patch_outcome(patch: TriedPatch) -> str:
    """Say if a patch holds, and why, in one sentence."""
    why, verb = reasons_text(patch.reasons), _BAD.get(patch.verdict, patch.verdict)
    name = "The patch" if patch.name == "-" else patch.name
    if patch.verdict in WORKING:
        why = join_texts("; ", words.same_text(patch.compared, patch.attacked), why)
        words_of = verdict_text(patch)
        verb = "holds" if words_of == GONE else f"holds ({words_of})"
    return f"{name} {verb}{f': {why}' if why else ''}."


def patch_parts(treatment: Treatment, patch: TriedPatch) -> Iterator[Block]:
    """Show a patch: its verdict, counts and times, breaks that went and came, and what is left."""
    is_good, worst = patch.verdict in WORKING, patch.attacked and patch.attacked.worst
    tone: Tone = "warning" if patch.verdict == LOSSY else "good" if is_good else "bad"
    yield Verdict(patch_outcome(patch), tone)
    if worst and worst.code and not is_good:
        yield Note("Before the first call:", "dim")
        yield Code(worst.code)
    if patch.after is not None:
        yield _changes(treatment, patch.after)
    sites = [("gone", site) for site in patch.sites_gone]
    sites += [("new", site) for site in patch.sites_new]
    rows = (Row(label, Note(Span(site))) for label, site in sites)
    yield Section("Breaks", Rows(rows, "break site"))
    if is_good:
        yield _still_there(treatment)
    if patch.lines_not_run:
        places = ", ".join(patch.lines_not_run)
        text = f"Nothing that was tried runs what it changes at {places}, so that isn't proven."
        yield Note(text, "warning")
    yield Section("The patch", Diff(treatment.diff), show="long")
    yield _notes(treatment)
