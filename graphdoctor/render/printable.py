"""Text from outside, made safe to show.

Comes in: text that graphdoctor didn't write, such as paths, source lines, reprs and torch's messages. Goes out: the
same text without characters that a terminal obeys or that make a line read differently from what it holds. Every view
and every message on the terminal goes through here; formats with an escaping of their own build on it. Imports the
standard library only.
"""

from __future__ import annotations

import re

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
# C0 but tab and newline, DEL and C1 (ECMA-48: escape sequences begin with one of them); line and paragraph separators;
# bidirectional overrides and isolates, which reorder a line; lone surrogates, which no encoding can write.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """Text without control characters; tabs and newlines stay, and CRLF becomes a newline."""
    return _UNSAFE.sub(_REPLACEMENT, text.replace("\r\n", "\n"))


def escaped(json_text: str) -> str:
    """JSON text in which these characters are escapes, so that a reader still gets every one of them."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", json_text)
