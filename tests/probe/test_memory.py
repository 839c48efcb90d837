"""The most memory of a process."""

from __future__ import annotations

import torch

from graphdoctor.probe.measure.timing import PeakMemory


def test_what_cuda_graphs_keep_for_themselves_is_in_use(monkeypatch):
    segments = [
        {"segment_pool_id": (0, 0), "total_size": 500, "allocated_size": 70},
        {"segment_pool_id": (0, 1), "total_size": 200, "allocated_size": 30},
        {"segment_pool_id": (0, 1), "total_size": 10, "allocated_size": 0},
    ]
    expected = {
        "is_initialized": True,
        "reset_peak_memory_stats": None,
        "memory_allocated": 90,
        "max_memory_allocated": 100,
        "memory_snapshot": segments,
    }
    for name, value in expected.items():
        monkeypatch.setattr(torch.cuda, name, lambda value=value: value)
    assert PeakMemory().bytes() == 100 + 170 + 10
