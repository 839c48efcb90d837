"""Training steps that backward-out-of-region leaves alone, and what it keeps of the text."""

from __future__ import annotations

from graphdoctor.fixes.recipe import Edit
from graphdoctor.fixes.recipes import backward_out_of_region
from tests.each import for_each
from tests.fixes.recipes.places import place_in, reason_of


def edit(text: str) -> Edit:
    line = next(number for number, line in enumerate(text.splitlines(), 1) if "backward" in line or "step" in line)
    return backward_out_of_region.edit(place_in(text, "GD112", line))


@for_each(
    "text, reason",
    [
        ("loss.backward()\n", "the line isn't in a function"),
        ("f = lambda loss: loss.backward()\n", "the line isn't in a function"),
        (
            "@torch.compiler.disable\ndef f(x):\n    y = x.sum()\n    y.backward()\n",
            "Dynamo is already disabled for the function",
        ),
        ("def f(x):\n    optimizer.step()\n", "the function's body has no `backward()` on its own line"),
        (
            "def f(x):\n    y = x.sum()\n    return torch.autograd.grad(y, x)  # backward\n",
            "the function's body has no",
        ),
        ("def f(x):\n    for y in x:\n        z = y.sum()\n        z.backward()\n", "the function's body has no"),
        ("def f(x):\n    y = x.sum(); y.backward()\n", "the function's body has no"),
        ("def f(x):\n    x.sum().backward()\n", "there is no forward pass and loss before `backward()`"),
        (
            "def f(x):\n    o.zero_grad()\n    x.sum().backward()\n",
            "there is no forward pass and loss before `backward()`",
        ),
        (
            "def f(x):\n    for _ in x:\n        o.step()\n    y = x.sum()\n    y.backward()\n",
            "there are calls of the training step between the forward pass and the loss",
        ),
        ("def f(x, n):\n    if n:\n        y = x.sum()\n    y.backward()\n", "`y` may be unset after it"),
        (
            "def f(x, n):\n    if n:\n        return x\n    y = x.sum()\n    y.backward()\n",
            "it returns from the function",
        ),
    ],
)
def test_it_declines(text: str, reason: str) -> None:
    assert reason_of(lambda: edit(text)).startswith(reason)


def test_torch_is_imported_where_it_was_not_and_decorators_stay() -> None:
    text = "from my import o\n\n\n@timed\ndef train(x):\n\ty = x.sum()\n\ty.backward()\n\to.step()\n"
    assert edit(text).content.decode() == (
        "from my import o\nimport torch\n\n\n@timed\n@torch._dynamo.decorators.skip\ndef train(x):\n"
        "\ty = _train_loss(x)\n\ty.backward()\n\ttorch.compiler.disable(o.step)()\n\n\n"
        "def _train_loss(x):\n\ty = x.sum()\n\treturn y\n"
    )


def test_a_method_that_is_no_forward_is_skipped_like_a_function() -> None:
    text = (
        "import torch\n\n\nclass T:\n    def fit(self, x):\n        y = self.net(x)\n        y.backward()\n"
        "        self.scaler.step(self.opt)\n"
    )
    result = edit(text.replace("\n", "\r\n")).content.decode()
    assert "    @torch._dynamo.decorators.skip\r\n    def fit(self, x):\r\n        y = self._fit_loss(x)\r\n" in result
    assert "torch.compiler.disable(self.scaler.step)(self.opt)\r\n" in result
    assert result.count("\n") == result.count("\r\n")


def test_it_needs_judgement() -> None:
    found = edit("def f(x):\n    y = x.sum()\n    y.backward()\n")
    assert (found.is_safe, found.title) == (False, "Compile only the forward pass and the loss of `f`")
