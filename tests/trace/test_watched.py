"""What is made of the records of watched calls, on hand-built records."""

from typing import Any

from graphdoctor.trace.events import WatchedCalls, call_watch
from graphdoctor.trace.gaps import watch_gaps
from tests.each import for_each

Record = dict[str, Any]


def call(number, us=100.0, *, ops=None, **changes):
    """A steady call; profiled if its operations in graphs and outside are given."""
    made = {
        "function": 0,
        "call": number,
        "outcome": "steady",
        "duration_us": us,
        "is_profiled": ops is not None,
    }
    if ops is not None:
        made |= {
            "graph_ops": ops[0],
            "eager_ops": ops[1],
            "eager_op_names": {"aten::add": ops[1]},
            "graph_runs": 1,
        }
    return {**made, "cost_us": 10.0, **changes}


def called(calls, last_compile=1, **changes):
    made = {
        "function": 0,
        "compiled": "f",
        "file": "/project/train.py",
        "line": 7,
        "calls": calls,
        "unwatched": {},
    }
    made |= {"last_compile": last_compile, "compiling_calls": 0 if last_compile is None else 1}
    return {**made, "is_deferred": False, "is_end": True, **changes}


def process(*functions):
    seen = {}
    for number, (counts, calls) in enumerate(functions):
        watched = [{**fields, "function": number} for fields in calls]
        seen[number] = WatchedCalls({**counts, "function": number}, watched)
    return seen


def watch_of(*functions):
    watch = call_watch([(None, process(*functions))])
    assert watch is not None
    return watch


def only(counts, *calls):
    (function,) = watch_of((counts, list(calls))).functions
    return function


def test_last_profiled_call_and_median_of_fifteen_count():
    times = [call(number, float(number)) for number in range(3, 30)]
    function = only(
        called(40), call(2, 900, ops=(1, 9)), *times, call(30, 950, ops=(3, 1)), call(31, 9000.0)
    )
    assert function.coverage is not None
    assert (function.coverage.share, function.coverage_call, function.graph_runs) == (0.75, 30, 1)
    # 16 to 29, and 9000.
    assert (function.steady_us, function.timed_calls) == (23.0, 15)
    assert (function.calls, function.watched_calls, function.is_settled) == (40, 30, True)


@for_each(
    "counts, calls, reason",
    [
        (called(1), [], "once"),
        (called(2, 2), [], "compiling"),
        (called(3), [call(2, outcome="compiled"), call(3, outcome="compiled")], "compiling"),
        (called(3), [call(2, outcome="raised")], "raised"),
        (called(3, 3), [call(2, outcome="raised"), call(3, outcome="raised")], "raised"),
        (called(3), [call(2, outcome="profiled")], "profiler"),
        (called(3, unwatched={"profiler": 2}), [], "profiler"),
        (called(3, unwatched={"capture": 2}), [], "capture"),
        (called(3, unwatched={"nested": 2}), [], "nested"),
        (called(3, unwatched={"busy": 1}), [], "busy"),
        (called(3, is_deferred=True), [], "deferred"),
        (called(3), [call(2), call(3)], "cost"),
        (called(3), [], "few"),
        (called(1, is_end=False), [], "ended"),
    ],
)
def test_why_a_function_has_no_coverage(counts, calls, reason):
    watch = watch_of((counts, calls))
    assert watch.functions[0].not_covered == reason
    assert watch.coverage is None
    gaps = [gap.message for gap in watch_gaps(watch)]
    assert len(gaps) == (reason != "nested")
    assert all(
        message.startswith("Coverage of `f`, compiled at train.py:7, is unknown")
        for message in gaps
    )


def test_program_numbers_are_sums_or_unknown():
    covered = (called(9), [call(2, ops=(3, 1)), call(3, 100.0)])
    both = watch_of(covered, (called(9, compiled="g"), [call(2, ops=(1, 5)), call(3, 50.0)]))
    assert both.coverage is not None
    assert (both.coverage.graph_ops, both.coverage.eager_ops, both.coverage.share) == (4, 6, 0.4)
    assert both.coverage.eager_op_names == {"aten::add": 6}
    assert (both.steady_us, both.graph_runs, both.calls) == (150.0, None, 18)

    lacking = watch_of(covered, (called(1, compiled="g"), []))
    assert (lacking.coverage, lacking.steady_us) == (None, None)
    nested = watch_of(covered, (called(5, compiled="g", unwatched={"nested": 4}), []))
    assert nested.coverage is not None
    assert (nested.coverage.share, nested.steady_us, nested.graph_runs) == (0.75, 100.0, 1)
