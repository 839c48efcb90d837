"""Reads what torch measured of one compile: the ``compilation_metrics`` of each torch, in one form.

What doesn't fit raises, so that one odd value costs one record. Field names are torch's (``CompilationMetrics``,
``torch/_dynamo/utils.py``, 2.4 to 2.15).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any

import orjson

from graphdoctor.facts.base import Fact, InvalidFactError

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


_TYPES: Mapping[str, frozenset[type]] = {
    **dict.fromkeys(
        ("co_name", "co_filename", "fail_type", "fail_reason", "fail_user_frame_filename", "recompile_reason"),
        frozenset({str}),
    ),
    **dict.fromkeys(("co_firstlineno", "fail_user_frame_lineno", *_COUNTS), frozenset({int})),
    **dict.fromkeys(_TIMES, frozenset({int, float})),
    "has_guarded_code": frozenset({bool}),
    "restart_reasons": frozenset({list, str}),
}
"""Of what isn't None. Checked here, since a log can have very many compiles."""


def is_before_breaks(value: Mapping[str, Any]) -> bool:
    """Whether metrics are of a torch before 2.6, which writes no graph breaks."""
    return "duration_us" not in value and _OLD_TIMES["duration_us"] in value


def read_metrics(value: Mapping[str, Any]) -> CompileMetrics:
    """Read a record's JSON."""
    found: dict[str, Any] = {}
    for name, types in _TYPES.items():
        item = value.get(name)
        if item is None:
            continue
        if type(item) not in types:
            raise InvalidFactError((name,), f"{type(item).__name__} doesn't fit")
        found[name] = item
    for name, older in _OLD_TIMES.items():
        seconds = value.get(older)
        if name not in found and isinstance(seconds, float | int):
            found[name] = seconds * 1e6
    for name in (*_COUNTS, *_TIMES):
        if name in found and not 0 <= found[name] < _MOST:
            raise InvalidFactError((name,), f"{found[name]!r} can't be")
    found["restart_reasons"] = _reasons(found.get("restart_reasons", []))
    kind = found.get("fail_type")
    if kind is not None and (named := _CLASS.fullmatch(kind)):
        found["fail_type"] = named[1]
    if "has_guarded_code" not in value:
        found["has_guarded_code"] = kind is None and "guard_count" in found
    return CompileMetrics(**found)


def _reasons(value: object) -> tuple[str, ...]:
    reasons = orjson.loads(value) if isinstance(value, str) else value
    if not isinstance(reasons, list) or not all(isinstance(reason, str) for reason in reasons):
        raise InvalidFactError(("restart_reasons",), "isn't a list of texts")
    return tuple(reasons)


def printed_reasons(payload: str) -> tuple[str, ...]:
    """Torch's ``recompile_reasons``: the record claims to be JSON, but a single reason is a bare string."""
    try:
        value = orjson.loads(payload)
    except orjson.JSONDecodeError:
        value = payload
    return tuple(map(str, value)) if isinstance(value, list) else (str(value).strip(),)
