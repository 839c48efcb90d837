"""What the recipes of ``guarded_lines`` leave alone, and how they write what they edit."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest
import torch
from syrupy.assertion import SnapshotAssertion

from graphdoctor.fixes.recipe import Edit
from graphdoctor.fixes.recipes.guarded_lines import check_instead_of_raise, drop_empty_check, in_place_where
from graphdoctor.fixes.source.tree import DeclinedError
from tests.each import for_each
from tests.fixes.recipes.places import cases, mended, outcomes, place_in

# in-place-where


def program_in_place_where(body: str) -> str:
    lines = textwrap.indent(textwrap.dedent(body).strip(), "    ")
    return "import torch\n\n\ndef f(x, grads, c, self):\n" + lines + "\n"


def edit_in_place_where(text: str) -> Edit:
    line = next(number for number, line in enumerate(text.splitlines(), 1) if line.lstrip().startswith("if"))
    return in_place_where.edit(place_in(text, "GD102", line))


def test_the_change_does_nothing_if_the_condition_does_not_hold(snapshot: SnapshotAssertion) -> None:
    cases = [
        "if c > 1:\n    x.mul_(0.5)",
        "bad = c > 1\nif bad:\n    self.total -= x.sum()",
        "bad = c > 1\nif bad:\n    x.zero_()",
        "bad = c > 1\nif bad: x.fill_(2.0)",
        "bad = c > 1\nif bad:\n    for g in grads:\n        if g.grad is not None:\n            g.grad.mul_(1 / c)",
        "bad = c > 1\nif bad:\n    for g in grads:\n        g.mul_(1 / g.norm())",
        "bad = c > 1\nif bad:\n    for g in grads:\n        c.add_(1)\n        g.mul_(1 / c)",
        "# why\nif not c.any():\n    # how\n    x /= 2",
    ]
    assert (
        outcomes(lambda before: edit_in_place_where(program_in_place_where(before)).content.decode(), cases) == snapshot
    )


def test_in_place_where_it_declines(snapshot: SnapshotAssertion) -> None:
    cases = [
        "if c > 1:\n    x.mul_(2)\nelse:\n    x.mul_(3)",
        "if c > 1:\n    y = x * 2\nreturn y",
        "if c > 1:\n    y = x * 2",
        "if c > 1:\n    x.clamp_(0)",
        "if c > 1:\n    print(x)",
        "if c > 1:\n    x.mul_(*c)",
        "if c > 1:\n    x.add_(other=c)",
        "if c > 1:\n    x.add_(None)",
        "if c > 1:\n    x **= 2",
        "if c > 1:\n    if c > 2:\n        x.mul_(2)",
        "if c > 1:\n    for g in grads:\n        g.mul_(2)\n        break",
        "if c is None:\n    x.mul_(2)",
        "if c > 1:  # why\n    x.mul_(2)",
    ]
    assert outcomes(lambda text: edit_in_place_where(program_in_place_where(text)), cases) == snapshot


# drop-empty-check


def program_drop_empty_check(body: str) -> str:
    return (
        "import torch\n\n\ndef f(x, out, mask, experts, route):\n"
        + textwrap.indent(textwrap.dedent(body).strip(), "    ")
        + "\n"
    )


def edit_drop_empty_check(text: str) -> Edit:
    line = next(number for number, line in enumerate(text.splitlines(), 1) if line.lstrip().startswith(("if", "elif")))
    return drop_empty_check.edit(place_in(text, "GD102", line))


EXPERTS = """
for i, expert in enumerate(experts):
    rows, slot = torch.where(route == i)
    if TEST:
        continue
    out[rows] += expert(x[rows])
"""

OTHER = "the lines after the check do more than change what it selects"


@for_each(
    "test",
    [
        "rows.numel() == 0",
        "len(rows) == 0",
        "not len(rows)",
        "rows.shape[0] == 0",
        "rows.size(0) < 1",
        "not rows.numel()",
        "slot.nelement() <= 0",
        "not (rows.shape[0] > 0)",
    ],
)
def test_an_expert_without_tokens_writes_nothing(test: str) -> None:
    before = program_drop_empty_check(EXPERTS.replace("TEST", test))
    after = edit_drop_empty_check(before).content.decode()
    assert after == before.replace(f"        if {test}:\n            continue\n", "")


@for_each(
    "test, line",
    [
        ("mask.any()", "out[mask] = x[mask] * 2"),
        ("mask.sum() > 0", "out = out.masked_fill(mask, 0.0)"),
        ("torch.any(mask)", "out.masked_fill_(mask, 0.0)"),
        ("mask.any().item()", "out[:, mask] = 1"),
        ("bool(mask.any())", "out.index_put_((mask,), x)"),
        ("(x > 0).any()", "out[x > 0] = 1"),
        ("int(mask.sum()) >= 1", "out[mask] += 1"),
        ("mask.any()", "part = x[mask]; out[mask] = part * 2"),
    ],
)
def test_lines_that_change_only_what_a_mask_selects_stay(test: str, line: str) -> None:
    after = edit_drop_empty_check(program_drop_empty_check(f"if {test}:\n    {line}\nreturn out")).content.decode()
    assert after == program_drop_empty_check(f"{line}\nreturn out")


def test_selected_rows_belong_to_their_mask() -> None:
    text = "part = x[mask]\nif len(part) > 0:\n    out[mask] = part * 2\nreturn out"
    assert edit_drop_empty_check(program_drop_empty_check(text)).content.decode() == program_drop_empty_check(
        "part = x[mask]\nout[mask] = part * 2\nreturn out"
    )


def test_comments_stay_with_their_lines() -> None:
    text = "# Any?\nif mask.any():\n    # All.\n    out[mask] = 1  # one\nreturn out"
    assert edit_drop_empty_check(program_drop_empty_check(text)).content.decode() == program_drop_empty_check(
        "# Any?\n# All.\nout[mask] = 1  # one\nreturn out"
    )


def test_drop_empty_check_it_declines(snapshot: SnapshotAssertion) -> None:
    cases = [
        "if mask.any():\n    out = out + 1\nreturn out",
        "if mask.any():\n    out[0] = 1\nreturn out",
        "if mask.any():\n    print(out)\n    out[mask] = 1\nreturn out",
        "if mask.any():\n    y = x[mask]\n    out[mask] = y\nreturn out, y",
        "if mask.any():\n    y = x[mask]\nreturn out",
        "if mask.any():\n    self.last[mask], y = x, x\nreturn y",
        "if mask.any():\n    for i in x:\n        out[mask] = i\nreturn out",
        "if mask.any():\n    out[mask] = 1\nelse:\n    out = x\nreturn out",
        "if mask.all():\n    out[mask] = 1\nreturn out",
        "if mask.sum() > 3:\n    out[mask] = 1\nreturn out",
        "if mask.any(0)[0]:\n    out[mask] = 1\nreturn out",
        "if x.shape[1] == 0:\n    return out\nreturn x",
        "if not mask.any():\n    return out\nout[mask] = 1\nreturn out",
        "while out:\n    if not mask.any():\n        continue\n    out[mask] = 1",
        "for i in x:\n    if not mask.any():\n        continue\n    out += i",
        "for i in x:\n    if not mask.any():\n        # why\n        continue\n    out[mask] += i",
        "if mask.any():  # why\n    out[mask] = 1\nreturn out",
    ]
    assert outcomes(lambda text: edit_drop_empty_check(program_drop_empty_check(text)), cases) == snapshot


# check-instead-of-raise


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
