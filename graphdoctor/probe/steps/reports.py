"""What a run reports around its calls: where it runs, torch's config, which of our handlers failed."""

from __future__ import annotations

from ..events import EventFile
from ..record.environment import describe_environment
from ..record.gaps import failure_gaps
from ..record.guards import RecompileRecorder
from ..record.listener import TraceListener
from ..record.tracebacks import type_name
from ..torch_private import torch_api
from ..torch_private.torch_config import changed_config, float32_precision
from ..torch_private.torch_kernels import SHOWN_BY
from ..torch_private.torch_trace import TraceKeeper
from ..wire import ConfigEvent


def report_environment(events: EventFile, device_name: str | None) -> None:
    """Report where the target runs, and what this torch lacks."""
    missing = torch_api.missing()
    events.write(describe_environment(device_name))
    for name, purpose in missing.items():
        events.gap("missing_torch_name", f"This torch has no {name}: {purpose} is not available.")


def report_config(
    events: EventFile, reported: dict[str, str] | None = None, *, has_kernels: bool = False
) -> dict[str, str]:
    """Report which of torch's config values differ from their defaults.

    Called before the calls, since they may never end, and after them, since they may set some.

    ``reported``: the values that were reported before, which aren't reported again; None for none.
    ``has_kernels``: we changed settings to see Inductor's kernels, which aren't the program's.

    Returns:
        The values.
    """
    try:
        values = changed_config()
    except Exception as error:  # noqa: BLE001 - an extra; its failure must not lose the report
        events.gap("config", f"torch's config could not be read ({type_name(error)}).")
        return {}
    if has_kernels:
        for name in SHOWN_BY:
            values.pop(name, None)
    if values != reported:
        events.write(ConfigEvent(event="config", values=values))
    return values


def report_float32_precision(events: EventFile) -> None:
    """Report what float32 computes with on CUDA. Called after the calls, since they may set it."""
    found = float32_precision()
    if found is not None:
        events.write(found)


def report_failures(
    listener: TraceListener, recompiles: RecompileRecorder, keeper: TraceKeeper, events: EventFile
) -> None:
    """Report what raised in our own handlers and what never reached them, usually nothing."""
    for gap in failure_gaps(listener, recompiles, keeper):
        events.write(gap)
