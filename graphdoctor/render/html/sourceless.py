"""A diagnosis and its picture without a line of the user's code."""

from __future__ import annotations

import re
from typing import TypeVar, get_args

from pydantic import BaseModel

from graphdoctor.model.diagnosis import Diagnosis
from graphdoctor.model.picture import Picture

_Model = TypeVar("_Model", bound=BaseModel)

_CODE_COMMENT = re.compile(r", code: .*$", re.MULTILINE)
_OF_PROGRAM = frozenset({"text", "diff", "statement", "traceback"})
"""Fields that hold the program's own lines, whatever the model."""


def without_source(diagnosis: Diagnosis, picture: Picture) -> tuple[Diagnosis, Picture]:
    """Leave out the program's lines: source, edits of it, and the comments in which torch repeats it.

    Names of files, functions and values stay, and so does what torch's messages quote.
    """
    return _stripped(diagnosis), _stripped(picture)


def _stripped(model: _Model) -> _Model:
    changed: dict[str, object] = {}
    for name in type(model).model_fields:
        value = getattr(model, name)
        new = _without(name, value)
        if new == "" and type(None) in get_args(type(model).model_fields[name].annotation):
            new = None
        if new is not value:
            changed[name] = new
    return model.model_copy(update=changed) if changed else model


def _without(name: str, value: object) -> object:
    if isinstance(value, str):
        if name in _OF_PROGRAM:
            return ""
        return _CODE_COMMENT.sub("", value) if name in ("code", "words") else value
    if isinstance(value, BaseModel):
        return _stripped(value)
    if isinstance(value, tuple) and any(isinstance(item, BaseModel) for item in value):
        return tuple(_without(name, item) for item in value)
    return value
