"""What trials showed, beside a finding's suggestions."""

from __future__ import annotations

from typing import Any

from graphdoctor.facts.counts import Counts
from graphdoctor.facts.fixes import DeclinedEdits, Treatment, TriedFix
from tests.each import for_each
from tests.factories import (
    change,
    compiled,
    context,
    diagnosed,
    entry,
    frame,
    recompiled,
    record,
    recording,
    why,
)

MEASURES = Counts(
    break_sites=1, skipped_frames=0, graphs=2, compiles=2, recompiles=0, frames_over_limit=0
)
FACTS = recording(breaks=(record(entry(12, 'log.info("x")')),))


def plain():
    (finding,) = diagnosed(FACTS).findings
    return finding


def setting_of(finding):
    return next(fix.setting for fix in finding.fixes if fix.setting)


def with_trials(*tried, gone=()):
    (finding,) = diagnosed(
        FACTS.replace(treatment=Treatment(tried=tried, before=MEASURES, gone=gone))
    ).findings
    return finding


def tried(**values):
    known: dict[str, Any] = {
        "title": "Let torch do it",
        "kind": "config",
        "is_safe": True,
        "code": "GD101",
        "fingerprint": plain().fingerprint,
        "finding_place": "model.py:12",
        "round": 1,
        "is_on_untouched": True,
        "verdict": "verified",
    }
    return TriedFix(**known | values)


def codes(fixes):
    return [fix.snippet for fix in fixes]


def test_tried_setting_keeps_its_source_and_replaces_the_suggestion():
    setting = setting_of(plain())
    suggested = next(fix for fix in plain().fixes if fix.setting == setting)
    finding = with_trials(tried(snippet=setting.code, setting=setting))
    shown = [fix for fix in finding.fixes if fix.setting == setting]
    assert [(fix.verdict, fix.source) for fix in shown] == [("verified", suggested.source)]
    assert len(finding.fixes) == len(plain().fixes)


def test_suggestion_tried_line_by_line_is_not_repeated():
    changes = [change(expression=f"x.shape[{dim}]", source="L['x']") for dim in (0, 1)]
    facts = recording(frames=(frame(),), compiles=(compiled(), recompiled("0/1", *changes)))
    facts = facts.replace(target=facts.target.replace(parameters=("x",)))
    (finding,) = diagnosed(facts).findings
    lines = (finding.fixes[0].snippet or "").splitlines()
    assert len(lines) == 2
    each = tuple(
        tried(kind="call", snippet=line, fingerprint=finding.fingerprint) for line in lines
    )
    (treated,) = diagnosed(facts.replace(treatment=Treatment(tried=each, before=MEASURES))).findings
    assert finding.fixes[0].snippet not in codes(treated.fixes)


def test_a_tried_edit_replaces_what_the_rule_suggests_in_code():
    finding = with_trials(tried(kind="code", diff="--- a\n+++ b\n"))
    assert [fix.kind for fix in finding.fixes].count("code") == 1
    assert finding.fixes[0].diff


def test_verified_fixes_come_first_and_failed_ones_last():
    failed = tried(kind="call", snippet="a()", verdict="failed")
    shown = codes(with_trials(failed, tried(kind="call", snippet="b()")).fixes)
    assert (shown[0], shown[-1]) == ("b()", "a()")


def test_a_fix_tried_only_beside_others_still_shows():
    beside = tried(kind="call", snippet="b()", is_on_untouched=False)
    assert "b()" in codes(with_trials(beside).fixes)
    alone = tried(kind="call", snippet="a()")
    assert "b()" not in codes(with_trials(beside, alone).fixes)
    # What is applied at the end is shown, whatever failed before.
    applied = beside.replace(is_applied=True)
    assert codes(with_trials(alone.replace(verdict="failed"), applied).fixes)[0] == "b()"


def test_a_finding_that_all_verified_fixes_remove_is_mended():
    assert not plain().is_mended
    assert with_trials(gone=(plain().fingerprint,)).is_mended


def test_fix_tried_twice_shows_its_last_trial():
    first, last = (
        tried(kind="call", snippet="a()"),
        tried(kind="call", snippet="a()", verdict="no effect"),
    )
    assert [fix.verdict for fix in with_trials(first, last).fixes if fix.snippet == "a()"] == [
        "no effect"
    ]
    applied = first.replace(is_applied=True)
    assert [fix.verdict for fix in with_trials(applied, last).fixes if fix.snippet == "a()"] == [
        "verified"
    ]


def test_finding_removed_by_anothers_fix_goes_with_it():
    mine = plain()
    of_another: dict[str, Any] = {
        "code": "GD102",
        "fingerprint": "f" * 16,
        "finding_place": "model.py:7",
    }
    other = tried(**of_another, sites_gone=(mine.site,), is_applied=True)
    found = with_trials(other, gone=(mine.fingerprint,)).goes_with
    assert found is not None
    assert {
        "code": found.code,
        "fingerprint": found.fingerprint,
        "finding_place": found.place,
    } == of_another
    # Nothing is said of what no trial showed, of fixes that aren't there at the end, and of a
    # finding with its own fix.
    for wrong in (
        {"sites_gone": ()},
        {"is_applied": False},
        {"verdict": "no effect"},
        {"is_on_untouched": False},
    ):
        assert with_trials(other.replace(**wrong), gone=(mine.fingerprint,)).goes_with is None
    assert with_trials(other).goes_with is None
    assert with_trials(other, tried(), gone=(mine.fingerprint,)).goes_with is None


def edits(*rows):
    """Fixes of other findings, ``(line, trial, is_applied)``, that removed this one's site."""
    return [
        tried(
            kind="code",
            code="GD102",
            title=f"Edit line {line}",
            fingerprint=f"{line:016}",
            finding_place=f"model.py:{line}",
            recording=trial,
            is_applied=is_applied,
            sites_gone=(plain().site,),
        )
        for line, trial, is_applied in rows
    ]


@for_each(
    "rows, line",
    [
        # In one trial with another, nobody knows whose doing it is.
        (((7, "t1", True), (9, "t1", True)), None),
        # The trial of one alone shows it, before or after, applied itself or not.
        (((7, "t1", True), (9, "t1", True), (9, "t2", False)), 9),
        (((9, "t2", False), (7, "t1", True), (9, "t1", True)), 9),
        (((7, "t1", True), (9, "t2", True)), 7),
        # What isn't applied at the end is no reason.
        (((7, "t2", False), (9, "t1", True)), 9),
        (((7, "t1", True), (8, "t1", True), (9, "t3", False)), None),
        # All that the trials have in common is one edit.
        (((9, "t1", True), (9, "t2", True)), 9),
    ],
)
def test_of_several_edits_the_one_whose_own_trial_removed_it_is_named(rows, line):
    found = with_trials(*edits(*rows), gone=(plain().fingerprint,)).goes_with
    assert (found and found.place) == (line and f"model.py:{line}")


def test_one_edit_for_several_findings_is_one_edit():
    first, second = edits((7, "t1", True), (9, "t1", True))
    both = first, second.replace(title=first.title)
    found = with_trials(*both, gone=(plain().fingerprint,)).goes_with
    assert found is not None
    assert found.place == "model.py:7"


def test_code_without_a_possible_edit_is_described():
    known = FACTS.replace(sources=(context(12, 'log.info("x")'),))
    (bare,) = diagnosed(known).findings
    treatment = Treatment(
        tried=(), before=MEASURES, declined={bare.fingerprint: "the call's value is used"}
    )
    (finding,) = diagnosed(known.replace(treatment=treatment)).findings
    (untried,) = diagnosed(
        known.replace(declined=DeclinedEdits(reasons=treatment.declined))
    ).findings
    assert untried.fixes == finding.fixes
    shown = next(fix for fix in finding.fixes if fix.kind == "code")
    assert why(shown) == "no edit: the call's value is used"
    assert [fix.snippet for fix in finding.fixes if fix.setting] == [
        fix.snippet for fix in bare.fixes if fix.setting
    ]
