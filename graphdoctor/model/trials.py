"""Trials: the same calls replayed under a remedy, and what came of it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from graphdoctor.model.base import Fact

OutputsVerdict = Literal["equal", "different", "not_compared"]
"""``equal``: within the tolerances of ``torch.testing.assert_close`` for each dtype."""


ResultKind = Literal["outputs", "gradients", "state", "stdout"]
"""``state``: parameters, buffers and numbers of modules after the calls, and arguments that a call mutated."""


class Difference(Fact):
    """The worst difference of one kind."""

    kind: ResultKind
    """What differs."""
    where: str
    """Which value, such as ``call 2, output['logits']``."""
    largest: float | None = None
    """The largest absolute difference; None where shapes, dtypes or kinds differ, or something is NaN or missing."""
    detail: str | None = None
    """What is there in place of what, where there is no number."""


class Comparison(Fact):
    """What two replays of the same calls gave, compared."""

    kinds: tuple[ResultKind, ...]
    """Kinds with something to compare."""
    differences: tuple[Difference, ...]
    """One for each kind that differs by more than ``torch.testing.assert_close`` allows for its dtype."""
    note: str | None = None
    """What could not be compared, and why."""

    @property
    def results(self) -> tuple[Difference, ...]:
        """The differences in what the program computes, leaving out what it prints."""
        return tuple(difference for difference in self.differences if difference.kind != "stdout")


class Replay(Fact):
    """What one replay gave, beside its compiles."""

    compared: dict[Literal["eager", "untouched"], Comparison] = Field(default_factory=dict)
    """With the same calls of the untouched program without torch.compile, and under it."""
    steady_us: float | None = None
    """Median time of the last call once it compiles nothing, in microseconds; None when it went on compiling."""
    warm_up_frames_over_limit: int = 0
    """Functions that went over their limit in calls that are not counted: while warming up or repeating the last."""

    @property
    def outputs(self) -> OutputsVerdict:
        """Whether the calls computed what they compute without torch.compile."""
        eager = self.compared.get("eager")
        if eager is None:
            return "not_compared"
        return "different" if eager.results else "equal"


class Remedy(Fact):
    """One change of configuration or of the calls that can be tried without touching any source."""

    name: str
    """Stable name, such as ``mark_dynamic x 0``."""
    title: str
    """One imperative sentence."""
    snippet: str
    """Code or configuration to write."""
    kind: Literal["config", "call"]
    """A torch config value, or how the target is compiled and called."""
    addresses: tuple[str, ...]
    """The changed values that it is meant for, in the user's words; empty for one that is meant for all."""
    keeps_results: bool
    """It changes how torch compiles, not what the program computes."""


class TrialResult(Fact):
    """One row of ``--what-if``."""

    remedies: tuple[Remedy, ...]
    """What was applied together; empty for the program as it is."""
    compiles: int | None
    """Compiles that got code; None when the replay failed."""
    frames_over_limit: int | None = None
    """Functions over their recompile limit."""
    compile_s: float | None = None
    """Seconds spent compiling."""
    calls_s: float | None = None
    """Seconds of all calls, compilation included."""
    steady_us: float | None = None
    """Median time of the last call once it compiles nothing, in microseconds."""
    outputs: OutputsVerdict
    """Compared with eager mode."""
    largest_difference: float | None = None
    """The largest absolute difference."""
    where: str | None = None
    """Where they differ most, or why they were not compared."""
    error: str | None = None
    """Why the replay failed."""


class UntriedChange(Fact):
    """A cause of recompiles that no replay can take away."""

    expression: str
    """What changed, in the user's words."""
    reason: str
    """Why nothing was tried."""


class WhatIf(Fact):
    """What would happen to the same calls under each remedy."""

    results: tuple[TrialResult, ...]
    """Best first, the program as it is among them; remedies of causes before warming up, which takes none away."""
    binding: tuple[str, ...] = ()
    """The changed values whose remedy alone saves most compiles; empty when no remedy stands out."""
    conclusion: str
    """One or two sentences: what binds, with the counts that show it."""
    untried: tuple[UntriedChange, ...] = ()
    """Causes that no replay can take away."""
    skipped_count: int = 0
    """Combinations that were left out because there were too many."""
