"""What a rule is: documentation, a match, a message, fixes.

Each rule has a file of its own in ``rules``. The docstring of its class is the page that ``graphdoctor rule CODE``
prints, with the sections of ``DOC_SECTIONS``.
"""

from __future__ import annotations

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from graphdoctor.model.diagnosis import Effects, Fix, Severity
from graphdoctor.model.recompiles import ChangeKind, GuardChange
from graphdoctor.model.recording import BreakEffect, BreakReason, BreakRecord, Recording, SourceContext
from graphdoctor.model.stack import StackEntry

if TYPE_CHECKING:
    from graphdoctor.diagnosis.recompiles import RecompileEvent, RecompileGroup

DOC_SECTIONS = ("What it finds", "Why it costs", "Example", "Use instead", "Fix safety", "Source")
"""Sections of a rule's page, in order."""
GAP_SECTIONS = ("What it means", "Why it matters", "What to do")
"""Sections of the page about something that a recording lacks, in order."""


@dataclass(frozen=True)
class BreakSite:
    """The innermost line of user (or third-party) code that graph-break records with one cause point to.

    Args:
        entry: That line.
        records: torch's records, in the order of the log; at least one.
        effects: What the site caused.
        context: What surrounds the line in its source, or None when the source could not be read.
    """

    entry: StackEntry
    records: tuple[BreakRecord, ...]
    effects: Effects
    context: SourceContext | None = None

    @property
    def cause(self) -> BreakReason:
        """The first of torch's chained messages."""
        return self.records[0].chain[0]

    @property
    def text(self) -> str:
        """The source line without indentation, or an empty string."""
        return self.entry.text or ""

    @property
    def statement(self) -> str:
        """The whole statement where known, else the line."""
        return self.context.statement if self.context else self.text

    @cached_property
    def expression(self) -> str:
        """The part of the line that torch points to, else the whole line."""
        entry = self.entry
        if entry.text is None or entry.column is None or entry.end_column is None:
            return self.text
        start = entry.column - 1 - (entry.indent or 0)
        return entry.text[max(start, 0) : entry.end_column - 1 - (entry.indent or 0)] or self.text

    @property
    def chained_types(self) -> tuple[str, ...]:
        """``gb_type`` of every chained message of every record, each once, in order."""
        return tuple(dict.fromkeys(reason.gb_type for record in self.records for reason in record.chain))

    @property
    def break_effects(self) -> tuple[BreakEffect, ...]:
        """What torch did at the site, each kind once."""
        return tuple(dict.fromkeys(record.effect for record in self.records))

    @property
    def is_own_code(self) -> bool:
        """The line is the user's, so it can be edited."""
        return self.entry.origin == "user"


class Page(ABC):
    """The documentation of one code: the docstring of the class."""

    code: ClassVar[str]
    """The code, such as ``GD101``."""
    name: ClassVar[str]
    """The name in kebab case, such as ``print-or-log``."""
    severity: ClassVar[Severity]
    """How bad it is. A break that isn't resumed is an ``error`` whatever its rule says."""

    @classmethod
    def documentation(cls) -> str:
        """The page, as Markdown."""
        return inspect.cleandoc(cls.__doc__ or "")

    @classmethod
    def title(cls) -> str:
        """The first line."""
        return cls.documentation().splitlines()[0]

    @classmethod
    def sections(cls) -> Mapping[str, str]:
        """The text of each section by its heading, in order."""
        parts = re.split(r"^## (.+)$", cls.documentation(), flags=re.MULTILINE)
        return {heading.strip(): body.strip() for heading, body in zip(parts[1::2], parts[2::2], strict=True)}


class GapPage(Page):
    """The documentation of a code that a ``CaptureGap`` has: it finds nothing by itself."""


class Rule(Page):
    """A page on one kind of finding, and what finds it."""


class BreakRule(Rule):
    """A rule about a break site; the first of the catalog that matches a site names it."""

    torch_ids: ClassVar[frozenset[str]] = frozenset()
    """Registry ids of causes that are always this rule's."""

    def matches(self, site: BreakSite) -> bool:
        """Whether the site is this rule's, by its cause."""
        return site.cause.torch_id in self.torch_ids

    @abstractmethod
    def message(self, site: BreakSite) -> str:
        """One sentence: what at this line stops torch, in the user's words."""

    @abstractmethod
    def fixes(self, site: BreakSite) -> tuple[Fix, ...]:
        """Suggestions for this line, best first."""


class RecordingRule(Rule):
    """A rule about the recording as a whole: recompiles, skipped frames, failed calls."""

    @abstractmethod
    def findings(self, view: RecordingView) -> tuple[RuleMatch, ...]:
        """What it finds, in the order of the log."""


@dataclass(frozen=True)
class RecordingView:
    """A recording with its break sites and recompile events, for rules that look at more than one of them."""

    recording: Recording
    sites: tuple[BreakSite, ...]
    events: tuple[RecompileEvent, ...] = ()


@dataclass(frozen=True)
class RuleMatch:
    """What a ``RecordingRule`` found, before it gets its fingerprint and its place in the order.

    ``subject`` is what tells it from another finding of the rule at the same line, such as the value that changed.
    ``changes`` are the changed values that it is about, each once; ``hidden_change_count`` is how many more there were.
    """

    entry: StackEntry
    message: str
    count: int
    compile_ids: tuple[str, ...] = ()
    related: tuple[tuple[StackEntry, str], ...] = ()
    reasons: tuple[BreakReason, ...] = ()
    torch_reason: str | None = None
    effects: Effects = field(default_factory=Effects)
    break_effects: tuple[BreakEffect, ...] = ()
    user_stack: tuple[StackEntry, ...] = ()
    fixes: tuple[Fix, ...] = ()
    severity: Severity | None = None
    subject: str = ""
    changes: tuple[GuardChange, ...] = ()
    hidden_change_count: int = 0


class RecompileRule(Rule):
    """A rule about a value whose change makes torch compile a function again; the first of the catalog names it."""

    kinds: ClassVar[frozenset[ChangeKind]] = frozenset()
    """Kinds of changes that are always this rule's."""

    def matches(self, change: GuardChange, event: RecompileEvent) -> bool:  # noqa: ARG002 - some rules look at it
        """Whether a change is this rule's."""
        return change.kind in self.kinds

    @abstractmethod
    def message(self, group: RecompileGroup) -> str:
        """One sentence: what changed from what to what, in the user's words."""

    @abstractmethod
    def fixes(self, group: RecompileGroup) -> tuple[Fix, ...]:
        """Suggestions for this value, best first."""


@dataclass(frozen=True)
class RuleBook:
    """The rules to diagnose by.

    Args:
        breaks: Rules about break sites; the first that matches names the site.
        recompiles: Rules about changed values; the first that matches names the change.
        recordings: Rules about a whole recording; all of them speak.
    """

    breaks: tuple[BreakRule, ...]
    recompiles: tuple[RecompileRule, ...]
    recordings: tuple[RecordingRule, ...]
