"""Each code that the probe may send has words on each surface, in the names that options have there."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import get_args

import graphdoctor.probe
from graphdoctor.facts.hints import (
    COMMAND_LINE,
    CONFIGURATION,
    HINT_VALUES,
    PYTHON,
    HintCode,
    during,
    worded_exit,
    words,
)
from graphdoctor.facts.run import ProbeExit
from tests.each import for_each

PROBE = Path(graphdoctor.probe.__file__).parent
SURFACES = {"command line": COMMAND_LINE, "configuration": CONFIGURATION, "Python": PYTHON}
VALUES = {
    "looked_for": ["example_inputs()", "dummy_inputs"],
    "near": [],
    "known": [],
    "tensors": [],
    "timeout_s": 2.5,
    "phase": "call 2",
    "status": 1,
}


def values_of(code: str) -> dict:
    return {name: VALUES.get(name, f"<{name}>") for name in HINT_VALUES[code]}


def test_each_code_has_values():
    assert set(HINT_VALUES) == set(get_args(HintCode))


@for_each("surface", SURFACES)
@for_each("code", HINT_VALUES)
def test_each_code_has_words_on_each_surface(code, surface):
    message, hint = words(code, values_of(code), SURFACES[surface])
    assert message.endswith((".", "…"))
    assert hint is not None
    for name, value in values_of(code).items():
        if name in ("callable", "device", "error", "input", "python", "type"):
            assert str(value) in f"{message} {hint}"
    if surface != "command line":
        assert not re.search(r"--[a-z]", f"{message} {hint}")


@for_each(
    "surface, hint",
    [
        ("command line", "Pass --input, such as --input 'f32[8,128]', or add"),
        ("configuration", 'Give the target inputs = ["f32[8,128]"] in pyproject.toml, or add'),
    ],
)
def test_inputs_are_asked_for_where_they_can_be_given(surface, hint):
    assert words("no_inputs", values_of("no_inputs"), SURFACES[surface])[1].startswith(hint)


@for_each(
    "surface, message, hint",
    [
        ("command line", "--config torch.a=3: it takes bool", "Write --config torch.a=False."),
        ("configuration", 'config = { "torch.a" = 3 }: it takes bool', 'Write config = { "torch.a" = false }.'),
        ("Python", "torch.a = 3: it takes bool", "Write torch.a = False."),
    ],
)
def test_a_setting_is_written_as_it_is_given_there(surface, message, hint):
    said = words("config_type", {"name": "torch.a", "value": 3, "type": "bool", "default": False}, SURFACES[surface])
    assert said == (f"{message}, and is False by default.", hint)


def test_a_text_of_torch_gets_one_period():
    assert words("unusable_device", {"device": "x", "error": "No."}, COMMAND_LINE)[0].endswith("here: No.")


@for_each(
    "surface, message, hint",
    [
        ("command line", "--batch 8: it isn't clear", "Pass --input, such as --input 'f32[8,128]', or make"),
        ("configuration", "batch = 8: it isn't clear", 'Give the target inputs = ["f32[8,128]"] in pyproject.toml, or'),
    ],
)
def test_sizes_that_show_no_batch_are_named(surface, message, hint):
    said = words("no_batch", {"batch": 8, "tensors": ["x [34, 16]", "edges [2, 156]"]}, SURFACES[surface])
    assert said[0] == f"{message} which size is the batch in x [34, 16], edges [2, 156]."
    assert said[1].startswith(hint)


def test_a_call_without_tensors_has_no_batch():
    message, _ = words("no_batch", {"batch": 8, "tensors": []}, COMMAND_LINE)
    assert message == "--batch 8: the call has no tensor with a batch dim."


def test_of_many_tensors_the_first_are_named():
    message, _ = words("no_batch", {"batch": 8, "tensors": [f"x{number}" for number in range(9)]}, COMMAND_LINE)
    assert message.endswith(" in x0, x1, x2, x3, x4, x5, ….")


def test_near_names_are_offered():
    assert words("unknown_config", {"name": "torch.a", "near": ["torch.b"]}, COMMAND_LINE)[1] == "Did you mean torch.b?"


def test_an_end_is_worded_for_another_surface():
    ended = ProbeExit(status=3, message="m", hint="h", hint_code="no_gradient")
    assert worded_exit(ended, PYTHON).message == "backward: no floating-point output requires a gradient."
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
    texts = [node.value for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Constant)]
    assert not [text for text in texts if isinstance(text, str) and re.search(r"(?<!\w)--[a-z]", text)]
