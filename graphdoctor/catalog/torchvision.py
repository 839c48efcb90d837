"""torchvision: the smallest model of each of its modules, with inputs as their kind takes them.

Not the quantized ones: they are for a backend of their own, and torch.compile has other ways to
quantize.
"""

from __future__ import annotations

import inspect
from collections.abc import Generator, Iterator
from typing import Any

from torchvision.models import get_model_builder, list_models

from .library import InputsText, ModelText, evaluated_body, smallest

_HOME = "torchvision.models."
_CLASSIFICATION = "classification"
_LEFT_OUT = "quantization"

_SMALLER: dict[str, tuple[dict[str, str], ...]] = {
    _CLASSIFICATION: ({"image_size": "64"}, {}),
    "detection": ({"min_size": "128", "max_size": "128"}, {}),
}
"""Arguments that make a model work on less than it would, by family; a model that takes none is
left alone."""

_INPUTS: dict[str, tuple[str, ...]] = {
    _CLASSIFICATION: (
        "torch.randn(2, 3, 64, 64)",
        "torch.randn(2, 3, 224, 224)",
        "torch.randn(2, 3, 299, 299)",
    ),
    "segmentation": ("torch.randn(2, 3, 64, 64)",),
    "detection": ("[torch.rand(3, 128, 128), torch.rand(3, 128, 96)]",),
    "video": (
        "torch.randn(1, 3, 8, 64, 64)",
        "torch.randn(1, 3, 16, 112, 112)",
        "torch.randn(1, 3, 16, 224, 224)",
    ),
    "optical_flow": ("torch.randn(1, 3, 128, 128), torch.randn(1, 3, 128, 128)",),
}


class _Torchvision:
    most_parameters = 200_000_000

    def families(self) -> dict[str, str]:
        return {name: _family(name) for name in _modules()}

    def models(self, name: str) -> Iterator[ModelText]:
        family = _family(name)
        for model, notes in smallest(_modules()[name], f"{_HOME}{name}", _built):
            untrained = dict.fromkeys(_weights(model), "None")
            for smaller in _SMALLER.get(family, ({},)):
                body = evaluated_body(model, {**untrained, **smaller})
                yield ModelText(
                    (f"from {_HOME}{name} import {model}",), body, notes, subject=family
                )

    def inputs(self, text: ModelText, _model: Any) -> Generator[InputsText, BaseException, None]:
        for values in _INPUTS.get(text.subject, _INPUTS[_CLASSIFICATION]):
            yield InputsText(f"return ({values},)")


LIBRARY = _Torchvision()


def _modules() -> dict[str, list[str]]:
    modules: dict[str, list[str]] = {}
    for name in list_models():
        module = get_model_builder(name).__module__.removeprefix(_HOME)
        if not module.startswith(_LEFT_OUT):
            modules.setdefault(module, []).append(name)
    return modules


def _family(module: str) -> str:
    family, _, rest = module.partition(".")
    return family if rest else _CLASSIFICATION


def _weights(model: str) -> list[str]:
    return [
        name
        for name in inspect.signature(get_model_builder(model)).parameters
        if name.startswith("weights")
    ]


def _built(model: str) -> Any:
    return get_model_builder(model)(**dict.fromkeys(_weights(model)))
