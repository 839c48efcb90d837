"""What every model of the vocabulary shares. Standard library and orjson only.

Facts that we make ourselves are as mypy checked them; what comes from outside (a recording, a document, a baseline)
goes through ``model_validate`` (``reading``). pydantic would do both, but building validators for a hundred classes
takes longer than a whole ``graphdoctor report``; it makes the JSON Schema (``schema``).
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, ClassVar, Self, dataclass_transform

import orjson

from graphdoctor.facts.shared import Shared

_MISSING = dataclasses.MISSING


class InvalidFactError(ValueError):
    """Something from outside doesn't fit its model.

    Args:
        place: Where, such as ``("findings", 0, "code")``; empty for the whole.
        problem: What is wrong there, a clause.
    """

    def __init__(self, place: tuple[str | int, ...], problem: str) -> None:
        super().__init__(f"{'.'.join(map(str, place))}: {problem}" if place else problem)
        self.place = place


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(dataclasses.field,))
class Fact:
    """An immutable record; an unknown name is an error, so that a typo never passes as a fact.

    A subclass declares its fields as a dataclass does. The constructor takes values as they are.
    """

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]
    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}
    _plan: ClassVar[tuple[tuple[str, Any, Any], ...]] = ()
    """Each field's name, its default and the factory of its default."""
    _names: ClassVar[frozenset[str]] = frozenset()
    _types: ClassVar[Mapping[str, Any]]
    """Set by ``field_types``."""

    def __init_subclass__(cls) -> None:
        """Collect the fields. One constructor serves all classes: generating one for each takes a tenth of a second."""
        super().__init_subclass__()
        dataclasses.dataclass(init=False, repr=False, eq=False, match_args=False)(cls)
        found = dataclasses.fields(cls)
        cls._plan = tuple((field.name, field.default, field.default_factory) for field in found)
        cls._names = frozenset(field.name for field in found)

    def __init__(self, **values: Any) -> None:  # noqa: ANN401
        own = self.__dict__
        for name, default, factory in self._plan:
            if name in values:
                own[name] = values[name]
            elif default is not _MISSING:
                own[name] = default
            elif factory is not _MISSING:
                own[name] = factory()
            else:
                raise TypeError(f"{type(self).__name__} needs {name}")
        if not values.keys() <= self._names:
            raise TypeError(f"{type(self).__name__} has no {', '.join(sorted(values.keys() - self._names))}")

    def __setattr__(self, name: str, value: object) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(self.__dict__[name] == other.__dict__[name] for name, _, _ in self._plan)

    def __hash__(self) -> int:
        return hash((type(self), *self.__dict__.values()))

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items())
        return f"{type(self).__name__}({values})"

    @classmethod
    def plan(cls) -> tuple[tuple[str, Any, Any], ...]:
        """Each field's name, its default and the factory of its default; ``dataclasses.MISSING`` for none."""
        return cls._plan

    def model_copy(self, *, update: Mapping[str, object]) -> Self:
        """The same with other values in some fields.

        Args:
            update: The values, by field name.
        """
        return type(self)(**self.__dict__ | dict(update))

    def model_dump_json(self) -> str:
        """It as compact JSON, NaN and infinity as null.

        Raises:
            TypeError: An integer has more than 64 bits.
        """
        return orjson.dumps(self).decode()

    def model_dump(self) -> dict[str, Any]:
        """It as what JSON holds: dicts, lists, strings, numbers."""
        plain: dict[str, Any] = orjson.loads(orjson.dumps(self))
        return plain

    @classmethod
    def model_validate(cls, value: object, *, skips_unknown: bool = False) -> Self:
        """Read what comes from outside: lists become tuples, dicts become models.

        Args:
            value: A mapping of fields.
            skips_unknown: Leave out fields that the model doesn't know, in place of an error.

        Raises:
            InvalidFactError: It doesn't fit.
        """
        from graphdoctor.facts.reading import read_fact

        return typing.cast("Self", read_fact(cls, value, skips_unknown=skips_unknown))


def field_types(fact: type[Fact]) -> Mapping[str, Any]:
    """The type of each field."""
    if "_types" not in fact.__dict__:
        hints = typing.get_type_hints(fact)
        fact._types = {name: hints[name] for name, _, _ in fact._plan}
    return fact._types


@cache
def shared_kinds(fact: type) -> Mapping[str, str]:
    """The kind of text that each field holds, for the fields whose text may be shown to others (``shared``)."""
    hints = typing.get_type_hints(fact, include_extras=True)
    marks = {name: next(_marks(kind), None) for name, kind in hints.items()}
    return {name: mark.kind for name, mark in marks.items() if mark is not None}


def _marks(kind: Any) -> Iterator[Shared]:  # noqa: ANN401 - a type
    yield from (mark for mark in getattr(kind, "__metadata__", ()) if isinstance(mark, Shared))
    for part in typing.get_args(kind):
        yield from _marks(part)
