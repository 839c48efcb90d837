"""How two runs differ, found directly: one mismatch for each aspect, worded from either side."""

from __future__ import annotations

from typing import Any

from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.guards import Guards
from graphdoctor.facts.recording import (
    BreakReason,
    Call,
    CaptureGap,
    CompileCall,
    Environment,
    TargetInfo,
)
from graphdoctor.facts.run import ProbeExit
from graphdoctor.rules.diagnosis.comparison import mismatches
from graphdoctor.rules.diagnosis.selection import Selection
from tests.factories import FILE, diagnosed, entry, record, recording

ITEM = BreakReason(gb_type="Unsupported Tensor.item() call", torch_id="GB0124")
FOREIGN: dict[str, Any] = {
    "gaps": (CaptureGap(code="GD904", kind="foreign_log", message="A foreign log."),)
}


def target(**values):
    return {"target": recording().target.replace(**values)}


def environment(**values):
    return {
        "environment": Environment(
            python="3.11.7", torch="2.13.0", platform="Linux x86_64"
        ).replace(**values)
    }


def calls(*inputs):
    return {
        "calls": tuple(
            Call(index=n, inputs=text, outcome="ok") for n, text in enumerate(inputs, start=1)
        )
    }


def script(line, **arguments):
    call = CompileCall(
        file="train.py", line=line, function="main", compiled="Net", arguments=arguments
    )
    return {
        "target": TargetInfo(text="train.py", kind="script"),
        "compile_calls": (call,),
        "calls": (),
    }


def gap(message):
    return {"gaps": (CaptureGap(code="GD902", kind="unreadable_record", message=message),)}


def broken(file=FILE, **values):
    return diagnosed(recording(breaks=(record(entry(5, file=file)),)), **values)


EAGER = {"backend": "eager", "dynamic": None}
WHOLE = recording(breaks=(record(entry(5)),))
LESS = diagnosed(WHOLE, selection=Selection(ignore=("GD1",)))
KILLED = {
    "is_partial": True,
    "exit": ProbeExit(status=None, reason="killed", message="It was killed."),
}
READ = diagnosed(guards=Guards(sets=()))

DIFFERING: list[tuple[Diagnosis, Diagnosis]] = [
    (diagnosed(**calls("f32[4]")), diagnosed(**FOREIGN, calls=(), **target(config={"a": 1}))),
    (diagnosed(**FOREIGN), diagnosed(**FOREIGN)),
    (diagnosed(), READ),
    (diagnosed(**target(text="a.py")), diagnosed(**target(text="b.py"))),
    (diagnosed(**target(class_name="Net")), diagnosed(**target(class_name="Other"))),
    (
        diagnosed(**target(compile_arguments=EAGER)),
        diagnosed(**target(compile_arguments={"backend": "inductor", "dynamic": False})),
    ),
    (diagnosed(), diagnosed(**target(is_regional=True))),
    (diagnosed(), diagnosed(**target(config={"recompile_limit": 4}))),
    (
        diagnosed(**target(call_options={"backward": False, "calls": 1})),
        diagnosed(**target(call_options={"backward": True, "calls": 1})),
    ),
    (diagnosed(**calls("f32[4]")), diagnosed(**calls("f32[4]", "f32[4]"))),
    (
        diagnosed(**calls("f32[1]", "f32[2]", "f32[3]")),
        diagnosed(**calls("f32[4]", "f32[5]", "f32[6]")),
    ),
    (diagnosed(**environment()), diagnosed(**environment(torch="2.15.0"))),
    (diagnosed(**environment()), diagnosed(**environment(python="3.12.1"))),
    (diagnosed(**environment()), diagnosed(**environment(device_name="H200"))),
    (diagnosed(), diagnosed(**KILLED)),
    (diagnosed(), diagnosed(**gap("A record could not be read."))),
    (diagnosed(version="1"), diagnosed(version="2")),
    (diagnosed(**script(3)), diagnosed(**script(3, mode="max-autotune"))),
    # Another finding at a line that is the same.
    (
        broken(**environment()),
        diagnosed(
            recording(breaks=(record(entry(5), chain=(ITEM,)),)), **environment(torch="2.15.0")
        ),
    ),
    (broken(), broken("/other/model.py")),
    (LESS, diagnosed(WHOLE)),
]


def said(before, after):
    """The differences, as if no finding of one side were on the other."""
    found = mismatches(before, after)
    return [f"{one.aspect} ({one.before} | {one.after}): {one.message}" for one in found]


def test_what_was_not_made_alike_is_said_from_either_side(snapshot):
    lines = [line for pair in DIFFERING for way in (pair, pair[::-1]) for line in said(*way)]
    assert "\n".join(lines) == snapshot


def test_runs_made_alike_have_no_mismatch():
    lacking = diagnosed(**gap("Coverage was not measured."))
    alike = [
        (diagnosed(), diagnosed()),
        (READ, READ),
        (lacking, lacking),
        # Unknown on one side.
        (diagnosed(environment=Environment()), diagnosed(**environment())),
        # Wherever they stand.
        (diagnosed(**script(3)), diagnosed(**script(30))),
    ]
    assert [said(*pair) for pair in alike] == [[]] * len(alike)


def test_worst_mismatch_comes_first_in_a_partial_run():
    other = diagnosed(**target(text="b.py"), **environment(torch="2.15.0"), is_partial=True)
    found = mismatches(diagnosed(**target(text="a.py"), **environment()), other)
    assert [mismatch.aspect for mismatch in found] == ["partial", "target", "torch"]
    cut = diagnosed(is_partial=True)
    assert [mismatch.aspect for mismatch in mismatches(cut, cut)] == ["partial", "partial"]
