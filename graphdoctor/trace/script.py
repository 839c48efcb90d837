"""What the recording of a program that ran by itself, or of a block of one, lacks, and why it may be empty."""

from __future__ import annotations

from graphdoctor.model.recording import CaptureGap, Recording


def script_gaps(recording: Recording, *, is_hooked: bool) -> list[CaptureGap]:
    """The gaps of a script's recording, or a block's.

    Args:
        recording: All of it.
        is_hooked: The recorder was loaded into the program.
    """
    gaps = []
    if not is_hooked:
        gaps.append(
            CaptureGap(
                code="GD900",
                message="The interpreter did not load graphdoctor's recorder, as if it ignored PYTHONPATH: there are "
                "torch's own records at most.",
            )
        )
    if recording.compiles:
        messages = (
            f"A {recording.target.kind}'s calls have no numbers: what happened is told by line and call path alone.",
            f"Coverage was not measured: a {recording.target.kind}'s calls are not repeated.",
        )
        return [*gaps, *(CaptureGap(code="GD900", message=message) for message in messages)]
    if is_hooked:
        gaps.append(CaptureGap(code="GD905", message=_why_empty(recording)))
    return gaps


def _why_empty(recording: Recording) -> str:
    if recording.target.kind == "block":
        return (
            "Nothing was compiled in the block: no compiled function was called there, torch.compile was disabled, or "
            "all that was needed had been compiled before. record(reset=True) has it compiled again."
        )
    if recording.environment.torch is None:
        return "Nothing was compiled: the script did not import torch."
    if not recording.compile_calls:
        return "Nothing was compiled: the script did not call torch.compile."
    return (
        "Nothing was compiled: torch began no compile although torch.compile was called. What it returned was not "
        "called, or torch.compile was disabled."
    )
