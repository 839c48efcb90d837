"""What findings cost: findings and measurements in, the findings with a ``Cost`` each out.

Measured are trials of fixes, gaps between graphs in a steady call, and compile times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Literal

from graphdoctor.facts.diagnosis import Cost, Finding, GraphReport, RecompileReport
from graphdoctor.facts.fixes import TriedFix
from graphdoctor.facts.recording import Recording


def with_costs(
    findings: Sequence[Finding],
    recording: Recording,
    graphs: Sequence[GraphReport],
    recompiles: Sequence[RecompileReport],
) -> list[Finding]:
    """The findings, each with what it costs.

    Args:
        findings: All findings of a diagnosis.
        recording: The recording.
        graphs: Its graphs, each with the finding that ended it.
        recompiles: Its recompiles, each with its finding.
    """
    is_limited = any(compile_.outcome == "limit" for compile_ in recording.compiles)
    # What a function over its limit does in a call is no break's doing, and it leaves no trace there.
    gaps = {} if is_limited else _gaps(recording, graphs, findings) or _whole_call(recording, findings)
    steady_us = recording.steady_call.call_us if recording.steady_call else None
    fixed = _fixed(recording.treatment.tried) if recording.treatment else {}
    compiled = _compile_seconds(recompiles)
    gap_kind: Literal["gap", "host_gap"] = "host_gap" if _is_on_accelerator(recording) else "gap"
    found = []
    for finding in findings:
        cost = fixed.get(finding.fingerprint)
        if finding.fingerprint not in fixed and finding.fingerprint in gaps and steady_us:
            gap = gaps[finding.fingerprint]
            cost = Cost(call_us=gap, call_from=gap_kind, share=gap / steady_us)
        seconds = compiled.get(finding.fingerprint)
        if seconds is not None:
            cost = (cost or Cost()).model_copy(update={"compile_s": seconds})
        found.append(finding.model_copy(update={"cost": cost}) if cost else finding)
    return found


def _is_on_accelerator(recording: Recording) -> bool:
    """Whether a device other than the CPU runs the graphs, so that the host doesn't wait for each of them."""
    inputs = (item for graph in recording.graphs for item in graph.inputs or ())
    devices = {item.device for item in inputs} | {recording.target.call_options.get("device")}
    return any(isinstance(device, str) and device.partition(":")[0] not in ("cpu", "meta") for device in devices)


def _gaps(recording: Recording, graphs: Iterable[GraphReport], findings: Iterable[Finding]) -> Mapping[str, float]:
    """Microseconds from the end of each graph that a break ends to the start of the next graph, by finding.

    A graph that ends with a return belongs to a function called after a break: the gap after it counts for the break
    before.
    """
    if recording.steady_call is None:
        return {}
    ended_by = {graph.index: graph.ended_by_fingerprint for graph in graphs}
    found: dict[str, float] = {}
    current: str | None = None
    runs = recording.steady_call.runs
    for run, following in pairwise(runs):
        current = ended_by.get(run.graph) or current
        if current is not None:
            found[current] = found.get(current, 0.0) + following.start_us - run.end_us
    last = ended_by.get(runs[-1].graph) if runs else None
    is_skipped = any(finding.effects.skipped_frames or finding.effects.rest_eager_frames for finding in findings)
    if last is not None and not is_skipped:
        # No graph follows and no function runs eagerly, so the rest of the call belongs to the last break.
        found[last] = found.get(last, 0.0) + recording.steady_call.call_us - runs[-1].end_us
    return found


def _whole_call(recording: Recording, findings: Iterable[Finding]) -> Mapping[str, float]:
    """The whole call, if no graph runs in it and one line is the only cause."""
    if recording.steady_call is None or recording.steady_call.runs:
        return {}
    causes = [finding for finding in findings if finding.effects.skipped_frames]
    if len({(finding.location.file, finding.location.line) for finding in causes}) != 1:
        return {}
    return {finding.fingerprint: recording.steady_call.call_us for finding in causes}


def _fixed(tried: Iterable[TriedFix]) -> dict[str, Cost | None]:
    """What verified fixes save, by finding of the unchanged program; None where timing shows no difference."""
    found: dict[str, Cost | None] = {}
    for fix in tried:
        if fix.verdict != "verified" or not fix.is_on_untouched or not fix.times:
            continue
        times = fix.times[0]
        if times.ratio_low <= 1 <= times.ratio_high:
            found[fix.fingerprint] = None
            continue
        cost = Cost(call_us=times.before_us * (1 - times.ratio), call_from="fix", share=1 - times.ratio)
        found[fix.fingerprint] = cost
    return found


def _compile_seconds(recompiles: Iterable[RecompileReport]) -> dict[str, float]:
    found: dict[str, float] = {}
    for report in recompiles:
        if report.fingerprint is not None and report.cost_s is not None and not report.is_over_limit:
            found[report.fingerprint] = found.get(report.fingerprint, 0.0) + report.cost_s
    return found
