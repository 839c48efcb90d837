"""Documents in which every text is hostile: whatever a view shows of them must come out in its safe
form."""

from __future__ import annotations

import types
import typing
from functools import cache
from typing import Any, Literal, TypeVar

from graphdoctor.facts.base import Fact, field_types
from graphdoctor.facts.diagnosis import Diagnosis, Finding, Result
from graphdoctor.facts.fixes import Reason

CODE_POINTS = (
    *range(0x09),
    *range(0x0B, 0x20),
    *range(0x7F, 0xA0),
    0xAD,
    0x061C,
    0x180E,
    0x200B,
    0x200E,
    0x200F,
    *range(0x2028, 0x202F),
    *range(0x2060, 0x2070),
    0xFEFF,
    *range(0xFFF9, 0xFFFC),
    0xE0001,
    0xE0041,
    0xE007F,
)
"""What a terminal could obey, what could reorder or break a line, and what can't be seen; no lone
surrogate, which no model holds."""
FORGED = "GD999 forged finding"
CONTROLS = "[bold]" + "".join(map(chr, CODE_POINTS)) + "\x1b]0;title\x07\x9b31m"
EVIL = f"{CONTROLS}\n{FORGED}\r\n  --> forged.py:1 in f\n"

_Model = TypeVar("_Model", bound=Fact)


def spoiled(model: type[_Model], variant: int = 0, *, evil: str = EVIL) -> _Model:
    """A model with a hostile text wherever it takes a text, and something in every optional field.

    Args:
        model: The model.
        variant: Which of the values of a ``Literal`` is chosen, and whether flags are set.
        evil: The text.
    """
    hints = _hints(model)
    return model(**{name: _value(name, hints[name], variant, evil) for name in field_types(model)})


@cache
def _hints(model: type[Fact]) -> dict[str, Any]:
    return typing.get_type_hints(model)


def _value(name: str, kind: Any, variant: int, evil: str) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        return arguments[variant % len(arguments)]
    if origin in (typing.Union, types.UnionType):
        return _value(
            name, next(each for each in arguments if each is not type(None)), variant, evil
        )
    if origin is tuple and name == "parts" and Reason in arguments:
        return ()  # A reason is made of reasons.
    if origin is tuple:
        items = arguments[:1] if Ellipsis in arguments else arguments
        return tuple(_value(name, each, variant, evil) for each in items)
    if origin is dict:
        return {
            _value(name, arguments[0], variant, evil): _value(name, arguments[1], variant, evil)
        }
    if origin is typing.Annotated:
        return _value(name, arguments[0], variant, evil)
    if isinstance(kind, type) and issubclass(kind, Fact):
        return spoiled(kind, variant, evil=evil)
    if kind is str:
        return _text(name, evil)
    return {bool: variant % 2 == 0, int: 1, float: 0.5}.get(kind)


def _text(name: str, evil: str) -> str:
    match name:
        case "diff":
            evil = CONTROLS if evil == EVIL else evil
            return f"--- a/{evil}.py\n+++ b/{evil}.py\n@@ -1 +1 @@ {evil}\n-{evil}\n+{evil}\n"
        case "fingerprint":
            return "0123456789abcdef"  # the engine makes it
        case _:
            return evil


def spoiled_result(variant: int, *, evil: str = EVIL) -> Result:
    """A diagnosis with a finding of each kind, and its picture; arguments as in ``spoiled``."""
    from graphdoctor.facts.picture import Picture

    findings = tuple(
        spoiled(Finding, variant, evil=evil).replace(code=f"{prefix}{evil}", fingerprint=prefix)
        for prefix in ("GD1", "GD2", "GD3", "GD9")
    )
    diagnosis = spoiled(Diagnosis, variant, evil=evil).replace(findings=findings)
    return Result(diagnosis, spoiled(Picture, variant, evil=evil))
