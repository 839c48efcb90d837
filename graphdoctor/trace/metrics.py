"""Reads what torch measured of one compile: the ``compilation_metrics`` of each torch, in one form.

What doesn't fit raises, so that one odd value costs one record. Field names are torch's
(``CompilationMetrics``, ``torch/_dynamo/utils.py``, 2.4 to 2.15).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import orjson

from graphdoctor.facts.base import Fact, InvalidFactError, field_types
from graphdoctor.facts.reading import read_fact

_CLASS = re.compile(r"<class '(?:.*\.)?(\w+)'>")
_NUMBERS = (
    "guard_count",
    "graph_op_count",
    "attempt",
    "duration_us",
    "aot_autograd_cumulative_compile_time_us",
)
_OLD_TIMES = {
    "duration_us": "entire_frame_compile_time_s",
    "aot_autograd_cumulative_compile_time_us": "backend_compile_time_s",
}
"""What a torch before 2.6 has in their place."""
_MOST = 2**53
"""More isn't a number of anything, nor of microseconds."""


class CompileMetrics(Fact):
    """What torch measured of one compile."""

    co_name: str | None = None
    """The code object's name; None if the frame was over its recompile limit."""
    co_filename: str | None = None
    co_firstlineno: int | None = None
    has_guarded_code: bool = False
    """Whether torch has code for the frame; what a torch before 2.5, which doesn't write it,
    implies."""
    guard_count: int | None = None
    graph_op_count: int | None = None
    fail_type: str | None = None
    """The exception's class name, without its module."""
    fail_reason: str | None = None
    fail_user_frame_filename: str | None = None
    fail_user_frame_lineno: int | None = None
    recompile_reason: str | None = None
    restart_reasons: tuple[str, ...] = ()
    duration_us: float | None = None
    aot_autograd_cumulative_compile_time_us: float | None = None
    attempt: int | None = None


def is_before_breaks(value: Mapping[str, Any]) -> bool:
    """Whether metrics are of a torch before 2.6, which writes no graph breaks."""
    return "duration_us" not in value and _OLD_TIMES["duration_us"] in value


def read_metrics(value: Mapping[str, Any]) -> CompileMetrics:
    """Read a record's JSON."""
    # The rest is large: torch writes all its settings into each record.
    found = {
        name: value[name] for name in field_types(CompileMetrics) if value.get(name) is not None
    }
    for name, older in _OLD_TIMES.items():
        if name not in found and isinstance(seconds := value.get(older), float | int):
            found[name] = seconds * 1e6
    if isinstance(reasons := found.get("restart_reasons"), str):
        found["restart_reasons"] = orjson.loads(reasons)
    if isinstance(kind := found.get("fail_type"), str) and (named := _CLASS.fullmatch(kind)):
        found["fail_type"] = named[1]
    if "has_guarded_code" not in value:
        found["has_guarded_code"] = kind is None and "guard_count" in found
    metrics = read_fact(CompileMetrics, found)
    for name in _NUMBERS:
        if not 0 <= (getattr(metrics, name) or 0) < _MOST:
            raise InvalidFactError((name,), f"{found[name]!r} can't be")
    return metrics


def printed_reasons(payload: str) -> tuple[str, ...]:
    """Torch's ``recompile_reasons``: the record claims to be JSON, but a single reason is a bare
    string.
    """
    try:
        value = orjson.loads(payload)
    except orjson.JSONDecodeError:
        value = payload
    return tuple(map(str, value)) if isinstance(value, list) else (str(value).strip(),)
