"""Tries to keep less of a profiled call for its backward pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from graphdoctor.facts.profile import MemoryTrial, MemoryUse
    from graphdoctor.facts.recording import Recording
    from graphdoctor.facts.run import Setting
    from graphdoctor.studies.profile.keeping_less import Replayed
    from graphdoctor.trials.judge import Verdict
    from graphdoctor.trials.launch.child import Setup
    from graphdoctor.trials.launch.request import Request
    from graphdoctor.trials.program import RunChange
    from graphdoctor.trials.replays import Replays

MEMORY_FOLDER = "memory"
"""Below a recording: the recordings of the trial."""

_RANDOM = "with it the backward pass may draw other random numbers than the forward pass, which makes gradients wrong"
_NAME, _BEFORE = "kept-less", "kept-as-before"


def try_keeping_less(
    request: Request, recording: Path, before: MemoryUse, setting: Setting, setup: Setup, *, draws_random: bool
) -> MemoryTrial:
    """Run the same calls with a setting, compare their results with eager mode's, and time them in turns."""
    from graphdoctor.studies.profile.keeping_less import memory_trial
    from graphdoctor.trials.replays import Replays

    with Replays(request, recording / MEMORY_FOLDER, setup.with_limit) as replays:
        found = _replayed(replays, request, before, setting, setup, draws_random=draws_random)
        return memory_trial(setting, before, found)


def _replayed(
    replays: Replays, request: Request, before: MemoryUse, setting: Setting, setup: Setup, *, draws_random: bool
) -> Replayed:
    from graphdoctor.studies.profile.keeping_less import Replayed, keeps_less
    from graphdoctor.trials.judge import Reference, clause
    from graphdoctor.trials.launch.request import Measured
    from graphdoctor.trials.program import Program, RunChange
    from graphdoctor.trials.timing import time_pair

    on_phase = setup.watching.on_phase
    program = Program(change=RunChange(settings=(setting,)))
    reference = Reference(replays, Program(), on_phase=on_phase)

    def replayed(own: Program, name: str) -> tuple[Recording, Callable[[], Verdict]]:
        def replay(change: RunChange, name: str) -> Recording:
            changed = Program(change=own.change.joined(change))
            return replays.replay(changed, name, measured=Measured(memory=True), **reference.arguments)

        found = replay(RunChange(), name)
        return found, lambda: reference.judge(found, name, replay)

    on_phase(f"running with {setting.line}")
    found, judged = replayed(program, _NAME)
    if found.exit.reason != "finished":
        return Replayed(None, None, None, clause(found.exit.message))
    verdict = judged()
    is_same, reason = verdict.correct, verdict.reason
    if is_same is False:
        on_phase("running without it")
        _, judged_before = replayed(Program(), _BEFORE)
        if judged_before().correct is False:
            # The setting isn't to blame.
            is_same, reason = None, f"{reason}; results differ from eager mode's without the setting too"
    if is_same is False or not keeps_less(before, found.memory):
        return Replayed(found.memory, is_same, None, reason)
    # Results can be compared only under eager mode's random numbers, with which torch may keep something else.
    if draws_random:
        return Replayed(found.memory, None, None, _RANDOM)
    on_phase("timing both in turns")
    times = time_pair(replays, Program(), program, "time", backend=request.spec.backend)
    if isinstance(times, str):
        return Replayed(found.memory, is_same, None, times)
    return Replayed(found.memory, is_same, times, reason)
