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
from graphdoctor.wording import counted

FOLDER = "what-if"
_MAX_TRIALS = 12
_MAX_NAMED = 3

_Trial = tuple[Together, TrialResult]
_Score = tuple[int, int]
"""Functions over the recompile limit, then compiles; lower is better."""


def what_if(request: Request, folder: Path, setup: Setup, *, jobs: int) -> WhatIf | None:
    """Try the remedies for the recompiles of a recorded run, also for the recording; None if
    nothing recompiled.
    """
    recorded = read_recording(folder)
    fixes = recompile_fixes(recorded)
    if fixes is None:
        return None
    frames = {compile_.frame_id for compile_ in recorded.compiles if compile_.outcome == "compiled"}
    combined, skipped = fixes.combined(_MAX_TRIALS)
    trials: list[Together] = [(), *combined]
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
    results = tuple(result for _, result in sorted(trials, key=_rank))
    binding, conclusion = _conclusion(results, frames)
    return WhatIf(
        results=results,
        binding=binding,
        conclusion=conclusion,
        untried=tuple(fixes.untried),
        skipped_count=skipped,
    )


def _conclusion(ranked: Sequence[TrialResult], frames: int) -> tuple[tuple[str, ...], str]:
    """Conclude which cause binds, if so many frames have to be compiled at least once."""
    base = next(result for result in ranked if not result.remedies)
    if base.compiles is None:
        return (), "The calls couldn't be replayed, so there is nothing to compare."
    for_causes = [
        result
        for result in ranked
        if result.compiles is not None
        and result.remedies
        and all(remedy.addresses for remedy in result.remedies)
    ]
    better = [
        result
        for result in for_causes
        if result.outputs != "different" and _score(result) < _score(base)
    ]
    helpful = [result for result in better if len(result.remedies) == 1]
    best = helpful[0] if helpful else base
    joint = next((result for result in better if _score(result) < _score(best)), None)
    together = f" Fixing {_names(joint)} together: {_saved(base, joint)}." if joint else ""
    if not helpful:
        return (), f"No remedy for a single cause saves a compile.{together}"
    others = [result for result in for_causes if len(result.remedies) == 1 and result is not best]
    rivals = [result for result in others if _score(result) == _score(best)]
    if rivals:
        savings = "; ".join(
            f"{_names(result)}: {_saved(base, result)}" for result in (best, *rivals)
        )
        return (), f"No single cause stands out. Fixing one alone: {savings}.{together}"
    is_enough = _score(best) <= (0, frames)
    answer = f"Fixing {_names(best)} alone {'is enough' if is_enough else 'helps most'}: {_saved(base, best)}."
    compared = "".join(
        f" Fixing {_names(result)} alone: {_saved(base, result)}." for result in others
    )
    return best.remedies[0].addresses, answer + compared + together


def _score(result: TrialResult) -> _Score:
    return result.frames_over_limit or 0, result.compiles or 0


def _names(result: TrialResult) -> str:
    names = [
        name if "`" in name else f"`{name}`"
        for remedy in result.remedies
        for name in remedy.addresses
    ]
    more = len(names) - _MAX_NAMED
    return ", ".join(names[:_MAX_NAMED]) + f" and {more} more" if more > 0 else " and ".join(names)


def _saved(base: TrialResult, result: TrialResult) -> str:
    """``8 compiles → 2, no longer over the recompile limit``."""
    limit = ""
    if result.frames_over_limit:
        limit = f", {'still ' if base.frames_over_limit else ''}over the recompile limit"
    elif base.frames_over_limit:
        limit = ", no longer over the recompile limit"
    return f"{counted(base.compiles or 0, 'compile')} → {result.compiles}{limit}"
