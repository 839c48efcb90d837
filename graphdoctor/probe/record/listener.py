"""Listens to torch's structured trace and adds what only the running process can know.

torch prints a graph break's stack with lines missing; the exception has the whole stack and its
columns. So after each break or error record goes a ``graphdoctor_stack``, under the same compile
id; after each ``dynamo_start``, whose stack lacks the frame that made the call, a
``graphdoctor_caller``; after each call ``graphdoctor_sources``, and what ``files`` has.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
import traceback
from collections.abc import Callable, Collection, Iterable
from types import CodeType, FrameType, FunctionType
from typing import Any

import torch

from ..torch_private import torch_api, torch_trace
from .compile_calls import Roots, argument_names, is_wrapper
from .files import ProgramFiles
from .sources import SourceReader

_BRANCH = "Data-dependent branch"
_STACKED_ARTIFACTS = frozenset({"dynamo_graph_break_reason", "dynamo_error"})


def stack_entries(stack: Iterable[traceback.FrameSummary]) -> list[dict[str, Any]]:
    """A traceback's lines as ``StackEntry``, without its file's owner; columns are 1-based and
    count characters.
    """
    entries: list[dict[str, Any]] = []
    for summary in stack:
        line = summary.lineno or 0
        text = linecache.getline(summary.filename, line).rstrip("\n") or (summary.line or "")
        stripped = text.strip()
        entry: dict[str, Any] = {"file": summary.filename, "line": line, "function": summary.name}
        entry |= {
            "text": stripped or None,
            "indent": len(text) - len(text.lstrip()) if stripped else None,
        }
        column = getattr(summary, "colno", None)
        if column is not None and stripped:
            start = _characters(text, column)
            entry["column"] = start + 1
            entry["end_column"] = _end_column(text, start, getattr(summary, "end_colno", None))
        entries.append(entry)
    return entries


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
    """How many characters the first ``byte_offset`` bytes of a line are; Python counts columns in
    UTF-8 bytes.
    """
    return (
        byte_offset if text.isascii() else len(text.encode()[:byte_offset].decode(errors="replace"))
    )


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
        """Nothing has been seen so far: in the beginning, and in a forked process."""
        self._pending: dict[tuple[str, int], str] = {}
        self.finished_compiles = 0
        self.roots = Roots()
        self.failures.clear()
        self._begun.clear()
        self._files.forget()

    def look_at(self, metadata: dict[str, Any], _payload: str | None) -> None:
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
            self._on_compile(f"{metadata.get('frame_id')}/{metadata.get('frame_compile_id')}")
            caller = stack_entries(torch_api.stack_of(torch_api.frames_above_compile(self.outside)))
            torch_api.write_artifact("graphdoctor_caller", caller)
            for entry in caller:
                self.want_file(entry["file"])
            innermost: dict[str, Any] = (metadata["dynamo_start"].get("stack") or [{}])[-1]
            file = torch_trace.interned_by_number().get(innermost.get("filename", -1))
            if file is not None:
                self.want_source(file, innermost["line"], innermost["name"])
                if is_wrapper(file, innermost["name"]):
                    self._write_root()
                elif (wrapped := _wrapped(file, innermost["line"])) is not None:
                    torch_api.write_artifact("graphdoctor_wrapped", wrapped)
                    if (place := wrapped["place"]) is not None:
                        self.want_file(place["file"])

    def _write_root(self) -> None:
        values = torch_api.compiled_values()
        root = self.roots.of(values)
        if root is None:
            return
        called = values["fn"]
        summary = traceback.FrameSummary(root.file, root.line, root.function, lookup_line=False)
        artifact = {
            "expression": root.expression,
            "class_name": type(getattr(called, "__self__", called)).__qualname__,
            "arguments": argument_names(called, len(values.get("args", ()))),
            "place": stack_entries([summary])[0],
            "container": torch_api.container_inside(getattr(called, "__self__", called)),
        }
        torch_api.write_artifact("graphdoctor_root", artifact)
        self.want_source(root.file, root.line, root.function)

    def write_ignored_cache(self, place: traceback.FrameSummary, function: str) -> None:
        """Record a call of a function whose cache Dynamo ignores."""
        torch_api.write_artifact(
            "graphdoctor_cached", {"function": function, "place": stack_entries([place])[0]}
        )
        self.want_source(place.filename, place.lineno or 0, place.name)

    def want_file(self, file: str) -> None:
        """Record a file's text with the next ``write_sources``, and whether it is generated."""
        self._files.want(file)

    def want_source(self, file: str, line: int, function: str) -> None:
        """Record a line's surroundings with the next ``write_sources``."""
        self.want_file(file)
        # One context for each line: that of the innermost code, which has no name of its own.
        if function.startswith("<") or (file, line) not in self._pending:
            self._pending[file, line] = function

    def _write_stack(self, of: str) -> None:
        error = torch_api.exception_being_logged()
        stack = getattr(error, "real_stack", None)
        if error is None or stack is None:
            return
        entries = stack_entries(stack)
        for entry in entries:
            self.want_source(entry["file"], entry["line"], entry["function"])
        if entries and str(getattr(error, "gb_type", "")).startswith(_BRANCH):
            self._widen_to_condition(entries[-1])
        gb_type = getattr(error, "gb_type", None)
        seen = {"of": of, "type": type(error).__qualname__, "gb_type": gb_type, "stack": entries}
        torch_api.write_artifact("graphdoctor_stack", seen)

    def _widen_to_condition(self, entry: dict[str, Any]) -> None:
        if "column" not in entry:
            return
        text = linecache.getline(entry["file"], entry["line"]).rstrip("\n")
        column = len(text[: entry["column"] - 1].encode())
        found = self.sources.boolean_operation(entry["file"], entry["line"], column)
        if found is not None:
            start, end = found
            entry["column"] = _characters(text, start) + 1
            entry["end_column"] = None if end is None else _characters(text, end) + 1

    def write_sources(self) -> None:
        """Record what surrounds the lines seen since the last time, and the files not recorded
        before.
        """
        pending, self._pending = self._pending, {}
        contexts = [
            context
            for (file, line), function in pending.items()
            if (context := self.sources.context(file, line, function))
        ]
        if contexts:
            torch_api.write_artifact("graphdoctor_sources", contexts)
        for name, found in self._files.take():
            torch_api.write_artifact(name, found)


def _wrapped(file: str, line: int) -> dict[str, Any] | None:
    """The module's ``forward`` that is being compiled, if its code is a decorator's function; None
    otherwise.

    ``arguments``: what it calls the decorator's ``*args``, none if that isn't certain; None if the
    decorator has no ``*args, **kwargs``. ``place``: where it is defined; None if the decorator
    doesn't tell.
    """
    values = torch_api.compiled_values()
    given = values.get("args")
    # ``*args`` is a tuple; what else has that name is the program's, such as its options or an
    # iterator.
    module = values.get("self", given[0] if type(given) is tuple and given else None)
    forward = (
        getattr(type(module), "forward", None) if isinstance(module, torch.nn.Module) else None
    )
    if not isinstance(forward, FunctionType):
        return None
    code = forward.__code__
    # ``functools.wraps`` gives the function the name of what it wraps, and not its code.
    is_wrapper = (code.co_filename, code.co_firstlineno) == (
        file,
        line,
    ) and code.co_qualname != forward.__qualname__
    if not is_wrapper:
        return None
    is_open = inspect.getargs(code)[1:] == ("args", "kwargs")
    inner = getattr(forward, "__wrapped__", None)
    is_same = (
        is_open and inner is not None and not hasattr(inner, "__wrapped__") and _passes_on(code)
    )
    names = (
        argument_names(inner, code.co_argcount + len(given or ()))[code.co_argcount :]
        if is_same
        else []
    )
    return {
        "qualname": forward.__qualname__,
        "arguments": names if is_open else None,
        "place": None if inner is None else _definition(inspect.unwrap(forward).__code__),
    }


def _definition(code: CodeType) -> dict[str, Any]:
    """The line with its ``def``, below its decorators."""
    lines = range(code.co_firstlineno, code.co_firstlineno + _MOST_DECORATORS)
    is_def = (
        number
        for number in lines
        if linecache.getline(code.co_filename, number).lstrip().startswith(_DEF)
    )
    summary = traceback.FrameSummary(
        code.co_filename, next(is_def, lines[0]), code.co_name, lookup_line=False
    )
    return stack_entries([summary])[0]


_DEF, _MOST_DECORATORS = ("def ", "async def "), 100


def _passes_on(code: CodeType) -> bool:
    """Whether a decorator's function hands on its arguments in order, wherever it hands on
    ``*args``.
    """
    try:
        nodes = list(ast.walk(ast.parse(textwrap.dedent(inspect.getsource(code)))))
    except (OSError, SyntaxError):
        return False
    calls = [list(map(ast.unparse, node.args)) for node in nodes if isinstance(node, ast.Call)]
    is_set = any(
        isinstance(node, ast.Name) and node.id == "args" and isinstance(node.ctx, ast.Store)
        for node in nodes
    )
    return not is_set and {tuple(call) for call in calls if "*args" in call} == {
        (*inspect.getargs(code)[0], "*args")
    }
