"""The failure text of a broken expectation: what was expected and found, the test's line, and the findings."""

from __future__ import annotations

from io import StringIO

from rich.console import Console
from rich.text import Text

from graphdoctor.facts.wording import counted
from graphdoctor.rules.gate.expectations import Broken
from graphdoctor.views.finding_cards import card_of
from graphdoctor.views.terminal import write_parts
from graphdoctor.views.terminal_lines import clean, write
from graphdoctor.views.words import clusters

_MAX_CARDS = 4
_MIN_WIDTH = 60


def broken_text(broken: Broken, *, place: str, width: int) -> str:
    """The failure text.

    Args:
        broken: The expectation.
        place: The test's line, or its marker.
        width: The terminal's width in columns.
    """
    buffer = StringIO()
    console = Console(
        file=buffer, width=max(width, _MIN_WIDTH), force_terminal=False, force_jupyter=False, color_system=None
    )
    # Not wrapped: pytest's summary shows the first line, and editors link a path.
    for line in (f"expected {broken.expected}, found {broken.found}", f"  {place}"):
        console.print(clean(line), markup=False, highlight=False, soft_wrap=True)
    if broken.hint:
        write(console, clean(broken.hint))
    cards = list(clusters(broken.findings))
    for cluster in cards[:_MAX_CARDS]:
        write(console, Text())
        write_parts(card_of(cluster), console)
    if len(cards) > _MAX_CARDS:
        write(console, Text(f"\nand {counted(len(cards) - _MAX_CARDS, 'more finding')}"))
    return "\n".join(line.rstrip() for line in buffer.getvalue().rstrip().splitlines())
