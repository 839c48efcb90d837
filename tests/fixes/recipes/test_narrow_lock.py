"""What narrow-lock leaves inside the lock, and what it leaves alone."""

from __future__ import annotations

from graphdoctor.fixes.recipe import Edit
from graphdoctor.fixes.recipes import narrow_lock
from tests.each import for_each
from tests.fixes.recipes.places import place_in, reason_of

HEAD = "from threading import Lock\nlock = Lock()\n\n\ndef f(self, x):\n"


def edit(body: str, head: str = HEAD, **more: str) -> Edit:
    text = head + "".join(f"    {line}\n" for line in body.splitlines())
    line = next(number for number, line in enumerate(text.splitlines(), 1) if "with" in line or "for" in line)
    return narrow_lock.edit(place_in(text, "GD110", line, **more))


@for_each(
    "body, reason",
    [
        ("for i in x:\n    print(i)", "the line doesn't begin a `with`"),
        ("with lock: self.n += 1", "the line doesn't begin a `with`"),
        ("with lock as held:\n    self.n += 1\n    x = x.cos()", "the `with` enters more than a lock"),
        ("with lock, other:\n    self.n += 1\n    x = x.cos()", "the `with` enters more than a lock"),
        ("with other:\n    self.n += 1\n    x = x.cos()", "nothing shows that `other` is a lock"),
        ("with lock:\n    y = x.sin()\n    x = y.cos()", "the code under the lock only computes"),
        (
            "with lock:\n    self.n += 1\n    x.add_(1)\nreturn x",
            "the code under the lock neither begins nor ends with",
        ),
        ("with lock:\n    self.n += 1\n    x = self.scale * x\nreturn x", "the code under the lock neither begins"),
        ("with lock:\n    self.n += 1\n    x = shared(x)\nreturn x", "the code under the lock neither begins"),
        ("with lock:\n    self.n += 1\n    self.y = x.cos()\nreturn x", "the code under the lock neither begins"),
        ("with lock:\n    if x: y = 1\n    z = x.cos()\nreturn y", "`y` may be unset after it"),
    ],
)
def test_it_declines(body: str, reason: str) -> None:
    assert reason_of(lambda: edit(body)).startswith(reason)


def test_torch_may_say_that_it_is_a_lock() -> None:
    body = "with self.guard:\n    self.n += 1\n    x = x.cos()\nreturn x"
    assert "_f_with" in edit(body, context="UserDefinedObjectVariable(lock)").content.decode()


def test_it_needs_judgement() -> None:
    found = edit("with lock:\n    self.n += 1\n    x = x.cos()\nreturn x")
    assert (found.is_safe, found.title) == (False, "Hold `lock` only around shared state")
    assert "    _f_with(self)\n    x = x.cos()\n    return x\n" in found.content.decode()


def test_another_with_before_it_is_not_touched() -> None:
    text = edit("if 1:\n  with lock:\n    self.n += 1\n    x = x.cos()\nwith open('x'):\n    pass").content.decode()
    assert "with open('x'):\n        pass" in text
    assert "def _f_with(self):\n    with lock:\n" in text
