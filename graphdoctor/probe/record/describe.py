"""Values in short: ``f32[8, 128]``, ``flag=True``. Never copies a tensor and never trusts
``repr``.
"""

from __future__ import annotations

import enum
import functools
from collections import deque
from itertools import islice
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any

import torch
from torch import Tensor

from ...facts.base import Fields
from ...wording import clipped
from ..torch_private.torch_api import DTYPES
from ..torch_private.torch_guards import dispatch_keys

_LENGTHS = frozenset(kind.__len__ for kind in (list, tuple, set, frozenset, deque))
"""Lengths that run no code of the program; subclasses that leave ``__len__`` as it is have it
too."""

_BRACKETS: dict[type, tuple[str, str]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    **dict.fromkeys((set, frozenset, dict), ("{", "}")),
}
_MAX_TEXT = 80
_MAX_ITEMS = 8
_MAX_KEYS = 20
_MAX_BITS = 256
"""Python refuses to print integers of more than 4300 digits."""


def dtype_text(dtype: torch.dtype) -> str:
    """Abbreviate a dtype: ``bf16``."""
    return DTYPES.get(dtype, str(dtype).removeprefix("torch."))


def tensor_text(value: Tensor) -> str:
    """Describe a tensor: ``f32[8, 128]``; with its device when that is not the CPU."""
    device = "" if value.device.type == "cpu" else f" {value.device}"
    return f"{dtype_text(value.dtype)}[{', '.join(map(str, value.shape))}]{device}"


def value_text(value: Any, *, depth: int = 0) -> str:
    """Describe any argument in at most a few dozen characters.

    Only objects of Python's and torch's own classes are asked for their text: one of the program's
    may raise or print.
    """
    if isinstance(value, Tensor):
        return tensor_text(value)
    kind = type(value)
    if kind is int and value.bit_length() > _MAX_BITS:
        return f"<int of {value.bit_length()} bits>"
    if value is None or kind in (bool, int, float, complex):
        return repr(value)
    if isinstance(value, torch.dtype | torch.device | torch.layout | torch.memory_format):
        return str(value)
    if isinstance(value, enum.Enum):
        # Its name is Python's; its repr may be the program's.
        return f"{_name_of(kind)}.{value._name_}"
    if kind is torch.Size:
        return f"[{', '.join(map(str, value))}]"
    if kind is str:
        return repr(clipped(value, _MAX_TEXT))
    if depth >= 3 or kind not in _BRACKETS:
        return f"<{_name_of(kind)}>"
    if kind is dict:
        texts = [
            f"{key[:40] if type(key) is str else value_text(key, depth=3)}: "
            f"{value_text(item, depth=depth + 1)}"
            for key, item in islice(value.items(), _MAX_ITEMS)
        ]
    else:
        texts = [value_text(item, depth=depth + 1) for item in islice(value, _MAX_ITEMS)]
    if len(value) > _MAX_ITEMS:
        texts.append(f"… {len(value) - _MAX_ITEMS} more")
    opening, closing = _BRACKETS[kind]
    return f"{opening}{', '.join(texts)}{closing}"


def _name_of(kind: type) -> str:
    return kind.__qualname__.rpartition("<locals>.")[2]


def arguments_text(args: tuple[Any, ...], kwargs: Fields) -> str:
    """Describe the arguments of a call."""
    parts = [value_text(value) for value in args]
    return ", ".join(parts + [f"{name}={value_text(value)}" for name, value in kwargs.items()])


def value_description(value: Any) -> Fields:
    """Describe a guarded value: type, text, and what a guard can be about.

    Of a tensor ``dtype``, ``shape``, ``stride``, ``device``, ``requires_grad`` and dispatch
    ``keys``; of a dict ``keys`` and ``length``; of another container ``length``; of a function,
    method or code object ``place``, its file and line.
    """
    kind = type(value)
    code: object = value.func if isinstance(value, functools.partial) else value
    code = code.__func__ if isinstance(code, MethodType) else code
    code = code.__code__ if isinstance(code, FunctionType) else code
    described: Fields = {"type": _name_of(kind), "text": value_text(value)}
    if isinstance(value, Tensor):
        described |= {
            "dtype": dtype_text(value.dtype),
            "shape": [int(size) for size in value.shape],
            "device": str(value.device),
            "requires_grad": value.requires_grad,
            "keys": dispatch_keys(value),
        }
        if value.layout is torch.strided:
            described["stride"] = list(value.stride())
    elif issubclass(kind, dict) and kind.__module__ in ("collections", "builtins"):
        described["keys"] = [value_text(key) for key in islice(value, _MAX_KEYS)]
        described["length"] = len(value)
    elif getattr(kind, "__len__", None) in _LENGTHS:
        described["length"] = len(value)
    elif isinstance(code, CodeType):
        described["text"] = f"`{code.co_name}`"
        described["place"] = f"{code.co_filename}:{code.co_firstlineno}"
    elif isinstance(value, type):
        described["text"] = f"class `{_name_of(value)}`"
    elif isinstance(value, BuiltinFunctionType):
        described["text"] = f"`{value.__name__}`"
    return described
