"""torch's guard sources in the user's words: ``L['self']._modules['fc'].scale`` is ``self.fc.scale``.

Source syntax as seen in ``torch/_dynamo/source.py``, 2.13.
"""

from __future__ import annotations

import re

_ROOT = re.compile(r"\b[LG]\['(\w+)'\]")
_MEMBER = re.compile(r"\._(?:modules|parameters|buffers)\['([^']+)'\]")
_STACK = re.compile(r"\b___stack\d+")


def expression(source: str, resumes_at: int | None = None) -> str:
    """What a person would write for a source.

    Args:
        source: torch's text, such as ``L['x']``.
        resumes_at: For a resume function, the line it goes on after: a value that Dynamo carried over on its stack
            has no name but was computed there.

    Returns:
        The expression; the source itself where nothing better is known.
    """
    text = _ROOT.sub(r"\1", source)
    text = _MEMBER.sub(lambda match: f".{match[1]}" if not match[1][:1].isdigit() else f"[{match[1]}]", text)
    if _STACK.search(text):
        place = "an earlier line" if resumes_at is None else f"line {resumes_at}"
        return _STACK.sub(f"(value from {place})", text)
    return text
