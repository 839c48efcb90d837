"""What can be changed in a call's arguments."""

from typing import Any, Literal

import pytest

torch = pytest.importorskip("torch")

from graphdoctor.probe.replay.leaves import leaves_of


def test_choices_are_known_beside_an_annotation_that_names_nothing() -> None:
    def function(x: "Missing", mode: Literal["sum", "mean"] = "sum") -> Any:  # type: ignore[name-defined]  # noqa: F821
        return getattr(x, mode)()

    choices = {
        leaf.expression: leaf.choices for leaf in leaves_of(((torch.ones(2),), {}), function)
    }
    assert choices == {"x": (), "mode": ("sum", "mean")}
