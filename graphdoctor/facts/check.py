"""Results of commands on diagnoses: checks against a baseline, lint, two diagnoses side by side.

``CheckReport``, ``LintReport`` and ``DiagnosisComparison`` are JSON documents.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

from .base import SCHEMA_VERSION, Document, Fact
from .counts import Counts
from .diagnosis import Diagnosis, Finding, fails
from .recording import BreakEffect, Environment, TargetInfo
from .spec import FailOn
from .stack import relative

BudgetName = Literal["max-breaks", "max-recompiles", "max-graphs", "min-coverage"]
"""``max-breaks`` counts break sites, ``max-recompiles`` recompiles, ``min-coverage`` is a share."""


LEAST_COVERAGE = 0.5
"""Share of a steady call's operations that must run in graphs where neither a limit nor a baseline
allows less."""


class Budget(Fact):
    """One limit and what was measured."""

    name: BudgetName
    limit: float
    value: float | None
    """The measured value; None if unknown, which counts as over the limit."""
    is_kept: bool
    """True if the value is known and within the limit."""
    is_default: bool = False
    """True if nobody set the limit."""


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
    """Reason why it can never match, such as a missing bracket; None if it could."""


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
    """Torch's actions at the break; None for other findings, and in a file written before schema
    version 1.1."""
    skipped_frames: tuple[str, ...] = ()
    """Functions that torch skipped because of it."""
    rest_eager_frames: tuple[str, ...] = ()
    """Functions whose rest runs eagerly after it."""
    may_rise: bool = False
    """True if it may happen any number of times; written by hand, and kept by an update."""
    message: str
    """The finding's message, for people who review the file."""


class BaselineRun(Fact):
    """Measurements of one run of a target, in the baseline file."""

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
    """True if it is worse because it happens ten times as often, for as many calls."""


class TargetCheck(Fact):
    """One target of the check."""

    name: str
    """Its name in the configuration, or the target as given."""
    target: str
    state: Literal["passed", "failed", "crashed"]
    """``crashed``: it couldn't be run to its end, so the result is unknown and never a pass."""
    error: str | None = None
    """Reason why it crashed, or fails whatever the baseline allows; one or two sentences."""
    hint: str | None = None
    """Next step against ``error``."""
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
    """True if coverage fell below the baseline's because more operations run eagerly, or became
    unknown."""
    baseline_run: BaselineRun | None = None
    """Measurements of the baseline's run; None if there is no baseline, or one written before
    schema version 1.1."""
    fixed: tuple[BaselineEntry, ...] = ()
    """Entries of the baseline that are gone; ``graphdoctor baseline --update`` drops them."""
    ignored: tuple[Ignored, ...] = ()
    budgets: tuple[Budget, ...] = ()
    baseline_torch: str | None = None
    """The torch version of the baseline entries that were compared; None if the target has no
    baseline."""
    is_other_torch: bool = False
    """True if the baseline lacks entries of this torch version, so that new and fixed findings can
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
        """Return whether it fails because more runs eagerly, whichever finding is to blame."""
        return self.fail_on != "never" and (bool(self.newly_eager) or self.has_lost_coverage)

    @property
    def lacks_run(self) -> bool:
        """Return whether it was compared with a baseline that has findings alone."""
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


class UnreadableFile(Fact):
    """A file that couldn't be checked."""

    file: str
    """Path, relative to the working directory if it is below it."""
    line: int | None = None
    """1-based line of the syntax error; None if there is none."""
    message: str
    """Reason, one sentence."""


class LintReport(Document):
    """The JSON document of ``graphdoctor lint``."""

    file_count: int
    function_count: int
    """Number of functions in them that torch compiles."""
    findings: tuple[Finding, ...]
    """New findings by file and line. Their ``count`` is 0, because nothing was run."""
    failing_count: int = 0
    """Number of them at or above their project's ``fail-on``."""
    known: tuple[Finding, ...] = ()
    """Findings that their project's baseline knows, by file and line."""
    ignored_count: int = 0
    """Number of findings that an ignore comment, ``per-path-ignores``, ``select`` or ``ignore``
    left out."""
    recording: str | None = None
    """The recording whose functions and settings count; None if there is none or none was to be
    used."""
    unreadable: tuple[UnreadableFile, ...] = ()
    """Files that couldn't be read or parsed."""
    notes: tuple[str, ...] = ()
    """Omissions and their reasons, in sentences."""

    @property
    def exit_code(self) -> Literal[0, 1, 2]:
        """2 if a file couldn't be read, otherwise 1 if a finding fails, otherwise 0."""
        return 2 if self.unreadable else 1 if self.failing_count else 0


class Side(Fact):
    """Origin of one of two diagnoses."""

    name: str | None = None
    """Name given by the user, such as a path; None if it has no name."""
    graphdoctor_version: str
    environment: Environment
    target: TargetInfo
    is_partial: bool
    """True if calls are missing because the run or its log ended early."""
    summary: Counts
    has_calls: bool
    """True if the user's calls are counted; False for a script and for a log that graphdoctor
    didn't record."""
    hidden_findings: int = 0
    """Number of findings that the selection of this comparison left out."""


Aspect = Literal[
    "recording",
    "partial",
    "target",
    "compile arguments",
    "config",
    "call options",
    "calls",
    "torch",
    "python",
    "graphdoctor",
    "machine",
    "selection",
    "guards",
    "files",
    "gap",
]
"""``recording``: a log that graphdoctor didn't record; ``selection``: findings left out when a
document was written; ``guards``: guards were only read on one side; ``files``: the findings are in
different files; ``gap``: only one side lacks something."""


class Mismatch(Fact):
    """One way in which the two runs differ, which can explain other differences."""

    aspect: Aspect
    before: str | None = None
    """The value before; None if there is none."""
    after: str | None = None
    message: str
    """One or two sentences: the difference and what it means for the comparison."""


Change = Literal["line", "severity", "count"]


class SameFinding(Fact):
    """A finding that both sides have."""

    before: Finding
    after: Finding
    changes: tuple[Change, ...] = ()
    """Differences: the line, the severity, the count."""


class DiagnosisComparison(Fact):
    """The JSON document of ``graphdoctor diff``."""

    schema_version: str = SCHEMA_VERSION
    before: Side
    after: Side
    """The second."""
    mismatches: tuple[Mismatch, ...]
    """Ways in which the two runs differ; empty if none is known."""
    new: tuple[Finding, ...]
    """Findings that only the second has, worst first."""
    gone: tuple[Finding, ...]
    """Findings that only the first has, worst first; empty if the second run is partial."""
    same: tuple[SameFinding, ...]
    """Findings that both have, worst first."""
    unseen: tuple[Finding, ...] = ()
    """Findings of the first that a partial second run doesn't have, which may only not have got
    there."""


_DIFF_PATH = re.compile(r"^(--- a/|\+\+\+ b/)", re.MULTILINE)
_DRIVE = re.compile(r"[A-Za-z]:[/\\]")


def rebased(report: CheckReport, root: Path) -> CheckReport:
    """Return a report whose paths are relative to a folder above its own.

    Args:
        report: What to show; its own folder is below ``root``, otherwise it stays as it is.
        root: The folder.
    """
    reported_from = Path(report.root) if report.root else root
    if reported_from == root or not reported_from.is_relative_to(root):
        return report
    folder = reported_from.relative_to(root).as_posix()
    # Findings share their stacks; the fact itself is kept so that its id stays its own.
    moved_facts: dict[int, tuple[Fact, Fact]] = {}

    def moved(name: str, value: Any) -> Any:  # noqa: ANN401 - as many types as fields
        if isinstance(value, tuple):
            return tuple(moved("", item) for item in value)
        if isinstance(value, Fact):
            if id(value) not in moved_facts:
                fields = {field: moved(field, part) for field, part in vars(value).items()}
                moved_facts[id(value)] = value, value.replace(**fields)
            return moved_facts[id(value)][1]
        if name == "diff" and value is not None:
            return _DIFF_PATH.sub(rf"\g<1>{folder}/", value)
        if name != "file" or value is None:
            return value
        is_elsewhere = not value or value.startswith(("<", "/", "\\")) or _DRIVE.match(value)
        return relative(value, root) if is_elsewhere else f"{folder}/{value}"

    return report.replace(**vars(moved("", report)) | {"root": str(root)})
