"""What a library's module says to the search, and how a program is written down.

A program is a file with ``build()`` and ``example_inputs()`` that needs torch and the library alone.
"""

from __future__ import annotations

import importlib
import math
import os
import sys
import textwrap
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from ...facts.catalog import Architecture
from ..target.errors import TargetError
from ..wire import LIBRARIES


class ModelText(NamedTuple):
    """One way to build an architecture, as source.

    Args:
        imports: Statements such as ``from transformers import LlamaModel``; ``import torch`` is there already.
        subject: What the library wants to know again when it is asked for inputs.
    """

    imports: tuple[str, ...]
    body: str
    notes: tuple[str, ...] = ()
    subject: Any = None


class InputsText(NamedTuple):
    """Inputs that a model might take, as source.

    Args:
        body: Statements of ``example_inputs()``, which returns a dict of keyword arguments, or a tuple of positional
            ones; torch's seed is set before them.
    """

    body: str
    notes: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()


class Library(Protocol):
    """A library with a catalog."""

    most_parameters: int
    """A model with more is too large for a survey."""

    def version(self) -> str:
        """The installed version."""

    def architectures(self) -> list[Architecture]:
        """All architectures, in the library's order; builds none."""

    def models(self, name: str) -> Iterator[ModelText]:
        """Ways to build an architecture, the smallest first."""

    def inputs(self, text: ModelText, model: Any) -> Generator[InputsText, BaseException, None]:  # noqa: ANN401
        """Inputs to try with a model that was built, the best first.

        Yields:
            Inputs; gets the exception that the model raised with them.
        """


_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE")
"""Keep libraries that load weights by name from the network; they read these when they are imported."""

_HUB_SETTINGS = "huggingface_hub.constants"


def imported(name: str) -> Library:
    """A library's catalog, with the library imported. From now on, this process loads no weights from the network.

    Raises:
        TargetError: The library isn't installed.
    """
    os.environ.update(dict.fromkeys(_OFFLINE, "1"))
    module = LIBRARIES[name]
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise TargetError(
            f"{name} isn't installed for this interpreter.", f"Install it there: pip install {name}."
        ) from error
    if (settings := sys.modules.get(_HUB_SETTINGS)) is not None:
        # It may have been imported before.
        vars(settings)["HF_HUB_OFFLINE"] = True
    library: Library = importlib.import_module(f".{module}", __package__).LIBRARY
    return library


_WIDTH = 100


def program_text(header: str, model: ModelText, inputs: InputsText, *, parameters: int) -> str:
    """The whole file."""
    notes = [f"The model has {parameters:,} parameters.", *model.notes, *inputs.notes]
    paragraphs = [textwrap.fill(note, _WIDTH, break_long_words=False, break_on_hyphens=False) for note in notes]
    docstring = "\n\n".join([header, *paragraphs]).replace("\\", "\\\\")
    plain = ["import torch", *(line for line in (*model.imports, *inputs.imports) if line != "import torch")]
    return (
        f'{docstring}\n"""\n\n{_lines(dict.fromkeys(plain))}\n\n\n{model_source(model)}\n\n\n{inputs_source(inputs)}\n'
    )


def model_source(model: ModelText) -> str:
    """``build()``."""
    return f"def build():\n{_indented('torch.manual_seed(0)', model.body)}"


def inputs_source(inputs: InputsText) -> str:
    """``example_inputs()``."""
    return f"def example_inputs():\n{_indented('torch.manual_seed(0)', inputs.body)}"


def call_text(function: str, arguments: Mapping[str, object], *, before: Sequence[str] = ()) -> str:
    """A call as source, on several lines if it doesn't fit on one."""
    parts = [*before, *(f"{name}={literal(value)}" for name, value in arguments.items())]
    line = f"{function}({', '.join(parts)})"
    if len(line) <= _WIDTH - 20 and "\n" not in line:
        return line
    return f"{function}(\n{_indented(*(f'{part},' for part in parts))}\n)"


def literal(value: object) -> str:
    """A plain value as source: numbers, strings, None, and lists, tuples and dicts of these."""
    short = _short(value)
    if len(short) <= _WIDTH - 30 or not value:
        return short
    if isinstance(value, Mapping):
        items = [f"{literal(key)}: {literal(item)}," for key, item in value.items()]
        return f"{{\n{_indented(*items)}\n}}"
    if isinstance(value, (list, tuple)) and any(isinstance(item, (list, tuple, Mapping)) for item in value):
        left, right = "()" if isinstance(value, tuple) else "[]"
        return f"{left}\n{_indented(*(f'{literal(item)},' for item in value))}\n{right}"
    return short


def _short(value: object) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, str):
        quoted = repr(value)
        return f'"{quoted[1:-1]}"' if quoted[0] == "'" and '"' not in quoted else quoted
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_short(key)}: {_short(item)}' for key, item in value.items())}}}"
    if isinstance(value, tuple):
        return f"({', '.join(map(_short, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, list):
        return f"[{', '.join(map(_short, value))}]"
    return repr(value)


def _lines(lines: Mapping[str, object]) -> str:
    return "\n".join(lines)


def _indented(*parts: str) -> str:
    return textwrap.indent("\n".join(parts), "    ")
