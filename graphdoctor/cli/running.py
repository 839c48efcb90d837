"""Runs the probe for a command: request, recording, progress, and what its end means for the exit code."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphdoctor.capture.request import Request
    from graphdoctor.capture.script import Script
    from graphdoctor.cli.options import TargetOptions, TrialOptions
    from graphdoctor.config import Settings
    from graphdoctor.diagnosis.selection import Selection
    from graphdoctor.fixes.patch import FileChange
    from graphdoctor.fixes.treatment import Treated
    from graphdoctor.model.diagnosis import Diagnosis
    from graphdoctor.model.run import ProbeExit

EXIT_FAILED = 2
EXIT_INTERRUPTED = 130


def request_of(
    target: str,
    asked: TargetOptions,
    *,
    coverage: bool,
    guard_cost: bool = False,
    lanes: bool = False,
    vary: Settings | None = None,
) -> Request:
    """What the probe is asked to do.

    Args:
        target: The target's text.
        asked: The options of the command line.
        coverage: Measure coverage after the calls.
        guard_cost: Measure what guard checks cost after the calls.
        lanes: Note where the time of each call goes.
        vary: Vary the first call, within these settings; None to make all calls and vary none.

    Raises:
        GraphDoctorError: A text cannot be read.
    """
    from graphdoctor.capture.request import Measured, Request, Variation, parse_assignments
    from graphdoctor.model.spec import RunSpec

    spec = RunSpec(
        target=target,
        inputs=tuple(asked.inputs or ()),
        calls=asked.calls,
        backend=asked.backend,
        mode=asked.mode,
        dynamic=asked.dynamic,
        fullgraph=asked.fullgraph,
        options=parse_assignments(asked.option or [], "--option"),
        config=parse_assignments(asked.config or [], "--config"),
        backward=asked.backward,
        train=asked.train,
        no_grad=asked.no_grad,
        seed=asked.seed,
        device=asked.device,
    )
    measured = Measured(coverage=coverage, guard_cost=guard_cost, lanes=lanes)
    return Request.of(spec, measured, None if vary is None else Variation(vary.vary_count, vary.vary_seconds))


def recording_named(text: str | None, settings: Settings) -> Path | None:
    """The recording that an argument names: the last one without an argument, None when it is a target.

    Args:
        text: The argument: a target, a recording's folder, or a folder or log file that ``TORCH_TRACE`` wrote.
        settings: The project's settings.

    Raises:
        GraphDoctorError: There is no last recording.
    """
    from graphdoctor.capture.store import Store

    if text is None:
        return Store(Path.cwd(), keep_count=settings.keep_recordings).last()
    path = Path(text)
    return path if path.is_dir() or (path.is_file() and path.suffix == ".log") else None


def record_target(
    request: Request, settings: Settings, *, python: str | None, timeout_s: float | None, is_quiet: bool
) -> tuple[Path, ProbeExit]:
    """Run the probe in a new recording, which becomes the last one.

    Args:
        request: What to do.
        settings: The project's settings.
        python: The interpreter asked for, or None for ours.
        timeout_s: Seconds until the run is stopped, or None for the setting.
        is_quiet: Show no progress.

    Returns:
        The recording's folder, and how the probe ended.
    """
    import threading

    from graphdoctor.capture.child import interpreter, record
    from graphdoctor.capture.store import Store
    from graphdoctor.cli.progress import Progress

    store = Store(Path.cwd(), keep_count=settings.keep_recordings)
    place = request.target.file or request.target.module or ""
    recording = store.create(Path(place).stem)
    store.remember(recording)
    # What the report needs is imported while the probe imports torch.
    threading.Thread(target=_import_report, daemon=True).start()
    with Progress(is_quiet=is_quiet) as progress:
        ended = record(
            request,
            recording,
            python=interpreter(python),
            timeout_s=timeout_s if timeout_s is not None else settings.timeout,
            watching=progress.watching,
        )
    return recording, ended


def replay_under_remedies(
    request: Request,
    recording: Path,
    settings: Settings,
    *,
    python: str | None,
    timeout_s: float | None,
    jobs: int,
    is_quiet: bool,
) -> None:
    """Replay a recorded target's calls under each remedy; the recording holds the answer.

    Args:
        request: What the recorded run was asked to do.
        recording: Its folder.
        settings: The project's settings.
        python: The interpreter asked for, or None for ours.
        timeout_s: Seconds until a replay is stopped, or None for the setting.
        jobs: How many replays run side by side.
        is_quiet: Show no progress.
    """
    from graphdoctor.capture.child import interpreter
    from graphdoctor.cli.progress import Progress
    from graphdoctor.fixes.what_if import what_if

    with Progress(is_quiet=is_quiet) as progress:
        what_if(
            request,
            recording,
            python=interpreter(python),
            timeout_s=timeout_s if timeout_s is not None else settings.timeout,
            jobs=jobs,
            on_phase=progress.watching.on_phase,
        )


def try_fixes(
    request: Request,
    recording: Path,
    asked: TrialOptions,
    selection: Selection,
    *,
    python: str | None,
    is_unsafe_tried: bool,
    is_tried: bool,
    is_quiet: bool,
    check: Callable[[Sequence[FileChange]], None] | None = None,
) -> Treated:
    """Try fixes for the findings of a recorded target; the recording holds the answer.

    Args:
        request: What the recorded run was asked to do.
        recording: Its folder.
        asked: The options of the command line.
        selection: Findings to treat.
        python: The interpreter asked for, or None for ours.
        is_unsafe_tried: Try fixes that may change results for other inputs, too.
        is_tried: Make trials at all.
        is_quiet: Show no progress.
        check: Given the edits that are to be tried first, before any trial; what it raises ends the command.
    """
    from graphdoctor.capture.child import interpreter
    from graphdoctor.cli.progress import Progress
    from graphdoctor.fixes.treatment import Wanted, treat
    from graphdoctor.trace.reader import read_recording

    wanted = Wanted(
        selection,
        is_unsafe_tried=is_unsafe_tried,
        is_tried=is_tried,
        is_timed=asked.timing,
        jobs=asked.jobs or _default_jobs(request),
        timeout_s=asked.trial_timeout,
        memory_bytes=None if asked.trial_memory is None else int(asked.trial_memory * 2**30),
    )
    with Progress(is_quiet=is_quiet) as progress:
        return treat(
            request,
            recording,
            read_recording(recording),
            python=interpreter(python),
            root=Path.cwd(),
            wanted=wanted,
            on_phase=progress.watching.on_phase,
            check=check,
        )


def _default_jobs(request: Request) -> int:
    """Trials on one accelerator share its memory; on the CPU they need cores."""
    return 1 if request.spec.device is not None else max(1, min(4, (os.cpu_count() or 1) // 2))


def record_script(
    script: Script, settings: Settings, *, python: str | None, timeout_s: float | None
) -> tuple[Path, int]:
    """Run a script in a new recording, which becomes the last one.

    Args:
        script: What to run.
        settings: The project's settings.
        python: The interpreter asked for, or None for ours.
        timeout_s: Seconds until the script is stopped, or None.

    Returns:
        The recording's folder and the exit status as a shell has it.
    """
    import threading

    from graphdoctor.capture.child import interpreter
    from graphdoctor.capture.script import run_script
    from graphdoctor.capture.store import Store

    store = Store(Path.cwd(), keep_count=settings.keep_recordings)
    recording = store.create(script.label)
    store.remember(recording)
    threading.Thread(target=_import_report, daemon=True).start()
    return recording, run_script(script, recording, python=interpreter(python), timeout_s=timeout_s)


def exit_code(ended: ProbeExit, diagnosis: Diagnosis) -> int:
    """The exit code of a command whose job is the diagnosis: 0 when it could be made.

    Args:
        ended: How the probe ended.
        diagnosis: What came of it.
    """
    from graphdoctor.gate.check import refused_call

    if ended.reason == "interrupted":
        return EXIT_INTERRUPTED
    # torch.compile's own refusal of a call that works without it is what was asked for.
    return 0 if ended.reason == "finished" or refused_call(diagnosis) is not None else EXIT_FAILED


def _import_report() -> None:
    # Only a head start: whatever goes wrong here comes up again where the import is needed.
    with contextlib.suppress(Exception):
        import graphdoctor.diagnosis.diagnose
        import graphdoctor.render.console
        import graphdoctor.trace.reader  # noqa: F401
