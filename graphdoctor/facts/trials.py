"""The facts of trials: the same calls replayed with a change, and what happened; and of
``--vary``.
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from . import shared
from .base import Fact
from .guards import ChangeKind
from .located import Located, NotLocated
from .stack import StackEntry

CompilerPartKind = Literal["decomposition", "pass", "lowering"]
"""Parts of the compiler that a replay can leave out by name: an operator's ``decomposition`` or
``lowering``, or a ``pass`` over graphs."""

TextChange = Literal["numbers", "fewer", "fewer_and_numbers", "other"]
"""Difference of a text: in numbers only, by missing lines only, by both, or otherwise."""

Judged = Literal["changed", "untouched", "variant"]
"""Whose results are judged beside the untouched program's: one with a change, itself as it was run
before, or itself compiled in another way."""

OutputsVerdict = Literal["equal", "different", "not_compared"]
"""``equal``: within the tolerances of ``torch.testing.assert_close`` for each dtype."""


ResultKind = Literal[
    "outputs",
    "gradients",
    "state",
    "forms",
    "strides",
    "exceptions",
    "stdout",
    "logs",
    "warnings",
    "files",
    "stderr",
]
"""``state``: parameters, buffers, gradients and plain attributes of modules after the calls, and
arguments that a call changed; ``forms``: dtype, device, strides and ``requires_grad`` of output
tensors, and what they are the same as or views of; ``exceptions``: type and message of what a call
raised; ``logs``: what the program logged through ``logging``; ``files``: the names of those that it
wrote, and what else it did to files and folders. ``forms`` and ``exceptions`` are compared where
that is asked for."""

TEXTS: frozenset[ResultKind] = frozenset({"stdout", "logs", "warnings", "files", "stderr"})
"""Kinds of results that a program writes rather than computes."""

FORMS: frozenset[ResultKind] = frozenset({"forms", "strides"})
"""What callers rely on besides values."""

MESSAGES: frozenset[ResultKind] = frozenset({"stdout", "logs", "stderr"})
"""What a program may write less of where that is said. A warning that nobody sees, or a file that
isn't written, is wrong."""


Reference = Literal["eager", "untouched", "earlier"]
"""Reference that results are compared with: eager mode's, the untouched program's, those of an
earlier run of the same trial."""


THE_CALL = "the call"
"""Place of a difference that is the end of a call itself, such as an exception."""


class MissingLines(Fact):
    """Lines that a program no longer writes."""

    count: int
    """Number it writes."""
    reference_count: int
    """Number it should write."""
    first: str
    """The first one that is missing, as Python writes it, shortened."""


class Difference(Fact):
    """The largest difference of one kind."""

    kind: ResultKind
    where: str
    """Name of the value, such as ``call 2, output['logits']``."""
    call: int | None = None
    """The first call, from 1, with a value of the kind that differs as clearly as this one; None if
    no call has one, and in older recordings."""
    largest: float | None = None
    """The largest absolute difference; None if shapes, dtypes or types differ, or a value is NaN or
    missing."""
    spacings: float | None = None
    """The same in units of the spacing of the dtype's numbers at the reference; None if it isn't a
    floating-point tensor, and in older recordings."""
    presence: Literal["missing", "new"] | None = None
    """True if only one of the two has the value."""
    value: str | None = None
    """The value as text, if the two differ in more than numbers; for ``THE_CALL`` the exception."""
    reference: str | None = None
    """Expected value."""
    is_finite: bool = True
    """True if NaN or infinity isn't what differs."""
    lines: MissingLines | None = None
    """The lines that a text lacks; None if it has as many."""
    change: TextChange | None = None
    """Difference of a text, or of Python numbers that modules keep; None for other values."""
    may_be_rounding: bool = False
    """True if it is too large to be called rounding, and too small to be called wrong."""


class Comparison(Fact):
    """The results of two replays of the same calls, compared."""

    kinds: tuple[ResultKind, ...]
    differences: tuple[Difference, ...]
    """One for each kind that differs by more than ``torch.testing.assert_close`` allows for the
    dtype, and by more than
    rounding: a value may be twice as far from a float64 run as runs of the unmodified program
        are."""
    is_bitwise_equal: bool | None = None
    """True if every computed value is the same, bit by bit; None in recordings that don't say."""
    counts: tuple[tuple[ResultKind, int], ...] = ()
    """Values that were compared of each kind; empty in older recordings."""
    rounded: tuple[ResultKind, ...] = ()
    """Kinds of computed values of which one isn't the same bit by bit."""
    zero_gradients: tuple[str, ...] = ()
    """Gradients that are 0 where the reference has none; no difference, unless an optimizer makes
    one."""
    retyped: Difference | None = None
    """The first number of the state that is kept as a tensor of the same value; what reads it there
    must take a tensor. None if there is none, and in older recordings."""
    note: str | None = None
    """Values that couldn't be compared, and the reason."""

    @property
    def results(self) -> tuple[Difference, ...]:
        """The differences in what the program computes, without what it writes."""
        return tuple(difference for difference in self.differences if difference.kind not in TEXTS)


class AttackFailure(Fact):
    """An input on which a changed program gives something else."""

    text: str
    """Change of the first call, as a clause, such as ``x is all zero``."""
    code: str
    """Python that changes the call's arguments so, by the names of the function's parameters."""
    is_compiled: bool
    """True if it shows with torch.compile only."""
    difference: Difference
    raised: tuple[str, str] | None = None
    """The exceptions that the unmodified program and the changed one raise; None unless both raise
    one."""


class Attacked(Fact):
    """Results of a program on inputs made to break an edit, beside the unmodified program."""

    count: int
    """Inputs on which all results were compared, without those that the program refuses."""
    is_edited: bool = False
    """True if the program's source was changed, so that they were tried without torch.compile
    too."""
    failure: AttackFailure | None = None
    """The first input with other results; None if there is none."""
    dropped: tuple[Difference, ...] = ()
    """Outputs that the program lacks on some of them while it is compiled."""
    reached: tuple[tuple[shared.File, int], ...] = ()
    """Lines, with their files, that only run where something that the program computes is set to
    another value, with the same results."""
    redrawn: AttackFailure | None = None
    """The first input on which an edit that is known to draw more has other results, and the same
    if all rows draw alike."""
    is_own_redrawn: bool = False
    """True if the program's own calls give the same if all rows draw alike, where the edit is known
    to draw more."""
    exceptions: tuple[AttackFailure, ...] = ()
    """The first input on which torch.compile raises another exception."""
    torch_kinds: tuple[ResultKind, ...] = ()
    """Kinds of results that torch.compile changes on some of them without any edit."""

    @property
    def worst(self) -> AttackFailure | None:
        """The first input with other results, or with another exception."""
        return self.failure or next(iter(self.exceptions), None)


class ResultError(Fact):
    """Distance of the results of one kind from those of the program in float64."""

    kind: ResultKind
    """Outputs, gradients or state."""
    variant: float
    """Largest distance of a value from the float64 run, root mean square over its elements,
    relative to that run's."""
    eager: float
    """The same of eager mode."""


class CompilerPart(Fact):
    """A part of the compiler that can be left out by its name."""

    kind: CompilerPartKind
    """An operator's ``decomposition`` or ``lowering``, or a ``pass`` over graphs."""
    name: str
    """The operator or the pass, such as ``aten.gelu.default``."""


class Replay(Fact):
    """Result of one replay, besides its compiles."""

    compared: dict[Reference, Comparison] = field(default_factory=dict)
    """Comparisons with the same calls of the unmodified program, without torch.compile (``eager``)
    and with it; ``earlier``: how an earlier run of the same trial compares with ``eager``."""
    errors: tuple[ResultError, ...] = ()
    """Distances of results from a float64 run of the unmodified program, without values that it
    computed in another way."""
    kinds_apart: tuple[ResultKind, ...] = ()
    """Kinds of results of which the float64 run computed a value in another way, such as from other
    random numbers."""
    changing: dict[str, tuple[str | None, ...]] = field(default_factory=dict)
    """Plain values that the program can read before each call (arguments, attributes, globals,
    torch's modes), by expression, without those that stay the same; None where there is none; empty
    if nobody asked."""
    draws_random: bool = False
    """True if a call drew from Python's, torch's or NumPy's own random generator."""
    lost: tuple[str, ...] = ()
    """Attributes of modules that the calls change, and that an exported program leaves as they
    are."""
    located: Located | None = None
    """The first operation that is wrong; None if nobody looked, or see ``not_located``."""
    not_located: NotLocated | None = None
    not_located_lines: tuple[StackEntry, ...] = ()
    """The lines among which it is, in the order of the graph; empty if they aren't known."""
    steady_us: float | None = None
    """Only in older recordings."""
    parts: tuple[CompilerPart, ...] = ()
    """Parts of the compiler that were used, or would have been if they weren't left out, in that
    order; empty if nobody asked."""
    attacked: Attacked | None = None
    """Results with other inputs; None if none were tried."""
    warm_up_frames_over_limit: int = 0
    """Functions that hit their limit in calls that don't count: during warm-up or while repeating
    the last call."""

    @property
    def outputs(self) -> OutputsVerdict:
        """Return whether the calls computed the same as without torch.compile."""
        eager = self.compared.get("eager")
        if eager is None:
            return "not_compared"
        return "different" if eager.results else "equal"


class Remedy(Fact):
    """One change of configuration or of the calls that can be tried without an edit of source."""

    name: str
    """Stable name, such as ``mark_dynamic x 0``."""
    title: str
    snippet: str | None
    """Code or configuration to write; None if ``title`` has to do."""
    kind: Literal["config", "call"]
    """Object of the change: a torch setting, or how the target is compiled and called."""
    addresses: tuple[str, ...]
    """The changed values that it is for, in the user's words; empty if it is for all of them."""
    keeps_results: bool
    """True if it only changes how torch compiles, not what the program computes."""


class TrialResult(Fact):
    """One row of ``--what-if``."""

    remedies: tuple[Remedy, ...]
    """The remedies that were applied together; empty for the unmodified program."""
    compiles: int | None
    """Compiles that got code; None if the replay failed."""
    frames_over_limit: int | None = None
    compile_s: float | None = None
    """Seconds spent compiling."""
    calls_s: float | None = None
    """Seconds of all calls, including compilation."""
    steady_us: float | None = None
    """Only in older recordings: replays run beside each other, so that their times can't be
    compared."""
    outputs: OutputsVerdict
    """Comparison of the outputs with eager mode."""
    largest_difference: float | None = None
    """The largest absolute difference."""
    where: str | None = None
    """Place of the largest difference, or the reason why they weren't compared."""
    error: str | None = None

    @property
    def score(self) -> tuple[int, int]:
        """Functions over the recompile limit, then compiles; lower is better."""
        return self.frames_over_limit or 0, self.compiles or 0


class UntriedChange(Fact):
    """A cause of recompiles that no replay can remove."""

    expression: str
    """The value that changed, in the user's words."""
    reason: str


class WhatIf(Fact):
    """Results of the same calls with each remedy."""

    results: tuple[TrialResult, ...]
    """Best first, including the unmodified program; remedies for causes come before a warm-up,
    which removes none."""
    binding: tuple[str, ...] = ()
    """The changed values whose remedy alone saves the most compiles; empty if none stands out."""
    frame_count: int = 0
    """Functions of the recorded run, each of which has to be compiled once."""
    untried: tuple[UntriedChange, ...] = ()
    skipped_count: int = 0
    """Number of combinations that weren't tried because there were too many."""

    @property
    def unchanged(self) -> TrialResult | None:
        """The replay of the unmodified program; None if it couldn't be made."""
        plain = (result for result in self.results if not result.remedies)
        return next((result for result in plain if result.compiles is not None), None)

    @property
    def for_causes(self) -> list[TrialResult]:
        """Replays that ran with remedies for causes, the best first."""
        return [
            result
            for result in self.results
            if result.compiles is not None
            and result.remedies
            and all(remedy.addresses for remedy in result.remedies)
        ]

    @property
    def better(self) -> list[TrialResult]:
        """Those of them that save compiles, with the same results."""
        if (base := self.unchanged) is None:
            return []
        return [
            result
            for result in self.for_causes
            if result.outputs != "different" and result.score < base.score
        ]


TriedOutcome = Literal["free", "compiled", "over_limit", "fails_compiled", "fails_eager"]
"""``free``: nothing compiled for the value; ``compiled``: something did; ``over_limit``: the call
hit the recompile limit and ran eagerly; ``fails_compiled``: it works in eager mode and raises under
torch.compile; ``fails_eager``: it raises in eager mode, so it was not tried compiled."""

VariationVerdict = Literal["recompiles", "generalises", "free", "fails", "not_varied"]
"""``recompiles``: each new value recompiled. ``generalises``: some did, and the code that was
compiled then works for others. ``free``: none did. ``fails``: each raises under torch.compile and
works in eager mode. ``not_varied``: unknown. Special values only count if no other could be
tried."""


class TriedValue(Fact):
    """One value that a property was set to."""

    value: str
    """The value, such as ``8`` or ``f64``."""
    is_special: bool = False
    """True if torch tends to compile separately for it: sizes 0 and 1, numbers 0, 1 and below 0."""
    outcome: TriedOutcome
    compiles: int | None = None
    """Compiles that got code in this call; None if it wasn't made under torch.compile."""
    compile_s: float | None = None
    """Seconds of these, as torch measured them."""
    torch_reason: str | None = None
    """The first guard that failed, in torch's words."""
    error: str | None = None


class Variation(Fact):
    """One property, and what changing only this property does to the compiled call.

    For each property, Dynamo is reset. Then come the unchanged call until nothing compiles, the
    values in order, and the unchanged call again. State and random numbers are restored before each
    call.
    """

    expression: str
    """The property in the user's words, such as ``x.shape[0]``, ``self.scale`` or ``grad mode``."""
    kind: ChangeKind
    base: str
    """Its value in the unchanged call."""
    tied: tuple[str, ...] = ()
    """Properties that had to change with it, because the call fails in eager mode otherwise."""
    tried: tuple[TriedValue, ...] = ()
    """The values that were tried, in order."""
    verdict: VariationVerdict
    back_compiles: int | None = None
    """Compiles of the unchanged call after all values; None if it wasn't made."""
    compile_s: float | None = None
    """Seconds spent compiling for the values, as torch measured them."""
    reason: str | None = None
    """Reason why it wasn't varied; None if it was."""
