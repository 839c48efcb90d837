"""Blocks that statistics-outside leaves alone."""

from __future__ import annotations

from graphdoctor.fixes.recipes import statistics_outside
from tests.each import for_each
from tests.fixes.recipes.places import place_in, reason_of

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


@for_each(
    "old, new, reason",
    [
        ("def forward", "def step", "it isn't in the `forward` of a module"),
        ("    def forward", "    @cached\n    def forward", "it isn't in the `forward` of a module"),
        ("with torch.no_grad():", "with torch.enable_grad():", "the line isn't inside a `with torch.no_grad()`"),
        ("with torch.no_grad():", "if x.shape[0] > 1:", "the line isn't inside a `with torch.no_grad()`"),
        ("return y", "return y + 1", "more than a `return` of names comes after"),
        ("return y", "y = y + 1\n        return y", "more than a `return` of names comes after"),
        ("        y = x.sin()\n", "", "nothing comes before the `with torch.no_grad()`"),
    ],
)
def test_it_declines(old: str, new: str, reason: str) -> None:
    assert reason_of(lambda: edited(NET.replace(old, new))).startswith(reason)
