"""The JSON Schema of a model, each field described by the docstring below it.

pydantic can take these docstrings along (``use_attribute_docstrings``), but parses every class's source for them at
import, which every command would pay for; only the schema needs them.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from itertools import pairwise
from typing import Any

from graphdoctor.model.base import Fact


def described_schema(model: type[Fact]) -> dict[str, Any]:
    """JSON Schema of what a model serialises to, its fields and those of every model in it described."""
    schema = model.model_json_schema(mode="serialization")
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
    """The string below each annotated field, those of its base classes included."""
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
