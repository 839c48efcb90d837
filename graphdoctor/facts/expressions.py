"""torch's guard sources in the user's words: ``L['self']._modules['fc'].scale`` is
``self.fc.scale``.

Source syntax as seen in ``torch/_dynamo/source.py``, 2.13.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

_IMPORTED = re.compile(r"G\['__import_(\w+)'\]")
_ROOT = re.compile(r"\b[LG]\['(\w+)'\]")
_MEMBER = re.compile(r"\._(?:modules|parameters|buffers)\['([^']+)'\]")
_OF_CLASS = re.compile(r"\bdict\(type\((.+?)\)(?:\.__mro__\[\d+\])?\.__dict__\)\['(\w+)'\]")
_CAPTURED = re.compile(r"(?P<space>[\s(])|\.__closure__\[\d+\]\.cell_contents")
_SIZE = re.compile(r"\.size\(\)\[(\d+)\]")
_STRIDE = re.compile(r"\.stride\(\)\[(\d+)\]")
_STACK = re.compile(r"\b___stack\d+")
_ADAPTED = re.compile(r"\b___(?:normalize_range_iter|from_numpy)\((.+?)\)(?=[.\[]|$)")
_ARGUMENT = re.compile(r"^L\['(\w+)'\](?:\['[^']*'\]|\[\d+\]|\.\w+)*$")
_KEYWORD = re.compile(r"^L\['kwargs'\]\['(\w+)'\](.*)$")
_POSITION = re.compile(r"^L\['args'\]\[(\d+)\](.*)$")
_ATTRIBUTE = re.compile(r"\.\w+(?:[.\[]|$)")
_OWN_STATE = re.compile(r"^L\['self'\](?:\['[^']*'\]|\[\d+\]|\.\w+)+$")
_MODULE_TENSOR = re.compile(r"\._(?:parameters|buffers)\[")


def expression(
    source: str, resumes_at: int | None = None, carried: Callable[[str], str] | None = None
) -> str:
    """Return a source as a person would write it.

    Args:
        source: torch's text, such as ``L['x']``.
        resumes_at: For a resume function, the line that it continues from: a value that Dynamo
            carried over on its stack has no name but was computed there.
        carried: Returns what such a value is, given torch's name for it, such as ``___stack1``.

    Returns:
        The expression, or the source itself if there is no better one.
    """
    text = _IMPORTED.sub(lambda match: match[1].replace("_dot_", "."), source)
    text = _ROOT.sub(r"\1", text)
    text = _MEMBER.sub(
        lambda match: f".{match[1]}" if not match[1][:1].isdigit() else f"[{match[1]}]", text
    )
    text = _with_captured(_OF_CLASS.sub(r"\1.\2", text))
    text = _STRIDE.sub(r".stride(\1)", _SIZE.sub(r".shape[\1]", text))
    text = _ADAPTED.sub(r"\1", text)
    if _STACK.search(text):
        place = (
            "(value from an earlier line)"
            if resumes_at is None
            else f"(value from line {resumes_at})"
        )
        return _STACK.sub(lambda match: carried(match[0]) if carried else place, text)
    return text


def _with_captured(text: str) -> str:
    """Return the text with words for each variable of a closure, whose function stands before it,
    up to a space or bracket.
    """
    if ".__closure__[" not in text:
        return text
    pieces: list[str] = []
    at = start = 0
    for match in _CAPTURED.finditer(text):
        if match["space"]:
            start = match.end()
        elif start < match.start():
            pieces += [text[at:start], f"(a variable that {text[start : match.start()]} captured)"]
            at = start = match.end()
    return "".join([*pieces, text[at:]])


def size_dim(name: str) -> int | None:
    """Return the dim of a size: 1 for ``x.shape[1]``; None for anything else."""
    match = re.search(r"\.shape\[(\d+)\]$", name)
    return int(match[1]) if match else None


def argument_source(source: str, parameters: Sequence[str], first: int = 0) -> str | None:
    """Return a source as the target's own arguments have it; None if it isn't one of them, or in
    one: an item, an attribute.

    A wrapper around the target (a decorator, or torch's own around a torch module) has them in
    ``args`` and ``kwargs``.

    Args:
        source: torch's text, such as ``L['kwargs']['x']``.
        parameters: Names of the target's parameters.
        first: Which of these a wrapper's ``args`` begin with.
    """
    match = _ARGUMENT.match(source)
    if match is None:
        return None
    if (wrapped := _KEYWORD.match(source)) and wrapped[1] in parameters:
        return f"L['{wrapped[1]}']{wrapped[2]}"
    if (wrapped := _POSITION.match(source)) and "args" not in parameters:
        at = int(wrapped[1]) + first
        return f"L['{parameters[at]}']{wrapped[2]}" if 0 <= at < len(parameters) else None
    return source if match[1] in parameters else None


def is_attribute(source: str) -> bool:
    """Return whether the source is an attribute of an object, or is reached through one."""
    return _ATTRIBUTE.search(source) is not None


def is_own_state(source: str) -> bool:
    """Return whether the source is something that the target's module or a submodule keeps, and no
    parameter or buffer.
    """
    return _OWN_STATE.match(source) is not None and not is_module_tensor(source)


def is_module_tensor(source: str) -> bool:
    """Return whether the source is a parameter or buffer of a module, or belongs to one."""
    return _MODULE_TENSOR.search(source) is not None


def is_carried(source: str) -> bool:
    """Return whether the value was carried over a break on Dynamo's stack, such as a number read
    from a tensor.
    """
    return _STACK.search(source) is not None
