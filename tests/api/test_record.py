"""``graphdoctor.record``: what a program's own calls of torch.compile do inside a block."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import graphdoctor
from graphdoctor import GraphDoctorError

pytestmark = pytest.mark.slow


def first(x):
    return x.sin() + 1


def second(x):
    y = x * 2
    print("a break")
    return y.cos()


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def line_of(text: str) -> int:
    with open(__file__, encoding="utf-8") as lines:  # noqa: PTH123
        return next(number for number, line in enumerate(lines, start=1) if text in line)


def test_two_functions_and_a_recompile(capsys):
    with graphdoctor.record() as recording:
        one = torch.compile(first, backend="eager")
        two = torch.compile(second, backend="eager")
        one(torch.ones(3))
        two(torch.ones(3))
        one(torch.ones(3, 3))  # another rank

    capsys.readouterr()
    diagnosis = recording.diagnosis
    summary = diagnosis.summary
    # torch's own accounts: first twice, second up to the break and behind it.
    assert (summary.graphs, summary.break_sites, summary.recompiles) == (4, 1, 1)
    (event,) = diagnosis.recompiles
    assert event.function == "first"
    assert event.call_site.line == line_of("# another rank")
    assert [call.compiled for call in diagnosis.recording.compile_calls] == ["first", "second"]
    assert diagnosis.recording.compile_calls[0].arguments == {"backend": "'eager'"}
    assert [f.location.line for f in diagnosis.findings if f.code == "GD101"] == [
        line_of('    print("a break")')
    ]
    assert diagnosis.recording.target.kind == "block"
    assert diagnosis.recording.graphs[0].backend == "eager"
    # Of the stack above the block, which is the test runner's, nothing is shown.
    for frame in diagnosis.frames:
        assert {entry.file for entry in frame.call_path if entry.origin != "torch"} <= {__file__}
    assert recording.report() is recording.report()
    assert recording._repr_html_() == recording.report()._repr_html_()
    assert "4 graphs" in repr(recording.report())


def test_what_was_compiled_before_is_neither_recorded_nor_compiled_again():
    compiled = torch.compile(first, backend="eager")
    compiled(torch.ones(3))

    with graphdoctor.record() as kept:
        compiled(torch.ones(3))
    with graphdoctor.record(reset=True) as anew:
        compiled(torch.ones(3))

    assert not kept.diagnosis.recording.compiles
    assert "compiled before" in str(kept.report())
    assert anew.diagnosis.summary.graphs == 1


def test_an_exception_passes_through_and_is_in_the_report():
    with pytest.raises(KeyError, match="lost"), graphdoctor.record() as recording:
        torch.compile(first, backend="eager")(torch.ones(3))
        raise KeyError("lost")

    diagnosis = recording.diagnosis
    assert diagnosis.summary.graphs == 1
    assert diagnosis.recording.is_partial
    assert diagnosis.recording.exit.message == "The block failed: KeyError: 'lost'"
    assert 'raise KeyError("lost")' in (recording.report().traceback or "")


def test_a_block_has_a_report_once_it_is_over():
    recording = graphdoctor.record()
    with pytest.raises(GraphDoctorError, match="until the block has ended"):
        _ = recording.diagnosis
    with recording, pytest.raises(GraphDoctorError, match="until the block has ended"):
        recording.report()
    assert "Nothing was compiled in the block" in str(recording.report())
    with pytest.raises(GraphDoctorError, match="already used"), recording:
        pass
