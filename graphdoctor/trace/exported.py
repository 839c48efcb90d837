"""Reads what torch.export made of a target; the place where it stopped is a break, so that rules
can name it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphdoctor.facts.expressions import expression
from graphdoctor.facts.reading import read_fact
from graphdoctor.facts.recording import (
    BreakReason,
    BreakRecord,
    Environment,
    Export,
    ExportCalls,
    ExportFailure,
    NamedClass,
    Recording,
    TriedDim,
)
from graphdoctor.facts.stack import PROGRAM_ORIGINS, StackEntry
from graphdoctor.trace.breaks import break_record, export_topic, export_words, parse_chain
from graphdoctor.trace.events import Events
from graphdoctor.trace.origin import Origins


def with_export(recording: Recording, events: Events, environment: Environment) -> Recording:
    """The recording with what was exported; unchanged if nothing was."""
    found = events.fields("export")
    if not found:
        return recording
    origins = Origins(environment)
    qualnames = {context.at: {"qualname": context.qualname} for context in recording.sources}

    def stack_of(found: Mapping[str, Any]) -> tuple[StackEntry, ...]:
        return tuple(
            read_fact(
                StackEntry,
                {
                    **each,
                    **origins.named(each["file"]),
                    **qualnames.get((each["file"], each["line"]), {}),
                },
            )
            for each in found["stack"]
        )

    failure: Mapping[str, Any] | None = found["failure"]
    dims = [read_fact(TriedDim, {**dim, "stack": stack_of(dim)}) for dim in found["dims"]]
    calls = events.fact("export_calls", ExportCalls)
    words = "" if failure is None else export_words(str(failure["message"]))
    export = read_fact(
        Export,
        {
            **found,
            "failure": None
            if failure is None
            else ExportFailure(type=str(failure["type"]), message=words),
            "dims": tuple(dims),
            "calls": calls,
            "constraints": tuple(map(expression, found["constraints"])),
        },
    )
    breaks = recording.breaks
    # Strict export writes no record of a break (2.13).
    if failure is not None:
        breaks = (*breaks, _break_record(failure, words, _to_program(stack_of(failure))))
    return recording.replace(export=export, breaks=breaks)


def _to_program(stack: tuple[StackEntry, ...]) -> tuple[StackEntry, ...]:
    own = [number for number, entry in enumerate(stack) if entry.origin in PROGRAM_ORIGINS]
    return stack[: own[-1] + 1] if own else stack


def _break_record(
    failure: Mapping[str, Any], words: str, stack: tuple[StackEntry, ...]
) -> BreakRecord:
    chain = parse_chain(words)
    topic = export_topic(words, chain[0], is_truth=bool(failure["is_truth"]))
    if topic == "export_error":
        name = str(failure["type"]).rpartition(".")[2]
        first = chain[0].gb_type if words else ""
        chain = (BreakReason(gb_type=f"{name}: {first}" if first else name),)
    classes = tuple(read_fact(NamedClass, found) for found in failure["classes"])
    is_exact = bool(failure["is_at_line"])
    return break_record(
        words, chain, "raised", stack=stack, is_stack_exact=is_exact, topic=topic, classes=classes
    )
