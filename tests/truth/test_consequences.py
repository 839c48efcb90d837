"""Breaks that another break causes: that one comes first, and without it they are gone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Explain = Callable[..., dict[str, Any]]

pytestmark = pytest.mark.slow

INPUTS = """

def example_inputs():
    return torch.randn(3, 4), torch.tensor([1, 2, 3])
"""

PROGRAMS = {
    "a list comprehension": (
        "import torch\ndef f(x, n):\n    return torch.stack([x[i] * k.item() for i, k in enumerate(n)])",
        " * k.item()",
        " * k",
    ),
    "a dict comprehension": (
        "import torch\ndef f(x, n):\n    d = {i: x[i] * k.item() for i, k in enumerate(n)}\n    return d[0] + d[1]",
        " * k.item()",
        " * k",
    ),
    "a generator expression": (
        "import torch\ndef f(x, n):\n    return sum(x[i] * int(k) for i, k in enumerate(n)) + 1",
        "int(k)",
        "k",
    ),
    "a method of a new object": (
        "import torch\nclass Scale:\n    def __init__(self, x):\n        self.x = x\n"
        "    def times(self, k):\n        print('scale')\n        return self.x * k\n"
        "def f(x, n):\n    return Scale(x.sin()).times(2) + 1",
        "        print('scale')\n",
        "",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_cause_comes_first_and_takes_its_consequences_along(
    explain_json: Explain, tmp_path: Path, name: str
) -> None:
    program, before, after = PROGRAMS[name]

    def explained(text: str, folder: str) -> list[dict[str, object]]:
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "model.py").write_text(text + INPUTS)
        found: list[dict[str, object]] = explain_json("model.py:f", cwd=tmp_path / folder)[
            "findings"
        ]
        return found

    cause, *rest = explained(program, "broken")
    assert not cause["is_consequence"]
    assert cause["severity"] == "error"
    assert rest
    assert all(finding["is_consequence"] for finding in rest)
    assert explained(program.replace(before, after), "mended") == []
