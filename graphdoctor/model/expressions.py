"""torch's guard sources in the user's words: ``L['self']._modules['fc'].scale`` is ``self.fc.scale``.

Source syntax as seen in ``torch/_dynamo/source.py``, 2.13.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_IMPORTED = re.compile(r"G\['__import_(\w+)'\]")
_ROOT = re.compile(r"\b[LG]\['(\w+)'\]")
_MEMBER = re.compile(r"\._(?:modules|parameters|buffers)\['([^']+)'\]")
_CAPTURED = re.compile(r"(\S+?)\.__closure__\[\d+\]\.cell_contents")
_SIZE = re.compile(r"\.size\(\)\[(\d+)\]")
_STRIDE = re.compile(r"\.stride\(\)\[(\d+)\]")
_STACK = re.compile(r"\b___stack\d+")


def expression(source: str, resumes_at: int | None = None, carried: Callable[[str], str] | None = None) -> str:
    """What a person would write for a source.

    Args:
        source: torch's text, such as ``L['x']``.
        resumes_at: For a resume function, the line it goes on after: a value that Dynamo carried over on its stack
            has no name but was computed there.
        carried: Says what such a value is by torch's name for it, such as ``___stack1``.

    Returns:
        The expression; the source itself where nothing better is known.
    """
    text = _IMPORTED.sub(lambda match: match[1].replace("_dot_", "."), source)
    text = _ROOT.sub(r"\1", text)
    text = _MEMBER.sub(lambda match: f".{match[1]}" if not match[1][:1].isdigit() else f"[{match[1]}]", text)
    text = _CAPTURED.sub(r"(a variable that \1 captured)", text)
    text = _STRIDE.sub(r".stride(\1)", _SIZE.sub(r".shape[\1]", text))
    if _STACK.search(text):
        place = "(value from an earlier line)" if resumes_at is None else f"(value from line {resumes_at})"
        return _STACK.sub(lambda match: carried(match[0]) if carried else place, text)
    return text
