"""Two surveys side by side: what is a regression, what isn't, and what can't be told."""

from hypothesis import given, settings
from hypothesis import strategies as st

from graphdoctor.facts.survey import SURVEY_STATUSES, SurveyVariant
from graphdoctor.studies.survey.comparison import compare_surveys
from tests.each import for_each
from tests.studies.survey.reports import cause, failed, report, row


def compared(before, after, fail_on="warning", **more):
    """Two surveys of these rows."""
    return compare_surveys(report(before), report(after, **more), version="0", fail_on=fail_on)


def piece_of(before, after):
    """What became of one piece."""
    comparison = compared([before], [after])
    assert len(comparison.pieces) + comparison.unchanged == 1
    return comparison.pieces[0] if comparison.pieces else None


def kinds(changes):
    return [change.kind for change in changes]


def speed(ratio, low, high, **more):
    return row(speedup=ratio, speedup_low=low, speedup_high=high, **more)


# The same.


def test_a_survey_beside_itself_is_unchanged():
    found = compared(report().rows, report().rows)
    assert (found.pieces, found.mismatches, found.new_causes, found.gone, found.added) == (
        (),
        (),
        (),
        (),
        (),
    )
    assert (found.unchanged, found.still_failing, found.exit_code) == (10, 3, 0)


# How it came out.


FAILING = failed("bert", "compile_failed", stage="dynamo", error_type="a.B")
UNJUDGED = ("lost", "skipped", "eager_failed", "no_inputs", "load_failed")
CRASHED = {"attempts": 2, "earlier": ("crashed",)}
COUNTS = ("break_sites", "skipped_frames", "recompiles", "frames_over_limit")
FAILURES = ("compile_failed", "wrong", "not_compiled", "crashed", "timeout", "out_of_memory")
OUTCOMES = [
    *((row(), failed("bert", status, stage="inductor"), "failing", 1) for status in FAILURES),
    (failed("bert", "compile_failed"), row(break_sites=2, causes=(cause(),)), "fixed", 0),
    # What can't be judged any more is no pass, and what was never judged stays so.
    *(
        (before, failed("bert", status), "unknown", 2)
        for before in (row(), FAILING)
        for status in UNJUDGED
    ),
    (row(), failed("bert", "timeout", stage="load"), "unknown", 2),
    *((failed("bert", status), failed("bert", status), None, 0) for status in UNJUDGED),
    (failed("bert", "load_failed"), FAILING, "changed", 0),
    # Nobody uses what fails; somebody may use what is silently wrong.
    (FAILING, row(status="wrong", correct=False), "failing", 1),
    (FAILING, failed("bert", "timeout", stage="call"), "changed", 0),
    (FAILING, FAILING.replace(error_type="c.D"), "changed", 0),
    (FAILING, FAILING.replace(error="at 0x7f"), None, 0),
    # What may be chance is marked, and no regression; what fails each time isn't.
    (row(), failed("bert", "crashed", attempts=2, earlier=("ok",)), "flaky", 0),
    (row(**CRASHED), failed("bert", "crashed", **CRASHED), "flaky", 0),
    (row(**CRASHED), failed("bert", "compile_failed"), "failing", 1),
    (row(), failed("bert", "crashed", **CRASHED), "failing", 1),
    (row(), row(**CRASHED), "flaky", 0),
    (row(), row(**CRASHED, break_sites=1), "worse", 1),
    # Coverage counts beyond noise.
    (row(coverage=1.0), row(coverage=0.98), "worse", 1),
    (row(coverage=1.0), row(coverage=0.995), None, 0),
    (row(coverage=0.6), row(coverage=0.7), "better", 0),
    (row(coverage=None), row(coverage=0.5), None, 0),
    # A finding that moved, or is in the words of another torch, is the same.
    (row(causes=(cause(line=41),)), row(causes=(cause(line=99),)), None, 0),
    (row(causes=(cause(),)), row(causes=(cause(fingerprint="other", line=90),)), None, 0),
    (row(causes=(cause(),)), row(causes=(cause(), cause(fingerprint="f2"))), "worse", 1),
    (row(), row(causes=(cause(severity="info"),)), "worse", 0),
    (row(causes=(cause(),)), row(break_sites=None), "unknown", 2),
    # Intervals that touch, what two processes differ by, and what the noise of both machines makes.
    (speed(1.5, 1.3, 1.7), speed(1.2, 1.1, 1.3), None, 0),
    (speed(1.50, 1.499, 1.501), speed(1.47, 1.469, 1.471), None, 0),
    (speed(1.5, 1.49, 1.51, noise=1.04), speed(1.4, 1.39, 1.41, noise=0.96), None, 0),
    (speed(1.5, 1.49, 1.51, noise=1.04), speed(1.4, 1.39, 1.41, noise=1.0), "worse", 1),
]


@for_each("before, after, verdict, exit_code", OUTCOMES)
def test_what_a_piece_came_to_decides_what_became_of_it(before, after, verdict, exit_code):
    found = compared([before], [after])
    assert ([piece.verdict for piece in found.pieces], found.exit_code) == (
        [verdict] if verdict else [],
        exit_code,
    )
    assert compared([before], [after], fail_on="never").exit_code == (2 if exit_code == 2 else 0)


def test_pieces_and_changes_come_worst_first():
    new = cause(fingerprint="f2", line=50, text="y.item()")
    before = [row("a", causes=(cause(),)), *(row(name) for name in "bcd")]
    after = [row("a", causes=(cause(), new)), row("b"), failed("c", "lost"), failed("d", "wrong")]
    found = compared(before, after)
    assert [piece.verdict for piece in found.pieces] == ["unknown", "failing", "worse"]
    assert [piece.worse[0].severity for piece in found.pieces[1:]] == ["error", "warning"]
    assert found.pieces[2].worse[0].cause.fingerprint == "f2"
    assert [(shared.code, shared.lines, shared.targets) for shared in found.new_causes] == [
        ("GD101", (50,), ("a",))
    ]


# Counts, coverage, what is or isn't.


@for_each(
    "name, good, bad",
    [
        *((name, 1, 2) for name in COUNTS),
        *((name, True, False) for name in ("correct", "exports", "is_steady")),
    ],
)
def test_what_got_worse_is_told_from_what_got_better(name, good, bad):
    piece = piece_of(row(**{name: good}), row(**{name: bad}))
    assert (kinds(piece.worse), piece.worse[0].before, piece.worse[0].after) == ([name], good, bad)
    assert (kinds(piece_of(row(**{name: bad}), row(**{name: good})).better), piece.better) == (
        [name],
        (),
    )
    assert piece_of(row(**{name: bad}), row(**{name: bad})) is None


@for_each("name", [*COUNTS, "coverage", "speedup", "correct", "exports"])
def test_a_measure_that_is_unknown_now_is_no_pass(name):
    before, other = row(exports=True), row("b", exports=True)
    unknown = before.replace(**{name: None})
    comparison = compared([before, other], [unknown, other])
    (piece,) = comparison.pieces
    assert (piece.verdict, piece.unknown, comparison.exit_code) == ("unknown", (name,), 2)
    # All rows lost what was asked for.
    assert compared([before], [unknown], options={"bench": True, "export": True}).exit_code == 2


def test_columns_not_requested_later_are_reported_once():
    unmeasured = {
        "correct": None,
        "speedup": None,
        "speedup_low": None,
        "speedup_high": None,
        "call_us": None,
        "eager_us": None,
    }
    found = compared(
        [row()], [row(**unmeasured, compile_cold_s=None)], options={"timeout_s": 600.0}
    )
    assert (found.pieces, found.exit_code) == ((), 0)
    assert ("options", "bench") in {(one.aspect, one.name) for one in found.mismatches}


# Speed.


@for_each("noisy", [True, None])
def test_a_noisy_machine_says_nothing_and_is_counted(noisy):
    for before, after in (({}, {"is_noisy": noisy}), ({"is_noisy": noisy}, {})):
        found = compared([speed(1.5, 1.45, 1.55, **before)], [speed(0.5, 0.45, 0.55, **after)])
        assert (found.pieces, found.noisy, found.unchanged) == ((), 1, 1)


# What is in one of the two alone, and how the surveys differ.


@for_each(
    "before, after, gone, added, exit_code",
    [
        ([row(), row("gpt2")], [row()], ["gpt2"], [], 2),
        ([row()], [row(), failed("new", "compile_failed")], [], ["new"], 0),
    ],
)
def test_gone_piece_is_no_pass_and_new_one_fails_nothing(before, after, gone, added, exit_code):
    found = compared(before, after)
    assert ([each.name for each in found.gone], [each.name for each in found.added]) == (
        gone,
        added,
    )
    assert found.exit_code == exit_code


OTHER = {"variants": (SurveyVariant(name="default", settings={"mode": "max-autotune"}),)}
OLD = [row(name, torch="2.13.0", library="timm 1.0") for name in "abc"]
NEW = [
    row(name, torch="2.14.0" if name < "c" else "2.13.0", library="timm 1.1", device="H200")
    for name in "abc"
]
MOVED = [
    ("torch", "2.13.0", "2.14.0", 2),
    ("device", "cpu", "H200", 3),
    ("library", "timm 1.0", "timm 1.1", 3),
]


@for_each(
    "before, after, expected",
    [
        (report(OLD), report(NEW), MOVED),
        (
            report([row()], shard="1/2"),
            report([row()], shard="2/2"),
            [("shard", "1/2", "2/2", None)],
        ),
        (report([row(calls=2)]), report([row(calls=3, recompiles=1)]), [("calls", "2", "3", 1)]),
        (report([row()]), report([failed("bert", "lost", torch=None)]), []),
        (
            report([row()]),
            report([row()], **OTHER),
            [("variant", "backend=inductor", "mode=max-autotune", None)],
        ),
    ],
)
def test_how_the_surveys_differ_is_said(before, after, expected):
    found = compare_surveys(before, after, version="0").mismatches
    assert [(one.aspect, one.before, one.after, one.pieces) for one in found] == expected


# Added up.


def test_means_are_of_the_pieces_that_both_have_and_pass():
    before = [
        speed(2.0, 1.9, 2.1),
        row("b", speedup=8.0, speedup_low=7.0, speedup_high=9.0),
        row("gone"),
    ]
    after = [speed(1.0, 0.9, 1.1), failed("b", "timeout"), row("new", speedup=100.0)]
    (variant,) = compared(before, after).variants
    assert (variant.pieces, variant.judged, variant.passed_before, variant.passed_after) == (
        2,
        2,
        2,
        1,
    )
    assert (variant.timed, variant.speedup_before.ratio, variant.speedup_after.ratio) == (
        1,
        2.0,
        1.0,
    )
    assert (variant.compile_cold_s_before, variant.compile_cold_s_after) == (8.0, 8.0)


_ROW = st.builds(
    row,
    status=st.sampled_from(SURVEY_STATUSES),
    stage=st.sampled_from([None, "load", "dynamo", "call"]),
    earlier=st.sampled_from([(), ("crashed",), ("ok",)]),
    break_sites=st.none() | st.integers(0, 2),
    coverage=st.none() | st.floats(0, 1),
    speedup=st.none() | st.floats(0.1, 10),
    is_noisy=st.none() | st.booleans(),
    noise=st.none() | st.floats(0, 2),
    correct=st.none() | st.booleans(),
    causes=st.lists(
        st.sampled_from([cause(), cause(fingerprint="f2"), cause(text="b", fingerprint="f3")])
    ).map(tuple),
)


@settings(max_examples=300, deadline=None)
@given(_ROW, _ROW)
def test_nothing_is_a_regression_both_ways_unless_both_have_something(before, after):
    there, back = compared([before], [after]), compared([after], [before])
    assert compared([before], [before]).exit_code == 0
    for found in (there, back):
        assert found.exit_code in (0, 1, 2)
        assert len(found.pieces) + found.unchanged == 1
    if there.pieces and there.pieces[0].is_unjudged:
        assert there.exit_code == 2
    # What passes now was never made worse by how it came out.
    if after.is_passed and there.pieces:
        assert all(change.kind != "status" for change in there.pieces[0].worse)
    if before.is_passed and after.is_judged and not after.is_passed:
        assert there.pieces
    same = (
        before.status == after.status
        and after.status == "ok"
        and before.is_judged
        and after.is_judged
    )
    if same and there.pieces and back.pieces:
        worse, better = there.pieces[0].worse, back.pieces[0].better
        assert sorted(kinds(worse)) == sorted(kinds(better))
