"""What watching a script's calls showed: the records of each process in, a ``CallWatch`` out."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from graphdoctor.facts.counts import CallWatch, NotCovered, WatchedFunction
from graphdoctor.facts.reading import read_fact
from graphdoctor.trace.intake import Intake

_TIMED_CALLS = 15


def call_watch(processes: Iterable[tuple[str | None, Intake]]) -> CallWatch | None:
    """The calls that were watched in all processes; None if none was to be."""
    functions: list[WatchedFunction] = []
    cost_us = 0.0
    for name, intake in processes:
        cost_us += sum(call["cost_us"] for call in intake.watched_calls)
        for _, called in sorted(intake.called.items()):
            own = [call for call in intake.watched_calls if call["function"] == called["function"]]
            found = _function(name, called, own)
            functions.append(found)
            cost_us += sum(_slowed_us(own, found.steady_us))
    return CallWatch(functions=tuple(functions), cost_s=cost_us / 1e6) if functions else None


def _function(
    process: str | None, called: Mapping[str, Any], watched: list[dict[str, Any]]
) -> WatchedFunction:
    steady = [call for call in watched if call["outcome"] == "steady"]
    times = [call["duration_us"] for call in steady if not call["is_profiled"]][-_TIMED_CALLS:]
    covered: Mapping[str, Any] | None = next(
        (call for call in reversed(steady) if "graph_ops" in call), None
    )
    ops = (
        {name: covered[name] for name in ("graph_ops", "eager_ops", "eager_op_names")}
        if covered
        else {}
    )
    return read_fact(
        WatchedFunction,
        {
            **{
                name: called.get(name)
                for name in ("compiled", "file", "line", "last_compile", "compiling_calls")
            },
            "process": process,
            "calls": called["calls"] if called["is_end"] else None,
            "watched_calls": len(watched),
            "coverage": covered and {**ops, "extra_calls": 0, "extra_compiles": 0},
            "coverage_call": covered and covered["call"],
            "graph_runs": covered and covered["graph_runs"],
            "not_covered": None if covered else _not_covered(called, watched),
            "steady_us": statistics.median(times) if times else None,
            "timed_calls": len(times),
        },
    )


def _not_covered(called: Mapping[str, Any], watched: list[dict[str, Any]]) -> NotCovered:
    calls = called["calls"]
    if called["is_deferred"]:
        return "deferred"
    if called["is_end"] and calls == 1:
        return "once"
    if watched and watched[-1]["outcome"] == "raised":
        return "raised"
    if called["is_end"] and calls == called["last_compile"]:
        return "compiling"
    if any(call["outcome"] == "steady" for call in watched):
        return "profiler" if called["unwatched"].get("profiler") else "cost"
    if watched:
        return "profiler" if watched[-1]["outcome"] == "profiled" else "compiling"
    for reason in ("nested", "profiler", "capture", "busy"):
        if called["unwatched"].get(reason):
            return reason
    return "few" if called["is_end"] else "ended"


def _slowed_us(watched: Iterable[Mapping[str, Any]], steady_us: float | None) -> Iterator[float]:
    for call in watched:
        if call["is_profiled"] and steady_us is not None and call["outcome"] == "steady":
            yield max(0.0, call["duration_us"] - steady_us)
