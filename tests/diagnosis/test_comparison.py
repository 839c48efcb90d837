"""What is new, gone and the same between two diagnoses, and what keeps them from being comparable."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphdoctor.diagnosis.comparison import compare
from graphdoctor.diagnosis.diagnose import diagnose
from graphdoctor.diagnosis.selection import Selection
from graphdoctor.model.comparison import DiagnosisComparison
from graphdoctor.model.diagnosis import Diagnosis
from graphdoctor.model.recording import (
    BreakReason,
    Call,
    CaptureGap,
    CompileCall,
    Environment,
    Recording,
    SteadyCall,
    TargetInfo,
)
from graphdoctor.model.run import ProbeExit
from graphdoctor.rules.catalog import RULES
from graphdoctor.trace.reader import read_recording
from tests.factories import LOOP, PRINT, change, compiled, entry, recompiled, record, recording

RECORDINGS = Path(__file__).resolve().parents[1] / "recordings"
ITEM = BreakReason(gb_type="Unsupported Tensor.item() call", torch_id="GB0124")


def diagnosed(facts: Recording | None = None, **values: Any) -> Diagnosis:
    """The diagnosis of a recording, a whole and plain one by default, with facts replaced."""
    known = (facts or recording()).model_copy(update=values)
    return diagnose(known, RULES, root=Path("/project"), version="1")


def with_prints(*places: tuple[int, str]) -> Recording:
    """A print at each line, each with a text of its own."""
    return recording(breaks=tuple(record(entry(line, f'print("{text}")')) for line, text in places))


def lines(comparison: DiagnosisComparison) -> dict[str, list[Any]]:
    return {
        "new": [finding.location.line for finding in comparison.new],
        "gone": [finding.location.line for finding in comparison.gone],
        "same": [(pair.before.location.line, pair.after.location.line) for pair in comparison.same],
    }


def said(before: Diagnosis, after: Diagnosis) -> dict[str, str]:
    return {mismatch.aspect: mismatch.message for mismatch in compare(before, after).mismatches}


# Findings.


def test_a_moved_line_is_the_same_and_an_edited_one_is_new_and_gone() -> None:
    comparison = compare(
        diagnosed(with_prints((5, "kept"), (9, "old words"))), diagnosed(with_prints((6, "kept"), (10, "new words")))
    )
    assert lines(comparison) == {"new": [10], "gone": [9], "same": [(5, 6)]}
    assert comparison.same[0].changes == ("line",)


def test_one_of_two_equal_lines_that_goes_is_one_gone_and_one_the_same() -> None:
    both = diagnosed(recording(breaks=(record(entry(5)), record(entry(8), compile_id="1/0"))))
    comparison = compare(both, diagnosed(recording(breaks=(record(entry(5)),))))
    assert {kind: len(found) for kind, found in lines(comparison).items()} == {"new": 0, "gone": 1, "same": 1}


def test_what_got_worse_is_the_same_finding_with_its_changes_named() -> None:
    here = entry(5)
    before = diagnosed(recording(breaks=(record(here),)))
    after = diagnosed(recording(breaks=(record(here), record(here, effect="rest_eager"))))
    (pair,) = compare(before, after).same
    assert pair.changes == ("severity", "count")
    assert ((pair.before.severity, pair.before.count), (pair.after.severity, pair.after.count)) == (
        ("warning", 1),
        ("error", 2),
    )


def test_of_two_values_guarded_on_at_one_line_the_one_that_stays_is_the_same() -> None:
    batch, mask = change(), change(expression="mask.shape[0]", source="L['mask']")
    comparison = compare(
        diagnosed(compiles=(compiled(), recompiled("0/1", batch), recompiled("0/2", mask, call=3))),
        diagnosed(compiles=(compiled(), recompiled("0/1", mask))),
    )
    assert ["x.shape[0]" in finding.message for finding in comparison.gone if finding.code == "GD202"] == [True]
    assert ["mask.shape[0]" in pair.after.message for pair in comparison.same if pair.after.code == "GD202"] == [True]
    assert not [finding for finding in comparison.new if finding.code == "GD202"]


def test_a_selection_leaves_out_findings_of_both_sides_and_no_number() -> None:
    before = diagnosed(with_prints((5, "a"), (6, "b")))
    after = diagnosed(recording(breaks=(record(entry(5, "y = x.item()"), chain=(ITEM,)),)))
    comparison = compare(before, after, selection=Selection(select=("GD103",)))
    assert lines(comparison) == {"new": [5], "gone": [], "same": []}
    assert (comparison.before.hidden_findings, comparison.after.hidden_findings) == (2, 0)
    assert comparison.numbers.break_sites.model_dump() == {"before": 2, "after": 1}
    assert comparison.mismatches == ()


SITES = st.lists(
    st.tuples(st.integers(1, 30), st.sampled_from("abc"), st.sampled_from([PRINT, ITEM, LOOP])),
    max_size=6,
    unique_by=lambda site: site[0],
)
FACTS = st.builds(
    lambda sites, values: recording(
        breaks=tuple(record(entry(line, text), chain=(reason,)) for line, text, reason in sites),
        compiles=(
            compiled(),
            *(
                recompiled(f"0/{number}", change("value", name, source=f"L['{name}']", line=line))
                for number, (name, line) in enumerate(values, start=1)
            ),
        ),
    ),
    SITES,
    st.lists(st.tuples(st.sampled_from(["flag", "mode"]), st.sampled_from([11, 12])), max_size=4),
)


@settings(deadline=None)
@given(FACTS)
def test_nothing_is_new_or_gone_between_a_run_and_itself(facts: Recording) -> None:
    diagnosis = diagnosed(facts)
    comparison = compare(diagnosis, diagnosis)
    assert (comparison.new, comparison.gone, comparison.mismatches) == ((), (), ())
    assert [pair.after for pair in comparison.same] == list(diagnosis.findings)
    assert all(pair.before == pair.after and not pair.changes for pair in comparison.same)


@settings(deadline=None)
@given(FACTS, FACTS)
def test_the_other_way_round_new_is_gone(one: Recording, other: Recording) -> None:
    there, back = compare(diagnosed(one), diagnosed(other)), compare(diagnosed(other), diagnosed(one))
    assert (there.new, there.gone) == (back.gone, back.new)
    pairs = {(pair.before.fingerprint, pair.after.fingerprint, pair.changes) for pair in there.same}
    assert pairs == {(pair.after.fingerprint, pair.before.fingerprint, pair.changes) for pair in back.same}
    assert len(there.new) + len(there.same) == len(diagnosed(other).findings)
    assert len(there.gone) + len(there.same) == len(diagnosed(one).findings)


# Numbers.


def test_numbers_stand_side_by_side_and_what_is_not_known_is_none() -> None:
    steady = SteadyCall(call_us=200.0, runs=())
    comparison = compare(diagnosed(coverage=None), diagnosed(steady_call=steady, graphs=()))
    numbers = comparison.numbers
    assert numbers.graphs.model_dump() == {"before": 1, "after": 0}
    assert numbers.coverage.model_dump() == {"before": None, "after": 1.0}
    assert numbers.steady_call_us.model_dump() == {"before": None, "after": 200.0, "ratio": None}
    assert numbers.compile_time_s.model_dump() == {"before": 0.25, "after": 0.25, "ratio": 1.0}


def test_the_steady_call_is_set_against_the_other_as_a_ratio() -> None:
    before, after = (diagnosed(steady_call=SteadyCall(call_us=us, runs=())) for us in (200.0, 50.0))
    assert compare(before, after).numbers.steady_call_us.ratio == 0.25


@pytest.mark.parametrize(
    "facts",
    [
        {"target": TargetInfo(text="train.py", kind="script"), "calls": ()},
        {"gaps": (CaptureGap(code="GD904", message="A log of others."),), "calls": ()},
    ],
    ids=["script", "log of others"],
)
def test_calls_that_nobody_counted_are_not_known(facts: dict[str, Any]) -> None:
    assert compare(diagnosed(**facts), diagnosed()).numbers.calls.model_dump() == {"before": None, "after": 1}


# What keeps them from being comparable.


def target(**values: Any) -> dict[str, Any]:
    return {"target": recording().target.model_copy(update=values)}


def environment(**values: Any) -> dict[str, Any]:
    return {
        "environment": Environment(python="3.11.7", torch="2.13.0", platform="Linux x86_64").model_copy(update=values)
    }


def calls(*inputs: str) -> dict[str, Any]:
    return {"calls": tuple(Call(index=n, inputs=text, outcome="ok") for n, text in enumerate(inputs, start=1))}


@pytest.mark.parametrize(
    ("before", "after", "aspect", "words"),
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
        (calls("f32[4]"), calls("f32[4]", "f32[4]"), "calls", "Calls: 1 before, 2 after."),
        (
            calls("f32[1]", "f32[2]", "f32[3]"),
            calls("f32[4]", "f32[5]", "f32[6]"),
            "calls",
            "call 1 f32[1]; call 2 f32[2] before, call 1 f32[4]; call 2 f32[5] after. 1 more calls differ",
        ),
        (environment(), environment(torch="2.15.0"), "torch", "2.13.0 before, 2.15.0 after"),
        (environment(), environment(python="3.12.1"), "python", "3.11.7 before, 3.12.1 after"),
        (environment(), environment(device_name="H200"), "machine", "Linux x86_64, H200 after"),
        (
            {},
            {"is_partial": True, "exit": ProbeExit(status=None, reason="killed", message="It was killed.")},
            "partial",
            "Partial after: It was killed.",
        ),
        (
            {},
            {"gaps": (CaptureGap(code="GD902", message="A record could not be read."),)},
            "gap",
            "After only: A record could not be read.",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and " " not in value else "",
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
    assert [mismatch.aspect for mismatch in compare(cut, cut).mismatches] == ["partial", "partial"]


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
    assert "1 of the new findings are at a line that had another one before" in said(before, after)["torch"]


def test_findings_in_other_files_alone_are_said_to_have_nothing_in_common() -> None:
    elsewhere = diagnosed(recording(breaks=(record(entry(5, file="/other/model.py")),)))
    assert "/other/model.py after" in said(diagnosed(with_prints((5, "a"))), elsewhere)["files"]


def test_a_document_that_lacks_findings_says_so() -> None:
    whole = recording(breaks=(record(entry(5)),))
    less = diagnose(whole, RULES, root=Path("/project"), version="1", selection=Selection(ignore=("GD1",)))
    assert "shows as new" in said(less, diagnosed(whole))["selection"]
    assert "shows as gone" in said(diagnosed(whole), less)["selection"]


def test_another_graphdoctor_is_said() -> None:
    other = diagnosed().model_copy(update={"graphdoctor_version": "2"})
    assert "1 before, 2 after" in said(diagnosed(), other)["graphdoctor"]


# Real recordings.


def real(version: str, name: str) -> Diagnosis:
    return diagnose(read_recording(RECORDINGS / version / name), RULES, root=Path("/home/user/demo"), version="1")


def test_a_log_of_others_is_matched_with_ours_though_it_has_no_classes() -> None:
    comparison = compare(real("2.13.0", "break_in_try"), real("2.13.0", "break_in_try.bare"))
    assert (comparison.new, comparison.gone) == ((), ())
    assert [(pair.after.code, pair.matched_by) for pair in comparison.same] == [("GD101", "place"), ("GD111", "place")]
    assert [mismatch.aspect for mismatch in comparison.mismatches] == ["recording"]


def test_two_logs_of_others_are_said_to_be_perhaps_of_other_targets() -> None:
    bare = real("2.13.0", "break_in_try.bare")
    (mismatch,) = compare(bare, bare).mismatches
    assert "is not known" in mismatch.message


@pytest.mark.parametrize("name", ["break_in_try", "item", "print_in_helper"])
def test_another_torch_alone_leaves_the_findings_the_same(name: str) -> None:
    comparison = compare(real("2.13.0", name), real("2.15.0", name))
    assert (comparison.new, comparison.gone) == ((), ())
    assert [mismatch.aspect for mismatch in comparison.mismatches] == ["torch"]
