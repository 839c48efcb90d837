"""What a test expects of a diagnosis: what breaks an expectation, and what keeps it from being
judged at all."""

from __future__ import annotations

from graphdoctor.facts.counts import Coverage
from graphdoctor.facts.recording import CaptureGap, CompileSwitch
from graphdoctor.facts.run import ProbeExit
from graphdoctor.rules.gate import expectations
from tests.each import for_each
from tests.factories import with_facts
from tests.rules.gate.diagnoses import with_prints

CLEAN = with_prints()


def told(broken):
    return None if broken is None else (broken.expected, broken.found)


def with_gap(code, kind):
    return with_facts(CLEAN, gaps=(CaptureGap(code=code, kind=kind, message="Words for people."),))


def counts(**values):
    return CLEAN.replace(summary=CLEAN.summary.replace(**values))


@for_each("limit, expected", [(0, "no graph break"), (1, "at most 1 graph break"), (2, None)])
def test_more_breaks_than_allowed_fail_and_fewer_pass(limit, expected):
    diagnosis = with_prints((5, "a"), (6, "b"))
    broken = expectations.breaks(diagnosis, limit=limit, own_code=False)
    assert told(broken) == (expected and (expected, "2"))
    assert broken is None or broken.findings == diagnosis.findings


def test_breaks_in_packages_are_left_out_of_own_code():
    (finding,) = with_prints((5, "a")).findings
    location = finding.location.replace(origin="package")
    foreign = with_prints((5, "a")).replace(findings=(finding.replace(location=location),))
    assert expectations.breaks(foreign, limit=0, own_code=True) is None
    assert expectations.breaks(foreign, limit=0, own_code=False) is not None
    own = expectations.breaks(with_prints((5, "a")), limit=0, own_code=True)
    assert told(own) == ("no graph break in your own code", "1")


@for_each(
    "values, found",
    [
        ({}, None),
        ({"break_sites": 2}, "2 graph breaks"),
        ({"break_sites": 1, "skipped_frames": 1}, "1 graph break, 1 skipped frame"),
        ({"frames_over_limit": 1}, "1 function over the recompile limit"),
        ({"frames_over_limit": 2}, "2 functions over the recompile limit"),
        ({"graphs": 3, "compiles": 1}, "3 graphs for 1 compile"),
    ],
)
def test_fullgraph_is_one_graph_for_each_compile(values, found):
    broken = expectations.fullgraph(counts(**values))
    assert told(broken) == (found and ("one graph for each compile and nothing eager", found))


@for_each(
    "values, limit, found",
    [
        ({"recompiles": 2}, 2, None),
        ({"recompiles": 2}, 1, "2"),
        (
            {"recompiles": 0, "frames_over_limit": 1},
            9,
            "0, and 1 function over torch's recompile limit",
        ),
    ],
)
def test_recompiles_are_counted_and_torchs_limit_always_fails(values, limit, found):
    broken = expectations.recompiles(counts(**values), limit=limit, is_empty_allowed=False)
    assert (broken and broken.found) == found


@for_each(
    "eager, limit, found",
    [
        (1004, 0.9, "0.8996 (8996 of 10000 operations)"),
        (1004, 0.8996, None),
        (1004, 0.89961, "0.8996 (8996 of 10000 operations)"),
        (5000, 0.9, "0.5 (5000 of 10000 operations)"),
    ],
)
def test_a_coverage_below_the_limit_never_reads_as_the_limit(eager, limit, found):
    detail = Coverage(graph_ops=10000 - eager, eager_ops=eager)
    broken = expectations.coverage(
        counts(coverage=detail.share, coverage_detail=detail), limit=limit
    )
    assert (broken and broken.found) == found


def test_an_unknown_coverage_breaks_the_expectation_and_says_why():
    unknown = with_gap("GD900", "coverage")
    unknown = unknown.replace(summary=unknown.summary.replace(coverage=None, coverage_detail=None))
    broken = expectations.coverage(unknown, limit=0.0)
    assert (broken.found, broken.hint) == ("unknown coverage", "Words for people.")


@for_each(
    "code, kind, found",
    [
        ("GD900", "unrecorded_compile", "a recording with missing records"),
        ("GD902", "unfinished_compile", "a recording with missing records"),
        ("GD902", "guards", None),
        ("GD900", "coverage", None),
        ("GD905", "nothing_compiled", "that nothing was compiled"),
    ],
)
def test_a_gap_is_judged_by_its_kind(code, kind, found):
    broken = expectations.breaks(with_gap(code, kind), limit=0, own_code=False)
    assert (broken and broken.found) == found


def test_ended_or_cut_run_fulfils_no_expectation():
    early = with_prints(exit=ProbeExit(status=1, reason="error", message="It failed."))
    broken = expectations.fullgraph(early)
    assert (broken.found, broken.hint) == ("a recording that ended early", "It failed.")
    cut = with_prints(is_partial=True)
    assert expectations.recompiles(cut, limit=0, is_empty_allowed=True) is not None


@for_each(
    "expectation, arguments",
    [
        (expectations.breaks, {"limit": 0, "own_code": False}),
        (expectations.fullgraph, {}),
        (expectations.recompiles, {"limit": 0, "is_empty_allowed": True}),
        (expectations.coverage, {"limit": 0.0}),
    ],
)
def test_nothing_holds_where_torch_compile_was_off(expectation, arguments):
    switch = CompileSwitch(kind="environment", value="TORCH_COMPILE_DISABLE")
    off = with_prints(graphs=(), frames=(), compiles=(), switches=(switch,))
    broken = expectation(off, **arguments)
    assert "TORCH_COMPILE_DISABLE is set." in (broken.hint or broken.found)
