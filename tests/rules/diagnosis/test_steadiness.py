"""Whether a program stops compiling, on hand-built recordings."""

from __future__ import annotations

from graphdoctor.facts.counts import CallWatch, WatchedFunction
from graphdoctor.facts.recording import Call, Repeats
from graphdoctor.views.report import compiles_texts
from graphdoctor.views.words import verdict
from tests.factories import change, compiled, diagnosed, frame, recompiled

FORWARD = frame()


def again(number, *values, call=None, outcome="compiled"):
    """The frame's recompile of this number, because values differ; of a repetition unless the call
    is named."""
    changes = (change("module_number", value, "1", "2") for value in values)
    return recompiled(f"0/{number}", *changes, call=call, outcome=outcome)


def called(*counts):
    return tuple(
        Call(index=index, outcome="ok", compile_count=count)
        for index, count in enumerate(counts, start=1)
    )


def run(*compiles, calls, repeats=None, **more):
    return diagnosed(compiles=compiles, calls=calls, coverage=None, repeats=repeats, **more)


ONCE = Repeats(count=1, is_steady=True)
NEVER = (
    again(2, "self.seen", "self.other", call=3),
    again(3, "self.seen", call=4),
    again(4, "self.seen", call=5, outcome="limit"),
)


def script(*functions, limited=False):
    compiles = (compiled(), *((again(1, "self.n", outcome="limit"),) if limited else ()))
    watch = CallWatch(functions=functions, cost_s=0.0)
    return diagnosed(compiles=compiles, calls=(), coverage=None, watch=watch)


def function(calls, last_compile, in_a_row=1):
    return WatchedFunction(
        compiled="f",
        calls=calls,
        watched_calls=0,
        last_compile=last_compile,
        compiling_calls=in_a_row,
    )


SEEN = [change("module_number", "self.seen", str(old), str(old + 1)) for old in range(2)]
GRAD = change("requires_grad", "x.requires_grad", "False", "True")
ALTERNATING = tuple(
    recompiled(f"0/{at}", found, call=at // 2 + 2)
    for at, found in enumerate((SEEN[0], GRAD, SEEN[1], GRAD))
)
LIMITED = (
    compiled(),
    again(1, "self.seen", call=2),
    again(2, "self.seen", call=3, outcome="limit"),
)

CASES = {
    "quiet when repeated": run(compiled(), calls=called(1), repeats=ONCE),
    "settles late": run(
        compiled(),
        again(1, "self.n", call=2),
        again(2, "self.n", call=3),
        calls=called(1),
        repeats=Repeats(count=3, is_steady=True),
    ),
    "one call that was not repeated": run(compiled(), calls=called(1)),
    "the last call compiled something but not again": run(
        compiled(), again(1, "self.n", call=2), calls=called(1, 1), repeats=ONCE
    ),
    "differs in every recompile": run(
        compiled(),
        again(1, "self.seen", call=2),
        *NEVER,
        calls=called(1, 1),
        repeats=Repeats(count=4, is_steady=True),
    ),
    "new each time where another value alternates with it": run(
        compiled(), *ALTERNATING, calls=called(1), repeats=Repeats(count=2, is_steady=False)
    ),
    "short of the limit": run(
        compiled(),
        again(1, "self.seen", call=2),
        calls=called(1),
        repeats=Repeats(count=1, is_steady=False),
    ),
    "torch doesn't say what differs": run(
        compiled(), calls=called(1), repeats=Repeats(count=3, is_steady=False)
    ),
    "calls that hit the limit": run(*LIMITED, calls=called(1, 1, 0), repeats=ONCE),
    **{
        f"a recompile that ends {outcome}": run(
            compiled(), again(1, "self.n", call=2, outcome=outcome), calls=called(1, 0)
        )
        for outcome in ("skipped", "failed", "empty")
    },
    "a program that makes its own calls": run(compiled(), calls=()),
    "a script of which one function settled late": script(function(40, 1), function(2, None)),
    "a script of one call": script(function(40, 1), function(1, 1)),
    "a script of two compiling calls": script(function(2, 2, 2)),
    "a script whose last two calls compiled": script(function(40, 40, 2)),
    "a script whose last three calls compiled": script(function(40, 40, 3)),
    "a script whose last call compiled nothing": script(function(40, 39, 39)),
    "a script of unknown calls": script(function(None, 1)),
    "a script over its limit": script(function(40, 9, 9), limited=True),
}


def test_one_finding_for_a_function_that_never_settles():
    """Over its limit in repeats of one call, and only there."""
    codes = {name: {finding.code for finding in case.findings} for name, case in CASES.items()}
    assert not [name for name, found in codes.items() if {"GD201", "GD217"} <= found]
    assert "GD217" in codes["differs in every recompile"]
    assert "GD201" in codes["calls that hit the limit"]
    assert "GD201" in codes["a script over its limit"]
    other = recompiled("1/1", change("text", "mode"), call=2, outcome="limit")
    beside = run(
        compiled(),
        again(1, "self.seen", call=2),
        compiled("1/0"),
        other,
        *NEVER,
        calls=called(1, 1),
        repeats=Repeats(count=4, is_steady=True),
        frames=(FORWARD, frame(1, function="other", line=30)),
    )
    assert {"GD201", "GD217"} <= {finding.code for finding in beside.findings}


def test_whether_a_program_stops_compiling(snapshot):
    lines = []
    for name, diagnosis in CASES.items():
        found = diagnosis.summary.steadiness
        lines += [f"# {name}: {found and found.state}", f"    {verdict(diagnosis)[:2]}"]
        if found is not None:
            facts = (
                found.function,
                found.changing,
                found.compiles_to_limit,
                found.limit_call,
                next(compiles_texts(found), None),
            )
            lines.append(f"    {facts}")
        never = [
            (finding.count, finding.message)
            for finding in diagnosis.findings
            if finding.code == "GD217"
        ]
        again = [report.compile_ids for report in diagnosis.recompiles]
        lines.append(
            f"    {diagnosis.summary.recompiles} recompiles {again} {never or ''}".rstrip()
        )
    assert "\n".join(lines) == snapshot
