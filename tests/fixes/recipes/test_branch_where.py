"""branch-where: what it writes beyond its cases, what it declines, when it is safe."""

from __future__ import annotations

import ast
from pathlib import Path
from textwrap import dedent, indent

import pytest

from graphdoctor.fixes.recipe import Edit, Place
from graphdoctor.fixes.recipes import branch_where
from graphdoctor.fixes.source.tree import DeclinedError, SourceFile
from tests.each import for_each
from tests.fixes.recipes.places import finding, place_in


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


def body(text: str, part: str | None = None) -> str:
    """What becomes of a function's body."""
    whole = "def f(x, y):\n" + indent(dedent(text).strip("\n"), "    ") + "\n"
    return dedent(written(whole, part).removeprefix("def f(x, y):\n")).strip("\n")


@for_each(
    "test, condition",
    [
        ("x.sum() > 0", "x.sum() > 0"),
        ("(x.sum() > 0)", "x.sum() > 0"),
        ("x > 0 and y > 0", "(x > 0) & (y > 0)"),
        ("x > 0 or y > 0 and x < 3", "(x > 0) | (y > 0) & (x < 3)"),
        ("(x > 0 or y > 0) and x < 3", "((x > 0) | (y > 0)) & (x < 3)"),
        ("(x > 0)and(y > 0)", "(x > 0) & (y > 0)"),
        ("not x > 0", "~(x > 0)"),
        ("not (x > 0)", "~(x > 0)"),
        ("not (x > 0 and y.any())", "~((x > 0) & y.any())"),
        ("not not x", "x != 0"),
        ("not x.all()", "~x.all()"),
        ("not x", "torch.logical_not(x)"),
        ("x and y", "torch.logical_and(x, y)"),
        ("x or (y > 3)", "torch.logical_or(x, y > 3)"),
        ("x and not y", "torch.logical_and(x, torch.logical_not(y))"),
        ("0 < x < 1", "(0 < x) & (x < 1)"),
        ("not 0 < x < 1", "~((0 < x) & (x < 1))"),
        ("x", "x != 0"),
        ("x - y", "x - y != 0"),
        ("x.sum()", "x.sum() != 0"),
        ("~x.any()", "~x.any()"),
        ("bool(x > 0)", "x > 0"),
        ("(x > 0) | (y > 0)", "(x > 0) | (y > 0)"),
        ("x == y", "x == y"),
    ],
)
def test_conditions_become_tensors(test: str, condition: str) -> None:
    assert body(f"if {test}: x = y\nreturn x") == f"x = torch.where({condition}, y, x)\nreturn x"


def test_a_name_for_a_comparison_is_boolean_and_any_other_is_asked_whether_it_is_zero() -> None:
    assert "where(c, " in body("c = x > 0\nif c: x = y\nreturn x")
    assert "where(c != 0, " in body("c = x.clone()\nif c: x = y\nreturn x")
    assert "where(c != 0, " in body("c = x > 0\nc = c * 2\nif c: x = y\nreturn x")
    assert "c != 0" in body("for c in x: pass\nc = x > 0\nif c: x = y\nreturn x")


def test_a_condition_that_is_assigned_itself_is_kept_first() -> None:
    assert body("c = x > 0\nif c:\n    c = y\n    x = y * 2\nreturn c + x") == dedent(
        """\
        c = x > 0
        condition = c != 0
        c = torch.where(condition, y, c)
        x = torch.where(condition, y * 2, x)
        return c + x"""
    )


def test_the_name_for_the_condition_is_free() -> None:
    text = "condition = y\nif x > 0:\n    x = condition\n    y = x\nelif x < y:\n    x = y\n    y = y + 1\nreturn x + y"
    assert body(text) == dedent(
        """\
        condition = y
        condition_2 = x > 0
        condition_3 = x < y
        x = torch.where(condition_2, condition, torch.where(condition_3, y, x))
        y = torch.where(condition_2, x, torch.where(condition_3, y + 1, y))
        return x + y"""
    )


@for_each(
    "line, value",
    [
        ("x += y", "x + y"),
        ("x *= y + 1", "x * (y + 1)"),
        ("x @= (y)", "x @ (y)"),
        ("x **= -y", "x ** (-y)"),
        ("x //= y.sin()", "x // y.sin()"),
    ],
)
def test_augmented_assignments_are_written_out(line: str, value: str) -> None:
    assert body(f"if x > 0:\n    {line}\nreturn x") == f"x = torch.where(x > 0, {value}, x)\nreturn x"


def test_an_elif_alone_becomes_the_else() -> None:
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
    assert body(text, "x.sum() > 0") == dedent(
        """\
        if x.dim() == 2:
            x = x.flatten()
        # Otherwise.
        else:
            # when positive
            x = torch.where(x.sum() > 0, x * 2, x * 3)
        return x"""
    )


def test_comments_and_blank_lines_stay() -> None:
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
    assert body(text, "x.sum() > 0  # one\n") == dedent(
        """\
        x = x.sin()

        # Why.
        # head
        # first
        # tail
        # other
        # last
        # second beside
        x = torch.where((
            (x.sum() > 0)  # one
            & ~y.any()  # two
        ), x * (
            2  # a number
        ), -x)  # beside

        # The end.
        return x"""
    )


def test_a_condition_in_several_lines_may_be_pointed_to_in_the_middle() -> None:
    text = "if (\n    x.sum() > 0\n    and not y.mean() > 1\n):\n    x = y\nreturn x"
    expected = body(text)
    assert expected == "x = torch.where((x.sum() > 0)\n    & ~(y.mean() > 1), y, x)\nreturn x"
    assert body(text, "y.mean() > 1") == expected
    assert body(text, "x.sum() > 0\n") == expected


def test_one_line_with_several_statements() -> None:
    assert body("a = x.sin(); b = x if a.sum() > 0 else y; c = b + 1", "a.sum() > 0") == (
        "a = x.sin(); b = torch.where(a.sum() > 0, x, y); c = b + 1"
    )
    assert body("if x.sum() > 0: x = y; y = x + 1\nreturn x + y") == dedent(
        """\
        condition = x.sum() > 0
        x = torch.where(condition, y, x)
        y = torch.where(condition, x + 1, y)
        return x + y"""
    )


def test_of_two_expressions_in_a_line_the_one_pointed_to_is_edited() -> None:
    text = "return (x if x.sum() > 0 else y) + (y if y.sum() > 0 else x)"
    assert body(text, "y.sum() > 0") == "return (x if x.sum() > 0 else y) + torch.where(y.sum() > 0, y, x)"
    with pytest.raises(DeclinedError, match="doesn't say which condition"):
        body(text)


@for_each(
    "before, after",
    [
        ("return(x)if x > 0 else(y)", "return(torch.where(x > 0, x, y))"),
        ("z = (x if x > 0 else y)", "z = torch.where(x > 0, x, y)"),
        ("z = x *(x if x > 0 else y)", "z = x *torch.where(x > 0, x, y)"),
        ("z = (x if x > 0 else y)[0]", "z = torch.where(x > 0, x, y)[0]"),
        ("f(x, y=(x + 1) if x > 0 else (y))", "f(x, y=torch.where(x > 0, x + 1, y))"),
        ("z = [a if a.sum() > 0 else -a for a in x]", "z = [torch.where(a.sum() > 0, a, -a) for a in x]"),
        ("return lambda: x if x > 0 else y", "return lambda: torch.where(x > 0, x, y)"),
        ("z = x if x > 0 else y if y > 0 else -y", "z = torch.where(x > 0, x, y if y > 0 else -y)"),
    ],
)
def test_expressions(before: str, after: str) -> None:
    assert body(before, "x > 0" if "x > 0" in before else "a.sum() > 0") == after


def test_tabs_and_carriage_returns_stay() -> None:
    text = "import torch\r\ndef f(x):\r\n\tif x.sum() > 0:\r\n\t\t# why\r\n\t\tx = -x\r\n\treturn x\r\n"
    place = Place(SourceFile.parse(Path("model.py"), text.encode()), finding("GD102", 3))
    assert branch_where.edit(place).content.decode() == (
        "import torch\r\ndef f(x):\r\n\t# why\r\n\tx = torch.where(x.sum() > 0, -x, x)\r\n\treturn x\r\n"
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


def test_a_name_that_only_one_way_uses_is_computed_before() -> None:
    assert body("if x.sum() > 0:\n    a = x * 2\n    a += 1\n    return a\nb = y * 3\nreturn b") == dedent(
        """\
        condition = x.sum() > 0
        a = x * 2
        a = a + 1
        b = y * 3
        return torch.where(condition, a, b)"""
    )


def test_a_test_behind_an_early_return_belongs_to_what_returns() -> None:
    text = "if x.sum() > 0:\n    return x\nelif y.sum() > 0:\n    return y\nreturn x + y"
    assert body(text) == "return torch.where(x.sum() > 0, x, torch.where(y.sum() > 0, y, x + y))"


@for_each(
    "text, reason",
    [
        ("while x.sum() > 0:\n    x = x - 1", "which condition"),
        ("if x > 0:\n    x[0] = 1", "stores into an object"),
        ("if x > 0:\n    x.a = 1", "stores into an object"),
        ("if x > 0:\n    x[0] += 1", "more than assignments"),
        ("if x > 0:\n    print(x)", "side effect"),
        ("if x > 0:\n    raise ValueError", "raises"),
        ("if x > 0:\n    raise ValueError\nelse:\n    x = y", "raises"),
        ("if x > 0:\n    del x", "more than assignments"),
        ("if x > 0:\n    x: int = y", "more than assignments"),
        ("if x > 0:\n    for y in x: pass", "more than assignments"),
        ("if x > 0:\n    def g(): pass", "more than assignments"),
        ("if x > 0:\n    yield x", "side effect"),
        ("if x > 0:\n    x = yield y", "waits"),
        ("if x > 0:\n    x = (z := y)", "a value assigns a name"),
        ("if x > 0:\n    x, y = y, x", "several names"),
        ("if x > 0:\n    x = y = x + 1", "several names"),
        ("if x > 0:\n    x = y.add_(1)", "in place"),
        ("if x > 0:\n    x = torch.relu(y, inplace=True)", "in place"),
        ("if x > 0:\n    x = torch.add(x, y, out=y)", "in place"),
        ("if x > 0:\n    x = y.pop()", "side effect"),
        ("if x > 0:\n    x = 'text'", "yields a string"),
        ("if x > 0:\n    x = f'{y}'", "yields a string"),
        ("if x > 0:\n    x = None", "`None`"),
        ("if x > 0:\n    x = True", "`True`"),
        ("if x > 0:\n    x = ...", "not a tensor"),
        ("if x > 0:\n    x = [y]", "container"),
        ("if x > 0:\n    x = y, x", "container"),
        ("if x > 0:\n    x = {1: y}", "container"),
        ("if x > 0:\n    x = [a for a in y]", "container"),
        ("if x > 0:\n    x = lambda: y", "container"),
        ("if x > 0:\n    x = x and y", "Python bool"),
        ("if x > 0:\n    x = y\nelse:\n    y = x", "different names"),
        ("if x > 0:\n    x = y\n    y = 1 * x\nelse:\n    y = x\n    x = 2 * y", "different order"),
        ("if x > 0:\n    z = y\nz = 1", "no value if"),
        ("if x > 0:\n    z = y", "no branch assigns"),
        ("if x > 0:\n    pass", "no branch assigns"),
        ("if x > 0:\n    return x", "one branch returns"),
        ("if x > 0:\n    return x\nprint(x)\nreturn y", "side effect"),
        ("if x > 0:\n    return x\nfor y in x: pass\nreturn y", "more than assignments"),
        ("if x > 0:\n    return x\nelse:\n    x = y\nreturn x", "one branch returns"),
        ("if x > 0:\n    return\nreturn x", "returns nothing"),
        ("if x > 0:\n    return x\n    x = y\nreturn y", "after a `return`"),
        ("if x > 0:\n    return x\nx = x * 2\nreturn x", "different names"),
        ("if x is None:\n    x = y", "Python objects"),
        ("if x in y:\n    x = y", "Python objects"),
        ("if x > 0 and y is not None:\n    x = y", "Python objects"),
        ("if x is not None and x > 0:\n    return y\nelse:\n    return x", "Python objects"),
        ("if any(a > 0 for a in x):\n    x = y", "tensor"),
        ("if isinstance(x, int) and x > 0:\n    x = y", "tensor"),
        ("if len(x) > 3 and x > 0:\n    x = y", "tensor"),
        ("if x.training and y > 0:\n    x = y", "tensor"),
        ("if True and y > 0:\n    x = y", "tensor"),
        ("if (z := x) > 0:\n    x = y", "assigns a name"),
        ("if x.add_(1) > 0:\n    x = y", "in place"),
        ("if (x if y else x) > 0:\n    x = y", "nested choice"),
        ("global g\ng = 1\nif x > 0:\n    g = y", "isn't a local name"),
        ("if x > 0:\n    x = y\nelse:\n    # nothing\n    pass", "comment"),
        ("return (x  # one\n    if x > 0  # two\n    else y)", "comment"),
        ("return x if x > 0 else None", "`None`"),
        ("return x if x > 0 else 'text'", "yields a string"),
        ("return x if x > 0 else (await y)", "waits"),
    ],
)
def test_declined(text: str, reason: str) -> None:
    word = "async def" if "await" in text else "def"
    whole = f"{word} f(x, y):\n" + indent(text, "    ") + "\n"
    with pytest.raises(DeclinedError, match=reason):
        edit(whole)


@for_each(
    "text, part, reason",
    [
        ("while x.sum() > 0:\n    x = x - 1", "x.sum() > 0", "how long a loop runs"),
        ("z = [a for a in x if a > 0]", "a > 0", "which elements are kept"),
        ("z = x.any() and y", "x.any() and y", "doesn't point to the condition"),
        ("z = g(x.any())", "x.any()", "doesn't point to the condition"),
        ("assert x.any()", "x.any()", "an assertion"),
    ],
)
def test_other_readings_of_a_tensor_are_declined(text: str, part: str, reason: str) -> None:
    with pytest.raises(DeclinedError, match=reason):
        edit("def f(x, y):\n" + indent(text, "    ") + "\n", part)


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
