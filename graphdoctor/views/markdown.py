"""What reports that are no trees yet write Markdown with: sections of items, as many as GitHub accepts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphdoctor.facts.wording import counted
from graphdoctor.views.markdown_text import fenced, sentence
from graphdoctor.views.words import place_text

if TYPE_CHECKING:
    from graphdoctor.facts.diagnosis import Fix

MAX_CHARACTERS = 60_000
"""GitHub rejects comments of more than 65,536; a workflow may add some text of its own."""

_ROOM_FOR_CUT = 300
"""Characters reserved to report what was cut, in a section and at the end."""


@dataclass(frozen=True)
class Section:
    """Items under a heading, the last of which may be cut.

    Args:
        items: One or a few lines each.
        noun: What one item is.
        head: Lines before them, such as a heading or the head of a table.
        summary: HTML of the line that unfolds the section; None for one that isn't folded.
    """

    items: Sequence[str]
    noun: str
    head: str = ""
    summary: str | None = None


def document(head: Sequence[str], sections: Iterable[Section]) -> str:
    """Everything that fits, in order, and how much was left out.

    Args:
        head: Paragraphs at the top, which are never cut.
        sections: What follows; those without items are left out.
    """
    text = "\n\n".join(head)
    left_out = 0
    for section in sections:
        opening, closing = "\n\n" + section.head, ""
        if section.summary is not None:
            opening = f"\n\n<details><summary>{section.summary}</summary>{opening}"
            closing = "\n\n</details>"
        room = MAX_CHARACTERS - _ROOM_FOR_CUT - len(text) - len(opening) - len(closing)
        shown: list[str] = []
        for item in section.items:
            room -= len(item) + 1
            if room < 0:
                break
            shown.append(item)
        left = len(section.items) - len(shown)
        if not shown:
            left_out += left
            continue
        cut = (
            f"\n\n_{counted(left, f'more {section.noun}')}, left out to keep the comment short enough._" if left else ""
        )
        text += opening + "\n".join(shown) + cut + closing
    if left_out:
        text += f"\n\n_{counted(left_out, 'more line')}, left out to keep the comment short enough._"
    return text + "\n"


def snippet(fix: Fix) -> str:
    """A suggestion's code and where it goes, or its edit, within the item of a list."""
    if fix.diff:
        block = fenced(fix.diff.rstrip("\n"), "diff")
    elif fix.snippet:
        block = fenced(fix.snippet, "python")
    else:
        return ""
    above = "" if fix.place is None or fix.diff else f"  \n  {sentence(place_text(fix.place))}:"
    lines = (line for part in block for line in part.splitlines())
    return above + "\n\n" + "\n".join(f"  {line}".rstrip() for line in lines) + "\n"
