"""What the recipes of ``outlined`` leave alone, and how they write what they edit."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from graphdoctor.facts.diagnosis import Location
from graphdoctor.fixes.recipe import Edit
from graphdoctor.fixes.recipes.outlined import backward_out_of_region, narrow_lock, own_function, statistics_outside
from graphdoctor.fixes.source.tree import DeclinedError
from tests.each import for_each
from tests.fixes.recipes.places import outcomes, place_in

# own-function


def edited_own_function(text: str, code: str = "GD111") -> str:
    """The text after the edit for the line with ``print`` or, without one, ``with``."""
    return own_function.edit(place_in(text, code, line_of(text))).content.decode()


def line_of(text: str) -> int:
    lines = text.splitlines()
    return next(number for word in ("print", "with ") for number, line in enumerate(lines, 1) if word in line)


def declined(body: str, head: str = "def forward(x, n):") -> str:
    text = f"{head}\n" + "".join(f"    {line}\n" for line in body.splitlines())
    with pytest.raises(DeclinedError) as caught:
        edited_own_function(text)
    return caught.value.reason


def test_own_function_it_declines(snapshot: SnapshotAssertion) -> None:
    cases = [
        "y = x.sin()\nprint(y)\nreturn y",
        "with torch.no_grad():\n    y = x.sin()\n    print(y)\nreturn y.cos()",
        "for i in n:\n    x = x + i\n    print(x)\n    if i: return x\nreturn x.cos()",
        "for i in n:\n    print(x)\n    yield x\nx = x.cos()",
        "for i in n:\n    x = x + i\n    print(x)\n    y = x\n    if i: break\nreturn y",
        "for i in n:\n    print(x)\n    if i: continue\n    y = x.cos()\nreturn y",
        "for i in n:\n    x = x.sin()\n    print(locals())\nreturn x.cos()",
        "for i in n:\n    y = x + i\n    del x\n    print(y)\nreturn x.cos()",
        "for i in n:\n    print(i)\n    if i: y = x + i\nreturn y",
        "if n: h = x\nfor i in n:\n    print(i)\n    h = h + 1\nx = x.cos()",
        "global h\nfor i in n:\n    print(i)\n    h = x + i\nreturn x.cos()",
        "f = lambda: x\nfor i in n:\n    x = x + i\n    print(f())\nreturn x.cos()",
        "fs = []\nfor i in n:\n    fs.append(lambda: x + i)\n    print(i)\nx = x.cos()\nreturn fs",
        "try:\n    print(x)\n    x = x.sin()\n    x.check()\nexcept ValueError:\n    x = x + 1",
        "with suppress(ValueError):\n    print(x)\n    x = x.sin()\n    x = x.check()\nreturn x",
        "for i in n: print(i)",
        '"""Doc."""\nfor i in n:\n    x = f(x, i)  # print\nreturn x',
    ]
    assert outcomes(declined, cases) == snapshot


def test_it_declines_outside_of_a_function() -> None:
    with pytest.raises(DeclinedError, match="the line isn't in a function"):
        edited_own_function("x = 1\nfor i in range(3):\n    x = x + i\n    print(x)\n")


@for_each("decorator", ["staticmethod", "classmethod"])
def test_it_declines_a_method_without_an_object(decorator: str) -> None:
    text = (
        f"class A:\n    @{decorator}\n    def f(x):\n        for i in x:\n            x = x + i\n            print(x)\n"
    )
    with pytest.raises(DeclinedError, match="a static or class method"):
        edited_own_function(text)


def test_it_declines_a_method_that_hides_its_object(snapshot: SnapshotAssertion) -> None:
    def result(line: str) -> object:
        text = f"class A:\n    {line}\n        for i in x:\n            y = i + 1\n            print(y)\n"
        return edited_own_function(text)

    cases = ["def f(*args):", "def f(self):\n        self = 1"]
    assert outcomes(result, cases) == snapshot


def test_super_works_in_a_method_and_is_declined_in_a_function() -> None:
    body = "for i in n:\n            y = super().f(i)\n            print(y)"
    assert "super().f(i)" in edited_own_function(f"class A:\n    def f(self, n):\n        {body}\n")
    with pytest.raises(DeclinedError, match="it calls `super`"):
        edited_own_function(f"class A:\n    def f(self, n):\n      def g():\n        {body}\n")


def test_a_loop_with_a_break_moves_as_a_whole() -> None:
    body = "    for i in n:\n        x = x + i\n        print(x)\n        if i: break\n"
    assert edited_own_function(f"def f(x, n):\n{body}    return x.cos()\n") == (
        f"def f(x, n):\n    x = _f_loop(n, x)\n    return x.cos()\n\n\ndef _f_loop(n, x):\n{body}    return x\n"
    )


def test_names_that_only_the_block_uses_stay_in_it() -> None:
    body = "        print(x)\n        y = x + 1\n        z = y + x\n"
    result = edited_own_function(f"def f(x):\n    try:\n{body}    finally:\n        g()\n    return z\n")
    assert "z = _f_attempt(x)" in result
    assert "def _f_attempt(x):\n    print(x)\n    y = x + 1\n    z = y + x\n    return z\n" in result


def test_a_name_that_the_loop_alone_binds_is_as_unset_in_its_own_function(snapshot: SnapshotAssertion) -> None:
    body = "        if i: h = x\n        print(h)\n        x = x + i\n        if i: break\n"
    text = f"def f(x, n):\n    for i in n:\n{body}    return x.cos()\n"
    assert edited_own_function(text) == snapshot


def test_what_the_next_turn_of_the_loop_reads_is_returned() -> None:
    body = "        print(i)\n        x = x + h\n        h = x.sin()\n"
    assert "x, h = _f_step(i, x, h)" in edited_own_function(
        f"def f(x, n):\n    h = x\n    for i in n:\n{body}    return x\n"
    )


def test_a_name_that_is_taken_gets_a_number() -> None:
    text = "def _f_step(): ...\n\n\ndef f(x, n):\n    for i in n:\n        x = x + i\n        print(x)\n    return x\n"
    assert "x = _f_step_2(x, i)" in edited_own_function(text)


def test_a_block_in_one_line_moves(snapshot: SnapshotAssertion) -> None:
    text = "def f(x, n):\n    for i in n: x = x + i; print(x)\n    return x\n"
    assert edited_own_function(text) == snapshot


def test_a_break_in_a_called_function_is_found_by_the_block_that_the_rule_names() -> None:
    loop = "    for i in n:\n        x = x + i\n        show(x)\n"
    text = f"def show(x):\n    print(x)\n\n\ndef f(x, n):\n{loop}    return x\n"
    place = place_in(text, "GD111", 2)
    block = Location(file="model.py", line=6, function="f", note="the `for` that the break lies in")
    object.__setattr__(place, "finding", place.finding.model_copy(update={"related": (block,)}))
    assert "x = _f_step(x, i)" in own_function.edit(place).content.decode()


def test_moving_is_safe_and_drops_no_output() -> None:
    edit = own_function.edit(
        place_in("def f(x, n):\n    for i in n:\n        x = x + i\n        print(x)\n", "GD111", 4)
    )
    assert (edit.is_safe, edit.drops_output) == (True, False)
    assert edit.title == "Move the body of the `for` at line 2 into its own function"


# narrow-lock


HEAD = "from threading import Lock\nlock = Lock()\n\n\ndef f(self, x):\n"


def edit_narrow_lock(body: str, head: str = HEAD, **more: str) -> Edit:
    text = head + "".join(f"    {line}\n" for line in body.splitlines())
    line = next(number for number, line in enumerate(text.splitlines(), 1) if "with" in line or "for" in line)
    return narrow_lock.edit(place_in(text, "GD110", line, **more))


def test_narrow_lock_it_declines(snapshot: SnapshotAssertion) -> None:
    cases = [
        "for i in x:\n    print(i)",
        "with lock: self.n += 1",
        "with lock as held:\n    self.n += 1\n    x = x.cos()",
        "with lock, other:\n    self.n += 1\n    x = x.cos()",
        "with other:\n    self.n += 1\n    x = x.cos()",
        "with lock:\n    y = x.sin()\n    x = y.cos()",
        "with lock:\n    self.n += 1\n    x.add_(1)\nreturn x",
        "with lock:\n    self.n += 1\n    x = self.scale * x\nreturn x",
        "with lock:\n    self.n += 1\n    x = shared(x)\nreturn x",
        "with lock:\n    self.n += 1\n    self.y = x.cos()\nreturn x",
        "with lock:\n    if x: y = 1\n    z = x.cos()\nreturn y",
    ]
    assert outcomes(edit_narrow_lock, cases) == snapshot


def test_torch_may_say_that_it_is_a_lock() -> None:
    body = "with self.guard:\n    self.n += 1\n    x = x.cos()\nreturn x"
    assert "_f_with" in edit_narrow_lock(body, context="UserDefinedObjectVariable(lock)").content.decode()


def test_another_with_before_it_is_not_touched() -> None:
    text = edit_narrow_lock(
        "if 1:\n  with lock:\n    self.n += 1\n    x = x.cos()\nwith open('x'):\n    pass"
    ).content.decode()
    assert "with open('x'):\n        pass" in text
    assert "def _f_with(self):\n    with lock:\n" in text


# statistics-outside


NET = '''import torch


class Net(torch.nn.Module):
    def forward(self, x):
        """Words."""
        y = x.sin()
        with torch.no_grad():
            self.top = y.max().item()
        return y
'''


def edited_statistics_outside(text: str, pointed: str = ".item()") -> str:
    line = next(number for number, line in enumerate(text.splitlines(), 1) if pointed in line)
    return statistics_outside.edit(place_in(text, "GD103", line)).content.decode()


def test_what_comes_before_is_a_method() -> None:
    assert (
        edited_statistics_outside(NET)
        == NET.replace("    def forward", "    @torch.compiler.disable(recursive=False)\n    def forward").replace(
            "y = x.sin()", "y = self._compute(x)"
        )
        + "\n    def _compute(self, x):\n        y = x.sin()\n        return y\n"
    )


def test_statistics_outside_it_declines(snapshot: SnapshotAssertion) -> None:
    cases = [
        ("def forward", "def step"),
        ("    def forward", "    @cached\n    def forward"),
        ("with torch.no_grad():", "with torch.enable_grad():"),
        ("with torch.no_grad():", "if x.shape[0] > 1:"),
        ("return y", "return y + 1"),
        ("return y", "y = y + 1\n        return y"),
        ("        y = x.sin()\n", ""),
    ]
    assert outcomes(lambda old, new: edited_statistics_outside(NET.replace(old, new)), cases) == snapshot


# backward-out-of-region


def edit_backward_out_of_region(text: str) -> Edit:
    line = next(number for number, line in enumerate(text.splitlines(), 1) if "backward" in line or "step" in line)
    return backward_out_of_region.edit(place_in(text, "GD112", line))


def test_backward_out_of_region_it_declines(snapshot: SnapshotAssertion) -> None:
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
    assert outcomes(edit_backward_out_of_region, cases) == snapshot


def test_torch_is_imported_where_it_was_not_and_decorators_stay(snapshot: SnapshotAssertion) -> None:
    text = "from my import o\n\n\n@timed\ndef train(x):\n\ty = x.sum()\n\ty.backward()\n\to.step()\n"
    assert edit_backward_out_of_region(text).content.decode() == snapshot


def test_a_method_that_is_no_forward_is_skipped_like_a_function() -> None:
    text = (
        "import torch\n\n\nclass T:\n    def fit(self, x):\n        y = self.net(x)\n        y.backward()\n"
        "        self.scaler.step(self.opt)\n"
    )
    result = edit_backward_out_of_region(text.replace("\n", "\r\n")).content.decode()
    assert "    @torch._dynamo.decorators.skip\r\n    def fit(self, x):\r\n        y = self._fit_loss(x)\r\n" in result
    assert "torch.compiler.disable(self.scaler.step)(self.opt)\r\n" in result
    assert result.count("\n") == result.count("\r\n")
