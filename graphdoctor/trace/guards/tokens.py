"""Tokenizes torch's guard texts, and finds calls, lists and comparisons in them.

Comes in: a guard as torch prints it, which looks like Python but doesn't have to be, since a value's ``repr`` can be
anything. Goes out: tokens that add up to the text. Takes linear time and never raises.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

TokenKind = Literal["string", "word", "space", "open", "close", "operator", "comment", "sign"]

_TOKEN = re.compile(
    r"""
      (?P<string>'[^'\\\n]*(?:\\.[^'\\\n]*)*'|"[^"\\\n]*(?:\\.[^"\\\n]*)*")
    | (?P<word>[^\s'"()\[\]{}=!<>\#\\,]+)
    | (?P<space>\s+)
    | (?P<open>[(\[{])
    | (?P<close>[)\]}])
    | (?P<operator>[=!<>]=|[<>])
    | (?P<comment>(?:(?<=\s)|\A)\#\s.*)
    | (?P<sign>\\.|.)
    """,
    re.DOTALL | re.VERBOSE,
)
"""A backslash takes the next character along everywhere. So which quotes can close a string doesn't depend on where the
search begins, and at most one search per line and kind of quote is in vain."""

_SOURCE_START = re.compile(r"[A-Za-z_]\w*(?:[.\[(]|$)")
_CALL = re.compile(r"([A-Za-z_][\w.]*)\(")
_ARITHMETIC = frozenset("+*-%/")


class Token(NamedTuple):
    """One token.

    Args:
        kind: A ``word`` is a run of characters without a meaning here, such as ``.size``; a ``comment`` goes from the
            first ``# `` outside strings to the end.
        text: Its characters.
        start: Where it begins.
        depth: How many brackets are open around it; a closing bracket has the same depth as its opening one.
    """

    kind: TokenKind
    text: str
    start: int
    depth: int

    @property
    def end(self) -> int:
        """Where the next token begins."""
        return self.start + len(self.text)


class Call(NamedTuple):
    """A call at the beginning of a text.

    Args:
        name: What is called, with its dots.
        arguments: As printed.
        rest: What comes after the closing bracket.
    """

    name: str
    arguments: tuple[str, ...]
    rest: str


class Comparison(NamedTuple):
    """The two sides of a text's first operator outside brackets."""

    left: str
    operator: str
    right: str


def tokenize(text: str, start: int = 0) -> Iterator[Token]:
    """Split a text into tokens; an unclosed quote is a sign, and an unmatched closing bracket closes nothing."""
    depth = 0
    for match in _TOKEN.finditer(text, start):
        kind: TokenKind = match.lastgroup  # type: ignore[assignment]
        if kind == "close" and depth:
            depth -= 1
        yield Token(kind, match[0], start, depth)
        start = match.end()
        if kind == "open":
            depth += 1


def split_items(text: str) -> list[str]:
    """The items of a comma-separated text, except for an empty last one."""
    items, start = [], 0
    for token in tokenize(text):
        if token.text == "," and token.depth == 0:
            items.append(text[start : token.start].strip())
            start = token.end
    last = text[start:].strip()
    return [*items, last] if last else items


def split_list(text: str) -> list[str] | None:
    """The items of a text such as ``[4, None]``; None for another text."""
    return split_items(text[1:-1]) if text.startswith("[") and text.endswith("]") else None


def read_call(text: str) -> Call | None:
    """The call at the beginning of a text, or None."""
    match = _CALL.match(text)
    if match is None:
        return None
    arguments, start = [], match.end()
    for token in tokenize(text, match.end() - 1):
        if token.depth == 1 and token.text == ",":
            arguments.append(text[start : token.start].strip())
            start = token.end
        elif token.depth == 0 and token.kind == "close":
            last = text[start : token.start].strip()
            return Call(match[1], (*arguments, last) if last else tuple(arguments), text[token.end :])
    return None


def read_comparison(text: str) -> Comparison | None:
    """The first comparison outside brackets and strings, or None; its right side can contain more."""
    tokens = list(tokenize(text))
    for index, token in enumerate(tokens):
        if token.kind == "space" and token.depth == 0 and (last := _operator_end(tokens, index)) is not None:
            start, end = token.end, tokens[last].start
            return Comparison(text[: token.start].strip(), " ".join(text[start:end].split()), text[end:].strip())
    return None


def _operator_end(tokens: Sequence[Token], space: int) -> int | None:
    """The index of the space after the operator that follows a space, or None if no operator does."""
    after = [*tokens[space + 1 : space + 5], *[None] * 4][:4]
    first, gap, second, last = after
    if first is None or gap is None or gap.kind != "space":
        return None
    if first.text == "is" and second is not None and second.text == "not" and last is not None and last.kind == "space":
        return space + 4
    return space + 2 if first.kind == "operator" or first.text == "is" else None


def is_source(text: str) -> bool:
    """Whether a text is one value's source, such as ``L['x'].size()[0]``, without an operator outside brackets."""
    if _SOURCE_START.match(text) is None:
        return False
    return not any(
        token.kind in ("space", "operator", "comment", "sign") or not _ARITHMETIC.isdisjoint(token.text)
        for token in tokenize(text)
        if token.depth == 0 and token.kind != "string"
    )
