"""Listens to torch's structured trace and adds what only the running process can tell.

torch prints a graph break's stack with lines missing; the exception has the whole stack and its
columns. So after each break or error record goes a ``graphdoctor_stack``, under the same compile
id; after each ``dynamo_start``, whose stack lacks the frame that made the call, a
``graphdoctor_caller``; after each call ``graphdoctor_sources``, and what ``files`` has.

Around a module of torch's own class torch compiles a wrapper, ``inner`` in
``torch/_dynamo/external_utils.py`` (``wrap_inline``, 2.11 to 2.15), whose values are ``fn`` and
``args``: ``graphdoctor_root`` names the object that it calls, as the program does.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from traceback import FrameSummary
from types import CodeType, FrameType, FunctionType
from typing import Any

import torch
from torch.nn import Module

from ...facts.base import Fields
from ...facts.recording import CompileCall
from ...facts.stack import resumed
from ..torch_private import torch_api, torch_trace
from ..torch_private.torch_api import write_artifact
from .describe import value_text
from .files import ProgramFiles
from .sources import SourceReader, parsed

_BRANCH = "Data-dependent branch"
_STACKED_ARTIFACTS = frozenset({"dynamo_graph_break_reason", "dynamo_error"})


def stack_entries(stack: Iterable[FrameSummary]) -> list[Fields]:
    """Make a ``StackEntry`` of each line of a traceback, without its file's owner; columns are
    1-based and count characters.
    """
    entries = []
    for summary in stack:
        line = summary.lineno or 0
        text = linecache.getline(summary.filename, line).rstrip("\n") or (summary.line or "")
        stripped = text.strip()
        indent = len(text) - len(text.lstrip()) if stripped else None
        entry = {"file": summary.filename, "line": line, "function": summary.name}
        entry |= {"text": stripped or None, "indent": indent}
        column = getattr(summary, "colno", None)
        if column is not None and stripped:
            start = _characters(text, column)
            entry["column"] = start + 1
            entry["end_column"] = _end_column(text, start, getattr(summary, "end_colno", None))
        entries.append(entry)
    return entries


def place_entry(file: str, line: int, function: str) -> Fields:
    """Make a ``StackEntry`` of one line."""
    return stack_entries([FrameSummary(file, line, function, lookup_line=False)])[0]


def _end_column(text: str, start: int, end_offset: int | None) -> int | None:
    """1-based column after an expression that starts at ``start``, or None when it continues on
    another line.

    Dynamo keeps where an instruction's expression ends but not on which line
    (``torch/_dynamo/symbolic_convert.py``, 2.13).
    """
    if end_offset is None:
        return None
    end = _characters(text, end_offset)
    is_inside_word = end < len(text) and (text[end - 1] + text[end]).replace("_", "a").isalnum()
    if end <= start or is_inside_word:
        return None
    try:
        ast.parse(text[start:end])
    except (SyntaxError, ValueError):
        return None
    return end + 1


def _characters(text: str, byte_offset: int) -> int:
    """Count the characters of the first bytes of a line; Python counts columns in UTF-8 bytes."""
    return len(text.encode()[:byte_offset].decode(errors="replace"))


class TraceListener(torch_trace.TraceLooker):
    """A handler on torch's trace logger, after torch's own, so that our record follows the one it
    belongs to.

    ``on_compile`` gets the compile id, such as ``0/1``, when a compile begins, and None when it
    ends. ``outside``: frames that are no part of the program. ``on_limit`` is called when a frame
    hits its recompile limit.
    """

    def __init__(
        self,
        on_compile: Callable[[str | None], None],
        files: ProgramFiles,
        outside: Collection[FrameType] = (),
        *,
        on_limit: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__()
        self._on_compile = on_compile
        self._on_limit = on_limit
        self._files = files
        self.outside = outside
        self.sources = SourceReader()
        self.begin_anew()

    def begin_anew(self) -> None:
        """Begin with nothing seen: at the start, and in a forked process."""
        self._pending: dict[tuple[str, int, str], None] = {}
        self.finished_compiles = 0
        self._roots: dict[int, Root] = {}
        self.failures.clear()
        self._begun.clear()
        self._files.forget()

    def add_root(self, root: Root) -> None:
        """Remember an object that was handed to torch.compile; it lives as long as this, so that no
        other object gets its id.
        """
        self._roots[id(root.value)] = root

    def look_at(self, metadata: Fields, _payload: str | None) -> None:
        """Add what torch's record lacks."""
        artifact = metadata.get("artifact")
        if isinstance(artifact, dict) and artifact.get("name") in _STACKED_ARTIFACTS:
            self._write_stack(artifact["name"])
        elif "compilation_metrics" in metadata:
            if self.is_over_limit(metadata):
                self._on_limit()
            # A backward graph compiled later has metrics of its own.
            self.finished_compiles += metadata["compilation_metrics"].get("is_forward") is not False
            self._on_compile(None)
        elif "dynamo_start" in metadata:
            self._on_compile(torch_trace.compile_id(metadata))
            self._write_caller(metadata["dynamo_start"].get("stack") or [{}])

    def _write_caller(self, stack: list[Fields]) -> None:
        caller = stack_entries(torch_api.stack_of(torch_api.frames_above_compile(self.outside)))
        write_artifact("graphdoctor_caller", caller)
        for entry in caller:
            self.want_file(entry["file"])
        innermost = stack[-1]
        file_number = innermost.get("filename")
        names = (name for name, number in torch_trace.interned().items() if number == file_number)
        if (file := next(names, None)) is None:
            return
        line = innermost["line"]
        name = innermost["name"]
        self.want_source(file, line, name)
        if name == _WRAPPER and file.replace("\\", "/").endswith(_WRAPPER_FILE):
            self._write_root()
        elif (wrapped := _wrapped(file, line)) is not None:
            write_artifact("graphdoctor_wrapped", wrapped)
            if (place := wrapped["place"]) is not None:
                self.want_file(place["file"])

    def _write_root(self) -> None:
        values = torch_api.compiled_values()
        called = values.get("fn")
        owner = getattr(called, "__self__", called)
        root = self._roots.get(id(called)) or self._roots.get(id(owner))
        if root is None:
            return
        artifact = {
            "expression": root.expression,
            "class_name": type(owner).__qualname__,
            "arguments": argument_names(called, len(values.get("args", ()))),
            "place": place_entry(root.file, root.line, root.function),
            "container": torch_api.container_inside(owner),
        }
        write_artifact("graphdoctor_root", artifact)
        self.want_source(root.file, root.line, root.function)

    def write_ignored_cache(self, place: FrameSummary, function: str) -> None:
        """Record a call of a function whose cache Dynamo ignores."""
        artifact = {"function": function, "place": stack_entries([place])[0]}
        write_artifact("graphdoctor_cached", artifact)
        self.want_source(place.filename, place.lineno or 0, place.name)

    def write_compile_call(self, call: CompileCall) -> None:
        """Record a call of ``torch.compile``."""
        write_artifact("graphdoctor_compile_call", call)
        self.want_file(call.file)

    def want_file(self, file: str) -> None:
        """Record a file's text with the next ``write_sources``, and whether it is generated."""
        self._files.want(file)

    def want_source(self, file: str, line: int, function: str) -> None:
        """Record a line's surroundings with the next ``write_sources``."""
        self.want_file(file)
        self._pending[file, line, resumed(function)[0]] = None

    def _write_stack(self, of: str) -> None:
        error = torch_api.exception_being_logged()
        stack = getattr(error, "real_stack", None)
        if error is None or stack is None:
            return
        gb_type = getattr(error, "gb_type", None)
        if stack and str(gb_type).startswith(_BRANCH) and stack[-1].colno is not None:
            # To the whole condition.
            last = stack[-1]
            columns = self.sources.boolean_operation(last.filename, last.lineno, last.colno)
            if columns is not None:
                place, (start, end) = (last.filename, last.lineno, last.name), columns
                whole = FrameSummary(*place, lookup_line=False, colno=start, end_colno=end)
                stack = [*stack[:-1], whole]
        entries = stack_entries(stack)
        for entry in entries:
            self.want_source(entry["file"], entry["line"], entry["function"])
        seen = {"of": of, "type": type(error).__qualname__, "gb_type": gb_type, "stack": entries}
        seen["raised_by"] = torch_api.setting_that_raises(error)
        write_artifact("graphdoctor_stack", seen)

    def write_sources(self) -> None:
        """Record what surrounds the lines seen since the last time, and the files not recorded
        before.
        """
        pending = self._pending
        self._pending = {}
        read = (self.sources.context(*code) for code in pending)
        contexts = [context for context in read if context is not None]
        if contexts:
            write_artifact("graphdoctor_sources", contexts)
        for name, artifact in self._files.take():
            write_artifact(name, artifact)


def _wrapped(file: str, line: int) -> Fields | None:
    """Return the module's ``forward`` that is being compiled, if its code is a decorator's
    function; None otherwise.

    ``arguments``: what it calls the decorator's ``*args``, none if that isn't certain; None if the
    decorator has no ``*args, **kwargs``. ``place``: where it is defined; None if the decorator
    doesn't tell.
    """
    values = torch_api.compiled_values()
    args = values.get("args")
    # ``*args`` is a tuple; what else has that name is the program's, such as its options or an
    # iterator.
    module = values.get("self", args[0] if type(args) is tuple and args else None)
    forward = getattr(type(module), "forward", None) if isinstance(module, Module) else None
    if not isinstance(forward, FunctionType):
        return None
    code = forward.__code__
    # ``functools.wraps`` gives the function the name of what it wraps, and not its code.
    is_here = (code.co_filename, code.co_firstlineno) == (file, line)
    if not is_here or code.co_qualname == forward.__qualname__:
        return None
    inner = getattr(forward, "__wrapped__", None)
    names = None
    if inspect.getargs(code)[1:] == ("args", "kwargs"):
        names = []
        if inner is not None and not hasattr(inner, "__wrapped__") and _passes_on(code):
            first = code.co_argcount
            names = argument_names(inner, first + len(args or ()))[first:]
    return {
        "qualname": forward.__qualname__,
        "arguments": names,
        "place": None if inner is None else _definition(inspect.unwrap(forward).__code__),
    }


_DEF = ("def ", "async def ")
_MOST_DECORATORS = 100


def _definition(code: CodeType) -> Fields:
    """Return the line with its ``def``, below its decorators."""
    first = code.co_firstlineno
    file = code.co_filename
    lines = (
        line
        for line in range(first, first + _MOST_DECORATORS)
        if linecache.getline(file, line).lstrip().startswith(_DEF)
    )
    return place_entry(file, next(lines, first), code.co_name)


def _passes_on(code: CodeType) -> bool:
    """Return whether a decorator's function passes on all arguments in order with ``*args``."""
    try:
        nodes = list(ast.walk(ast.parse(textwrap.dedent(inspect.getsource(code)))))
    except (OSError, SyntaxError):
        return False
    calls = {tuple(map(ast.unparse, node.args)) for node in nodes if isinstance(node, ast.Call)}
    is_set = any(
        isinstance(node, ast.Name) and node.id == "args" and isinstance(node.ctx, ast.Store)
        for node in nodes
    )
    passed_on = {call for call in calls if "*args" in call}
    return not is_set and passed_on == {(*inspect.getargs(code)[0], "*args")}


# What the program asks ``torch.compile`` for, and what it calls the objects that it compiles.

_WRAPPER = "inner"
_WRAPPER_FILE = "_dynamo/external_utils.py"
_MODEL = "model"
_MAX_EXPRESSION = 60


@dataclass(frozen=True)
class Root:
    """A compiled object, as the program has it; ``function`` is the one that the line is in."""

    value: object
    expression: str
    file: str
    line: int
    function: str

    def block(self, path: str, module: object) -> Root:
        """Make the root of a module inside, which is compiled by itself."""
        steps = (f"[{part}]" if part.isdigit() else f".{part}" for part in path.split("."))
        return replace(self, value=module, expression=self.expression + "".join(steps))


def compiled_root(frame: FrameType, call: CompileCall) -> Root:
    """Find the object that a call of ``torch.compile`` is about."""
    model = frame.f_locals["model"]
    expression = _compiled_expression(call.file, call.line)
    return Root(getattr(model, "__self__", model), expression, call.file, call.line, call.function)


def target_root(value: object, name: str, kind: str, file: str | None) -> Root | None:
    """Find where its file makes the target of a run; None if that isn't clear."""
    for node in parsed(file).body if file is not None else ():
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        is_definition = isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name
        if is_definition or any(
            isinstance(target, ast.Name) and target.id == name for target in targets
        ):
            expression = name if kind in ("module", "function") else _MODEL
            return Root(value, expression, str(file), node.lineno, "<module>")
    return None


def compile_call(frame: FrameType) -> CompileCall:
    """Describe a call of ``torch.compile``."""
    values = frame.f_locals
    parameters = inspect.signature(torch.compile).parameters
    defaults = {name: parameter.default for name, parameter in parameters.items()}
    # torch.compile sets these two when both are left out.
    defaults |= {"mode": "default", "backend": "inductor"}
    arguments = {
        name: value.__qualname__ if isinstance(value, type | FunctionType) else value_text(value)
        for name, default in defaults.items()
        if name != "model" and (value := values.get(name)) is not None and value != default
    }
    # graphdoctor's: a test's compile() calls torch.compile for it.
    ours = str(Path(__file__).resolve().parents[2] / "_")[:-1]
    caller = frame
    while (
        caller.f_code.co_filename.startswith((str(torch_api.torch_root()), ours))
        and caller.f_back is not None
    ):
        caller = caller.f_back
    return CompileCall(
        file=caller.f_code.co_filename,
        line=caller.f_lineno,
        function=caller.f_code.co_name,
        compiled=compiled_name(values["model"]),
        arguments=arguments,
    )


def compiled_name(model: Any) -> str:
    """Return the qualified name of a function that is compiled, or of a module's class."""
    # Module.compile hands over the module's bound method.
    owner = getattr(model, "__self__", model)
    if isinstance(owner, Module):
        return type(owner).__qualname__
    return str(getattr(model, "__qualname__", type(model).__qualname__))


def argument_names(called: Any, count: int) -> list[str]:
    """List what a callable itself calls its positional arguments: ``x``, or ``inputs[0]`` of
    ``*inputs``.
    """
    try:
        parameters = list(inspect.signature(getattr(called, "forward", called)).parameters.values())
    except (TypeError, ValueError):
        return []
    names: list[str] = []
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}[{index}]" for index in range(count - len(names))]
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
    return names[:count]


def _compiled_expression(file: str, line: int) -> str:
    """Return the expression that the call of ``compile`` at a line compiles; ``model`` if that
    isn't clear.
    """
    expressions = set()
    for node in ast.walk(parsed(file)):
        if not isinstance(node, ast.Call) or not node.lineno <= line <= (node.end_lineno or line):
            continue
        function = node.func
        if getattr(function, "attr", getattr(function, "id", None)) == "compile":
            models = [keyword.value for keyword in node.keywords if keyword.arg == "model"]
            # The last one: module.compile()
            owners = [function.value] if isinstance(function, ast.Attribute) else []
            values = [*node.args[:1], *models, *owners]
            text = ast.unparse(values[0]) if values else None
            if text is not None and len(text) <= _MAX_EXPRESSION:
                expressions.add(text)
    return expressions.pop() if len(expressions) == 1 else _MODEL
