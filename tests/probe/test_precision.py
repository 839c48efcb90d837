"""What float32 computes with on CUDA, as the probe reads it from a torch with and without a device."""

from __future__ import annotations

import torch

from graphdoctor.facts.kernels import Float32Precision
from graphdoctor.facts.reading import plain
from graphdoctor.probe.torch_private.torch_config import float32_precision
from graphdoctor.trace.events import Events


def with_devices(monkeypatch, *capabilities: tuple[int, int]) -> None:
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: bool(capabilities))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(capabilities))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capabilities[device])


def test_the_setting_is_read_as_the_program_leaves_it(monkeypatch):
    with_devices(monkeypatch, (9, 0), (7, 5))
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("highest")
        off = float32_precision()
        torch.set_float32_matmul_precision("high")
        on = float32_precision()
    finally:
        torch.set_float32_matmul_precision(before)
    assert off == Float32Precision(matmul_tf32=False, convolution_tf32=True, capabilities=((9, 0), (7, 5)))
    assert on is not None
    assert on.matmul_tf32
    assert Events([{"event": "float32_precision", **plain(off)}]).fact("float32_precision", Float32Precision) == off


def test_without_cuda_nothing_is_said(monkeypatch):
    with_devices(monkeypatch)
    assert float32_precision() is None
    with_devices(monkeypatch, (9, 4))
    monkeypatch.setattr(torch.version, "cuda", None)
    assert float32_precision() is None
