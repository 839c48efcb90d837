"""The search for a program, on a library made by hand."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest

torch = pytest.importorskip("torch")

from graphdoctor.probe.catalog.library import (  # noqa: E402
    InputsText,
    ModelText,
    UnknownParameterError,
)
from graphdoctor.probe.catalog.search import RefusedError, find  # noqa: E402


class _Library:
    most_parameters = 1000

    def __init__(self, body: str, *inputs: str | Exception) -> None:
        self._body = body
        self._inputs = inputs

    def families(self) -> dict[str, str]:
        return {}

    def models(self, _name: str) -> Iterator[ModelText]:
        yield ModelText((), self._body)

    def inputs(self, _text: ModelText, _model: object) -> Generator[InputsText, BaseException, None]:
        for each in self._inputs:
            if isinstance(each, Exception):
                raise each
            yield InputsText(each)


def _refused(library: _Library) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        find(library, "net", '"""net.', memory_bytes=None)  # type: ignore[arg-type]
    return caught.value


def test_a_function_is_a_model_that_learns_nothing() -> None:
    found = find(_Library("return torch.relu", "return (torch.ones(2),)"), "relu", '"""relu.', memory_bytes=None)  # type: ignore[arg-type]
    assert found.parameters == 0
    assert "return torch.relu" in found.text


def test_a_missing_library_is_named() -> None:
    refusal = _refused(_Library("import not_there", "return ()"))
    assert refusal.message == ("It needs what can't be imported: ModuleNotFoundError: No module named 'not_there'")


def test_an_input_that_no_rule_knows_is_named_without_our_exception() -> None:
    unknown = UnknownParameterError("No rule knows a value for `graph: Graph` of forward.")
    refusal = _refused(_Library("return torch.relu", unknown))
    assert refusal.kind == "no_inputs"
    assert refusal.message == "No rule knows a value for `graph: Graph` of forward."
