"""A diagnosis as Markdown for an issue.

Comes in: a diagnosis. Goes out: GitHub's Markdown, no longer than GitHub accepts: verdict, counts, what to do, findings
with their lines and suggestions, what is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from graphdoctor.facts.wording import partial_text
from graphdoctor.views.actions import Action, actions, code_line, mends_text, saves_text
from graphdoctor.views.log_words import log_rows, unshown_text
from graphdoctor.views.markdown import Section, document, snippet
from graphdoctor.views.markdown_text import code, plain
from graphdoctor.views.markdown_text import sentence as marked
from graphdoctor.views.outcome import outcome
from graphdoctor.views.words import (
    caused_text,
    clusters,
    cost_text,
    count_texts,
    first_sentence,
    hidden_text,
    host_gap_note,
    nothing_compiled,
    other_gaps,
    sentence,
    suggested,
    title_parts,
    worth_trying,
)

if TYPE_CHECKING:
    from graphdoctor.facts.diagnosis import Diagnosis, Finding

_MAX_FIXES = 2
_MESSAGE = 1000
"""Characters of a verdict or message."""


def render_diagnosis_markdown(diagnosis: Diagnosis) -> str:
    """The verdict, the counts, what to do, the findings, the gaps.

    Args:
        diagnosis: What to write.

    Returns:
        Markdown of at most ``MAX_CHARACTERS``, with a newline at the end.
    """
    first, *rest = title_parts(diagnosis.recording)
    head = ["## graphdoctor", " · ".join([code(first), *map(plain, rest)])]
    if diagnosis.recording.is_partial:
        head.append(f"**Partial:** {plain(partial_text(diagnosis))}")
    head.append(f"**{marked(sentence(diagnosis)[0], _MESSAGE)}**")
    treatment = diagnosis.recording.treatment
    if treatment is not None and treatment.after is not None:
        head.append(f"**{marked(outcome(treatment, diagnosis.recording.target))}**")
    if nothing_compiled(diagnosis) is None:
        head.append(" · ".join(plain(text) for text in count_texts(diagnosis.summary, diagnosis.recording.watch)))
    return document(head, _sections(diagnosis))


def _sections(diagnosis: Diagnosis) -> Iterator[Section]:
    todo = actions(diagnosis.findings)
    known = [action for action in todo if action.fix is not None]
    if len(known) > 1:
        yield Section([_action(action) for action in known], "suggestion", "### What to do\n\n")
    groups = [cluster for action in todo for cluster in clusters(action.findings)]
    shown = {finding.fingerprint for group in groups for finding in group}
    groups += [cluster for cluster in clusters(diagnosis.findings) if cluster[0].fingerprint not in shown]
    yield Section([finding_item(group) for group in groups], "finding", "### Findings\n\n")
    yield Section(list(_log_lines(diagnosis)), "line", "### What else the log has\n\n")
    yield Section([f"- {marked(gap.message, _MESSAGE)}" for gap in other_gaps(diagnosis)], "gap", "### Unknown\n\n")
    notes = [note for note in (host_gap_note(diagnosis.findings), hidden_text(diagnosis)) if note]
    yield Section([f"_{plain(note)}_" for note in notes], "note")


def _log_lines(diagnosis: Diagnosis) -> Iterator[str]:
    for label, text in log_rows(diagnosis, is_verbose=False):
        yield f"- {plain(label)}: {plain(text, _MESSAGE)}" if label else f"- {plain(text, _MESSAGE)}"
    if (unshown := unshown_text(diagnosis, is_verbose=False)) is not None:
        yield f"- {plain(unshown, len(unshown))}"


def _action(action: Action) -> str:
    line, fix = code_line(action), action.fix
    what = code(line) if line is not None else marked(fix.title if fix else "")
    worth = f"; saves {plain(saved)}" if (saved := saves_text(action)) else ""
    return f"1. {what}: {plain(mends_text(action))}{worth}"


def finding_item(cluster: Sequence[Finding], where: str | None = None) -> str:
    """Findings that are shown as one, in an item of a list: place, line, what torch says, what to do.

    Args:
        cluster: The findings, the cause before its effects.
        where: On which ranks; None outside a job.
    """
    first = cluster[0]
    location = first.location
    lines = [f"- **{plain(finding.code)}** {marked(finding.message, _MESSAGE)}" for finding in cluster[:1]]
    lines += [f"**{plain(finding.code)}** {marked(finding.message, _MESSAGE)}" for finding in cluster[1:]]
    package = f" ({plain(location.package)})" if location.package else ""
    text = f": {code(location.text)}" if location.text else ""
    lines.append(f"{code(f'{location.shown_file}:{location.line}')} in {code(location.function)}{package}{text}")
    if where is not None:
        lines.append(f"On {plain(where)}")
    if first.torch_reason and first.reasons:
        label = f"{plain(first.torch_id)}: " if first.torch_id else ""
        lines.append(f"{label}{plain(first_sentence(first.torch_reason))}")
    facts = [caused_text(first), *[cost_text(finding.cost) for finding in cluster if finding.cost][:1]]
    lines += [marked(fact) for fact in facts if fact]
    item = "  \n  ".join(lines)
    fixes = list(dict.fromkeys(fix for finding in cluster for fix in worth_trying(finding.fixes)))
    for number, fix in enumerate(fixes[:_MAX_FIXES]):
        item += f"  \n  {'or' if number else 'Try'}: {suggested(fix, marked(fix.title))}{snippet(fix)}"
    if not fixes and first.hints:
        item += f"  \n  Hint: {plain(first.hints[0])}"
    return item.rstrip("\n")
