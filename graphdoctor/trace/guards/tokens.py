"""The tokenizer for torch's guard texts, and the few questions that every reader of them asks.

Comes in: a guard as torch prints it. It looks like Python, but isn't always: a value's own ``repr`` can be anything.
Goes out: tokens that together are the text, in time linear in its length; nothing raises.
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
"""A backslash takes the next character along everywhere: which quotes can close a string then doesn't depend on where
the search begins, so at most one search for each kind of quote and line is in vain."""

_SOURCE_START = re.compile(r"[A-Za-z_]\w*(?:[.\[(]|$)")
_CALL = re.compile(r"([A-Za-z_][\w.]*)\(")
_ARITHMETIC = frozenset("+*-%/")


class Token(NamedTuple):
    """One token.

    Args:
        kind: A ``word`` is a run of characters that mean nothing here, such as ``.size``; a ``comment`` is all from the
            first ``# `` on that isn't in a string.
        text: As it stands there.
        start: Where it begins.
        depth: Brackets open around it; an opening bracket and its closing one have the same.
    """

    kind: TokenKind
    text: str
    start: int
    depth: int

    @property
    def end(self) -> int:
        """Where the next one begins."""
        return self.start + len(self.text)


class Call(NamedTuple):
    """A call at the beginning of a text.

    Args:
        name: What is called, with its dots.
        arguments: As printed.
        rest: What follows the closing bracket.
    """

    name: str
    arguments: tuple[str, ...]
    rest: str


class Comparison(NamedTuple):
    """Two sides and the operator between them, the text's first outside brackets."""

    left: str
    operator: str
    right: str


def tokenize(text: str, start: int = 0) -> Iterator[Token]:
    """Cut a text into tokens; an unclosed quote is a sign, an unopened bracket closes nothing.

    Args:
        text: A guard's.
        start: Where to begin.
    """
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
    """The items of a comma-separated text, commas in brackets and strings left alone; an empty last one left out."""
    items, start = [], 0
    for token in tokenize(text):
        if token.text == "," and token.depth == 0:
            items.append(text[start : token.start].strip())
            start = token.end
    last = text[start:].strip()
    return [*items, last] if last else items


def split_list(text: str) -> list[str] | None:
    """The items of ``[4, None]``, or None for another text."""
    return split_items(text[1:-1]) if text.startswith("[") and text.endswith("]") else None


def read_call(text: str) -> Call | None:
    """The call that a text begins with, or None."""
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
    """The first comparison outside brackets and strings, or None; its right side can hold further ones."""
    tokens = list(tokenize(text))
    for index, token in enumerate(tokens):
        if token.kind == "space" and token.depth == 0 and (last := _operator_end(tokens, index)) is not None:
            start, end = token.end, tokens[last].start
            return Comparison(text[: token.start].strip(), " ".join(text[start:end].split()), text[end:].strip())
    return None


def _operator_end(tokens: Sequence[Token], space: int) -> int | None:
    """Index of the space after the operator that follows a space; None where no operator does."""
    after = [*tokens[space + 1 : space + 5], *[None] * 4][:4]
    first, gap, second, last = after
    if first is None or gap is None or gap.kind != "space":
        return None
    if first.text == "is" and second is not None and second.text == "not" and last is not None and last.kind == "space":
        return space + 4
    return space + 2 if first.kind == "operator" or first.text == "is" else None


def is_source(text: str) -> bool:
    """One value's source, such as ``L['x'].size()[0]``: no operator outside its brackets."""
    if _SOURCE_START.match(text) is None:
        return False
    return not any(
        token.kind in ("space", "operator", "comment", "sign") or not _ARITHMETIC.isdisjoint(token.text)
        for token in tokenize(text)
        if token.depth == 0 and token.kind != "string"
    )
