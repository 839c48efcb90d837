"""Redacts a recording: its facts and its files; its logs become logs that tlparse and our own
reader can read.

Numbers, flags and literals of facts stay. Text stays only if its type is marked as one that may be
shown (``facts/shared.py``) and the reader of that kind lets it through, so a new field is left out.

Fields of records and events have names of torch's and ours, and their numbers stay. One table says
what the text of each field stands for, wherever the field is. Other texts, and kinds that aren't
named, are left out: printed graphs, generated code, guards, bytecode, source.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import orjson

from graphdoctor.facts import counts, kernels, profiled, recording, run
from graphdoctor.facts.base import Fact, InvalidFactError, field_types, shared_kinds
from graphdoctor.facts.diagnosis import Finding
from graphdoctor.facts.fixes import Treatment
from graphdoctor.facts.guards import GuardChange
from graphdoctor.facts.picture import GeneratedCode, SourceText, StageNode
from graphdoctor.facts.reading import plain, read_fact
from graphdoctor.facts.recording import BreakReason, GraphNode, TargetInfo
from graphdoctor.facts.trials import WhatIf
from graphdoctor.facts.variations import Variation
from graphdoctor.facts.wording import counted
from graphdoctor.probe.wire import EVENTS_FILE, META_FILE
from graphdoctor.rules.catalog import ALL_RULES
from graphdoctor.studies.bundle.logs import LOGS, plain_logs
from graphdoctor.studies.bundle.redact import public
from graphdoctor.studies.bundle.redact.public import SITE, STDLIB, Public, Reader
from graphdoctor.studies.bundle.redact.vocabulary import KNOWN, LEFT_OUT
from graphdoctor.trace.events import read_events
from graphdoctor.trace.folder import read_object
from graphdoctor.trace.grammar import LogDamage, Record, read_records
from graphdoctor.trace.inductor_runtime import CACHE_RECORDS, plain_reason

_Model = TypeVar("_Model", bound=Fact)

_LEFT_OUT_WHOLE = (WhatIf, Treatment, Variation, SourceText, GeneratedCode)
"""Facts that mostly hold source or values."""
_PUBLIC_CHANGES = frozenset(
    {
        "training",
        "grad_mode",
        "inference_mode",
        "default_dtype",
        "requires_grad",
        "dtype",
        "size",
        "rank",
        "stride",
    }
)
"""Kinds of changes whose old and new values are sizes, dtypes or torch modes."""
_CHANGED_MODES = frozenset({"train mode", "eval mode", "on", "off", "True", "False"})

_PLACE = "torch/_logging/structured.py:1"
"""Replaces the line that wrote a record, which can be in the program."""
_CONTEXT = ("frame_id", "frame_compile_id", "attempt", "compiled_autograd_id", "rank")
_NO_CODE = f"# {LEFT_OUT} left out by graphdoctor bundle --redact"
_ROOTS = {"torch_root": f"{SITE}/torch", "stdlib_root": STDLIB, "site_roots": [SITE]}
_ASKED = ("text", "kind", "file", "compile_arguments", "is_regional", "config", "call_options")
"""Fields of the target in ``recording.json``; what it turned out to be is in its event."""

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
_FUNCTIONS = {"function": "file", "co_name": "co_filename"}
"""Names of functions, which stay if the file in another field is public."""


class Redaction:
    """Redacts one recording, facts and files. A name has the same pseudonym in all of its parts.

    ``root`` is the folder that a diagnosis' paths are relative to.
    """

    def __init__(self, environment: recording.Environment, root: Path) -> None:
        self.shown = shown = Public(environment, root)
        self._special: Mapping[type[Fact], Callable[[Any], dict[str, object]]] = {
            TargetInfo: self._target,
            GuardChange: _change,
            Finding: self._finding,
            BreakReason: self._reason,
            GraphNode: lambda node: {**self._node(node), "args": "", "kwargs": ""},
            StageNode: self._node,
        }
        self._interned: dict[int, str] = {}
        self._left_out = Counter[str]()
        self._readers: Mapping[str, Reader] = {
            **dict.fromkeys(
                ("kind", "code", "event", "outcome", "of", "cache_state", "ph", "cat", "s"),
                public.fixed,
            ),
            **dict.fromkeys(
                ("message", "backend_error", "recompile_reason"), lambda _text: LEFT_OUT
            ),
            **dict.fromkeys(("compiled", "class_name", "arguments", "maker"), shown.name),
            **dict.fromkeys(("placeholder", "mutated"), public.placeholder),
            **dict.fromkeys(("file", "co_filename", "fail_user_frame_filename"), shown.file),
            **dict.fromkeys(("type", "fail_type"), shown.exception),
            **dict.fromkeys(_FUNCTIONS, lambda _text: LEFT_OUT),
            "compile_id": public.compile_id,
            "phase": lambda text: public.fixed(text) or public.phase(text),
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
            "eager_op_names": partial(_of_counts, reader=shown.operation),
            "values": partial(_of_table, reader=public.hint_name),
            "restart_reasons": self._restarts,
            **{name: partial(self._fact, kind) for name, kind in _PARTS.items()},
        }
        self._json: Mapping[str, Callable[[Any], Any]] = {
            **dict.fromkeys(CACHE_RECORDS.keys() | KNOWN["records"], self._json_value),
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
            "dynamo_start": lambda start: {
                "stack": [self._start_entry(line) for line in start.get("stack") or ()]
            },
            "compilation_metrics": self._fields,
        }
        """What becomes of records without a payload."""

    def redacted(self, value: _Model) -> _Model:
        """The fact."""
        kinds, changed = shared_kinds(type(value)), dict[str, object]()
        for name, kind in field_types(type(value)).items():
            of_text = kinds.get(name, "")
            reader = getattr(self.shown, of_text, None) or getattr(public, of_text, None)
            changed[name] = self._value(getattr(value, name), kind, reader)
        if (file := getattr(value, "file", None)) is not None:
            changed |= self._in_file(value, file)
        for special_kind, special in self._special.items():
            if isinstance(value, special_kind):
                changed |= special(value)
        return value.replace(**changed)

    def _value(self, value: object, kind: object, reader: Reader | None) -> Any:  # noqa: ANN401 - as many types as fields
        kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
        if value is None or isinstance(value, (bool, int, float)):
            return value
        if isinstance(value, str):
            if any(get_origin(one) is Literal and value in get_args(one) for one in kinds):
                return value
            read = None if reader is None else reader(value)
            return LEFT_OUT if read is None and NoneType not in kinds else read
        if isinstance(value, Fact):
            return None if isinstance(value, _LEFT_OUT_WHOLE) else self.redacted(value)
        if isinstance(value, dict):
            of_dict = _of_counts if get_args(kind)[1:] == (int,) else _of_table
            return {} if reader is None else of_dict(value, reader)
        inner = next(get_args(one)[0] for one in kinds if get_origin(one) is tuple)
        is_kept = reader is not None or inner is not str
        kept = [item for item in value if is_kept and not isinstance(item, _LEFT_OUT_WHOLE)]  # type: ignore[attr-defined]
        if value and not kept and NoneType in kinds:
            return None  # empty would mean that there was nothing
        return tuple(self._value(item, inner, reader) for item in kept)

    def _in_file(self, value: object, file: str) -> dict[str, object]:
        """What a fact names in its file stays if everybody can read it."""
        shown: dict[str, object] = {"file": self.shown.file(file)}
        for name in ("function", "qualname", "code_name"):
            if (text := getattr(value, name, None)) is not None:
                shown[name] = self.shown.function(text, file)
        if (package := getattr(value, "package", None)) is not None:
            shown["package"] = self.shown.package(package)
        return shown

    def _target(self, target: TargetInfo) -> dict[str, object]:
        """Its text consists of the pseudonyms of its file and its name."""
        names = (
            target.file and self.shown.file(target.file),
            target.name and self.shown.name(target.name),
        )
        return {"text": ":".join(filter(None, names)) or None}

    def _finding(self, finding: Finding) -> dict[str, object]:
        rule, kept, torch_id = ALL_RULES.get(finding.code), self.shown.breaks.kept, finding.torch_id
        return {
            "rule": rule.name if rule else LEFT_OUT,
            # A message quotes the line; the rule's title says the same without it.
            "message": rule.title() if rule else LEFT_OUT,
            # For a recompile it's a guard, with values and a line of source.
            "torch_reason": kept(finding.torch_reason, torch_id)
            if finding.torch_reason and torch_id
            else None,
            "hints": tuple(kept(hint, torch_id) for hint in finding.hints),
            "fixes": (),
        }

    def _reason(self, reason: BreakReason) -> dict[str, object]:
        kept = self.shown.breaks.kept
        return {
            "explanation": reason.explanation and kept(reason.explanation, reason.torch_id),
            "hints": tuple(kept(hint, reason.torch_id) for hint in reason.hints),
        }

    def _node(self, node: GraphNode | StageNode) -> dict[str, object]:
        is_operation = node.opcode in ("call_function", "call_method")
        return {
            "target": self.shown.operation(node.target)
            if is_operation
            else self.shown.name(node.target)
        }

    # Fields of events and records.

    def _fields(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        shown = {
            name: self._json_value(value, name)
            for name, value in fields.items()
            if self._is_known(name, value)
        }
        for name, file in _FUNCTIONS.items():
            if isinstance(fields.get(name), str):
                shown[name] = self.shown.function(fields[name], str(fields.get(file)))
        return shown

    def _is_known(self, name: str, value: object) -> bool:
        if isinstance(value, (str, list, dict)):
            return name in self._readers or name in self._objects or name in KNOWN["nested"]
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
        shown = (
            _of_counts(what, self.shown.operation)
            if kind == "eager"
            else self._json_value(what, "compile_id")
        )
        return [
            public.fixed(kind),
            *map(self._json_value, (start, end)),
            shown,
            self._json_value(count),
        ]

    def _restarts(self, reasons: Any) -> list[str]:  # noqa: ANN401 - a list, or its JSON
        many = orjson.loads(reasons) if isinstance(reasons, str) else reasons or ()
        return [self.shown.gb_type(str(reason).split("\n")[0].strip()) for reason in many]

    # Events.

    def events(self, events: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
        """The lines of ``probe.jsonl``. Kinds that aren't known are left out."""
        for event in events:
            kind = event["event"]
            found = self._event(
                kind, {key: value for key, value in event.items() if key != "event"}
            )
            if found is not None:
                yield {"event": kind} | found

    def _event(self, kind: str, fields: Mapping[str, Any]) -> dict[str, Any] | None:
        if kind == "target":
            # What it doesn't say is in recording.json.
            return {key: value for key, value in self._target_json(fields).items() if key in fields}
        if kind == "environment":
            return (self._fact(recording.Environment, fields) or {}) | _ROOTS
        if kind == "config":
            return {"values": _of_table(fields["values"], public.config_name)}
        if kind in _WHOLE:
            return self._fact(_WHOLE[kind], fields) or {}
        return self._fields(fields) if kind in KNOWN["events"] else None

    def meta(self, meta: Mapping[str, Any]) -> dict[str, Any]:
        """The content of ``recording.json``."""
        target, ended = self._target_json(meta.get("target") or {}), meta.get("exit")
        return {
            "format": meta.get("format"),
            "target": {key: target[key] for key in _ASKED},
            "exit": ended and self._fact(run.ProbeExit, {"status": None, **ended}),
        }

    def _target_json(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = self._fact(recording.TargetInfo, fields) or plain(
            recording.TargetInfo()
        )
        return found

    # Logs.

    def record(self, record: Record) -> tuple[dict[str, Any], str | None] | None:
        """The metadata of a record without ``has_payload``, and its payload; None if it is left
        out.
        """
        kind, payload = record.kind, None
        head: dict[str, Any] = {kind: {}}
        if kind in self._heads and not record.payload:
            head = {kind: self._heads[kind](record.value)}
        elif kind in self._texts:
            payload = self._texts[kind](record.payload or "")
        elif kind in self._json:
            payload = json.dumps(
                self._json[kind](orjson.loads(record.payload or "null")), ensure_ascii=False
            )
        else:
            return None
        if record.is_artifact:
            head = {
                "artifact": {"name": kind, "encoding": "json" if kind in self._json else "string"}
            }
        return head | {
            key: record.metadata[key] for key in _CONTEXT if type(record.metadata.get(key)) is int
        }, payload

    def _file(self, named: Any) -> list[object]:  # noqa: ANN401 - JSON
        path, number = named
        self._interned[int(number)] = str(path)
        return [self.shown.file(str(path)), int(number)]

    def _start_entry(self, line: Mapping[str, Any]) -> dict[str, Any]:
        name = self.shown.function(
            str(line["name"]), self._interned.get(line["filename"], "<unknown>")
        )
        return {
            "line": self._json_value(line["line"]),
            "name": name,
            "filename": int(line["filename"]),
            "loc": "",
        }

    def _reasons(self, payload: str) -> str:
        """Which cache entries didn't match; how they differed is in diagnosis.json."""
        try:
            reasons = orjson.loads(payload or "[]")
        except orjson.JSONDecodeError:
            reasons = payload
        many = [reasons] if isinstance(reasons, str) else reasons
        shown = [
            f"{public.compile_id(str(reason).partition(':')[0].strip())}: {LEFT_OUT}"
            for reason in many
        ]
        return (
            shown[0]
            if isinstance(reasons, str) and shown
            else json.dumps(shown, ensure_ascii=False)
        )

    def files(
        self, files: Iterable[tuple[str, Path]], notes: list[str]
    ) -> Iterator[tuple[str, bytes]]:
        """The files by their names in the bundle, as far as they can be redacted; ``notes``
        receives what can't.
        """
        numbers = itertools.count(1)
        for name, path in files:
            if name.startswith(LOGS):
                for log_name, log in plain_logs(path, numbers):
                    with log.open() as lines:
                        yield log_name, b"".join(self._log(lines))
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


def _of_table(table: Mapping[Any, Any], reader: Reader) -> dict[str, object]:
    """Values by names; those whose name is left out are dropped."""
    shown = {reader(str(name)): (str(name), value) for name, value in table.items()}
    return {
        known: public.option(name, value)
        for known, (name, value) in shown.items()
        if known is not None
    }


def _of_counts(table: Mapping[str, int], reader: Reader) -> dict[str, int]:
    """Counts by names; those whose names are left out are added up."""
    found: Counter[str] = Counter()
    for name, count in table.items():
        found[reader(name) or LEFT_OUT] += int(count)
    return dict(found)


def _change(change: GuardChange) -> dict[str, object]:
    def shown(value: str | None) -> str | None:
        if value is None or (
            change.kind in _PUBLIC_CHANGES and (value in _CHANGED_MODES or value.isdecimal())
        ):
            return value
        return public.dtype(value) if change.kind in _PUBLIC_CHANGES else LEFT_OUT

    return {"old": shown(change.old), "previous": shown(change.previous), "new": shown(change.new)}


def _written(record: Record, metadata: dict[str, object], payload: str | None) -> bytes:
    """The record in torch's format (``torch/_logging/_internal.py``, 2.13,
    ``trace_structured``).
    """
    if payload is None:
        return f"{record.stamp} {_PLACE}] {json.dumps(metadata)}\n".encode()
    total = hashlib.md5(payload.encode(), usedforsecurity=False).hexdigest()
    lines = "".join(f"\t{line}\n" for line in payload.split("\n"))
    return f"{record.stamp} {_PLACE}] {json.dumps(metadata | {'has_payload': total})}\n{lines}".encode()
