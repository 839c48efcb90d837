"""``survey.toml``."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphdoctor.errors import GraphDoctorError
from graphdoctor.studies.survey.survey_list import ListedTargets, read_survey_list

WHOLE = """
name = "nightly"
bench = true
timeout = 300
memory = 8
retries = 0
python = "/opt/python"

[run]
no-grad = true
calls = 2

[[targets]]
target = "models/bert.py:Net"
name = "bert"
family = "text"
inputs = ["i64[2,16]"]
calls = 3

[[targets]]
glob = "models/vision/*.py"
exclude = ["*/old_*"]

[[targets]]
from = "transformers"
only = ["gpt*"]

[[variants]]
dynamic = true

[[variants]]
name = "half"
dtype = "bfloat16"
batch = 8
python = "/opt/nightly/bin/python"

[nodes]
working-dir = "."
pip = ["einops"]
env-vars = { OMP_NUM_THREADS = "1" }
"""


def _read(tmp_path: Path, text: str):
    path = tmp_path / "survey.toml"
    path.write_text(text)
    return read_survey_list(path)


def test_a_whole_list_is_read(tmp_path):
    found = _read(tmp_path, WHOLE)
    assert (found.name, found.python, found.run) == (
        "nightly",
        "/opt/python",
        {"no_grad": True, "calls": 2},
    )
    assert (
        found.options.bench,
        found.options.timeout,
        found.options.memory,
        found.options.retries,
    ) == (True, 300, 8, 0)
    assert (found.options.export, found.options.jobs) == (False, None)
    first, second, third = found.targets
    assert first == ListedTargets(
        target="models/bert.py:Net",
        name="bert",
        family="text",
        run={"inputs": ("i64[2,16]",), "calls": 3},
    )
    assert second == ListedTargets(pattern="models/vision/*.py", exclude=("*/old_*",))
    assert third == ListedTargets(library="transformers", only=("gpt*",))
    assert [one.run for one in found.variants] == [
        {"dynamic": True},
        {"dtype": "bfloat16", "batch": 8},
    ]
    assert [one.python for one in found.variants] == [None, "/opt/nightly/bin/python"]
    assert (found.nodes.working_dir, found.nodes.pip) == (".", ("einops",))
    assert found.nodes.env_vars == {"OMP_NUM_THREADS": "1"}


def test_the_name_is_the_file_s_unless_it_has_one(tmp_path):
    assert _read(tmp_path, '[[targets]]\ntarget = "model.py"').name == "survey"


TARGET = '[[targets]]\ntarget = "m.py"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "survey.toml has no targets"),
        ("targets = 3", "targets must be a list of tables"),
        ("targets = [", "isn't valid TOML"),
        (
            "[[targets]]\nname = 'a'",
            "target 1: it needs one of target, glob and from, not none of them",
        ),
        (TARGET + 'glob = "*.py"', "not target and glob"),
        (TARGET + 'only = ["a"]', "only goes with from only"),
        (TARGET + 'exclude = ["a"]', "exclude goes with glob and from only"),
        ('[[targets]]\nglob = "*.py"\nname = "a"', "name goes with target only"),
        ('[[targets]]\nglob = "*.py"\ninputs = []', "inputs goes with target only"),
        (TARGET + 'backned = "eager"', "unknown setting 'backned'"),
        (TARGET + "calls = 0", "calls must be a whole number of at least 1, not 0"),
        (TARGET + "[[variants]]\ninputs = []", "unknown setting 'inputs'"),
        (TARGET + "[[variants]]\ndynamic = 3", "variant 1: dynamic must be true or false, not 3"),
        (TARGET + "[[variants]]\nbatch = 0", "batch must be"),
        ("bench = 1\n" + TARGET, "bench must be true or false"),
        ("timeout = 0\n" + TARGET, "timeout must be a positive number of seconds"),
        ("memory = -1\n" + TARGET, "memory must be a number above 0"),
        ("retries = -1\n" + TARGET, "retries must be a whole number of at least 0"),
        ("cpus = 0\n" + TARGET, "cpus must be a whole number of at least 1"),
        ("run = 1\n" + TARGET, "run must be a table"),
        ("nodes = 1\n" + TARGET, "nodes must be a table"),
        (TARGET + "[nodes]\npip = 3", "nodes: pip must be a list of strings"),
        (TARGET + "[nodes]\nenv-vars = { A = 1 }", "nodes: env-vars must be a table of strings"),
        (TARGET + "[nodes]\ncpu = 1", "nodes: unknown setting 'cpu'"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path, text, message):
    with pytest.raises(GraphDoctorError) as caught:
        _read(tmp_path, text)
    assert message in caught.value.message
    assert "survey.toml" in caught.value.message
