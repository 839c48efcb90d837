"""timm: the smallest model of each of its modules, on small images where the model takes them."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import timm
from timm.models import list_models, list_modules

from .library import InputsText, ModelText, evaluated_body, smallest

_SMALL = 64


class _Timm:
    most_parameters = 200_000_000

    def families(self) -> dict[str, str]:
        return {name: "image" for name in list_modules() if list_models(module=name)}

    def models(self, name: str) -> Iterator[ModelText]:
        for model, notes in smallest(
            list_models(module=name), f"timm.models.{name}", timm.create_model
        ):
            for size in ({"img_size": str(_SMALL)}, {}):
                arguments = {"model_name": f'"{model}"', "pretrained": "False", **size}
                body = evaluated_body("timm.create_model", arguments)
                yield ModelText(("import timm",), body, notes, subject=bool(size))

    def inputs(self, text: ModelText, model: Any) -> Generator[InputsText, BaseException, None]:
        channels, *size = model.default_cfg.get("input_size", (3, 224, 224))
        is_fixed = model.default_cfg.get("fixed_input_size", False)
        sizes = [] if is_fixed and not text.subject else [[_SMALL, _SMALL]]
        for height, width in [*sizes, *([] if text.subject else [size])]:
            yield InputsText(f"return (torch.randn(2, {channels}, {height}, {width}),)")


LIBRARY = _Timm()
