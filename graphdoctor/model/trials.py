"""Trials: the same calls replayed under a remedy, and what came of it."""

from __future__ import annotations

from typing import Literal

from graphdoctor.model.base import Fact

OutputsVerdict = Literal["equal", "different", "not_compared"]
"""``equal``: within the tolerances of ``torch.testing.assert_close`` for each dtype."""


class Replay(Fact):
    """What one replay gave, beside its compiles."""

    outputs: OutputsVerdict
    """Compared with the same calls in eager mode, gradients included when backward ran."""
    largest_difference: float | None = None
    """The largest absolute difference, where values of equal shape differ."""
    where: str | None = None
    """Where they differ most, or why they were not compared."""
    steady_us: float | None = None
    """Median time of the last call once it compiles nothing, in microseconds; None when it went on compiling."""
    warm_up_frames_over_limit: int = 0
    """Functions that went over their limit in calls that are not counted: while warming up or repeating the last."""


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
