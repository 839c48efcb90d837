"""Replays the same calls in fresh probes under each remedy, and says which cause of recompiles
matters most.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from graphdoctor.facts.base import values_of
from graphdoctor.facts.reading import write_fact
from graphdoctor.facts.recording import Recording
from graphdoctor.facts.trials import Remedy, TrialResult, WhatIf
from graphdoctor.fixes.run_changes import RecompileFixes, Together, joined_change, recompile_fixes
from graphdoctor.probe.wire import WHAT_IF_FILE
from graphdoctor.trace.reader import read_recording
from graphdoctor.trials.judge import compared_with_eager
from graphdoctor.trials.launch.child import Setup
from graphdoctor.trials.launch.request import Request
from graphdoctor.trials.program import Program
from graphdoctor.trials.replays import EAGER, Replays

FOLDER = "what-if"

_Trial = tuple[Together, TrialResult]


def what_if(request: Request, folder: Path, setup: Setup, *, jobs: int) -> WhatIf | None:
    """Try the remedies for the recompiles of a recorded run, also for the recording; None if
    nothing recompiled.
    """
    recorded = read_recording(folder)
    fixes = recompile_fixes(recorded)
    if fixes is None:
        return None
    frames = {compile_.frame_id for compile_ in recorded.compiles if compile_.outcome == "compiled"}
    combined, skipped = fixes.combined()
    trials = [(), *combined]
    on_phase = setup.on_phase

    def run(number: int) -> TrialResult:
        trial = trials[number]
        name = " with ".join(fix.name for fix in trial) or "unchanged"
        on_phase(f"trial {number + 1} of {len(trials)}: {name}")
        program, references = Program(change=joined_change(trial)), {EAGER: EAGER}
        return _result(trial, replays.replay(program, str(number), references=references))

    with Replays(request, folder / FOLDER, setup) as replays:
        on_phase("replaying without torch.compile")
        replays.replay(Program(), EAGER, is_eager=True)
        results = replays.in_parallel(run, range(len(trials)), jobs=jobs)
    answer = _answer(list(zip(trials, results, strict=True)), fixes, skipped, frames=len(frames))
    write_fact(answer, folder / WHAT_IF_FILE)
    return answer


def _result(trial: Together, recording: Recording) -> TrialResult:
    is_whole = recording.exit.reason == "finished"
    compiled = [compile_ for compile_ in recording.compiles if compile_.outcome == "compiled"]
    limits = {compile_.frame_id for compile_ in recording.compiles if compile_.outcome == "limit"}
    times = [
        compile_.duration_s for compile_ in recording.compiles if compile_.duration_s is not None
    ]
    calls = [call.duration_s for call in recording.calls if call.duration_s is not None]
    replay = recording.replay
    eager = compared_with_eager(recording)
    worst = eager.results[0] if eager and eager.results else None
    uncounted = replay.warm_up_frames_over_limit if replay and joined_change(trial).warm_up else 0
    return TrialResult(
        remedies=tuple(
            Remedy(
                **values_of(fix, "name", "title", "snippet", "addresses"),
                kind="config" if fix.kind == "config" else "call",
                keeps_results=fix.is_safe,
            )
            for fix in trial
        ),
        compiles=len(compiled) if is_whole else None,
        frames_over_limit=len(limits) + uncounted if is_whole else None,
        compile_s=sum(times) if is_whole and (times or not recording.compiles) else None,
        calls_s=sum(calls) if calls and is_whole else None,
        outputs=replay.outputs if replay else "not_compared",
        largest_difference=worst.largest if worst else None,
        where=worst.where if worst else eager.note if eager else "eager mode returned no outputs",
        error=None if is_whole else recording.exit.message,
    )


def _rank(trial: _Trial) -> tuple[bool, bool, int, bool, int, int]:
    """Failed last, then different results, then the limit, then compiles, then how much has to
    change.

    Times differ between two runs, so the rest stays in the order of the trials. Warming up moves
    compiles to where they aren't counted, so it comes after remedies that save them.
    """
    fixes, result = trial
    return (
        result.compiles is None,
        result.outputs == "different",
        result.frames_over_limit or 0,
        joined_change(fixes).warm_up,
        result.compiles or 0,
        len(result.remedies),
    )


def _answer(
    trials: Sequence[_Trial], fixes: RecompileFixes, skipped: int, *, frames: int
) -> WhatIf:
    answer = WhatIf(
        results=tuple(result for _, result in sorted(trials, key=_rank)),
        frame_count=frames,
        untried=tuple(fixes.untried),
        skipped_count=skipped,
    )
    best = next((result for result in answer.better if len(result.remedies) == 1), None)
    if best is None:
        return answer
    rivals = [result for result in answer.for_causes if len(result.remedies) == 1]
    if sum(result.score == best.score for result in rivals) > 1:
        return answer
    return answer.replace(binding=best.remedies[0].addresses)
