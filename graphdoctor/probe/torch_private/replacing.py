"""Replaces an attribute until the replacement is undone."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import WRAPPER_UPDATES, wraps
from typing import Any

from . import torch_api
from .imports import hide_callers

Undo = Callable[[], None]
"""Undoes what was done; harmless when called twice."""


def put_in_place(owner: Any, name: str, value: object) -> Undo:
    """Replace an attribute that its owner itself has; undone, unless somebody has replaced the new
    one since.
    """
    before = vars(owner)[name]
    setattr(owner, name, value)

    def undo() -> None:
        if vars(owner).get(name) is value:
            setattr(owner, name, before)

    return undo


def wrap(owner: Any, name: str, around: Callable[..., Any], *, is_traced: bool = False) -> Undo:
    """Have ``around(original, *arguments)`` called in the place of a function or a class method.

    ``is_traced``: Dynamo may compile what calls it, and is to leave our part alone.
    """
    found = vars(owner)[name]
    is_of_class = isinstance(found, classmethod)
    original = found.__func__ if is_of_class else found

    @wraps(original, updated=() if isinstance(original, type) else WRAPPER_UPDATES)
    def replacement(*args: Any, **kwargs: Any) -> Any:
        try:
            return around(original, *args, **kwargs)
        except BaseException as error:
            hide_callers(error)
            raise

    if is_traced:
        torch_api.keep_from_compiling(replacement)
        torch_api.keep_from_compiling(around)
        torch_api.keep_all_from_compiling(survived)
    return put_in_place(owner, name, classmethod(replacement) if is_of_class else replacement)


def look_on(
    owner: Any,
    name: str,
    *,
    before: Callable[..., object] | None = None,
    after: Callable[..., object] | None = None,
    is_traced: bool = False,
) -> Undo:
    """Have functions of ours called before and after one of torch's.

    ``before`` gets its positional arguments; ``after`` gets what it returned before these, unless
    it raised.
    """

    def around(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if before is not None:
            survived(before, *args)
        result = original(*args, **kwargs)
        if after is not None:
            survived(after, result, *args)
        return result

    return wrap(owner, name, around, is_traced=is_traced)


def survived(call: Callable[..., object], *args: Any) -> None:
    """Call a function of ours; no error of ours may reach the program."""
    with contextlib.suppress(Exception):
        call(*args)
