"""Reads plain values (dicts, lists, strings, numbers) into models, by the types of their fields.

As strict as pydantic in strict mode, with JSON's lists for tuples; ``tests/model/test_reading.py`` compares the two.
It exists because reading a recording must not cost the import of pydantic and a validator for each class.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING
from typing import Any, Literal, Union

from graphdoctor.facts.base import Fact, InvalidFactError, field_types

_Place = tuple[str | int, ...]

_FITTING: dict[Any, tuple[type, ...]] = {float: (float, int), int: (int,), str: (str,), bool: (bool,)}
"""What fits a scalar type; JSON has one kind of number. A bool fits none of the others."""
_MAX_SHOWN = 60


def read_fact(fact: type[Fact], value: object, *, skips_unknown: bool) -> Fact:
    """Read a model.

    Args:
        fact: The model.
        value: A mapping of its fields.
        skips_unknown: Leave out fields that a model doesn't know, in place of an error.

    Raises:
        InvalidFactError: It doesn't fit.
    """
    return _Reader(skips_unknown=skips_unknown).fact(fact, value, ())


class _Reader:
    def __init__(self, *, skips_unknown: bool) -> None:
        self._skips_unknown = skips_unknown

    def fact(self, fact: type[Fact], value: object, place: _Place) -> Fact:
        if isinstance(value, fact):
            return value
        if not isinstance(value, Mapping):
            raise _misfit(value, f"an object ({fact.__name__})", place)
        kinds = field_types(fact)
        if not self._skips_unknown:
            for name in value:
                if name not in kinds:
                    raise InvalidFactError((*place, str(name)), f"{fact.__name__} has no such field")
        known = {name: self.value(kinds[name], item, (*place, name)) for name, item in value.items() if name in kinds}
        for name, default, factory in fact.plan():
            if name not in known and default is MISSING and factory is MISSING:
                raise InvalidFactError((*place, name), "is missing")
        return fact(**known)

    def value(self, kind: Any, value: object, place: _Place) -> object:  # noqa: ANN401 - a type
        if kind is object or kind is Any:
            return value
        if (fitting := _FITTING.get(kind)) is not None:
            if not isinstance(value, fitting) or (isinstance(value, bool) and kind is not bool):
                raise _misfit(value, kind.__name__, place)
            return value
        if isinstance(kind, type) and issubclass(kind, Fact):
            return self.fact(kind, value, place)
        return self._generic(kind, value, place)

    def _generic(self, kind: Any, value: object, place: _Place) -> object:  # noqa: ANN401 - a type
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if origin in (Union, types.UnionType):
            return self._union(arguments, value, place)
        if origin is Literal and any(value == known and type(value) is type(known) for known in arguments):
            return value
        if origin is tuple and isinstance(value, (list, tuple)):
            return tuple(self.value(arguments[0], item, (*place, index)) for index, item in enumerate(value))
        if origin is list and isinstance(value, list):
            return [self.value(arguments[0], item, (*place, index)) for index, item in enumerate(value)]
        if origin is dict and isinstance(value, dict):
            return {
                self.value(arguments[0], key, place): self.value(arguments[1], item, (*place, str(key)))
                for key, item in value.items()
            }
        if origin is Literal:
            raise _misfit(value, f"one of {', '.join(map(repr, arguments))}", place)
        raise _misfit(value, {tuple: "a list", list: "a list", dict: "an object"}.get(origin, str(kind)), place)

    def _union(self, kinds: tuple[Any, ...], value: object, place: _Place) -> object:
        if value is None and types.NoneType in kinds:
            return None
        deepest: InvalidFactError | None = None
        for kind in kinds:
            if kind is types.NoneType:
                continue
            try:
                return self.value(kind, value, place)
            except InvalidFactError as error:
                # The kind that fits longest is the one that was meant.
                if deepest is None or len(error.place) > len(deepest.place):
                    deepest = error
        raise deepest or _misfit(value, "None", place)


def _misfit(value: object, wanted: str, place: _Place) -> InvalidFactError:
    text = repr(value)
    shown = text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 1]}…"
    return InvalidFactError(place, f"{shown} isn't {wanted}")
