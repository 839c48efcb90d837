"""Redacts the JSON of a recording: records of torch's trace log, events of the probe, and ``recording.json``.

One table says what each field's name stands for, in every event and record; a field or a kind that it doesn't have is
left out: printed graphs, generated code, guards, bytecode, source.
"""

from __future__ import annotations

import json
from collections import Counter
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
from graphdoctor.studies.bundle.redact.vocabulary import LEFT_OUT, words
from graphdoctor.trace.grammar import Record
from graphdoctor.trace.inductor_runtime import CACHE_RECORDS, plain_reason

Redacted = tuple[dict[str, Any], str | None]
"""Metadata without ``has_payload``, and the payload."""

_CONTEXT = ("frame_id", "frame_compile_id", "attempt", "compiled_autograd_id", "rank")
_NO_CODE = f"# {LEFT_OUT} left out by graphdoctor bundle --redact"
_ASKED = ("text", "kind", "file", "compile_arguments", "is_regional", "config", "call_options")
"""Fields of the target in ``recording.json``; what it turned out to be is in its event."""

_EVENTS = words(
    "process phase batch compile_switch gap settling guard_cost lane cuda_graphs call_failed exited interrupted "
    "finished"
)
_RECORDS = CACHE_RECORDS.keys() | words(
    "graphdoctor_stack graphdoctor_call graphdoctor_called graphdoctor_watched_call graphdoctor_root graphdoctor_graph "
    "graphdoctor_generated torch_version chromium_event"
)
_WHOLE: Mapping[str, type[Fact]] = {
    "coverage": Coverage,
    "steady_call": SteadyCall,
    "kernels": KernelShare,
    "float32_precision": Float32Precision,
    "memory": MeasuredMemory,
    "graphdoctor_compile_call": CompileCall,
    "graphdoctor_sources": SourceContext,
}
"""Events and records that are facts."""
_PARTS: Mapping[str, type[Fact]] = {
    "tensors": BatchedTensor,
    "error": CallError,
    "inputs": GraphInput,
    "nodes": GraphNode,
}
"""Fields of others that are."""
_PLAIN = words(
    "args bill bytes call call_count call_high_us call_low_us call_us calls captured check_high_us check_low_us "
    "check_us compiles compiling_calls copied cost_us count dur duration_s duration_us eager_ops entries from_compiler "
    "functions graph_ops graph_runs has_device hidden index is_complete is_deferred is_end is_forward is_over_limit "
    "is_profiled last_compile left_out line moved op_count oss partitions peak_memory_bytes pid profiler_us recordable "
    "recordings rerecordings runs search_high_us search_low_us search_us searches_high_us searches_low_us searches_us "
    "shape sizes skipped status tensor_op_count tid ts unbilled_count unwatched backend_s"
) | frozenset(get_args(UnwatchedReason))
"""Fields without text of their own."""
_FIXED = words(
    "graph eager guards compile start end error ok unfinished hit miss bypass variation dynamo_graph_break_reason "
    "dynamo_error dynamo_timed B E i X M b e p t g"
) | {
    *(word for kind in (Phase, CallPhase, ProfilePhase, SwitchKind, GapKind, HintCode) for word in get_args(kind)),
    *get_args(WatchOutcome),
}
"""Texts that name one of a few things."""


def _fixed(text: str) -> str | None:
    return text if text in _FIXED else None


class Redactor:
    """Redacts JSON; ``shown`` reads values."""

    def __init__(self, shown: Public) -> None:
        self._shown = shown
        self._facts = Facts(shown)
        self._interned: dict[int, str] = {}
        self._readers: Mapping[str, Callable[[str], str | None]] = {
            **dict.fromkeys(("kind", "code", "event", "outcome", "of", "cache_state", "ph", "cat", "s"), _fixed),
            **dict.fromkeys(("message", "backend_error"), lambda _text: LEFT_OUT),
            **dict.fromkeys(("compiled", "class_name", "arguments", "maker"), shown.name),
            **dict.fromkeys(("placeholder", "mutated"), public.placeholder),
            "compile_id": public.compile_id,
            "phase": lambda text: _fixed(text) or public.phase(text),
            "value": public.switch,
            # torch's fixed words alone.
            "reason": lambda text: plain_reason(text) or LEFT_OUT,
            "source": shown.expression,
            "expression": lambda _text: "model",
            "name": public.event_name,
            "type": shown.exception,
            "gb_type": shown.gb_type,
            "traceback": shown.traceback,
            "eager": shown.outcome,
            "dtype": public.dtype,
            "inputs": shown.values,
            "file": shown.file,
            "backend": public.backend,
            "pytorch_version": public.version,
        }
        self._special: Mapping[str, Callable[[Any], Any]] = {
            "segments": lambda rows: [self._segment(row) for row in rows],
            "eager_op_names": self._operations,
            "stack": lambda entries: [self._entry(entry) for entry in entries],
            "place": self._entry,
        }
        self._handlers: Mapping[str, Callable[[Record], Redacted]] = {
            "str": self._on_str,
            "dynamo_start": self._on_start,
            "dynamo_output_graph": lambda _record: ({"dynamo_output_graph": {"sizes": {}}}, _NO_CODE),
            "compilation_metrics": self._on_metrics,
            "recompile_reasons": self._on_reasons,
            "dynamo_graph_break_reason": self._on_text,
            "dynamo_error": self._on_text,
        }

    def _fields(self, fields: object) -> dict[str, Any] | None:
        """The fields whose names are known, with what is public of their values."""
        if not isinstance(fields, Mapping):
            return None
        known = _PLAIN | _PARTS.keys() | self._readers.keys() | self._special.keys()
        return {name: self._value(name, value) for name, value in fields.items() if name in known}

    def _value(self, name: str, value: object) -> Any:  # noqa: ANN401 - JSON
        if value is None or isinstance(value, (bool, int, float)):
            return value
        if isinstance(value, str):
            return self._readers[name](value) if name in self._readers else None
        if name in self._special:
            return self._special[name](value)
        if isinstance(value, list):
            return [self._value(name, item) for item in value]
        return self._fact(value, _PARTS[name]) if name in _PARTS else self._fields(value)

    def _fact(self, value: object, kind: type[Fact]) -> Any:  # noqa: ANN401 - JSON
        """The fact, or a list of them, redacted; None of anything else."""
        if isinstance(value, list):
            return [self._fact(item, kind) for item in value]
        try:
            return plain(self._facts.redacted(read_fact(kind, value, skips_unknown=True)))
        except InvalidFactError:
            return None

    # Events.

    def events(self, events: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
        """The lines of ``probe.jsonl``. Kinds that aren't known are left out."""
        for event in events:
            kind = event["event"]
            fields = {key: value for key, value in event.items() if key != "event"}
            found: dict[str, Any] | None = None
            if kind == "target":
                # What it doesn't say is in recording.json.
                found = {key: value for key, value in self._target(fields).items() if key in event}
            elif kind == "environment":
                roots = {"torch_root": f"{SITE}/torch", "stdlib_root": STDLIB, "site_roots": [SITE]}
                found = (self._fact(fields, Environment) or {}) | roots
            elif kind == "config":
                known = {name: value for name, value in fields["values"].items() if public.config_name(name)}
                found = {"values": {name: public.printed_value(str(value)) for name, value in known.items()}}
            elif kind == "error":
                found = (self._fields(fields) or {}) | {"values": public.hint_values(fields.get("values"))}
            elif kind in _WHOLE:
                found = self._fact(fields, _WHOLE[kind]) or {}
            elif kind in _EVENTS:
                found = self._fields(fields)
            if found is not None:
                yield {"event": kind} | found

    def meta(self, meta: Mapping[str, Any]) -> dict[str, Any]:
        """The content of ``recording.json``."""
        target, ended = self._target(meta.get("target") or {}), meta.get("exit")
        return {
            "format": meta.get("format"),
            "target": {key: target[key] for key in _ASKED},
            "exit": ended and self._fact({"status": None, **ended}, ProbeExit),
        }

    def _target(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        return self._fact(fields, TargetInfo) or plain(TargetInfo())

    def _segment(self, row: list[Any]) -> list[Any]:
        kind, start, end, *rest = row
        head = [_fixed(kind), self._value("ts", start), self._value("ts", end)]
        if kind == "eager":
            return [*head, self._operations(rest[0]), self._value("count", rest[1])]
        return [*head, self._value("compile_id", rest[0]), self._value("count", rest[1])]

    def _operations(self, names: Mapping[str, int]) -> dict[str, int]:
        counts: Counter[str] = Counter()
        for name, count in names.items():
            counts[self._shown.operation(name)] += int(count)
        return dict(counts)

    # Records.

    def record(self, record: Record) -> Redacted | None:
        """The redacted record; None if it is left out."""
        if handler := self._handlers.get(record.kind):
            metadata, payload = handler(record)
        elif record.kind in _RECORDS or record.kind in _WHOLE or record.kind == "graphdoctor_caller":
            metadata, payload = _head(record, "json"), json.dumps(self._payload(record), ensure_ascii=False)
        else:
            return None
        context = {key: record.metadata[key] for key in _CONTEXT if isinstance(record.metadata.get(key), int)}
        return metadata | context, payload

    def _payload(self, record: Record) -> object:
        value = orjson.loads(record.payload or "null")
        if record.kind == "graphdoctor_caller":
            return self._value("stack", value)
        return self._fact(value, _WHOLE[record.kind]) if record.kind in _WHOLE else self._fields(value)

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
        return {"line": self._value("line", line["line"]), "name": name, "filename": int(line["filename"]), "loc": ""}

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
            "recompile_reason": lambda _text: LEFT_OUT,
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
        numbers = {
            key: self._value(key, value[key]) for key in ("line", "indent", "column", "end_column") if key in value
        }
        function = self._shown.function(str(value.get("function")), file)
        return {"file": self._shown.file(file), "function": function, "text": None} | numbers


def _head(record: Record, encoding: str) -> dict[str, Any]:
    if record.is_artifact:
        return {"artifact": {"name": record.kind, "encoding": encoding}}
    return {record.kind: {}}
