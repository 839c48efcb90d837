"""What findings and counts are made of hand-built facts."""

from __future__ import annotations

from graphdoctor.facts.recording import BreakReason, Call, CallError, Enclosing
from graphdoctor.rules.diagnosis.selection import Selection
from tests.factories import (
    FILE,
    LOOP,
    PRINT,
    compiled,
    context,
    diagnosed,
    entry,
    frame,
    graph,
    record,
    recording,
)
from tests.rules.said import said_in_full

METHOD = BreakReason(gb_type="Unsupported method call", torch_id="GB0156")
ITEM = BreakReason(gb_type="Unsupported Tensor.item() call", torch_id="GB0124")
ODD = BreakReason(
    gb_type="Something new", torch_id="GB9999", explanation="No idea.", hints=("Try X.",)
)


def helper_break():
    """A print in ``helper``, which ``forward`` calls: torch logs it for both frames and resumes
    both."""
    line = entry(3, function="helper", qualname="helper")
    return recording(
        breaks=(
            record(entry(11, "y = self.helper(x)"), line, compile_id="0/0"),
            record(line, compile_id="1/0"),
        ),
        frames=(
            frame(0),
            frame(1, function="helper", line=2),
            frame(2, function="helper", line=2, resumes_at=3),
            frame(3, resumes_at=11),
        ),
        compiles=tuple(compiled(f"{n}/0") for n in range(4)),
        graphs=tuple(graph(f"{n}/0", index=i) for i, n in enumerate((0, 2, 3))),
    )


def nested_break(*resumed):
    """A print two calls deep, inside what torch can't continue, and the functions that it continues
    all the same."""
    calls = (
        entry(11, "y = self.middle(x)"),
        entry(21, "return self.inner(x)", function="middle", qualname="Net.middle"),
        entry(31, function="inner", qualname="Net.inner"),
    )
    return recording(
        breaks=(record(*calls, effect="rest_eager"),),
        frames=(frame(0), *resumed),
        compiles=tuple(compiled(f"{one.frame_id}/0") for one in (frame(0), *resumed)),
    )


def test_only_discontinued_code_is_left_to_eager_mode():
    outer, middle = frame(1, resumes_at=11), frame(2, function="middle", line=20, resumes_at=21)
    known = {
        (): ["Net.forward"],
        (outer,): ["Net.middle", "Net.inner"],
        (outer, middle): ["Net.inner"],
    }
    for resumed, names in known.items():
        found = diagnosed(nested_break(*resumed))
        assert [*found.findings[0].effects.rest_eager_frames] == names
        assert found.frames[0].state == ("compiled" if resumed else "partly_eager")


def inside_torch(function):
    """A break in torch's own code; what is compiled was called at line 28."""
    inside = entry(
        79, "self.logger.log()", file="/site/torch/nn/parallel.py", origin="torch", qualname=None
    )
    stack = (entry(28, "loss.backward()", function=function), entry(70, "def log", origin="torch"))
    return recording(breaks=(record(inside, chain=(METHOD,)),), compiles=(compiled(stack=stack),))


def compiled_in_torch():
    """A module of torch's is compiled, whose own code breaks."""
    made = entry(23, "compiled = torch.compile(model)", function="<module>")
    inside = entry(
        79, "self.logger.log()", file="/site/torch/nn/parallel.py", origin="torch", qualname=None
    )
    return recording(breaks=(record(made, inside, chain=(METHOD,)),), frames=(frame(line=23),))


def failed_call(eager):
    trace = f'Traceback (most recent call last):\n  File "{FILE}", line 12, in forward\n    x.reshape(7)\nValueError: b\n'
    said = "shapes differ" if eager == "RuntimeError" else None
    error = CallError(
        type="ValueError", message="bad shape", traceback=trace, eager=eager, eager_message=said
    )
    return recording(calls=(Call(index=1, outcome="error", error=error),), coverage=None)


SIZES = tuple(
    compiled(
        f"0/{n}",
        reasons=(f"0/{n - 1}: tensor 'x' size mismatch at index 0. expected {n}, actual {n + 1}",),
    )
    for n in (1, 2)
)
CASES = {
    "a break in a helper": helper_break(),
    "a skipped function": recording(
        breaks=(record(entry(14), effect="frame_skipped", chain=(PRINT, LOOP)),),
        compiles=(compiled(outcome="skipped"),),
        graphs=(),
        sources=(
            context(
                14, 'print("x")', Enclosing(kind="for", line=12, text="for layer in self.layers:")
            ),
        ),
    ),
    "the rest runs eagerly": recording(breaks=(record(entry(12), effect="rest_eager"),)),
    "an unknown break": recording(breaks=(record(entry(5), chain=(ODD,)),)),
    "inside torch, called by the program": inside_torch("<module>"),
    "inside torch, called by what is compiled": inside_torch("forward"),
    "in a module of torch's that is compiled": compiled_in_torch(),
    "two causes on one line": recording(
        breaks=(record(entry(7)), record(entry(7), chain=(ITEM,), compile_id="1/0"))
    ),
    "recompiles": recording(compiles=(compiled(), *SIZES)),
    **{
        f"a call that raises, in eager mode: {eager}": failed_call(eager)
        for eager in ("ok", "RuntimeError", None)
    },
    "nothing is known": recording(coverage=None, compiles=(compiled().replace(duration_s=None),)),
    "a value that is used": recording(breaks=(record(entry(5, "x = helper(print(x))")),)),
}


def test_what_findings_and_counts_are_made(snapshot):
    assert said_in_full(CASES) == snapshot


def test_fingerprints_survive_lines_moving_and_tell_equal_lines_apart():
    (here,) = diagnosed(recording(breaks=(record(entry(5)),))).findings
    (moved,) = diagnosed(recording(breaks=(record(entry(50, 'print("x")   # why')),))).findings
    assert here.fingerprint == moved.fingerprint
    twice = diagnosed(
        recording(breaks=(record(entry(5)), record(entry(6), compile_id="1/0")))
    ).findings
    assert len({finding.fingerprint for finding in twice}) == 2
    assert here.fingerprint in {
        finding.fingerprint for finding in twice if finding.location.line == 5
    }
    (renamed,) = diagnosed(recording(breaks=(record(entry(5, qualname="Other.forward")),))).findings
    assert renamed.fingerprint != here.fingerprint


def test_package_fingerprint_is_independent_of_its_location():
    def at(prefix):
        place = entry(
            5, file=f"{prefix}/site-packages/pkg/sub/mod.py", origin="third_party", package="pkg"
        )
        return diagnosed(recording(breaks=(record(place),))).findings[0].fingerprint

    assert at("/venv/a/lib") == at("/home/b/lib")


def test_selection_hides_findings_and_changes_no_count():
    package = entry(5, file="/lib/site-packages/pkg/mod.py", origin="third_party", package="pkg")
    facts = recording(breaks=(record(entry(5)), record(package, compile_id="1/0")))
    own = diagnosed(facts, selection=Selection(is_own_code_only=True))
    assert [finding.location.package for finding in own.findings] == [None]
    assert (own.summary.hidden_findings, own.summary.break_sites) == (1, 2)
    assert diagnosed(facts, selection=Selection(select=("GD2",))).findings == ()
    assert diagnosed(facts, selection=Selection(ignore=("GD101",))).findings == ()
