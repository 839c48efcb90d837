"""Turns the probe's ``vary_plan``, ``variation`` and ``vary_end`` events into ``Variation`` facts.

The probe reports what each tried value did; the verdict on a property is made here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphdoctor.facts.reading import read_fact
from graphdoctor.facts.variations import TriedValue, Variation, Verdict
from graphdoctor.trace.events import Event

_NOT_REACHED = "the run ended first"


def read_variations(events: Sequence[Event]) -> tuple[Variation, ...] | None:
    """The variations of a run.

    Returns:
        In the order of the plan, including those that were never reached; None if none were asked for.
    """
    plan = next((event["properties"] for event in events if event["event"] == "vary_plan"), None)
    if plan is None:
        return None
    found: dict[int, Variation] = {}
    for event in events:
        if event["event"] == "variation":
            found[event["number"]] = _variation(event)
    if not any(event["event"] == "vary_end" for event in events):
        for number, planned in enumerate(plan):
            if number not in found:
                fields = {**planned, "verdict": "not_varied", "reason": _NOT_REACHED}
                found[number] = read_fact(Variation, fields)
    return tuple(found[number] for number in sorted(found))


def _variation(event: Event) -> Variation:
    fields: dict[str, Any] = {key: value for key, value in event.items() if key not in ("event", "number", "tried")}
    tried = tuple(read_fact(TriedValue, value) for value in event.get("tried", ()))
    seconds = [value.compile_s for value in tried if value.compile_s is not None]
    reason = fields.pop("reason", None)
    verdict = verdict_of(tried) if reason is None else "not_varied"
    said = {"tried": tried, "verdict": verdict, "compile_s": sum(seconds) if seconds else None, "reason": reason}
    return read_fact(Variation, fields | said)


def verdict_of(tried: Sequence[TriedValue]) -> Verdict:
    """The verdict on a property from the values tried; special values count only if there are no others."""
    made = [value for value in tried if value.outcome != "fails_eager"]
    counted = [value for value in made if not value.is_special] or made
    outcomes = {value.outcome for value in counted}
    if not outcomes:
        return "not_varied"
    if outcomes == {"free"}:
        return "free"
    if "free" in outcomes:
        return "generalises"
    return "fails" if outcomes == {"fails_compiled"} else "recompiles"
