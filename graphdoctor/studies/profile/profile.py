"""Runs a target to see where the time of its calls goes, and tries to keep less memory for the
backward pass.
"""

from __future__ import annotations

import itertools
import re
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.fixes import PairedTime, Reason
from graphdoctor.facts.profile import MemoryOutcome, MemoryTrial, MemoryUse, ProfileResult
from graphdoctor.facts.profiled import MeasuredMemory
from graphdoctor.facts.reading import write_fact
from graphdoctor.facts.run import Setting
from graphdoctor.probe.wire import PROFILE_FILE
from graphdoctor.rules.diagnosed import diagnosis_of
from graphdoctor.rules.diagnosis.selection import Selection
from graphdoctor.studies.profile.report import profile_report
from graphdoctor.trace.reader import read_recording
from graphdoctor.trials.judge import Reference, clause
from graphdoctor.trials.launch.child import Setup
from graphdoctor.trials.launch.recorded import Recorded, record_target
from graphdoctor.trials.launch.request import Measured, Request
from graphdoctor.trials.launch.store import Store
from graphdoctor.trials.program import Program, RunChange
from graphdoctor.trials.replays import Replays
from graphdoctor.trials.timing import time_pair
from graphdoctor.version import __version__
from graphdoctor.views.reasons import reasons_text

_SEEN_S = 0.1
"""Phases are asked for twenty times a second."""

_NUMBER = re.compile(r"( of call)? [!\d/_]+$")
"""Of a call or a compile."""


class Phases:
    """Passes on what begins, and times it."""

    def __init__(self, on_phase: Callable[[str], None]) -> None:
        self._on_phase = on_phase
        self._begun = [(time.monotonic(), "starting")]

    def begin(self, phase: str) -> None:
        """Begin a phase with its number and its step, such as ``call 1, compiling 0/1``."""
        self._begun.append((time.monotonic(), _NUMBER.sub("", phase.rpartition(", ")[2])))
        self._on_phase(phase)

    def taken(self) -> dict[str, float]:
        """Return the seconds of each phase without its number, the longest first, without those too
        short to be seen.
        """
        spent_s: dict[str, float] = defaultdict(float)
        for (began, phase), (ended, _) in itertools.pairwise(
            [*self._begun, (time.monotonic(), "")]
        ):
            spent_s[phase] += ended - began
        longest = sorted(spent_s.items(), key=lambda item: -item[1])
        return {phase: round(seconds, 2) for phase, seconds in longest if seconds >= _SEEN_S}


def profile_target(
    request: Request, store: Store, setup: Setup, selection: Selection, *, is_tried: bool = False
) -> tuple[Recorded, Diagnosis, ProfileResult]:
    """Record a target's calls and profile the last one; the recording holds the report."""
    phases = Phases(setup.on_phase)
    setup = replace(setup, on_phase=phases.begin)
    with tempfile.TemporaryDirectory(prefix="graphdoctor-", ignore_cleanup_errors=True) as caches:
        measured = replace(request.measured, kernels=True, memory=True, profile=caches)
        recorded = record_target(replace(request, measured=measured), store, setup)
    phases.begin("reading the recording")
    # The lines' text is in the picture.
    recording = read_recording(recorded.folder, picture=True)
    diagnosis = diagnosis_of(recording, root=Path.cwd(), selection=selection)
    report = profile_report(recording, diagnosis, version=__version__)
    profiled, memory = recording.profiled, report.memory
    if (
        is_tried
        and profiled is not None
        and memory is not None
        and memory.has_backward
        and memory.saved_bytes
    ):
        budget, is_random = profiled.smaller_budget, profiled.draws_random
        trial = try_keeping_less(
            request, recorded.folder, memory, budget, setup, draws_random=is_random
        )
        report = replace(report, memory=replace(memory, trial=trial))
    report = replace(report, phases=phases.taken())
    if recorded.exit.reason == "finished":
        write_fact(report, recorded.folder / PROFILE_FILE)
    return recorded, diagnosis, ProfileResult(report, recording.picture)


_LESS = 0.99
"""Less is kept if it's below this share of what was kept before."""


def _keeps(before: MemoryUse, after: MeasuredMemory | None) -> float | None:
    """Return the share of what was kept that still is; None if it is unknown."""
    if not before.saved_bytes or after is None or after.saved_bytes is None:
        return None
    return after.saved_bytes / before.saved_bytes


def memory_trial(
    setting: Setting,
    before: MemoryUse,
    after: MeasuredMemory | None,
    times: PairedTime | None,
    *,
    is_same: bool | None,
    reason: str | None,
) -> MemoryTrial:
    """Judge what came of a setting.

    ``times``: the call with the setting and without it, in turns; None if it wasn't timed.
    """
    kept = _keeps(before, after)
    outcome: MemoryOutcome = "failed"
    if is_same is False:
        outcome = "differs"
    elif kept is not None and kept >= _LESS:
        outcome = "nothing"
    elif kept is not None and times is not None:
        is_costly = times.ratio_low - 1 > 1 - kept
        outcome = "costly" if is_costly else "unclear"
        if times.ratio_high - 1 <= 1 - kept:
            outcome = "saves"
    ratios = {name: getattr(times, name, None) for name in ("ratio", "ratio_low", "ratio_high")}
    return MemoryTrial(
        what=setting.line,
        outcome=outcome,
        saved_bytes=None if after is None else after.saved_bytes,
        # What else is in another process isn't the same.
        peak_bytes=after.peak_bytes if after is not None and after.peak_of == "allocator" else None,
        is_same=is_same,
        reason=reason,
        **ratios,
    )


_FOLDER = "memory"
"""Below a recording: the recordings of the trial."""

_RANDOM = (
    "with it the backward pass may draw other random numbers than the forward pass, which makes"
    " gradients wrong"
)


def try_keeping_less(
    request: Request,
    recording: Path,
    before: MemoryUse,
    setting: Setting,
    setup: Setup,
    *,
    draws_random: bool,
) -> MemoryTrial:
    """Run the same calls with a setting, compare their results with eager mode's, and time them in
    turns.
    """
    on_phase, measured = setup.on_phase, Measured(memory=True)
    untouched, program = Program(), Program(change=RunChange(settings=(setting,)))
    with Replays(request, recording / _FOLDER, setup.with_limit) as replays:
        reference = Reference(replays, untouched, on_phase=on_phase)
        on_phase(f"running with {setting.line}")
        replay = reference.replay(program, "kept-less", measured=measured)
        if replay.exit.reason != "finished":
            reason = clause(replay.exit.message)
            return memory_trial(setting, before, None, None, is_same=None, reason=reason)
        verdict = reference.judge(replay, program, "kept-less", measured=measured)
        is_same, reasons = verdict.correct, reasons_text(verdict.reasons)
        if is_same is False:
            on_phase("running without it")
            name = "kept-as-before"
            again = reference.replay(untouched, name, measured=measured)
            if reference.judge(again, untouched, name, measured=measured).correct is False:
                # The setting isn't to blame.
                is_same, also = None, "results differ from eager mode's without the setting too"
                reasons = f"{reasons}; {also}"
        times = None
        kept = _keeps(before, replay.memory)
        if is_same is not False and kept is not None and kept < _LESS:
            if draws_random:
                # Results can be compared only under eager mode's random numbers, with which torch
                # may keep something else.
                is_same, reasons = None, _RANDOM
            else:
                on_phase("timing both in turns")
                timed = time_pair(replays, untouched, program, "time", backend=request.spec.backend)
                if isinstance(timed, Reason):
                    reasons = reasons_text([timed])
                else:
                    times = timed
        return memory_trial(setting, before, replay.memory, times, is_same=is_same, reason=reasons)
