"""transformers: one architecture for each model type, from the library's own tables of names."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Generator, Iterator
from typing import Any

import transformers

from .library import InputsText, ModelText, tables
from .transformers_inputs import candidates
from .transformers_settings import STRENGTHS, configured, shrunk

_MOST_CALLS = 150

_MOST_CLASSES = 3
_AUTO = "transformers.models.auto"
_configuration_auto: Any = importlib.import_module(f"{_AUTO}.configuration_auto")
_modeling_auto: Any = importlib.import_module(f"{_AUTO}.modeling_auto")

_KINDS = tables(__file__)


class _Transformers:
    most_parameters = 100_000_000

    def __init__(self) -> None:
        self._calls = 0

    def families(self) -> dict[str, str]:
        tables = _tables().values()
        types = (
            name
            for name in _configuration_auto.CONFIG_MAPPING_NAMES
            if any(name in table for table in tables)
        )
        return {name: _family(name) for name in types}

    def models(self, name: str) -> Iterator[ModelText]:
        transformers.logging.set_verbosity_error()
        for model_class, config_class in _classes(name):
            whole = configured(config_class)
            seen = []
            for strength in STRENGTHS:
                changes = shrunk(whole, strength)
                if self._calls < _MOST_CALLS and changes not in seen:
                    seen.append(changes)
                    names = ", ".join(sorted({whole.class_name, model_class.__name__}))
                    yield ModelText(
                        imports=(f"from transformers import {names}",),
                        body=(
                            f"config = {whole.source(changes)}\nreturn"
                            f" {model_class.__name__}(config).eval()"
                        ),
                        notes=(f"Of {whole.class_name}'s default configuration, {strength.name}.",),
                    )

    def inputs(self, _text: ModelText, model: Any) -> Generator[InputsText, BaseException, None]:
        trying = candidates(model)
        error = None
        # Not `yield from`: each call counts.
        with contextlib.suppress(StopIteration):
            while True:
                inputs = trying.send(error) if error is not None else next(trying)
                self._calls += 1
                error = yield inputs


LIBRARY = _Transformers()


def _tables() -> dict[str, dict[str, Any]]:
    """Return the table of base models, then those of the heads, the largest first: a head that many
    have is a usual one.
    """
    base = "MODEL_MAPPING_NAMES"
    heads = [
        (name, table)
        for name, table in vars(_modeling_auto).items()
        if name.startswith("MODEL_FOR_") and name.endswith("_MAPPING_NAMES")
    ]
    return {
        base: getattr(_modeling_auto, base),
        **dict(sorted(heads, key=lambda item: -len(item[1]))),
    }


def _classes(name: str) -> Iterator[tuple[Any, Any]]:
    """Yield the classes of a model type, each with its configuration's: the base model, then the
    most usual heads.
    """
    mapped = _configuration_auto.CONFIG_MAPPING[name]
    classes: dict[str, Any] = {}
    for table in _tables().values():
        # Two are given where which one fits depends on the checkpoint.
        listed = table.get(name, ())
        for class_name in [listed] if isinstance(listed, str) else listed[:1]:
            classes.setdefault(class_name, getattr(transformers, class_name, None))
    # Some have no ``forward`` of their own, and can only generate.
    present = (item for item in classes.values() if item is not None)
    usable = [item for item in present if item.forward.__name__ != "_forward_unimplemented"]
    if not usable:
        raise TypeError(f"no forward() in {', '.join(classes)}")
    for model_class in usable[:_MOST_CLASSES]:
        yield model_class, mapped
        # Some base models are made of a part of the configuration.
        declared = getattr(model_class, "config_class", None)
        if declared is not None and declared is not mapped:
            yield model_class, declared


def _family(name: str) -> str:
    """Name a model type's field, from the tasks of its heads, its processors or its parent."""
    listed = _tables()
    kinds = {
        kind
        for kind, signs in _KINDS.items()
        if any(name in listed.get(f"MODEL_FOR_{task}_MAPPING_NAMES", ()) for task in signs["tasks"])
    }
    for kind, signs in _KINDS.items() if not kinds else ():
        module, _, table = signs["processors"].partition(".")
        with contextlib.suppress(ImportError):
            if name in getattr(importlib.import_module(f"{_AUTO}.{module}"), table, {}):
                kinds.add(kind)
    kinds = {"multimodal"} if "multimodal" in kinds else kinds
    if not kinds:
        # What transformers can't import is for its program to say.
        with contextlib.suppress(Exception):
            place = str(_configuration_auto.CONFIG_MAPPING[name].base_config_key)
            words = {kind: signs["words"] for kind, signs in _KINDS.items()}
            kinds = {kind for kind, of in words.items() if any(word in place for word in of)}
    if len(kinds) > 1:
        # A video is images: what takes both and nothing else is for video.
        return "video" if kinds == {"vision", "video"} else "multimodal"
    return next(iter(kinds), "other")
