"""What is new, gone and the same between two diagnoses; test_mismatches.py has how the runs
differ."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from graphdoctor.facts.recording import BreakReason, CaptureGap, TargetInfo
from graphdoctor.rules.diagnosis.comparison import compare
from graphdoctor.rules.diagnosis.selection import Selection
from graphdoctor.trace.reader import read_recording
from tests.conftest import RECORDED_LOGS
from tests.each import for_each
from tests.factories import (
    LOOP,
    PRINT,
    change,
    compiled,
    diagnosed,
    entry,
    recompiled,
    record,
    recording,
)

ITEM = BreakReason(gb_type="Unsupported Tensor.item() call", torch_id="GB0124")


def with_prints(*places):
    """A print at each line, each with a text of its own."""
    return recording(breaks=tuple(record(entry(line, f'print("{text}")')) for line, text in places))


def lines(comparison):
    return {
        "new": [finding.location.line for finding in comparison.new],
        "gone": [finding.location.line for finding in comparison.gone],
        "same": [(pair.before.location.line, pair.after.location.line) for pair in comparison.same],
    }


# Findings.


def test_moved_line_is_the_same_and_edited_one_new():
    comparison = compare(
        diagnosed(with_prints((5, "kept"), (9, "old words"))),
        diagnosed(with_prints((6, "kept"), (10, "new words"))),
    )
    assert lines(comparison) == {"new": [10], "gone": [9], "same": [(5, 6)]}
    assert comparison.same[0].changes == ("line",)


def test_worsened_finding_stays_and_names_its_changes():
    here = entry(5)
    before = diagnosed(recording(breaks=(record(here),)))
    after = diagnosed(recording(breaks=(record(here), record(here, effect="rest_eager"))))
    (pair,) = compare(before, after).same
    assert pair.changes == ("severity", "count")
    assert ((pair.before.severity, pair.before.count), (pair.after.severity, pair.after.count)) == (
        ("warning", 1),
        ("error", 2),
    )


def test_selection_hides_findings_of_both_sides_but_no_number():
    before = diagnosed(with_prints((5, "a"), (6, "b")))
    after = diagnosed(recording(breaks=(record(entry(5, "y = x.item()"), chain=(ITEM,)),)))
    comparison = compare(before, after, selection=Selection(select=("GD103",)))
    assert lines(comparison) == {"new": [5], "gone": [], "same": []}
    assert (comparison.before.hidden_findings, comparison.after.hidden_findings) == (2, 0)
    assert (comparison.before.summary.break_sites, comparison.after.summary.break_sites) == (2, 1)
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


@given(FACTS)
def test_nothing_is_new_or_gone_between_a_run_and_itself(facts):
    diagnosis = diagnosed(facts)
    comparison = compare(diagnosis, diagnosis)
    assert (comparison.new, comparison.gone, comparison.mismatches) == ((), (), ())
    assert [pair.after for pair in comparison.same] == list(diagnosis.findings)
    assert all(pair.before == pair.after and not pair.changes for pair in comparison.same)


@given(FACTS, FACTS)
def test_the_other_way_round_new_is_gone(one, other):
    there, back = (
        compare(diagnosed(one), diagnosed(other)),
        compare(diagnosed(other), diagnosed(one)),
    )
    assert (there.new, there.gone) == (back.gone, back.new)
    pairs = {(pair.before.fingerprint, pair.after.fingerprint, pair.changes) for pair in there.same}
    assert pairs == {
        (pair.after.fingerprint, pair.before.fingerprint, pair.changes) for pair in back.same
    }
    assert len(there.new) + len(there.same) == len(diagnosed(other).findings)
    assert len(there.gone) + len(there.same) == len(diagnosed(one).findings)


@for_each(
    "facts, has_calls",
    [
        ({"target": TargetInfo(text="train.py", kind="script"), "calls": ()}, False),
        (
            {
                "gaps": (CaptureGap(code="GD904", kind="foreign_log", message="A log of others."),),
                "calls": (),
            },
            False,
        ),
        # A log of ours by a torch that graphdoctor doesn't read in full has the same code.
        (
            {"gaps": (CaptureGap(code="GD904", kind="old_log", message="A log by torch 2.5."),)},
            True,
        ),
    ],
)
def test_calls_that_nobody_counted_are_not_known(facts, has_calls):
    comparison = compare(diagnosed(**facts), diagnosed())
    assert (comparison.before.has_calls, comparison.after.has_calls) == (has_calls, True)


# Real recordings.


def real(version, name):
    return diagnosed(read_recording(RECORDED_LOGS / version / name), root=Path("/home/user/demo"))


def test_foreign_log_is_matched_though_it_has_no_classes():
    comparison = compare(real("2.13.0", "break_in_try"), real("2.13.0", "break_in_try.bare"))
    assert (comparison.new, comparison.gone) == ((), ())
    assert [pair.after.code for pair in comparison.same] == ["GD101", "GD111"]
    assert [mismatch.aspect for mismatch in comparison.mismatches] == ["recording"]


@for_each("name", ["break_in_try", "item", "print_in_helper"])
def test_another_torch_alone_leaves_the_findings_the_same(name):
    comparison = compare(real("2.13.0", name), real("2.15.0", name))
    assert (comparison.new, comparison.gone) == ((), ())
    assert [mismatch.aspect for mismatch in comparison.mismatches] == ["torch"]
