"""How two runs differ, found directly: one mismatch for each aspect, worded from either side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.guards import Guards
from graphdoctor.facts.recording import (
    BreakReason,
    Call,
    CaptureGap,
    CompileCall,
    Environment,
    Recording,
    TargetInfo,
)
from graphdoctor.facts.run import ProbeExit
from graphdoctor.rules.catalog import RULES
from graphdoctor.rules.diagnosis.comparison import mismatches
from graphdoctor.rules.diagnosis.diagnose import diagnose
from graphdoctor.rules.diagnosis.selection import Selection
from tests.each import for_each
from tests.factories import entry, record, recording

ITEM = BreakReason(gb_type="Unsupported Tensor.item() call", torch_id="GB0124")
FOREIGN: dict[str, Any] = {"gaps": (CaptureGap(code="GD904", kind="foreign_log", message="A foreign log."),)}


def diagnosed(facts: Recording | None = None, **values: Any) -> Diagnosis:
    """The diagnosis of a recording, a whole and plain one by default, with facts replaced."""
    known = (facts or recording()).model_copy(update=values)
    return diagnose(known, RULES, root=Path("/project"), version="1")


def said(before: Diagnosis, after: Diagnosis) -> dict[str, str]:
    """The messages by aspect, as if no finding of one side were on the other."""
    found = mismatches(before, after, gone=before.findings, new=after.findings)
    return {mismatch.aspect: mismatch.message for mismatch in found}


def test_two_runs_made_alike_have_no_mismatch() -> None:
    assert said(diagnosed(), diagnosed()) == {}


def test_a_foreign_log_is_named_on_its_side_and_excuses_calls_and_arguments() -> None:
    ours, foreign = diagnosed(**calls("f32[4]")), diagnosed(**FOREIGN, calls=(), **target(config={"a": 1}))
    assert (ours.recording.is_foreign, foreign.recording.is_foreign) == (False, True)
    assert said(ours, foreign).keys() == said(foreign, ours).keys() == {"recording"}
    assert said(ours, foreign)["recording"].startswith("After: ")
    assert said(foreign, ours)["recording"].startswith("Before: ")


def test_two_foreign_logs_may_be_of_different_targets() -> None:
    assert "is unknown" in said(diagnosed(**FOREIGN), diagnosed(**FOREIGN))["recording"]


def test_guards_that_one_side_has_not_read_are_named() -> None:
    read = diagnosed(guards=Guards(sets=()))
    assert "only after" in said(diagnosed(), read)["guards"]
    assert "only before" in said(read, diagnosed())["guards"]
    assert "guards" not in said(read, read)


def test_what_both_sides_lack_is_no_mismatch() -> None:
    lacking = diagnosed(gaps=(CaptureGap(code="GD900", kind="coverage", message="Coverage was not measured."),))
    assert said(lacking, lacking) == {}


def test_values_that_one_side_does_not_know_are_no_mismatch() -> None:
    unknown = diagnosed(environment=Environment())
    assert said(unknown, diagnosed(**environment())) == {}


def test_the_most_serious_mismatch_comes_first() -> None:
    other = diagnosed(**target(text="b.py"), **environment(torch="2.15.0"), is_partial=True)
    found = mismatches(diagnosed(**target(text="a.py"), **environment()), other, gone=(), new=())
    assert [mismatch.aspect for mismatch in found] == ["partial", "target", "torch"]


def test_values_of_both_sides_travel_as_fields() -> None:
    (mismatch,) = mismatches(diagnosed(**environment()), diagnosed(**environment(torch="2.15.0")), gone=(), new=())
    assert (mismatch.before, mismatch.after) == ("2.13.0", "2.15.0")


def target(**values: Any) -> dict[str, Any]:
    return {"target": recording().target.model_copy(update=values)}


def environment(**values: Any) -> dict[str, Any]:
    return {
        "environment": Environment(python="3.11.7", torch="2.13.0", platform="Linux x86_64").model_copy(update=values)
    }


def calls(*inputs: str) -> dict[str, Any]:
    return {"calls": tuple(Call(index=n, inputs=text, outcome="ok") for n, text in enumerate(inputs, start=1))}


@for_each(
    "before, after, aspect, words",
    [
        (target(text="a.py"), target(text="b.py"), "target", "a.py before, b.py after"),
        (target(class_name="Net"), target(class_name="Other"), "target", "Net before, Other after"),
        (
            target(compile_arguments={"backend": "eager", "dynamic": None}),
            target(compile_arguments={"backend": "inductor", "dynamic": False}),
            "compile arguments",
            "backend=eager, dynamic=None before, backend=inductor, dynamic=False after",
        ),
        (target(), target(config={"recompile_limit": 4}), "config", "recompile_limit=None before, recompile_limit=4"),
        (
            target(call_options={"backward": False, "calls": 1}),
            target(call_options={"backward": True, "calls": 1}),
            "call options",
            "backward=False before, backward=True after",
        ),
        (calls("f32[4]"), calls("f32[4]", "f32[4]"), "calls", "Different numbers of calls: 1 before, 2 after."),
        (
            calls("f32[1]", "f32[2]", "f32[3]"),
            calls("f32[4]", "f32[5]", "f32[6]"),
            "calls",
            "call 1 f32[1]; call 2 f32[2] before, call 1 f32[4]; call 2 f32[5] after. The inputs of 1 more call differ",
        ),
        (environment(), environment(torch="2.15.0"), "torch", "2.13.0 before, 2.15.0 after"),
        (environment(), environment(python="3.12.1"), "python", "3.11.7 before, 3.12.1 after"),
        (environment(), environment(device_name="H200"), "machine", "Linux x86_64, H200 after"),
        (
            {},
            {"is_partial": True, "exit": ProbeExit(status=None, reason="killed", message="It was killed.")},
            "partial",
            "After: the run is partial. It was killed.",
        ),
        (
            {},
            {"gaps": (CaptureGap(code="GD902", kind="unreadable_record", message="A record could not be read."),)},
            "gap",
            "After only: A record could not be read.",
        ),
    ],
)
def test_what_was_not_made_alike_is_said_on_both_sides(
    before: dict[str, Any], after: dict[str, Any], aspect: str, words: str
) -> None:
    there, back = said(diagnosed(**before), diagnosed(**after)), said(diagnosed(**after), diagnosed(**before))
    assert set(there) == set(back) == {aspect}
    assert words in there[aspect]
    assert back[aspect] != there[aspect]
    assert said(diagnosed(**after), diagnosed(**after)).keys() <= {"partial"}


def test_a_partial_run_is_said_even_when_both_are() -> None:
    cut = diagnosed(is_partial=True)
    assert [mismatch.aspect for mismatch in mismatches(cut, cut, gone=(), new=())] == ["partial", "partial"]


def test_scripts_are_compared_by_their_calls_of_torch_compile_wherever_these_stand() -> None:
    def script(line: int, **arguments: str) -> Diagnosis:
        call = CompileCall(file="train.py", line=line, function="main", compiled="Net", arguments=arguments)
        return diagnosed(target=TargetInfo(text="train.py", kind="script"), compile_calls=(call,), calls=())

    assert said(script(3), script(30)) == {}
    assert (
        "torch.compile(Net) before, torch.compile(Net, mode=max-autotune) after"
        in (said(script(3), script(3, mode="max-autotune"))["compile arguments"])
    )


def test_another_torch_is_blamed_for_findings_that_changed_at_a_line_that_did_not() -> None:
    before = diagnosed(recording(breaks=(record(entry(5)),)), **environment())
    after = diagnosed(recording(breaks=(record(entry(5), chain=(ITEM,)),)), **environment(torch="2.15.0"))
    assert "1 new finding replaced another one at the same line" in said(before, after)["torch"]


def test_findings_in_other_files_alone_are_said_to_have_nothing_in_common() -> None:
    elsewhere = diagnosed(recording(breaks=(record(entry(5, file="/other/model.py")),)))
    assert "/other/model.py after" in said(diagnosed(recording(breaks=(record(entry(5)),))), elsewhere)["files"]


def test_a_document_that_lacks_findings_says_so() -> None:
    whole = recording(breaks=(record(entry(5)),))
    less = diagnose(whole, RULES, root=Path("/project"), version="1", selection=Selection(ignore=("GD1",)))
    assert "show as new" in said(less, diagnosed(whole))["selection"]
    assert "show as gone" in said(diagnosed(whole), less)["selection"]


def test_another_graphdoctor_is_said() -> None:
    other = diagnosed().model_copy(update={"graphdoctor_version": "2"})
    assert "1 before, 2 after" in said(diagnosed(), other)["graphdoctor"]


def test_a_regional_run_and_one_of_the_whole_differ_in_how_they_compile() -> None:
    facts = recording()
    regional = facts.model_copy(update={"target": facts.target.model_copy(update={"is_regional": True})})
    assert (
        "regional=False before, regional=True after" in said(diagnosed(facts), diagnosed(regional))["compile arguments"]
    )
