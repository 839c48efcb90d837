"""One piece of a survey: a target in one variant, from its program to its row.

Comes in: a ``SurveyPiece``, which can be sent to another process or machine. Goes out: a
``PieceResult``, all that is kept of it; its recordings are removed. What fails becomes the row, so
that it costs no other piece.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import os
import platform
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

import graphdoctor
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.base import values_of
from graphdoctor.facts.survey import RAN, SurveyCause, SurveyRow, SurveyStatus
from graphdoctor.facts.survey_comparison import COUNTS_OF_RECORDS
from graphdoctor.rules.gate.check import missing_records
from graphdoctor.studies.survey.outcome import (
    OK,
    PieceOutcome,
    cut,
    ended_early,
    outcome_of,
    outcome_of_bench,
)
from graphdoctor.studies.survey.survey_file import SurveyOptions
from graphdoctor.trace.folder import is_in_use
from graphdoctor.trials.launch.child import Setup, handling, interpreter, probe_command, record
from graphdoctor.trials.launch.request import Measured, Request, parse_target
from graphdoctor.trials.launch.store import Store
from graphdoctor.trials.launch.unchanged import reads_of
from graphdoctor.trials.launch.warm import WarmProbes

if TYPE_CHECKING:
    from graphdoctor.facts.bench import BenchReport
    from graphdoctor.facts.diagnosis import Diagnosis, Finding, Result
    from graphdoctor.facts.export import ExportReport
    from graphdoctor.facts.spec import RunSpec
    from graphdoctor.facts.survey import SurveyStage

_FOLDER = "graphdoctor-survey-"
_RECORDING = "recording"
_MAX_FILE_BYTES = 32 * 2**20


@dataclass(frozen=True)
class Architecture:
    """What a catalog writes a target's program of."""

    library: str
    version: str
    name: str


@dataclass(frozen=True)
class SurveyPiece:
    """The work for one row; ``architecture`` is None for a program of the user's."""

    name: str
    family: str | None
    variant: str
    spec: RunSpec
    architecture: Architecture | None
    python: str | None
    measured: SurveyOptions
    plan: str

    @property
    def key(self) -> tuple[str, str]:
        """The target's name and the variant's, as ``SurveyRow.key``."""
        return self.name, self.variant

    def row(self, files: Mapping[str, str], **values: Any) -> SurveyRow:  # noqa: ANN401
        """Its row, with what the piece alone says filled in."""
        of, spec = self.architecture, self.spec
        return SurveyRow(
            name=self.name,
            variant=self.variant,
            target=spec.target,
            family=self.family,
            dtype=spec.dtype,
            batch=spec.batch,
            library=None if of is None else f"{of.library} {of.version}",
            fingerprint=fingerprint_of(self.plan, files),
            **values,
        )


@dataclass(frozen=True)
class PieceResult:
    """What is kept of a piece: its row, what that depends on, and what belongs to it.

    ``files``: digests by path. ``limits``: of time and memory, under which it ran.
    """

    row: SurveyRow
    plan: str
    files: Mapping[str, str] = field(default_factory=dict)
    limits: tuple[float | None, ...] = ()
    page: str | None = None
    program: str | None = None

    def holds(self, plan: str, limits: tuple[float | None, ...]) -> bool:
        """Whether it is what the piece would give again, as far as that is known."""
        if self.plan != plan or self.row.status == "lost":
            return False
        if self.row.status in ("timeout", "out_of_memory") and self.limits != limits:
            return False
        return all(file_digest(Path(path)) == digest for path, digest in self.files.items())


def work_on(piece: SurveyPiece) -> PieceResult:
    """Work on one piece, after removing what killed surveys left."""
    base = Path(tempfile.gettempdir())
    for left in base.glob(f"{_FOLDER}*"):
        with contextlib.suppress(OSError):
            if left.lstat().st_uid == os.getuid() and not is_in_use(left):
                shutil.rmtree(left, ignore_errors=True)
    # Locked before it has the name by which others look for what was left.
    hidden = Path(tempfile.mkdtemp(prefix=f".{_FOLDER}"))
    with Store.hold(hidden):
        folder = hidden.rename(base / hidden.name.removeprefix("."))
        try:
            with _Deadline(piece.measured.timeout_s) as deadline:
                return _Worker(piece, folder, deadline).result()
        finally:
            shutil.rmtree(folder, ignore_errors=True)


class _Deadline(contextlib.ExitStack):
    """Interrupts this process as Ctrl-C would when a piece has taken too long, until it's
    closed.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds
        self.is_over = False
        self._end = time.monotonic() + seconds
        # Only the main thread gets signals; elsewhere each process has its limit, but not all of
        # them together.
        if threading.current_thread() is threading.main_thread() and hasattr(signal, "setitimer"):
            self.enter_context(handling((signal.SIGALRM,), self._interrupt))
            self.callback(signal.setitimer, signal.ITIMER_REAL, 0)
            signal.setitimer(signal.ITIMER_REAL, seconds)

    @property
    def left_s(self) -> float:
        """Seconds that are left, at least a moment."""
        return max(self._end - time.monotonic(), 0.001)

    def _interrupt(self, _signal: int, _frame: object) -> None:
        self.is_over = True
        raise KeyboardInterrupt


class _Worker:
    """Works on one piece."""

    def __init__(self, piece: SurveyPiece, folder: Path, deadline: _Deadline) -> None:
        self._piece = piece
        self._recording = folder / _RECORDING
        self._deadline = deadline
        self._begun = time.monotonic()
        self._started = datetime.datetime.now(datetime.UTC)
        self._stage: SurveyStage = "load"
        self._program: Path | None = None
        self._spec = piece.spec
        self._diagnosis: Diagnosis | None = None
        self._bench: BenchReport | None = None
        self._export: ExportReport | None = None
        self._gaps: list[str] = []

    def result(self) -> PieceResult:
        """All steps, as far as they go."""
        try:
            outcome = self._outcome()
        except KeyboardInterrupt:
            if not self._deadline.is_over:
                raise
            outcome = self._too_late()
        except GraphDoctorError as error:
            is_loaded = self._stage not in ("prepare", "load")
            status: SurveyStatus = "crashed" if is_loaded else "load_failed"
            outcome = PieceOutcome(status, self._stage, error.message)
        if self._deadline.is_over and outcome.status != "timeout":
            # Whatever was going on ended as it does when it's interrupted, which says nothing of
            # the program.
            outcome = self._too_late()
        self._deadline.close()
        page = self._page()
        files = self._files_read()
        row = self._row(outcome, files, has_page=page is not None)
        program = None if self._program is None else self._program.read_text(encoding="utf-8")
        return PieceResult(row, self._piece.plan, files, self._piece.measured.limits, page, program)

    def _too_late(self) -> PieceOutcome:
        return PieceOutcome(
            "timeout", self._stage, f"It was stopped after {self._deadline.seconds:g} s."
        )

    def _outcome(self) -> PieceOutcome:
        measured = self._piece.measured
        is_long = measured.bench or measured.export or measured.fix
        with contextlib.ExitStack() as stack:
            warm = None
            if is_long or self._piece.architecture:
                warm = WarmProbes(probe_command(interpreter(self._piece.python)))
                stack.callback(warm.close)
            if (outcome := self._prepare(warm)) != OK:
                return outcome
            request = Request.of(self._spec, Measured(coverage=True, reads=True))
            setup = self._setup(warm)
            if (outcome := self._recorded(request, setup)) != OK:
                return outcome
            # A fix that fails, or an export, says nothing against the row.
            if measured.fix:
                self._treat(request, setup)
            if measured.bench and measured.thorough:
                outcome = self._measured(request, setup)
            if measured.export and outcome == OK:
                self._exported(request, setup)
            return outcome

    def _setup(self, warm: WarmProbes | None) -> Setup:
        memory = self._piece.measured.memory_bytes
        return Setup(
            python=self._piece.python,
            timeout_s=self._deadline.left_s,
            warm=warm,
            memory_bytes=memory,
        )

    def _prepare(self, warm: WarmProbes | None) -> PieceOutcome:
        """Write the target's program where a catalog has it."""
        wanted = self._piece.architecture
        if wanted is None:
            return OK
        from graphdoctor.facts.catalog import Refusal
        from graphdoctor.trials.launch.catalog import write_program

        self._stage = "prepare"
        shared = Path(self._spec.target).parent
        folder = shared if shared.is_dir() else self._recording.parent
        found = write_program(
            wanted.library, wanted.name, folder, self._setup(warm), version=wanted.version
        )
        if isinstance(found, Refusal):
            status: SurveyStatus = "load_failed" if found.kind == "too_large" else found.kind
            return PieceOutcome(status, "prepare", found.message, traceback=cut(found.traceback))
        self._program = Path(found.path)
        self._spec = replace(self._spec, target=found.path)
        self._stage = "load"
        return OK

    def _recorded(self, request: Request, setup: Setup) -> PieceOutcome:
        self._recording.mkdir()
        measured = self._piece.measured
        if measured.bench and not measured.thorough:
            from graphdoctor.studies.bench.bench import bench

            # Its only recorded run is the one that is timed.
            found, self._diagnosis = bench(request, self._recording, None, setup)
            ran = outcome_of(self._diagnosis)
            self._stage = "call"
            self._bench = found if ran == OK else None
            return outcome_of_bench(found) if ran == OK else ran
        if measured.bench:
            request = request.quick
        ended = record(request, self._recording, replace(setup, timeout_s=self._deadline.left_s))
        self._stage = "call"
        self._diagnosis = self._diagnosed().diagnosis
        if ended.reason == "interrupted" and self._deadline.is_over:
            return replace(self._too_late(), stage=ended_early(ended).stage)
        return outcome_of(self._diagnosis)

    def _diagnosed(self, *, is_page: bool = False) -> Result:
        from graphdoctor.rules.diagnosed import Needs, diagnose_recording

        needs = Needs(guards=True, picture=True, is_page=True) if is_page else Needs()
        return diagnose_recording(self._recording, needs=needs)

    def _treat(self, request: Request, setup: Setup) -> None:
        from graphdoctor.fixes.kept import SearchOptions, try_fixes
        from graphdoctor.rules.diagnosis.selection import Selection

        diagnosis = self._diagnosis
        assert diagnosis is not None
        if not diagnosis.findings:
            return
        self._stage = "fix"
        options = SearchOptions(
            Selection(select=(diagnosis.findings[0].code,)),
            is_unsafe_tried=False,
            timing="none",
            jobs=1,
            memory_bytes=self._piece.measured.memory_bytes,
        )
        with self._surviving("Fixes weren't tried"):
            try_fixes(request, self._recording, options, setup)
            self._diagnosis = self._diagnosed().diagnosis
        self._stage = "call"

    def _measured(self, request: Request, setup: Setup) -> PieceOutcome:
        from graphdoctor.facts.bench import BENCH_PARTS
        from graphdoctor.studies.bench.bench import Wanted, bench

        assert self._diagnosis is not None
        self._stage = "bench"
        self._bench, _ = bench(
            request, self._recording, self._diagnosis, setup, Wanted(parts=BENCH_PARTS)
        )
        return outcome_of_bench(self._bench)

    def _exported(self, request: Request, setup: Setup) -> None:
        from graphdoctor.studies.export.export import export

        assert self._diagnosis is not None
        self._stage = "export"
        with self._surviving("It wasn't exported"):
            self._export = export(
                request, self._recording, self._diagnosis, setup, is_tried=False, dynamic=False
            )

    @contextlib.contextmanager
    def _surviving(self, what: str) -> Iterator[None]:
        """What is measured besides costs the row nothing if it fails, or if the time is up."""
        try:
            yield
        except GraphDoctorError as error:
            self._gaps.append(f"{what}: {error.message}")
        except KeyboardInterrupt:
            if not self._deadline.is_over:
                raise
            self._gaps.append(f"{what}: the piece was stopped after {self._deadline.seconds:g} s.")
            self._deadline.is_over = False

    def _page(self) -> str | None:
        if not self._piece.measured.pages or self._diagnosis is None:
            return None
        from graphdoctor.fixes.options import with_declined
        from graphdoctor.views.html.document import render_view_page
        from graphdoctor.views.report import report_view

        try:
            result = self._diagnosed(is_page=True)
            found = with_declined(result.diagnosis, self._recording, Path.cwd())
            return render_view_page(report_view(found, result.picture, root=Path.cwd()))
        except Exception as error:  # noqa: BLE001 - a row isn't lost for its page
            self._gaps.append(f"Its page couldn't be made: {type(error).__name__}: {error}")
            return None

    def _files_read(self) -> dict[str, str]:
        """Digests of the user's files that the run read, by their paths, below the working
        directory relative to it.
        """
        reads = reads_of(self._recording) or {"files": (), "prefix": ()}
        files = {os.path.realpath(file) for file in reads["files"]}
        if self._piece.architecture is None:
            with contextlib.suppress(GraphDoctorError):
                files.update(filter(None, [parse_target(self._spec.target).file]))
        here = Path.cwd().resolve()
        own, package = (
            os.path.realpath(self._recording.parent),
            os.path.realpath(Path(graphdoctor.__file__).parent),
        )
        installed = tuple(f"{prefix}{os.sep}" for prefix in (*reads["prefix"], own, package))
        # Under the path that it has where the survey is kept: a node may have written it elsewhere.
        named = {} if self._program is None else {self._piece.spec.target: self._program}
        for path in sorted(map(Path, files)):
            is_below = path.is_relative_to(here)
            if (
                (is_below or path.suffix == ".py")
                and not str(path).startswith(installed)
                and path != self._program
            ):
                named[path.relative_to(here).as_posix() if is_below else str(path)] = path
        return {
            name: digest
            for name, path in named.items()
            if (digest := file_digest(path)) is not None
        }

    # The row.

    def _row(self, outcome: PieceOutcome, files: Mapping[str, str], *, has_page: bool) -> SurveyRow:
        piece = self._piece
        values: dict[str, Any] = {
            **vars(outcome),
            "host": platform.node() or None,
            "seconds": time.monotonic() - self._begun,
            "started": utc_text(self._started),
            "report": f"pages/{page_name(piece.name, piece.variant)}" if has_page else None,
        }
        if self._diagnosis is not None:
            values |= self._diagnosis_values(self._diagnosis, outcome.status)
        if self._bench is not None:
            values |= _bench_values(self._bench)
        if self._export is not None:
            values["exports"] = self._export.best is not None
            if self._export.best is None:
                values |= _export_values(self._export)
        return piece.row(files, **values, gaps=tuple(self._gaps))

    def _diagnosis_values(self, diagnosis: Diagnosis, status: SurveyStatus) -> dict[str, Any]:
        from graphdoctor.facts.command import command_line

        summary, environment = diagnosis.summary, diagnosis.recording.environment
        asked = self._piece.spec
        target = diagnosis.recording.target.replace(
            text=asked.target, compile_arguments=asked.compile_arguments()
        )
        is_benched = self._piece.measured.bench
        values: dict[str, Any] = {
            "torch": environment.torch,
            "python": environment.python,
            "device": _device(self._spec.device, environment.device_name),
            "command": command_line(target, "bench" if is_benched else "explain"),
            "causes": tuple(_cause(finding) for finding in diagnosis.findings),
        }
        if status not in RAN:
            return values
        steadiness = summary.steadiness
        values |= values_of(summary, *COUNTS_OF_RECORDS, "calls", "graphs", "coverage")
        values |= {
            "compile_s": summary.compile_time_s,
            "is_steady": None
            if steadiness is None or steadiness.state is None
            else steadiness.state == "settled",
            "peak_memory_bytes": diagnosis.recording.exit.peak_memory_bytes,
        }
        if missing_records(diagnosis) is not None:
            values |= dict.fromkeys(COUNTS_OF_RECORDS)
        self._gaps += [gap.message for gap in diagnosis.recording.gaps]
        return values


def utc_text(moment: datetime.datetime) -> str:
    """A time in UTC as surveys have it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _bench_values(report: BenchReport) -> dict[str, Any]:
    eager, own = report.variants[0], report.variants[1]
    values = values_of(own, "compile_cold_s", "compile_warm_s", "correct", "peak_memory_bytes")
    times = {"call_us": own.call_us, "eager_us": eager.call_us}
    values |= {name: None if call is None else call.median for name, call in times.items()}
    if report.noise is not None:
        values |= {"is_noisy": report.noise.is_noisy, "noise": report.noise.ratio}
    if (speedup := own.speedup) is not None:
        values |= {
            "speedup": speedup.ratio,
            "speedup_low": speedup.low,
            "speedup_high": speedup.high,
        }
    return values


def _export_values(report: ExportReport) -> dict[str, Any]:
    """Why a target doesn't export: strict and not may stop at one line, or at two."""
    stops = [_cause(blocker.finding) for way in report.ways for blocker in way.blockers]
    causes = {(one.code, one.location, one.message): one for one in stops}
    return {
        "export_error": stops[0].message if stops else report.text,
        "export_causes": tuple(causes.values()),
    }


def _cause(finding: Finding) -> SurveyCause:
    fix = min(finding.fixes, key=lambda fix: fix.verdict != "verified", default=None)
    cost, place = finding.cost, finding.location
    more: dict[str, Any] = (
        {} if cost is None else {"call_us": cost.call_us, "compile_s": cost.compile_s}
    )
    if fix is not None:
        more |= {
            "fix": fix.title,
            "fix_verdict": fix.verdict,
            "diff": fix.diff if fix.verdict == "verified" else None,
        }
    return SurveyCause(
        **values_of(finding, "code", "rule", "severity", "message", "count", "fingerprint"),
        **values_of(place, "line", "function", "text", "package"),
        **more,
        file=place.shown_file.replace("\\", "/"),
        eager_frames=len(finding.effects.eager_frames),
    )


def _device(asked: str | None, cuda: str | None) -> str | None:
    """What it ran on; None where there is a GPU that the program may use by itself."""
    if asked is not None and not asked.startswith("cuda"):
        return asked
    if asked is None:
        return "cpu" if cuda is None else None
    return cuda


def page_name(name: str, variant: str) -> str:
    """The file name of a piece's page, which no other piece has."""
    plain = "".join(
        char if char.isalnum() or char in "-_." else "_" for char in f"{name}.{variant}"
    )
    digest = digest_of(f"{name}\0{variant}".encode())[:8]
    return f"{plain[:80].strip('.')}-{digest}.html"


def fingerprint_of(plan: str, files: Mapping[str, str]) -> str:
    """What a row depends on."""
    return digest_of(orjson.dumps([plan, sorted(files.items())]))


def digest_of(content: bytes) -> str:
    """A digest short enough for a table."""
    return hashlib.sha256(content).hexdigest()[:16]


def file_digest(path: Path) -> str | None:
    """A digest of a file's content; None if it can't be read, or is very large."""
    try:
        return digest_of(path.read_bytes()) if path.stat().st_size <= _MAX_FILE_BYTES else None
    except OSError:
        return None
