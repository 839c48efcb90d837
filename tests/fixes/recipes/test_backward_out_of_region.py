"""Training steps that backward-out-of-region leaves alone, and what it keeps of the text."""

from __future__ import annotations

from syrupy.assertion import SnapshotAssertion

from graphdoctor.fixes.recipe import Edit
from graphdoctor.fixes.recipes import backward_out_of_region
from tests.fixes.recipes.places import outcomes, place_in


def edit(text: str) -> Edit:
    line = next(number for number, line in enumerate(text.splitlines(), 1) if "backward" in line or "step" in line)
    return backward_out_of_region.edit(place_in(text, "GD112", line))


def test_it_declines(snapshot: SnapshotAssertion) -> None:
    cases = [
        "loss.backward()\n",
        "f = lambda loss: loss.backward()\n",
        "@torch.compiler.disable\ndef f(x):\n    y = x.sum()\n    y.backward()\n",
        "def f(x):\n    optimizer.step()\n",
        "def f(x):\n    y = x.sum()\n    return torch.autograd.grad(y, x)  # backward\n",
        "def f(x):\n    for y in x:\n        z = y.sum()\n        z.backward()\n",
        "def f(x):\n    y = x.sum(); y.backward()\n",
        "def f(x):\n    x.sum().backward()\n",
        "def f(x):\n    o.zero_grad()\n    x.sum().backward()\n",
        "def f(x):\n    for _ in x:\n        o.step()\n    y = x.sum()\n    y.backward()\n",
        "def f(x, n):\n    if n:\n        y = x.sum()\n    y.backward()\n",
        "def f(x, n):\n    if n:\n        return x\n    y = x.sum()\n    y.backward()\n",
    ]
    assert outcomes(edit, cases) == snapshot


def test_torch_is_imported_where_it_was_not_and_decorators_stay(snapshot: SnapshotAssertion) -> None:
    text = "from my import o\n\n\n@timed\ndef train(x):\n\ty = x.sum()\n\ty.backward()\n\to.step()\n"
    assert edit(text).content.decode() == snapshot


def test_a_method_that_is_no_forward_is_skipped_like_a_function() -> None:
    text = (
        "import torch\n\n\nclass T:\n    def fit(self, x):\n        y = self.net(x)\n        y.backward()\n"
        "        self.scaler.step(self.opt)\n"
    )
    result = edit(text.replace("\n", "\r\n")).content.decode()
    assert "    @torch._dynamo.decorators.skip\r\n    def fit(self, x):\r\n        y = self._fit_loss(x)\r\n" in result
    assert "torch.compiler.disable(self.scaler.step)(self.opt)\r\n" in result
    assert result.count("\n") == result.count("\r\n")
