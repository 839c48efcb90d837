"""Text from outside, made safe to show.

Comes in: text that graphdoctor didn't write, such as names, paths, source lines, reprs and torch's
messages. Goes out: the same text without characters that a terminal obeys or that make a line read
differently from what it holds, and on one line unless it is meant to have several. Every view and
every message on the terminal goes through here; formats with an escaping of their own build on it.
Imports the standard library only.
"""

from __future__ import annotations

import json
import re

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_NEWLINE = "\N{DOWNWARDS ARROW WITH CORNER LEFTWARDS}"
# C0 but tab and newline, DEL and C1 (ECMA-48: escape sequences begin with one of them); line and
# paragraph separators; what reorders a line (bidirectional marks, overrides, isolates); what takes
# no room, so that two names look alike, but for the two joiners that Persian and emoji are spelled
# with; interlinear annotations; tags; lone surrogates, which no encoding can write.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f\ud800-\udfff]"
)


def printable(text: str) -> str:
    """Return text on one line without control characters; a newline within it becomes a sign that
    stands for one.
    """
    return printable_lines(text).strip("\n").replace("\n", _NEWLINE)


def printable_lines(text: str) -> str:
    """Return text without control characters; tabs and newlines stay, and CRLF becomes a
    newline.
    """
    return _UNSAFE.sub(_REPLACEMENT, text.replace("\r\n", "\n"))


def escaped(json_text: str) -> str:
    """JSON text in which these characters are escapes, so that a reader still gets every one of
    them.
    """
    return _UNSAFE.sub(lambda match: json.dumps(match[0]).strip('"'), json_text)
