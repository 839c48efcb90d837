"""What clone-instead-of-deepcopy leaves alone, and how it writes the clones."""

from __future__ import annotations

import pytest

from graphdoctor.fixes.recipe import Edit
from graphdoctor.fixes.recipes import clone_instead_of_deepcopy
from graphdoctor.fixes.source.tree import DeclinedError
from tests.each import for_each
from tests.fixes.recipes.places import place_in, reason_of

HEAD = "import copy\nimport torch\nfrom torch import nn\n"


def edit(text: str) -> Edit:
    """The edit of the line that calls ``deepcopy``."""
    text = HEAD + text
    line = next(number for number, found in enumerate(text.splitlines(), 1) if "deepcopy(" in found)
    return clone_instead_of_deepcopy.edit(place_in(text, "GD108", line))


def in_class(init: str, copied: str = "self.state") -> str:
    return (
        f"class Net(nn.Module):\n    def __init__(self):\n        {init}\n"
        f"    def forward(self, x):\n        return copy.deepcopy({copied})\n"
    )


@for_each(
    "text, reason",
    [
        (in_class("self.state = nn.Linear(8, 8)"), "what is copied may not be a tensor"),
        (in_class("self.state = make()"), "what is copied may not be a tensor"),
        (in_class("self.other = 1"), "nothing in the file says what `self.state` is"),
        (in_class("self.state = {}"), "not everything in the container is a tensor"),
        (in_class("self.state = {'a': torch.zeros(1), 'n': 0}"), "not everything in the container is a tensor"),
        (in_class("self.state = [[torch.zeros(1)]]"), "not everything in the container is a tensor"),
        (in_class("self.state = [nn.Linear(1, 1) for _ in range(2)]"), "not everything in the container is a tensor"),
        (
            in_class("self.state = torch.zeros(1); self.state = [torch.zeros(1)]"),
            "`self.state` is set to values of different kinds",
        ),
        (in_class("pass", "x * 2"), "what is copied may not be a tensor"),
        (in_class("pass", "self.layer()"), "what is copied may not be a tensor"),
        (in_class("pass", "[*x]"), "the container unpacks other containers"),
        (in_class("pass", "x, memo"), "the line doesn't contain a call to `copy.deepcopy`"),
        (in_class("pass", "*x"), "the line doesn't contain a call to `copy.deepcopy`"),
        ("def f(x: nn.Module):\n    return copy.deepcopy(x)\n", "`x` may not be a tensor"),
        ("def f(x: dict[str, list]):\n    return copy.deepcopy(x)\n", "`x` may not be a tensor"),
        ("def f(x: dict):\n    return copy.deepcopy(x)\n", "`x` may not be a tensor"),
        ("def f(x):\n    return x.deepcopy(x)\n", "the line doesn't contain a call to `copy.deepcopy`"),
        (
            "def f(x, y):\n    return copy.deepcopy(x) + copy.deepcopy(y)\n",
            "the line has several such expressions and torch doesn't say which one it means",
        ),
    ],
)
def test_what_may_be_no_tensor_is_left(text: str, reason: str) -> None:
    assert reason_of(lambda: edit(text)) == reason


def test_a_comment_within_the_call_is_not_lost() -> None:
    text = HEAD + "def f(x):\n    return copy.deepcopy(  # why\n        x\n    )\n"
    with pytest.raises(DeclinedError, match="a comment inside it would be lost"):
        clone_instead_of_deepcopy.edit(place_in(text, "GD108", 5, (12, None)))


@for_each(
    "text, line",
    [
        ("def f(x):\n    return copy.deepcopy(x)\n", "return x.detach().clone()"),
        ("def f(x):\n    return copy.deepcopy(x[0])\n", "return x[0].detach().clone()"),
        ("def f(x):\n    y = copy.deepcopy(x) ; y = y * 2  # two\n", "y = x.detach().clone() ; y = y * 2  # two"),
        ("def f(x):\n    return (lambda v: copy.deepcopy(v))(x)\n", "return (lambda v: v.detach().clone())(x)"),
        ("def f(x):\n    def g(): return copy.deepcopy(x)\n    return g()\n", "def g(): return x.detach().clone()"),
        ("def f(x):\r\n\ty = copy.deepcopy(x)\t# why\r\n", "\ty = x.detach().clone()\t# why\r\n"),
        (
            "def f(x: 'list'):\n    y = [torch.ones(1)]\n    z = copy.deepcopy(y)\n",
            "z = [value.clone() for value in y]",
        ),
        (
            "def f(x: dict[str, torch.Tensor]):\n    return copy.deepcopy(x)\n",
            "return {name: value.detach().clone() for name, value in x.items()}",
        ),
        (
            "def f(x: tuple[torch.Tensor, ...]):\n    return copy.deepcopy(x)\n",
            "return tuple(value.detach().clone() for value in x)",
        ),
        (in_class("self.state = nn.Parameter(torch.ones(1))"), "return self.state.detach().clone()"),
        (
            in_class("self.state = [torch.ones(1, requires_grad=True)]"),
            "return [value.detach().clone() for value in self.state]",
        ),
        (
            in_class("self.state = {n: torch.ones(1) for n in 'ab'}"),
            "return {name: value.detach().clone() for name, value in self.state.items()}",
        ),
    ],
)
def test_tensors_are_cloned_one_by_one(text: str, line: str) -> None:
    found = edit(text)
    assert line in found.content.decode()
    assert not found.is_safe


def test_a_visibly_detached_tensor_is_safe_to_clone() -> None:
    found = edit("def f(x):\n    return copy.deepcopy(x.detach())\n")
    assert found.is_safe
    assert b"return x.detach().clone()" in found.content
