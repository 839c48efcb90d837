"""Each code that the probe may send has words on each surface, in the names that options have
there."""

from __future__ import annotations

import ast
import re
from itertools import zip_longest
from pathlib import Path
from typing import get_args

import graphdoctor.probe
from graphdoctor.facts.run import HintCode, ProbeExit
from graphdoctor.views.exit_words import COMMAND_LINE, CONFIGURATION, PYTHON, worded_exit, words
from graphdoctor.wording import during
from tests.each import for_each

PROBE = Path(graphdoctor.probe.__file__).parent
SURFACES = {"command line": COMMAND_LINE, "configuration": CONFIGURATION, "Python": PYTHON}
VALUES = {
    "looked_for": [["example_inputs()", "dummy_inputs"]],
    "near": [[], ["torch.b"]],
    "known": [[], ["eager", "inductor"]],
    "tensors": [[], ["x [34, 16]", "edges [2, 156]"], [f"x{number}" for number in range(9)]],
    "timeout_s": [2.5],
    "phase": ["call 2", None],
    "place": ["model.py:7", None],
    "status": [1],
    "error": ["No.", "too lo…"],
    "name": ["torch.a"],
    "value": [3],
    "default": [False],
    "batch": [8, None],
    "is_module": [True, False],
    "argument": ["<argument>", "backend"],
    **{
        name: [f"<{name}>"]
        for name in ("callable", "input", "device", "dtype", "tensor", "failed", "type")
    },
    **{name: [f"<{name}>"] for name in ("target", "fewest", "python", "own", "backend")},
}
"""Values of the cases, the first of them where a case has no other."""
MISSING = object()


def test_what_each_code_says_on_each_surface(snapshot):
    cases = [
        {
            name: given[0] if value is MISSING else value
            for (name, given), value in zip(VALUES.items(), case, strict=True)
        }
        for case in zip_longest(*VALUES.values(), fillvalue=MISSING)
    ]
    lines = []
    for code in get_args(HintCode):
        for case in cases:
            values = case | {"argument": None} if code == "unknown_config" else case
            for surface, where in SURFACES.items():
                message, hint = words(code, values, where)
                assert message.endswith((".", "…"))
                assert surface == "command line" or not re.search(r"--[a-z]", f"{message} {hint}")
                lines.append(f"{code} ({surface}): {message}\n    {hint}")
    assert "\n".join(dict.fromkeys(lines)) == snapshot


def test_an_end_is_worded_for_another_surface():
    ended = ProbeExit(status=3, message="m", hint="h", hint_code="no_gradient")
    assert (
        worded_exit(ended, PYTHON).message
        == "backward: no floating-point output requires a gradient."
    )
    assert worded_exit(ended, COMMAND_LINE).hint.startswith("Leave --backward out")


def test_an_end_without_a_code_stays():
    ended = ProbeExit(status=3, message="m", hint="h")
    assert worded_exit(ended, CONFIGURATION) is ended


@for_each(
    "phase, text",
    [
        (None, " before it began"),
        ("call 2", " in call 2"),
        ("variation 1 of 2: x", " in variation 1 of 2: x"),
        ("measuring coverage", " while measuring coverage"),
    ],
)
def test_a_phase_follows_a_verb(phase, text):
    assert during(phase) == text


@for_each("file", sorted(PROBE.rglob("*.py")))
def test_the_probe_names_no_option_of_the_command_line(file):
    texts = [
        node.value
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant)
    ]
    assert not [
        text for text in texts if isinstance(text, str) and re.search(r"(?<!\w)--[a-z]", text)
    ]
