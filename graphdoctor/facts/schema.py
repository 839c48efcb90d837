"""The JSON Schema of a model, with the docstring below each field as its description.

pydantic can read these docstrings (``use_attribute_docstrings``), but then it parses the source of every class at
import, which slows down every command, and only the schema needs them.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from itertools import pairwise
from typing import Any

from graphdoctor.facts.base import Fact


def described_schema(model: type[Fact]) -> dict[str, Any]:
    """The JSON Schema of a serialized model, with a description of each field."""
    from pydantic import TypeAdapter

    schema = TypeAdapter(model).json_schema(mode="serialization")
    definitions: dict[str, Any] = schema.get("$defs", {})
    for fact in _subclasses(Fact):
        definition = schema if fact is model else definitions.get(fact.__name__)
        if definition is None:
            continue
        properties = definition.get("properties", {})
        for name, text in _field_docstrings(fact).items():
            if name in properties:
                properties[name].setdefault("description", text)
    return schema


def _subclasses(model: type[Fact]) -> list[type[Fact]]:
    direct = model.__subclasses__()
    return [*direct, *(deeper for subclass in direct for deeper in _subclasses(subclass))]


def _field_docstrings(model: type[Fact]) -> dict[str, str]:
    """The string below each annotated field, including fields of base classes."""
    found: dict[str, str] = {}
    for kind in reversed(model.__mro__):
        if not issubclass(kind, Fact):
            continue
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
        for field, text in pairwise(getattr(definition, "body", ())):
            match field, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                    found[name] = inspect.cleandoc(words)
    return found
