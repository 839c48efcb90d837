"""Base of all facts. Standard library only, because the probe makes facts too; ``reading`` reads
them.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Hashable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

from . import shared

Fields = dict[str, Any]
"""Values by name: of a fact to be made, of an event, or of a record's JSON."""

SCHEMA_VERSION = "2.0"
"""Keeps its major number as long as changes of JSON documents only add keys."""


class InvalidFactError(ValueError):
    """Something from outside doesn't fit its model.

    Args:
        place: Where, such as ``("findings", 0, "code")``; empty for the whole.
        problem: What is wrong there, a sentence without its period.
    """

    def __init__(self, place: tuple[str | int, ...], problem: str) -> None:
        super().__init__(f"{'.'.join(map(str, place))}: {problem}" if place else problem)
        self.place = place


@dataclass_transform(
    kw_only_default=True, frozen_default=True, field_specifiers=(dataclasses.field,)
)
class Fact:
    """An immutable dataclass; an unknown name is an error, so that a typo never passes as a fact.

    The constructor takes values as they are. One serves all classes: generating the methods of each
    takes a third of a second, more than most reports.
    """

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]
    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}
    _plan: ClassVar[tuple[tuple[str, Any, Any], ...]] = ()
    """Each field's name, its default and the factory of its default."""
    _types: ClassVar[Mapping[str, Any]]
    _shared: ClassVar[Mapping[str, str]]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        dataclasses.dataclass(init=False, repr=False, eq=False, match_args=False)(cls)
        cls._plan = tuple(
            (field.name, field.default, field.default_factory) for field in dataclasses.fields(cls)
        )

    def __init__(self, **values: Any) -> None:  # noqa: ANN401
        fields = self.__dict__
        for name, default, factory in self._plan:
            if name in values:
                fields[name] = values[name]
            elif default is not dataclasses.MISSING:
                fields[name] = default
            elif factory is not dataclasses.MISSING:
                fields[name] = factory()
            else:
                raise TypeError(f"{type(self).__name__} needs {name}")
        if not values.keys() <= fields.keys():
            unknown = sorted(values.keys() - fields.keys())
            raise TypeError(f"{type(self).__name__} has no {', '.join(unknown)}")

    def __setattr__(self, name: str, value: object) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    def __eq__(self, other: object) -> bool:
        return self.__dict__ == other.__dict__ if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), *self.__dict__.values()))

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items())
        return f"{type(self).__name__}({values})"

    def replace(self, **values: object) -> Self:
        """Return a copy with some fields replaced."""
        return type(self)(**self.__dict__ | values)


def values_of(source: object, *names: str) -> dict[str, Any]:
    """Some of an object's attributes, by their names."""
    return {name: getattr(source, name) for name in names}


class Document(Fact):
    """A JSON document; ``graphdoctor schema`` prints its schema."""

    schema_version: shared.Version = SCHEMA_VERSION
    graphdoctor_version: shared.Version


def field_types(fact: type[Fact]) -> Mapping[str, Any]:
    """Return the type of each field."""
    if "_types" not in fact.__dict__:
        hints = typing.get_type_hints(fact)
        fact._types = {name: hints[name] for name, _, _ in fact._plan}
    return fact._types


def shared_kinds(fact: type[Fact]) -> Mapping[str, str]:
    """Return the kind of text that each field holds, for the fields whose text may be shown to
    others (``shared``).
    """
    if "_shared" not in fact.__dict__:
        hints = typing.get_type_hints(fact, include_extras=True)
        fact._shared = {
            name: mark for name, kind in hints.items() for mark in islice(_marks(kind), 1)
        }
    return fact._shared


def _marks(kind: Any) -> Iterator[str]:  # noqa: ANN401 - a type
    yield from getattr(kind, "__metadata__", ())
    for part in typing.get_args(kind):
        yield from _marks(part)


_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


def grouped(pairs: Iterable[tuple[_Key, _Value]]) -> dict[_Key, list[_Value]]:
    """Group values by their keys, both in the order in which they come."""
    groups: dict[_Key, list[_Value]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


_Number = TypeVar("_Number", int, float)


def sum_of_known(values: Iterable[_Number | None]) -> _Number | None:
    """Return the sum of those that are known; None if none is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def whole_sum(values: Iterable[_Number | None]) -> _Number | None:
    """Return the sum of all; None if one is unknown."""
    every = list(values)
    known = [value for value in every if value is not None]
    return sum(known) if len(known) == len(every) else None
