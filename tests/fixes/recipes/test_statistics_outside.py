"""Blocks that statistics-outside leaves alone."""

from __future__ import annotations

from syrupy.assertion import SnapshotAssertion

from graphdoctor.fixes.recipes import statistics_outside
from tests.fixes.recipes.places import outcomes, place_in

NET = '''import torch


class Net(torch.nn.Module):
    def forward(self, x):
        """Words."""
        y = x.sin()
        with torch.no_grad():
            self.top = y.max().item()
        return y
'''


def edited(text: str, pointed: str = ".item()") -> str:
    line = next(number for number, line in enumerate(text.splitlines(), 1) if pointed in line)
    return statistics_outside.edit(place_in(text, "GD103", line)).content.decode()


def test_what_comes_before_is_a_method() -> None:
    assert (
        edited(NET)
        == NET.replace("    def forward", "    @torch.compiler.disable(recursive=False)\n    def forward").replace(
            "y = x.sin()", "y = self._compute(x)"
        )
        + "\n    def _compute(self, x):\n        y = x.sin()\n        return y\n"
    )


def test_it_declines(snapshot: SnapshotAssertion) -> None:
    cases = [
        ("def forward", "def step"),
        ("    def forward", "    @cached\n    def forward"),
        ("with torch.no_grad():", "with torch.enable_grad():"),
        ("with torch.no_grad():", "if x.shape[0] > 1:"),
        ("return y", "return y + 1"),
        ("return y", "y = y + 1\n        return y"),
        ("        y = x.sin()\n", ""),
    ]
    assert outcomes(lambda old, new: edited(NET.replace(old, new)), cases) == snapshot
