"""Reads what torch measured of one compile: the ``compilation_metrics`` of each torch, in one form.

Comes in: the record's JSON. Goes out: ``CompileMetrics``. What doesn't fit raises, so that one odd value costs one
record. Field names are torch's (``CompilationMetrics``, ``torch/_dynamo/utils.py``, 2.4 to 2.15).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any

import orjson

from graphdoctor.model.base import Fact, InvalidFactError

_CLASS = re.compile(r"<class '(?:.*\.)?(\w+)'>")
_COUNTS = ("guard_count", "graph_op_count", "attempt")
_TIMES = ("duration_us", "aot_autograd_cumulative_compile_time_us")
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
    """Whether torch has code for the frame; what a torch before 2.5, which doesn't write it, implies."""
    guard_count: int | None = None
    graph_op_count: int | None = None
    fail_type: str | None = None
    """The exception's class name, without its module."""
    fail_reason: str | None = None
    fail_user_frame_filename: str | None = None
    fail_user_frame_lineno: int | None = None
    recompile_reason: str | None = None
    restart_reasons: tuple[str, ...] = field(default=())
    duration_us: float | None = None
    aot_autograd_cumulative_compile_time_us: float | None = None
    attempt: int | None = None


def is_before_breaks(value: Mapping[str, Any]) -> bool:
    """Whether metrics are of a torch before 2.6, which writes no graph breaks."""
    return "duration_us" not in value and _OLD_TIMES["duration_us"] in value


def read_metrics(value: Mapping[str, Any]) -> CompileMetrics:
    """Read a record's JSON.

    Args:
        value: As torch wrote it, whatever its version.

    Raises:
        ValueError: Something in it doesn't fit.
    """
    found = dict(value)
    for name, older in _OLD_TIMES.items():
        seconds = found.get(older)
        if found.get(name) is None and isinstance(seconds, float | int):
            found[name] = seconds * 1e6
    restarts = found.get("restart_reasons")
    found["restart_reasons"] = orjson.loads(restarts) if isinstance(restarts, str) else restarts or []
    if isinstance(kind := found.get("fail_type"), str) and (named := _CLASS.fullmatch(kind)):
        found["fail_type"] = named[1]
    if found.get("has_guarded_code") is None:
        is_old = "has_guarded_code" not in found
        found["has_guarded_code"] = is_old and kind is None and found.get("guard_count") is not None
    metrics = CompileMetrics.model_validate(found, skips_unknown=True)
    for name in (*_COUNTS, *_TIMES):
        number = getattr(metrics, name)
        if number is not None and not 0 <= number < _MOST:
            raise InvalidFactError((name,), f"{number!r} can't be")
    return metrics
