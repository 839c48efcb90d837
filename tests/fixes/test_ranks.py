"""How many dims an expression has, as far as the source tells."""

from __future__ import annotations

from pathlib import Path

from libcst import FunctionDef, Return

from graphdoctor.fixes.source.ranks import Rank, Ranks
from graphdoctor.fixes.source.tree import SourceFile, find
from tests.each import for_each

LOOP = "    alive = torch.arange(n)\n    for _ in range(3):\n"


def rank_of(*lines: str) -> Rank:
    text = "import torch\n\n\ndef march(self, x, n):\n" + "".join(lines)
    source = SourceFile.parse(Path("model.py"), text.encode())
    [function] = find(source.tree, FunctionDef)
    line = find(source.tree, Return)[-1]
    return Ranks(source, function, line, is_after=False).of(line.value)


@for_each(
    "lines, rank",
    [
        (["    return torch.arange(n)\n"], ("", 1)),
        (["    i = 1\n", "    y = torch.arange(n)[i]\n", "    return y\n"], ("", 0)),
        # What selects itself by a mask that it picks.
        ([LOOP, "        alive = alive[x[alive] > 0]\n", "    return alive\n"], ("alive", 0)),
        ([LOOP, "        alive = alive[x[alive[alive]] > 0]\n", "    return alive\n"], ("alive", 0)),
        (["    x = x[x > 0]\n", "    return x\n"], ("x", 0)),
        # What an attribute is set to reads it.
        (["    self.a = self.a[x]\n", "    return self.a\n"], ("self.a", 0)),
        (["    self.a = self.b + 1\n", "    self.b = self.a\n", "    return self.b\n"], ("self.b", 0)),
    ],
)  # fmt: skip
def test_ranks_end_where_values_are_made_of_themselves(lines: list[str], rank: Rank) -> None:
    assert rank_of(*lines) == rank
