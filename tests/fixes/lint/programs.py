"""Programs on which torch certainly breaks or compiles again, each beside one on which it does not.

``bad.txt``: each statement that ends in ``# !`` is a cause; a program's heading has its name, the
codes of its causes, and how often it is called. ``good.txt``: nothing is a cause. What stands above
the functions ends with ``--``. A program without a ``step`` is the body of a compiled function
between ``y = x.sin()`` and ``return y.cos()``.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

from tests.sections import sections

_HEAD = """\
import torch
import torch.nn as nn
import torch.nn.functional as F
"""
_CALL = "step(torch.linspace(-1, 1, 32).reshape(4, 8))\n"
_HEADING = re.compile(r"(?P<name>\S+)(?P<codes>(?: GD\d+)*)(?: (?P<calls>\d+) calls)?")


@dataclass(frozen=True)
class Program:
    """One program.

    Args:
        name: What it shows.
        codes: The rules' codes of its causes; empty for a program without one.
        text: The whole file.
    """

    name: str
    codes: frozenset[str]
    text: str

    @property
    def marked_lines(self):
        """1-based lines that end in ``# !``."""
        return {
            number for number, line in enumerate(self.text.splitlines(), 1) if line.endswith("# !")
        }


def _programs(name):
    made = []
    for heading, text in sections(Path(__file__).with_name(name)).items():
        match = _HEADING.fullmatch(heading)
        assert match is not None, heading
        whole = _whole(text, int(match["calls"] or 1))
        made.append(Program(match["name"], frozenset(match["codes"].split()), whole))
    return made


def _whole(text, calls):
    before, _, body = text.rstrip("\n").rpartition("\n--\n")
    if "def step" not in body and "step = " not in body:
        inner = textwrap.indent(body, "    ")
        body = f'@torch.compile(backend="eager")\ndef step(x):\n    y = x.sin()\n{inner}\n    return y.cos()'
    return f"{_HEAD}{before}\n\n{body}\n\n" + _CALL * calls


BAD, GOOD = _programs("bad.txt"), _programs("good.txt")
