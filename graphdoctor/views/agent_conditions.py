"""PyTorch's three conditions for an agent's edit, as ``try_patch`` says them."""

from __future__ import annotations

from collections.abc import Iterator

from graphdoctor.facts.fixes import TriedPatch
from graphdoctor.facts.recording import Recording
from graphdoctor.wording import counted, listed


def conditions(recording: Recording) -> Iterator[str]:
    """Say of each whether a patch that was tried meets it; nothing if none was."""
    if recording.treatment is None or (patch := recording.treatment.patch) is None:
        return
    yield "PyTorch judges an agent's edit by three conditions:"
    yield f"- no graph break with the program's own inputs: {_breaks(recording, patch)}"
    yield f"- no settings of the agent's: {_settings(recording, patch)}"
    shapes = dict.fromkeys(call.inputs for call in recording.calls if call.inputs is not None)
    yield f"- realistic shapes, which you have to judge: {'; '.join(shapes) or 'unknown'}\n"


def _breaks(recording: Recording, patch: TriedPatch) -> str:
    if recording.target.inputs:
        return "unknown, because the inputs were given"
    if (after := patch.after) is None:
        return "unknown"
    counts = {
        "break site": after.break_sites,
        "skipped frame": after.skipped_frames,
        "function over the recompile limit": after.frames_over_limit,
    }
    left = [counted(count, what) for what, count in counts.items() if count]
    return f"not met, {listed(left)} left" if left else "met"


def _settings(recording: Recording, patch: TriedPatch) -> str:
    given = recording.target.compile_arguments
    options = {name: given.get(name) for name in ("mode", "dynamic", "options")}
    if patch.config is None:
        return "unknown"
    named = [f"{name}={value}" for name, value in (options | patch.config).items() if value]
    return f"not met, {listed(named)}" if named else "met"
