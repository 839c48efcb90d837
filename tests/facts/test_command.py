"""A recorded run as a command line."""

from __future__ import annotations

import shlex

import pytest

from graphdoctor.commands.app import application
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.command import command_line
from graphdoctor.facts.reading import read_fact
from graphdoctor.facts.recording import TargetInfo
from graphdoctor.facts.spec import RunSpec
from graphdoctor.trials.launch.request import Request


def target(spec):
    return read_fact(TargetInfo, Request.of(spec).described() | {"kind": "module class"})


def test_a_plain_run_needs_no_options():
    found = command_line(target(RunSpec(target="package.module:Net")), "fix", "--apply")
    assert found == "graphdoctor fix package.module:Net --apply"


def test_a_script_has_no_such_command():
    assert command_line(TargetInfo(text="train.py", kind="script"), "fix") is None
    assert command_line(TargetInfo(), "fix") is None


def test_the_backend_that_a_mode_means_is_not_repeated():
    spec = RunSpec(target="package.module", mode="reduce-overhead")
    assert spec.backend == "inductor"
    assert (
        command_line(target(spec), "fix") == "graphdoctor fix package.module --mode reduce-overhead"
    )


SPECS = [
    RunSpec(target="package.module", backend="eager", mode="default"),
    RunSpec(target="package.module:make()", inputs=("f32[8,128]", "str:it's", "mask=bool[2,2]")),
    RunSpec(target="package.module", mode="max-autotune", calls=3, seed=7, device="cuda:1"),
    RunSpec(
        target="package.module",
        dynamic=True,
        fullgraph=True,
        backward=True,
        train=True,
        no_grad=True,
    ),
    RunSpec(
        target="package.module",
        dynamic=False,
        train=False,
        options={"max_autotune": True, "name": "a b"},
    ),
    RunSpec(target="package.module", regional=True),
    RunSpec(target="package.module", own=("shop", "fancy-shop")),
    RunSpec(target="package.module", dtype="bfloat16", batch=8),
    RunSpec(
        target="package.module",
        config={"torch._dynamo.config.recompile_limit": 4, "suppress_errors": False},
    ),
]


@pytest.mark.parametrize("spec", SPECS)
def test_the_command_asks_for_the_same_run(spec, monkeypatch):
    command = command_line(target(spec), "fix", "--apply")
    assert command is not None
    asked: list[RunSpec] = []

    def record(request, *_how):
        asked.append(request.spec)
        raise GraphDoctorError("enough")

    monkeypatch.setattr("graphdoctor.commands.running.record_target", record)
    with pytest.raises(GraphDoctorError, match="enough"):
        application(["fix"])(shlex.split(command)[1:], standalone_mode=False)
    assert asked == [spec]


def test_the_interpreter_that_was_named_is_named_again():
    known = target(RunSpec(target="package.module")).replace(python="/opt/my env/bin/python")
    assert (
        command_line(known, "fix")
        == "graphdoctor fix package.module --python '/opt/my env/bin/python'"
    )
