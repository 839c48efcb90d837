"""check-instead-of-raise: what it writes beyond its cases, what it declines, and that the checks do check."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest
import torch
from syrupy.assertion import SnapshotAssertion

from graphdoctor.fixes.recipes import check_instead_of_raise
from graphdoctor.fixes.source.tree import DeclinedError
from tests.fixes.recipes.places import cases, mended, outcomes, place_in


def body(text: str) -> str:
    """What becomes of a function's body where torch points to the line of its first test."""
    whole = "import torch\ndef f(x, y):\n    z = x\n" + indent(dedent(text).strip("\n"), "    ") + "\n"
    line = next(number for number, line in enumerate(whole.split("\n"), 1) if re.search(r"if |if\(|assert|while", line))
    code = check_instead_of_raise.edit(place_in(whole, "GD102", line)).content.decode()
    ast.parse(code)
    return dedent(code.removeprefix("import torch\ndef f(x, y):\n    z = x\n")).strip("\n")


def test_written(snapshot: SnapshotAssertion) -> None:
    cases = [
        "if x > 0: raise E",
        "if x: raise m.E()",
        "if not x: raise E('why') from None",
        "if not x.any(): raise E('why', 3)",
        "if x > 0 or y: raise E(3)",
        "if x > 0: raise E(*y)",
        "if x > 0: raise E(b'why')",
        "if x == y['#\"']: raise E",
        "assert x",
        "assert(x > 0)",
        "assert x > 0, 'a' 'b'",
        "assert x > 0, y",
        "assert x > 0; y = 3",
        "a = 1; assert x > 0 # why",
    ]
    assert outcomes(body, cases) == snapshot


def test_comments_stay(snapshot: SnapshotAssertion) -> None:
    text = """
        # above
        if (
            x > 0  # one
        ):  # head
            # before
            raise E("why")  # beside
            # behind
        # next
        y = 3
    """
    assert body(text) == snapshot


def test_declined(snapshot: SnapshotAssertion) -> None:
    cases = [
        "if x > 0: raise",
        "if x > 0: raise make(x)()",
        "if x > 0:\n    print(x)\n    raise E",
        "if x > 0: print(x); raise E",
        "if x > 0:\n    y = 1\n",
        "if x > 0:\n    for z in x: raise E\n",
        "if x > 0: raise E\nelse: y = 1",
        "if x > 0: raise E\nelif y: y = 1",
        "if x is None or x > 0: raise E",
        "assert isinstance(x, int)",
        "assert (z := x) > 0",
        "y = x if x > 0 else y",
        "while x > 0: raise E",
        "assert x > 0, ( # why\n    y)",
        "try:\n    assert x > 0\nexcept AssertionError: pass",
    ]
    assert outcomes(body, cases) == snapshot


def test_a_raise_in_a_handler_is_not_caught_by_its_own_try() -> None:
    text = "import torch\ndef f(x):\n    try: x = 1\n    except E:\n        if x > 0: raise E\n"
    assert b"_assert_async" in check_instead_of_raise.edit(place_in(text, "GD102", 5)).content


def test_outside_a_function_it_is_declined() -> None:
    with pytest.raises(DeclinedError, match="isn't in a function"):
        check_instead_of_raise.edit(place_in("assert x > 0\n", "GD102", 1))


PROGRAMS = cases(check_instead_of_raise.name)


def _program(text: bytes) -> Callable[..., Any]:
    names: dict[str, Any] = {"__name__": "program"}
    exec(compile(text, "program", "exec"), names)
    return names["Net"]() if "Net" in names else names["forward"]


def _run(program: Callable[..., Any], x: torch.Tensor) -> tuple[Any, torch.Tensor | None]:
    x = x.clone().requires_grad_()
    out = program(x)
    out.sum().backward()
    return out, x.grad


def test_good_input_gives_the_same_and_bad_input_raises_as_before() -> None:
    for path in PROGRAMS:
        bad, fixed = _program(path.read_bytes()), _program(mended(check_instead_of_raise, path))
        for x in (torch.ones(4, 8), -torch.ones(4, 8), torch.randn(4, 8)):
            torch.testing.assert_close(_run(fixed, x), _run(bad, x))
        too_large = torch.full((4, 8), 1e9)
        with pytest.raises((ValueError, RuntimeError, AssertionError)):
            bad(too_large)
        with pytest.raises(RuntimeError):
            fixed(too_large)


@pytest.mark.nightly
@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_the_check_is_in_the_one_graph_and_raises_there(backend: str, tmp_path: Path) -> None:
    for path in PROGRAMS:
        torch.compiler.reset()
        fixed = _program(mended(check_instead_of_raise, path))
        compiled = torch.compile(fixed, backend=backend, fullgraph=True)
        x = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))
        # Inductor adds up in another order.
        torch.testing.assert_close(_run(compiled, x), _run(fixed, x), rtol=1e-4, atol=1e-4)
        with pytest.raises(RuntimeError):
            compiled(torch.full((4, 8), 1e9))
