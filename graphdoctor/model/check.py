"""The gate's answer: what each configured target has that its baseline and its budgets do not allow.

``CheckReport`` is the JSON document of ``graphdoctor check``; it has the diagnosis' ``SCHEMA_VERSION``.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from graphdoctor.model.base import Fact
from graphdoctor.model.diagnosis import SCHEMA_VERSION, Diagnosis, Finding, Severity

FailOn = Literal["error", "warning", "info", "never"]
"""The least severity of a new finding that fails the gate; ``never``: budgets alone do."""

BudgetName = Literal["max-breaks", "max-recompiles", "max-graphs", "min-coverage"]
"""``max-breaks`` counts break sites, ``max-recompiles`` recompiles, ``min-coverage`` is a share."""


class Budget(Fact):
    """One limit and what was measured."""

    name: BudgetName
    """Which."""
    limit: float
    """What is allowed."""
    value: float | None
    """What was measured; None when it is not known, which keeps no budget."""
    is_kept: bool
    """The value is known and within the limit."""


class Ignored(Fact):
    """A finding that does not count, and why."""

    finding: Finding
    """The finding."""
    by: Literal["comment", "path", "setting"]
    """``comment``: ``# graphdoctor: ignore[GD101] why`` on its line; ``path``: ``per-path-ignores``; ``setting``:
    ``ignore``, ``select`` or ``own-code``."""
    reason: str | None = None
    """The words behind the comment's brackets."""


class UnusedIgnore(Fact):
    """An ignore comment, or an entry of ``per-path-ignores``, that matches no finding."""

    file: str
    """Path, relative to ``CheckReport.root`` where it lies below it; the pyproject.toml for a setting."""
    line: int | None = None
    """1-based; None for a setting."""
    codes: tuple[str, ...] = ()
    """Of its codes those that match nothing; empty for a comment without codes."""
    why: str | None = None
    """Why it can match nothing at all, such as a bracket that is not closed; None where it could."""


class BaselineEntry(Fact):
    """One known finding, as the baseline file has it."""

    fingerprint: str
    """``Finding.fingerprint``."""
    code: str
    """Rule code."""
    file: str
    """Path, relative to ``CheckReport.root``; a package's file from the package on."""
    function: str
    """Qualified name of the function."""
    text: str | None = None
    """The line's text, without indentation."""
    package: str | None = None
    """Owning package; None for the project's own code."""
    count: int = 1
    """How often it happened."""
    message: str
    """The finding's sentence, for whoever reviews the file."""


class TargetCheck(Fact):
    """One target of the gate."""

    name: str
    """Its name in the configuration, or the target's text."""
    target: str
    """The target's text."""
    state: Literal["passed", "failed", "crashed"]
    """``crashed``: it could not be run to its end, so nothing is known: never a pass."""
    error: str | None = None
    """Why it crashed, one or two sentences; for a failed one why it fails whatever the baseline allows."""
    hint: str | None = None
    """What to do about ``error``."""
    diagnosis: Diagnosis | None = None
    """All of its findings, the ignored ones included; None when there is not even a partial recording."""
    new: tuple[Finding, ...] = ()
    """Findings that neither the baseline nor an ignore allows, worst first, below ``fail_on`` too."""
    known: tuple[Finding, ...] = ()
    """Findings that the baseline has."""
    grown: tuple[Finding, ...] = ()
    """Of these the ones that happened more often than the baseline says; told, never failing."""
    fixed: tuple[BaselineEntry, ...] = ()
    """Entries of the baseline that are gone; ``graphdoctor baseline --update`` drops them."""
    ignored: tuple[Ignored, ...] = ()
    """Findings that do not count."""
    budgets: tuple[Budget, ...] = ()
    """The limits that are set."""
    baseline_torch: str | None = None
    """The torch version of the baseline's entries that were compared; None without a baseline for the target."""
    is_other_torch: bool = False
    """The baseline has nothing of the torch that ran: new and fixed findings can come from the upgrade."""
    fail_on: FailOn = "warning"
    """What fails it."""

    @property
    def failing(self) -> tuple[Finding, ...]:
        """The new findings that fail it."""
        order: tuple[Severity, ...] = ("info", "warning", "error")
        if self.fail_on == "never":
            return ()
        least = order.index(self.fail_on)
        return tuple(finding for finding in self.new if order.index(finding.severity) >= least)


class CheckReport(Fact):
    """The JSON document of ``graphdoctor check``."""

    schema_version: str = SCHEMA_VERSION
    """Version of this document's shape; the same as a diagnosis'."""
    graphdoctor_version: str
    """The program that wrote it."""
    targets: tuple[TargetCheck, ...]
    """In the order of the configuration; empty only where all were skipped."""
    skipped: tuple[str, ...] = ()
    """Names of targets that were not run, because no given file is reached by them."""
    unused_ignores: tuple[UnusedIgnore, ...] = ()
    """Told, never failing."""
    baseline: str | None = None
    """The baseline file that was compared; None when there is none."""
    root: str | None = None
    """Absolute path of the project's folder, which all files of findings, entries and ignores are relative to."""
    notes: tuple[str, ...] = Field(default=())
    """What limits the answer, sentences."""

    @property
    def exit_code(self) -> Literal[0, 1, 2]:
        """2 when a target crashed, else 1 when one failed, else 0."""
        states = {target.state for target in self.targets}
        return 2 if "crashed" in states else 1 if "failed" in states else 0
