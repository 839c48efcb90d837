"""The facts of fixes that were tried: what each did to the same calls, and what the verified ones
do together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Literal

from . import shared
from .base import Fact
from .counts import Counts
from .run import Setting
from .trials import Attacked, Comparison, Difference

FixKind = Literal["code", "config", "call"]
"""Object of a fix: the source, a torch setting, or how the target is compiled and called."""

Verdict = Literal[
    "verified",
    "verified with loss",
    "contained",
    "moved",
    "no effect",
    "makes it worse",
    "changes results",
    "failed",
    "unproven",
    "not tried",
]
"""``verified``: the finding is gone and all results equal those of the unmodified program;
``verified with loss``: the same, but compiled, the program prints, logs or keeps less, or raises
another exception; ``contained``: as ``verified``, but the break stays and less runs eagerly because
of it; ``moved``: a break came back close by, and nothing else is better; ``makes it worse``: the
calls take longer, or less of them is compiled; ``unproven``: the finding is gone, but results
already differ from run to run, or between eager and compiled mode, without any fix, so they can't
be compared."""

LOSSY: Verdict = "verified with loss"
"""A fix with this verdict is unsafe, and comes after every other one that works."""

VERIFIED: frozenset[Verdict] = frozenset({"verified", LOSSY})
"""Verdicts on fixes that remove the finding and compute the same."""

WORKING: frozenset[Verdict] = VERIFIED | {"contained"}
"""Verdicts on fixes that are worth having: these are applied, lossy ones if asked for."""

Grade = Literal["merged", "guarded", "contained"]
"""What a fix leaves of the source. ``merged``: an edit with one code path, as a maintainer merges
it; ``guarded``: a setting, another way to call, or a path that only compiled or only eager calls
take; ``contained``: the break stays, in a function that torch doesn't compile or in a part of what
was one function."""

GRADES: tuple[Grade, ...] = ("merged", "guarded", "contained")
"""All grades, the best first."""

UntriedCause = Literal["unsafe", "unfinished_run", "not_requested", "not_repeatable", "budget"]
"""Reason why a fix wasn't tried: it can change results for other inputs and unsafe fixes weren't
requested; the recorded run didn't finish; trials are off; the run couldn't be repeated; time was
up."""


Where = Literal["start", "first_call", "each_call", "compile", "compile_call"]
"""``start``: at the start of the program, after ``import torch`` and before anything compiles;
``first_call`` and ``each_call``: in the code that calls the function, before the first call or
before each, with the values that are passed under the names of its parameters; ``compile``: among
the arguments of ``torch.compile``; ``compile_call``: in place of the call of ``torch.compile``."""


class SnippetPlace(Fact):
    """Place for a snippet."""

    where: Where
    function: str | None = None
    """Qualified name of the function that is called; None for ``start``, ``compile`` and
    ``compile_call``."""
    file: str | None = None
    """For ``compile`` and ``compile_call``, the path of the program's only call of
    ``torch.compile``, as in locations. None for other places, and if unknown."""
    line: int | None = None
    """1-based line where that call starts; None as above."""
    arguments: tuple[str, ...] = ()
    """For ``first_call`` and ``each_call``, the parameters under whose names the snippet has the
    values that are passed."""


class PairedTime(Fact):
    """The steady call of two programs, timed in turns by two processes."""

    backend: str
    """The backend of both programs."""
    before_us: float
    """Median time without the fix, in microseconds."""
    after_us: float
    """Median time with the fix, in microseconds."""
    ratio: float
    """Median over all turns of the time after divided by the time before; below 1 is faster."""
    ratio_low: float
    """Lower end of the ratio's 95% confidence interval."""
    ratio_high: float
    """Upper end of that interval."""
    turns: int
    """Number of turns: timing stops once the interval excludes 1 or lies within 3% of it, after 64
    or 10 seconds."""

    @property
    def is_clear(self) -> bool:
        """Return whether the interval excludes 1, and the median times of all turns, which noise
        can move, say the same.
        """
        is_faster = self.ratio_high < 1 and self.after_us < self.before_us
        return is_faster or (self.ratio_low > 1 and self.after_us > self.before_us)

    @property
    def shown_ratio(self) -> float | None:
        """The ratio of the two medians, to stand beside them; None if the interval of the turns
        doesn't hold it.
        """
        ratio = self.after_us / self.before_us
        return ratio if self.ratio_low <= ratio <= self.ratio_high else None


def deciding(times: Sequence[PairedTime]) -> PairedTime | None:
    """Choose the times that say whether a fix pays: the user's backend, but ``eager`` runs nothing
    faster.

    Args:
        times: With the user's backend first, then with Inductor; either may be missing.
    """
    return next((pair for pair in times if pair.backend != "eager"), next(iter(times), None))


ReasonKind = Literal[
    "message",
    "and",
    "but",
    "under",
    "beside_others",
    "until_others",
    "gone_but",
    "no_helping_fix",
    "declined",
    "replayed",
    "differs",
    "differs_on",
    "may_be_rounding",
    "not_returned",
    "not_compared",
    "too_large",
    "unstable",
    "unstable_in_eager",
    "differs_without_fix",
    "zero_gradients",
    "retyped",
    "redraws",
    "redraws_own",
    "drops_lines",
    "not_kept",
    "exceptions",
    "over_limit",
    "limit_stays",
    "break_stays",
    "break_is_there",
    "breaks_instead",
    "cause_stays",
    "nothing_improves",
    "nothing_better",
    "still_skipped",
    "skipped_by_next",
    "coverage",
    "graphs",
    "sites_and_graphs",
    "recompiles",
    "rerecorded",
    "recorded",
    "unknown_recording",
    "needless",
    "call",
    "call_with_it",
    "call_with_all",
    "call_all_the_same",
    "call_untimed",
    "call_not_faster",
    "not_run_there",
    "runs_elsewhere",
    "fails_there",
    "unreached",
    "not_attacked",
    "not_raised",
    "not_skipped",
    "not_run",
    "stops_there",
    "stops_at",
    "not_timed",
    "never_steady",
    "too_short",
    "probe_ended",
    "bounded",
    "interrupted",
    "unfinished",
    "unfinished_without",
    "not_repeatable",
    "fails_in_eager",
    "fails_in_second_eager",
    "unprovable",
    "no_float64",
]
"""Reason for a verdict, or limit of one. ``and`` to ``gone_but`` join their parts; ``message``
holds the words of the program, of torch or of a recipe."""


class Reason(Fact):
    """Reason for a verdict."""

    kind: ReasonKind
    values: tuple[str | int | float, ...] = ()
    """Values that its kind names: counts, places, backends, kinds of results."""
    parts: tuple[Reason, ...] = ()
    """The reasons that it is made of."""
    difference: Difference | None = None
    """Difference between results; None if it isn't about that."""
    times: PairedTime | None = None
    """Times of the call; None if it isn't about these."""


def because(
    kind: ReasonKind, *details: str | float | Reason | Difference | PairedTime | None
) -> Reason:
    """Make a reason of the values, parts, difference and times that it names."""
    parts = tuple(detail for detail in details if isinstance(detail, Reason))
    return Reason(
        kind=kind,
        values=tuple(detail for detail in details if isinstance(detail, (str, int, float))),
        parts=parts,
        difference=next((item for item in details if isinstance(item, Difference)), None),
        times=next((item for item in details if isinstance(item, PairedTime)), None),
    )


class Outcome(Fact):
    """Result of the trials of a change."""

    verdict: Verdict = "not tried"
    reasons: tuple[Reason, ...] = ()
    """Reasons for the verdict."""
    untried_cause: UntriedCause | None = None
    """Reason why it wasn't tried; None if it was, or nobody asked."""
    grade: Grade | None = None
    """What it leaves of the source; None for a suggestion in words."""
    is_one_graph: bool = False
    """True if it is applied, and the calls then run in one graph."""
    is_faster: bool = False
    """True if it is applied, and the calls then measurably take less time."""
    compared: Comparison | None = None
    """Its results compared with those of the unmodified program without torch.compile."""
    attacked: Attacked | None = None
    """Results with other inputs; None if none were tried."""


Unguarded = Literal["modules", "values"]
"""Values that torch no longer checks: all of modules, or all but tensor arguments."""


class Fix(Outcome):
    """A suggestion."""

    title: str
    condition: str | None = None
    """When it holds, a clause such as ``if no branch or loop depends on that size``; None if it
    always does."""
    kind: FixKind
    """Object of the change: the source, a torch setting, or how the target is compiled and
    called."""
    snippet: str | None = None
    """Python to write: it parses, and every name in it can be read at ``place``. None if words have
    to do."""
    place: SnippetPlace | None = None
    """Place for ``snippet``; None without one."""
    is_safe: bool = False
    """True if results stay the same for every input, according to the rule's page."""
    setting: Setting | None = None
    """The torch setting that ``snippet`` applies; None if it is anything else."""
    is_applied: bool = False
    """True if it is one of the fixes that were tried together at the end."""
    unguarded: Unguarded | None = None
    """Values that torch no longer checks with it; None if it drops no guards. Never suggested where
    the run saw such a value change, nor before other suggestions."""
    diff: str | None = None
    """The edit as a unified diff; None if there is none."""
    source: str | None = None


class TrialOutcome(Outcome):
    """Result of a change's own trial."""

    after: Counts | None = None
    """Counts of the program with it; None if not tried, if it failed, or if its results made it
    stop early."""
    sites_gone: tuple[str, ...] = ()
    """Break sites that it removed, as ``file:line (GB0059)`` in the program before."""
    sites_new: tuple[str, ...] = ()
    """Break sites that appeared with it, in the program after: fixing a break can show later
    ones."""
    recording: str | None = None
    """The trial's recording, a folder in ``fixes/`` of the first recording; None if there was no
    trial."""


class TriedFix(Fix, TrialOutcome):
    """One fix and what its trial showed."""

    code: str
    """Rule code of the finding that it is for."""
    fingerprint: str
    """Fingerprint of that finding, in the program that the fix was tried on."""
    finding_place: str
    """``file:line`` of that finding, in the file on disk."""
    round: int
    """Round of trials, from 1: each round builds on the verified fixes of earlier rounds."""
    is_on_untouched: bool
    """True if it was tried on the unmodified program, without other fixes."""
    before: Counts | None = None
    """Counts of the program that it was tried on; None if not tried."""
    backend: str | None = None
    """The backend that its trial compiled with, or under which the verdict showed; None if not
    tried, and in recordings of 0.1."""


class LeftFinding(Fact):
    """A finding that is still there with all verified fixes."""

    code: str
    place: str
    """``file:line``, in the file on disk."""
    message: str
    declined: str | None = None
    """Reason why no edit was written for it; None if one was, or none is known."""
    title: str | None = None
    """The fix whose trial says most about why it stays; None if there is none."""
    verdict: Verdict | None = None
    grade: Grade | None = None
    untried_cause: UntriedCause | None = None
    reasons: tuple[Reason, ...] = ()
    suggestions: tuple[str, ...] = ()
    """What the rule suggests to do in the source, best first; empty in older recordings."""


class TrialChoices(Fact):
    """Selection of the tried fixes, and criteria of their verdicts."""

    select: tuple[str, ...] = ()
    """Prefixes of the codes of the findings to treat; empty for all."""
    ignore: tuple[str, ...] = ()
    """Prefixes of the codes that were left out."""
    is_own_code_only: bool = False
    """True if findings in installed packages were left out."""
    is_unsafe_tried: bool
    """True if fixes that may change results for other inputs were tried too."""
    is_timed: bool = True
    """True if the program with all verified fixes was timed."""


class TriedPatch(TrialOutcome):
    """A patch that somebody wrote, and what its trial showed: it is ``verified`` if results are the
    same, and breaks, recompiles or graphs are fewer, or the call is faster.
    """

    name: str
    """File the patch was read from; ``-`` for standard input."""
    config: dict[shared.ConfigName, str] | None = None
    """torch config values that it sets, by dotted name, as Python prints them; None if unknown."""
    lines_not_run: tuple[str, ...] = ()
    """``file:line`` of each part that it changes and that neither a call nor another input ran."""


class WholeRun(Fact):
    """The calls with all applied fixes, compiled with ``fullgraph=True``, so that torch itself says
    whether they are one graph.
    """

    is_one_graph: bool
    """True if torch raised nothing and compiled a graph, and no fix keeps a function out of it."""
    code: str | None = None
    """Rule code of what stopped it; None if nothing did, or no rule knows it."""
    place: str | None = None
    """``file:line`` of that, in the file on disk."""
    message: str | None = None
    """What stopped it, in words of the rule or of torch; None if nothing did."""


class SiteCounts(Fact):
    """Break sites of the program, and of what showed behind them, by the grade of what was done."""

    merged: int = 0
    guarded: int = 0
    contained: int = 0
    """Sites that stay, and cost less."""
    left: int = 0
    """Sites that stay as they were."""
    lossy: int = 0
    """Of those that are gone, the ones where the compiled program prints, logs or keeps less."""
    changed_lines: int = 0
    """Lines that the edits add and remove, settings that they write among them."""

    @property
    def gone(self) -> int:
        """Sites where torch no longer breaks."""
        return self.merged + self.guarded

    @property
    def total(self) -> int:
        """All sites."""
        return self.gone + self.contained + self.left


class DeclinedEdits(Fact):
    """Reasons why no edit was written, for each finding of which that is certain without a
    trial.
    """

    reasons: dict[str, str] = field(default_factory=dict)
    """By fingerprint."""


class Treatment(Fact):
    """All fixes that were tried on one target, and what the verified ones do together."""

    tried: tuple[TriedFix, ...]
    """The fixes, in the order in which they were tried."""
    before: Counts
    after: Counts | None = None
    """Counts with all verified fixes; None if there are none."""
    diff: str = ""
    """All edits of source and the settings that can be written, as one unified diff."""
    settings: tuple[str, ...] = ()
    """Lines of the settings."""
    settings_file: shared.File | None = None
    """The file in which the edits apply these settings; None if they must be written by hand."""
    is_written: bool = False
    """True if the edits were written."""
    calls: tuple[str, ...] = ()
    """Lines of the changed calls."""
    compared: Comparison | None = None
    """Results with all verified fixes compared with those of the unmodified program without
    torch.compile."""
    attacked: Attacked | None = None
    """Results with other inputs, with all verified fixes; None if none were tried."""
    backend: str | None = None
    """The backend of that run, which is the user's; None if there is none, and in recordings of
    0.1."""
    times: tuple[PairedTime, ...] = ()
    """Steady calls with all verified fixes and without any."""
    whole: WholeRun | None = None
    """The calls under ``fullgraph=True`` with all verified fixes; None if that wasn't tried, and in
    recordings of 0.1."""
    sites: SiteCounts | None = None
    """Break sites by what became of them; None for a patch, and in recordings of 0.1."""
    gone: tuple[str, ...] = ()
    """Fingerprints of findings of the unmodified program that are gone with all verified fixes."""
    declined: dict[str, str] = field(default_factory=dict)
    """Findings of the unmodified program that no edit was written for, by fingerprint, each with
    the reason."""
    left: tuple[LeftFinding, ...] = ()
    patch: TriedPatch | None = None
    """The patch that was tried in place of fixes; None for fixes."""
    choices: TrialChoices | None = None
    """Options of the command; None in recordings of 0.1."""
    trial_count: int = 0
    """Number of replays, including those of the unmodified program."""
    is_interrupted: bool = False
    """True if an interrupt ended the trials, so that more could have been tried."""
    notes: tuple[Reason, ...] = ()
    """Limits of the verdicts: results that differ from run to run, omitted trials, missing
    times."""

    @property
    def is_unfinished(self) -> bool:
        """Return whether more could be tried: an interrupt ended the trials, or time was up."""
        return self.is_interrupted or any(note.kind == "bounded" for note in self.notes)

    @property
    def applied(self) -> tuple[TriedFix, ...]:
        """The fixes that were applied together at the end, each once."""
        return distinct([fix for fix in self.tried if fix.is_applied])


def distinct(fixes: Sequence[TriedFix]) -> tuple[TriedFix, ...]:
    """Return each fix once: one trial can serve several findings, and a fix that didn't help is
    tried again with others.
    """
    last = {(fix.title, fix.fingerprint): fix for fix in fixes}
    kept = (fix for fix in fixes if fix.is_applied or fix is last[fix.title, fix.fingerprint])
    return tuple({(fix.round, fix.title, fix.snippet, fix.diff): fix for fix in kept}.values())
