"""Takes the records that say something beside compiles, graphs, breaks and guards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from graphdoctor.facts.base import Fields, grouped, values_of
from graphdoctor.facts.evidence import (
    CacheAnswer,
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
_EXPORTED = "exported_program"
_SCHEDULE = "inductor_collective_schedule"
_MAX_SHAPES = 2000
_MAX_TEXT = 500
_MAX_REASON = 2000


def _text(value: object) -> str:
    return str(value)[:_MAX_TEXT]


class Evidence:
    """Collects the records of one process until a reset of Dynamo."""

    KINDS: frozenset[str] = frozenset({*CACHE_RECORDS, *_SHAPES, *_KERNELS, _EXPORTED, _SCHEDULE})

    def __init__(self, entries: Callable[[Any], Sequence[StackEntry]]) -> None:
        self._entries = entries
        self._answers: list[CacheAnswer] = []
        self._shapes: dict[tuple[object, ...], ShapeEvent] = {}
        self._hidden_shapes = 0
        self._kernels: dict[FakeKernel, None] = {}
        self._exported = self._collectives = 0

    def add(self, record: Record) -> None:
        """Take the next record, which is one of ``KINDS``."""
        kind = record.kind
        if kind in _SHAPES:
            self._add_shape(record)
        elif kind in _KERNELS:
            reason = record.value.get("reason")
            kernel = FakeKernel(
                op=_text(record.value["op"]),
                is_missing=_KERNELS[kind],
                reason=None if reason is None else _text(reason),
            )
            self._kernels[kernel] = None
        elif kind in CACHE_RECORDS:
            self._add_answer(record)
        else:
            self._exported += kind == _EXPORTED
            self._collectives += len(record.json()) if kind == _SCHEDULE else 0

    def finish(self) -> LogEvidence:
        """Return what was collected, without counts of records."""
        return LogEvidence(
            cache_answers=tuple(self._answers),
            shapes=tuple(self._shapes.values()),
            hidden_shapes=self._hidden_shapes,
            fake_kernels=tuple(self._kernels),
            exported_programs=self._exported,
            collectives=self._collectives,
        )

    def _add_answer(self, record: Record) -> None:
        cache, state = CACHE_RECORDS[record.kind]
        fields = record.json()
        reason = fields.get("cache_bypass_reason") or fields.get("reason")
        answer = CacheAnswer(
            compile_id=record.compile_id,
            cache=cache,
            state=state,
            reason=None if reason is None or state == "miss" else str(reason)[:_MAX_REASON],
        )
        self._answers.append(answer)

    def _add_shape(self, record: Record) -> None:
        value = record.value
        kind = _SHAPES[record.kind]
        is_symbol = kind in ("dynamic", "unbacked", "specialized")
        expression = _text(value.get("symbol" if is_symbol else "expr"))
        key = (kind, record.compile_id, expression)
        before = self._shapes.get(key)
        if before is not None:
            # A guard comes in two records under TORCH_DTRACE; one of them can lack the line.
            if before.file is None:
                self._shapes[key] = before.replace(**self._place(value))
            return
        if len(self._shapes) >= _MAX_SHAPES:
            self._hidden_shapes += 1
            return
        source = value.get("source") or next(iter(value.get("sources") or ()), None)
        fields = {"kind": kind, "compile_id": record.compile_id, "expression": expression}
        fields |= {} if source is None else {"source": _text(source)}
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
