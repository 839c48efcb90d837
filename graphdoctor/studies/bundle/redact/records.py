"""Redacts the JSON of a recording: records of torch's trace log, events of the probe, and ``recording.json``.

Every kind without a table is left out: printed graphs, generated code, guards, bytecode, source.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, get_args

import orjson

from graphdoctor.facts.base import Fact, InvalidFactError
from graphdoctor.facts.counts import Coverage
from graphdoctor.facts.hints import HintCode
from graphdoctor.facts.kernels import Float32Precision, KernelShare, ProfilePhase
from graphdoctor.facts.profiled import MeasuredMemory
from graphdoctor.facts.reading import plain, read_fact
from graphdoctor.facts.recording import (
    BatchedTensor,
    CallError,
    CompileCall,
    Environment,
    GapKind,
    GraphInput,
    GraphNode,
    SourceContext,
    SteadyCall,
    SwitchKind,
    TargetInfo,
)
from graphdoctor.facts.run import CallPhase, Phase, ProbeExit
from graphdoctor.facts.watch import UnwatchedReason, WatchOutcome
from graphdoctor.studies.bundle.redact import public
from graphdoctor.studies.bundle.redact.facts import Facts
from graphdoctor.studies.bundle.redact.public import SITE, STDLIB, Public
from graphdoctor.studies.bundle.redact.vocabulary import LEFT_OUT
from graphdoctor.trace.grammar import Record
from graphdoctor.trace.inductor_runtime import CACHE_RECORDS, plain_reason

Table = type[Fact] | Mapping[str, Any] | list[Any] | Callable[[Any], Any]

Redacted = tuple[dict[str, Any], str | None]
"""Metadata without ``has_payload``, and the payload."""

_CONTEXT = ("frame_id", "frame_compile_id", "attempt", "compiled_autograd_id", "rank")
_NO_CODE = f"# {LEFT_OUT} left out by graphdoctor bundle --redact"
_ASKED = ("text", "kind", "file", "compile_arguments", "is_regional", "config", "call_options")
"""Fields of the target in ``recording.json``; what it turned out to be is in its event."""


def _number(value: object) -> int | float | None:
    return value if isinstance(value, (bool, int, float)) else None


def _numbers(names: str) -> dict[str, Callable[[object], object]]:
    return dict.fromkeys(names.split(), _number)


def _text(reader: Callable[[str], str | None]) -> Callable[[object], str | None]:
    return lambda value: reader(value) if isinstance(value, str) else None


def _one_of(*words: str) -> Callable[[object], str | None]:
    return lambda value: value if isinstance(value, str) and value in words else None


def _left_out(_value: object) -> str:
    return LEFT_OUT


class Redactor:
    """Redacts JSON; ``shown`` reads values."""

    def __init__(self, shown: Public) -> None:
        self._shown = shown
        self._facts = Facts(shown)
        self._interned: dict[int, str] = {}
        self._events, self._records = self._event_tables(), self._record_tables()
        self._handlers: Mapping[str, Callable[[Record], Redacted]] = {
            "str": self._on_str,
            "dynamo_start": self._on_start,
            "dynamo_output_graph": lambda _record: ({"dynamo_output_graph": {"sizes": {}}}, _NO_CODE),
            "compilation_metrics": self._on_metrics,
            "recompile_reasons": self._on_reasons,
            "dynamo_graph_break_reason": self._on_text,
            "dynamo_error": self._on_text,
        }

    def let_through(self, value: object, table: Table) -> Any:  # noqa: ANN401 - JSON
        """The value without what the table doesn't have; None if it has another type."""
        if value is None:
            return None
        if isinstance(table, type):
            try:
                return plain(self._facts.redacted(read_fact(table, value, skips_unknown=True)))
            except InvalidFactError:
                return None
        if isinstance(table, list):
            return [self.let_through(item, table[0]) for item in value] if isinstance(value, list) else None
        if isinstance(table, Mapping):
            known = {key: value[key] for key in table if key in value} if isinstance(value, dict) else None
            return known and {key: self.let_through(item, table[key]) for key, item in known.items()}
        return table(value)

    # Events.

    def events(self, events: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
        """The lines of ``probe.jsonl``. Kinds without a table are left out."""
        for event in events:
            kind = event.get("event")
            fields = {key: value for key, value in event.items() if key != "event"}
            if kind == "target":
                # What it doesn't say is in recording.json.
                yield {"event": kind} | {key: value for key, value in self._target(fields).items() if key in event}
            elif kind == "environment":
                roots = {"torch_root": f"{SITE}/torch", "stdlib_root": STDLIB, "site_roots": [SITE]}
                yield {"event": kind} | (self.let_through(fields, Environment) or {}) | roots
            elif isinstance(kind, str) and kind in self._events:
                yield {"event": kind} | (self.let_through(fields, self._events[kind]) or {})

    def meta(self, meta: Mapping[str, Any]) -> dict[str, Any]:
        """The content of ``recording.json``."""
        target, ended = self._target(meta.get("target") or {}), meta.get("exit")
        return {
            "format": meta.get("format"),
            "target": {key: target[key] for key in _ASKED},
            "exit": ended and self.let_through({"status": None, **ended}, ProbeExit),
        }

    def _target(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        return self.let_through(fields, TargetInfo) or plain(TargetInfo())

    def _event_tables(self) -> Mapping[str, Table]:
        shown = self._shown
        compile_id, placeholder = _text(public.compile_id), _text(public.placeholder)
        # torch's fixed words alone.
        skip: Table = {"reason": _text(lambda reason: plain_reason(reason) or LEFT_OUT), "compile_id": compile_id}
        graph_input: Table = {"placeholder": placeholder, "shape": [_number], "bytes": _number}
        checked = "search_us search_low_us search_high_us check_us check_low_us check_high_us unbilled_count runs"
        bill: Table = {"source": _text(shown.expression), "check_us": _number}
        error = {
            "type": _text(shown.exception),
            "message": _left_out,
            "traceback": _text(shown.traceback),
            "eager": _text(shown.outcome),
            "from_compiler": _number,
        }
        return {
            "process": _numbers("pid"),
            "phase": {
                "phase": _text(public.phase),
                "kind": _one_of(*get_args(Phase), *get_args(CallPhase), "variation"),
            },
            "batch": {"tensors": [BatchedTensor]},
            "compile_switch": {
                "kind": _one_of(*get_args(SwitchKind)),
                "value": _text(public.switch),
                "call": _number,
            },
            "gap": {"kind": _one_of(*get_args(GapKind)), "message": _left_out},
            "config": {"values": _config},
            "settling": {"compiles": [_number], "is_over_limit": _number},
            "coverage": Coverage,
            "steady_call": SteadyCall,
            "guard_cost": {
                **_numbers("call_us call_low_us call_high_us call_count is_complete"),
                **_numbers("searches_us searches_low_us searches_high_us profiler_us"),
                "entries": [{"compile_id": compile_id, **_numbers(checked), "bill": [bill]}],
            },
            "lane": {
                **_numbers("call duration_us is_profiled hidden"),
                "segments": [self._segment],
            },
            "kernels": KernelShare,
            "float32_precision": Float32Precision,
            "memory": MeasuredMemory,
            "cuda_graphs": {
                **_numbers("has_device captured"),
                "skipped": [skip],
                "left_out": [skip],
                "partitions": [{"compile_id": compile_id, **_numbers("count recordable")}],
                "functions": [
                    {
                        "compile_id": compile_id,
                        "phase": _one_of(*get_args(ProfilePhase)),
                        "name": _text(public.partition),
                        **_numbers("sizes recordings rerecordings"),
                        "copied": [graph_input],
                        "moved": [graph_input],
                        "mutated": [placeholder],
                    }
                ],
            },
            "call_failed": {**error, **_numbers("index batch"), "dtype": _text(public.dtype)},
            "error": {**error, "code": _one_of(*get_args(HintCode)), "values": public.hint_values},
            "exited": {"status": _number, "traceback": _text(shown.traceback)},
            "interrupted": {},
            "finished": _numbers("is_complete peak_memory_bytes"),
        }

    def _segment(self, row: list[Any]) -> list[Any]:
        kind, start, end, *rest = row
        head = [_one_of("graph", "eager", "guards", "compile")(kind), _number(start), _number(end)]
        if kind == "eager":
            return [*head, self._operations(rest[0]), _number(rest[1])]
        return [*head, None if rest[0] is None else public.compile_id(str(rest[0])), _number(rest[1])]

    def _operations(self, names: Mapping[str, int]) -> dict[str, int]:
        counts: dict[str, int] = {}
        for name, count in names.items():
            operation = self._shown.operation(name)
            counts[operation] = counts.get(operation, 0) + int(count)
        return counts

    # Records.

    def record(self, record: Record) -> Redacted | None:
        """The redacted record; None if it is left out."""
        if handler := self._handlers.get(record.kind):
            metadata, payload = handler(record)
        elif (table := self._records.get(record.kind)) is not None:
            value = self.let_through(orjson.loads(record.payload or "null"), table)
            metadata, payload = _head(record, "json"), json.dumps(value, ensure_ascii=False)
        else:
            return None
        context = {key: record.metadata[key] for key in _CONTEXT if isinstance(record.metadata.get(key), int)}
        return metadata | context, payload

    def _record_tables(self) -> Mapping[str, Table]:
        shown, name = self._shown, _text(self._shown.name)
        cache_state = _one_of("hit", "miss", "bypass")
        return {
            "graphdoctor_caller": [self._entry],
            "graphdoctor_stack": {
                "of": _one_of("dynamo_graph_break_reason", "dynamo_error"),
                "type": _text(shown.exception),
                "gb_type": _text(shown.gb_type),
                "stack": [self._entry],
            },
            **{kind: {"cache_state": cache_state} for kind in CACHE_RECORDS},
            "graphdoctor_call": {
                "event": _one_of("start", "end"),
                "inputs": _text(shown.values),
                "outcome": _one_of("ok", "error", "unfinished"),
                **_numbers("index duration_s"),
                "error": CallError,
            },
            "graphdoctor_compile_call": CompileCall,
            "graphdoctor_called": {
                "compiled": name,
                "file": _text(shown.file),
                "unwatched": _numbers(" ".join(get_args(UnwatchedReason))),
                **_numbers("function line calls last_compile compiling_calls is_deferred is_end"),
            },
            "graphdoctor_watched_call": {
                "outcome": _one_of(*get_args(WatchOutcome)),
                **_numbers("function call duration_us is_profiled cost_us graph_runs graph_ops eager_ops"),
                "eager_op_names": self._operations,
            },
            "graphdoctor_root": {
                "expression": lambda _expression: "model",
                "class_name": name,
                "arguments": [name],
                "place": self._entry,
            },
            "graphdoctor_sources": [SourceContext],
            "graphdoctor_graph": {
                **_numbers("index op_count tensor_op_count backend_s"),
                "backend": _text(public.backend),
                "backend_error": _left_out,
                "inputs": [GraphInput],
                "nodes": [GraphNode],
            },
            "graphdoctor_generated": {"file": _text(shown.file), "maker": name},
            "torch_version": {"pytorch_version": _text(public.version), "oss": _number},
            "chromium_event": {
                "name": _text(public.event_name),
                **_numbers("ts dur tid pid"),
                "ph": _one_of("B", "E", "i", "X", "M", "b", "e"),
                "cat": _one_of("dynamo_timed"),
                "s": _one_of("p", "t", "g"),
                "args": {
                    "compile_id": _text(public.compile_id),
                    "cache_state": cache_state,
                    "is_forward": _number,
                },
            },
        }

    def _on_str(self, record: Record) -> Redacted:
        path, number = record.value
        self._interned[int(number)] = str(path)
        return {"str": [self._shown.file(str(path)), int(number)]}, None

    def _on_start(self, record: Record) -> Redacted:
        stack = [self._start_entry(line) for line in record.value.get("stack") or ()]
        return {"dynamo_start": {"stack": stack}}, None

    def _start_entry(self, line: Mapping[str, Any]) -> dict[str, Any]:
        file = self._interned.get(line["filename"], "<unknown>")
        name = self._shown.function(str(line["name"]), file)
        return {"line": _number(line["line"]), "name": name, "filename": int(line["filename"]), "loc": ""}

    def _on_metrics(self, record: Record) -> Redacted:
        value = orjson.loads(record.payload) if record.payload else record.value
        shown = self._metrics(value)
        if record.payload:
            return {"compilation_metrics": {}}, json.dumps(shown)
        return {"compilation_metrics": shown}, None

    def _metrics(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """Counts, times, and the text that the reader needs; torch's config dumps are left out."""
        shown: dict[str, Any] = {
            key: item for key, item in value.items() if item is None or isinstance(item, (bool, int, float))
        }
        file = value.get("co_filename")
        readers: Mapping[str, Callable[[str], str | None]] = {
            "compile_id": public.compile_id,
            "co_filename": self._shown.file,
            "co_name": lambda name: self._shown.function(name, str(file)),
            "fail_type": self._shown.exception,
            "fail_reason": self._shown.break_text,
            "recompile_reason": _left_out,
            "fail_user_frame_filename": self._shown.file,
        }
        shown |= {key: reader(value[key]) for key, reader in readers.items() if isinstance(value.get(key), str)}
        restarts = value.get("restart_reasons")
        if isinstance(restarts, str):
            restarts = orjson.loads(restarts)
        first_lines = (str(reason).split("\n")[0].strip() for reason in restarts or ())
        return shown | {"restart_reasons": [self._shown.gb_type(line) for line in first_lines]}

    def _on_reasons(self, record: Record) -> Redacted:
        """Which cache entries didn't match; how they differed is in diagnosis.json."""
        try:
            reasons = orjson.loads(record.payload or "[]")
        except orjson.JSONDecodeError:
            reasons = record.payload
        many = [reasons] if isinstance(reasons, str) else reasons
        shown = [f"{public.compile_id(str(reason).partition(':')[0].strip())}: {LEFT_OUT}" for reason in many]
        payload = shown[0] if isinstance(reasons, str) and shown else json.dumps(shown, ensure_ascii=False)
        return _head(record, "json"), payload

    def _on_text(self, record: Record) -> Redacted:
        return _head(record, "string"), self._shown.break_text(record.payload or "")

    def _entry(self, value: Mapping[str, Any]) -> dict[str, Any]:
        file = str(value.get("file"))
        numbers = {key: _number(value.get(key)) for key in ("line", "indent", "column", "end_column") if key in value}
        function = self._shown.function(str(value.get("function")), file)
        return {"file": self._shown.file(file), "function": function, "text": None} | numbers


def _head(record: Record, encoding: str) -> dict[str, Any]:
    if record.is_artifact:
        return {"artifact": {"name": record.kind, "encoding": encoding}}
    return {record.kind: {}}


def _config(values: Mapping[str, Any]) -> dict[str, str | None]:
    return {name: public.printed_value(str(value)) for name, value in values.items() if public.config_name(name)}
