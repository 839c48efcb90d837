"""Rows added up."""

import math

import pytest

from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.survey import SurveyVariant
from graphdoctor.studies.survey.summary import (
    mean_speedup,
    merge_surveys,
    shared_causes,
    shared_export_causes,
    summarize,
)
from tests.each import for_each
from tests.studies.survey.reports import cause, export_stop, failed, report, row


def _group(rows, variants=("default",), **which):
    summary = summarize(rows, variants, seconds=None, made=0)
    wanted = {"variant": "default", "family": None} | which
    return next(
        one for one in summary.groups if (one.variant, one.family) == tuple(wanted.values())
    )


BROKEN = ({"break_sites": 1}, {"skipped_frames": 1}, {"frames_over_limit": 1})


@for_each(
    "other, judged, passed, whole",
    [
        *(
            (failed("b", status, stage=stage), 1, 1, 1)
            for status, stage in (
                ("eager_failed", "eager"),
                ("no_inputs", "prepare"),
                ("load_failed", "load"),
                ("timeout", "load"),
                ("skipped", None),
                ("lost", None),
            )
        ),
        *(
            (failed("b", status, stage=stage), 2, 1, 1)
            for status, stage in (
                ("wrong", None),
                ("not_compiled", None),
                ("compile_failed", "inductor"),
                ("crashed", "call"),
                ("timeout", "bench"),
                ("out_of_memory", "dynamo"),
            )
        ),
        *((row("b", **counts), 2, 2, 1) for counts in BROKEN),
    ],
)
def test_a_row_counts_by_how_it_came_out(other, judged, passed, whole):
    group = _group([row("a"), other])
    assert (group.pieces, group.judged, group.passed, group.whole) == (2, judged, passed, whole)
    assert group.pass_rate == passed / judged


def test_a_mean_is_that_of_logarithms():
    mean = mean_speedup(
        [
            row(speedup=2.0, speedup_low=1.8, speedup_high=2.2),
            row(speedup=0.5, speedup_low=0.4, speedup_high=0.6),
        ]
    )
    assert mean.ratio == pytest.approx(1.0)
    assert mean.low == pytest.approx(
        math.exp(-math.hypot(math.log(2 / 1.8), math.log(0.5 / 0.4)) / 2)
    )
    assert mean.high == pytest.approx(
        math.exp(math.hypot(math.log(2.2 / 2), math.log(0.6 / 0.5)) / 2)
    )


def test_variants_are_compared_over_targets_that_all_of_them_ran():
    rows = [
        row("a", speedup=2.0),
        row("a", "dynamic", speedup=1.5),
        row("b", speedup=0.5),
        failed("b", "compile_failed", variant="dynamic"),
    ]
    plain, dynamic = (
        _group(rows, ("default", "dynamic"), variant=name) for name in ("default", "dynamic")
    )
    assert (plain.speedup.ratio, dynamic.speedup.ratio) == pytest.approx((1.0, 1.5))
    assert (plain.speedup_shared.ratio, dynamic.speedup_shared.ratio) == pytest.approx((2.0, 1.5))
    assert _group(rows[:1]).speedup_shared is None


def test_families_follow_all_rows():
    rows = [row("a", family="text"), row("b", family="vision"), row("c", family=None)]
    summary = summarize(rows, ["default"], seconds=3600.0, made=3)
    assert [(one.family, one.pieces) for one in summary.groups] == [
        (None, 3),
        ("text", 1),
        ("vision", 1),
    ]
    assert summary.pieces_per_hour == 3


def test_a_shared_helper_is_one_cause():
    rows = [
        row("a", causes=(cause(line=41), cause(line=44))),
        row("b", causes=(cause(line=44, fix_verdict="verified"),)),
        row("b", "dynamic", causes=(cause(line=44),)),
        row("c", causes=(cause(file="other.py"),)),
    ]
    first, second = shared_causes(rows)
    assert (first.targets, first.lines, first.rows, first.fix_verified) == (
        ("a", "b"),
        (41, 44),
        3,
        ("b",),
    )
    assert second.file == "other.py"


def test_functions_of_one_target_are_one_cause():
    rows = [
        row("a", causes=(cause(file="a.py", line=4), cause(file="a.py", line=2))),
        row("b", causes=(cause(file="b.py"),)),
        row("c", causes=(cause(file="c.py", code="GD102"),)),
    ]
    first, second = shared_causes(rows)
    assert (first.functions, first.places, first.targets) == (
        2,
        ("a.py:2", "a.py:4", "b.py:41"),
        ("a", "b"),
    )
    assert (first.file, first.lines) == ("a.py", (2, 4))
    assert (second.functions, second.places) == (1, ("c.py:41",))


def test_what_export_stops_at_is_one_cause_wherever_it_is():
    stops = [
        export_stop(file=f"{name}.py", line=number, function=name)
        for number, name in enumerate("abc", 1)
    ]
    other = export_stop(code="GD600", message="torch.export can't read `print`")
    rows = [
        row(stop.function, export_causes=(stop, other) if stop.function == "b" else (stop,))
        for stop in stops
    ]
    cache, printing = shared_export_causes([*rows, row("d", exports=True)])
    assert (cache.targets, cache.functions, cache.places) == (
        ("a", "b", "c"),
        3,
        ("a.py:1", "b.py:2", "c.py:3"),
    )
    assert (printing.code, printing.targets) == ("GD600", ("b",))
    summary = summarize(rows, ["default"], seconds=None, made=0)
    assert (summary.export_causes, summary.export_cause_count, summary.causes) == (
        (cache, printing),
        2,
        (),
    )


def test_what_most_targets_have_comes_first_and_hints_last():
    rows = [
        row(
            name,
            causes=(
                cause(code="GD501", severity="info", function="f"),
                cause(code="GD102", function="g"),
            ),
        )
        for name in ("a", "b")
    ]
    rows.append(
        row("c", causes=(cause(code="GD501", severity="info", function="f"), cause(code="GD103")))
    )
    assert [found.code for found in shared_causes(rows)] == ["GD102", "GD103", "GD501"]


# Parts of a survey put together.

_ROWS = report().rows


def test_counts_and_seconds_add_up():
    merged = merge_surveys([report(_ROWS[:3], planned=4, kept=1), report(_ROWS[3:], kept=2)])
    assert merged.rows == _ROWS
    assert (merged.planned, merged.kept, merged.seconds) == (4 + len(_ROWS) - 3, 3, 520.0)
    assert merged.summary == summarize(
        _ROWS, ["default", "dynamic"], seconds=520.0, made=len(_ROWS) - 3
    )


@for_each(
    "parts, planned, shard, notes",
    [
        ([report(_ROWS[:5]), report(_ROWS[3:])], len(_ROWS), None, ()),
        ([report(_ROWS[3:], shard="2/2"), report(_ROWS[:3], shard="1/2")], len(_ROWS), None, ()),
        (
            [report(_ROWS[:3], shard="1/3"), report(_ROWS[3:], shard="3/3")],
            len(_ROWS),
            "1/3 + 3/3",
            ("Of 3 shards, these are missing: 2.",),
        ),
    ],
)
def test_rows_of_several_parts_count_once(parts, planned, shard, notes):
    merged = merge_surveys(parts)
    assert {*merged.rows} == {*_ROWS}
    assert (merged.planned, merged.shard, merged.notes) == (planned, shard, notes)


_OTHER = (SurveyVariant(name="default", settings={"mode": "max-autotune"}),)


@for_each(
    "other, message",
    [
        (report([row(seconds=22.0)]), "different results of bert under default"),
        (report([row("b")], variants=_OTHER), "different ways under the name default"),
    ],
)
def test_parts_that_contradict_each_other_are_refused(other, message):
    with pytest.raises(GraphDoctorError, match=message):
        merge_surveys([report([row()]), other])


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
        "The parts have different options: bench, timeout_s.",
        "The parts have different versions of graphdoctor: 0.2.0, 0.3.0.",
        "The parts have different versions of torch: 2.13.0+cpu, 2.14.0.",
    )
    assert merged.options == {}
