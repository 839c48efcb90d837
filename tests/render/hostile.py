"""Documents in which every text is hostile: whatever a view shows of them must come out in its safe form."""

from __future__ import annotations

import types
import typing
from typing import Any, Literal, TypeVar

from graphdoctor.model.base import Fact, field_types
from graphdoctor.model.diagnosis import Diagnosis, Finding
from graphdoctor.model.result import Result

CODE_POINTS = (
    *range(0x09),
    *range(0x0B, 0x20),
    *range(0x7F, 0xA0),
    0x2028,
    0x2029,
    *range(0x202A, 0x202F),
    *range(0x2066, 0x206A),
)
"""What a terminal could obey, or what could reorder or break a line; no lone surrogate, which no model holds."""
EVIL = "[bold]" + "".join(map(chr, CODE_POINTS)) + "\x1b]0;title\x07\x9b31m"

_Model = TypeVar("_Model", bound=Fact)


def spoiled(model: type[_Model], variant: int = 0) -> _Model:
    """A model with a hostile text wherever it takes a text, and something in every optional field.

    Args:
        model: The model.
        variant: Which of the values of a ``Literal`` is chosen, and whether flags are set.
    """
    hints = typing.get_type_hints(model)
    values = {name: _value(name, hints[name], variant) for name in field_types(model)}
    return model(**values)


def _value(name: str, kind: Any, variant: int) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        return arguments[variant % len(arguments)]
    if origin in (typing.Union, types.UnionType):
        return _value(name, next(each for each in arguments if each is not type(None)), variant)
    if origin is tuple:
        items = arguments[:1] if Ellipsis in arguments else arguments
        return tuple(_value(name, each, variant) for each in items)
    if origin is dict:
        return {_value(name, arguments[0], variant): _value(name, arguments[1], variant)}
    if origin is typing.Annotated:
        return _value(name, arguments[0], variant)
    if isinstance(kind, type) and issubclass(kind, Fact):
        return spoiled(kind, variant)
    if kind is str:
        return _text(name)
    return {bool: variant % 2 == 0, int: 1, float: 0.5}.get(kind)


def _text(name: str) -> str:
    match name:
        case "diff":
            return f"--- a/{EVIL}.py\n+++ b/{EVIL}.py\n@@ -1 +1 @@ {EVIL}\n-{EVIL}\n+{EVIL}\n"
        case "fingerprint":
            return "0123456789abcdef"  # the engine makes it
        case _:
            return EVIL


def spoiled_result(variant: int) -> Result:
    """A diagnosis with a finding of each kind, and its picture."""
    from graphdoctor.model.picture import Picture

    findings = tuple(
        spoiled(Finding, variant).model_copy(update={"code": f"{prefix}{EVIL}", "fingerprint": prefix})
        for prefix in ("GD1", "GD2", "GD3", "GD9")
    )
    diagnosis = spoiled(Diagnosis, variant).model_copy(update={"findings": findings})
    return Result(diagnosis, spoiled(Picture, variant))
