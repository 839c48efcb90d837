"""The plain values that a program can read in a call: numbers, texts, sizes, functions by name.

A graph has such values in it, and guards that they stay as they are. Where no guard does, what
changed between two calls says which value it was. Read are arguments, attributes of modules and
objects, what the functions find around them, and torch's modes.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from types import CodeType, FunctionType, ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from ..record.describe import value_description, value_text
from ..record.files import is_user_file
from ..target.snapshot import attribute_names, names_in
from ..target.targets import Call
from .leaves import passed_arguments

_MAX_VALUES = 5000
_MAX_FUNCTIONS = 400
_MAX_DEPTH = 4
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_OF_EVERY_MODULE = frozenset(vars(Module())) - {"training"}
_PLAIN = (
    bool, int, float, complex, str, bytes, type(None), enum.Enum,
    torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size,
)  # fmt: skip


def plain_values(function: Any, call: Call) -> dict[str, str]:
    """Read them all as text, by expression: ``self.scale`` of the target or its module."""
    values = _Values()
    for _, name, value in passed_arguments(call, function):
        values.add(value, name, is_argument=True)
    owner = function if isinstance(function, Module) else getattr(function, "__self__", None)
    if owner is not None:
        values.add(owner, "self")
    values.add_functions(function)
    return values.texts | _modes()


def changing_values(calls: Sequence[dict[str, str]]) -> dict[str, tuple[str | None, ...]]:
    """Keep the values that differ between calls, in the order of the calls."""
    names = dict.fromkeys(name for values in calls for name in values)
    texts = {name: tuple(values.get(name) for values in calls) for name in names}
    return {name: of_calls for name, of_calls in texts.items() if len({*of_calls}) > 1}


def _modes() -> dict[str, str]:
    modes = {
        "grad mode": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "torch.get_default_dtype()": torch.get_default_dtype(),
        "torch.get_default_device()": torch.get_default_device(),
        "torch.get_float32_matmul_precision()": torch.get_float32_matmul_precision(),
        "torch.are_deterministic_algorithms_enabled()": (
            torch.are_deterministic_algorithms_enabled()
        ),
    }
    for kind in ("cpu", "cuda"):
        is_on = torch.is_autocast_enabled(kind)
        modes[f"autocast on {kind}"] = torch.get_autocast_dtype(kind) if is_on else False
    return {name: value_text(value) for name, value in modes.items()}


class _Values:
    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self._seen: dict[int, Any] = {}
        """Kept, so that nothing else gets its id."""
        self._functions: list[Any] = []

    def add(self, value: Any, name: str, depth: int = 0, *, is_argument: bool = False) -> None:
        """Read a value and what is in it; of a function only what it is."""
        if isinstance(value, _PLAIN):
            self._set(name, value_text(value))
        elif isinstance(value, Tensor):
            # Values of arguments change in every call.
            is_number = not is_argument and value.numel() == 1 and type(value) is Tensor
            is_number = is_number and value.device.type == "cpu" and not value.requires_grad
            self._set(name, repr(value.item()) if is_number else value_text(value))
        elif callable(value) and not isinstance(value, Module):
            self._set(name, value_description(value)["text"])
            self._functions.append(value)
        if isinstance(value, (Tensor, *_PLAIN)) or depth > _MAX_DEPTH or id(value) in self._seen:
            return
        self._seen[id(value)] = value
        for path, item in _inside(value):
            self.add(item, name + path, depth + 1, is_argument=is_argument)
        if not isinstance(value, FunctionType | type | ModuleType | list | tuple | dict):
            self._functions += _functions_of(type(value))

    def _set(self, name: str, text: str) -> None:
        if len(self.texts) < _MAX_VALUES:
            self.texts.setdefault(name, text)

    def add_functions(self, function: Any) -> None:
        """Read what functions find around them, and what those that they find there do."""
        self._functions.append(getattr(function, "forward", function))
        seen = set[int]()
        while self._functions and len(seen) < _MAX_FUNCTIONS:
            plain = self._functions.pop(0)
            if isinstance(plain, type):
                self._functions += _functions_of(plain)
                continue
            plain = plain.func if isinstance(plain, partial) else plain
            plain = inspect.unwrap(getattr(plain, "__func__", plain))
            is_ours = isinstance(plain, FunctionType) and is_user_file(plain.__code__.co_filename)
            if not is_ours or id(plain) in seen:
                continue
            seen.add(id(plain))
            for name, value in _around(plain):
                self.add(value, name)


def _inside(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Module):
        for name, item in vars(value).items():
            if name not in _OF_EVERY_MODULE:
                yield f".{name}", item
        for name in _HOOKS:
            for item in vars(value).get(name, {}).values():
                yield f".{name}", item
        for items in (value._parameters, value._buffers, value._modules):
            for name, item in items.items():
                yield (f"[{name}]" if name.isdigit() else f".{name}"), item
        yield from _of_class(value)
    elif isinstance(value, dict):
        yield from ((f"[{key!r}]", item) for key, item in [*value.items()])
    elif isinstance(value, list | tuple):
        yield from ((f"[{index}]", item) for index, item in enumerate([*value]))
    elif isinstance(value, FunctionType):
        yield from ((f".{name}", item) for name, item in vars(value).items() if name[0] != "_")
    elif not isinstance(value, type | ModuleType):
        for name in attribute_names(value, is_callable=True):
            yield f".{name}", getattr(value, name, None)
        yield from _of_class(value)


def _of_class(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield plain attributes of an object's class."""
    for kind in type(value).__mro__:
        if is_user_file(getattr(inspect.getmodule(kind), "__file__", None) or "<unknown>"):
            for name, item in vars(kind).items():
                if isinstance(item, _PLAIN) and not name.startswith("__"):
                    yield f".{name}", item


def _functions_of(kind: type) -> Iterator[Any]:
    for base in kind.__mro__:
        for item in vars(base).values():
            function = getattr(item, "fget", getattr(item, "__func__", item))
            if isinstance(function, FunctionType):
                yield function


def _around(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield what a function's names stand for outside of it, with attributes of modules and
    classes.
    """
    names = names_in(function.__code__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # empty
            yield name, cell.cell_contents
    if function.__defaults__ or function.__kwdefaults__:
        defaults = inspect.signature(function, follow_wrapped=False).parameters.values()
        yield from ((it.name, it.default) for it in defaults if it.default is not it.empty)
    for name in names:
        value = function.__globals__.get(name)
        if name not in function.__globals__ or isinstance(value, CodeType):
            continue
        is_ours = isinstance(value, ModuleType) and is_user_file(
            getattr(value, "__file__", None) or "<unknown>"
        )
        if is_ours or isinstance(value, type):
            inside = vars(value)
            yield from ((f"{name}.{key}", inside[key]) for key in names if key in inside)
        if not isinstance(value, ModuleType):
            yield name, value
