"""guard-report: what it writes beyond its cases, and what it declines."""

from __future__ import annotations

from textwrap import dedent, indent

from syrupy.assertion import SnapshotAssertion

from graphdoctor.fixes.recipes import guard_report
from tests.fixes.recipes.places import outcomes, place_in, reason_of

HEAD = "import torch\nimport warnings\ndef f(x, y):\n    y = x\n"


def body(text: str, line: int = 5) -> str:
    """What becomes of the function's body."""
    whole = HEAD + indent(dedent(text).strip("\n"), "    ") + "\n"
    edited = guard_report.edit(place_in(whole, "GD102", line)).content.decode()
    return dedent(edited.removeprefix(HEAD)).strip("\n")


def test_the_condition_is_not_looked_at_while_compiling(snapshot: SnapshotAssertion) -> None:
    def result(test: str) -> object:
        text = f"if {test}:  # why\n    warnings.warn(f'{{x}}')\n    print(y)  # too"
        return body(text)

    cases = ["x.any()", "not x.any()", "x > 0 and y.any()", "x > 0 or y.any()", "(x > 0 or y.any())", "x if y else y"]
    assert outcomes(result, cases) == snapshot


def test_declined(snapshot: SnapshotAssertion) -> None:
    cases = [
        "if x > 0:\n    y = x",
        "if x > 0:\n    print(x)\nelse:\n    print(y)",
        "if x > 0:\n    print(y := x)",
        "if x > 0:\n    self.seen.append(x)",
        "if x > 0: print(x)",
        "if (z := x) > 0:\n    print(z)",
        "assert x > 0",
    ]
    assert outcomes(body, cases) == snapshot


def test_an_elif_is_left() -> None:
    assert (
        reason_of(lambda: body("if y is None:\n    y = x\nelif x > 0:\n    print(x)", line=7))
        == "the condition belongs to an `elif`"
    )
