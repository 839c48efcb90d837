"""Pages without the user's code."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TypeVar, get_args

from graphdoctor.facts.base import Fact, field_types
from graphdoctor.facts.fixes import Fix

_Model = TypeVar("_Model")
_Fact = TypeVar("_Fact", bound=Fact)

_OF_PROGRAM = frozenset({"text", "diff", "statement", "traceback"})
"""Fields that hold the program's own lines, in any model."""
_SENTENCES = frozenset({"message", "title", "fix"})
"""Fields written by graphdoctor that quote parts of lines between backticks."""
_QUOTED_LINES = (
    (", code: ", re.compile(r", code: .*$", re.MULTILINE), ""),
    # ``torch/_guards.py`` and ``torch/_dynamo/guards.py``, 2.13: an expression, the line and its
    # place; then a stack.
    ("  # ", re.compile(r"  # .*(?=  # \S+:\d+ in )"), ""),
    (
        'File "',
        re.compile(
            r'(^ *File "[^"\n]*", line \d+, in .*)\n(?! *File ").*(?:\n *[~^]+ *$)?', re.MULTILINE
        ),
        r"\1",
    ),
)
"""Lines of code that torch quotes in its texts: a sign of them, the pattern, and what stays."""
_QUOTED = re.compile(r"`([^`]*)`")
_NAME = re.compile(r"[\w.]+(\[[^]]*\][\w.]*)*(\(\))?")


def without_source(model: _Model) -> _Model:
    """Leave out the program's lines: source, edits, and text that quotes it, such as torch's
    comments.

    Names of files, functions and values stay.
    """
    if isinstance(model, Fact):
        return _of_fact(model)
    # A result holds facts.
    kept = {name: without_source(value) for name, value in vars(model).items() if value}
    return replace(model, **kept)  # type: ignore[type-var]


def _of_fact(model: _Fact) -> _Fact:
    changed = {}
    for name, kind in field_types(type(model)).items():
        value = getattr(model, name)
        new = _without(name, value)
        if new is not value:
            changed[name] = None if new == "" and type(None) in get_args(kind) else new
    if isinstance(model, Fix) and model.kind == "code":
        changed |= {"snippet": None, "place": None}
    return model.replace(**changed) if changed else model


def _without(name: str, value: object) -> object:
    if isinstance(value, Fact):
        return _of_fact(value)
    if isinstance(value, tuple) and any(isinstance(item, (Fact, str)) for item in value):
        return tuple(_without(name, item) for item in value)
    if not isinstance(value, str):
        return value
    if name in _OF_PROGRAM:
        return ""
    for sign, pattern, rest in _QUOTED_LINES:
        if sign in value:
            value = pattern.sub(rest, value)
    return _QUOTED.sub(_name_alone, value) if name in _SENTENCES else value


def _name_alone(quoted: re.Match[str]) -> str:
    return quoted[0] if _NAME.fullmatch(quoted[1]) else "`…`"
