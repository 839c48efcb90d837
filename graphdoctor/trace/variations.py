"""What the probe said of variations, as facts.

``vary_plan``  {"properties": [{"expression", "kind", "base"}, …]}, before the first is tried
``variation``  the fields of ``Variation`` but the verdict, one event a property, written as soon as it is known
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphdoctor.model.variations import TriedValue, Variation, Verdict

_NOT_REACHED = "the run ended before it was tried"


def read_variations(events: Sequence[dict[str, Any]]) -> tuple[Variation, ...] | None:
    """The variations of a run.

    Args:
        events: What the probe said.

    Returns:
        In the order of the plan, those that were never reached too; None when none were asked for.
    """
    plan = next((event["properties"] for event in events if event["event"] == "vary_plan"), None)
    if plan is None:
        return None
    found: dict[str, Variation] = {}
    for event in events:
        if event["event"] == "variation":
            found[event["expression"]] = _variation({key: value for key, value in event.items() if key != "event"})
    covered = {expression for variation in found.values() for expression in variation.tied}
    ended = any(event["event"] == "vary_end" for event in events)
    for planned in plan:
        expression = planned["expression"]
        if expression not in found and not ended and expression not in covered:
            found[expression] = Variation(**planned, verdict="not_varied", reason=_NOT_REACHED)
    order = {planned["expression"]: number for number, planned in enumerate(plan)}
    return tuple(sorted(found.values(), key=lambda variation: order.get(variation.expression, len(order))))


def _variation(fields: dict[str, Any]) -> Variation:
    tried = tuple(TriedValue(**value) for value in fields.pop("tried", ()))
    seconds = [value.compile_s for value in tried if value.compile_s is not None]
    reason = fields.pop("reason", None)
    verdict = verdict_of(tried) if reason is None else "not_varied"
    return Variation(
        **fields,
        tried=tried,
        verdict=verdict,
        compile_s=sum(seconds) if seconds else None,
        reason=reason,
    )


def verdict_of(tried: Sequence[TriedValue]) -> Verdict:
    """What the values that were tried mean; special ones count only where there is no other."""
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
