"""Gaps that every way in can find: what torch left unrecorded, and which of our handlers failed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..wire import GapEvent

if TYPE_CHECKING:
    from ..torch_private.torch_trace import TraceKeeper
    from .guards import RecompileRecorder
    from .listener import TraceListener


def unrecorded_gap(reasons: Sequence[str]) -> GapEvent:
    """Torch left a function to eager mode without a record of it."""
    message = f"torch.compile left a function to eager mode and wrote no record of it. {'; '.join(reasons)}"
    return GapEvent(event="gap", kind="unrecorded_compile", message=message)


def hook_gap(what: str, error: Exception) -> GapEvent:
    """A hook can't be installed in this torch."""
    message = f"graphdoctor can't record {what} with this torch ({type(error).__name__}: {error})."
    return GapEvent(event="gap", kind="missing_torch_name", message=message)


def failure_gaps(
    listener: TraceListener, recompiles: RecompileRecorder | None, keeper: TraceKeeper | None
) -> Iterator[GapEvent]:
    """What raised in our own handlers and what never reached them, usually nothing."""
    if keeper is not None and keeper.write_error is not None:
        reason = keeper.write_error.strerror or str(keeper.write_error)
        message = f"The trace log could not be written: {reason}. What torch did afterwards is missing."
        yield GapEvent(event="gap", kind="log_removed", message=message)
    elif keeper is not None and (lost := keeper.lost_count(listener.finished_compiles)):
        compiles = "1 compile" if lost == 1 else f"{lost} compiles"
        message = (
            f"The program changed torch's trace logger (torch.__trace) while torch compiled: records of {compiles} "
            "are missing."
        )
        yield GapEvent(event="gap", kind="log_removed", message=message)
    for name, count in listener.failures.items():
        message = f"{count} of torch's records could not be read during the run ({name})."
        yield GapEvent(event="gap", kind="stacks", message=message)
    for name, count in (recompiles.failures if recompiles else {}).items():
        message = f"{count} sets of guards could not be read during the run ({name})."
        yield GapEvent(event="gap", kind="recompile_causes", message=message)
