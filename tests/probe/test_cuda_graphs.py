"""What torch's loggers say of CUDA graphs, as the probe hears it."""

from __future__ import annotations

import logging

import torch

from graphdoctor.probe.events import EventFile
from graphdoctor.probe.record.cuda_graphs import CudaGraphWatch
from graphdoctor.probe.torch_private.torch_cuda_graphs import asks_for_cuda_graphs


class Kept(EventFile):
    """Keeps events in memory."""

    def __init__(self) -> None:
        self.kept: list[dict] = []

    def write(self, event) -> None:
        self.kept.append(event)


def _log_non_cudagraphable_node(logger: logging.Logger) -> None:
    """Logs as ``torch/_inductor/scheduler.py``, 2.13, does."""
    logger.debug("    %s: %s", "buf0", "reason=cpu ops, ir=ComputedBuffer")
    for line in ('File "m.py", line 5, in f', "y = x.cpu()"):
        logger.debug("         %s", line)


def test_operations_left_out_and_skipped_graphs_are_heard_and_not_printed(caplog):
    scheduler = logging.getLogger("torch._inductor.scheduler.__cudagraphs")
    level, filters = scheduler.level, list(scheduler.filters)
    watch, events = CudaGraphWatch(), Kept()
    _log_non_cudagraphable_node(scheduler)
    # Its own function: the logger's name and the function's are what tells a skip.
    torch._inductor.cudagraph_utils.log_cudagraph_skip_and_bump_counter("skipping cudagraphs due to mutated inputs")
    watch.report(events)
    watch.close()
    (event,) = events.kept
    assert event["left_out"] == [
        {
            "reason": 'reason=cpu ops, ir=ComputedBuffer\nFile "m.py", line 5, in f\ny = x.cpu()',
            "compile_id": None,
        }
    ]
    assert event["skipped"] == [{"reason": "skipping cudagraphs due to mutated inputs", "compile_id": None}]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert (scheduler.level, scheduler.filters) == (level, filters)
    torch._inductor.cudagraph_utils.log_cudagraph_skip_and_bump_counter("skipping cudagraphs due to mutated inputs")
    assert len(event["skipped"]) == 1


def test_who_asks_for_cuda_graphs():
    assert asks_for_cuda_graphs("inductor", "reduce-overhead", {})
    assert asks_for_cuda_graphs("inductor", "max-autotune", {})
    assert asks_for_cuda_graphs("inductor", None, {"triton.cudagraphs": True})
    assert asks_for_cuda_graphs("cudagraphs", None, {})
    assert not asks_for_cuda_graphs("inductor", None, {})
    assert not asks_for_cuda_graphs("inductor", "max-autotune-no-cudagraphs", {})
    assert not asks_for_cuda_graphs("eager", "reduce-overhead", {})
