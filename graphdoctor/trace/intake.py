"""Takes the records of a trace log one by one and keeps what every recording needs of them, by
compile.

As seen on 2.13 (``torch/_dynamo/convert_frame.py``), ``dynamo_start`` begins a compile and
``compilation_metrics`` ends it. A frame over its recompile limit has metrics and no start. A frame
that is dropped because it has no operation has metrics that claim guarded code, without counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from graphdoctor.facts.base import Fact, Fields, field_types, values_of
from graphdoctor.facts.profiled import InductorGraph
from graphdoctor.facts.reading import read_fact
from graphdoctor.facts.recording import (
    Call,
    CodeAt,
    CompileCall,
    CompileOutcome,
    Environment,
    Graph,
    IgnoredCache,
    SourceContext,
    TracingBranch,
    context_at,
)
from graphdoctor.facts.stack import StackEntry, resumed
from graphdoctor.trace.breaks import PrintedBreak, parse_break, parse_error
from graphdoctor.trace.events import WatchedCalls
from graphdoctor.trace.evidence import Evidence
from graphdoctor.trace.grammar import Record
from graphdoctor.trace.inductor import inductor_graph
from graphdoctor.trace.origin import Origins, Root, Wrapped, collapse_resumes, without_probe

_NUMBERS = (
    "guard_count",
    "graph_op_count",
    "attempt",
    "duration_us",
    "aot_autograd_cumulative_compile_time_us",
)
_MOST = 2**53
"""More isn't a number of anything, nor of microseconds."""


class CompileMetrics(Fact):
    """Torch's measurements of one compile; names are torch's (``CompilationMetrics``,
    ``torch/_dynamo/utils.py``, 2.11 to 2.15).
    """

    co_name: str | None = None
    """The code object's name; None if the frame was over its recompile limit."""
    co_filename: str | None = None
    co_firstlineno: int | None = None
    has_guarded_code: bool = False
    """True if torch has code for the frame."""
    guard_count: int | None = None
    graph_op_count: int | None = None
    fail_type: str | None = None
    """The exception's class name, without its module."""
    fail_reason: str | None = None
    fail_user_frame_filename: str | None = None
    fail_user_frame_lineno: int | None = None
    recompile_reason: str | None = None
    duration_us: float | None = None
    aot_autograd_cumulative_compile_time_us: float | None = None
    attempt: int | None = None


def read_metrics(value: Fields) -> CompileMetrics:
    """Read a record's JSON; what doesn't fit raises, so that one odd value costs one record."""
    # The rest is large: torch writes all its settings into each record.
    fields = {
        name: value[name] for name in field_types(CompileMetrics) if value.get(name) is not None
    }
    metrics = read_fact(CompileMetrics, fields)
    if not all(0 <= (getattr(metrics, name) or 0) < _MOST for name in _NUMBERS):
        raise ValueError("a number that can't be")
    return metrics


_UNKNOWN = "<unknown>"


@dataclass
class SeenCompile:
    """Facts known about a compile so far."""

    compile_id: str
    frame_id: int
    call_index: int | None
    is_extra: bool
    compiled_autograd_id: int | None = None
    is_started: bool = False
    stack: tuple[StackEntry, ...] = ()
    attempts: int = 1
    reasons: tuple[str, ...] = ()
    recompile: Fields | None = None
    caller: tuple[StackEntry, ...] = ()
    metrics: CompileMetrics | None = None
    is_metrics_unread: bool = False
    breaks: list[PrintedBreak] = field(default_factory=list)
    error: PrintedBreak | None = None
    error_type: str | None = None
    has_graph: bool = False
    backend_error: str | None = None

    @property
    def is_declined(self) -> bool:
        """Return whether the backend got the graph and raised ``SkipFrame``, so that torch skipped
        the frame.

        torch then claims guarded code without counts, as it does for a frame without operations
        (``torch/_dynamo/convert_frame.py``, 2.13, ``_compile_inner``); only the graph distinguishes
        the two.
        """
        metrics = self.metrics
        is_uncounted = metrics and metrics.has_guarded_code and metrics.guard_count is None
        return self.has_graph and bool(is_uncounted)

    @property
    def outcome(self) -> CompileOutcome:
        """Return its outcome."""
        metrics = self.metrics
        if metrics is None:
            return "unfinished" if self.error is None else "failed"
        if metrics.has_guarded_code:
            is_counted = metrics.guard_count is not None
            return "compiled" if is_counted else "skipped" if self.has_graph else "empty"
        if not self.is_started and metrics.co_name is None:
            return "limit"
        is_skipped = any(seen.record.effect == "frame_skipped" for seen in self.breaks)
        return "skipped" if is_skipped else "failed"


@dataclass
class SeenSplit:
    """The prints of a graph that ``DDPOptimizer`` split."""

    compile_id: str
    code: str
    parts: list[tuple[str, str]] = field(default_factory=list)


@dataclass
class SeenGraph:
    """A graph of Dynamo's: as torch printed it, then with what our record of it has, too."""

    graph: Graph
    attempt: int | None
    is_ours: bool = False


class Intake:
    """Keeps what records say, in the order of the log: ``_on_x``, or ``_of_x`` with their compile,
    for kind ``x``.
    """

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.origins = Origins(environment)
        self.strings: dict[int, str] = {}
        # Of the parent of a forked process, which goes on with its numbers.
        self.inherited: dict[int, str] = {}
        self.has_undefined = False
        self.files: dict[str, None] = {}
        # Thousands of compiles share their callers, so each stack entry is kept once.
        self._entries: dict[tuple[Any, ...], StackEntry] = {}
        self.calls: dict[int, Call] = {}
        self._call: int | None = None
        self._is_extra = False
        self.sources: dict[CodeAt, SourceContext] = {}
        self.generated: dict[str, str | None] = {}
        self.watched: dict[int, WatchedCalls] = defaultdict(WatchedCalls)
        self._begin()

    def _begin(self) -> None:
        self.compiles: dict[str, SeenCompile] = {}
        self.code_names: dict[int, tuple[str, str, int]] = {}
        self.breaks: list[PrintedBreak] = []
        self.graphs: list[SeenGraph] = []
        self.ddp_splits: list[SeenSplit] = []
        self.inductor_graphs: list[InductorGraph] = []
        self._last_stacked: PrintedBreak | None = None
        self.compile_calls: list[CompileCall] = []
        self.roots: dict[int, Root] = {}
        self.ignored_caches: list[IgnoredCache] = []
        self.tracing_branches: dict[tuple[str, int, str], TracingBranch] = {}
        self._wrapped: dict[int, set[Wrapped]] = defaultdict(set)
        self.evidence = Evidence(self._logged_entries)

    def after_reset(self) -> Intake:
        """Return the collector that takes the records of the same process from here on, when its
        compile ids count from 0 again.
        """
        later = copy(self)
        later._begin()
        return later

    def add(self, record: Record) -> None:
        """Take the next record; of one of another kind, only where it belongs is found out."""
        kind = record.kind
        record.call_index = self._call
        compile_ = self.compiles.get(record.compile_id or "")
        record.is_extra = self._is_extra if compile_ is None else compile_.is_extra
        if kind in Evidence.KINDS:
            if not record.is_extra:
                self.evidence.add(record)
        elif f"_on_{kind}" in vars(Intake):
            getattr(self, f"_on_{kind}")(record)
        elif kind in self.KINDS and (compile_ := self._compile_of(record)) is not None:
            getattr(self, f"_of_{kind}")(record, compile_)

    def _on_str(self, record: Record) -> None:
        text, key = record.value
        if not isinstance(text, str) or not isinstance(key, int):
            raise TypeError("a string and its number")
        if key == 0:
            # Only a process of its own numbers strings from 0.
            self.inherited = {}
        self.strings[key] = text
        self.files[text] = None
        self.origins.learn_from(text)

    def _logged_entries(self, stack: Sequence[Fields] | None) -> tuple[StackEntry, ...]:
        entries = []
        for line in stack or ():
            key = line.get("filename", -1)
            file = self.strings.get(key) or self.inherited.get(key)
            self.has_undefined |= file is None and key != -1
            entries.append(
                self.entry(file or _UNKNOWN, line["line"], line["name"], line.get("loc"))
            )
        return tuple(entries)

    def _on_torch_version(self, record: Record) -> None:
        if self.environment.torch is None and record.payload:
            version = record.json().get("pytorch_version")
            if not isinstance(version, str):
                raise TypeError("a version")
            self.environment = self.environment.replace(torch=version)

    def _of_dynamo_start(self, record: Record, compile_: SeenCompile) -> None:
        compile_.is_started = True
        entries = self._logged_entries(record.value.get("stack"))
        if not entries:
            return
        # The last entry is the frame itself, whose file is never ours.
        frame = entries[-1]
        above = tuple(entry for entry in without_probe(entries[:-1]) if entry.file != _UNKNOWN)
        compile_.stack = collapse_resumes((*above, frame))
        self.code_names.setdefault(compile_.frame_id, (frame.function, frame.file, frame.line))

    def _of_recompile_reasons(self, record: Record, compile_: SeenCompile) -> None:
        # It claims to be JSON, but a single reason is a bare string.
        reasons = record.payload
        if reasons is not None:
            with suppress(orjson.JSONDecodeError):
                reasons = orjson.loads(reasons)
            texts = map(str, reasons) if isinstance(reasons, list) else [str(reasons).strip()]
            compile_.reasons = tuple(texts)

    def _on_dynamo_graph_break_reason(self, record: Record) -> None:
        break_ = self._stacked(record, parse_break(record.payload or ""))
        if (compile_ := self._compile_of(record)) is not None:
            compile_.breaks.append(break_)
        if not record.is_extra:
            self.breaks.append(break_)

    def _on_dynamo_error(self, record: Record) -> None:
        error = self._stacked(record, parse_error(record.payload or ""))
        if (compile_ := self._compile_of(record)) is not None:
            compile_.error = error

    def _stacked(self, record: Record, break_: PrintedBreak) -> PrintedBreak:
        place = values_of(record, "compile_id", "attempt", "call_index")
        break_.record = break_.record.replace(**place)
        self._last_stacked = break_
        return break_

    def _on_dynamo_output_graph(self, record: Record) -> None:
        if (compile_ := self._compile_of(record)) is not None:
            compile_.has_graph = True
        if self._is_extra:
            return
        printed = self._last_printed(record)
        if printed is not None and (printed.attempt or 0) < (record.attempt or 0):
            # torch dropped the graph of an earlier attempt.
            self.graphs.pop()
        index = record.graph_index = len(self.graphs)
        graph = Graph(
            compile_id=record.compile_id or "?", index=index, op_count=None, code=record.payload
        )
        self.graphs.append(SeenGraph(graph, record.attempt))

    def _last_printed(self, record: Record) -> SeenGraph | None:
        """The last graph as torch printed it, if it's of the compile and ours didn't follow."""
        last = self.graphs[-1] if self.graphs else None
        is_same = last is not None and last.graph.compile_id == (record.compile_id or "?")
        return last if last is not None and is_same and not last.is_ours else None

    def _on_compilation_metrics(self, record: Record) -> None:
        metrics = record.json() if record.payload else record.value
        # A backward graph that is compiled later has its own metrics under the same compile id.
        if not isinstance(metrics, dict) or metrics.get("is_forward") is False:
            return
        compile_ = self._compile_of(record)
        if compile_ is None or (compile_.metrics and metrics.get("co_name") is None):
            return
        compile_.is_metrics_unread = True
        read = compile_.metrics = read_metrics(metrics)
        compile_.is_metrics_unread = False
        attempts = [number for number in (read.attempt, record.attempt) if number is not None]
        compile_.attempts = max(attempts, default=compile_.attempts - 1) + 1
        name = read.co_name
        file = read.co_filename
        line = read.co_firstlineno
        if not name or not file or line is None:
            return
        self.files[file] = None
        before = self.code_names.get(compile_.frame_id)
        if before is None or before[1] == _UNKNOWN or before[0] != name:
            self.code_names[compile_.frame_id] = name, file, line
        stack = compile_.stack
        if stack and stack[-1].at != (file, line):
            above = (entry for entry in stack if entry.file != _UNKNOWN)
            compile_.stack = collapse_resumes((*above, self.entry(file, line, name)))

    def _on_optimize_ddp_split_graph(self, record: Record) -> None:
        if record.compile_id is not None and not record.is_extra:
            self.ddp_splits.append(SeenSplit(record.compile_id, record.payload or ""))

    def _on_optimize_ddp_split_child(self, record: Record) -> None:
        if self.ddp_splits and self.ddp_splits[-1].compile_id == record.compile_id:
            self.ddp_splits[-1].parts.append((str(record.value.get("name")), record.payload or ""))

    def _on_graphdoctor_call(self, record: Record) -> None:
        value = record.json()
        index = value.get("index")
        is_start = value.get("event") == "start"
        is_call = is_start and not value.get("is_repeat")
        if index is not None and (is_call or index in self.calls):
            call = {} if is_start else vars(self.calls[index])
            names: tuple[str, ...] = ("index", "inputs")
            if not is_start:
                names = ("outcome", "duration_s", "error", "eager_because")
            more = {name: value[name] for name in names if name in value}
            self.calls[index] = read_fact(Call, call | more)
        self._call = index if is_start else None
        self._is_extra = is_start and index is None

    def _on_graphdoctor_compile_call(self, record: Record) -> None:
        self.compile_calls.append(read_fact(CompileCall, record.json()))

    def _on_graphdoctor_called(self, record: Record) -> None:
        value = record.json()
        self.watched[value["function"]].counts = value

    def _on_graphdoctor_watched_call(self, record: Record) -> None:
        value = record.json()
        self.watched[value["function"]].calls.append(value)

    def _of_graphdoctor_root(self, record: Record, compile_: SeenCompile) -> None:
        value = record.json()
        recorded = {"arguments": tuple(value["arguments"]), "place": self.entry(**value["place"])}
        self.roots[compile_.frame_id] = Root(**value | recorded)

    def _of_graphdoctor_cached(self, record: Record, compile_: SeenCompile) -> None:
        value = record.json()
        cache = IgnoredCache(
            function=value["function"],
            entry=self.entry(**value["place"]),
            compile_id=compile_.compile_id,
        )
        # Dynamo traces a frame anew once it knows where that breaks.
        if not record.is_extra and cache not in self.ignored_caches:
            self.ignored_caches.append(cache)

    def _on_graphdoctor_tracing_branch(self, record: Record) -> None:
        value = record.json()
        branch = TracingBranch(**value | {"location": self.entry(**value["location"])})
        # Written again when more of its condition is known.
        self.tracing_branches[(*branch.location.at, branch.text)] = branch

    def _of_graphdoctor_wrapped(self, record: Record, compile_: SeenCompile) -> None:
        value = record.json()
        names = value.get("arguments")
        place = value.get("place")
        qualname = value["qualname"]
        entry = place and self.entry(**place).replace(qualname=qualname)
        arguments = None if names is None else tuple(names)
        self._wrapped[compile_.frame_id].add(Wrapped(qualname, arguments, entry))

    def wrapped(self, frame_id: int) -> Wrapped | None:
        """Return what a frame of a decorator's function stands for; None if it isn't one, or if two
        modules share it.
        """
        modules = [*self._wrapped.get(frame_id, ())]
        return modules[0] if len(modules) == 1 else None

    def _on_graphdoctor_graph(self, record: Record) -> None:
        if self._is_extra:
            return
        value = record.json()
        if (compile_ := self._compile_of(record)) is not None:
            compile_.has_graph = True
            compile_.backend_error = value.get("backend_error")
        # torch's own record of the same graph is right before it, unless a backend is called again.
        fields: Fields = {"compile_id": record.compile_id or "?", "index": len(self.graphs)}
        if (printed := self._last_printed(record)) is not None:
            fields = values_of(printed.graph, "compile_id", "index", "code")
        index = record.graph_index = fields["index"]
        graph = read_fact(Graph, {"op_count": None, **value, **fields}, skips_unknown=True)
        self.graphs[index:] = [SeenGraph(graph, None, is_ours=True)]
        self.files |= {node.file: None for node in graph.nodes or () if node.file}

    def _of_graphdoctor_caller(self, record: Record, compile_: SeenCompile) -> None:
        if not compile_.stack:
            return
        above = (self.entry(**entry) for entry in record.json())
        frame = compile_.stack[-1]
        if compile_.frame_id in self.code_names:
            frame = frame.replace(function=self.code_names[compile_.frame_id][0])
        compile_.stack = collapse_resumes((*without_probe(above), frame))

    def _of_graphdoctor_recompile(self, record: Record, compile_: SeenCompile) -> None:
        value = record.json()
        compile_.recompile = value
        caller = (self.entry(**entry) for entry in value.get("caller") or ())
        compile_.caller = collapse_resumes(without_probe(caller))

    def _on_graphdoctor_stack(self, record: Record) -> None:
        value = record.json()
        last = self._last_stacked
        if last is None or last.record.compile_id != record.compile_id:
            return
        last.exact = tuple(self.entry(**entry) for entry in value.get("stack") or ())
        last.record = last.record.replace(raised_by=value.get("raised_by"))
        compile_ = self.compiles.get(record.compile_id or "")
        if compile_ is not None and compile_.error is last:
            compile_.error_type = value.get("type")

    def _on_graphdoctor_sources(self, record: Record) -> None:
        for value in record.json():
            context = read_fact(SourceContext, value, skips_unknown=True)
            self.sources[context.code] = context
            self.files[context.file] = None

    def _on_graphdoctor_generated(self, record: Record) -> None:
        value = record.json()
        self.generated[value["file"]] = value["maker"]

    def _on_graphdoctor_inductor_graph(self, record: Record) -> None:
        # Of the repetitions too: what they compile runs in the steady call.
        self.inductor_graphs.append(inductor_graph(record.json(), record.compile_id, self.place))

    KINDS = Evidence.KINDS | {name[4:] for name in vars() if name.startswith(("_on_", "_of_"))}

    def _compile_of(self, record: Record) -> SeenCompile | None:
        compile_id = record.compile_id
        frame_id = record.metadata.get("frame_id")
        if compile_id is None or frame_id is None:
            return None
        if type(frame_id) is not int or type(record.metadata.get("frame_compile_id")) is not int:
            raise TypeError("numbers of a frame and of its compile")
        if compile_id not in self.compiles:
            autograd = record.metadata.get("compiled_autograd_id")
            self.compiles[compile_id] = SeenCompile(
                compile_id,
                frame_id,
                self._call,
                self._is_extra,
                autograd if type(autograd) is int else None,
            )
        return self.compiles[compile_id]

    def source(self, file: str, line: int, function: str) -> SourceContext | None:
        """The source around a line of a function; None if it wasn't recorded."""
        return context_at(self.sources, file, line, function)

    def entry(
        self,
        file: str,
        line: int,
        function: str,
        text: str | None = None,
        **columns: Any,  # noqa: ANN401
    ) -> StackEntry:
        """A stack entry with its file's owner."""
        key = (file, line, function, text, *columns.items())
        if key not in self._entries:
            self.files[file] = None
            columns |= self.origins.named(file)
            fields = {"file": file, "line": line, "function": function, "text": text or None}
            self._entries[key] = read_fact(StackEntry, fields | columns)
        return self._entries[key]

    def place(self, file: str, line: int, function: str) -> StackEntry | None:
        """A stack entry for a place that torch printed; None if its file isn't in the log.

        torch shortens paths against its own folder, which can cut off a path's first letters
        (``torch/utils/_traceback.py``, 2.13); the whole path is among the files of the log.
        """
        if not Path(file).is_absolute():
            whole = next((path for path in self.files if path.endswith(file)), None)
            if whole is None:
                return None
            file = whole
        function, _ = resumed(function)
        context = self.source(file, line, function)
        if context is None:
            return self.entry(file, line, function)
        # A statement of several lines begins before this line.
        text = context.statement.splitlines()[0] if context.statement else None
        return self.entry(file, line, function, text, qualname=context.qualname)
