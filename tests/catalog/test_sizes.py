"""Models by size."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from graphdoctor.probe.catalog.library import by_size  # noqa: E402


def _linear(name: str) -> object:
    return torch.nn.Linear(int(name), 10)


def test_the_smallest_comes_first() -> None:
    assert by_size(["100", "10", "1000"], _linear) == ["10", "100", "1000"]


def test_nothing_is_allocated_for_a_model_of_any_size() -> None:
    assert by_size(["1_000_000_000_000", "10"], _linear) == ["10", "1_000_000_000_000"]


def test_a_model_that_computes_while_it_is_built_is_counted_all_the_same() -> None:
    def computed(name: str) -> object:
        return torch.nn.Linear(int(torch.arange(int(name)).sum().item()), 10)

    register = torch.nn.Module.register_parameter
    assert by_size(["30", "3"], computed) == ["3", "30"]
    assert torch.nn.Module.register_parameter is register


def test_what_cannot_be_built_is_left_out_and_reported_if_it_is_all() -> None:
    assert by_size(["none", "10"], _linear) == ["10"]
    with pytest.raises(ValueError, match="invalid literal"):
        by_size(["none", "ten"], _linear)
