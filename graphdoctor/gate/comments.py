"""``# graphdoctor: ignore[GD101] why`` in a file's text."""

from __future__ import annotations

import io
import re
import tokenize
from dataclasses import dataclass

_COMMENT = re.compile(r"#\s*graphdoctor:\s*ignore(?:\[(?P<codes>[^\]]*)\])?(?P<why>.*)")


@dataclass(frozen=True)
class IgnoreComment:
    """One comment.

    Args:
        line: 1-based line that it stands on.
        codes: Beginnings of codes; empty for all.
        reason: The words behind the brackets, or None.
    """

    line: int
    codes: tuple[str, ...]
    reason: str | None

    def covers(self, code: str) -> bool:
        """Whether a finding of a code on the line is meant."""
        return not self.codes or code.startswith(self.codes)


def ignores_in(text: str) -> dict[int, IgnoreComment]:
    """The ignore comments of a Python file by their lines; texts that look like one are none."""
    if "graphdoctor:" not in text:
        return {}
    found: dict[int, IgnoreComment] = {}
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            match = _COMMENT.search(token.string) if token.type == tokenize.COMMENT else None
            if match:
                codes = tuple(code.strip().upper() for code in (match["codes"] or "").split(",") if code.strip())
                line = token.start[0]
                found[line] = IgnoreComment(line, codes, match["why"].strip(" :-") or None)
    except (tokenize.TokenError, SyntaxError):
        pass  # what was read until then counts
    return found
