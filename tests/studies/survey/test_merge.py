"""Parts of a survey put together."""

from __future__ import annotations

import pytest

from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.survey import SurveyVariant
from graphdoctor.studies.survey.merge import merge_surveys
from graphdoctor.studies.survey.summary import summarize
from tests.studies.survey.reports import report, row

_ROWS = report().rows


def test_counts_and_seconds_add_up():
    merged = merge_surveys([report(_ROWS[:3], planned=4, kept=1), report(_ROWS[3:], kept=2)])
    assert merged.rows == _ROWS
    assert (merged.planned, merged.kept, merged.seconds) == (4 + len(_ROWS) - 3, 3, 520.0)
    assert merged.summary == summarize(
        _ROWS, ["default", "dynamic"], seconds=520.0, made=len(_ROWS) - 3
    )


def test_a_time_that_is_unknown_makes_the_sum_unknown():
    assert merge_surveys([report(_ROWS[:3], seconds=None), report(_ROWS[3:])]).seconds is None


def test_equal_rows_count_once():
    merged = merge_surveys([report(_ROWS[:5]), report(_ROWS[3:])])
    assert (merged.rows, merged.planned) == (_ROWS, len(_ROWS))


def test_different_rows_of_one_piece_are_refused():
    with pytest.raises(GraphDoctorError, match="different results of bert under default"):
        merge_surveys([report([row()]), report([row(seconds=22.0)])])


def test_different_settings_of_one_variant_are_refused():
    other = (SurveyVariant(name="default", settings={"mode": "max-autotune"}),)
    with pytest.raises(GraphDoctorError, match="different ways under the name default"):
        merge_surveys([report([row()]), report([row("b")], variants=other)])


def test_shards_that_are_all_there_make_a_whole():
    merged = merge_surveys([report(_ROWS[3:], shard="2/2"), report(_ROWS[:3], shard="1/2")])
    assert (merged.shard, merged.notes) == (None, ())


def test_a_missing_shard_is_named():
    merged = merge_surveys([report(_ROWS[:3], shard="1/3"), report(_ROWS[3:], shard="3/3")])
    assert merged.shard == "1/3 + 3/3"
    assert merged.notes == ("1 shard missing: 2/3.",)


def test_versions_that_differ_are_a_note():
    merged = merge_surveys(
        [
            report([row()]),
            report(
                [row("b", torch="2.14.0")], graphdoctor_version="0.3.0", options={"bench": False}
            ),
        ]
    )
    assert merged.notes == (
        "The parts have different versions of graphdoctor: 0.2.0, 0.3.0.",
        "The parts have different versions of torch: 2.13.0+cpu, 2.14.0.",
        "The parts were measured with different options: bench, timeout_s.",
    )
    assert merged.options == {}


def test_parts_without_rows_of_a_version_differ_in_none():
    assert merge_surveys([report([row()]), report([])]).notes == ()


def test_one_part_is_itself():
    assert merge_surveys([report()]) == report()
