"""Writes a program down: a file with ``build()`` and ``example_inputs()`` that needs torch and the library alone."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence

from .library import InputsText, ModelText

_WIDTH = 100


def program_text(header: str, model: ModelText, inputs: InputsText, *, parameters: int) -> str:
    """The whole file.

    ``header``: how its docstring begins (``wire.program_header``).
    """
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
    """A call as source, on several lines if it doesn't fit on one.

    ``before``: positional arguments, as source.
    """
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
