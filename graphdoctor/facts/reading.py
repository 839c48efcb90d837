"""Facts from plain values and as JSON, and their JSON Schema. What comes from outside passes here,
and is checked.

pydantic reads as JSON is: lists become tuples, objects become facts, and a number is no text. It is
imported when something is first read, and each class's validator is built then. The probe doesn't
import this.
"""

from __future__ import annotations

import ast
import inspect
import os
import textwrap
from collections.abc import Hashable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import orjson

from .base import Fact, InvalidFactError

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_Fact = TypeVar("_Fact", bound=Fact)


def read_fact(kind: type[_Fact], value: object, *, skips_unknown: bool = False) -> _Fact:
    """Read a fact from what JSON holds.

    Raises:
        InvalidFactError: It doesn't fit.
    """
    try:
        text = orjson.dumps(value)
    except TypeError as error:
        raise InvalidFactError((), f"JSON can't hold it: {error}") from None
    return read_json(kind, text, skips_unknown=skips_unknown)


def read_json(kind: type[_Fact], text: bytes | str, *, skips_unknown: bool = False) -> _Fact:
    """Read a fact from JSON text, as ``read_fact`` does."""
    from pydantic import ValidationError

    try:
        extra: Literal["ignore", "forbid"] = "ignore" if skips_unknown else "forbid"
        adapter = _adapter(cast("Hashable", kind))
        return cast("_Fact", adapter.validate_json(text, strict=True, extra=extra))
    except ValidationError as error:
        # Of a union, the kind that fits longest is the one that was meant.
        deepest = max(
            error.errors(include_url=False, include_context=False),
            key=lambda details: len(details["loc"]),
        )
        raise InvalidFactError(deepest["loc"], deepest["msg"]) from None


def json_of(fact: Fact) -> str:
    """Return a fact as compact JSON, NaN and infinity as null.

    Raises:
        TypeError: An integer has more than 64 bits.
    """
    return orjson.dumps(fact).decode()


def write_fact(fact: Fact, path: Path) -> None:
    """Write a fact to a file, as ``json_of`` has it."""
    write_private(path, json_of(fact))


def write_private(path: Path, content: str | bytes) -> None:
    """Write a file of a recording, which its owner alone can read: values and source are in it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        error.filename = str(path)
        raise


def plain(fact: Fact) -> dict[str, Any]:
    """Return a fact as what JSON holds: dicts, lists, strings, numbers."""
    values: dict[str, Any] = orjson.loads(orjson.dumps(fact))
    return values


def described_schema(kind: type[Fact]) -> dict[str, Any]:
    """Return the JSON Schema of a fact, in which each field is described: by the docstring below
    it, or else by its name.

    pydantic's ``use_attribute_docstrings`` would parse the source of every class for every reading.
    """
    schema = _adapter(cast("Hashable", kind)).json_schema(mode="serialization")
    definitions: dict[str, Any] = schema.get("$defs", {})
    for fact in _subclasses(Fact):
        definition = schema if fact is kind else definitions.get(fact.__name__)
        if definition is None:
            continue
        texts = field_docstrings(fact)
        for name, described in definition.get("properties", {}).items():
            described.setdefault(
                "description", texts.get(name, f"{name.replace('_', ' ').capitalize()}.")
            )
    return schema


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:  # noqa: ANN401 - a class
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _subclasses(kind: type[Fact]) -> list[type[Fact]]:
    direct = kind.__subclasses__()
    return [*direct, *(deeper for subclass in direct for deeper in _subclasses(subclass))]


def field_docstrings(kind: type[Fact]) -> dict[str, str]:
    """Return the string below each annotated field, including fields of base classes."""
    docstrings: dict[str, str] = {}
    for fact in reversed(kind.__mro__):
        if not issubclass(fact, Fact):
            continue
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(fact))).body
        for field, text in pairwise(getattr(definition, "body", ())):
            match field, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(
                    value=ast.Constant(value=str(words))
                ):
                    docstrings[name] = inspect.cleandoc(words)
    return docstrings
