"""Config that is not the default: read without being changed, and nothing of ours in it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch._dynamo")
pytest.importorskip("torch._inductor.config")

from graphdoctor.facts.kernels import Float32Precision
from graphdoctor.probe.torch_private.torch_config import changed_config, float32_precision

DYNAMO, INDUCTOR = torch._dynamo.config, torch._inductor.config


@pytest.fixture(autouse=True)
def untouched() -> Iterator[None]:
    """Other tests of this process may have set some; each begins and ends with the defaults that
    torch knows."""
    before = changed_config()
    yield
    assert changed_config() == before


class Odd:
    def __repr__(self) -> str:
        return "x" * 500

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    __hash__ = None  # type: ignore[assignment]


def test_changed_settings_are_listed_by_dotted_name() -> None:
    with (
        DYNAMO.patch(recompile_limit=5, suppress_errors=False),
        INDUCTOR.patch(
            {
                "triton.cudagraphs": True,
                "post_grad_custom_pre_pass": Odd(),
                "pre_grad_fusion_options": {"a": 1},
            }
        ),
    ):
        changed = changed_config()

    assert changed.pop("torch._inductor.config.post_grad_custom_pre_pass") == "x" * 199 + "…"
    assert changed == {
        "torch._dynamo.config.recompile_limit": "5",
        "torch._inductor.config.triton.cudagraphs": "True",
        "torch._inductor.config.pre_grad_fusion_options": "{'a': 1}",
    }


def test_a_value_changed_in_place_is_listed_once() -> None:
    DYNAMO.reorderable_logging_functions.add(print)
    try:
        assert changed_config() == {
            "torch._dynamo.config.reorderable_logging_functions": repr({print})
        }
    finally:
        DYNAMO.reorderable_logging_functions.clear()
    limit = "torch._dynamo.config.recompile_limit"
    alias = next(name for name, entry in DYNAMO._config.items() if entry.alias == limit)
    with DYNAMO.patch({alias: 6}):
        assert changed_config() == {limit: "6"}


def test_the_warning_of_a_deprecated_value_stays_the_programs() -> None:
    # 2.11 knows of none.
    deprecated = [
        name
        for name, entry in DYNAMO._config.items()
        if getattr(entry, "deprecated", False) and not getattr(entry, "_deprecation_warned", True)
    ]
    if not deprecated:
        pytest.skip("this torch has none, or it was read before")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        changed_config()
    with pytest.warns(FutureWarning):
        getattr(DYNAMO, deprecated[0])


# What float32 computes with on CUDA, as it is read from a torch with and without a device.


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
    assert off == Float32Precision(
        matmul_tf32=False, convolution_tf32=True, capabilities=((9, 0), (7, 5))
    )
    assert on == off.replace(matmul_tf32=True)


def test_without_cuda_nothing_is_said(monkeypatch):
    with_devices(monkeypatch)
    assert float32_precision() is None
    with_devices(monkeypatch, (9, 4))
    monkeypatch.setattr(torch.version, "cuda", None)
    assert float32_precision() is None
