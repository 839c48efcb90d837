"""The result of ``graphdoctor check``: what each target has that its baseline and its budgets don't
allow.

``CheckReport`` is the JSON document. It has the ``SCHEMA_VERSION`` of a diagnosis.
"""

from __future__ import annotations

from typing import Literal

from .base import Document, Fact
from .diagnosis import Diagnosis, Finding, fails
from .recording import BreakEffect
from .spec import FailOn

BudgetName = Literal["max-breaks", "max-recompiles", "max-graphs", "min-coverage"]
"""``max-breaks`` counts break sites, ``max-recompiles`` recompiles, ``min-coverage`` is a share."""


class Budget(Fact):
    """One limit and what was measured."""

    name: BudgetName
    limit: float
    value: float | None
    """The measured value; None if unknown, which counts as over the limit."""
    is_kept: bool
    """Whether the value is known and within the limit."""


class Ignored(Fact):
    """A finding that doesn't count, and why."""

    finding: Finding
    by: Literal["comment", "path", "setting"]
    """``comment``: ``# graphdoctor: ignore[GD101] why`` on its line; ``path``:
    ``per-path-ignores``; ``setting``: ``ignore``, ``select`` or ``own-code``."""
    reason: str | None = None
    """The reason given in the comment."""


class UnusedIgnore(Fact):
    """An ignore comment, or an entry of ``per-path-ignores``, that matches no finding."""

    file: str
    """Path, relative to ``CheckReport.root`` if it is below it; for a setting, the
    pyproject.toml."""
    line: int | None = None
    """1-based line; None for a setting."""
    codes: tuple[str, ...] = ()
    """The codes that match no finding; empty for a comment without codes."""
    why: str | None = None
    """Why it can never match, such as a missing bracket; None if it could."""


class BaselineEntry(Fact):
    """One known finding in the baseline file."""

    fingerprint: str
    code: str
    file: str
    """Path, relative to ``CheckReport.root``; a package's file from the package on."""
    function: str
    text: str | None = None
    """The line's text, without indentation."""
    package: str | None = None
    """Owning package; None for the project's own code."""
    count: int = 1
    break_effects: tuple[BreakEffect, ...] | None = None
    """What torch did at the break; None for other findings, and in a file written before schema
    version 1.1."""
    skipped_frames: tuple[str, ...] = ()
    """Functions that torch skipped because of it."""
    rest_eager_frames: tuple[str, ...] = ()
    """Functions whose rest runs eagerly after it."""
    may_rise: bool = False
    """Whether it may happen any number of times; written by hand, and kept by an update."""
    message: str
    """The finding's message, for people who review the file."""


class BaselineRun(Fact):
    """What one run of a target measured, in the baseline file."""

    calls: int
    graphs: int
    """Graphs handed to the backend."""
    graph_ops: int | None = None
    """Tensor operations of a steady call that ran in compiled graphs; None if coverage was
    unknown."""
    eager_ops: int | None = None
    """Those that ran outside any graph; None if coverage was unknown."""
    eager_functions: tuple[str, ...] = ()
    """Functions that ran eagerly as a whole: skipped, over the recompile limit, or failed to
    compile."""

    @property
    def op_count(self) -> int | None:
        """Tensor operations of a steady call; None if coverage was unknown."""
        return (
            None
            if self.graph_ops is None or self.eager_ops is None
            else self.graph_ops + self.eager_ops
        )

    @property
    def coverage(self) -> float | None:
        """Share, 0 to 1, of operations that ran in graphs; None if unknown or if there were
        none.
        """
        return (
            self.graph_ops / self.op_count if self.op_count and self.graph_ops is not None else None
        )


class WorseFinding(Fact):
    """A known finding that does more harm than in the baseline."""

    finding: Finding
    """As it is now."""
    before: BaselineEntry
    """As it is in the baseline."""
    is_rise: bool = False
    """Whether it is worse because it happens ten times as often, for as many calls."""


class TargetCheck(Fact):
    """One target of the check."""

    name: str
    """Its name in the configuration, or the target as given."""
    target: str
    state: Literal["passed", "failed", "crashed"]
    """``crashed``: it couldn't be run to its end, so the result is unknown and never a pass."""
    error: str | None = None
    """Why it crashed, or why it fails whatever the baseline allows; one or two sentences."""
    hint: str | None = None
    """What to do about ``error``."""
    diagnosis: Diagnosis | None = None
    """The diagnosis with all findings, including ignored ones; None if there is no recording."""
    new: tuple[Finding, ...] = ()
    """Findings that neither the baseline nor an ignore allows, worst first, including those below
    ``fail_on``."""
    known: tuple[Finding, ...] = ()
    grown: tuple[Finding, ...] = ()
    """Of these, the ones that happened more often than in the baseline; a failure from ten times on
    (``worse``)."""
    worse: tuple[WorseFinding, ...] = ()
    """Of the known ones, those with worse effects than in the baseline; they fail it like new
    ones."""
    newly_eager: tuple[str, ...] = ()
    """Functions that run eagerly as a whole, though they didn't in the baseline, and that no new,
    worse or ignored finding names."""
    has_lost_coverage: bool = False
    """Whether coverage fell below the baseline's because more operations run eagerly, or became
    unknown."""
    baseline_run: BaselineRun | None = None
    """What the baseline's run measured; None if there is no baseline, or one written before schema
    version 1.1."""
    fixed: tuple[BaselineEntry, ...] = ()
    """Entries of the baseline that are gone; ``graphdoctor baseline --update`` drops them."""
    ignored: tuple[Ignored, ...] = ()
    budgets: tuple[Budget, ...] = ()
    baseline_torch: str | None = None
    """The torch version of the baseline entries that were compared; None if the target has no
    baseline."""
    is_other_torch: bool = False
    """Whether the baseline lacks entries of this torch version, so that new and fixed findings can
    come from torch."""
    fail_on: FailOn = "warning"
    """The lowest severity of a new finding that fails it."""

    @property
    def failing(self) -> tuple[Finding, ...]:
        """The new findings that fail it."""
        return tuple(finding for finding in self.new if fails(finding.severity, self.fail_on))

    @property
    def failing_worse(self) -> tuple[WorseFinding, ...]:
        """The worse findings that fail it."""
        return tuple(worse for worse in self.worse if fails(worse.finding.severity, self.fail_on))

    @property
    def is_more_eager(self) -> bool:
        """Whether it fails because more runs eagerly, whichever finding is to blame."""
        return self.fail_on != "never" and (bool(self.newly_eager) or self.has_lost_coverage)

    @property
    def lacks_run(self) -> bool:
        """Whether it was compared with a baseline that has findings alone."""
        return self.baseline_torch is not None and self.baseline_run is None


class CheckReport(Document):
    """The JSON document of ``graphdoctor check``."""

    targets: tuple[TargetCheck, ...]
    """Targets in the order of the configuration; empty only if all were skipped."""
    skipped: tuple[str, ...] = ()
    """Names of targets that weren't run, because they import none of the given files."""
    unused_ignores: tuple[UnusedIgnore, ...] = ()
    """Ignores that match no finding; reported, but never a failure."""
    baseline: str | None = None
    """The baseline file that was compared; None if there is none."""
    root: str | None = None
    """Absolute path of the project folder; the paths of findings, entries and ignores are relative
    to it."""
    repository: str | None = None
    """Absolute path of the git repository that ``root`` is in; None outside any. SARIF and GitHub's
    annotations have paths relative to it."""
    notes: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    """Environment variables that replaced the project's rules of what fails, such as
    ``GRAPHDOCTOR_FAIL_ON=never``."""

    @property
    def exit_code(self) -> Literal[0, 1, 2]:
        """2 if a target crashed, otherwise 1 if one failed, otherwise 0."""
        states = {target.state for target in self.targets}
        return 2 if "crashed" in states else 1 if "failed" in states else 0
