"""Makes a report of what a profile recorded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from graphdoctor.facts.bench import CallTimes
from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.picture import SourceText
from graphdoctor.facts.profile import ProfiledLine, ProfileReport
from graphdoctor.facts.recording import Recording
from graphdoctor.studies.profile.fusion import fusion_of
from graphdoctor.studies.profile.lines import module_roots, share_out
from graphdoctor.studies.profile.memory import memory_use
from graphdoctor.studies.profile.regime import regime_of
from graphdoctor.studies.profile.restart import compiling, restarted
from graphdoctor.studies.profile.roofline import judged, with_bounds


def profile_report(
    recording: Recording, diagnosis: Diagnosis, again: Recording | None = None, *, version: str
) -> ProfileReport:
    """What a profile found.

    Args:
        recording: What was recorded; with its picture, lines have their text.
        diagnosis: What it means.
        again: A second start of the program; None if there was none.
        version: The version that writes it.
    """
    profiled = recording.profiled
    calls = [call.inputs for call in recording.calls if call.inputs]
    report = ProfileReport(
        graphdoctor_version=version,
        environment=recording.environment,
        target=diagnosis.recording.target,
        call=calls[-1] if calls else None,
        device=None if profiled is None else profiled.call.device,
        call_us=None if profiled is None else CallTimes.of(profiled.call.times_us),
        cuda_graphs=recording.cuda_graphs,
        caches=recording.caches,
        compile_cold_s=compiling(recording).all_s,
        findings=diagnosis.findings,
        gaps=diagnosis.recording.gaps,
    )
    if again is not None:
        report = report.model_copy(update=restarted(again))
    if profiled is None or report.call_us is None:
        return report
    roots = module_roots(recording)
    shared = share_out(profiled, report.call_us.median, roots)
    kernels = judged(shared.kernels, profiled.calibration, profiled.call.device)
    lines = with_bounds(shared.lines, shared.parts, kernels)
    seen = recording.kernels
    is_seen = seen is not None and seen.kernels_us is not None
    kernels_us = sum(kernel.us for kernel in profiled.call.kernels) if is_seen else None
    known = report.model_copy(
        update={
            "eager_us": None if profiled.call.eager is None else CallTimes.of(profiled.call.eager.times_us),
            "kernels_us": kernels_us,
            "kernels": kernels,
            "lines": tuple(_with_texts(lines, recording.picture.files if recording.picture else ())),
            "modules": shared.modules,
            "parts": shared.parts,
            "unattributed_us": shared.unattributed_us,
            "rest_us": None if kernels_us is None else max(0.0, report.call_us.median - kernels_us),
            "fusion": fusion_of(profiled),
            "calibration": profiled.calibration,
            "memory": memory_use(profiled, recording.memory, roots, has_backward=recording.target.has_backward),
            "graph_launches": None if seen is None else seen.graph_launches,
            "graph_input_copy_us": None if seen is None else seen.graph_input_copy_us,
        }
    )
    return known.model_copy(update={"regime": regime_of(known, recording, diagnosis)})


def _with_texts(lines: Iterable[ProfiledLine], files: Iterable[SourceText]) -> Iterator[ProfiledLine]:
    """Lines with their text as it was while the program ran, where no stack has it."""
    texts = {file.file: file.text.split("\n") for file in files if file.text is not None}
    for line in lines:
        known = texts.get(line.file, [])
        if line.text is None and 0 < line.line <= len(known):
            yield line.model_copy(update={"text": known[line.line - 1].strip()})
        else:
            yield line
