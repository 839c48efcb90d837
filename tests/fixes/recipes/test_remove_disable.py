"""remove-disable: what it writes beyond its cases, and what it declines."""

from __future__ import annotations

import ast

import pytest
from syrupy.assertion import SnapshotAssertion

from graphdoctor.fixes.recipes import remove_disable
from graphdoctor.fixes.source.tree import DeclinedError
from tests.each import for_each
from tests.fixes.recipes.places import outcomes, place_in


def written(text: str, call: str = "g(x)", *, has_columns: bool = True) -> str:
    """The file where torch points to the last such call."""
    lines = text.split("\n")
    number = max(number for number, line in enumerate(lines, 1) if call in line)
    start = lines[number - 1].index(call) + 1
    columns = (start, start + len(call)) if has_columns else None
    code = remove_disable.edit(place_in(text, "GD106", number, columns)).content.decode()
    ast.parse(code)
    return code


CALLER = "def f(x):\n    y = x + g(x)\n"


@for_each("has_columns", [True, False])
@for_each(
    "decorator",
    [
        "@torch.compiler.disable",
        "@torch.compiler.disable()",
        "@torch.compiler.disable(reason='slow', recursive=False)",
        "@torch._dynamo.disable",
        "@disable",
    ],
)
def test_a_decorator_goes_whatever_it_says(decorator: str, has_columns: bool) -> None:
    text = f"# above\n{decorator}  # why\n# below\ndef g(x): return x\n{CALLER}"
    assert written(text, has_columns=has_columns) == f"# above\n# below\ndef g(x): return x\n{CALLER}"


def test_other_decorators_and_their_comments_stay() -> None:
    above = "@a  # a\n# of it\n@torch.compiler.disable\n# of b\n@b\n@torch._dynamo.disable()\n"
    text = f"{above}def g(x): return x\n{CALLER}"
    assert written(text) == f"@a  # a\n# of it\n# of b\n@b\ndef g(x): return x\n{CALLER}"


def test_the_function_of_the_innermost_scope_is_meant() -> None:
    outer = "@disable\ndef g(x): return x\n"
    inner = "def f(x):\n    @disable\n    def g(x): return -x\n    return g(x)\n"
    assert written(outer + inner) == outer + "def f(x):\n    def g(x): return -x\n    return g(x)\n"


def test_a_lambda_that_is_disabled_keeps_working() -> None:
    assert written("def f(x):\n    return disable(lambda a: a)(x)\n", "disable(lambda a: a)(x)") == (
        "def f(x):\n    return (lambda a: a)(x)\n"
    )
    assert written(f"g = disable(fn=lambda a: a)\n{CALLER}") == f"g = (lambda a: a)\n{CALLER}"


def test_a_call_in_a_lambda_and_several_in_a_line() -> None:
    text = "@disable\ndef g(x): return x\ndef f(x):\n    h = lambda x: g(x); return h(x) + other(x)\n"
    for has_columns in (True, False):
        assert written(text, has_columns=has_columns) == text.removeprefix("@disable\n")


def test_declined(snapshot: SnapshotAssertion) -> None:
    cases = [
        (CALLER, "g(x)"),
        (f"from m import g\n{CALLER}", "g(x)"),
        (f"def g(x): return x\n{CALLER}", "g(x)"),
        (f"g = h\n{CALLER}", "g(x)"),
        (f"g = other(h)\n{CALLER}", "g(x)"),
        (f"g = disable(reason='why')\n{CALLER}", "g(x)"),
        (f"@disable\ndef g(x): return x\ng = cached(g)\n{CALLER}", "g(x)"),
        (f"if a:\n    @disable\n    def g(x): return x\nelse:\n    g = 1\n{CALLER}", "g(x)"),
        ("@disable\ndef g(x): return x\ndef f(x, g):\n    return g(x)\n", "g(x)"),
        ("@disable\ndef g(x): return x\ndef f(x):\n    for g in x: g(x)\n", "g(x)"),
        ("def f(x):\n    return m.g(x)\n", "m.g(x)"),
        ("def f(x):\n    return self.g(x)\n", "self.g(x)"),
        ("class A(B):\n    def f(self, x): return self.g(x)\n", "self.g(x)"),
        ("def f(x):\n    return h[0](x)\n", "h[0](x)"),
        ("def f(x):\n    return partial(g)(x)\n", "partial(g)(x)"),
        ("def f(x):\n    return g[x]\n", "g[x]"),
    ]
    assert outcomes(written, cases) == snapshot


def test_two_disabled_calls_in_a_line_need_columns() -> None:
    text = "@disable\ndef g(x): return x\n@disable\ndef h(x): return x\ndef f(x):\n    return g(x) + h(x)\n"
    assert written(text).count("@disable") == 1
    with pytest.raises(DeclinedError, match="which call is meant"):
        written(text, has_columns=False)
