"""What a value is, in short: ``f32[8, 128]``, ``flag=True``. Never copies a tensor and never trusts
``repr``.
"""

from __future__ import annotations

import enum
import functools
from collections import deque
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any

import torch

from ..torch_private.torch_guards import dispatch_keys

DTYPES = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.bool: "b8",
    torch.complex64: "c64",
    torch.complex128: "c128",
}
"""torch's own abbreviations (``torch/fx/graph.py``, 2.13, ``dtype_abbrs``)."""
_LENGTHS = frozenset(kind.__len__ for kind in (list, tuple, set, frozenset, deque))
"""What tells a length without running code of the program; subclasses that leave it as it is have
it too."""

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
    """A dtype's short name, such as ``bf16``."""
    return DTYPES.get(dtype, str(dtype).removeprefix("torch."))


def tensor_text(value: torch.Tensor) -> str:
    """A tensor's dtype and shape, such as ``f32[8, 128]``; its device too when that is not the
    CPU.
    """
    device = "" if value.device.type == "cpu" else f" {value.device}"
    return f"{dtype_text(value.dtype)}[{', '.join(str(size) for size in value.shape)}]{device}"


def value_text(value: object, *, depth: int = 0) -> str:
    """Any argument in at most a few dozen characters.

    Only objects of Python's and torch's own classes are asked for their text: one of the program's
    may raise or print.
    """
    if isinstance(value, torch.Tensor):
        return tensor_text(value)
    kind = type(value)
    if kind is int and value.bit_length() > _MAX_BITS:  # type: ignore[attr-defined]
        return f"<int of {value.bit_length()} bits>"  # type: ignore[attr-defined]
    if value is None or kind in (bool, int, float, complex):
        return repr(value)
    if isinstance(value, (torch.dtype, torch.device, torch.layout, torch.memory_format)):
        return str(value)
    if isinstance(value, enum.Enum):
        # Its name is Python's; its repr may be the program's.
        return f"{_name_of(kind)}.{value._name_}"
    if kind is torch.Size:
        return f"[{', '.join(map(str, value))}]"  # type: ignore[call-overload]
    if kind is str:
        return repr(value if len(value) <= _MAX_TEXT else value[: _MAX_TEXT - 1] + "…")  # type: ignore[arg-type,index]
    if depth < 3 and kind in _BRACKETS:
        items: Any = value.items() if kind is dict else value  # type: ignore[attr-defined]
        shown = [item for _, item in zip(range(_MAX_ITEMS), items, strict=False)]
        if kind is dict:
            keys = (key[:40] if type(key) is str else value_text(key, depth=3) for key, _ in shown)
            texts = [
                f"{key}: {value_text(item, depth=depth + 1)}"
                for key, (_, item) in zip(keys, shown, strict=True)
            ]
        else:
            texts = [value_text(item, depth=depth + 1) for item in shown]
        if len(items) > _MAX_ITEMS:
            texts.append(f"… {len(items) - _MAX_ITEMS} more")
        opening, closing = _BRACKETS[kind]
        return f"{opening}{', '.join(texts)}{closing}"
    return f"<{_name_of(kind)}>"


def _name_of(kind: type) -> str:
    return kind.__qualname__.rpartition("<locals>.")[2]


def arguments_text(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """The arguments of a call."""
    parts = [value_text(value) for value in args]
    parts += [f"{name}={value_text(value)}" for name, value in kwargs.items()]
    return ", ".join(parts)


def value_description(value: object) -> dict[str, Any]:
    """A guarded value: type, text, and what a guard can be about.

    Of a tensor ``dtype``, ``shape``, ``stride``, ``device``, ``requires_grad`` and dispatch
    ``keys``; of a dict ``keys`` and ``length``; of another container ``length``; of a function,
    method or code object ``place``, its file and line.
    """
    kind = type(value)
    described: dict[str, Any] = {"type": _name_of(kind), "text": value_text(value)}
    if isinstance(value, torch.Tensor):
        described |= {
            "dtype": dtype_text(value.dtype),
            "shape": [int(size) for size in value.shape],
            "device": str(value.device),
            "requires_grad": value.requires_grad,
            "keys": dispatch_keys(value),
        }
        if value.layout is torch.strided:
            described["stride"] = list(value.stride())
        return described
    if kind is dict or (issubclass(kind, dict) and kind.__module__ in ("collections", "builtins")):
        keys = [value_text(key) for _, key in zip(range(_MAX_KEYS), value, strict=False)]  # type: ignore[call-overload]
        described["keys"] = keys
        described["length"] = len(value)  # type: ignore[arg-type]
        return described
    if getattr(kind, "__len__", None) in _LENGTHS:
        described["length"] = len(value)  # type: ignore[arg-type]
        return described
    code = _code_of(value)
    if code is not None:
        described["text"] = f"`{code.co_name}`"
        described["place"] = f"{code.co_filename}:{code.co_firstlineno}"
    elif isinstance(value, type):
        described["text"] = f"class `{_name_of(value)}`"
    elif isinstance(value, BuiltinFunctionType):
        described["text"] = f"`{value.__name__}`"
    return described


def _code_of(value: object) -> CodeType | None:
    if isinstance(value, functools.partial):
        value = value.func
    if isinstance(value, MethodType):
        value = value.__func__
    if isinstance(value, FunctionType):
        return value.__code__
    return value if isinstance(value, CodeType) else None
