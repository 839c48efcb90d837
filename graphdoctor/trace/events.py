"""Reads what the probe reported: events, the lines of ``probe.jsonl``, and what takes several of
them: lanes, variations, watched calls, exports.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import orjson

from graphdoctor.facts.base import Fact, Fields, sum_of_known
from graphdoctor.facts.counts import CallWatch, NotCovered, WatchedFunction
from graphdoctor.facts.expressions import expression
from graphdoctor.facts.picture import Lane
from graphdoctor.facts.reading import read_fact
from graphdoctor.facts.recording import (
    BreakReason,
    BreakRecord,
    Environment,
    Export,
    ExportCalls,
    ExportFailure,
    Graph,
    NamedClass,
    Recording,
    context_at,
)
from graphdoctor.facts.stack import PROGRAM_ORIGINS, StackEntry
from graphdoctor.facts.trials import TriedValue, Variation, VariationVerdict
from graphdoctor.trace.breaks import break_record, export_topic, export_words, parse_chain
from graphdoctor.trace.origin import Origins

_Fact = TypeVar("_Fact", bound=Fact)
Event = Fields
"""Its kind is under ``event``."""


class Events:
    """Events in the order of the file."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.all = tuple(events)
        self._last = {event["event"]: event for event in self.all}

    def __contains__(self, kind: str) -> bool:
        return kind in self._last

    def fields(self, kind: str) -> Fields:
        """The fields of the last event of a kind, without the kind; empty if there is none."""
        return {key: value for key, value in self._last.get(kind, {}).items() if key != "event"}

    def of(self, kind: str) -> list[Event]:
        """All events of a kind."""
        return [event for event in self.all if event["event"] == kind]

    def fact(self, kind: str, fact: type[_Fact]) -> _Fact | None:
        """The fact in the last event of a kind; None if there is none."""
        if kind not in self:
            return None
        # Earlier versions wrote more.
        return read_fact(fact, self.fields(kind), skips_unknown=True)

    @property
    def guard_cost(self) -> Fields | None:
        """Return what guard checks cost; None if that was not measured."""
        return self._last.get("guard_cost")


def read_events(content: bytes) -> Events:
    """Read a file's content; lines that aren't events are skipped: a killed probe leaves half a
    line.
    """
    events = []
    for line in content.splitlines():
        with suppress(orjson.JSONDecodeError):
            event = orjson.loads(line)
            if isinstance(event, dict) and isinstance(event.get("event"), str):
                events.append(event)
    return Events(events)


_MAX_LANES = 200


def read_lanes(events: Events, recording: Recording) -> tuple[Lane, ...]:
    """The lanes of as many calls as are shown, preferring those that compile, and of the steady
    call.
    """
    # The probe numbers the graphs that it recorded; a graph without nodes isn't one of them.
    graphs = [graph for graph in recording.graphs if graph.nodes is not None]
    lanes = {event["call"]: _lane(event, graphs) for event in events.of("lane")}
    steady = lanes.pop(None, None)

    def rank(call: int) -> tuple[bool, int]:
        return all(segment.kind != "compile" for segment in lanes[call].segments), call

    shown = [lanes[call] for call in sorted(sorted(lanes, key=rank)[:_MAX_LANES])]
    return (*shown, *([] if steady is None else [steady]))


def _lane(event: Event, graphs: Sequence[Graph]) -> Lane:
    lane = {
        "call_index": event["call"],
        "duration_us": event["duration_us"],
        "is_profiled": event["is_profiled"],
        "segments": [_segment(row, graphs) for row in event["segments"]],
        "hidden_segments": event["hidden"],
    }
    return read_fact(Lane, lane)


def _segment(row: Sequence[Any], graphs: Sequence[Graph]) -> Fields:
    kind, start, end, *rest = row
    segment = {"kind": kind, "start_us": start, "end_us": end}
    if kind == "eager":
        return segment | {"op_names": rest[0], "op_count": rest[1]}
    compile_id, number = rest
    if number is not None and number < len(graphs):
        graph = graphs[number]
        segment |= {"compile_id": graph.compile_id, "graph_index": graph.index}
    return segment | ({} if compile_id is None else {"compile_id": compile_id})


_NOT_REACHED = "the run ended first"


def read_variations(events: Events) -> tuple[Variation, ...] | None:
    """The variations of a run in the order of the plan; None if none were asked for."""
    if "vary_plan" not in events:
        return None
    variations = {event["number"]: _variation(event) for event in events.of("variation")}
    if "vary_end" not in events:
        for number, planned in enumerate(events.fields("vary_plan")["properties"]):
            lost = {**planned, "verdict": "not_varied", "reason": _NOT_REACHED}
            variations.setdefault(number, read_fact(Variation, lost))
    return tuple(variation for _, variation in sorted(variations.items()))


def _variation(event: Event) -> Variation:
    tried = tuple(read_fact(TriedValue, value) for value in event.get("tried", ()))
    fields = {key: value for key, value in event.items() if key not in ("event", "number")} | {
        "tried": tried,
        "verdict": verdict_of(tried) if event.get("reason") is None else "not_varied",
        "compile_s": sum_of_known(value.compile_s for value in tried),
    }
    return read_fact(Variation, fields)


def verdict_of(tried: Sequence[TriedValue]) -> VariationVerdict:
    """The verdict on a property from the values tried; special values count only if there are no
    others.
    """
    made = [value for value in tried if value.outcome != "fails_eager"]
    counted = [value for value in made if not value.is_special] or made
    outcomes = {value.outcome for value in counted}
    if not outcomes:
        return "not_varied"
    if "free" in outcomes:
        return "free" if len(outcomes) == 1 else "generalises"
    return "fails" if outcomes == {"fails_compiled"} else "recompiles"


_TIMED_CALLS = 15


@dataclass
class WatchedCalls:
    """The records of one function of a script: its counts, None if they are missing, and the calls
    that were watched.
    """

    counts: Event | None = None
    calls: list[Event] = field(default_factory=list)


def call_watch(
    processes: Iterable[tuple[str | None, Mapping[int, WatchedCalls]]],
) -> CallWatch | None:
    """The calls that were watched in all processes; None if none was to be."""
    functions = []
    cost_us = 0.0
    for name, watched in processes:
        for _, seen in sorted(watched.items()):
            cost_us += sum(call["cost_us"] for call in seen.calls)
            if seen.counts is None:
                continue
            function = _function(name, seen.counts, seen.calls)
            functions.append(function)
            for call in seen.calls:
                is_profiled = call["is_profiled"] and call["outcome"] == "steady"
                if is_profiled and function.steady_us is not None:
                    # It takes longer.
                    cost_us += max(0.0, call["duration_us"] - function.steady_us)
    return CallWatch(functions=tuple(functions), cost_s=cost_us / 1e6) if functions else None


def _function(process: str | None, counts: Event, calls: Sequence[Event]) -> WatchedFunction:
    steady = [call for call in calls if call["outcome"] == "steady"]
    times = [call["duration_us"] for call in steady if not call["is_profiled"]][-_TIMED_CALLS:]
    counted = next((call for call in reversed(steady) if "graph_ops" in call), None)
    names = ("compiled", "file", "line", "last_compile", "compiling_calls")
    covered: Fields = {}
    if counted is None:
        covered["not_covered"] = _not_covered(counts, calls)
    else:
        fields = ("graph_ops", "eager_ops", "text_ops", "eager_op_names")
        covered = {
            "coverage": {name: counted[name] for name in fields if name in counted},
            "coverage_call": counted["call"],
            "graph_runs": counted["graph_runs"],
        }
    return read_fact(
        WatchedFunction,
        {name: counts.get(name) for name in names}
        | covered
        | {
            "process": process,
            "calls": counts["calls"] if counts["is_end"] else None,
            "eager_calls": counts.get("eager_calls") if counts["is_end"] else None,
            "watched_calls": len(calls),
            "steady_us": statistics.median(times) if times else None,
            "timed_calls": len(times),
        },
    )


def _not_covered(counts: Event, watched: Sequence[Event]) -> NotCovered:
    calls = counts["calls"]
    is_end = counts["is_end"]
    last = watched[-1]["outcome"] if watched else None
    if counts["is_deferred"]:
        return "deferred"
    if is_end and calls == 1:
        return "once"
    if last == "raised":
        return "raised"
    if is_end and calls == counts["last_compile"]:
        return "compiling"
    if any(call["outcome"] == "steady" for call in watched):
        return "profiler" if counts["unwatched"].get("profiler") else "cost"
    if watched:
        return "profiler" if last == "profiled" else "compiling"
    for reason in ("nested", "profiler", "capture", "busy"):
        if counts["unwatched"].get(reason):
            return reason
    return "few" if is_end else "ended"


def with_export(recording: Recording, events: Events, environment: Environment) -> Recording:
    """Add what torch.export made of the target, if it was exported; the place where it stopped is a
    break, so that rules can name it.
    """
    event = events.fields("export")
    if not event:
        return recording
    origins = Origins(environment)
    contexts = {context.code: context for context in recording.sources}

    def stack_of(item: Event) -> tuple[StackEntry, ...]:
        stack = []
        for entry in item["stack"]:
            context = context_at(contexts, entry["file"], entry["line"], entry["function"])
            qualname = {} if context is None else {"qualname": context.qualname}
            stack.append(read_fact(StackEntry, entry | origins.named(entry["file"]) | qualname))
        return tuple(stack)

    calls = events.fact("export_calls", ExportCalls)
    constraints = tuple(map(expression, event["constraints"]))
    breaks = recording.breaks
    failed = event["failure"]
    failure = None
    if failed is not None:
        words = export_words(str(failed["message"]))
        failure = ExportFailure(type=str(failed["type"]), message=words)
        # Strict export writes no record of a break (2.13).
        breaks = (*breaks, _failed_export(failed, words, stack_of(failed)))
    export = {"failure": failure, "calls": calls, "constraints": constraints}
    return recording.replace(export=read_fact(Export, event | export), breaks=breaks)


def _failed_export(failed: Event, words: str, stack: tuple[StackEntry, ...]) -> BreakRecord:
    program = [at for at, entry in enumerate(stack, start=1) if entry.origin in PROGRAM_ORIGINS]
    chain = parse_chain(words)
    topic = export_topic(words, chain[0], is_truth=bool(failed["is_truth"]))
    if topic == "export_error":
        name = str(failed["type"]).rpartition(".")[2]
        chain = (BreakReason(gb_type=f"{name}: {chain[0].gb_type}" if words else name),)
    return break_record(
        words,
        chain,
        "raised",
        stack=stack[: program[-1]] if program else stack,
        is_stack_exact=bool(failed["is_at_line"]),
        topic=topic,
        classes=tuple(read_fact(NamedClass, named) for named in failed["classes"]),
    )
