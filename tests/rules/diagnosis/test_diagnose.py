"""What findings and counts are made of hand-built facts."""

from __future__ import annotations

from graphdoctor.facts.recording import BreakReason, Call, CallError, Enclosing, Recording
from graphdoctor.rules.diagnosis.selection import Selection
from tests.each import for_each
from tests.factories import FILE, LOOP, PRINT, compiled, context, diagnosed, entry, frame, graph, record, recording


def helper_break() -> Recording:
    """A print in ``helper``, which ``forward`` calls: torch logs it for both frames and resumes both."""
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


def test_a_break_in_a_helper_is_one_site_with_its_graphs_and_resume_functions() -> None:
    diagnosis = diagnosed(helper_break())
    (finding,) = diagnosis.findings
    assert (finding.code, finding.location.line, finding.count) == ("GD101", 3, 2)
    assert finding.effects.graphs == ("0/0", "2/0", "3/0")
    assert finding.effects.resume_functions == ("2/0", "3/0")
    assert finding.compile_ids == ("0/0", "1/0")
    assert [step.function for step in finding.user_stack] == ["forward", "helper"]
    assert diagnosis.summary.break_sites == 1
    assert diagnosis.summary.break_records == 2


def test_each_graph_says_what_ended_it() -> None:
    diagnosis = diagnosed(helper_break())
    assert [report.ended_by for report in diagnosis.graphs] == ["model.py:3 (GB0059)", "return", "return"]
    assert diagnosis.graphs[0].ended_by_fingerprint == diagnosis.findings[0].fingerprint
    assert diagnosis.recording.graphs[1].function == "Net.helper from line 3"


def skipped() -> Recording:
    return recording(
        breaks=(record(entry(14), effect="frame_skipped", chain=(PRINT, LOOP)),),
        compiles=(compiled(outcome="skipped"),),
        graphs=(),
        sources=(context(14, 'print("x")', Enclosing(kind="for", line=12, text="for layer in self.layers:")),),
    )


def test_a_skipped_frame_is_a_finding_of_its_own_at_the_same_line_with_the_same_cause() -> None:
    diagnosis = diagnosed(skipped())
    assert [(finding.code, finding.severity) for finding in diagnosis.findings] == [
        ("GD101", "error"),
        ("GD111", "error"),
    ]
    assert {finding.location.line for finding in diagnosis.findings} == {14}
    assert {finding.torch_id for finding in diagnosis.findings} == {"GB0059"}
    skip = diagnosis.findings[1]
    assert "`for`" in skip.message
    assert (skip.related[0].line, skip.related[0].note) == (12, "the break is inside this `for`")
    assert diagnosis.summary.skipped_frames == 1
    assert diagnosis.summary.break_sites == 1
    assert diagnosis.frames[0].state == "skipped"


def test_a_break_behind_which_the_rest_runs_eagerly_is_an_error_but_no_skipped_frame() -> None:
    diagnosis = diagnosed(recording(breaks=(record(entry(12), effect="rest_eager"),)))
    (finding,) = diagnosis.findings
    assert finding.severity == "error"
    assert finding.effects.rest_eager_frames == ("Net.forward",)
    assert diagnosis.summary.skipped_frames == 0
    assert diagnosis.frames[0].state == "partly_eager"


def test_an_unknown_break_keeps_torchs_words() -> None:
    odd = BreakReason(gb_type="Something new", torch_id="GB9999", explanation="No idea.", hints=("Try X.",))
    (finding,) = diagnosed(recording(breaks=(record(entry(5), chain=(odd,)),))).findings
    assert finding.code == "GD100"
    assert "Something new" in finding.message
    assert finding.torch_reason == "Something new: No idea."
    assert finding.hints == ("Try X.",)


def test_a_break_inside_torch_is_put_at_the_line_that_led_there() -> None:
    inside = entry(79, "graph_break()", file="/site/torch/optim/optimizer.py", origin="torch", qualname=None)
    above = entry(28, "optimizer.step()")
    facts = recording(
        breaks=(record(inside),), compiles=(compiled(stack=(above, entry(70, "def step", origin="torch"))),)
    )
    (finding,) = diagnosed(facts).findings
    assert (finding.location.file, finding.location.line) == ("model.py", 28)


@for_each(
    "function, titles",
    [
        ("<module>", ()),
        ("forward", ("Move `loss.backward()` out of the compiled function", "If the call must stay")),
    ],
)
def test_a_line_that_led_to_a_break_inside_torch_is_moved_only_out_of_what_torch_compiles(
    function: str, titles: tuple[str, ...]
) -> None:
    inside = entry(79, "self.logger.log()", file="/site/torch/nn/parallel.py", origin="torch", qualname=None)
    above = entry(28, "loss.backward()", function=function)
    unsupported = BreakReason(gb_type="Unsupported method call", torch_id="GB0156")
    facts = recording(
        breaks=(record(inside, chain=(unsupported,)),),
        compiles=(compiled(stack=(above, entry(70, "def log", origin="torch"))),),
    )
    (finding,) = diagnosed(facts).findings
    assert finding.location.line == 28
    assert len(finding.fixes) == len(titles)
    assert all(fix.title.startswith(title) for fix, title in zip(finding.fixes, titles, strict=True))


def test_where_a_module_of_torch_is_compiled_nothing_can_be_moved() -> None:
    made = entry(23, "compiled = torch.compile(model)", function="<module>")
    inside = entry(79, "self.logger.log()", file="/site/torch/nn/parallel.py", origin="torch", qualname=None)
    unsupported = BreakReason(gb_type="Unsupported method call", torch_id="GB0156")
    facts = recording(breaks=(record(made, inside, chain=(unsupported,)),), frames=(frame(line=23),))
    (finding,) = diagnosed(facts).findings
    assert (finding.location.line, finding.fixes) == (23, ())


def test_two_causes_on_one_line_are_two_findings_at_one_site() -> None:
    other = BreakReason(gb_type="Unsupported Tensor.item() call", torch_id="GB0124")
    diagnosis = diagnosed(recording(breaks=(record(entry(7)), record(entry(7), chain=(other,), compile_id="1/0"))))
    assert [finding.code for finding in diagnosis.findings] == ["GD101", "GD103"]
    assert diagnosis.summary.break_sites == 1


def test_a_recompile_names_the_kind_of_guard_and_counts() -> None:
    sizes = tuple(
        compiled(f"0/{n}", reasons=(f"0/{n - 1}: tensor 'x' size mismatch at index 0. expected {n}, actual {n + 1}",))
        for n in (1, 2)
    )
    diagnosis = diagnosed(recording(compiles=(compiled(), *sizes)))
    (finding,) = diagnosis.findings
    assert (finding.code, finding.count, finding.location.line) == ("GD202", 2, 10)
    assert "`x.shape[0]` changed: 1 → 2 → 3" in finding.message
    assert finding.compile_ids == ("0/1", "0/2")
    assert (diagnosis.summary.compiles, diagnosis.summary.recompiles) == (3, 2)


@for_each(
    "eager, words",
    [
        ("ok", "without torch.compile, the call works"),
        ("RuntimeError", "without torch.compile, it raises RuntimeError: shapes differ"),
        (None, "call 1 raised ValueError: bad shape"),
    ],
)
def test_a_users_error_says_what_eager_mode_does_only_when_it_was_tried(eager: str | None, words: str) -> None:
    trace = (
        f'Traceback (most recent call last):\n  File "{FILE}", line 12, in forward\n    x.reshape(7)\nValueError: b\n'
    )
    said = "shapes differ" if eager == "RuntimeError" else None
    error = CallError(type="ValueError", message="bad shape", traceback=trace, eager=eager, eager_message=said)
    facts = recording(calls=(Call(index=1, outcome="error", error=error),), coverage=None)
    (finding,) = diagnosed(facts).findings
    assert (finding.code, finding.location.line, finding.location.text) == ("GD901", 12, "x.reshape(7)")
    assert words in finding.message


def test_unknown_stays_unknown() -> None:
    diagnosis = diagnosed(recording(coverage=None, compiles=(compiled().replace(duration_s=None),)))
    assert diagnosis.summary.coverage is None
    assert diagnosis.summary.compile_time_s is None


def test_fingerprints_survive_lines_moving_and_tell_equal_lines_apart() -> None:
    (here,) = diagnosed(recording(breaks=(record(entry(5)),))).findings
    (moved,) = diagnosed(recording(breaks=(record(entry(50, 'print("x")   # why')),))).findings
    assert here.fingerprint == moved.fingerprint
    twice = diagnosed(recording(breaks=(record(entry(5)), record(entry(6), compile_id="1/0")))).findings
    assert len({finding.fingerprint for finding in twice}) == 2
    assert here.fingerprint in {finding.fingerprint for finding in twice if finding.location.line == 5}
    (renamed,) = diagnosed(recording(breaks=(record(entry(5, qualname="Other.forward")),))).findings
    assert renamed.fingerprint != here.fingerprint


def test_a_packages_fingerprint_does_not_depend_on_where_it_is_installed() -> None:
    def at(prefix: str) -> str:
        place = entry(5, file=f"{prefix}/site-packages/pkg/sub/mod.py", origin="third_party", package="pkg")
        return diagnosed(recording(breaks=(record(place),))).findings[0].fingerprint

    assert at("/venv/a/lib") == at("/home/b/lib")


def test_selection_hides_findings_and_says_how_many_but_changes_no_count() -> None:
    package = entry(5, file="/lib/site-packages/pkg/mod.py", origin="third_party", package="pkg")
    facts = recording(breaks=(record(entry(5)), record(package, compile_id="1/0")))
    own = diagnosed(facts, selection=Selection(is_own_code_only=True))
    assert [finding.location.package for finding in own.findings] == [None]
    assert (own.summary.hidden_findings, own.summary.break_sites) == (1, 2)
    assert diagnosed(facts, selection=Selection(select=("GD2",))).findings == ()
    assert diagnosed(facts, selection=Selection(ignore=("GD101",))).findings == ()


def test_a_statement_whose_value_is_used_is_never_to_be_skipped() -> None:
    def fixes(text: str) -> list[str]:
        (finding,) = diagnosed(recording(breaks=(record(entry(5, text)),))).findings
        return [fix.title for fix in finding.fixes]

    guard = 'Skip `print("x")` while compiling: put it under `if not torch.compiler.is_compiling()`'
    assert guard in fixes('print("x")')
    assert not any(title.startswith("Skip ") for title in fixes("x = helper(print(x))"))
