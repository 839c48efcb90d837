"""What comparing the results of replays shows: which of them a program repeats, and how others differ.

Pure: recordings of replays come in.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphdoctor.facts.recording import Recording
from graphdoctor.facts.trials import Difference, ResultKind


@dataclass(frozen=True)
class Repeatability:
    """Which results of the untouched program differ between runs without torch.compile.

    Args:
        unstable: Kinds of results that do.
        unstable_numbers: Kinds of texts in which only numbers do; ``state`` if only Python numbers that modules keep
            do, such as times.
    """

    unstable: frozenset[ResultKind] = frozenset()
    unstable_numbers: frozenset[ResultKind] = frozenset()

    def covers(self, difference: Difference) -> bool:
        """Whether results differ only as they do without torch.compile."""
        is_number = difference.kind in self.unstable_numbers and difference.change == "numbers"
        return difference.kind in self.unstable or is_number


def repeatability_of(again: Recording) -> Repeatability:
    """Which results a program repeats.

    Args:
        again: A second run without torch.compile, compared with the first.
    """
    differing = differences_of(again)
    numbers = {kind for kind, found in differing.items() if found.change == "numbers"}
    return Repeatability(unstable=frozenset(differing.keys() - numbers), unstable_numbers=frozenset(numbers))


def differences_of(recording: Recording) -> dict[ResultKind, Difference]:
    """How a run's results differ from those without torch.compile, by kind, and those of its earlier run."""
    replay = recording.replay
    if replay is None:
        return {}
    found = [compared for name in ("earlier", "eager") if (compared := replay.compared.get(name)) is not None]
    return {difference.kind: difference for compared in found for difference in compared.differences}


def described(difference: Difference) -> str:
    """A difference in words, such as ``gradient of x in call 1 differs by 0.3``."""
    if difference.largest is not None:
        return f"{difference.where} differs by {difference.largest:.3g}"
    return f"{difference.where}: {difference.detail or 'differs'}"


def clause(message: str | None) -> str:
    """A message as a clause."""
    return (message or "it didn't finish").rstrip(".")
