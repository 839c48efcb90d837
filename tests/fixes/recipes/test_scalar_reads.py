"""What keep-tensor and drop-item leave alone, and how they write what they edit."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from graphdoctor.fixes.recipe import Edit, Recipe
from graphdoctor.fixes.recipes.scalar_reads import drop_item, keep_tensor
from graphdoctor.fixes.source.tree import DeclinedError
from tests.each import for_each
from tests.fixes.recipes.places import outcomes, place_in

HEAD = "import math\nimport torch\n\ndef forward(self, x, y, items):\n"


def edit(body: str, recipe: Recipe = keep_tensor) -> Edit:
    """The edit of the ``.item()``, cast or root that the first line of a body has between two marks."""
    line = next(number for number, text in enumerate(body.splitlines(), 5) if "«" in text)
    text = body.splitlines()[line - 5]
    columns = (text.index("«") + 1, text.index("»"))
    return recipe.edit(place_in(HEAD + body.replace("«", "").replace("»", ""), "GD103", line, columns))


def both(body: str) -> Edit:
    """The edit of ``keep_tensor``, which declines for the same reason as ``drop_item``."""
    with pytest.raises(DeclinedError) as declined:
        edit(body, drop_item)
    try:
        return edit(body)
    except DeclinedError as error:
        assert error.reason == declined.value.reason
        raise


def written(body: str, recipe: Recipe = keep_tensor) -> str:
    return edit(body, recipe).content.decode().removeprefix(HEAD)


def test_a_number_that_is_needed_is_left(snapshot: SnapshotAssertion) -> None:
    cases = [
        "    if «x.item()»: y = -y\n    return y\n",
        "    if «x.item()» > 0: y = -y\n    return y\n",
        "    b = «x.item()» > 0\n    return y\n",
        "    b = 0 < «x.item()» < 2\n    return y\n",
        "    b = «x.item()» in items\n    return y\n",
        "    n = «x.item()»\n    while y > n: y = y - 1\n    return y\n",
        "    n = «x.item()»\n    return y if n else -y\n",
        "    n = «x.item()» or 1\n    return y * n\n",
        "    n = not «x.item()»\n    return y * n\n",
        "    return «x.item()»\n",
        "    n = «x.item()» * 2\n    return n\n",
        "    return y, «x.item()»\n",
        "    n = 0.0\n    n += «x.item()»\n    return n\n",
        "    f = lambda: «x.item()»\n    return y * f()\n",
        "    for i in range(«int(x)»): y = y + i\n    return y\n",
        "    return y[«x.item()»]\n",
        "    return y[:«x.item()»]\n",
        "    return y.view(«x.item()», -1)\n",
        "    return torch.zeros(«x.item()»)\n",
        "    return torch.full_like(y, «x.item()»)\n",
        "    return torch.add(y, y, alpha=«x.item()»)\n",
        "    return torch.clamp(y, 0.0, «x.item()»)\n",
        "    return self.scaled(y, «x.item()»)\n",
        "    return y * max(«x.item()», 1.0)\n",
        "    return self.scaled(*[«x.item()»])\n",
        "    items.append(«x.item()»)\n    return y\n",
        "    print(«x.item()»)\n    return y\n",
        '    s = f"{«x.item()»}"\n    return y\n',
        '    s = "%f" % «x.item()»\n    return y\n',
        "    self.seen = «x.item()»\n    return y\n",
        "    self.seen += «x.item()»\n    return y\n",
        "    items[0] = «x.item()»\n    return y\n",
        "    a, b = «x.item()», 1\n    return y * a\n",
        "    n: float = «x.item()»\n    return y * n\n",
        "    global n\n    n = «x.item()»\n    return y * n\n",
        "    «x.item()»\n    return y\n",
        "    n = self.size\n    return y * n + «bool(x)»\n",
        "    return y * math.pow(«x.item()», 2)\n",
        "    return y << «x.item()»\n",
    ]
    assert outcomes(both, cases) == snapshot


def test_a_number_that_is_computed_with_becomes_a_tensor(snapshot: SnapshotAssertion) -> None:
    cases = [
        "    return y * «x.item()»\n",
        "    return y * float(«x.item()»)\n",
        "    return y * int(«x.item()»)\n",
        "    return y * «float(x + y)»\n",
        "    return y * «float((x > 0).count_nonzero())»\n",
        "    return y * «x.argmax().item()»\n",
        "    return y * «x.detach().max().item()»\n",
        "    return y * «torch.add(x.detach(), y).item()»\n",
        "    n = «x.item()»\n    return y * n\n",
        "    n = «x.max().item()»\n    return y * n\n",
        "    n = -«x.item()» * 2\n    return y * n\n",
        "    y *= «x.item()»\n    return y\n",
        "    b = y > «x.item()»\n    return y * b\n",
        "    y = y.clamp(max=«x.item()»)\n    return y\n",
        "    return torch.where(y > 0, y, «x.item()»)\n",
        "    return y / math.sqrt(«x.item()»)\n",
        "    return y / «math.sqrt(x)»\n",
        "    with torch.no_grad(): y = y * «x.item()»\n    return y\n",
        "    f = lambda v: v * «x.item()»\n    return f(y)\n",
        "    def inner():\n        return y * n\n    n = «x.max().item()»\n    return inner()\n",
        "    return y * «x.item()» + x.max().item()  # two\n",
        "    a = 1;  b = «x.item()» ;  y = y * b\n    return y\n",
    ]
    assert outcomes(written, cases) == snapshot


def test_without_columns_the_only_read_of_the_line_is_meant() -> None:
    text = HEAD + "    return y * float(x.item())\n"
    assert b"y * x.detach()" in keep_tensor.edit(place_in(text, "GD103", 5)).content
    for line, reason in (
        ("    return y * x.item() * y.item()\n", "the line has several such expressions"),
        ("    return y * x\n", "the line doesn't contain "),
    ):
        with pytest.raises(DeclinedError, match=reason):
            keep_tensor.edit(place_in(HEAD + line, "GD103", 5))


def test_a_comment_within_the_read_is_not_lost() -> None:
    text = "def forward(x, y):\n    return y * float(  # why\n        x\n    )\n"
    with pytest.raises(DeclinedError, match="a comment inside it would be lost"):
        keep_tensor.edit(place_in(text, "GD103", 2, (16, None)))


def test_a_name_that_hides_the_builtin_is_no_cast() -> None:
    text = "from mine import float\ndef forward(x, y):\n    return y * float(x)\n"
    with pytest.raises(DeclinedError, match="torch doesn't point to"):
        keep_tensor.edit(place_in(text, "GD103", 3, (16, 24)))


@for_each(
    "body, is_safe",
    [
        ("    return y / «y.abs().max().item()»\n", True),
        ("    n = «torch.max(y).item()»\n    return (y - n) * 2\n", True),
        ("    return x / «y.abs().max().item()»\n", False),
        ("    return y / «y.max(0).values.item()»\n", False),
        ("    return y / «y.sum().item()»\n", False),
        ("    return y / «float(y.max())»\n", False),
        ("    return y / (1.0 + «y.max().item()»)\n", False),
        ("    y = y.double()\n    return y / «y.max().item()»\n", False),
    ],
)
def test_only_a_reduction_of_the_very_tensor_is_safe(body: str, is_safe: bool) -> None:
    assert edit(body).is_safe is is_safe
    if b".detach()" in edit(body).content:
        assert not edit(body, drop_item).is_safe


def test_dropping_is_declined_where_no_gradient_can_flow() -> None:
    with pytest.raises(DeclinedError, match="no gradient can flow"):
        edit("    return y * «x.argmax().item()»\n", drop_item)
