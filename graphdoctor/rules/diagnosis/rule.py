"""What a rule is: documentation, a match, a message, fixes.

Each rule has its own file in ``rules``. The docstring of its class is the page that ``graphdoctor rule CODE``
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

from graphdoctor.facts.ddp import DdpSplit
from graphdoctor.facts.diagnosis import Effects, Fix, Severity
from graphdoctor.facts.kernels import CudaGraphSkip
from graphdoctor.facts.recompiles import ChangeKind, GuardChange
from graphdoctor.facts.recording import (
    BreakEffect,
    BreakReason,
    BreakRecord,
    Recording,
    SourceContext,
    TorchMechanism,
)
from graphdoctor.facts.stack import StackEntry

if TYPE_CHECKING:
    from graphdoctor.rules.diagnosis.recompiles import RecompileEvent, RecompileGroup

DOC_SECTIONS = ("What it finds", "Why it costs", "Example", "Use instead", "Fix safety", "Source")
"""Sections of a rule's page, in order."""
GAP_SECTIONS = ("What it means", "Why it matters", "What to do")
"""Sections of the page about something that a recording lacks, in order."""


@dataclass(frozen=True)
class BreakSite:
    """The innermost line of user or package code that graph-break records with the same cause point to.

    Args:
        entry: That line.
        records: torch's records, in the order of the log; at least one.
        effects: What the site caused.
        context: What surrounds the line in its source, or None if the source couldn't be read.
        is_traced: The line is in a function that torch compiles; otherwise it led to one, such as `loss.backward()`.
    """

    entry: StackEntry
    records: tuple[BreakRecord, ...]
    effects: Effects
    context: SourceContext | None = None
    is_traced: bool = True

    @property
    def cause(self) -> BreakReason:
        """The first of torch's chained messages."""
        return self.records[0].chain[0]

    @property
    def mechanism(self) -> TorchMechanism | None:
        """Torch's own code in which it happened; all records of a site have the same."""
        return self.records[0].mechanism

    @property
    def text(self) -> str:
        """The source line without indentation, or an empty string."""
        return self.entry.text or ""

    @property
    def statement(self) -> str:
        """The whole statement if it is known, otherwise the line."""
        return self.context.statement if self.context else self.text

    @cached_property
    def expression(self) -> str:
        """The part of the line that torch points to, or the whole line if it points to no part."""
        entry = self.entry
        if entry.text is None or entry.column is None or entry.end_column is None:
            return self.text
        start = entry.column - 1 - (entry.indent or 0)
        return entry.text[max(start, 0) : entry.end_column - 1 - (entry.indent or 0)] or self.text

    @property
    def chained_types(self) -> tuple[str, ...]:
        """The ``gb_type`` of all chained messages of all records, each once, in order."""
        return tuple(dict.fromkeys(reason.gb_type for record in self.records for reason in record.chain))

    @property
    def break_effects(self) -> tuple[BreakEffect, ...]:
        """What torch did at the site, each kind once."""
        return tuple(dict.fromkeys(record.effect for record in self.records))

    @property
    def is_own_code(self) -> bool:
        """The line is in the user's own code, so it can be edited, and in a function that torch compiles."""
        return self.entry.origin == "user" and self.is_traced


class Page(ABC):
    """The documentation of one code: the docstring of the class."""

    code: ClassVar[str]
    """The code, such as ``GD101``."""
    name: ClassVar[str]
    """The name in kebab case, such as ``print-or-log``."""
    severity: ClassVar[Severity]
    """How bad it is. A break that torch can't resume after is always an ``error``."""

    def __init_subclass__(cls, *, code: str = "", name: str = "", severity: Severity = "info") -> None:
        super().__init_subclass__()
        cls.code, cls.name, cls.severity = code, name, severity

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
    """A rule about a break site. A site belongs to the first rule of the catalog that matches it."""

    torch_ids: ClassVar[frozenset[str]] = frozenset()
    """Registry ids of the causes that always belong to this rule."""

    def matches(self, site: BreakSite) -> bool:
        """Whether the site belongs to this rule."""
        return site.cause.torch_id in self.torch_ids

    @abstractmethod
    def message(self, site: BreakSite) -> str:
        """One sentence: what on this line breaks the graph."""

    @abstractmethod
    def fixes(self, site: BreakSite) -> tuple[Fix, ...]:
        """Suggestions for this line, best first."""


class RecordingRule(Rule):
    """A rule about the recording as a whole: recompiles, skipped frames, failed calls."""

    @abstractmethod
    def findings(self, view: RecordingView) -> tuple[RuleMatch, ...]:
        """All that the rule finds, in the order of the log."""


@dataclass(frozen=True)
class RecordingView:
    """A recording with its break sites and recompile events."""

    recording: Recording
    sites: tuple[BreakSite, ...]
    events: tuple[RecompileEvent, ...] = ()


@dataclass(frozen=True)
class RuleMatch:
    """One thing that a rule found, before it has a fingerprint and a position among the findings.

    Args:
        entry: The line.
        message: One sentence.
        count: How often it happened.
        compile_ids: The compiles in which it happened.
        related: Other lines that belong to it, each with a note.
        reasons: torch's chained messages, cause first.
        torch_reason: The cause in torch's words, if it isn't the first of ``reasons``.
        effects: What it caused.
        break_effects: What torch did at the break, each kind once.
        user_stack: The longest call path to it.
        fixes: Suggestions, best first.
        severity: None for the rule's own.
        subject: What distinguishes it from other findings of the rule on the same line, such as the value that changed.
        changes: The changed values that it is about, each once.
        hidden_change_count: How many more values changed in one recompile than were recorded.
        call_us: What it takes of a steady call, by the profiler, in microseconds; None if unknown.
        share: That divided by the time of the call.
        cuda_graph_skip: What torch didn't record as a CUDA graph.
        ddp_split: The parts of a graph that torch splits at DDP's buckets.
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
    call_us: float | None = None
    share: float | None = None
    cuda_graph_skip: CudaGraphSkip | None = None
    ddp_split: DdpSplit | None = None


class RecompileRule(Rule):
    """A rule about a value whose change makes torch recompile. A change belongs to the first rule that matches it."""

    kinds: ClassVar[frozenset[ChangeKind]] = frozenset()
    """Kinds of changes that always belong to this rule."""

    def matches(self, change: GuardChange, event: RecompileEvent) -> bool:  # noqa: ARG002 - some rules look at it
        """Whether a change belongs to this rule."""
        return change.kind in self.kinds

    @abstractmethod
    def message(self, group: RecompileGroup) -> str:
        """One sentence: what changed, with its values."""

    @abstractmethod
    def fixes(self, group: RecompileGroup) -> tuple[Fix, ...]:
        """Suggestions for this value, best first."""


@dataclass(frozen=True)
class RuleBook:
    """The rules to diagnose by.

    Args:
        breaks: Rules about break sites; a site belongs to the first that matches.
        recompiles: Rules about changed values; a change belongs to the first that matches.
        recordings: Rules about the recording as a whole; all of them apply.
    """

    breaks: tuple[BreakRule, ...]
    recompiles: tuple[RecompileRule, ...]
    recordings: tuple[RecordingRule, ...]
