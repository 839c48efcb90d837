"""Names that may stand for one object."""

from __future__ import annotations

from pathlib import Path

import libcst as cst

from graphdoctor.fixes.source.effects import sharing
from graphdoctor.fixes.source.tree import SourceFile
from tests.each import for_each


def names_with(name: str, *lines: str) -> set[str]:
    text = "import torch\n\n\ndef forward(self, x, z):\n" + "".join(
        f"    {line}\n" for line in lines
    )
    source = SourceFile.parse(Path("model.py"), text.encode())
    (function,) = (node for node in source.tree.body if isinstance(node, cst.FunctionDef))
    return set(sharing(source, function.body.body, "self").get(name, ())) - {name}


@for_each(
    "line",
    [
        "y = x",
        "y: object = x",
        "y = x.view(-1)",
        "y = x[0]",
        "y = x.detach()",
        "y = x if z else 0",
        "y = x or z",
        "y = self.norm(x)",
        "y = helper(x)",
        "y = list(x)",
        "y = [x]",
        "y, n = x, 1",
        "for y in x: pass",
        "with x as y: pass",
        "(y := x)",
        "y.append(x)",
        "y = torch.reshape(x, (1,))",
        "y = torch.relu_(x)",
    ],
)
def test_it_may_be_the_same(line: str) -> None:
    assert "x" in names_with("y", line)


@for_each(
    "line", [
        "y = x + 1", "y = -x", "y = x > 0", "y = x.abs()", "y = x.item()", "y = float(x)", "y = f'{x}'", "y = len(x)",
        "y.append(x.item())", "y = torch.softmax(x, 0)",
    ],
)  # fmt: skip
def test_it_is_new(line: str) -> None:
    assert "x" not in names_with("y", line)


def test_it_goes_on_through_other_names_in_any_order() -> None:
    assert {"x", "a", "self.cache"} <= names_with("y", "y = a", "self.cache = a.view(3)", "a = x")
