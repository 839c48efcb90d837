"""Makes a report of what a profile recorded."""

from __future__ import annotations

from graphdoctor.model.bench import CallTimes
from graphdoctor.model.diagnosis import Diagnosis
from graphdoctor.model.profile import ProfileReport
from graphdoctor.model.recording import Recording
from graphdoctor.profile.fusion import fusion_of
from graphdoctor.profile.lines import module_roots, share_out


def profile_report(recording: Recording, diagnosis: Diagnosis, *, version: str) -> ProfileReport:
    """What a profile found.

    Args:
        recording: What was recorded.
        diagnosis: What it means.
        version: The version that writes it.
    """
    profiled = recording.profiled
    calls = [call.inputs for call in recording.calls if call.inputs]
    report = ProfileReport(
        graphdoctor_version=version,
        environment=recording.environment,
        target=diagnosis.target,
        call=calls[-1] if calls else None,
        device=None if profiled is None else profiled.call.device,
        call_us=None if profiled is None else CallTimes.of(profiled.call.times_us),
        cuda_graphs=recording.cuda_graphs,
        caches=recording.caches,
        findings=diagnosis.findings,
        gaps=diagnosis.gaps,
    )
    if profiled is None or report.call_us is None:
        return report
    shared = share_out(profiled, report.call_us.median, module_roots(recording))
    seen = recording.kernels
    is_seen = seen is not None and seen.kernels_us is not None
    kernels_us = sum(kernel.us for kernel in profiled.call.kernels) if is_seen else None
    return report.model_copy(
        update={
            "eager_us": None if profiled.call.eager is None else CallTimes.of(profiled.call.eager.times_us),
            "kernels_us": kernels_us,
            "kernels": shared.kernels,
            "lines": shared.lines,
            "modules": shared.modules,
            "parts": shared.parts,
            "unattributed_us": shared.unattributed_us,
            "rest_us": None if kernels_us is None else max(0.0, report.call_us.median - kernels_us),
            "fusion": fusion_of(profiled),
            "graph_input_copy_us": None if seen is None else seen.graph_input_copy_us,
        }
    )
