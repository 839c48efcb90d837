"""What a rule is: documentation, a match, a message, fixes.

The docstring of a rule's class is the page that ``graphdoctor rule CODE`` prints;
``tests/rules/test_documentation.py`` says which sections it has.
"""

from __future__ import annotations

import ast
import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Protocol

from graphdoctor.facts.base import grouped
from graphdoctor.facts.diagnosis import Effects, Fix, Severity
from graphdoctor.facts.guards import ChangeKind, GuardChange
from graphdoctor.facts.kernels import CudaGraphSkip
from graphdoctor.facts.recording import (
    BreakEffect,
    BreakReason,
    BreakRecord,
    Compile,
    DdpSplit,
    Frame,
    Graph,
    Recording,
    SourceContext,
    TorchMechanism,
)
from graphdoctor.facts.stack import StackEntry, parsed
from graphdoctor.wording import times

if TYPE_CHECKING:
    from graphdoctor.rules.diagnosis.recompiles import RecompileEvent, RecompileGroup

Fixes = Iterable[Fix]
"""Suggestions, best first."""
Matches = Iterable["RuleMatch"]
"""What a rule finds, in the order of the log."""


_GUIDES = {
    "GD1": "PyTorch user guide: torch.compile, common graph breaks",
    **dict.fromkeys(("GD2", "GD3"), "PyTorch user guide: torch.compile, recompilation"),
}
CUDA_GRAPHS = "PyTorch user guide: torch.compile, CUDA graph trees"
_CALLED = re.compile(r"([A-Za-z_][\w.]*)\s*\(")
_MAX_LENGTH = 60
_WITH_VALUE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.Expr)


def shortened(text: str) -> str:
    """An expression on one line of at most 60 characters; ``…`` where the log doesn't have the
    line's text.
    """
    flat = " ".join(text.split()) or "…"
    return flat if len(flat) <= _MAX_LENGTH else flat[: _MAX_LENGTH - 1] + "…"


_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
"""What Python calls their functions; from 3.12 on, only a generator expression has one."""


@dataclass(frozen=True)
class BreakSite:
    """The innermost line of user or package code that graph-break records with the same cause point
    to.

    Args:
        entry: That line.
        records: torch's records, in the order of the log; at least one.
        effects: What the site caused.
        context: What surrounds the line in its source, or None if the source couldn't be read.
        is_traced: The line is in a function that torch compiles; otherwise it led to one, such as
            `loss.backward()`.
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
    def gb_type(self) -> str:
        """Torch's kind of that message."""
        return self.cause.gb_type

    @property
    def torch_context(self) -> str:
        """Torch's developer context of the cause, or an empty string."""
        return self.cause.context or ""

    def in_context(self, pattern: str) -> str | None:
        """The first group of a pattern in that context, or None."""
        match = re.search(pattern, self.torch_context)
        return match[1] if match else None

    @property
    def stack(self) -> tuple[StackEntry, ...]:
        """Of the first record."""
        return self.records[0].stack

    def is_inside(self, part: str) -> bool:
        """Whether that stack has a file of Python's or torch's own with this in its path."""
        files = (
            entry.file.replace("\\", "/")
            for entry in self.stack
            if entry.origin in ("stdlib", "torch")
        )
        return any(part in file for file in files)

    @property
    def is_deeper(self) -> bool:
        """Whether torch stopped in something that the line calls."""
        inner = self.stack[-1:]
        return any(entry.at != self.entry.at for entry in inner)

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
    def shown(self) -> str:
        """That expression, shortened."""
        return shortened(self.expression)

    @property
    def is_pointed(self) -> bool:
        """Torch reports the expression within the line, not only the line."""
        return self.entry.column is not None

    @property
    def node(self) -> ast.expr | None:
        """The expression that torch points to, or None if it points to only a part of one.

        If torch reports only the line, this is the value that the statement computes.
        """
        try:
            return ast.parse(self.expression.strip(), mode="eval").body
        except (SyntaxError, ValueError):
            statement = None if self.is_pointed else self.statement_node
            return statement.value if isinstance(statement, _WITH_VALUE) else None

    @property
    def statement_node(self) -> ast.stmt | None:
        """The statement that the line belongs to, or None if it is cut off or can't be parsed."""
        written = re.sub(r"^elif\b", "if", self.statement)
        # A log that graphdoctor didn't record has only the line: a compound statement then lacks
        # its body.
        for text in (written, f"{written}\n    ..."):
            if (tree := parsed(text)) is not None:
                return next(iter(tree.body), None)
        return None

    @property
    def called(self) -> str | None:
        """The dotted name of the function called where torch points, such as ``log.info`` or
        ``open(...).read``.
        """
        tree = self.node
        if tree is None:
            match = _CALLED.search(self.expression)
            return match[1] if match else None
        if not isinstance(tree, ast.Call):
            return None
        for node in ast.walk(tree.func):
            # Only the called function matters, not the arguments that made the object before the
            # dot.
            if isinstance(node, ast.Call):
                node.args, node.keywords = [ast.Constant(...)], []
        return ast.unparse(tree.func)

    @property
    def named(self) -> str:
        """That name, or the expression if torch doesn't point to a call."""
        return self.called or self.shown

    @property
    def bare_call(self) -> ast.Call | None:
        """The call, if the statement is a call whose result isn't used, so that no other line needs
        it.
        """
        match self.statement_node:
            # A call in a lambda is made by whoever calls that.
            case ast.Expr(value=ast.Call() as call) if not (
                self.is_pointed and self._is_in_lambda(call)
            ):
                return call
        return None

    def _is_in_lambda(self, tree: ast.expr) -> bool:
        pointed = self.node and ast.dump(self.node)
        lambdas = (node for node in ast.walk(tree) if isinstance(node, ast.Lambda))
        return any(ast.dump(part) == pointed for each in lambdas for part in ast.walk(each.body))

    @property
    def is_comprehension(self) -> bool:
        """Torch compiles a comprehension or a generator expression by itself there, as Python runs
        it as a function.
        """
        return all(
            record.stack and record.stack[0].function in _COMPREHENSIONS for record in self.records
        )

    @property
    def looped_over(self) -> str:
        """What the ``for`` at the line iterates over, or the expression if there is no ``for``."""
        statement = self.statement_node
        return (
            shortened(ast.unparse(statement.iter))
            if isinstance(statement, ast.For | ast.AsyncFor)
            else self.shown
        )

    @property
    def chained_types(self) -> tuple[str, ...]:
        """The ``gb_type`` of all chained messages of all records, each once, in order."""
        return tuple(
            dict.fromkeys(reason.gb_type for record in self.records for reason in record.chain)
        )

    @property
    def break_effects(self) -> tuple[BreakEffect, ...]:
        """What torch did at the site, each kind once."""
        return tuple(dict.fromkeys(record.effect for record in self.records))

    @property
    def is_own_code(self) -> bool:
        """The line is in the user's own code, so it can be edited, and in a function that torch
        compiles.
        """
        return self.entry.origin == "user" and self.is_traced


class Page(ABC):
    """The documentation of one code: the docstring of the class."""

    code: ClassVar[str]
    """The code, such as ``GD101``."""
    name: ClassVar[str]
    """The class's name in kebab case, such as ``print-or-log``."""
    severity: ClassVar[Severity]
    """How bad it is. A break that torch can't resume after is always an ``error``."""

    def __init_subclass__(cls, *, code: str = "", severity: Severity = "warning") -> None:
        super().__init_subclass__()
        cls.code, cls.severity = code, severity
        cls.name = re.sub(r"\B(?=[A-Z])", "-", cls.__name__).lower()

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
        return {
            heading.strip(): body.strip()
            for heading, body in zip(parts[1::2], parts[2::2], strict=True)
        }


class GapPage(Page):
    """The documentation of a code that a ``CaptureGap`` has: it finds nothing by itself."""


class Rule(Page):
    """A page on one kind of finding, and what finds it."""

    guide: ClassVar[str | None] = None
    """Where its suggestions are recommended, unless one says so itself; by default the guide for
    codes like its own."""
    remedies: ClassVar[tuple[Fix, ...]] = ()
    """Suggestions, best first, if they are the same for all that it finds."""

    @classmethod
    def sourced(cls, fixes: Fixes) -> tuple[Fix, ...]:
        """Suggestions, each with where it is recommended."""
        guide = cls.guide or _GUIDES.get(cls.code[:3])
        return tuple(fix if fix.source else fix.replace(source=guide) for fix in fixes)


class BreakRule(Rule):
    """A rule about a break site. A site belongs to the first rule of the catalog that matches it.

    What the class has of ``torch_ids``, ``gb_type``, ``context``, ``inside``, ``topic`` and
    ``mechanism`` names the breaks that always belong to the rule. Override the methods where words
    that never change don't do.
    """

    torch_ids: ClassVar[tuple[str, ...]] = ()
    """torch's registry ids of the cause."""
    gb_type: ClassVar[str] = r"(?!)"
    """A pattern for the start of torch's kind of message, for releases that print no id."""
    context: ClassVar[str] = r"(?!)"
    """A pattern in torch's developer context."""
    inside: ClassVar[str | None] = None
    """See ``BreakSite.is_inside``."""
    topic: ClassVar[str | None] = None
    """``BreakRecord.topic``."""
    mechanism: ClassVar[TorchMechanism | None] = None
    """Torch's own code in which it happened."""
    says: ClassVar[str] = ""
    """The message, with what it shows of ``{site}``."""

    def matches(self, site: BreakSite) -> bool:
        """Whether the site belongs to this rule."""
        if self.mechanism is not None:
            return site.mechanism == self.mechanism
        return (
            site.cause.torch_id in self.torch_ids
            or re.match(self.gb_type, site.gb_type) is not None
            or re.search(self.context, site.torch_context) is not None
            or (self.inside is not None and site.is_inside(self.inside))
            or (self.topic is not None and site.records[0].topic == self.topic)
        )

    def is_consequence(self, site: BreakSite) -> bool:
        """Whether another break causes it."""
        return False

    def message(self, site: BreakSite) -> str:
        """One sentence: what on this line breaks the graph."""
        return self.says.format(site=site)

    def suggested(self, site: BreakSite) -> Fixes:
        """Suggestions for this line, as if it could be edited; ``remedies`` may show ``{site}``
        too.
        """
        return (fix.replace(title=fix.title.format(site=site)) for fix in self.remedies)

    def fixes(self, site: BreakSite) -> Fixes:
        """Suggestions for this line: edits only of the user's own code."""
        return tuple(fix for fix in self.suggested(site) if site.is_own_code or fix.kind != "code")


class RecordingRule(Rule):
    """A rule about the recording as a whole: recompiles, skipped frames, failed calls."""

    @abstractmethod
    def findings(self, view: RecordingView) -> Matches:
        """All that the rule finds."""


CodeLine = tuple[str, str, int]
"""A file, a function in it and a line of that."""


@dataclass(frozen=True)
class RecordingView:
    """A recording with its break sites and recompile events, and what rules look up in it."""

    recording: Recording
    sites: tuple[BreakSite, ...]
    events: tuple[RecompileEvent, ...] = ()

    @cached_property
    def compiles(self) -> Mapping[str | None, Compile]:
        """By compile id."""
        return {compile_.compile_id: compile_ for compile_ in self.recording.compiles}

    @cached_property
    def frames(self) -> Mapping[int | None, Frame]:
        """By frame id."""
        return {frame.frame_id: frame for frame in self.recording.frames}

    @cached_property
    def graphs(self) -> Mapping[str | None, Graph]:
        """The last graph of each compile."""
        return {graph.compile_id: graph for graph in self.recording.graphs}

    @cached_property
    def contexts(self) -> Mapping[tuple[str, int], SourceContext]:
        """By file and line."""
        return {context.at: context for context in self.recording.sources}

    @cached_property
    def resumed(self) -> Mapping[CodeLine, list[str]]:
        """Compiles of the functions that continue from lines of functions."""
        framed = (
            (self.frames.get(compile_.frame_id), compile_) for compile_ in self.recording.compiles
        )
        return grouped(
            ((frame.file, frame.function, frame.resumes_at), compile_.compile_id)
            for frame, compile_ in framed
            if frame is not None and frame.resumes_at is not None and compile_.outcome != "limit"
        )

    def frame(self, compile_id: str | None) -> Frame | None:
        """The function of a compile."""
        compile_ = self.compiles.get(compile_id)
        return self.frames.get(compile_.frame_id) if compile_ else None

    @cached_property
    def main_frame(self) -> Frame | None:
        """The frame with the largest graph; None if there is no graph."""
        largest = max(self.recording.graphs, key=lambda graph: graph.op_count or 0, default=None)
        return None if largest is None else self.frame(largest.compile_id)

    def line(self, file: str | None, line: int | None) -> StackEntry | None:
        """A line that torch points to, as a location; None if nothing is known of it."""
        stacks = (compile_.stack for compile_ in self.recording.compiles)
        known = next(
            (entry for stack in stacks for entry in stack if entry.at == (file, line)), None
        )
        if known is not None or file is None or line is None:
            return known
        context = self.contexts.get((file, line))
        frame = next((each for each in self.recording.frames if each.file == file), None)
        if context is None and frame is None:
            return None
        return StackEntry(
            file=file,
            line=line,
            function=frame.function if frame is not None else "<unknown>",
            qualname=context.qualname
            if context is not None
            else frame.qualname
            if frame is not None
            else None,
            text=_line_text(context) if context is not None else None,
            origin=frame.origin if frame is not None else "user",
            package=frame.package if frame is not None else None,
        )

    def place(
        self, file: str | None, line: int | None, compile_id: str | None
    ) -> StackEntry | None:
        """That line; else the function of a compile, or that of the largest graph."""
        frame = self.frame(compile_id) or self.main_frame
        return self.line(file, line) or (frame.entry if frame is not None else None)


def _line_text(context: SourceContext) -> str | None:
    """The line within its statement, which can begin above it."""
    lines = context.statement.splitlines()
    number = 0 if context.statement_line is None else context.line - context.statement_line
    return lines[number].strip() if 0 <= number < len(lines) else None


class OfCompile(Protocol):
    """What belongs to a compile."""

    @property
    def compile_id(self) -> str | None:
        """None for what is outside any compile."""


@dataclass(frozen=True)
class RuleMatch:
    """One thing that a rule found, before it has a fingerprint and a position among the findings.

    Args:
        entry: The line.
        message: One sentence.
        of: What it was found in, each of some compile or of none.
        count: How often it happened; None if once for each of these.
        related: Other lines that belong to it, each with a note.
        reasons: torch's chained messages, cause first.
        torch_reason: The cause in torch's words, if it isn't the first of ``reasons``.
        severity: None for the rule's own.
        subject: What distinguishes it from other findings of the rule on the same line, such as the
            value that changed.
        changes: The changed values that it is about, each once.
        call_us: What it takes of a steady call, by the profiler, in microseconds; None if unknown.
        share: That divided by the time of the call.
    """

    entry: StackEntry
    message: str
    of: Sequence[OfCompile] = ()
    count: int | None = None
    related: tuple[tuple[StackEntry, str], ...] = ()
    reasons: tuple[BreakReason, ...] = ()
    torch_reason: str | None = None
    effects: Effects = field(default_factory=Effects)
    break_effects: tuple[BreakEffect, ...] = ()
    user_stack: tuple[StackEntry, ...] = ()
    fixes: Fixes = ()
    severity: Severity | None = None
    subject: str = ""
    changes: tuple[GuardChange, ...] = ()
    hidden_change_count: int = 0
    call_us: float | None = None
    share: float | None = None
    is_consequence: bool = False
    cuda_graph_skip: CudaGraphSkip | None = None
    ddp_split: DdpSplit | None = None


class RecompileRule(Rule):
    """A rule about a value whose change makes torch recompile. A change belongs to the first rule
    that matches it.
    """

    kinds: ClassVar[tuple[ChangeKind, ...]] = ()
    """Kinds of changes that always belong to this rule."""
    is_about_calls: ClassVar[bool] = False
    """Whether its suggestions are for what changes from call to call: none of them helps within
    one."""

    def matches(self, change: GuardChange) -> bool:
        """Whether a change belongs to this rule."""
        return change.kind in self.kinds

    def message(self, group: RecompileGroup) -> str:
        """The whole sentence: the function, how often it recompiled, and why."""
        count = sum(not event.is_over_limit for event in group.events)
        return f"`{group.frame.described}` recompiled {times(count)} because {self.because(group)}"

    def because(self, group: RecompileGroup) -> str:
        """A clause: what changed, with its values."""
        return group.changed

    def fixes(self, group: RecompileGroup) -> Fixes:
        """Suggestions for this value."""
        return self.remedies


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
