"""What the recipes of ``choices`` leave alone, and how they write what they edit."""

from __future__ import annotations

import ast
import textwrap
from textwrap import dedent, indent

import pytest
from syrupy.assertion import SnapshotAssertion

from graphdoctor.fixes.recipe import Edit
from graphdoctor.fixes.recipes.choices import branch_where, choose_at_return, tuple_where
from graphdoctor.fixes.source.tree import DeclinedError
from tests.each import for_each
from tests.fixes.recipes.places import outcomes, place_in

# branch-where


def edit(text: str, part: str | None = None) -> Edit:
    """The edit where torch points to a part of the text, else to the first ``if`` of it alone."""
    text = f"import torch\n{dedent(text)}"
    lines = text.split("\n")
    if part is None:
        line = next(number for number, line in enumerate(lines) if "if " in line or "if(" in line or "while" in line)
        return branch_where.edit(place_in(text, "GD102", line + 1))
    first = part.split("\n")[0]
    line = next(number for number, line in enumerate(lines) if first in line)
    column = lines[line].index(first)
    end = None if "\n" in part else column + len(part) + 1
    return branch_where.edit(place_in(text, "GD102", line + 1, (column + 1, end)))


def written(text: str, part: str | None = None) -> str:
    code = edit(text, part).content.decode().removeprefix("import torch\n")
    ast.parse(code)
    return code


def body_branch_where(text: str, part: str | None = None) -> str:
    """What becomes of a function's body."""
    whole = "def f(x, y):\n" + indent(dedent(text).strip("\n"), "    ") + "\n"
    return dedent(written(whole, part).removeprefix("def f(x, y):\n")).strip("\n")


def test_conditions_become_tensors(snapshot: SnapshotAssertion) -> None:
    cases = [
        "x.sum() > 0",
        "(x.sum() > 0)",
        "x > 0 and y > 0",
        "x > 0 or y > 0 and x < 3",
        "(x > 0 or y > 0) and x < 3",
        "(x > 0)and(y > 0)",
        "not x > 0",
        "not (x > 0)",
        "not (x > 0 and y.any())",
        "not not x",
        "not x.all()",
        "not x",
        "x and y",
        "x or (y > 3)",
        "x and not y",
        "0 < x < 1",
        "not 0 < x < 1",
        "x",
        "x - y",
        "x.sum()",
        "~x.any()",
        "bool(x > 0)",
        "(x > 0) | (y > 0)",
        "x == y",
    ]
    assert outcomes(lambda test: body_branch_where(f"if {test}: x = y\nreturn x"), cases) == snapshot


def test_a_name_for_a_comparison_is_boolean_and_any_other_is_asked_whether_it_is_zero() -> None:
    assert "where(c, " in body_branch_where("c = x > 0\nif c: x = y\nreturn x")
    assert "where(c != 0, " in body_branch_where("c = x.clone()\nif c: x = y\nreturn x")
    assert "where(c != 0, " in body_branch_where("c = x > 0\nc = c * 2\nif c: x = y\nreturn x")
    assert "c != 0" in body_branch_where("for c in x: pass\nc = x > 0\nif c: x = y\nreturn x")


def test_a_condition_that_is_assigned_itself_is_kept_first(snapshot: SnapshotAssertion) -> None:
    assert body_branch_where("c = x > 0\nif c:\n    c = y\n    x = y * 2\nreturn c + x") == snapshot


def test_the_name_for_the_condition_is_free(snapshot: SnapshotAssertion) -> None:
    text = "condition = y\nif x > 0:\n    x = condition\n    y = x\nelif x < y:\n    x = y\n    y = y + 1\nreturn x + y"
    assert body_branch_where(text) == snapshot


def test_augmented_assignments_are_written_out(snapshot: SnapshotAssertion) -> None:
    cases = ["x += y", "x *= y + 1", "x @= (y)", "x **= -y", "x //= y.sin()"]
    assert outcomes(lambda line: body_branch_where(f"if x > 0:\n    {line}\nreturn x"), cases) == snapshot


def test_an_elif_alone_becomes_the_else(snapshot: SnapshotAssertion) -> None:
    text = """
        if x.dim() == 2:
            x = x.flatten()
        # Otherwise.
        elif x.sum() > 0:  # when positive
            x = x * 2
        else:
            x = x * 3
        return x
    """
    assert body_branch_where(text, "x.sum() > 0") == snapshot


def test_comments_and_blank_lines_stay(snapshot: SnapshotAssertion) -> None:
    text = """
        x = x.sin()

        # Why.
        if (
            x.sum() > 0  # one
            and not y.any()  # two
        ):  # head
            # first
            x = x * (
                2  # a number
            )  # beside
            # tail
        # other
        else:
            # last
            x = -x  # second beside

        # The end.
        return x
    """
    assert body_branch_where(text, "x.sum() > 0  # one\n") == snapshot


def test_a_condition_in_several_lines_may_be_pointed_to_in_the_middle() -> None:
    text = "if (\n    x.sum() > 0\n    and not y.mean() > 1\n):\n    x = y\nreturn x"
    expected = body_branch_where(text)
    assert expected == "x = torch.where((x.sum() > 0)\n    & ~(y.mean() > 1), y, x)\nreturn x"
    assert body_branch_where(text, "y.mean() > 1") == expected
    assert body_branch_where(text, "x.sum() > 0\n") == expected


def test_one_line_with_several_statements(snapshot: SnapshotAssertion) -> None:
    assert body_branch_where("a = x.sin(); b = x if a.sum() > 0 else y; c = b + 1", "a.sum() > 0") == (
        "a = x.sin(); b = torch.where(a.sum() > 0, x, y); c = b + 1"
    )
    assert body_branch_where("if x.sum() > 0: x = y; y = x + 1\nreturn x + y") == snapshot


def test_of_two_expressions_in_a_line_the_one_pointed_to_is_edited() -> None:
    text = "return (x if x.sum() > 0 else y) + (y if y.sum() > 0 else x)"
    assert body_branch_where(text, "y.sum() > 0") == "return (x if x.sum() > 0 else y) + torch.where(y.sum() > 0, y, x)"
    with pytest.raises(DeclinedError, match="doesn't say which condition"):
        body_branch_where(text)


def test_expressions(snapshot: SnapshotAssertion) -> None:
    cases = [
        "return(x)if x > 0 else(y)",
        "z = (x if x > 0 else y)",
        "z = x *(x if x > 0 else y)",
        "z = (x if x > 0 else y)[0]",
        "f(x, y=(x + 1) if x > 0 else (y))",
        "z = [a if a.sum() > 0 else -a for a in x]",
        "return lambda: x if x > 0 else y",
        "z = x if x > 0 else y if y > 0 else -y",
    ]
    assert (
        outcomes(lambda before: body_branch_where(before, "x > 0" if "x > 0" in before else "a.sum() > 0"), cases)
        == snapshot
    )


def test_decorated_and_nested_functions() -> None:
    text = """\
        def outer(x):
            @torch.no_grad()
            def inner(a):
                if a.sum() > 0:
                    return a
                return -a
            return inner(x)
    """
    assert "\n        return torch.where(a.sum() > 0, a, -a)\n    return inner(x)\n" in written(text)


def test_torch_is_imported_where_it_was_not() -> None:
    text = "import torch.nn as nn\n\ndef f(x):\n    return x if x.sum() > 0 else -x\n"
    content = branch_where.edit(place_in(text, "GD102", 4)).content.decode()
    assert content.startswith("import torch.nn as nn\nimport torch\n")


def test_a_name_that_only_one_way_uses_is_computed_before(snapshot: SnapshotAssertion) -> None:
    assert (
        body_branch_where("if x.sum() > 0:\n    a = x * 2\n    a += 1\n    return a\nb = y * 3\nreturn b") == snapshot
    )


def test_a_test_behind_an_early_return_belongs_to_what_returns() -> None:
    text = "if x.sum() > 0:\n    return x\nelif y.sum() > 0:\n    return y\nreturn x + y"
    assert body_branch_where(text) == "return torch.where(x.sum() > 0, x, torch.where(y.sum() > 0, y, x + y))"


def test_branch_where_declined(snapshot: SnapshotAssertion) -> None:
    def result(text: str) -> object:
        word = "async def" if "await" in text else "def"
        whole = f"{word} f(x, y):\n" + indent(text, "    ") + "\n"
        return edit(whole)

    cases = [
        "while x.sum() > 0:\n    x = x - 1",
        "if x > 0:\n    x[0] = 1",
        "if x > 0:\n    x.a = 1",
        "if x > 0:\n    x[0] += 1",
        "if x > 0:\n    print(x)",
        "if x > 0:\n    raise ValueError",
        "if x > 0:\n    raise ValueError\nelse:\n    x = y",
        "if x > 0:\n    del x",
        "if x > 0:\n    x: int = y",
        "if x > 0:\n    for y in x: pass",
        "if x > 0:\n    def g(): pass",
        "if x > 0:\n    yield x",
        "if x > 0:\n    x = yield y",
        "if x > 0:\n    x = (z := y)",
        "if x > 0:\n    x, y = y, x",
        "if x > 0:\n    x = y = x + 1",
        "if x > 0:\n    x = y.add_(1)",
        "if x > 0:\n    x = torch.relu(y, inplace=True)",
        "if x > 0:\n    x = torch.add(x, y, out=y)",
        "if x > 0:\n    x = y.pop()",
        "if x > 0:\n    x = 'text'",
        "if x > 0:\n    x = f'{y}'",
        "if x > 0:\n    x = None",
        "if x > 0:\n    x = True",
        "if x > 0:\n    x = ...",
        "if x > 0:\n    x = [y]",
        "if x > 0:\n    x = y, x",
        "if x > 0:\n    x = {1: y}",
        "if x > 0:\n    x = [a for a in y]",
        "if x > 0:\n    x = lambda: y",
        "if x > 0:\n    x = x and y",
        "if x > 0:\n    x = y\nelse:\n    y = x",
        "if x > 0:\n    x = y\n    y = 1 * x\nelse:\n    y = x\n    x = 2 * y",
        "if x > 0:\n    z = y\nz = 1",
        "if x > 0:\n    z = y",
        "if x > 0:\n    pass",
        "if x > 0:\n    return x",
        "if x > 0:\n    return x\nprint(x)\nreturn y",
        "if x > 0:\n    return x\nfor y in x: pass\nreturn y",
        "if x > 0:\n    return x\nelse:\n    x = y\nreturn x",
        "if x > 0:\n    return\nreturn x",
        "if x > 0:\n    return x\n    x = y\nreturn y",
        "if x > 0:\n    return x\nx = x * 2\nreturn x",
        "if x is None:\n    x = y",
        "if x in y:\n    x = y",
        "if x > 0 and y is not None:\n    x = y",
        "if x is not None and x > 0:\n    return y\nelse:\n    return x",
        "if any(a > 0 for a in x):\n    x = y",
        "if isinstance(x, int) and x > 0:\n    x = y",
        "if len(x) > 3 and x > 0:\n    x = y",
        "if x.training and y > 0:\n    x = y",
        "if True and y > 0:\n    x = y",
        "if (z := x) > 0:\n    x = y",
        "if x.add_(1) > 0:\n    x = y",
        "if (x if y else x) > 0:\n    x = y",
        "global g\ng = 1\nif x > 0:\n    g = y",
        "if x > 0:\n    x = y\nelse:\n    # nothing\n    pass",
        "return (x  # one\n    if x > 0  # two\n    else y)",
        "return x if x > 0 else None",
        "return x if x > 0 else 'text'",
        "return x if x > 0 else (await y)",
    ]
    assert outcomes(result, cases) == snapshot


def test_other_readings_of_a_tensor_are_declined(snapshot: SnapshotAssertion) -> None:
    cases = [
        ("while x.sum() > 0:\n    x = x - 1", "x.sum() > 0"),
        ("z = [a for a in x if a > 0]", "a > 0"),
        ("z = x.any() and y", "x.any() and y"),
        ("z = g(x.any())", "x.any()"),
        ("assert x.any()", "x.any()"),
    ]
    assert outcomes(lambda text, part: edit("def f(x, y):\n" + indent(text, "    ") + "\n", part), cases) == snapshot


def test_outside_a_function_it_is_declined() -> None:
    with pytest.raises(DeclinedError, match="isn't in a function"):
        edit("x = torch.ones(3)\nif x.sum() > 0: x = x + 1\n")


@for_each(
    "text",
    [
        "if x.sum() > 0: x = x * 2",
        "if (x > 0).any() and not x.mean() > 3: x = -x.sin().clamp(0, 1) + 1.5",
        "if x.sum() > 0: x = torch.relu(x)",
        "z = x.sin() if x.mean() < 0 else x.cos()",
        "if x.sum() > 0:\n    z = x * y\nelse:\n    z = y - x",
        "total = x.sum()\nif total > 0: x = x * 2",
    ],
)
def test_safe(text: str) -> None:
    assert edit("def f(x, y):\n" + indent(text, "    ") + "\n    return x").is_safe


@for_each(
    "text",
    [
        "if x.sum() > 0: x = x.exp()",  # its gradient may be infinite
        "if x.sum() > 0: x = x / 2",
        "if x.sum() > 0: x = x.sqrt()",
        "if x.sum() > 0: x = g(x)",  # may do anything
        "if x.sum() > 0: x = x[0]",
        "if x.sum() > 0: x += 1",  # changed in place before
        "if x.sum() > 0: x = x + y",  # may have another shape
        "if x.sum() > 0: x = 0",
        "z = 1 if x.sum() > 0 else 2",
        "if x > 0: x = x * 2",  # may choose by element
        "if y: x = x * 2",
        "z = x.sum()\nz = z + z\nif z > 0: x = x * 2",  # by text alone nobody knows what `z` is
        "if x.isfinite().all(): x = x.sin()",  # NaN and infinity are expected
        "if x.sum() < float('inf'): x = x.sin()",
        "if x.sum() > 0 and g(x).any(): x = x * 2",  # was not always asked
        "if 0 < g(x).sum() < 1: x = x * 2",
        "if x.sum() > 0: x = math.sin(x)",
        "if x.sum() > 0: x = x * 2\nx.add_(1)",  # it was the caller's tensor before
        "if x.sum() > 0: x = x * 2\nx[0] = 1",
    ],
)
def test_unsafe(text: str) -> None:
    assert not edit("import math\ndef f(x, y):\n" + indent(text, "    ") + "\n    return x").is_safe


# tuple-where


def edited(body: str) -> str:
    lines = textwrap.indent(body, "    ")
    text = f"import torch\n\n\ndef f(a, b, c):\n{lines}\n"
    line = next(number for number, line in enumerate(text.splitlines(), 1) if line.lstrip().startswith("if"))
    content = tuple_where.edit(place_in(text, "GD102", line)).content.decode()
    return textwrap.dedent(content.partition("c):\n")[2]).strip()


def test_a_named_condition_is_used_as_it_is() -> None:
    after = edited("bad = a > b\nif bad: a, b = b, a * 2")
    assert after == "bad = a > b\na, b = torch.where(bad, b, a), torch.where(bad, a * 2, b)"


def test_it_declines(snapshot: SnapshotAssertion) -> None:
    cases = [
        "if a > b:\n    a, b = b, a\nelse:\n    a = c",
        "if a > b:\n    a, b = c",
        "if a > b:\n    a, *b = b, a",
        "if a > b:\n    a, c.x = b, a",
        "if a > b:\n    a, b = b, a\n    c = a",
        "if a > b:\n    a, d = b, a\nreturn d",
        "if a > b:\n    a, b = None, a",
        "if a is b:\n    a, b = b, a",
    ]
    assert outcomes(edited, cases) == snapshot


# choose-at-return


HEAD = "import torch\nclass Net:\n    def forward(self, x, y):\n"


def body_choose_at_return(text: str) -> str:
    """What becomes of the method's body, whose first line torch points to."""
    whole = HEAD + indent(dedent(text).strip("\n"), " " * 8) + "\n"
    edited = choose_at_return.edit(place_in(whole, "GD102", 4)).content.decode()
    return dedent(edited.removeprefix(HEAD)).strip("\n")


def test_every_later_return_chooses() -> None:
    before = """
        if x.any(): return (x + 1)
        for z in y:
            if z is None:
                return y[0]
        f = lambda: 1
        def g():
            return 2
        print("late")
        return x if y else z
    """
    after = """
        is_early = x.any()
        early_value = x + 1
        for z in y:
            if z is None:
                return torch.where(is_early, early_value, y[0])
        f = lambda: 1
        def g():
            return 2
        print("late")
        return torch.where(is_early, early_value, x if y else z)
    """
    assert body_choose_at_return(before) == dedent(after).strip("\n")


def test_choose_at_return_declined(snapshot: SnapshotAssertion) -> None:
    cases = [
        "if x.any():\n    return x\nelse:\n    y = x\nreturn y",
        "if x.any():\n    y = x\n    return y\nreturn x",
        "if x.any():\n    return x, y\nreturn y, x",
        "if x.any():\n    return None\nreturn x",
        "if x.any():\n    return x\ny = x",
        "if x.any():\n    return x\nself.seen = y\nreturn y",
        "if x.any():\n    return x\nself.seen.append(y)\nreturn y",
        "if x.any():\n    return x\nz = self.seen.pop()\nreturn z",
        "if x.any():\n    return x\ny = y.add_(1)\nreturn y",
        "if x.any():\n    return x\nassert y\nreturn y",
        "if x.any():\n    return x\nif y:\n    return\nreturn y",
        "assert x.any()\nreturn y",
    ]
    assert outcomes(body_choose_at_return, cases) == snapshot
