"""Programs made at random do the same, exceptions and unbound variables included, when statements
of them move."""

from __future__ import annotations

import contextlib
import random
from typing import Any

import pytest

from graphdoctor.fixes.moves.contain import own_function
from graphdoctor.fixes.source.tree import DeclinedError
from tests.each import for_each
from tests.fixes.recipes.places import place_in

pytestmark = pytest.mark.slow

NAMES = "abcde"


class Author:
    """Writes one function of nested blocks with a single ``marked()`` in it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def program(self) -> str:
        while True:
            lines = ["def f(a, b):", *self.body(0, in_loop=False), "    return [a, b, c, d]"]
            plain = [at for at, line in enumerate(lines) if "=" in line and "==" not in line]
            if not plain:
                continue
            at = self.random.choice(plain)
            indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
            # Some of the other names are bound from the start.
            lines[at:at] = [f"{indent}marked()"]
            lines[1:1] = ["    c = a", "    d = b", "    e = a"][: self.random.randint(1, 3)]
            return "\n".join(lines) + "\n"

    def body(self, depth: int, *, in_loop: bool) -> list[str]:
        lines: list[str] = []
        for _ in range(self.random.randint(2, 3)):
            lines += ["    " + line for line in self.statement(depth, in_loop=in_loop)]
        return lines

    def statement(self, depth: int, *, in_loop: bool) -> list[str]:
        kind = self.random.choice(
            ["set"] * 4 + ["add", "pair", "list"] + ["if", "for", "try", "with", "jump", "finally"]
        )
        name, value = self.random.choice(NAMES), self.value()
        if depth == 2 and kind in ("if", "for", "try", "with", "finally"):
            kind = "set"
        inner = (
            []
            if kind in ("set", "add", "pair", "list", "jump")
            else self.body(depth + 1, in_loop=in_loop)
        )
        other = (
            self.body(depth + 1, in_loop=in_loop)
            if inner and self.random.random() < 0.6
            else ["    pass"]
        )
        match kind:
            case "add":
                return [f"{name} += {self.random.choice(NAMES)}"]
            case "pair":
                # Python 3.11.2 stores `a, a = x, y` in the wrong order in some places.
                other = self.random.choice([candidate for candidate in NAMES if candidate != name])
                return [f"{name}, {other} = {value}, {self.value()}"]
            case "list":
                return [f"{name} = sum([{self.random.choice(NAMES)} + i for i in range(3)]) % 31"]
            case "if":
                return [f"if {value} % 2:", *inner, "else:", *other]
            case "for":
                inner = self.body(depth + 1, in_loop=True)
                return [f"for {name} in range({value} % 3):", *inner]
            case "try":
                return ["try:", *inner, "except ZeroDivisionError:", *other]
            case "finally":
                return ["try:", *inner, "finally:", *other]
            case "with":
                return [
                    "with suppress(ZeroDivisionError):" if value < "(c" else "with nullcontext():",
                    *inner,
                ]
            case "jump":
                words = [
                    "return a",
                    "raise ZeroDivisionError",
                    *(["break", "continue"] if in_loop else []),
                ]
                return [f"if {value} % 5 == 0:", f"    {self.random.choice(words)}"]
            case _:
                return [f"{name} = {value}"]

    def value(self) -> str:
        left, right = self.random.choice(NAMES), self.random.choice([*NAMES, *"12345"])
        return f"({left} {self.random.choice(['+', '-', '*', '//', '+'])} {right}) % 31"


def outcomes(program: str) -> list[object]:
    def once(a: int, b: int) -> object:
        calls: list[None] = []
        scope: dict[str, Any] = {
            "marked": lambda: calls.append(None),
            "suppress": contextlib.suppress,
            "nullcontext": contextlib.nullcontext,
        }
        exec(program, scope)
        try:
            return scope["f"](a, b), len(calls)
        except ZeroDivisionError:
            return "division", len(calls)
        except NameError:
            # Python has another name for it where nothing in the function binds the variable any
            # more.
            return "unbound", len(calls)

    return [once(a, b) for a in range(-2, 4) for b in range(4)]


@for_each("seed", range(12))
@pytest.mark.nightly
def test_what_moves_does_the_same(seed):
    moved = 0
    for number in range(40):
        program = Author(seed * 1000 + number).program()
        line = program[: program.index("marked()")].count("\n") + 1
        try:
            edit = own_function.edit(place_in(program, "GD111", line))
        except DeclinedError:
            continue
        moved += 1
        assert outcomes(edit.content.decode()) == outcomes(program), (
            f"{program}\n{edit.content.decode()}"
        )
    assert moved > 2
