"""Reads what can be compared of each compile between ranks, without what differs for no reason,
such as addresses.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson

from graphdoctor.facts.evidence import CacheState, CompileMark, LogSpan
from graphdoctor.trace.grammar import Record
from graphdoctor.trace.inductor import CACHE_RECORDS
from graphdoctor.trace.sections import Collector

# Each begins with what can be searched for quickly, and looks back from there: guards are much of a
# log.
_DEVICE = re.compile(r"(cuda|xpu|hpu|mtia)(?<!\wcuda)(?<!\w[xh]pu)(?<!\wmtia):\d+")
_GUARD_DEVICE = re.compile(r"device=(?<!\wdevice=)\d+")
_ADDRESS = re.compile(r"0x(?<!\w0x)[0-9a-f]{6,}\b")
_LONG_NUMBER = re.compile(r"[0-9](?<![.0-9][0-9])[0-9]{11,}")
"""Also in a name, such as ``G['_139887794806176_c7']``."""
_IDENTITY = re.compile(r"___check_(type|obj)_id\((.*?), [0-9]+\)")
"""The address of a class or an object, which can be short."""
_LATENCY = "Guard latency"
_ANNOTATION = re.compile(r': "[^"]*"')
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?\b")
_WORSE: tuple[CacheState, ...] = ("hit", "miss", "bypass")
_COMMENT = re.compile(r"\s*#")


def clock_seconds(stamp: str) -> float | None:
    """When a record was written, such as ``V1121 02:58:17.809000 77``, in seconds of a year that
    isn't in it.
    """
    try:
        # A leap year, so that every day of any year is one.
        time = datetime.strptime(f"2024 {stamp[1:].rpartition(' ')[0]}", "%Y %m%d %H:%M:%S.%f")
    except ValueError:
        return None
    return (time - datetime(2024, 1, 1)).total_seconds()


def plain_graph(code: str) -> str:
    """A printed graph without comments and numbers of devices."""
    return _DEVICE.sub(r"\1", _lines_of(code, lambda line: _COMMENT.match(line) is None))


def _lines_of(text: str, is_kept: Callable[[str], bool]) -> str:
    lines = (line.rstrip() for line in text.splitlines() if line.strip() and is_kept(line))
    return "\n".join(lines)


def operations_of(graph: str) -> str:
    """A plain graph without the shapes and numbers in it."""
    return _NUMBER.sub("N", _ANNOTATION.sub("", graph))


def plain_guards(text: str) -> str:
    """Printed guards without addresses, numbers of devices and how long checking them took."""
    plain = _DEVICE.sub(r"\1", _lines_of(text, lambda line: not line.startswith(_LATENCY)))
    plain = _GUARD_DEVICE.sub("device=…", plain)
    plain = _IDENTITY.sub(r"___check_\1_id(\2, …)", plain)
    return _LONG_NUMBER.sub("…", _ADDRESS.sub("…", plain))


@dataclass
class _Seen:
    attempt: int = 0
    graphs: list[tuple[str, str, str]] = field(default_factory=list)
    fields: dict[str, Any] = field(default_factory=dict)


class Marks(Collector):
    """Collects records in the order of the log."""

    KINDS = frozenset(
        {
            "dynamo_start",
            "dynamo_output_graph",
            "dynamo_cpp_guards_str",
            "compilation_metrics",
            "inductor_collective_schedule",
            *CACHE_RECORDS,
        }
    )

    def __init__(self, texts_of: frozenset[str] = frozenset()) -> None:
        super().__init__()
        self._texts_of = texts_of

    def _clear(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def add(self, record: Record) -> None:
        """See ``Collector``."""
        if record.compile_id is None:
            return
        seen = self._seen.setdefault(record.compile_id, _Seen())
        fields = seen.fields
        payload = record.payload or ""
        has_texts = record.compile_id in self._texts_of
        match record.kind:
            case "dynamo_start":
                if fields.get("began_s") is None:
                    fields["began_s"] = clock_seconds(record.stamp)
            case "dynamo_output_graph":
                if (record.attempt or 0) > seen.attempt:
                    # A restarted analysis prints its graph again.
                    seen.attempt = record.attempt or 0
                    seen.graphs = []
                graph = plain_graph(payload)
                digests = graph_digest(graph), graph_digest(operations_of(graph))
                seen.graphs.append((*digests, graph if has_texts else ""))
                graphs, shapeless, texts = zip(*seen.graphs, strict=True)
                fields |= {"graph": _joined(graphs), "operations": _joined(shapeless)}
                fields["graph_text"] = "\n".join(texts) if has_texts else None
            case "dynamo_cpp_guards_str":
                guards = plain_guards(payload)
                fields["guards"] = graph_digest(guards)
                fields["guards_text"] = guards if has_texts else None
            case "inductor_collective_schedule":
                operations = map(str, orjson.loads(payload))
                fields["collectives"] = (*fields.get("collectives", ()), *operations)
            case "compilation_metrics":
                pass  # a frame over its recompile limit has no other record
            case _:
                _, answer = CACHE_RECORDS[record.kind]
                fields["cache"] = max(fields.get("cache", answer), answer, key=_WORSE.index)

    def finish(self) -> LogSpan:
        """The marks of all compiles, in the order in which they began."""
        marks = (
            CompileMark(compile_id=compile_id, **seen.fields)
            for compile_id, seen in self._seen.items()
        )
        return LogSpan(marks=tuple(marks))


def graph_digest(text: str) -> str:
    """16 hexadecimal digits that stand for a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _joined(digests: Iterable[str]) -> str | None:
    parts = list(digests)
    return None if not parts else parts[0] if len(parts) == 1 else graph_digest("\n".join(parts))
