"""Replays the same calls in fresh probes under each remedy, and says which cause binds.

Comes in: a request and the recording of its run. Goes out: ``WhatIf``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from graphdoctor.capture.request import Request
from graphdoctor.fixes.remedies import WARM_UP, Candidate, Candidates, Change, candidates
from graphdoctor.fixes.replays import EAGER, Limits, Program, Replays
from graphdoctor.model.recording import Recording
from graphdoctor.model.trials import TrialResult, WhatIf
from graphdoctor.trace.reader import read_recording

FOLDER = "what-if"
FILE = "what-if.json"
_MAX_TRIALS = 12


def what_if(
    request: Request,
    folder: Path,
    *,
    python: str,
    timeout_s: float | None,
    jobs: int,
    on_phase: Callable[[str], None],
) -> WhatIf | None:
    """Try the remedies for the recompiles of a recorded run.

    Args:
        request: What the run was asked to do.
        folder: Its recording.
        python: The interpreter to run the probes with.
        timeout_s: Seconds until a replay is stopped, or None.
        jobs: How many replays run side by side.
        on_phase: Told what is being tried.

    Returns:
        What came of it, also written to the recording; None when nothing was compiled again.
    """
    found = candidates(read_recording(folder))
    if found is None:
        return None
    trials, skipped = found.combined(_MAX_TRIALS)
    replays = Replays(request, folder / FOLDER, python=python, limits=Limits(timeout_s))
    on_phase("replaying without torch.compile")
    replays.replay(Program(), EAGER)
    everything = [Candidate((), Change()), *trials]

    def run(number: int) -> TrialResult:
        trial = everything[number]
        on_phase(f"trial {number + 1} of {len(everything)}: {_name(trial)}")
        return _result(
            trial, replays.replay(Program(change=trial.change), str(number), references={EAGER: EAGER}, is_timed=True)
        )

    found_results = replays.side_by_side(run, range(len(everything)), jobs=jobs)
    results = list(zip(everything, found_results, strict=True))
    answer = _answer(results, found, skipped)
    (folder / FILE).write_text(answer.model_dump_json(), encoding="utf-8")
    return answer


def _result(trial: Candidate, recording: Recording) -> TrialResult:
    is_whole = recording.exit.reason == "finished"
    compiled = [compile_ for compile_ in recording.compiles if compile_.outcome == "compiled"]
    limits = {compile_.frame_id for compile_ in recording.compiles if compile_.outcome == "limit"}
    times = [compile_.duration_s for compile_ in recording.compiles if compile_.duration_s is not None]
    calls = [call.duration_s for call in recording.calls if call.duration_s is not None]
    replay = recording.replay
    eager = replay.compared.get("eager") if replay else None
    worst = eager.results[0] if eager and eager.results else None
    uncounted = replay.warm_up_frames_over_limit if replay and trial.change.warm_up else 0
    return TrialResult(
        remedies=trial.remedies,
        compiles=len(compiled) if is_whole else None,
        frames_over_limit=len(limits) + uncounted if is_whole else None,
        compile_s=sum(times) if is_whole and (times or not recording.compiles) else None,
        calls_s=sum(calls) if calls and is_whole else None,
        steady_us=replay.steady_us if replay else None,
        outputs=replay.outputs if replay else "not_compared",
        largest_difference=worst.largest if worst else None,
        where=worst.where if worst else eager.note if eager else "eager mode gave no outputs",
        error=None if is_whole else recording.exit.message,
    )


def _name(trial: Candidate) -> str:
    return " with ".join(remedy.name for remedy in trial.remedies) or "as it is"


def _rank(result: TrialResult) -> tuple[bool, bool, int, bool, int, int, float]:
    """Failed last, then other results, then the limit, then compiles, then how much has to change, then time.

    Warming up moves compiles to where they are not counted: it comes behind what saves them.
    """
    return (
        result.compiles is None,
        result.outputs == "different",
        result.frames_over_limit or 0,
        any(remedy.name == WARM_UP for remedy in result.remedies),
        result.compiles or 0,
        len(result.remedies),
        result.calls_s or 0.0,
    )


def _answer(results: Sequence[tuple[Candidate, TrialResult]], found: Candidates, skipped: int) -> WhatIf:
    ranked = sorted((result for _, result in results), key=_rank)
    singles = [
        result
        for trial, result in results
        if len(trial.remedies) == 1 and trial.remedies[0].addresses and result.compiles is not None
    ]
    base = next(result for trial, result in results if not trial.remedies)
    binding, conclusion = _conclusion(base, sorted(singles, key=_rank))
    return WhatIf(
        results=tuple(ranked),
        binding=binding,
        conclusion=conclusion,
        untried=tuple(found.untried),
        skipped_count=skipped,
    )


def _conclusion(base: TrialResult, singles: Sequence[TrialResult]) -> tuple[tuple[str, ...], str]:
    """What binds: the one cause whose remedy alone saves more than any other's."""
    if base.compiles is None:
        return (), "The calls could not be replayed, so nothing can be compared."
    helpful = [result for result in singles if result.outputs != "different" and _saves(result, base)]
    if not helpful:
        return (), "No remedy for one cause alone saves a compile."
    best, others = helpful[0], [result for result in singles if result is not helpful[0]]
    rivals = [result for result in others if _score(result) == _score(best)]
    told = f"with {_told(best)}"
    if rivals:
        return (), f"No single cause binds: {told}; {'; '.join(f'with {_told(result)}' for result in rivals)}."
    names = best.remedies[0].addresses
    verb = "is" if len(names) == 1 else "are"
    shown = " and ".join(name if "`" in name else f"`{name}`" for name in names)
    compared = "".join(f" With {_told(result)}." for result in others)
    return names, f"{shown} {verb} what binds: {told}.{compared} As it is {_left(base)}."


def _saves(result: TrialResult, base: TrialResult) -> bool:
    return _score(result) < _score(base)


def _score(result: TrialResult) -> tuple[int, int]:
    return result.frames_over_limit or 0, result.compiles or 0


def _told(result: TrialResult) -> str:
    return f"{result.remedies[0].name} alone {_left(result)}"


def _left(result: TrialResult) -> str:
    compiles = f"{result.compiles} compile{'' if result.compiles == 1 else 's'}"
    return f"{compiles}, the limit {'hit' if result.frames_over_limit else 'not hit'}"
