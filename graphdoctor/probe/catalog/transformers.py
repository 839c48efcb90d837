"""The catalog of transformers: one architecture for each model type.

``huggingface/names.py`` lists them, ``configurations.py`` reads and writes configurations, ``shrinking.py`` makes them
small, and ``inputs.py`` finds what a model takes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator
from typing import Any

import transformers

from ..wire import ArchitectureRecord
from .huggingface import names
from .huggingface.configurations import Configured, configured
from .huggingface.inputs import candidates
from .huggingface.shrinking import STRENGTHS, shrunk
from .library import InputsText, ModelText

_MOST_CALLS = 150


class Transformers:
    """transformers, as it is installed."""

    most_parameters = 100_000_000

    def __init__(self) -> None:
        self._calls = 0

    def version(self) -> str:
        """The installed version."""
        return str(transformers.__version__)

    def architectures(self) -> list[ArchitectureRecord]:
        """All model types that have a model class."""
        return [ArchitectureRecord(name=name, family=names.family(name)) for name in names.model_types()]

    def models(self, name: str) -> Iterator[ModelText]:
        """The base model, with its configuration smaller or less small."""
        transformers.logging.set_verbosity_error()
        for model_class, config_class in names.classes(name):
            whole = configured(config_class)
            seen = []
            for strength in STRENGTHS:
                changes = shrunk(whole.settings, strength)
                if self._calls < _MOST_CALLS and changes not in seen:
                    seen.append(changes)
                    yield _model_text(model_class, whole, changes, strength.name)

    def inputs(self, _text: ModelText, model: Any) -> Generator[InputsText, BaseException, None]:  # noqa: ANN401
        """Inputs by the names of the arguments of ``forward``."""
        trying = candidates(model)
        error: BaseException | None = None
        # Not `yield from`: each call counts.
        with contextlib.suppress(StopIteration):
            while True:
                inputs = next(trying) if error is None else trying.send(error)
                self._calls += 1
                error = yield inputs


def _model_text(model_class: type, whole: Configured, changes: dict[str, Any], strength: str) -> ModelText:
    return ModelText(
        imports=(f"from transformers import {', '.join(sorted({whole.class_name, model_class.__name__}))}",),
        body=f"config = {whole.source(changes)}\nreturn {model_class.__name__}(config).eval()",
        notes=(f"Of {whole.class_name}'s default configuration, {strength}.",),
    )


LIBRARY = Transformers()
