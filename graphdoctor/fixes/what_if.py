"""Replays the same calls in fresh probes under each remedy, and says which cause binds.

Comes in: a request and the recording of its run. Goes out: ``WhatIf``. Each replay is a recording of its own in a
folder below the first one's, so that every number can be looked up there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path

from graphdoctor.capture.child import Watching, record
from graphdoctor.capture.request import Request
from graphdoctor.fixes.remedies import WARM_UP, Candidate, Candidates, Change, candidates
from graphdoctor.model.recording import Recording
from graphdoctor.model.trials import TrialResult, WhatIf
from graphdoctor.rules.recompiles import recompile_events
from graphdoctor.trace.reader import read_recording

FOLDER = "what-if"
FILE = "what-if.json"
_MAX_TRIALS = 12
_EAGER = "eager"


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
    recording = read_recording(folder)
    events = recompile_events(recording)
    if not events:
        return None
    has_limit = any(compile_.outcome == "limit" for compile_ in recording.compiles)
    found = candidates(events, parameters=recording.target.parameters, has_limit=has_limit)
    trials, skipped = found.combined(_MAX_TRIALS)
    replays = _Replays(request, folder / FOLDER, python=python, timeout_s=timeout_s)
    replays.run_eager(on_phase)
    everything = [Candidate((), Change()), *trials]
    results = replays.run_all(everything, jobs=jobs, on_phase=on_phase)
    answer = _answer(results, found, skipped)
    (folder / FILE).write_text(answer.model_dump_json(), encoding="utf-8")
    return answer


class _Replays:
    """Runs candidates, each in a probe of its own.

    Args:
        request: What the recorded run was asked to do.
        folder: Where the replays' recordings go.
        python: The interpreter.
        timeout_s: Seconds until a replay is stopped, or None.
    """

    def __init__(self, request: Request, folder: Path, *, python: str, timeout_s: float | None) -> None:
        self._request = request
        self._folder = folder
        self._python = python
        self._timeout_s = timeout_s
        self._is_cancelled = threading.Event()

    def run_eager(self, on_phase: Callable[[str], None]) -> None:
        """Make the calls without torch.compile, for outputs to compare with."""
        on_phase("replaying without torch.compile")
        self._replay(Change(), _EAGER, is_eager=True)

    def run_all(
        self, trials: Sequence[Candidate], *, jobs: int, on_phase: Callable[[str], None]
    ) -> list[tuple[Candidate, TrialResult]]:
        """Run every trial; an interrupt stops those under way."""
        done: list[int] = []

        def run(number: int) -> TrialResult:
            on_phase(f"trial {number + 1} of {len(trials)}: {_name(trials[number])}")
            result = self._result(trials[number], str(number))
            done.append(number)
            return result

        with ThreadPoolExecutor(max_workers=jobs) as pool:
            futures = [pool.submit(run, number) for number in range(len(trials))]
            try:
                wait(futures, return_when=FIRST_EXCEPTION)
            except KeyboardInterrupt:
                self._is_cancelled.set()
                pool.shutdown(cancel_futures=True)
                raise
            return [(trial, future.result()) for trial, future in zip(trials, futures, strict=True)]

    def _result(self, trial: Candidate, name: str) -> TrialResult:
        recording = self._replay(trial.change, name, is_eager=False)
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
            compile_s=sum(times) if times and is_whole else (0.0 if is_whole else None),
            calls_s=sum(calls) if calls and is_whole else None,
            steady_us=replay.steady_us if replay else None,
            outputs=replay.outputs if replay else "not_compared",
            largest_difference=worst.largest if worst else None,
            where=worst.where if worst else eager.note if eager else "eager mode gave no outputs",
            error=None if is_whole else recording.exit.message,
        )

    def _replay(self, change: Change, name: str, *, is_eager: bool) -> Recording:
        folder = self._folder / name
        folder.mkdir(parents=True)
        plan = {
            **change.plan(),
            "is_eager": is_eager,
            "outputs": str(folder / "outputs.pt"),
            "references": {} if is_eager else {"eager": str(self._folder / _EAGER / "outputs.pt")},
        }
        request = replace(
            self._request,
            coverage=False,
            dynamic=self._request.dynamic if change.dynamic is None else change.dynamic,
            config={**self._request.config, **dict(change.config)},
            trial=plan,
        )
        # The program said what it has to say in the recorded run.
        watching = Watching(on_phase=_ignore, on_output=_ignore, is_cancelled=self._is_cancelled.is_set)
        record(request, folder, python=self._python, timeout_s=self._timeout_s, watching=watching)
        return read_recording(folder)


def _ignore(_what: object) -> None:
    """Nobody listens."""


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
    shown = " and ".join(f"`{name}`" for name in names)
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
