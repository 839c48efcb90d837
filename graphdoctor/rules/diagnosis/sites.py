"""Break records to break sites: which records belong to one site, and what each site caused.

Goes out: a ``RecordingView``, in which rules look up what they need.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from keyword import iskeyword
from pathlib import Path

from graphdoctor.facts.base import grouped, values_of
from graphdoctor.facts.diagnosis import Effects
from graphdoctor.facts.recording import (
    BreakEffect,
    BreakReason,
    BreakRecord,
    CodeAt,
    Compile,
    Frame,
    Graph,
    RaisedBy,
    Recording,
    SourceContext,
    TorchMechanism,
    context_at,
)
from graphdoctor.facts.stack import PROGRAM_ORIGINS, StackEntry, innermost, parsed
from graphdoctor.rules.diagnosis.recompiles import RecompileEvent, recompile_events

_FUNCTION = re.compile(r"<(?:function|bound method) ([\w.]+)")
_CALLED = re.compile(r"([A-Za-z_][\w.]*)\s*\(")
_MAX_LENGTH = 60
_WITH_VALUE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.Expr)
_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
"""Python's names of their functions; from 3.12 on, only a generator expression has one."""


def shortened(text: str) -> str:
    """Return an expression on one line of at most 60 characters; ``…`` where the log doesn't have
    the line's text.
    """
    flat = " ".join(text.split()) or "…"
    return flat if len(flat) <= _MAX_LENGTH else flat[: _MAX_LENGTH - 1] + "…"


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
        """Return the first group of a pattern in that context, or None."""
        match = re.search(pattern, self.torch_context)
        return match[1] if match else None

    @property
    def stack(self) -> tuple[StackEntry, ...]:
        """The first record's stack."""
        return self.records[0].stack

    def is_inside(self, part: str) -> bool:
        """Return whether that stack has a file of Python's or torch's own with this in its path."""
        return any(
            part in entry.file.replace("\\", "/")
            for entry in self.stack
            if entry.origin in ("stdlib", "torch")
        )

    @property
    def is_deeper(self) -> bool:
        """Return whether torch stopped in something that the line calls."""
        return bool(self.stack) and self.stack[-1].at != self.entry.at

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

    @property
    def is_pointed(self) -> bool:
        """Torch reports the expression within the line, not only the line."""
        return self.entry.column is not None

    @cached_property
    def expression(self) -> str:
        """The part of the line that torch points to, or the whole line if it points to no part."""
        column, end = self.entry.column, self.entry.end_column
        if column is None or end is None:
            return self.text
        before = 1 + (self.entry.indent or 0)
        return self.text[max(column - before, 0) : end - before] or self.text

    @property
    def shown(self) -> str:
        """The pointed-to expression, shortened."""
        return shortened(self.expression)

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
        tree = parsed(written) or parsed(f"{written}\n    ...")
        return next(iter(tree.body), None) if tree is not None else None

    @property
    def called(self) -> str | None:
        """The dotted name of the function called where torch points, such as ``log.info`` or
        ``open(...).read``.
        """
        tree = self.node
        if tree is None:
            match = _CALLED.search(self.expression)
            # ``for (x,) in loader:`` calls nothing of that name.
            return match[1] if match and not iskeyword(match[1]) else None
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
    def disabled(self) -> str:
        """The function that torch was told not to compile; if the line only defines what torch was
        given, by torch's own name for it.
        """
        match = _FUNCTION.match(self.cause.context or "")
        is_definition = isinstance(self.statement_node, ast.FunctionDef | ast.ClassDef)
        return match[1] if match and is_definition else self.named

    @property
    def bare_call(self) -> ast.Call | None:
        """The call, if the statement is a call whose result isn't used, so that no other line needs
        it.
        """
        match self.statement_node:
            case ast.Expr(value=ast.Call() as call):
                # A call in a lambda is made by whoever calls that.
                pointed = ast.dump(self.node) if self.is_pointed and self.node else None
                lambdas = (node for node in ast.walk(call) if isinstance(node, ast.Lambda))
                parts = (part for function in lambdas for part in ast.walk(function.body))
                return None if any(ast.dump(part) == pointed for part in parts) else call
        return None

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
        """Return what the ``for`` at the line iterates over, or the expression if there is no
        ``for``.
        """
        match self.statement_node:
            case ast.For(iter=iterated) | ast.AsyncFor(iter=iterated):
                return shortened(ast.unparse(iterated))
        return self.shown

    @property
    def break_effects(self) -> tuple[BreakEffect, ...]:
        """Return what torch did at the site, each kind once."""
        return tuple(dict.fromkeys(record.effect for record in self.records))

    @property
    def is_own_code(self) -> bool:
        """The line is in the user's own code, so it can be edited, and in a function that torch
        compiles.
        """
        return self.entry.origin == "user" and self.is_traced


CodeLine = tuple[str, str, int]
"""A file, a function in it and a line of that."""


@dataclass(frozen=True)
class RecordingView:
    """A recording with its break sites and recompile events, and what rules look up in it.

    Args:
        recording: The facts.
        root: Paths below it are shown relative to it.
    """

    recording: Recording
    root: Path

    @cached_property
    def sites(self) -> tuple[BreakSite, ...]:
        """Break sites, in the order of their first records."""
        return tuple(_sites(self))

    @cached_property
    def events(self) -> tuple[RecompileEvent, ...]:
        """Recompiles, in order."""
        return recompile_events(self.recording)

    @cached_property
    def compiles(self) -> Mapping[str | None, Compile]:
        """By compile id."""
        return {compile_.compile_id: compile_ for compile_ in self.recording.compiles}

    @cached_property
    def order(self) -> Mapping[str | None, int]:
        """Position of each compile in the log."""
        return {compile_id: number for number, compile_id in enumerate(self.compiles)}

    @cached_property
    def frames(self) -> Mapping[int | None, Frame]:
        """By frame id."""
        return {frame.frame_id: frame for frame in self.recording.frames}

    @cached_property
    def graphs(self) -> Mapping[str | None, Graph]:
        """The last graph of each compile."""
        return {graph.compile_id: graph for graph in self.recording.graphs}

    @cached_property
    def contexts(self) -> Mapping[CodeAt, SourceContext]:
        """By the code at a line."""
        return {context.code: context for context in self.recording.sources}

    def context(self, entry: StackEntry) -> SourceContext | None:
        """Return the source around a line; None if it isn't known."""
        return context_at(self.contexts, *entry.at, entry.function)

    @cached_property
    def resumed(self) -> Mapping[CodeLine, list[str]]:
        """Compiles of the functions that continue from lines of functions."""
        return grouped(
            ((frame.file, frame.function, frame.resumes_at), compile_.compile_id)
            for compile_ in self.recording.compiles
            if compile_.outcome != "limit"
            and (frame := self.frames.get(compile_.frame_id)) is not None
            and frame.resumes_at is not None
        )

    def longest_path(self, site: BreakSite) -> tuple[StackEntry, ...]:
        """Return the longest call path to a site: how its frame was reached, then the break from
        there.
        """
        paths = []
        for record in site.records:
            compile_ = self.compiles.get(record.compile_id)
            above = compile_.stack[:-1] if compile_ and record.is_stack_exact else ()
            paths.append((*above, *record.stack))
        return max(paths, key=lambda path: sum(entry.origin in PROGRAM_ORIGINS for entry in path))

    def frame(self, compile_id: str | None) -> Frame | None:
        """Return the function of a compile."""
        compile_ = self.compiles.get(compile_id)
        return self.frames.get(compile_.frame_id) if compile_ else None

    @cached_property
    def main_frame(self) -> Frame | None:
        """The frame with the largest graph; None if there is no graph."""
        largest = max(self.recording.graphs, key=lambda graph: graph.op_count or 0, default=None)
        return None if largest is None else self.frame(largest.compile_id)

    def line(self, file: str | None, line: int | None) -> StackEntry | None:
        """Return a line that torch points to, as a location; None if nothing is known of it."""
        entries = (entry for compile_ in self.recording.compiles for entry in compile_.stack)
        entry = next((entry for entry in entries if entry.at == (file, line)), None)
        if entry is not None or file is None or line is None:
            return entry
        # Nobody knows which of the functions on the line is meant.
        contexts = [context for context in self.recording.sources if context.at == (file, line)]
        context = max(contexts, key=lambda context: context.qualname, default=None)
        frame = next((frame for frame in self.recording.frames if frame.file == file), None)
        if frame is not None:
            entry = StackEntry(
                line=line, **values_of(frame, "file", "function", "qualname", "origin", "package")
            )
        elif context is not None:
            entry = StackEntry(file=file, line=line, function="<unknown>")
        if entry is None or context is None:
            return entry
        # The statement can begin above the line.
        number = 0 if context.statement_line is None else line - context.statement_line
        texts = dict(enumerate(map(str.strip, context.statement.splitlines())))
        return entry.replace(qualname=context.qualname, text=texts.get(number))

    def place(
        self, file: str | None, line: int | None, compile_id: str | None
    ) -> StackEntry | None:
        """Return that line; else the function of a compile, or that of the largest graph."""
        frame = self.frame(compile_id) or self.main_frame
        return self.line(file, line) or (frame.entry if frame is not None else None)


def _sites(view: RecordingView) -> Iterator[BreakSite]:
    """Yield the break sites: the records of one cause at one line."""
    frames = view.recording.frames
    functions = {(frame.file, name) for frame in frames for name in _function_names(frame)}
    lines = {(frame.file, frame.line) for frame in frames}
    of_cause = grouped(
        ((*entry.at, cause), (entry, record)) for entry, cause, record in _placed(view)
    )
    for pairs in of_cause.values():
        # An exact stack has columns, a printed one doesn't.
        entries = [entry for entry, _ in pairs]
        entry = next((entry for entry in entries if entry.column is not None), entries[0])
        records = tuple(record for _, record in pairs)
        yield BreakSite(
            entry=entry,
            records=records,
            effects=_effects(records, view),
            context=view.context(entry),
            # A module of torch's own class stands where the program compiles or makes it.
            is_traced=(entry.file, entry.function) in functions
            or (entry.at not in lines and any(entry in record.stack for record in records)),
        )


def _placed(view: RecordingView) -> Iterator[tuple[StackEntry, str, BreakRecord]]:
    """Yield the records of breaks, each with its line and its cause."""
    # For each line that calls a module in which torch's own code breaks, where the program compiles
    # that module.
    roots: dict[tuple[str, int], StackEntry] = {}
    for record in view.recording.breaks:
        compile_, frame = view.compiles.get(record.compile_id), view.frame(record.compile_id)
        above = compile_.stack[:-1] if compile_ else ()
        # If a torch module breaks, the record's stack has no line of the program: then it's the
        # line that led to the frame. A record without a stack is at the frame's own line: its
        # caller isn't to blame.
        if record.stack:
            entry = innermost((*above, *record.stack)) or record.stack[-1]
        elif frame is not None:
            entry = frame.entry
        else:
            continue
        cause = record.chain[0].torch_id or record.chain[0].gb_type
        if record.mechanism is not None:
            # torch's own code breaks in several ways; to the program it's one place.
            cause = record.mechanism
            is_wrapper = frame is not None and frame.is_wrapper and frame.line == entry.line
            if is_wrapper and (caller := innermost(above)) is not None:
                roots[caller.at] = entry
            entry = roots.get(entry.at, entry)
        yield entry, cause, record


def _function_names(frame: Frame) -> tuple[str, str]:
    return frame.function, frame.code_name


def _frame_line(record: BreakRecord, frame: Frame) -> int | None:
    """Return the line of the frame's own function where the break left it, or None if the stack
    doesn't show it.
    """
    for entry in record.stack:
        is_of_frame = entry.file == frame.file and entry.function in _function_names(frame)
        if record.is_stack_exact or is_of_frame:
            return entry.line
    return None


def left_eager(record: BreakRecord, frame: Frame, view: RecordingView) -> tuple[str, ...]:
    """Return the functions whose rest runs eagerly because of a break.

    That is the frame's own, unless torch continues it: with ``nested_graph_breaks``, only what it
    called and can't continue is left to eager mode (``torch/_dynamo/symbolic_convert.py``, 2.13,
    ``InstructionTranslatorBase``).
    """
    if record.effect != "rest_eager":
        return ()
    line = _frame_line(record, frame)
    if line is None or (frame.file, frame.function, line) not in view.resumed:
        return (frame.name,)
    called = record.stack[1:] if record.is_stack_exact else record.stack
    return tuple(
        entry.qualname or entry.function
        for entry in called
        if entry.function not in _function_names(frame)
        and (entry.file, entry.function, entry.line) not in view.resumed
    )


def _effects(records: Iterable[BreakRecord], view: RecordingView) -> Effects:
    broken: set[str] = set()
    skipped: dict[str, None] = {}
    rest_eager: dict[str, None] = {}
    following: set[str] = set()
    raised_by: RaisedBy | None = None
    for record in records:
        raised_by = raised_by or record.raised_by
        frame = view.frame(record.compile_id)
        if frame is None or record.compile_id is None:
            continue
        broken.add(record.compile_id)
        if record.effect == "frame_skipped":
            # Of a function that torch resumed before, what comes before runs in graphs.
            (skipped if frame.resumes_at is None else rest_eager)[frame.name] = None
        rest_eager |= dict.fromkeys(left_eager(record, frame, view))
        if record.effect in ("resumed", "rest_eager"):
            line = _frame_line(record, frame)
            following |= {*view.resumed.get((frame.file, frame.function, line or 0), ())}
    graphs = (broken | following) & view.graphs.keys()
    return Effects(
        graphs=tuple(sorted(graphs, key=view.order.__getitem__)),
        resume_functions=tuple(sorted(following, key=view.order.__getitem__)),
        skipped_frames=tuple(skipped),
        rest_eager_frames=tuple(rest_eager),
        raised_by=raised_by,
    )
