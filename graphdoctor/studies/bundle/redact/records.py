"""Redacts records of torch's trace log.

Comes in: a record. Goes out: its metadata and its payload, or None for a record that is left out. The kinds below stay,
each with the keys in its table. Every other kind is left out: printed graphs, generated code, guards, bytecode, source.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, get_args

import orjson

from graphdoctor.facts.watch import UnwatchedReason, WatchOutcome
from graphdoctor.studies.bundle.redact import public
from graphdoctor.studies.bundle.redact.public import Public
from graphdoctor.studies.bundle.redact.shapes import Table, let_through, number, one_of, text
from graphdoctor.studies.bundle.redact.vocabulary import LEFT_OUT
from graphdoctor.trace.grammar import Record
from graphdoctor.trace.inductor_runtime import CACHE_RECORDS

Redacted = tuple[dict[str, Any], str | None]
"""Metadata without ``has_payload``, and the payload."""

_CONTEXT = ("frame_id", "frame_compile_id", "attempt", "compiled_autograd_id", "rank")
_OUTCOMES, _REASONS = get_args(WatchOutcome), get_args(UnwatchedReason)
_NO_CODE = f"# {LEFT_OUT} left out by graphdoctor bundle --redact"


class Records:
    """Redacts records.

    Args:
        shown: Reads values.
    """

    def __init__(self, shown: Public) -> None:
        self._shown = shown
        self._interned: dict[int, str] = {}
        entry = self._entry
        self._tables: Mapping[str, Table] = {
            "graphdoctor_caller": [entry],
            "graphdoctor_stack": {
                "of": one_of("dynamo_graph_break_reason", "dynamo_error"),
                "type": text(shown.exception),
                "gb_type": text(shown.gb_type),
                "stack": [entry],
            },
            **{kind: {"cache_state": one_of("hit", "miss", "bypass")} for kind in CACHE_RECORDS},
            "graphdoctor_call": _call_table(shown),
            "graphdoctor_compile_call": self._compile_call,
            "graphdoctor_called": self._called,
            "graphdoctor_watched_call": self._watched_call,
            "graphdoctor_root": self._root,
            "graphdoctor_sources": [self._source],
            "graphdoctor_graph": self._graph_table(),
            "graphdoctor_generated": {"file": text(shown.file), "maker": text(shown.name)},
            "torch_version": {"pytorch_version": text(public.version), "oss": number},
            "chromium_event": _event_table(),
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

    def redacted(self, record: Record) -> Redacted | None:
        """The redacted record; None if it is left out."""
        if handler := self._handlers.get(record.kind):
            metadata, payload = handler(record)
        elif (table := self._tables.get(record.kind)) is not None:
            value = let_through(orjson.loads(record.payload or "null"), table)
            metadata, payload = self._head(record, "json"), json.dumps(value, ensure_ascii=False)
        else:
            return None
        context = {key: record.metadata[key] for key in _CONTEXT if isinstance(record.metadata.get(key), int)}
        return metadata | context, payload

    @staticmethod
    def _head(record: Record, encoding: str) -> dict[str, Any]:
        if record.is_artifact:
            return {"artifact": {"name": record.kind, "encoding": encoding}}
        return {record.kind: {}}

    def _on_str(self, record: Record) -> Redacted:
        path, number_ = record.value
        self._interned[int(number_)] = str(path)
        return {"str": [self._shown.file(str(path)), int(number_)]}, None

    def _on_start(self, record: Record) -> Redacted:
        stack = [self._start_entry(line) for line in record.value.get("stack") or ()]
        return {"dynamo_start": {"stack": stack}}, None

    def _start_entry(self, line: Mapping[str, Any]) -> dict[str, Any]:
        file = self._interned.get(line["filename"], "<unknown>")
        return {
            "line": number(line["line"]),
            "name": self._shown.function(str(line["name"]), file),
            "filename": int(line["filename"]),
            "loc": "",
        }

    def _on_metrics(self, record: Record) -> Redacted:
        value = orjson.loads(record.payload) if record.payload else record.value
        shown = self._metrics(value)
        return (
            ({"compilation_metrics": {}}, json.dumps(shown))
            if record.payload
            else ({"compilation_metrics": shown}, None)
        )

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
            "recompile_reason": lambda _reason: LEFT_OUT,
            "fail_user_frame_filename": self._shown.file,
        }
        shown |= {key: reader(value[key]) for key, reader in readers.items() if isinstance(value.get(key), str)}
        restarts = value.get("restart_reasons")
        if isinstance(restarts, str):
            restarts = orjson.loads(restarts)
        shown["restart_reasons"] = [
            self._shown.gb_type(str(reason).split("\n")[0].strip()) for reason in restarts or ()
        ]
        return shown

    def _on_reasons(self, record: Record) -> Redacted:
        """Which cache entries didn't match; how they differed is in diagnosis.json."""
        try:
            reasons = orjson.loads(record.payload or "[]")
        except orjson.JSONDecodeError:
            reasons = record.payload
        many = [reasons] if isinstance(reasons, str) else reasons
        shown = [f"{public.compile_id(str(reason).partition(':')[0].strip())}: {LEFT_OUT}" for reason in many]
        payload = shown[0] if isinstance(reasons, str) and shown else json.dumps(shown, ensure_ascii=False)
        return self._head(record, "json"), payload

    def _on_text(self, record: Record) -> Redacted:
        return self._head(record, "string"), self._shown.break_text(record.payload or "")

    def _entry(self, value: Mapping[str, Any]) -> dict[str, Any]:
        file = str(value.get("file"))
        numbers = {key: number(value.get(key)) for key in ("line", "indent", "column", "end_column") if key in value}
        return {
            "file": self._shown.file(file),
            "function": self._shown.function(str(value.get("function")), file),
            "text": None,
        } | numbers

    def _compile_call(self, value: Mapping[str, Any]) -> dict[str, Any]:
        file = str(value.get("file"))
        return {
            "file": self._shown.file(file),
            "line": number(value.get("line")),
            "function": self._shown.function(str(value.get("function")), file),
            "compiled": self._shown.name(str(value.get("compiled"))),
            "arguments": {},
        }

    def _called(self, value: Mapping[str, Any]) -> dict[str, Any]:
        counts = ("function", "line", "calls", "last_compile", "compiling_calls", "is_deferred", "is_end")
        file, unwatched = value.get("file"), value.get("unwatched") or {}
        return {name: number(value.get(name)) for name in counts} | {
            "compiled": self._shown.name(str(value.get("compiled"))),
            "file": None if file is None else self._shown.file(str(file)),
            "unwatched": {reason: number(unwatched.get(reason)) for reason in _REASONS if reason in unwatched},
        }

    def _watched_call(self, value: Mapping[str, Any]) -> dict[str, Any]:
        counts = ("function", "call", "duration_us", "is_profiled", "cost_us", "graph_runs", "graph_ops", "eager_ops")
        kept: dict[str, Any] = {name: number(value[name]) for name in counts if name in value}
        outcome = value.get("outcome")
        kept["outcome"] = outcome if outcome in _OUTCOMES else None
        if "eager_op_names" in value:
            names = {self._shown.operation(name) or LEFT_OUT: count for name, count in value["eager_op_names"].items()}
            kept["eager_op_names"] = {name: number(count) for name, count in names.items()}
        return kept

    def _root(self, value: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "expression": "model",
            "class_name": self._shown.name(str(value.get("class_name"))),
            "arguments": [self._shown.name(str(name)) for name in value.get("arguments") or ()],
            "place": self._entry(value.get("place") or {}),
        }

    def _source(self, value: Mapping[str, Any]) -> dict[str, Any]:
        file = str(value.get("file"))
        kinds = one_of("for", "while", "try", "with", "if", "comprehension")
        enclosing = [item for item in value.get("enclosing") or () if kinds(item.get("kind"))]
        return {
            "file": self._shown.file(file),
            "line": number(value.get("line")),
            "qualname": self._shown.function(str(value.get("qualname")), file),
            "function_line": number(value.get("function_line")),
            "statement": LEFT_OUT,
            "statement_line": number(value.get("statement_line")),
            "statement_end_line": number(value.get("statement_end_line")),
            "readable": [],
            "torch": None,
            "enclosing": [
                {"kind": item["kind"], "line": number(item.get("line")), "text": LEFT_OUT} for item in enclosing
            ],
        }

    def _graph_table(self) -> Table:
        shown = self._shown
        graph_input = {
            "name": text(shown.name),
            "source": text(shown.expression),
            "kind": one_of("tensor", "symbol", "other"),
            "dtype": text(public.dtype),
            "shape": [lambda size: shown.size(str(size)) if isinstance(size, str) else number(size)],
            "device": text(public.device),
            "is_parameter": number,
        }
        return {
            "index": number,
            "backend": text(public.backend),
            "op_count": number,
            "tensor_op_count": number,
            "backend_s": number,
            "backend_error": lambda _error: LEFT_OUT,
            "inputs": [graph_input],
            "nodes": [self._node],
        }

    def _node(self, node: Mapping[str, Any]) -> dict[str, Any]:
        shown, opcode, file = self._shown, public.opcode(str(node.get("opcode"))), node.get("file")
        target = str(node.get("target"))
        return {
            "name": shown.name(str(node.get("name"))),
            "opcode": opcode,
            "target": shown.operation(target) if opcode in ("call_function", "call_method") else shown.name(target),
            "args": "",
            "kwargs": "",
            "value": let_through(node.get("value"), text(shown.shape)),
            "inputs": let_through(node.get("inputs"), [text(shown.name)]),
            "file": shown.file(file) if isinstance(file, str) else None,
            "line": number(node.get("line")),
            "module": let_through(node.get("module"), text(shown.expression)),
        }


def error_table(shown: Public) -> dict[str, Any]:
    """The table of an error in the program, in a record or an event."""
    return {
        "type": text(shown.exception),
        "message": lambda _message: LEFT_OUT,
        "traceback": lambda value: shown.traceback(value) if isinstance(value, str) else "",
        "eager": text(shown.outcome),
        "from_compiler": number,
    }


def _call_table(shown: Public) -> Table:
    return {
        "event": one_of("start", "end"),
        "index": number,
        "inputs": text(shown.values),
        "outcome": one_of("ok", "error", "unfinished"),
        "duration_s": number,
        "error": error_table(shown),
    }


def _event_table() -> Table:
    return {
        "name": text(public.event_name),
        "ts": number,
        "dur": number,
        "ph": one_of("B", "E", "i", "X", "M", "b", "e"),
        "cat": one_of("dynamo_timed"),
        "tid": number,
        "pid": number,
        "s": one_of("p", "t", "g"),
        "args": {
            "compile_id": text(public.compile_id),
            "cache_state": one_of("hit", "miss", "bypass"),
            "is_forward": number,
        },
    }
