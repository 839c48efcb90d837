"""Reports what each trial of a wave showed as soon as it is over, and again if that isn't what counts in the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphdoctor.facts.diagnosis import Finding
from graphdoctor.facts.fixes import Verdict
from graphdoctor.facts.progress import DecidedTrial
from graphdoctor.fixes.proposals import FindingOptions, Proposal
from graphdoctor.fixes.trials import State, Trials
from graphdoctor.trials.judge import Observed


class Announcing:
    """Reports the trials of one wave.

    Args:
        trials: Judges them.
        state: What they build on.
        proposals: The fixes that are tried.
        found: The findings that they are for.
        place: Gives a finding's ``file:line``.
    """

    def __init__(
        self,
        trials: Trials,
        state: State,
        proposals: Sequence[Proposal],
        found: Sequence[FindingOptions],
        place: Callable[[Finding], str],
    ) -> None:
        self._trials = trials
        self._state = state
        self._proposals = proposals
        self._findings: list[list[Finding]] = [[] for _ in proposals]
        for options in found:
            self._findings[self.index_of(options.finding)].append(options.finding)
        self._place = place
        self._numbers: dict[int, int] = {}
        self._announced: dict[int, list[Verdict]] = {}

    def index_of(self, finding: Finding) -> int:
        """Which of the fixes is tried for a finding."""
        return next(i for i, proposal in enumerate(self._proposals) if finding.fingerprint in proposal.targets)

    def announce(self, index: int, number: int, observed: Observed) -> None:
        """Report what a trial showed, unless timing has to decide first.

        Args:
            index: The fix.
            number: The trial's number.
            observed: Its replay.
        """
        self._numbers[index] = number
        proposal = self._proposals[index]
        judged = [self._trials.judge(finding, proposal, self._state, observed) for finding in self._findings[index]]
        if judged and all(one.if_faster is None for one in judged):
            self._report(index, [one.verdict for one in judged])

    def settle(self, verdicts: dict[tuple[int, str], Verdict]) -> None:
        """Report the trials whose verdicts weren't reported, or have changed: a later trial can show what is noise.

        Args:
            verdicts: What counts, by fix and fingerprint of the finding.
        """
        for index, findings in enumerate(self._findings):
            final = [verdicts[index, finding.fingerprint] for finding in findings]
            if final and self._announced.get(index) != final:
                self._report(index, final)

    def _report(self, index: int, verdicts: list[Verdict]) -> None:
        self._announced[index] = verdicts
        places = [self._place(finding) for finding in self._findings[index]]
        pairs = tuple(zip(places, verdicts, strict=True))
        backend = None if self._trials.trial_backend == self._trials.backend else self._trials.trial_backend
        self._trials.pace.report(DecidedTrial(self._numbers[index], self._proposals[index].title, pairs, backend))
