"""What the views of a diagnosis on the terminal begin and end with, and its cards.

Comes in: a diagnosis or findings. Goes out: what rich prints.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from graphdoctor.facts.wording import partial_text
from graphdoctor.views.finding_cards import card_of
from graphdoctor.views.terminal import shown_parts
from graphdoctor.views.terminal_lines import NARROW, Cut, clean, labeled_rows
from graphdoctor.views.words import hidden_text, host_gap_note, other_gaps, title_parts

if TYPE_CHECKING:
    from rich.console import RenderableType

    from graphdoctor.facts.diagnosis import Diagnosis, Finding, Location

_STYLES = {"error": "bold red", "warning": "bold yellow", "info": "bold cyan"}


def title_line(diagnosis: Diagnosis) -> Text:
    """What ran, on one line."""
    first, *rest = title_parts(diagnosis.recording)
    title = Text().append_text(clean(first, "bold"))
    for part in rest:
        title.append(" · ", "dim").append_text(clean(part, "dim"))
    return title


# Findings.


def finding_card(
    cluster: Sequence[Finding], *, is_verbose: bool, has_path: bool = True, others: Sequence[Finding] = ()
) -> Iterator[RenderableType]:
    """A card of findings that ``clusters`` grouped, as ``card_of`` makes it."""
    return shown_parts(card_of(cluster, has_path=has_path, others=others), width=NARROW, is_verbose=is_verbose)


def short_card(cluster: Sequence[Finding]) -> RenderableType:
    """A card without details: headings and the place, a line each, cut where it doesn't fit.

    Args:
        cluster: Findings that ``clusters`` grouped.
    """
    return Cut([*_headings(cluster), _place(cluster[0].location)])


def _headings(cluster: Sequence[Finding]) -> Iterator[Text]:
    for finding in cluster:
        heading = clean(f"{finding.code} ", _STYLES[finding.severity])
        yield heading.append_text(clean(finding.message, "bold"))


def _place(location: Location) -> Text:
    line = Text("  ").append("--> ", "blue").append_text(clean(location.shown_file, "bold"))
    line.append(f":{location.line}")
    if location.column is not None:
        line.append(f":{location.column}")
    line.append(" in ").append_text(clean(location.function))
    if location.package:
        line.append_text(clean(f"  [{location.package}]", "magenta"))
    return line


def partial(diagnosis: Diagnosis) -> Iterator[Text]:
    """That the run ended early, which comes before all counts."""
    if diagnosis.recording.is_partial:
        yield Text().append("PARTIAL  ", "bold red").append_text(clean(partial_text(diagnosis), "red"))


def unknown_rows(diagnosis: Diagnosis) -> Iterator[RenderableType]:
    """What torch or the recording couldn't tell."""
    gaps = other_gaps(diagnosis)
    if gaps:
        yield Text()
        yield labeled_rows((("unknown", clean(gap.message)) for gap in gaps), style="dim")


def closing(diagnosis: Diagnosis, *, prefix: str = "GD") -> Iterator[Text]:
    """The last lines: what costs leave out, what is hidden, and where to read more.

    Args:
        diagnosis: What was shown.
        prefix: Prefix of the codes of the findings that were shown.
    """
    if (note := host_gap_note(diagnosis.findings)) is not None:
        yield Text(note, "dim")
    if hidden := hidden_text(diagnosis):
        yield Text(hidden, "dim")
    codes = sorted({finding.code for finding in diagnosis.findings if finding.code.startswith(prefix)})
    if codes:
        yield clean(f"Read more: graphdoctor rule {codes[0]}", "dim")
