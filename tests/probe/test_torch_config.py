"""Config that is not the default: read without being changed, and nothing of ours in it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch._dynamo")
pytest.importorskip("torch._inductor.config")

from graphdoctor.probe.torch_private.torch_config import changed_config  # noqa: E402

DYNAMO, INDUCTOR = torch._dynamo.config, torch._inductor.config


@pytest.fixture(autouse=True)
def untouched() -> Iterator[None]:
    """Other tests of this process may have set some; each begins and ends with the defaults that torch knows."""
    before = changed_config()
    yield
    assert changed_config() == before


class Odd:
    def __repr__(self) -> str:
        return "x" * 500

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    __hash__ = None  # type: ignore[assignment]


def test_what_was_set_is_listed_by_its_dotted_name_as_python_prints_it() -> None:
    with (
        DYNAMO.patch(recompile_limit=5, suppress_errors=False),
        INDUCTOR.patch(
            {"triton.cudagraphs": True, "post_grad_custom_pre_pass": Odd(), "pre_grad_fusion_options": {"a": 1}}
        ),
    ):
        found = changed_config()

    assert found.pop("torch._inductor.config.post_grad_custom_pre_pass") == "x" * 199 + "…"
    assert found == {
        "torch._dynamo.config.recompile_limit": "5",
        "torch._inductor.config.triton.cudagraphs": "True",
        "torch._inductor.config.pre_grad_fusion_options": "{'a': 1}",
    }


def test_a_value_changed_in_place_is_listed() -> None:
    DYNAMO.reorderable_logging_functions.add(print)
    try:
        assert changed_config() == {"torch._dynamo.config.reorderable_logging_functions": repr({print})}
    finally:
        DYNAMO.reorderable_logging_functions.clear()


def test_another_name_of_a_value_is_not_listed_too() -> None:
    alias = next(
        name for name, entry in DYNAMO._config.items() if entry.alias == "torch._dynamo.config.recompile_limit"
    )

    with DYNAMO.patch({alias: 6}):
        assert changed_config() == {"torch._dynamo.config.recompile_limit": "6"}


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
