"""Options: one that has no effect is refused with the one that would give it one; formats are those
of the registry."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest

from graphdoctor.commands.commands import NAMES
from graphdoctor.commands.options import RUN_OPTIONS, run_spec
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.spec import RunSpec
from graphdoctor.studies import documents
from graphdoctor.views import formats
from tests.conftest import RECORDED_LOGS, RunCli, clean_environment
from tests.each import for_each

ITEM = RECORDED_LOGS / "2.13.0" / "item"
"""A recording."""


@for_each(
    "text, name",
    [("bf16", "bfloat16"), ("f16", "float16"), ("f64", "float64"), ("float32", "float32")],
)
def test_dtype_is_named_as_in_torch_or_inputs(text: str, name: str) -> None:
    assert run_spec({"inputs": (), "config": (), "dtype": text}).dtype == name


DOCUMENTS = {
    "explain": formats.DIAGNOSIS,
    "report": formats.DIAGNOSIS,
    "fix": formats.FIXES,
    "recompiles": formats.RECOMPILES,
    "guards": formats.GUARDS,
    "diff": documents.SURVEY_COMPARISON,
    "check": formats.CHECK,
    "lint": formats.LINT,
    "try": formats.FIXES,
    "bench": formats.BENCH,
    "accuracy": documents.ACCURACY,
    "cure": documents.CURE,
    "export": documents.EXPORT,
    "survey": documents.SURVEY,
    "profile": formats.PROFILE,
    "rule": formats.RULES,
}


@pytest.mark.parametrize("command", NAMES)
def test_each_command_offers_the_formats_it_has(run_here: RunCli, command: str) -> None:
    text = " ".join(run_here(command, "--help-all").stdout.split())
    offered = re.search(
        r"--format FORMAT (?:What to write to standard output: )?(.*?)\.(?: |$)", text
    )
    if command not in DOCUMENTS:
        assert offered is None
        return
    # A line may end at a hyphen.
    assert re.split(r", | or ", offered[1].replace("- ", "-")) == list(DOCUMENTS[command].names)


def test_a_run_is_declared_once() -> None:
    assert {*RUN_OPTIONS} == {field.name for field in fields(RunSpec)} - {"target"}
    defaults = {
        field.name: getattr(RunSpec(), field.name)
        for field in fields(RunSpec)
        if field.name in RUN_OPTIONS
    }
    assert run_spec({**defaults, "inputs": None, "options": None, "config": None}) == RunSpec()


def test_values_of_options_are_read() -> None:
    values = {name: getattr(RunSpec(), name) for name in RUN_OPTIONS}
    spec = run_spec(
        {**values, "inputs": ["int:1"], "options": ["a=1"], "config": ["b=true"], "calls": 3}
        | {"backend": None}
    )
    assert spec == RunSpec(
        inputs=("int:1",), options={"a": 1}, config={"b": True}, calls=3, backend="inductor"
    )
    with pytest.raises(GraphDoctorError, match="--config"):
        run_spec({**values, "config": ["b"]})


def test_a_variable_that_no_setting_reads_is_a_warning(run_here: RunCli) -> None:
    plain = run_here("report", ITEM)
    found = run_here("report", ITEM, env=clean_environment(GRAPHDOCTOR_SELCT="GD1"))
    assert (found.returncode, found.stdout) == (0, plain.stdout)
    assert (
        found.stderr
        == "warning: graphdoctor doesn't read GRAPHDOCTOR_SELCT. Did you mean GRAPHDOCTOR_SELECT?\n"
    )
