"""Takes the records of a trace log one by one and keeps what every recording needs of them, by compile.

As seen on 2.13 (``torch/_dynamo/convert_frame.py``), ``dynamo_start`` begins a compile and ``compilation_metrics``
ends it. A frame over its recompile limit has metrics and no start. A frame that is dropped because it has no
operation has metrics that claim guarded code, without counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import orjson

from graphdoctor.facts.base import Fact
from graphdoctor.facts.profiled import InductorGraph
from graphdoctor.facts.reading import read_fact
from graphdoctor.facts.recording import Call, CompileCall, Environment, GraphInput, GraphNode, SourceContext
from graphdoctor.facts.stack import StackEntry
from graphdoctor.facts.watch import Steps
from graphdoctor.probe.wire import (
    CalledArtifact,
    RecompileArtifact,
    StackEntryRecord,
    WatchedCallArtifact,
)
from graphdoctor.trace.breaks import PrintedBreak, parse_break, parse_error
from graphdoctor.trace.ddp_splits import SeenSplit
from graphdoctor.trace.evidence import Evidence
from graphdoctor.trace.grammar import Record
from graphdoctor.trace.metrics import CompileMetrics, is_before_breaks, printed_reasons, read_metrics
from graphdoctor.trace.origin import RESUME_NAME, Origins, collapse_resumes, without_probe
from graphdoctor.trace.profiled import inductor_graph
from graphdoctor.trace.roots import Root

Handler = Callable[[Record], None]
_Fact = TypeVar("_Fact", bound=Fact)

_UNKNOWN = "<unknown>"
_COLUMNS = frozenset({"indent", "column", "end_column"})


@dataclass
class SeenCompile:
    """What is known about a compile so far."""

    compile_id: str
    frame_id: int
    call_index: int | None
    is_extra: bool
    compiled_autograd_id: int | None = None
    is_started: bool = False
    stack: tuple[StackEntry, ...] = ()
    attempts: int = 1
    reasons: tuple[str, ...] = ()
    recompile: RecompileArtifact | None = None
    caller: tuple[StackEntry, ...] = ()
    metrics: CompileMetrics | None = None
    is_metrics_unread: bool = False
    breaks: list[PrintedBreak] = field(default_factory=list)
    error: PrintedBreak | None = None
    error_type: str | None = None
    has_graph: bool = False
    backend_error: str | None = None


@dataclass
class SeenGraph:
    """A graph of Dynamo's."""

    compile_id: str | None
    code: str | None
    record: dict[str, Any] | None = None
    inputs: tuple[GraphInput, ...] | None = None
    nodes: tuple[GraphNode, ...] | None = None
    attempt: int | None = None

    def is_taken_back_by(self, record: Record) -> bool:
        """Whether another graph is of a later attempt at the same compile, so that torch dropped this one."""
        is_later = self.attempt is not None and record.attempt is not None and self.attempt < record.attempt
        return is_later and self.compile_id == record.compile_id and self.record is None


class Intake:
    """Keeps what a log's records say, in the order of the log."""

    is_older: bool
    """Whether a torch before 2.6 wrote the log, as its metrics show."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.is_older = False
        self.origins = Origins(environment)
        self._strings: dict[int, str] = {}
        self._inherited: dict[int, str] = {}
        # Thousands of compiles share their callers, so each stack entry is kept once.
        self._files: dict[str, None] = {}
        self._entries: dict[tuple[Any, ...], StackEntry] = {}
        self.compiles: dict[str, SeenCompile] = {}
        self.code_names: dict[int, tuple[str, str, int]] = {}
        self.breaks: list[PrintedBreak] = []
        self.graphs: list[SeenGraph] = []
        self.ddp_splits: list[SeenSplit] = []
        self.inductor_graphs: list[InductorGraph] = []
        self.calls: dict[int, Call] = {}
        self._call: int | None = None
        self._is_extra = False
        self._last_stacked: PrintedBreak | None = None
        self.sources: dict[tuple[str, int], SourceContext] = {}
        self.compile_calls: list[CompileCall] = []
        self.generated: dict[str, str | None] = {}
        self.roots: dict[int, Root] = {}
        self.called: dict[int, CalledArtifact] = {}
        self.watched_calls: list[WatchedCallArtifact] = []
        self.steps: Steps | None = None
        self.evidence = Evidence(self._logged_entries)
        self._handlers: Mapping[str, Handler] = {
            "str": self._on_str,
            "torch_version": self._on_torch_version,
            "dynamo_start": self._on_start,
            "recompile_reasons": self._on_recompile_reasons,
            "dynamo_graph_break_reason": self._on_break,
            "dynamo_error": self._on_error,
            "dynamo_output_graph": self._on_output_graph,
            "compilation_metrics": self._on_metrics,
            "optimize_ddp_split_graph": self._on_ddp_split,
            "optimize_ddp_split_child": self._on_ddp_part,
            **dict.fromkeys(Evidence.KINDS, self._on_evidence),
            "graphdoctor_call": self._on_call,
            "graphdoctor_compile_call": self._on_compile_call,
            "graphdoctor_root": self._on_root,
            "graphdoctor_graph": self._on_graph,
            "graphdoctor_caller": self._on_caller,
            "graphdoctor_recompile": self._on_recompile,
            "graphdoctor_stack": self._on_stack,
            "graphdoctor_sources": self._on_sources,
            "graphdoctor_generated": self._on_generated,
            "graphdoctor_called": self._on_called,
            "graphdoctor_watched_call": self._on_watched_call,
            "graphdoctor_steps": self._on_steps,
            "graphdoctor_inductor_graph": self._on_inductor_graph,
        }

    @property
    def call_index(self) -> int | None:
        """The user's current call; None outside the calls."""
        return self._call

    def has_started(self, compile_id: str | None) -> bool:
        """Whether a compile with this id has begun; another one with it comes after a ``torch._dynamo.reset()``."""
        return compile_id in self.compiles and self.compiles[compile_id].is_started

    def after_reset(self) -> Intake:
        """What takes the records of the same process from here on, when its compile ids count from 0 again."""
        later = Intake(self.environment)
        later.origins, later._strings, later.sources = self.origins, self._strings, self.sources
        later._inherited = self._inherited
        later._files, later._entries, later.generated = self._files, self._entries, self.generated
        later.called, later.watched_calls = self.called, self.watched_calls
        later.calls, later._call, later._is_extra = self.calls, self._call, self._is_extra
        return later

    def begin_after(self, parent: Intake) -> None:
        """Know the strings that a process had defined in the same log, as one that it forked does."""
        self._inherited = parent._inherited | parent._strings

    @property
    def kinds(self) -> frozenset[str]:
        """Records of which kinds are taken."""
        return frozenset(self._handlers)

    def is_extra(self, record: Record) -> bool:
        """Whether a record belongs to one of our repetitions."""
        compile_ = self.compiles.get(record.compile_id or "")
        return self._is_extra if compile_ is None else compile_.is_extra

    def files(self) -> set[str]:
        """Every file in the log."""
        nodes = (node.file for graph in self.graphs for node in graph.nodes or ())
        stacks = (entry.file for compile_ in self.compiles.values() for entry in compile_.stack)
        breaks = (entry.file for found in self.breaks for entry in found.exact)
        known = {file for file, _ in self.sources} | {file for _, file, _ in self.code_names.values()}
        return known.union(self._strings.values(), filter(None, nodes), stacks, breaks)

    def add(self, record: Record) -> None:
        """Take the next record; records of other kinds are skipped."""
        handler = self._handlers.get(record.kind)
        if handler is not None:
            handler(record)

    # Records of torch.

    def _on_str(self, record: Record) -> None:
        text, key = record.value
        if not isinstance(text, str) or not isinstance(key, int):
            raise TypeError("a string and its number")
        if key == 0:
            # Only a process of its own numbers strings from 0.
            self._inherited = {}
        self._strings[key] = text
        self._files[text] = None
        self.origins.learn_from(text)

    def _logged_entries(self, stack: Sequence[Mapping[str, Any]] | None) -> tuple[StackEntry, ...]:
        return tuple(
            self.entry(self._file_of(line), line["line"], line["name"], line.get("loc")) for line in stack or ()
        )

    def _file_of(self, line: Mapping[str, Any]) -> str:
        key: int = line.get("filename", -1)
        return self._strings.get(key) or self._inherited.get(key, _UNKNOWN)

    def _on_torch_version(self, record: Record) -> None:
        if self.environment.torch is None and record.payload:
            version = orjson.loads(record.payload).get("pytorch_version")
            if not isinstance(version, str):
                raise TypeError("a version")
            self.environment = self.environment.model_copy(update={"torch": version})

    def _on_start(self, record: Record) -> None:
        compile_ = self._compile_of(record)
        if compile_ is None:
            return
        compile_.is_started = True
        entries = self._logged_entries(record.value.get("stack"))
        if not entries:
            return
        # The last entry is the frame itself, whose file is never ours.
        frame = entries[-1]
        above = tuple(entry for entry in without_probe(entries[:-1]) if entry.file != _UNKNOWN)
        compile_.stack = collapse_resumes((*above, frame))
        self.code_names.setdefault(compile_.frame_id, (frame.function, frame.file, frame.line))

    def _on_recompile_reasons(self, record: Record) -> None:
        compile_ = self._compile_of(record)
        if compile_ is None or record.payload is None:
            return
        compile_.reasons = printed_reasons(record.payload)

    def _on_break(self, record: Record) -> None:
        found = self._stacked(record, parse_break(record.payload or ""))
        compile_ = self._compile_of(record)
        if compile_ is not None:
            compile_.breaks.append(found)
            if compile_.is_extra:
                return
        elif self._is_extra:
            return
        self.breaks.append(found)

    def _on_error(self, record: Record) -> None:
        error = self._stacked(record, parse_error(record.payload or ""))
        compile_ = self._compile_of(record)
        if compile_ is not None:
            compile_.error = error

    def _stacked(self, record: Record, found: PrintedBreak) -> PrintedBreak:
        found.compile_id, found.attempt, found.call_index = record.compile_id, record.attempt, self._call
        self._last_stacked = found
        return found

    def _on_output_graph(self, record: Record) -> None:
        compile_ = self._compile_of(record)
        if compile_ is not None:
            compile_.has_graph = True
        if self._is_extra:
            return
        last = self.graphs[-1] if self.graphs else None
        if last is not None and last.is_taken_back_by(record):
            self.graphs.pop()
        self.graphs.append(SeenGraph(record.compile_id, record.payload, attempt=record.attempt))

    def _on_metrics(self, record: Record) -> None:
        metrics = orjson.loads(record.payload) if record.payload else record.value
        # A backward graph that is compiled later has its own metrics under the same compile id.
        if not isinstance(metrics, dict) or metrics.get("is_forward") is False:
            return
        compile_ = self._compile_of(record)
        if compile_ is None or (compile_.metrics is not None and metrics.get("co_name") is None):
            return
        self.is_older |= is_before_breaks(metrics)
        compile_.is_metrics_unread = True
        found = compile_.metrics = read_metrics(metrics)
        compile_.is_metrics_unread = False
        if found.attempt is not None:
            compile_.attempts = found.attempt + 1
        if record.attempt is not None:
            compile_.attempts = max(compile_.attempts, record.attempt + 1)
        if found.co_name and found.co_filename and found.co_firstlineno is not None:
            self._name_frame(compile_, found.co_name, found.co_filename, found.co_firstlineno)

    def _name_frame(self, compile_: SeenCompile, name: str, file: str, line: int) -> None:
        """Name a frame as its metrics do, where its start doesn't."""
        known = self.code_names.get(compile_.frame_id)
        if known is None or known[1] == _UNKNOWN or known[0] != name:
            self.code_names[compile_.frame_id] = name, file, line
        last = compile_.stack[-1] if compile_.stack else None
        if last is not None and (last.file, last.line) != (file, line):
            above = (entry for entry in compile_.stack if entry.file != _UNKNOWN)
            compile_.stack = collapse_resumes((*above, self.entry(file, line, name, None)))

    def _on_ddp_split(self, record: Record) -> None:
        if record.compile_id is not None and not self.is_extra(record):
            self.ddp_splits.append(SeenSplit(record.compile_id, record.payload or ""))

    def _on_ddp_part(self, record: Record) -> None:
        if self.ddp_splits and self.ddp_splits[-1].compile_id == record.compile_id:
            self.ddp_splits[-1].parts.append((str(record.value.get("name")), record.payload or ""))

    def _on_evidence(self, record: Record) -> None:
        if not self.is_extra(record):
            self.evidence.add(record)

    # Records of ours.

    def _on_call(self, record: Record) -> None:
        value = orjson.loads(record.payload or "{}")
        index = value.get("index")
        if value.get("event") == "start":
            if index is not None:
                self.calls[index] = read_fact(Call, {"index": index, "inputs": value.get("inputs")})
            self._call, self._is_extra = index, index is None
        else:
            if index in self.calls:
                outcome = {key: value[key] for key in ("outcome", "duration_s", "error") if key in value}
                self.calls[index] = read_fact(Call, vars(self.calls[index]) | outcome)
            self._call, self._is_extra = None, False

    def _on_compile_call(self, record: Record) -> None:
        self.compile_calls.append(read_fact(CompileCall, orjson.loads(record.payload or "{}")))

    def _on_called(self, record: Record) -> None:
        value: CalledArtifact = orjson.loads(record.payload or "{}")
        self.called[value["function"]] = value

    def _on_watched_call(self, record: Record) -> None:
        value: WatchedCallArtifact = orjson.loads(record.payload or "{}")
        self.watched_calls.append(value)

    def _on_steps(self, record: Record) -> None:
        self.steps = read_fact(Steps, orjson.loads(record.payload or "{}"))

    def _on_root(self, record: Record) -> None:
        compile_ = self._compile_of(record)
        if compile_ is not None:
            value = orjson.loads(record.payload or "{}")
            place = self._recorded_entry(value["place"])
            self.roots[compile_.frame_id] = Root(
                value["expression"], value["class_name"], tuple(value["arguments"]), place, value.get("container")
            )

    def _on_graph(self, record: Record) -> None:
        if self._is_extra:
            return
        value = orjson.loads(record.payload or "{}")
        compile_ = self._compile_of(record)
        if compile_ is not None:
            compile_.has_graph = True
            compile_.backend_error = value.get("backend_error")
        # torch's own record of the same graph is right before it, unless a backend is called again.
        last = self.graphs[-1] if self.graphs else None
        is_same = last is not None and last.compile_id == record.compile_id and last.record is None
        seen = SeenGraph(
            record.compile_id,
            code=last.code if last is not None and is_same else None,
            record=value,
            inputs=_validated(GraphInput, value.get("inputs")),
            nodes=_validated(GraphNode, value.get("nodes")),
        )
        self.graphs[len(self.graphs) - is_same :] = [seen]

    def _on_caller(self, record: Record) -> None:
        compile_ = self._compile_of(record)
        if compile_ is None or not compile_.stack:
            return
        above = tuple(self._recorded_entry(entry) for entry in orjson.loads(record.payload or "[]"))
        frame = compile_.stack[-1]
        if compile_.frame_id in self.code_names:
            frame = frame.model_copy(update={"function": self.code_names[compile_.frame_id][0]})
        compile_.stack = collapse_resumes((*without_probe(above), frame))

    def _on_recompile(self, record: Record) -> None:
        compile_ = self._compile_of(record)
        if compile_ is not None:
            value: RecompileArtifact = orjson.loads(record.payload or "{}")
            compile_.recompile = value
            caller = (self._recorded_entry(entry) for entry in value.get("caller") or ())
            compile_.caller = collapse_resumes(without_probe(caller))

    def _on_stack(self, record: Record) -> None:
        value = orjson.loads(record.payload or "{}")
        last = self._last_stacked
        if last is None or last.compile_id != record.compile_id:
            return
        last.exact = tuple(self._recorded_entry(entry) for entry in value.get("stack") or ())
        compile_ = self.compiles.get(record.compile_id or "")
        if compile_ is not None and compile_.error is last:
            compile_.error_type = value.get("type")

    def _on_sources(self, record: Record) -> None:
        for value in orjson.loads(record.payload or "[]"):
            context = read_fact(SourceContext, value)
            self.sources[context.file, context.line] = context
            self._files[context.file] = None

    def _on_generated(self, record: Record) -> None:
        value = orjson.loads(record.payload or "{}")
        self.generated[value["file"]] = value["maker"]

    def _on_inductor_graph(self, record: Record) -> None:
        # Of the repetitions too: what they compile runs in the steady call.
        value = orjson.loads(record.payload or "{}")
        self.inductor_graphs.append(inductor_graph(value, record.compile_id, self))

    def _compile_of(self, record: Record) -> SeenCompile | None:
        compile_id, frame_id = record.compile_id, record.metadata.get("frame_id")
        if compile_id is None or frame_id is None:
            return None
        if type(frame_id) is not int or type(record.metadata.get("frame_compile_id")) is not int:
            raise TypeError("numbers of a frame and of its compile")
        if compile_id not in self.compiles:
            backward = record.metadata.get("compiled_autograd_id")
            self.compiles[compile_id] = SeenCompile(
                compile_id, frame_id, self._call, self._is_extra, backward if type(backward) is int else None
            )
        return self.compiles[compile_id]

    def entry(self, file: str, line: int, function: str, text: str | None, **columns: Any) -> StackEntry:  # noqa: ANN401
        """A stack entry with its file's owner."""
        key = (file, line, function, text, *columns.items())
        if key not in self._entries:
            self._entries[key] = self._new_entry(file, line, function, text, **columns)
        return self._entries[key]

    def _new_entry(self, file: str, line: int, function: str, text: str | None, **columns: Any) -> StackEntry:  # noqa: ANN401
        origin, package = self.origins.of(file)
        known = {"file": file, "line": line, "function": function, "text": text or None}
        return read_fact(StackEntry, {**known, "origin": origin, "package": package, **columns})

    def place(self, file: str, line: int, function: str) -> StackEntry | None:
        """A stack entry for a place that torch printed; None if its file isn't in the log.

        torch shortens paths against its own folder, which can cut off a path's first letters
        (``torch/utils/_traceback.py``, 2.13); the whole path is among the files of the log.
        """
        if not Path(file).is_absolute():
            whole = next((known for known in self._files if known.endswith(file)), None)
            if whole is None:
                return None
            file = whole
        if (resume := RESUME_NAME.match(function)) is not None:
            function = resume[1]
        context = self.sources.get((file, line))
        if context is None:
            return self.entry(file, line, function, None)
        # A statement of several lines begins before this line.
        text = context.statement.splitlines()[0] if context.statement else None
        return self.entry(file, line, function, text, qualname=context.qualname)

    def _recorded_entry(self, entry: StackEntryRecord) -> StackEntry:
        columns = {key: value for key, value in entry.items() if key in _COLUMNS}
        return self.entry(entry["file"], entry["line"], entry["function"], entry.get("text"), **columns)


def _validated(model: type[_Fact], items: Iterable[Mapping[str, object]] | None) -> tuple[_Fact, ...] | None:
    return None if items is None else tuple(read_fact(model, item) for item in items)
