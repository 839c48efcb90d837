"""Takes the records that say something beside compiles, graphs, breaks and guards."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from graphdoctor.facts.base import Fields, grouped, values_of
from graphdoctor.facts.evidence import (
    CacheAnswer,
    CollectiveSchedule,
    ExportedProgram,
    FakeKernel,
    LogEvidence,
    RecordCount,
    ShapeEvent,
    ShapeKind,
)
from graphdoctor.facts.reading import read_fact
from graphdoctor.facts.record_kinds import family_of, is_shown
from graphdoctor.facts.stack import StackEntry, innermost
from graphdoctor.trace.grammar import LogDamage, Record
from graphdoctor.trace.inductor import CACHE_RECORDS

_SHAPES: Mapping[str, ShapeKind] = {
    "create_symbol": "dynamic",
    "create_unbacked_symbol": "unbacked",
    "symbolic_shape_specialization": "specialized",
    "guard_added": "guarded",
    "guard_added_fast": "guarded",
    "propagate_real_tensors": "assumed",
    "propagate_real_tensors_provenance": "assumed",
    "guard_on_data_dependent_error": "data_dependent",
}
"""``torch/fx/experimental/symbolic_shapes.py``, 2.13; with ``TORCH_DTRACE``, guards and assumptions
come twice."""

_KERNELS: Mapping[str, bool] = {"missing_fake_kernel": True, "mismatched_fake_kernel": False}
_MAX_SHAPES = 2000
_MAX_TEXT = 500
_MAX_REASON = 2000
_RANGES = re.compile(r"^Range constraints: \{(.*)\}\s*$", re.MULTILINE)
_RANGE = re.compile(r"(\w+): VR\[([^,\]]+), ([^,\]]+)\]")


def _text(value: object) -> str:
    return str(value)[:_MAX_TEXT]


def _answer(record: Record) -> Iterator[CacheAnswer]:
    cache, state = CACHE_RECORDS[record.kind]
    fields = record.json()
    reason = fields.get("cache_bypass_reason") or fields.get("reason")
    key = fields.get("key")
    yield CacheAnswer(
        compile_id=record.compile_id,
        cache=cache,
        state=state,
        reason=None if reason is None or state == "miss" else str(reason)[:_MAX_REASON],
        key=None if key is None else _text(key),
    )


def _program(record: Record) -> Iterator[ExportedProgram]:
    text = record.payload or ""
    match = _RANGES.search(text, max(len(text) - 100_000, 0))
    ranges = _RANGE.findall(match[1]) if match else ()
    yield ExportedProgram(
        size_bytes=len(text.encode()),
        ranges={name: f"[{low}, {high}]" for name, low, high in ranges},
        compile_id=record.compile_id,
    )


def _schedule(record: Record) -> Iterator[CollectiveSchedule]:
    yield CollectiveSchedule(
        compile_id=record.compile_id, operations=tuple(map(_text, record.json()))
    )


_READERS: Mapping[str, tuple[str, Callable[[Record], Iterator[object]]]] = {
    **dict.fromkeys(CACHE_RECORDS, ("cache_answers", _answer)),
    "exported_program": ("exported_programs", _program),
    "inductor_collective_schedule": ("collectives", _schedule),
}
"""The field of ``LogEvidence`` that a record is for, and what reads it."""


class Evidence:
    """Collects the records of one process until a reset of Dynamo."""

    KINDS: frozenset[str] = frozenset({*_READERS, *_SHAPES, *_KERNELS})

    def __init__(self, entries: Callable[[Any], Sequence[StackEntry]]) -> None:
        self._entries = entries
        self._found: dict[str, list[object]] = {}
        self._shapes: dict[tuple[object, ...], ShapeEvent] = {}
        self._hidden_shapes = 0
        self._kernels: Counter[FakeKernel] = Counter()

    def add(self, record: Record) -> None:
        """Take the next record, which is one of ``KINDS``."""
        if record.kind in _SHAPES:
            self._add_shape(record)
        elif record.kind in _KERNELS:
            op = _text(record.value["op"])
            reason = record.value.get("reason")
            kernel = FakeKernel(
                op=op,
                is_missing=_KERNELS[record.kind],
                compile_id=record.compile_id,
                reason=None if reason is None else _text(reason),
                count=0,
            )
            self._kernels[kernel] += 1
        else:
            name, read = _READERS[record.kind]
            self._found.setdefault(name, []).extend([*read(record)])

    def finish(self) -> LogEvidence:
        """Return what was collected, without counts of records."""
        facts: Fields = {name: tuple(items) for name, items in self._found.items()}
        return LogEvidence(
            shapes=tuple(self._shapes.values()),
            hidden_shapes=self._hidden_shapes,
            fake_kernels=tuple(
                kernel.replace(count=count) for kernel, count in self._kernels.items()
            ),
            **facts,
        )

    def _add_shape(self, record: Record) -> None:
        value = record.value
        kind = _SHAPES[record.kind]
        is_symbol = kind in ("dynamic", "unbacked", "specialized")
        expression = _text(value.get("symbol" if is_symbol else "expr"))
        key = (kind, record.compile_id, expression)
        before = self._shapes.get(key)
        if before is not None:
            # A guard comes in two records under TORCH_DTRACE; one of them can lack the line.
            fields = {} if before.file is not None else self._place(value)
            is_twin = record.kind in ("guard_added_fast", "propagate_real_tensors_provenance")
            self._shapes[key] = before.replace(**fields, count=before.count + (not is_twin))
            return
        if len(self._shapes) >= _MAX_SHAPES:
            self._hidden_shapes += 1
            return
        texts = {
            "source": value.get("source") or next(iter(value.get("sources") or ()), None),
            "value": value.get("val") or value.get("value") or value.get("result"),
            "range": value.get("vr"),
            "reason": value.get("reason"),
        }
        fields = {name: _text(item) for name, item in texts.items() if item is not None}
        fields |= {"kind": kind, "compile_id": record.compile_id, "expression": expression}
        self._shapes[key] = read_fact(ShapeEvent, fields | self._place(value))

    def _place(self, value: Fields) -> Fields:
        entries = self._entries(value.get("user_stack") or value.get("stack"))
        entry = innermost([entry for entry in entries if entry.file != "<unknown>"])
        return {} if entry is None else values_of(entry, "file", "line", "text")


def record_counts(damage: LogDamage) -> tuple[RecordCount, ...]:
    """The kinds of records by size, largest first."""
    families = grouped((family_of(kind), counts) for kind, counts in damage.kinds.items())
    records = (
        RecordCount(
            kind=kind,
            count=sum(count for count, _ in counts),
            size_bytes=sum(size for _, size in counts),
            is_shown=is_shown(kind),
        )
        for kind, counts in families.items()
    )
    return tuple(sorted(records, key=lambda record: (-record.size_bytes, record.kind)))
