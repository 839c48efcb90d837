"""Replaces an attribute until the replacement is undone."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import WRAPPER_UPDATES, wraps
from typing import Any

from . import torch_api
from .imports import hide_caller

Undo = Callable[[], None]
"""Undoes what was done; harmless when called twice."""


def put_in_place(owner: Any, name: str, value: object) -> Undo:  # noqa: ANN401
    """Replace an attribute that its owner itself has.

    Returns:
        Restores the old value, unless somebody has replaced the new one since.
    """
    before = vars(owner)[name]
    setattr(owner, name, value)

    def undo() -> None:
        if vars(owner).get(name) is value:
            setattr(owner, name, before)

    return undo


def undone(*undos: Undo) -> Undo:
    """Undoes several."""

    def undo_all() -> None:
        for undo in undos:
            undo()

    return undo_all


def look_on(
    owner: Any,  # noqa: ANN401
    name: str,
    *,
    before: Callable[..., object] | None = None,
    after: Callable[..., object] | None = None,
    is_traced: bool = False,
) -> Undo:
    """Have functions of ours called before and after one of torch's; a traceback through it has no line of ours.

    ``before`` gets its positional arguments; ``after`` gets what it returned before these, unless it raised. What they
    raise is lost: no error of ours may reach the program. ``is_traced``: Dynamo may compile what calls it, and is to
    leave our part alone.
    """
    original = vars(owner)[name]

    @wraps(original, updated=() if isinstance(original, type) else WRAPPER_UPDATES)
    def replacement(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        if before is not None:
            _survived(before, args)
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            hide_caller(error)
            raise
        if after is not None:
            _survived(after, (result, *args))
        return result

    if is_traced:
        torch_api.keep_from_compiling(replacement)
        torch_api.keep_all_from_compiling(_survived)
    return put_in_place(owner, name, replacement)


def _survived(call: Callable[..., object], args: tuple[Any, ...]) -> None:
    with contextlib.suppress(Exception):
        call(*args)
