"""One piece of a survey in, a target in one variant; its row out, with what is kept beside it.

A piece can be sent to another process or machine. What fails becomes its row, so that it costs no
other piece; its recordings are removed.
"""

from __future__ import annotations

import atexit
import contextlib
import datetime
import hashlib
import os
import platform
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from graphdoctor import version
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.base import values_of
from graphdoctor.facts.survey import RAN, SurveyCause, SurveyRow, SurveyStatus
from graphdoctor.facts.survey_comparison import COUNTS_OF_RECORDS
from graphdoctor.rules.gate.check import missing_records
from graphdoctor.studies.survey import outcome as outcomes
from graphdoctor.studies.survey.outcome import OK, PieceOutcome, cut
from graphdoctor.studies.survey.survey_list import SurveyOptions
from graphdoctor.trials.launch.child import Setup, handling, interpreter, probe_command, record
from graphdoctor.trials.launch.request import Measured, Request, parse_target
from graphdoctor.trials.launch.unchanged import reads_of
from graphdoctor.trials.launch.warm import WarmProbes

if TYPE_CHECKING:
    from graphdoctor.facts.bench import BenchReport
    from graphdoctor.facts.diagnosis import Diagnosis, Finding, Result
    from graphdoctor.facts.export import ExportReport
    from graphdoctor.facts.spec import RunSpec
    from graphdoctor.facts.survey import SurveyStage

_MAX_FILE_BYTES = 32 * 2**20


@dataclass(frozen=True)
class CatalogEntry:
    """An architecture that a library's catalog writes a program of."""

    library: str
    version: str
    name: str


@dataclass(frozen=True)
class SurveyPiece:
    """The work for one row.

    Args:
        entry: None for a program of the user's.
        plan: A digest of what the row depends on besides files.
    """

    name: str
    family: str | None
    variant: str
    spec: RunSpec
    entry: CatalogEntry | None
    python: str | None
    options: SurveyOptions
    plan: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """The target's name and the variant's, as ``SurveyRow.key``."""
        return self.name, self.variant

    def row(self, files: Mapping[str, str], **values: Any) -> SurveyRow:  # noqa: ANN401
        """Return its row, with what the piece says filled in."""
        entry = self.entry
        return SurveyRow(
            **values_of(self, "name", "variant", "family"),
            **values_of(self.spec, "target", "dtype", "batch"),
            library=None if entry is None else f"{entry.library} {entry.version}",
            fingerprint=digest_of(orjson.dumps([self.plan, sorted(files.items())])),
            **values,
        )


@dataclass(frozen=True)
class PieceResult:
    """A row, and what is kept with it.

    Args:
        files: Digests of the files that it depends on, by path.
        limits: Time and memory, as ``SurveyOptions.limits``.
        page: Its page; None for none.
        program: The text of a catalog's program; None for the user's.
    """

    row: SurveyRow
    plan: str
    files: Mapping[str, str] = field(default_factory=dict)
    limits: tuple[float | None, ...] = ()
    page: str | None = None
    program: str | None = None

    def is_valid_for(self, piece: SurveyPiece) -> bool:
        """Return whether another run would give the same, as far as that is known."""
        status = self.row.status
        if self.plan != piece.plan or status == "lost":
            return False
        if status in ("timeout", "out_of_memory") and self.limits != piece.options.limits:
            return False
        return all(file_digest(Path(path)) == digest for path, digest in self.files.items())


_warm: dict[str, WarmProbes] = {}
"""By interpreter: pieces that one process runs share what was imported."""


def _warm_probes(python: str | None) -> WarmProbes:
    path = interpreter(python)
    if path not in _warm or not _warm[path].is_usable:
        _warm[path] = warm = WarmProbes(probe_command(path))
        atexit.register(warm.close)
    return _warm[path]


def run_piece(piece: SurveyPiece) -> PieceResult:
    """Run one piece."""
    with (
        tempfile.TemporaryDirectory(
            prefix="graphdoctor-survey-", ignore_cleanup_errors=True
        ) as made,
        _Deadline(piece.options.timeout_s) as deadline,
    ):
        return _PieceRun(piece, Path(made) / "recording", deadline, piece.spec).result()


class _Deadline(contextlib.ExitStack):
    """Interrupts this process as Ctrl-C would when the time is up, until it's closed."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
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

    def _interrupt(self, *_: object) -> None:
        self.is_over = True
        raise KeyboardInterrupt


@dataclass
class _PieceRun:
    """The run of one piece, step by step. ``values``: fields of its row, as far as measured."""

    piece: SurveyPiece
    recording: Path
    deadline: _Deadline
    spec: RunSpec
    stage: SurveyStage = "load"
    program: Path | None = None
    diagnosis: Diagnosis | None = None
    values: dict[str, Any] = field(default_factory=dict)
    gaps: list[str] = field(default_factory=list)

    def result(self) -> PieceResult:
        """Take all steps, as far as they go."""
        piece, began, started = self.piece, time.monotonic(), utc_text()
        outcome = OK
        try:
            outcome = self._run()
        except KeyboardInterrupt:
            if not self.deadline.is_over:
                raise
        except GraphDoctorError as error:
            is_loaded = self.stage not in ("prepare", "load")
            status: SurveyStatus = "crashed" if is_loaded else "load_failed"
            outcome = PieceOutcome(status, self.stage, error.message)
        if self.deadline.is_over and outcome.status != "timeout":
            # An interrupt ended whatever was going on, which says nothing of the program.
            reason = f"It was stopped after {piece.options.timeout_s:g} s."
            outcome = PieceOutcome("timeout", self.stage, reason)
        self.deadline.close()
        page, files = self._page(), self._files_read()
        if self.diagnosis is not None:
            self.values = self._diagnosis_values(self.diagnosis, outcome.status) | self.values
        row = piece.row(
            files,
            **vars(outcome),
            **self.values,
            host=platform.node() or None,
            seconds=time.monotonic() - began,
            started=started,
            report=None if page is None else f"pages/{page_name(piece.name, piece.variant)}",
            gaps=tuple(self.gaps),
        )
        program = None if self.program is None else self.program.read_text(encoding="utf-8")
        return PieceResult(row, piece.plan, files, piece.options.limits, page, program)

    def _run(self) -> PieceOutcome:
        piece, options = self.piece, self.piece.options
        is_warm = options.bench or options.export or options.fix or piece.entry
        setup = Setup(
            python=piece.python,
            timeout_s=self.deadline.left_s,
            warm=_warm_probes(piece.python) if is_warm else None,
            memory_bytes=options.memory_bytes,
        )
        if piece.entry is not None and (outcome := self._prepare(piece.entry, setup)) != OK:
            return outcome
        setup = replace(setup, timeout_s=self.deadline.left_s)
        request = Request.of(self.spec, Measured(coverage=True, reads=True))
        outcome, diagnosis = self._record(request, setup)
        if outcome != OK:
            return outcome
        # A fix that fails, or an export, says nothing against the row.
        if options.fix and diagnosis.findings:
            with self._extra("fix", "Fixes weren't tried"):
                diagnosis = self.diagnosis = self._with_fixes(diagnosis, request, setup)
            self.stage = "call"
        if options.bench and options.thorough:
            from graphdoctor.facts.bench import BENCH_PARTS
            from graphdoctor.studies.bench.bench import BenchPlan, bench

            self.stage, plan = "bench", BenchPlan(parts=BENCH_PARTS)
            outcome = self._benched(bench(request, self.recording, diagnosis, setup, plan)[0])
        if options.export and outcome == OK:
            from graphdoctor.studies.export.export import export

            with self._extra("export", "It wasn't exported"):
                self.values |= _export_values(export(request, self.recording, diagnosis, setup))
        return outcome

    def _prepare(self, entry: CatalogEntry, setup: Setup) -> PieceOutcome:
        """Have the catalog write the target's program."""
        from graphdoctor.facts.catalog import Refusal
        from graphdoctor.trials.launch.catalog import write_program

        self.stage = "prepare"
        shared = Path(self.spec.target).parent
        folder = shared if shared.is_dir() else self.recording.parent
        program = write_program(entry.library, entry.name, folder, setup, version=entry.version)
        if isinstance(program, Refusal):
            status = "load_failed" if program.kind == "too_large" else program.kind
            trace = cut(program.traceback)
            return PieceOutcome(status, "prepare", program.message, traceback=trace)
        self.program = Path(program.path)
        self.spec = replace(self.spec, target=program.path)
        self.stage = "load"
        return OK

    def _record(self, request: Request, setup: Setup) -> tuple[PieceOutcome, Diagnosis]:
        options = self.piece.options
        self.recording.mkdir()
        if options.bench and not options.thorough:
            from graphdoctor.studies.bench.bench import bench

            # Its only recorded run is the one that is timed.
            report, self.diagnosis = bench(request, self.recording, None, setup)
            self.stage = "call"
            outcome = outcomes.of_run(self.diagnosis)
            return self._benched(report) if outcome == OK else outcome, self.diagnosis
        ended = record(request.quick if options.bench else request, self.recording, setup)
        self.stage = "call"
        self.diagnosis = self._diagnosed().diagnosis
        if ended.reason == "interrupted" and self.deadline.is_over:
            self.stage = outcomes.of_early_end(ended).stage or "call"
            raise KeyboardInterrupt
        return outcomes.of_run(self.diagnosis), self.diagnosis

    def _diagnosed(self, *, is_page: bool = False) -> Result:
        from graphdoctor.rules.diagnosed import Needs, diagnose_recording

        needs = Needs(guards=is_page, picture=is_page, is_page=is_page)
        return diagnose_recording(self.recording, needs=needs)

    def _with_fixes(self, diagnosis: Diagnosis, request: Request, setup: Setup) -> Diagnosis:
        from graphdoctor.fixes.kept import try_fixes
        from graphdoctor.fixes.patch import SearchOptions
        from graphdoctor.rules.diagnosis.selection import Selection

        options = SearchOptions(
            Selection(select=(diagnosis.findings[0].code,)),
            is_unsafe_tried=False,
            is_timed=False,
            jobs=1,
            memory_bytes=setup.memory_bytes,
        )
        try_fixes(request, self.recording, options, setup)
        return self._diagnosed().diagnosis

    def _benched(self, report: BenchReport) -> PieceOutcome:
        eager, compiled, *_ = report.variants
        measures = ("compile_cold_s", "compile_warm_s", "correct", "peak_memory_bytes")
        self.values |= values_of(compiled, *measures)
        for name, call in (("call_us", compiled.call_us), ("eager_us", eager.call_us)):
            self.values[name] = None if call is None else call.median
        if report.noise is not None:
            self.values |= {"is_noisy": report.noise.is_noisy, "noise": report.noise.ratio}
        if (speedup := compiled.speedup) is not None:
            ends = {"speedup_low": speedup.low, "speedup_high": speedup.high}
            self.values |= {"speedup": speedup.ratio, **ends}
        return outcomes.of_bench(report)

    @contextlib.contextmanager
    def _extra(self, stage: SurveyStage, failed: str) -> Iterator[None]:
        """Note a gap if a measurement besides the row's own fails, or if the time is up."""
        self.stage = stage
        try:
            yield
        except GraphDoctorError as error:
            self.gaps.append(f"{failed}: {error.message}")
        except KeyboardInterrupt:
            if not self.deadline.is_over:
                raise
            seconds = self.piece.options.timeout_s
            self.gaps.append(f"{failed}: the piece was stopped after {seconds:g} s.")
            self.deadline.is_over = False

    def _page(self) -> str | None:
        if not self.piece.options.pages or self.diagnosis is None:
            return None
        from graphdoctor.fixes.options import with_declined
        from graphdoctor.views.html.document import render_view_page
        from graphdoctor.views.report import report_view

        try:
            result, root = self._diagnosed(is_page=True), Path.cwd()
            diagnosis = with_declined(result.diagnosis, self.recording, root)
            return render_view_page(report_view(diagnosis, result.picture, root=root))
        except Exception as error:  # noqa: BLE001 - a row isn't lost for its page
            self.gaps.append(f"Its page couldn't be made: {type(error).__name__}: {error}")
            return None

    def _files_read(self) -> dict[str, str]:
        """Return digests of the user's files that the run read, by path: relative below the working
        directory.
        """
        reads = reads_of(self.recording) or {"files": (), "prefix": ()}
        files = {os.path.realpath(file) for file in reads["files"]}
        if self.piece.entry is None:
            with contextlib.suppress(GraphDoctorError):
                files.update(filter(None, [parse_target(self.spec.target).file]))
        here = Path.cwd().resolve()
        ours = (self.recording.parent, Path(version.__file__).parent)
        folders = (*reads["prefix"], *map(os.path.realpath, ours))
        skipped = tuple(f"{folder}{os.sep}" for folder in folders)
        # Under the path that it has where the survey is kept: a node may have written it elsewhere.
        paths = {} if self.program is None else {self.piece.spec.target: self.program}
        for path in sorted(map(Path, files)):
            is_below = path.is_relative_to(here)
            is_source = is_below or path.suffix == ".py"
            if is_source and not str(path).startswith(skipped) and path != self.program:
                paths[path.relative_to(here).as_posix() if is_below else str(path)] = path
        digests = {name: file_digest(path) for name, path in paths.items()}
        return {name: digest for name, digest in digests.items() if digest is not None}

    def _diagnosis_values(self, diagnosis: Diagnosis, status: SurveyStatus) -> dict[str, Any]:
        from graphdoctor.facts.command import command_line

        summary, recording, spec = diagnosis.summary, diagnosis.recording, self.piece.spec
        target = recording.target.replace(
            text=spec.target, compile_arguments=spec.compile_arguments()
        )
        # Without a device, a program may use a GPU by itself where there is one.
        device, cuda = spec.device, recording.environment.device_name
        if device is None:
            device = None if cuda else "cpu"
        elif device.startswith("cuda"):
            device = cuda
        values = {
            **values_of(recording.environment, "torch", "python"),
            "device": device,
            "command": command_line(target, "bench" if self.piece.options.bench else "explain"),
            "causes": tuple(map(_cause, diagnosis.findings)),
        }
        if status not in RAN:
            return values
        values |= values_of(summary, *COUNTS_OF_RECORDS, "calls", "graphs", "coverage")
        values["compile_s"] = summary.compile_time_s
        values["peak_memory_bytes"] = recording.exit.peak_memory_bytes
        if summary.steadiness is not None and summary.steadiness.state is not None:
            values["is_steady"] = summary.steadiness.state == "settled"
        if missing_records(diagnosis) is not None:
            values |= dict.fromkeys(COUNTS_OF_RECORDS)
        self.gaps += [gap.message for gap in recording.gaps]
        return values


def _export_values(report: ExportReport) -> dict[str, Any]:
    if report.best is not None:
        return {"exports": True}
    # Strict and not may stop at one line, or at two.
    stops = [_cause(blocker.finding) for way in report.ways for blocker in way.blockers]
    causes = {(cause.code, cause.location, cause.message): cause for cause in stops}
    error = stops[0].message if stops else report.text
    return {"exports": False, "export_error": error, "export_causes": tuple(causes.values())}


def _cause(finding: Finding) -> SurveyCause:
    fix = min(finding.fixes, key=lambda fix: fix.verdict != "verified", default=None)
    cost, location = finding.cost, finding.location
    values = {} if cost is None else values_of(cost, "call_us", "compile_s")
    if fix is not None:
        values |= {"fix": fix.title, "fix_verdict": fix.verdict}
        values["diff"] = fix.diff if fix.verdict == "verified" else None
    return SurveyCause(
        **values_of(finding, "code", "rule", "severity", "message", "count", "fingerprint"),
        **values_of(location, "line", "function", "text", "package"),
        **values,
        file=location.shown_file.replace("\\", "/"),
        eager_frames=len(finding.effects.eager_frames),
    )


def utc_text() -> str:
    """Return the time in UTC, as ``2026-11-23T01:20:00Z``."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def page_name(name: str, variant: str) -> str:
    """Return the file name of a piece's page, which no other piece has."""
    text = f"{name}.{variant}"
    plain = "".join(char if char.isalnum() or char in "-_." else "_" for char in text)
    digest = digest_of(f"{name}\0{variant}".encode())[:8]
    return f"{plain[:80].strip('.')}-{digest}.html"


def digest_of(content: bytes) -> str:
    """Return a digest short enough for a table."""
    return hashlib.sha256(content).hexdigest()[:16]


def file_digest(path: Path) -> str | None:
    """Return a digest of a file; None if it can't be read, or is very large."""
    try:
        return digest_of(path.read_bytes()) if path.stat().st_size <= _MAX_FILE_BYTES else None
    except OSError:
        return None
