"""What findings cost: gaps between graphs, verified fixes, compile seconds; and the order that
follows."""

from __future__ import annotations

from typing import Any

from graphdoctor.facts.counts import Counts
from graphdoctor.facts.diagnosis import Finding
from graphdoctor.facts.recording import GraphRun, SteadyCall
from tests.factories import (
    LOOP,
    PRINT,
    change,
    compiled,
    diagnosed,
    entry,
    frame,
    graph,
    recompiled,
    record,
    recording,
)

MEASURES = Counts(
    break_sites=1, skipped_frames=0, graphs=2, compiles=2, recompiles=0, frames_over_limit=0
)


def steady(*runs, call_us=100.0):
    """A steady call by graph, start and end of each run."""
    return SteadyCall(
        call_us=call_us,
        runs=tuple(GraphRun(graph=index, start_us=start, end_us=end) for index, start, end in runs),
    )


def broken(*lines, call=None, effect="resumed", **changes):
    """Breaks at lines, each ending the graph of its number; one more graph runs to the return."""
    ids = [f"{number}/0" for number in range(len(lines) + 1)]
    facts = recording(
        breaks=tuple(
            record(entry(line, f'print("line {line}")'), compile_id=compile_id, effect=effect)
            for line, compile_id in zip(lines, ids, strict=False)
        ),
        frames=(
            frame(),
            *(frame(number, resumes_at=line) for number, line in enumerate(lines, start=1)),
        ),
        compiles=tuple(compiled(compile_id) for compile_id in ids),
        graphs=tuple(graph(compile_id, index=number) for number, compile_id in enumerate(ids)),
    )
    return facts.replace(steady_call=call, **changes)


def skipped(*lines, call):
    """One function skipped because of the break at each line; no graph at all."""
    facts = recording(
        breaks=tuple(
            record(
                entry(line), compile_id=f"{number}/0", effect="frame_skipped", chain=(PRINT, LOOP)
            )
            for number, line in enumerate(lines)
        ),
        frames=tuple(frame(number) for number in range(len(lines))),
        compiles=tuple(compiled(f"{number}/0", outcome="skipped") for number in range(len(lines))),
        graphs=(),
    )
    return facts.replace(steady_call=call)


def again(compile_id, seconds, *values, **options):
    return recompiled(compile_id, *(values or (change(),)), **options).replace(duration_s=seconds)


def on_device(facts, device):
    """The same graphs with their inputs on a device."""
    moved = tuple(
        found.replace(inputs=tuple(item.replace(device=device) for item in found.inputs or ()))
        for found in facts.graphs
    )
    return facts.replace(graphs=moved)


def beside_eager_code(effect):
    """One graph, and another function that runs eagerly."""
    facts = broken(12, call=steady((0, 0, 10)))
    other = record(entry(40, "print(2)"), compile_id="1/0", effect=effect, chain=(PRINT, LOOP))
    outcome: Any = "skipped" if effect == "frame_skipped" else "compiled"
    compiles = (facts.compiles[0], compiled("1/0", outcome=outcome))
    return facts.replace(breaks=(*facts.breaks, other), compiles=compiles)


GAP = steady((0, 5, 20), (1, 60, 100))
MOVED = broken(12, call=steady(call_us=70.0), effect="frame_skipped")
ON_CUDA = MOVED.target.replace(call_options={"device": "cuda"})
ONCE = again("0/1", 0.5)

CASES = {
    "what lies between its graph and the next": broken(12, call=GAP),
    "each break its own gap": broken(12, 15, call=steady((0, 0, 10), (1, 30, 40), (2, 45, 100))),
    "all gaps of a break that fires several times": broken(12, call=steady((0, 0, 10), (0, 30, 40), (1, 45, 100))),
    # A helper of the broken line's caller has a graph of its own, which ends by returning.
    "what follows a graph that returns": broken(12, call=steady((0, 0, 10), (1, 30, 40), (1, 50, 60), (1, 90, 100))),
    "nothing in front of the first break": broken(12, call=steady((1, 0, 10), (0, 40, 50), (1, 60, 100))),
    "the rest of the call after the last graph": broken(12, call=steady((0, 0, 10))),
    "not the rest of the call after a return": broken(12, call=steady((0, 0, 10), (1, 20, 30))),
    "unknown beside a skipped function": beside_eager_code("frame_skipped"),
    "unknown beside a function whose rest is eager": beside_eager_code("rest_eager"),
    "the whole call without a graph": skipped(12, call=steady(call_us=70.0)),
    "nobody's where two lines are to blame": skipped(12, 15, call=steady(call_us=70.0)),
    "nobody's where nothing was skipped": broken(12, call=steady()),
    "unknown without a steady call": broken(12),
    "no share of a call of no length": broken(12, call=steady((0, 0, 0), call_us=0.0)),
    "seconds of recompiles": recording(compiles=(compiled(), ONCE, again("0/2", 0.25, call=3))),
    "no seconds over the limit": recording(compiles=(compiled(), ONCE, again("0/2", 4.0, call=3, outcome="limit"))),
    "seconds that torch did not tell": recording(compiles=(compiled(), again("0/1", None))),
    **{f"on {device}": on_device(broken(12, call=GAP), device) for device in ("cuda:0", "xpu", "cpu")},
    "on a device that no graph tells": MOVED.replace(target=ON_CUDA),
}  # fmt: skip


def test_what_findings_cost(snapshot):
    lines = []
    for name, facts in CASES.items():
        found = [
            (finding.code, finding.location.line, finding.cost)
            for finding in diagnosed(facts).findings
        ]
        lines.append(f"# {name}")
        for code, line, cost in found:
            call = (
                cost
                and cost.call_us is not None
                and f"{cost.call_us:g} us by {cost.call_from}, {cost.share:g}"
            )
            seconds = cost and cost.compile_s is not None and f"{cost.compile_s:g} s"
            lines.append(
                f"  {code} {line}: {' and '.join(filter(None, (call, seconds))) or 'unknown'}"
            )
    assert "\n".join(lines) == snapshot


def order(facts):
    return [finding.location.line for finding in diagnosed(facts).findings]


def test_what_costs_more_comes_first():
    assert order(broken(12, 15, 18)) == [12, 15, 18]
    dear = steady((0, 0, 10), (1, 15, 20), (2, 60, 70), (3, 75, 100))
    assert order(broken(12, 15, 18, call=dear)) == [15, 12, 18]


def test_severity_comes_before_cost():
    dear = broken(12, 15, call=steady((0, 0, 10), (1, 90, 95), (2, 96, 100)))
    worse = dear.breaks[1].replace(effect="raised")
    facts = dear.replace(breaks=(dear.breaks[0], worse))
    findings: tuple[Finding, ...] = diagnosed(facts).findings
    assert [(finding.severity, finding.location.line) for finding in findings] == [
        ("error", 15),
        ("warning", 12),
    ]
