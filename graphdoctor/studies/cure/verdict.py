"""The answer of a search: a sentence, and the lines of a program that compile its model as was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphdoctor.facts.bench import EAGER, Noise, Variant
from graphdoctor.facts.command import block_lines
from graphdoctor.facts.cure import AS_IT_WAS, CURED, Best, CureStep
from graphdoctor.facts.recording import RepeatedBlocks
from graphdoctor.facts.spec import RunSpec
from graphdoctor.facts.wording import counted, duration, factor_text
from graphdoctor.studies.bench.rounds import judged
from graphdoctor.studies.bench.variants import VariantSpec
from graphdoctor.studies.bench.verdict import pays_off
from graphdoctor.views.measures import seconds_text


def compile_lines(changes: Mapping[str, object], base: RunSpec, blocks: Sequence[RepeatedBlocks]) -> tuple[str, ...]:
    """Lines that compile a model, in place of the user's own call of torch.compile.

    Returns:
        None at all if nothing changed.
    """
    if not changes:
        return ()
    spec = VariantSpec("", changes)
    given = {name: value for name, value in spec.arguments(base).items() if name not in spec.spec(base).config}
    arguments = ", ".join(f"{name}={value!r}" for name, value in given.items())
    if spec.spec(base).regional:
        return block_lines(blocks, given)
    return (f"model = torch.compile(model{', ' if arguments else ''}{arguments})",)


def best_of(eager: Variant, as_it_was: Variant, cured: Variant | None, noise: Noise | None) -> Best | None:
    """The fastest correct way.

    Returns:
        None if eager mode wasn't timed.
    """
    if eager.call_us is None:
        return None
    if cured is not None and judged(cured.speedup, noise) == "faster":
        return "cured"
    if as_it_was.status == "ok" and as_it_was.judgement == "faster":
        return "as you had it"
    return "eager"


def sentence(
    eager: Variant,
    as_it_was: Variant,
    cured: Variant | None,
    best: Best | None,
    steps: Sequence[CureStep],
    call_count: int,
) -> str:
    """The answer."""
    if eager.call_us is None:
        return f"The program fails without torch.compile, so nothing was tried: {eager.reason}."
    times = " → ".join(_time(variant) for variant in (eager, as_it_was, cured) if variant is not None)
    if best == CURED and cured is not None:
        calls = "your call" if call_count == 1 else f"your {call_count:,} calls"
        return f"{times}, verified on {calls}; {_cost(cured, eager)}."
    if best == AS_IT_WAS:
        return f"{times}; nothing that was tried is faster; {_cost(as_it_was, eager)}."
    said = next((finding.message for finding in as_it_was.findings), None)
    if as_it_was.status in ("failed", "wrong") and as_it_was.reason:
        said = f"torch.compile: {as_it_was.reason}."
    tried = counted(sum(step.outcome != "skipped" for step in steps), "other way")
    return f"Plain eager is fastest: {times}. {f'{said} ' if said else ''}Tried: {tried}."


def _time(variant: Variant) -> str:
    if variant.call_us is None:
        return f"{variant.name}: {'it fails' if variant.status == 'failed' else 'not timed'}"
    gain = "" if variant.speedup is None or variant.name == EAGER else f" ({factor_text(variant.speedup.ratio)})"
    wrong = " (with wrong results)" if variant.status == "wrong" else ""
    return f"{variant.name} {duration(variant.call_us.median)}{gain}{wrong}"


def _cost(variant: Variant, eager: Variant) -> str:
    if variant.compile_cold_s is None:
        return "what compiling takes is unknown"
    took = f"compile {seconds_text(variant.compile_cold_s)}"
    return took if variant.break_even_calls is None else f"{took}, {pays_off(variant, eager)}"
