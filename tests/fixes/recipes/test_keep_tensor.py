"""What keep-tensor and drop-item leave alone, and how they write what they edit."""

from __future__ import annotations

import pytest

from graphdoctor.fixes.recipe import Edit, Recipe
from graphdoctor.fixes.recipes import drop_item, keep_tensor
from graphdoctor.fixes.source.tree import DeclinedError
from tests.each import for_each
from tests.fixes.recipes.places import place_in

HEAD = "import math\nimport torch\n\ndef forward(self, x, y, items):\n"


def edit(body: str, recipe: Recipe = keep_tensor) -> Edit:
    """The edit of the ``.item()``, cast or root that the first line of a body has between two marks."""
    line = next(number for number, text in enumerate(body.splitlines(), 5) if "«" in text)
    text = body.splitlines()[line - 5]
    columns = (text.index("«") + 1, text.index("»"))
    return recipe.edit(place_in(HEAD + body.replace("«", "").replace("»", ""), "GD103", line, columns))


def written(body: str, recipe: Recipe = keep_tensor) -> str:
    return edit(body, recipe).content.decode().removeprefix(HEAD)


@for_each(
    "body, reason",
    [
        ("    if «x.item()»: y = -y\n    return y\n", "the number decides which branch runs"),
        ("    if «x.item()» > 0: y = -y\n    return y\n", "the number is compared in Python"),
        ("    b = «x.item()» > 0\n    return y\n", "the number is compared in Python"),
        ("    b = 0 < «x.item()» < 2\n    return y\n", "the number is compared in Python"),
        ("    b = «x.item()» in items\n    return y\n", "the number is compared in Python"),
        ("    n = «x.item()»\n    while y > n: y = y - 1\n    return y\n", "the number is compared in Python"),
        ("    n = «x.item()»\n    return y if n else -y\n", "the number decides which branch runs"),
        ("    n = «x.item()» or 1\n    return y * n\n", "the number decides which branch runs"),
        ("    n = not «x.item()»\n    return y * n\n", "the number decides which branch runs"),
        ("    return «x.item()»\n", "the number is returned"),
        ("    n = «x.item()» * 2\n    return n\n", "the number is returned"),
        ("    return y, «x.item()»\n", "the number is stored"),
        ("    n = 0.0\n    n += «x.item()»\n    return n\n", "the number is returned"),
        ("    f = lambda: «x.item()»\n    return y * f()\n", "the number is returned"),
        ("    for i in range(«int(x)»): y = y + i\n    return y\n", "`range` needs a Python number"),
        ("    return y[«x.item()»]\n", "the number is an index"),
        ("    return y[:«x.item()»]\n", "the number is an index"),
        ("    return y.view(«x.item()», -1)\n", "`y.view` may need a Python number"),
        ("    return torch.zeros(«x.item()»)\n", "`torch.zeros` may need a Python number"),
        ("    return torch.full_like(y, «x.item()»)\n", "`torch.full_like` may need a Python number"),
        ("    return torch.add(y, y, alpha=«x.item()»)\n", "`torch.add` may need a Python number"),
        ("    return torch.clamp(y, 0.0, «x.item()»)\n", "`torch.clamp` may need a Python number"),
        ("    return self.scaled(y, «x.item()»)\n", "`self.scaled` may need a Python number"),
        ("    return y * max(«x.item()», 1.0)\n", "`max` needs a Python number"),
        ("    return self.scaled(*[«x.item()»])\n", "the number is stored"),
        ("    items.append(«x.item()»)\n    return y\n", "`items.append` may need a Python number"),
        ("    print(«x.item()»)\n    return y\n", "`print` needs a Python number"),
        ('    s = f"{«x.item()»}"\n    return y\n', "the number is formatted as text"),
        ('    s = "%f" % «x.item()»\n    return y\n', "it isn't arithmetic"),
        ("    self.seen = «x.item()»\n    return y\n", "the number is stored"),
        ("    self.seen += «x.item()»\n    return y\n", "the number is stored"),
        ("    items[0] = «x.item()»\n    return y\n", "the number is stored"),
        ("    a, b = «x.item()», 1\n    return y * a\n", "the number is stored"),
        ("    n: float = «x.item()»\n    return y * n\n", "the number is stored"),
        ("    global n\n    n = «x.item()»\n    return y * n\n", "the number is stored"),
        ("    «x.item()»\n    return y\n", "nothing uses the number"),
        (
            "    n = self.size\n    return y * n + «bool(x)»\n",
            "torch doesn't point to `.item()`, `float(…)` or `int(…)`",
        ),
        ("    return y * math.pow(«x.item()», 2)\n", "`math.pow` needs a Python number"),
        ("    return y << «x.item()»\n", "it's unclear what uses the number"),
    ],
)
def test_a_number_that_is_needed_is_left(body: str, reason: str) -> None:
    for recipe in (keep_tensor, drop_item):
        with pytest.raises(DeclinedError) as declined:
            edit(body, recipe)
        assert declined.value.reason == reason


@for_each(
    "body, text",
    [
        ("    return y * «x.item()»\n", "    return y * x.detach()\n"),
        ("    return y * float(«x.item()»)\n", "    return y * x.detach()\n"),
        ("    return y * int(«x.item()»)\n", "    return y * x.long()\n"),
        ("    return y * «float(x + y)»\n", "    return y * (x + y).detach()\n"),
        ("    return y * «float((x > 0).count_nonzero())»\n", "    return y * (x > 0).count_nonzero().float()\n"),
        ("    return y * «x.argmax().item()»\n", "    return y * x.argmax()\n"),
        ("    return y * «x.detach().max().item()»\n", "    return y * x.detach().max()\n"),
        ("    return y * «torch.add(x.detach(), y).item()»\n", "    return y * torch.add(x.detach(), y).detach()\n"),
        ("    n = «x.item()»\n    return y * n\n", "    n = x.detach().clone()\n    return y * n\n"),
        ("    n = «x.max().item()»\n    return y * n\n", "    n = x.max().detach()\n    return y * n\n"),
        ("    n = -«x.item()» * 2\n    return y * n\n", "    n = -x.detach() * 2\n    return y * n\n"),
        ("    y *= «x.item()»\n    return y\n", "    y *= x.detach()\n    return y\n"),
        ("    b = y > «x.item()»\n    return y * b\n", "    b = y > x.detach()\n    return y * b\n"),
        ("    y = y.clamp(max=«x.item()»)\n    return y\n", "    y = y.clamp(max=x.detach())\n    return y\n"),
        ("    return torch.where(y > 0, y, «x.item()»)\n", "    return torch.where(y > 0, y, x.detach())\n"),
        ("    return y / math.sqrt(«x.item()»)\n", "    return y / torch.sqrt(x.detach())\n"),
        ("    return y / «math.sqrt(x)»\n", "    return y / torch.sqrt(x.detach())\n"),
        (
            "    with torch.no_grad(): y = y * «x.item()»\n    return y\n",
            "    with torch.no_grad(): y = y * x\n    return y\n",
        ),
        ("    f = lambda v: v * «x.item()»\n    return f(y)\n", "    f = lambda v: v * x.detach()\n    return f(y)\n"),
        (
            "    def inner():\n        return y * n\n    n = «x.max().item()»\n    return inner()\n",
            "    def inner():\n        return y * n\n    n = x.max().detach()\n    return inner()\n",
        ),
        (
            "    return y * «x.item()» + x.max().item()  # two\n",
            "    return y * x.detach() + x.max().item()  # two\n",
        ),
        ("    a = 1;  b = «x.item()» ;  y = y * b\n    return y\n",) * 1
        + ("    a = 1;  b = x.detach().clone() ;  y = y * b\n    return y\n",),
    ],
)
def test_a_number_that_is_computed_with_becomes_a_tensor(body: str, text: str) -> None:
    assert written(body) == text


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
