"""What narrow-lock leaves inside the lock, and what it leaves alone."""

from __future__ import annotations

from syrupy.assertion import SnapshotAssertion

from graphdoctor.fixes.recipe import Edit
from graphdoctor.fixes.recipes import narrow_lock
from tests.fixes.recipes.places import outcomes, place_in

HEAD = "from threading import Lock\nlock = Lock()\n\n\ndef f(self, x):\n"


def edit(body: str, head: str = HEAD, **more: str) -> Edit:
    text = head + "".join(f"    {line}\n" for line in body.splitlines())
    line = next(number for number, line in enumerate(text.splitlines(), 1) if "with" in line or "for" in line)
    return narrow_lock.edit(place_in(text, "GD110", line, **more))


def test_it_declines(snapshot: SnapshotAssertion) -> None:
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
    assert outcomes(edit, cases) == snapshot


def test_torch_may_say_that_it_is_a_lock() -> None:
    body = "with self.guard:\n    self.n += 1\n    x = x.cos()\nreturn x"
    assert "_f_with" in edit(body, context="UserDefinedObjectVariable(lock)").content.decode()


def test_another_with_before_it_is_not_touched() -> None:
    text = edit("if 1:\n  with lock:\n    self.n += 1\n    x = x.cos()\nwith open('x'):\n    pass").content.decode()
    assert "with open('x'):\n        pass" in text
    assert "def _f_with(self):\n    with lock:\n" in text
