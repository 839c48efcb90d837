"""Surveys of pieces that nothing runs for: what is kept, run again, resumed."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from graphdoctor.commands.settings import Settings
from graphdoctor.commands.survey import _check_any_loaded, _executor_and_share
from graphdoctor.errors import GraphDoctorError
from graphdoctor.executors.executor import Environment, Failure, Share
from graphdoctor.facts.counts import Coverage
from graphdoctor.facts.recording import Call, CaptureGap
from graphdoctor.facts.run import ProbeExit
from graphdoctor.facts.spec import RunSpec
from graphdoctor.studies.survey import piece as piece_module
from graphdoctor.studies.survey.outcome import (
    PieceOutcome,
    compiler_stage,
    of_bench,
    of_early_end,
    of_run,
)
from graphdoctor.studies.survey.piece import (
    PieceResult,
    SurveyPiece,
    file_digest,
    page_name,
    run_piece,
)
from graphdoctor.studies.survey.run import (
    ROWS_FILE,
    SurveyFolder,
    last_survey,
    report_of,
    run_survey,
)
from graphdoctor.studies.survey.survey_list import ListedTargets, SurveyList, SurveyOptions
from graphdoctor.views.html import document
from tests.commands.test_survey import GOOD
from tests.each import for_each
from tests.factories import with_facts
from tests.rules.gate.diagnoses import with_prints
from tests.studies.bench.reports import eager, ended, report
from tests.studies.survey.reports import row

NAMES = ("a", "b", "c")


@dataclass
class Answers:
    """An executor that answers by a function."""

    answer: Callable[[str, int], object]
    jobs: int = 2
    cluster: str | None = None
    worked: list[str] = field(default_factory=list)
    shares: list[Share] = field(default_factory=list)

    def run(self, work, pieces, *, share=None, on_begin=None):
        assert work == run_piece
        self.shares.append(share)
        for index, piece in enumerate(pieces):
            on_begin(index, "slot 1")
            self.worked.append(piece.name)
            found = self.answer(piece.name, self.worked.count(piece.name))
            if isinstance(found, BaseException):
                raise found
            if isinstance(found, Failure):
                yield (index, found)
                continue
            row_ = row(piece.name, piece.variant, report=None, **found)
            yield (index, PieceResult(row_, piece.plan, limits=piece.options.limits))


class Looks:
    """Notes what it is shown."""

    def __init__(self):
        self.seen = []

    def on_phase(self, phase):
        pass

    def planned(self, count, kept):
        self.seen.append(("planned", count, kept))

    def began(self, key, place):
        self.seen.append(("began", key[0]))

    def finished(self, row):
        self.seen.append(("finished", row.name, row.status))

    def retrying(self, key, status):
        self.seen.append(("retrying", key[0], status))


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def _run(
    answer,
    *,
    names=NAMES,
    resume=False,
    looks=None,
    executor=None,
    retries=1,
    shard=None,
    **options,
):
    survey = SurveyList(
        name="mine",
        targets=tuple(ListedTargets(target=f"{name}.py", name=name) for name in names),
        options=SurveyOptions(retries=retries, **options),
        shard=shard,
    )
    executor, looks = executor or Answers(answer), looks or Looks()
    return run_survey(survey, Settings().store, executor, Share(None), looks, resume=resume)


def _passes(*_):
    return {"status": "ok"}


def _resumed(**more):
    """The pieces that run again when a survey is resumed."""
    executor = Answers(_passes)
    _run(None, executor=executor, resume=True, **more)
    return executor.worked


def _statuses(report):
    return {one.name: one.status for one in report.rows}


def test_failing_piece_runs_again_and_differences_are_marked():
    looks = Looks()
    answer = lambda name, time: {
        "status": "crashed" if name == "b" and time == 1 else "ok",
        "seconds": 2.0,
    }
    again = _run(answer, looks=looks).report.rows[1]
    assert (again.status, again.attempts, again.earlier) == ("ok", 2, ("crashed",))
    assert (again.is_flaky, again.seconds) == (True, 4.0)
    assert ("retrying", "b", "crashed") in looks.seen
    assert sum(event[0] == "finished" for event in looks.seen) == 3


@for_each("status", ["no_inputs", "load_failed", "skipped", "not_compiled"])
def test_what_the_program_decides_is_not_run_again(status):
    executor = Answers(lambda *_: {"status": status})
    _run(None, executor=executor)
    assert executor.worked == list(NAMES)


def test_piece_without_results_is_lost_alone():
    def answer(name, _):
        return Failure("ended", "its process was killed") if name == "b" else {"status": "ok"}

    report = _run(answer).report
    assert _statuses(report) == {"a": "ok", "b": "lost", "c": "ok"}
    assert (report.rows[1].error, report.rows[1].is_judged) == ("Its process was killed.", False)


def test_an_interrupted_survey_keeps_what_was_finished_and_goes_on():
    def answer(name, _):
        return KeyboardInterrupt() if name == "b" else {"status": "ok"}

    found = _run(answer)
    assert found.is_interrupted
    assert (_statuses(found.report), found.report.planned) == ({"a": "ok"}, 3)
    executor = Answers(_passes)
    again = _run(None, executor=executor, resume=True)
    assert executor.worked == ["b", "c"]
    assert (again.folder, again.report.kept) == (found.folder, 1)
    assert _statuses(again.report) == dict.fromkeys(NAMES, "ok")


def test_half_a_line_is_a_piece_that_is_missing():
    folder = _run(_passes).folder
    rows = folder / ROWS_FILE
    rows.write_bytes(rows.read_bytes()[:-20])
    assert _statuses(report_of(folder)) == {"a": "ok", "b": "ok"}
    assert _resumed() == ["c"]
    assert _statuses(report_of(folder)) == dict.fromkeys(NAMES, "ok")


def test_resume_runs_what_would_come_out_otherwise():
    _run(_passes)
    assert _resumed(names=("a", "d")) == ["d"]
    assert _resumed(names=("a", "d"), bench=True) == ["a", "d"]


def test_resume_runs_a_piece_whose_file_changed(tmp_path):
    path = tmp_path / "net.py"
    path.write_text("one")

    class WithFiles(Answers):
        def run(self, work, pieces, **more):
            files = {"net.py": file_digest(path)}
            for index, result in super().run(work, pieces, **more):
                yield index, replace(result, files=files)

    _run(None, executor=WithFiles(_passes), names=("a",))
    assert _resumed(names=("a",)) == []
    path.write_text("two")
    assert _resumed(names=("a",)) == ["a"]


@for_each("status, worked", [("timeout", True), ("out_of_memory", True), ("wrong", False)])
def test_resume_with_another_limit_runs_what_reached_it(status, worked):
    _run(lambda *_: {"status": status}, names=("a",), retries=0, timeout=5.0)
    assert _resumed(names=("a",), timeout=5.0) == []
    assert bool(_resumed(names=("a",), timeout=50.0)) is worked


def test_a_shard_goes_on_with_its_own_rows():
    first = _run(_passes, shard=(1, 2))
    other = _run(_passes, shard=(2, 2))
    executor = Answers(_passes)
    again = _run(None, executor=executor, shard=(1, 2), resume=True)
    assert (executor.worked, again.folder) == ([], first.folder)
    assert _statuses(again.report) == {"a": "ok", "c": "ok"}
    assert _statuses(report_of(other.folder)) == {"b": "ok"}
    with pytest.raises(GraphDoctorError, match="There is no shard 1/3 of survey 'mine' to resume"):
        _run(None, resume=True, shard=(1, 3))
    with pytest.raises(GraphDoctorError, match="There is no survey 'mine' to resume"):
        _run(None, resume=True)


def test_a_survey_that_another_process_writes_is_left_alone():
    folder = _run(_passes).folder
    with (folder / "survey.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(GraphDoctorError, match="Another survey is running in"):
            _run(None, resume=True)


def test_full_disk_is_reported_and_finished_pieces_kept(monkeypatch):
    import errno

    written = SurveyFolder.add

    def add(self, result):
        if result.row.name == "c":
            self._rows.close()

            class Full:
                def write(self, _):
                    raise OSError(errno.ENOSPC, "No space left on device")

                def close(self):
                    pass

            self._rows = Full()
        written(self, result)

    monkeypatch.setattr(SurveyFolder, "add", add)
    with pytest.raises(GraphDoctorError) as caught:
        _run(_passes)
    assert (
        "can't be written: No space left on device. 2 finished pieces of this run are kept"
        in caught.value.message
    )
    assert _statuses(report_of(last_survey(Settings().store))) == {"a": "ok", "b": "ok"}


def test_pieces_without_a_device_see_gpus_unless_forbidden():
    def shares(**measured):
        executor = Answers(_passes)
        _run(None, executor=executor, **measured)
        return executor.shares

    assert {share.gpus for share in shares()} == {None}
    assert {share.gpus for share in shares(gpus=0)} == {0}


@for_each(
    "options, cluster, on_cuda, jobs, share",
    [
        ({}, "ray", False, 1, (1, 1)),
        ({"cpus": 3}, "ray", True, 1, (3, 1)),
        ({}, None, True, 16, (None, 1)),
        ({"bench": True}, None, False, 1, (16, 1)),
        ({"bench": True}, None, True, 1, (16, 1)),
        ({"bench": True, "jobs": 8}, None, True, 8, (2, 0.25)),
        ({"bench": True, "gpus": 1}, None, True, 1, (16, 1)),
    ],
)
def test_pieces_share_cores_and_gpus(monkeypatch, options, cluster, on_cuda, jobs, share):
    for module in ("graphdoctor.commands.survey", "graphdoctor.executors.local"):
        monkeypatch.setattr(f"{module}.cores", lambda: 16)
    monkeypatch.setattr("graphdoctor.commands.survey.gpus", lambda: ("0", "1"))
    executor, its_share = _executor_and_share(
        SurveyOptions(**options), cluster, Environment(), on_cuda=on_cuda
    )
    assert (executor.jobs, its_share.cpus, its_share.gpus) == (jobs, *share)


def test_a_survey_in_which_nothing_loads_failed():
    report = _run(
        lambda *_: {"status": "load_failed", "error": "No CUDA GPUs are available"}
    ).report
    with pytest.raises(
        GraphDoctorError, match=r"None of 3 pieces could be loaded. a: No CUDA GPUs are available\."
    ):
        _check_any_loaded(report.rows)
    _check_any_loaded(
        _run(lambda name, _: {"status": "ok" if name == "a" else "load_failed"}).report.rows
    )
    _check_any_loaded(())


# Pieces.


def _piece(target, **more):
    values = {
        "name": "net",
        "family": None,
        "variant": "v",
        "spec": RunSpec(target=target),
        "entry": None,
        "python": None,
        "options": SurveyOptions(timeout=300.0, pages=False),
        "plan": "p",
    }
    return SurveyPiece(**values | more)


def test_a_target_that_is_not_there_is_a_row(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    row = run_piece(_piece("none.py")).row
    error = "There is no file none.py."
    assert (row.status, row.stage, row.error) == ("load_failed", "load", error)


def test_slow_piece_is_a_row_whatever_it_was_doing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(GOOD)

    def hangs(*_args, **_more):
        time.sleep(60)

    monkeypatch.setattr(piece_module, "record", hangs)
    row = run_piece(_piece("net.py", options=SurveyOptions(timeout=0.2))).row
    assert (row.status, row.error) == ("timeout", "It was stopped after 0.2 s.")


def test_interruption_is_no_timeout_of_a_piece(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(GOOD)

    def interrupted(*_args, **_more):
        raise KeyboardInterrupt

    monkeypatch.setattr(piece_module, "record", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_piece(_piece("net.py"))


@pytest.mark.slow
def test_a_page_that_cannot_be_made_costs_no_row(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(GOOD)

    def fails(*_args, **_options):
        raise ValueError("no page")

    monkeypatch.setattr(document, "render_view_page", fails)
    result = run_piece(_piece("net.py", options=SurveyOptions(timeout=300.0)))
    assert (result.row.status, result.row.report, result.page) == ("ok", None, None)
    assert result.row.gaps == ("Its page couldn't be made: ValueError: no page",)
    assert set(result.files) == {"net.py"}


def test_pages_of_two_pieces_have_two_names():
    names = {
        page_name(name, variant)
        for name in ("a/b", "a_b", "a.b" * 60)
        for variant in ("x", "y", "../z")
    }
    assert len(names) == 9
    assert all(Path(name).name == name and len(name) < 100 for name in names)


def test_a_fingerprint_is_of_the_plan_and_the_files():
    def fingerprint(plan, files):
        return _piece("net.py", plan=plan).row(files, status="ok", seconds=1.0).fingerprint

    assert fingerprint("p", {"a": "1", "b": "2"}) == fingerprint("p", {"b": "2", "a": "1"})
    assert len({fingerprint("p", {}), fingerprint("q", {}), fingerprint("p", {"a": "1"})}) == 3


# Outcomes.


def _ended(**more):
    return of_early_end(ProbeExit(status=1, message="It ended.", **{"reason": "error", **more}))


@for_each(
    "exit_, status, stage",
    [
        ({"reason": "timeout", "phase_kind": "call {index}"}, "timeout", "call"),
        ({"reason": "timeout", "phase_kind": "importing the target"}, "timeout", "load"),
        ({"reason": "timeout"}, "timeout", "load"),
        (
            {"reason": "killed", "stopped_for": "memory", "phase_kind": "call {index}"},
            "out_of_memory",
            "call",
        ),
        ({"reason": "killed", "phase_kind": "call {index}"}, "crashed", "call"),
        (
            {"reason": "killed", "phase_kind": "trying call {index} without torch.compile"},
            "crashed",
            "eager",
        ),
        ({"reason": "exited", "phase_kind": "importing the target"}, "load_failed", "load"),
        ({"reason": "exited", "phase_kind": "call {index}"}, "crashed", "call"),
        ({"error_type": "MemoryError", "phase_kind": "making the target"}, "out_of_memory", "load"),
        (
            {"error_type": "torch.OutOfMemoryError", "phase_kind": "measuring coverage"},
            "out_of_memory",
            "call",
        ),
        (
            {"error_type": "ImportError", "phase_kind": "importing the target"},
            "load_failed",
            "load",
        ),
        (
            {"error_type": "ValueError", "phase_kind": "making the inputs of call {index}"},
            "load_failed",
            "load",
        ),
        ({"hint_code": "no_inputs"}, "no_inputs", "load"),
        ({"hint_code": "unusable_input"}, "no_inputs", "load"),
        ({"hint_code": "unusable_device"}, "skipped", "load"),
        ({"hint_code": "no_torch"}, "skipped", "load"),
        ({"hint_code": "no_blocks"}, "skipped", "load"),
        ({"hint_code": "unusable_python"}, "load_failed", "load"),
        ({"hint_code": "refused_compile_arguments"}, "skipped", "load"),
        ({"hint_code": "unknown_argument"}, "skipped", "load"),
        ({"hint_code": "unusable_dtype"}, "skipped", "load"),
        ({"hint_code": "no_batch"}, "skipped", "load"),
    ],
)
def test_process_end_decides_the_outcome_of_a_piece(exit_, status, stage):
    found = _ended(**exit_)
    assert (found.status, found.stage) == (status, stage)


def _frames(*folders):
    return "Traceback (most recent call last):\n" + "".join(
        f'  File "/site/torch/{folder}/x.py", line 1, in f\n    g()\n' for folder in folders
    )


@for_each(
    "type, trace, backend, stage",
    [
        ("torch._inductor.exc.InductorError", "", "inductor", "inductor"),
        ("torch._dynamo.exc.Unsupported", _frames("_dynamo"), "eager", "dynamo"),
        (
            "torch._dynamo.exc.BackendCompilerFailed",
            _frames("_dynamo", "_inductor"),
            "inductor",
            "inductor",
        ),
        (
            "torch._dynamo.exc.BackendCompilerFailed",
            _frames("_inductor", "_functorch"),
            "inductor",
            "aot",
        ),
        ("torch._dynamo.exc.BackendCompilerFailed", _frames("_dynamo"), "mine", "backend"),
        (
            "torch._dynamo.exc.BackendCompilerFailed",
            _frames("_dynamo", "_functorch"),
            "aot_eager",
            "aot",
        ),
        ("RuntimeError", _frames("_dynamo", "_functorch"), "inductor", "aot"),
        ("RuntimeError", _frames("nn"), "inductor", "call"),
    ],
)
def test_the_part_of_the_compiler_is_where_it_was_raised(type, trace, backend, stage):
    assert compiler_stage(type, trace, backend=backend) == stage


def test_run_with_records_omitted_by_torch_is_no_crash():
    whole = with_prints(
        (3, "a"), exit=ProbeExit(status=0, reason="finished"), calls=(Call(index=1, outcome="ok"),)
    )
    assert of_run(whole).status == "ok"
    gap = CaptureGap(code="GD902", kind="unrecorded_compile", message="One is missing.")
    assert of_run(with_facts(whole, gaps=(gap,))).status == "ok"
    assert (
        of_run(with_facts(whole, calls=(Call(index=1, outcome="unfinished"),))).status == "crashed"
    )


def test_calls_of_which_nothing_was_compiled_are_no_pass():
    whole = with_prints(
        (3, "a"), exit=ProbeExit(status=0, reason="finished"), calls=(Call(index=1, outcome="ok"),)
    )
    nothing = Coverage(graph_ops=0, eager_ops=3)
    found = of_run(
        whole.replace(summary=whole.summary.replace(coverage=0.0, coverage_detail=nothing))
    )
    said = "Not compiled: 0 of 3 tensor operations ran in a compiled graph."
    assert (found.status, found.stage, found.error) == ("not_compiled", "dynamo", said)


def test_failing_bench_variant_has_its_error():
    raised = {"status": 1, "reason": "error", "error_type": "ValueError", "traceback": "Traceback"}
    for more, words in (
        ({"message": "It is refused.", "hint_code": "no_inputs"}, "It is refused."),
        ({}, "status 1"),
    ):
        own = ended("default", "failed", "status 1", exit=ProbeExit(**raised, **more))
        found = of_bench(report(eager(), own))
        assert found == PieceOutcome("compile_failed", "bench", words, "ValueError", "Traceback")
