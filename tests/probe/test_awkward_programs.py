"""What a probe makes of programs that do to their process what they like: each is reported to its
end."""

import json
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.sections import sections

pytestmark = pytest.mark.slow

Report = dict[str, Any]

INPUTS = "def example_inputs():\n    return (torch.randn(4, 8),)\n"


def program(text):
    """The whole file with a text of ``awkward.txt`` in it."""
    above, _, body = text.rpartition("--\n")
    if not re.search(r"^(def f\(|f = )", body, re.MULTILINE):
        body = f"def f(x):\n{textwrap.indent(body, '    ')}    return x.sin() + 1\n"
    return f"import torch\n{above}\n\n{body}\n\n{'' if 'def example_inputs' in text else INPUTS}"


PROGRAMS = {
    name: program(text) for name, text in sections(Path(__file__).with_name("awkward.txt")).items()
}
CALLED = {name: text for name, text in PROGRAMS.items() if ": " not in name}
MEASURED = [name for name in PROGRAMS if name.endswith(", measured")]
ENDED = [name for name in PROGRAMS if ": " in name]
assert CALLED and MEASURED and ENDED


@pytest.fixture
def explain(run_cli, tmp_path):
    def run(name, text, *command):
        path = tmp_path / f"{re.sub(r'[^a-z]+', '_', name)}.py"
        path.write_text(text)
        ask, *options = command or ("explain",)
        done = run_cli(ask, f"{path}:f", "--format", "json", "--backend", "eager", *options)
        try:
            return done.returncode, json.loads(done.stdout), done.stderr
        except ValueError:
            return done.returncode, None, done.stdout + done.stderr

    return run


def failures(explain, names, *commands):
    """Of programs whose calls all come back: what else was reported."""
    failed = {}
    for name in names:
        for command in commands:
            status, document, said = explain(name, CALLED[name], *command)
            calls = [] if document is None else document["recording"]["calls"]
            outcomes = {call["outcome"] for call in calls}
            if status != 0 or outcomes != {"ok"}:
                failed[name, command] = (status, said[-600:] if document is None else calls)
    return failed


def test_returning_call_is_reported_whatever_the_program_did(explain):
    assert failures(explain, CALLED, ("explain",)) == {}


def test_what_was_compiled_at_import_does_not_answer_the_calls(explain):
    compiled = "import torch\ndef f(x):\n    return x.sin() + 1\ntorch.compile(f, backend='eager')(torch.ones(4, 8))\n"
    _, document, _ = explain("compiled at import", compiled + INPUTS)
    assert document["summary"]["coverage"] == 1.0
    assert [compile_["call_index"] for compile_ in document["recording"]["compiles"]] == [None, 1]


@pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="from 3.12 on, a list comprehension is no function"
)
def test_a_comprehension_has_a_name_of_its_own(explain):
    broken = (
        "import torch\ndef f(x):\n    print()\n    return [x * k for k in (1, 2) if x.sum() > k]\n"
    )
    _, document, _ = explain("comprehension", broken + INPUTS)
    (skipped,) = (
        finding["message"] for finding in document["findings"] if finding["code"] == "GD111"
    )
    assert skipped.startswith("`f.<listcomp>` is not compiled")


def test_call_can_be_repeated_and_profiled_after_anything(explain):
    assert failures(explain, MEASURED, ("guards",), ("recompiles", "--vary")) == {}


def test_a_program_that_ends_early_is_reported_until_then(explain):
    problems = {}
    for name in ENDED:
        _, document, said = explain(name, PROGRAMS[name])
        problems[name] = (
            said[-600:] if document is None else document["recording"]["exit"]["reason"]
        )
    assert problems == {name: name.partition(": ")[2] for name in ENDED}
