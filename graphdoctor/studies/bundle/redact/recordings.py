"""Redacts a recording: its facts and its files; its logs become logs that tlparse and our own reader can read.

Fields of records and events have names of torch's and ours, and their numbers stay. One table says what the text of
each field stands for, wherever the field is. Other texts, and kinds that aren't named, are left out: printed graphs,
generated code, guards, bytecode, source.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, get_args

import orjson

from graphdoctor.facts import counts, hints, kernels, profiled, recording, run, watch
from graphdoctor.facts.base import Fact, InvalidFactError
from graphdoctor.facts.reading import plain, read_fact
from graphdoctor.facts.wording import counted
from graphdoctor.probe.wire import EVENTS_FILE, META_FILE, TRACE_FOLDER
from graphdoctor.studies.bundle.redact import public
from graphdoctor.studies.bundle.redact.facts import Facts
from graphdoctor.studies.bundle.redact.public import SITE, STDLIB, Reader
from graphdoctor.studies.bundle.redact.vocabulary import LEFT_OUT, words
from graphdoctor.trace.events import read_events
from graphdoctor.trace.folder import read_object
from graphdoctor.trace.grammar import LogDamage, Record, read_records
from graphdoctor.trace.inductor_runtime import CACHE_RECORDS, plain_reason
from graphdoctor.trace.logs import logs_of
from graphdoctor.trace.processes import named_rank
from graphdoctor.trace.storage.log_file import local_log

_LOGS = f"recording/{TRACE_FOLDER}/"
_PLACE = "torch/_logging/structured.py:1"
"""Replaces the line that wrote a record, which can be in the program."""
_CONTEXT = ("frame_id", "frame_compile_id", "attempt", "compiled_autograd_id", "rank")
_NO_CODE = f"# {LEFT_OUT} left out by graphdoctor bundle --redact"
_ROOTS = {"torch_root": f"{SITE}/torch", "stdlib_root": STDLIB, "site_roots": [SITE]}
_ASKED = ("text", "kind", "file", "compile_arguments", "is_regional", "config", "call_options")
"""Fields of the target in ``recording.json``; what it turned out to be is in its event."""

_EVENTS = words(
    "process phase batch compile_switch gap settling guard_cost lane cuda_graphs call_failed error exited interrupted "
    "finished"
)
_RECORDS = CACHE_RECORDS.keys() | words(
    "graphdoctor_stack graphdoctor_call graphdoctor_called graphdoctor_watched_call graphdoctor_root graphdoctor_graph "
    "graphdoctor_generated graphdoctor_caller torch_version chromium_event compilation_metrics"
)
_WHOLE: Mapping[str, type[Fact]] = {
    "coverage": counts.Coverage,
    "steady_call": recording.SteadyCall,
    "kernels": kernels.KernelShare,
    "float32_precision": kernels.Float32Precision,
    "memory": profiled.MeasuredMemory,
    "graphdoctor_compile_call": recording.CompileCall,
    "graphdoctor_sources": recording.SourceContext,
}
"""Events and records that are facts."""
_PARTS: Mapping[str, type[Fact]] = {
    "tensors": recording.BatchedTensor,
    "error": recording.CallError,
    "inputs": recording.GraphInput,
    "nodes": recording.GraphNode,
}
"""Fields of others that are."""
_NESTED = words("args bill entries functions partitions place restart_reasons shape sizes skipped stack unwatched")
"""Fields that hold others."""
_FIXED = (
    words(
        "graph eager guards compile start end error ok unfinished hit miss bypass variation dynamo_graph_break_reason "
        "dynamo_error dynamo_timed B E i X M b e p t g"
    )
    | {
        word
        for kind in (run.Phase, run.CallPhase, kernels.ProfilePhase, watch.WatchOutcome, hints.HintCode)
        for word in get_args(kind)
    }
    | {*get_args(recording.SwitchKind), *get_args(recording.GapKind)}
)
"""Texts that name one of a few things."""
_FUNCTIONS = {"function": "file", "co_name": "co_filename"}
"""Names of functions, which stay if the file in another field is public."""


def _fixed(text: str) -> str | None:
    return text if text in _FIXED else None


class Redaction(Facts):
    """Redacts one recording, facts and files. A name has the same pseudonym in all of its parts."""

    def __init__(self, environment: recording.Environment, root: Path) -> None:
        super().__init__(environment, root)
        shown = self.shown
        self._interned: dict[int, str] = {}
        self._left_out = Counter[str]()
        self._readers: Mapping[str, Reader] = {
            **dict.fromkeys(("kind", "code", "event", "outcome", "of", "cache_state", "ph", "cat", "s"), _fixed),
            **dict.fromkeys(("message", "backend_error", "recompile_reason"), lambda _text: LEFT_OUT),
            **dict.fromkeys(("compiled", "class_name", "arguments", "maker"), shown.name),
            **dict.fromkeys(("placeholder", "mutated"), public.placeholder),
            **dict.fromkeys(("file", "co_filename", "fail_user_frame_filename"), shown.file),
            **dict.fromkeys(("type", "fail_type"), shown.exception),
            **dict.fromkeys(_FUNCTIONS, lambda _text: LEFT_OUT),
            "compile_id": public.compile_id,
            "phase": lambda text: _fixed(text) or public.phase(text),
            "value": public.switch,
            # torch's fixed words alone.
            "reason": lambda text: plain_reason(text) or LEFT_OUT,
            "source": shown.expression,
            "expression": lambda _text: "model",
            "name": public.event_name,
            "gb_type": shown.gb_type,
            "traceback": shown.traceback,
            "fail_reason": shown.break_text,
            "eager": shown.outcome,
            "dtype": public.dtype,
            "inputs": shown.values,
            "text": lambda _text: None,
            "backend": public.backend,
            "pytorch_version": public.version,
        }
        self._objects: Mapping[str, Callable[[Any], Any]] = {
            "segments": lambda rows: [self._segment(row) for row in rows],
            "eager_op_names": self._operations,
            "values": public.hint_values,
            "restart_reasons": self._restarts,
            **{name: partial(self._fact, kind) for name, kind in _PARTS.items()},
        }
        self._json: Mapping[str, Callable[[Any], Any]] = {
            **dict.fromkeys(_RECORDS, self._json_value),
            **{kind: partial(self._fact, known) for kind, known in _WHOLE.items()},
        }
        """What the JSON of a record becomes."""
        self._texts: Mapping[str, Callable[[str], str]] = {
            "dynamo_graph_break_reason": shown.break_text,
            "dynamo_error": shown.break_text,
            "dynamo_output_graph": lambda _payload: _NO_CODE,
            "recompile_reasons": self._reasons,
        }
        self._heads: Mapping[str, Callable[[Any], Any]] = {
            "str": self._file,
            "dynamo_start": lambda start: {"stack": [self._start_entry(line) for line in start.get("stack") or ()]},
            "compilation_metrics": self._fields,
        }
        """What becomes of records without a payload."""

    def _fields(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        shown = {name: self._json_value(value, name) for name, value in fields.items() if self._is_known(name, value)}
        for name, file in _FUNCTIONS.items():
            if isinstance(fields.get(name), str):
                shown[name] = self.shown.function(fields[name], str(fields.get(file)))
        return shown

    def _is_known(self, name: str, value: object) -> bool:
        if isinstance(value, (str, list, dict)):
            return name in self._readers or name in self._objects or name in _NESTED
        return name.isidentifier()

    def _json_value(self, value: object, name: str = "") -> Any:  # noqa: ANN401 - JSON
        if isinstance(value, str) and name in self._readers:
            return self._readers[name](value)
        if name in self._objects:
            return self._objects[name](value)
        if isinstance(value, list):
            return [self._json_value(item, name) for item in value]
        if isinstance(value, Mapping):
            return self._fields(value)
        return None if isinstance(value, str) else value

    def _fact(self, kind: type[Fact], value: object) -> Any:  # noqa: ANN401 - JSON
        """The fact, or a list of them, redacted; None of anything else."""
        if isinstance(value, list):
            return [self._fact(kind, item) for item in value]
        try:
            return plain(self.redacted(read_fact(kind, value, skips_unknown=True)))
        except InvalidFactError:
            return None

    def _segment(self, row: list[Any]) -> list[Any]:
        kind, start, end, what, count = row
        shown = self._operations(what) if kind == "eager" else self._json_value(what, "compile_id")
        return [_fixed(kind), *map(self._json_value, (start, end)), shown, self._json_value(count)]

    def _operations(self, names: Mapping[str, int]) -> dict[str, int]:
        found: Counter[str] = Counter()
        for name, count in names.items():
            found[self.shown.operation(name)] += int(count)
        return dict(found)

    def _restarts(self, reasons: Any) -> list[str]:  # noqa: ANN401 - a list, or its JSON
        many = orjson.loads(reasons) if isinstance(reasons, str) else reasons or ()
        return [self.shown.gb_type(str(reason).split("\n")[0].strip()) for reason in many]

    # Events.

    def events(self, events: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
        """The lines of ``probe.jsonl``. Kinds that aren't known are left out."""
        for event in events:
            kind = event["event"]
            found = self._event(kind, {key: value for key, value in event.items() if key != "event"})
            if found is not None:
                yield {"event": kind} | found

    def _event(self, kind: str, fields: Mapping[str, Any]) -> dict[str, Any] | None:
        if kind == "target":
            # What it doesn't say is in recording.json.
            return {key: value for key, value in self._target_json(fields).items() if key in fields}
        if kind == "environment":
            return (self._fact(recording.Environment, fields) or {}) | _ROOTS
        if kind == "config":
            known = {name: str(value) for name, value in fields["values"].items() if public.config_name(name)}
            return {"values": {name: public.printed_value(value) for name, value in known.items()}}
        if kind in _WHOLE:
            return self._fact(_WHOLE[kind], fields) or {}
        return self._fields(fields) if kind in _EVENTS else None

    def meta(self, meta: Mapping[str, Any]) -> dict[str, Any]:
        """The content of ``recording.json``."""
        target, ended = self._target_json(meta.get("target") or {}), meta.get("exit")
        return {
            "format": meta.get("format"),
            "target": {key: target[key] for key in _ASKED},
            "exit": ended and self._fact(run.ProbeExit, {"status": None, **ended}),
        }

    def _target_json(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = self._fact(recording.TargetInfo, fields) or plain(recording.TargetInfo())
        return found

    # Logs.

    def record(self, record: Record) -> tuple[dict[str, Any], str | None] | None:
        """The metadata of a record without ``has_payload``, and its payload; None if it is left out."""
        kind, payload = record.kind, None
        head: dict[str, Any] = {kind: {}}
        if kind in self._heads and not record.payload:
            head = {kind: self._heads[kind](record.value)}
        elif kind in self._texts:
            payload = self._texts[kind](record.payload or "")
        elif kind in self._json:
            payload = json.dumps(self._json[kind](orjson.loads(record.payload or "null")), ensure_ascii=False)
        else:
            return None
        if record.is_artifact:
            head = {"artifact": {"name": kind, "encoding": "json" if kind in self._json else "string"}}
        return head | {key: record.metadata[key] for key in _CONTEXT if type(record.metadata.get(key)) is int}, payload

    def _file(self, named: Any) -> list[object]:  # noqa: ANN401 - JSON
        path, number = named
        self._interned[int(number)] = str(path)
        return [self.shown.file(str(path)), int(number)]

    def _start_entry(self, line: Mapping[str, Any]) -> dict[str, Any]:
        file = self._interned.get(line["filename"], "<unknown>")
        name = self.shown.function(str(line["name"]), file)
        return {"line": self._json_value(line["line"]), "name": name, "filename": int(line["filename"]), "loc": ""}

    def _reasons(self, payload: str) -> str:
        """Which cache entries didn't match; how they differed is in diagnosis.json."""
        try:
            reasons = orjson.loads(payload or "[]")
        except orjson.JSONDecodeError:
            reasons = payload
        many = [reasons] if isinstance(reasons, str) else reasons
        shown = [f"{public.compile_id(str(reason).partition(':')[0].strip())}: {LEFT_OUT}" for reason in many]
        return shown[0] if isinstance(reasons, str) and shown else json.dumps(shown, ensure_ascii=False)

    def files(self, files: Iterable[tuple[str, Path]], notes: list[str]) -> Iterator[tuple[str, bytes]]:
        """The files by their names in the bundle, as far as they can be redacted; ``notes`` receives what can't."""
        numbers = itertools.count(1)
        for name, path in files:
            if name.startswith(_LOGS):
                file = local_log(path)
                for number, log in zip(numbers, logs_of(file) or [file], strict=False):
                    rank = named_rank(log)
                    ranked = "" if rank is None else f"rank_{rank}_"
                    with log.open() as lines:
                        yield f"{_LOGS}dedicated_log_torch_trace_{ranked}{number}.log", b"".join(self._log(lines))
            elif name.endswith(f"/{META_FILE}"):
                yield name, json.dumps(self.meta(read_object(path.read_bytes()))).encode()
            elif name.endswith(f"/{EVENTS_FILE}"):
                events = self.events(read_events(path.read_bytes()).all)
                yield name, b"".join(json.dumps(event).encode() + b"\n" for event in events)
        if records := self._left_out["records"]:
            notes.append(f"{counted(records, 'record')} of the trace logs that can't be redacted.")
        if lines_count := self._left_out["lines"]:
            notes.append(f"{counted(lines_count, 'line')} between records of the trace logs.")

    def _log(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        damage = LogDamage()
        self._interned.clear()
        for record in read_records(lines, lambda _kind: True, damage):
            try:
                redacted = self.record(record)
            except (ValueError, TypeError, LookupError, AttributeError):
                redacted = None  # damaged, or from a torch that writes it differently
            if redacted is None:
                self._left_out["records"] += 1
            else:
                yield _written(record, *redacted)
        # The program's own output.
        self._left_out.update(lines=damage.stray_lines, records=damage.broken_records)


def _written(record: Record, metadata: dict[str, object], payload: str | None) -> bytes:
    """The record in torch's format (``torch/_logging/_internal.py``, 2.13, ``trace_structured``)."""
    if payload is None:
        return f"{record.stamp} {_PLACE}] {json.dumps(metadata)}\n".encode()
    total = hashlib.md5(payload.encode(), usedforsecurity=False).hexdigest()
    lines = "".join(f"\t{line}\n" for line in payload.split("\n"))
    return f"{record.stamp} {_PLACE}] {json.dumps(metadata | {'has_payload': total})}\n{lines}".encode()
