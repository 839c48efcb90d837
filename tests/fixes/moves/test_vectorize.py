"""Loops and what they become, as text: ``loops.py`` has the loops, ``vectorize.txt`` the edits, which
``--snapshot-update`` writes.
"""

from __future__ import annotations

import difflib
import re
from functools import cache
from pathlib import Path

from graphdoctor.fixes.moves.vectorize import vectorize
from graphdoctor.fixes.source.tree import DeclinedError
from graphdoctor.fixes.wrapping import wrapped
from tests.fixes.recipes.places import place_in

HERE = Path(__file__).parent
_HEAD, *_PARTS = re.split(
    r"^(?=def |class )", (HERE / "loops.py").read_text(encoding="utf-8"), flags=re.MULTILINE
)
_HEAD = _HEAD[_HEAD.index("import torch") :].rstrip().removesuffix("# Samples") + "\n"
LOOPS = {
    re.split(r"\W", part)[1]: re.sub(r"\n\n\n# .*", "", part.rstrip()) + "\n" for part in _PARTS
}
CHANGED = HERE / "vectorize.txt"


def program(name: str) -> str:
    return _HEAD + LOOPS[name]


@cache
def edited(name: str) -> tuple[str, str]:
    """Return the title and text of an edit, or why there is none."""
    text = program(name)
    lines = text.splitlines()
    loops = [at for at, line in enumerate(lines, 2) if line.strip().startswith("for ")]
    line = loops[0] if loops else next(at for at, line in enumerate(lines, 1) if " for " in line)
    try:
        edit = vectorize.edit(place_in(text, "GD104", line))
    except DeclinedError as declined:
        return f"declined: {declined.reason}", ""
    after = wrapped(text.encode(), edit.content, Path("/model.py"))
    return edit.title, after.decode()


def test_loops_are_edited_or_left(request):
    shown = ""
    for name in LOOPS:
        title, after = edited(name)
        lines = [program(name).splitlines(), after.splitlines()] if after else [[], []]
        diff = list(difflib.unified_diff(*lines, n=0, lineterm=""))[2:]
        shown += "\n".join([f"## {name}", title, *(x for x in diff if x[:2] != "@@")]) + "\n\n"
    if request.config.option.update_snapshots:
        CHANGED.write_text(shown, encoding="utf-8")
    assert shown.splitlines() == CHANGED.read_text(encoding="utf-8").splitlines()
