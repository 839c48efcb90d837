"""guard-report: what it writes beyond its cases, and what it declines."""

from __future__ import annotations

from textwrap import dedent, indent

from graphdoctor.fixes.recipes import guard_report
from tests.each import for_each
from tests.fixes.recipes.places import place_in, reason_of

HEAD = "import torch\nimport warnings\ndef f(x, y):\n    y = x\n"


def body(text: str, line: int = 5) -> str:
    """What becomes of the function's body."""
    whole = HEAD + indent(dedent(text).strip("\n"), "    ") + "\n"
    edited = guard_report.edit(place_in(whole, "GD102", line)).content.decode()
    return dedent(edited.removeprefix(HEAD)).strip("\n")


@for_each(
    "test, guarded",
    [
        ("x.any()", "x.any()"),
        ("not x.any()", "not x.any()"),
        ("x > 0 and y.any()", "x > 0 and y.any()"),
        ("x > 0 or y.any()", "(x > 0 or y.any())"),
        ("(x > 0 or y.any())", "(x > 0 or y.any())"),
        ("x if y else y", "(x if y else y)"),
    ],
)
def test_the_condition_is_not_looked_at_while_compiling(test: str, guarded: str) -> None:
    text = f"if {test}:  # why\n    warnings.warn(f'{{x}}')\n    print(y)  # too"
    assert body(text) == text.replace(f"if {test}:", f"if not torch.compiler.is_compiling() and {guarded}:")


@for_each(
    "text, reason",
    [
        ("if x > 0:\n    y = x", "more than a report depends on the condition"),
        ("if x > 0:\n    print(x)\nelse:\n    print(y)", "more than a report depends on the condition"),
        ("if x > 0:\n    print(y := x)", "more than a report depends on the condition"),
        ("if x > 0:\n    self.seen.append(x)", "more than a report depends on the condition"),
        ("if x > 0: print(x)", "no block of lines depends on the condition"),
        ("if (z := x) > 0:\n    print(z)", "the condition assigns a name"),
        ("assert x > 0", "no block of lines depends on the condition"),
    ],
)
def test_declined(text: str, reason: str) -> None:
    assert reason_of(lambda: body(text)) == reason


def test_an_elif_is_left() -> None:
    assert (
        reason_of(lambda: body("if y is None:\n    y = x\nelif x > 0:\n    print(x)", line=7))
        == "the condition belongs to an `elif`"
    )
