"""Splits a printed guard into its parts: compile id, kind, expression, the line that caused it,
hint, user stack.

A text with another layout is kept whole as the expression. The layout, as in
``torch/_dynamo/guards.py``, 2.13 and 2.15 (``get_verbose_code_part``,
``get_guard_fail_reason_helper``)::

    0/1: EQUALS_MATCH: L['f'] == 1.5    # y = x * f  # model.py:14 in forward (HINT: …)
    User stack trace:
      File "/p/model.py", line 14, in forward
        y = x * f
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from graphdoctor.trace.breaks import PrintedEntry, parse_stack

TokenKind = Literal[
    "string", "word", "comparison", "space", "open", "close", "operator", "comment", "sign"
]

_TOKEN = re.compile(
    r"""
      (?P<string>'[^'\\\n]*(?:\\.[^'\\\n]*)*'|"[^"\\\n]*(?:\\.[^"\\\n]*)*")
    | (?P<word>[^\s'"()\[\]{}=!<>\#\\,]+)
    | (?P<comparison>\s++(?:[=!<>]=|[<>]|is(?:\s+not)?)(?=\s))
    | (?P<space>\s+)
    | (?P<open>[(\[{])
    | (?P<close>[)\]}])
    | (?P<operator>[=!<>]=|[<>])
    | (?P<comment>(?:(?<=\s)|\A)\#\s.*)
    | (?P<sign>\\.|.)
    """,
    re.DOTALL | re.VERBOSE,
)
"""A backslash takes the next character along everywhere. So which quotes can close a string doesn't
depend on where the search begins, and at most one search per line and kind of quote is in vain."""

_SOURCE_START = re.compile(r"[A-Za-z_]\w*(?:[.\[(]|$)")
_CALL = re.compile(r"([A-Za-z_][\w.]*)\(")
_ARITHMETIC = frozenset("+*-%/")


class Token(NamedTuple):
    """One token: a ``word`` is a run of characters without a meaning here, a ``comment`` goes to
    the end.
    """

    kind: TokenKind
    text: str
    start: int
    depth: int

    @property
    def end(self) -> int:
        """Return where the next token begins."""
        return self.start + len(self.text)


class Call(NamedTuple):
    """A call at the beginning of a text."""

    name: str
    arguments: tuple[str, ...]
    rest: str


class Comparison(NamedTuple):
    """The two sides of a text's first operator outside brackets."""

    left: str
    operator: str
    right: str


def tokenize(text: str, start: int = 0) -> Iterator[Token]:
    """Split a text into tokens; an unclosed quote is a sign, and an unmatched closing bracket
    closes nothing.
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


def _split_at(text: str, commas: Sequence[Token], start: int, end: int) -> list[str]:
    bounds = [start, *(bound for comma in commas for bound in (comma.start, comma.end)), end]
    items = [
        text[begin:stop].strip() for begin, stop in zip(bounds[::2], bounds[1::2], strict=True)
    ]
    return items if items[-1] else items[:-1]


def split_list(text: str) -> list[str] | None:
    """The items of a text such as ``[4, None]``, except for an empty last one; None for another
    text.
    """
    if not (text.startswith("[") and text.endswith("]")):
        return None
    commas = [token for token in tokenize(text) if token.text == "," and token.depth == 1]
    return _split_at(text, commas, 1, len(text) - 1)


def read_call(text: str) -> Call | None:
    """The call at the beginning of a text, or None."""
    match = _CALL.match(text)
    if match is None:
        return None
    commas = []
    for token in tokenize(text, match.end() - 1):
        if token.depth == 1 and token.text == ",":
            commas.append(token)
        elif token.depth == 0 and token.kind == "close":
            return Call(
                match[1],
                tuple(_split_at(text, commas, match.end(), token.start)),
                text[token.end :],
            )
    return None


def read_comparison(text: str) -> Comparison | None:
    """The first comparison outside brackets and strings, or None; its right side can contain
    more.
    """
    for token in tokenize(text):
        if token.kind == "comparison" and token.depth == 0:
            return Comparison(
                text[: token.start].strip(), " ".join(token.text.split()), text[token.end :].strip()
            )
    return None


def is_source(text: str) -> bool:
    """Return whether a text is one value's source, such as ``L['x'].size()[0]``, without an
    operator outside brackets.
    """
    if _SOURCE_START.match(text) is None:
        return False
    return not any(
        token.kind in ("comparison", "space", "operator", "comment", "sign")
        or not _ARITHMETIC.isdisjoint(token.text)
        for token in tokenize(text)
        if token.depth == 0 and token.kind != "string"
    )


_COMPILE_ID = re.compile(
    r"((?:(?:p|rank|reset)\d+:)*\[?(?:!\d+(?:/\d+/\d+)?|\d+/\d+)(?:_\d+)?\]?): "
)
"""``CompileId.__str__`` and ``TraceId.__str__`` (``torch/_guards.py``, 2.13) with our own prefixes
(``merge.py``)."""
_KIND = re.compile(r"([A-Z][A-Z_]{3,})(?:: |$)")
_PLACE = re.compile(r":(?P<line>\d{1,9}) in (?P<function>[^\s()]+)")
_PRINTED_STACK = "\nUser stack trace:"
_HINT = "(HINT: "
_SEPARATOR = "  # "
_CODE = re.compile(
    r"""(?: [^'"\\\#(]+
         | '[^'\\\n]*(?:\\.[^'\\\n]*)*' | "[^"\\\n]*(?:\\.[^"\\\n]*)*"
         | \\.
         | \((?!HINT:\ )
         | (?<!\s)\#(?<!\A\#) | \#(?!\s)
         | ['"\\]
       )*+""",
    re.DOTALL | re.VERBOSE,
)
"""Text before a comment or a hint; both can be in a string. Strings end as ``tokens`` says."""
_UNKNOWN_PLACE = "<unknown>"


@dataclass(frozen=True)
class GuardText:
    """The parts of a printed guard."""

    compile_id: str | None
    kind: str | None
    expression: str
    place: PrintedEntry | None = None
    hint: str | None = None
    note: str | None = None
    stack: tuple[PrintedEntry, ...] = ()
    lower: PrintedEntry | None = None
    """Of a range such as ``2 <= L['n'] <= 7`` the line of its lower bound; ``place`` is that of the
    upper one."""

    @property
    def line(self) -> PrintedEntry | None:
        """The user's line, with its whole path if torch printed a stack."""
        if not self.stack:
            return self.place
        last = self.stack[-1]
        return last._replace(text=last.text or (self.place.text if self.place else None))


def take_apart(text: str) -> GuardText:
    """Split a printed guard or recompile reason into its parts."""
    body, _, stack = text.strip().partition(_PRINTED_STACK)
    compile_id = _COMPILE_ID.match(body)
    start = compile_id.end() if compile_id else 0
    kind = _KIND.match(body, start)
    expression, comment, hint = _split(body[kind.end() if kind else start :])
    lower, comment = _bounds(comment) if expression.count(" <= ") == 2 else (None, comment)
    place, note = _place(comment)
    entries = parse_stack(stack) if stack else ()
    return GuardText(
        compile_id and compile_id[1],
        kind and kind[1],
        expression,
        place,
        hint,
        note,
        entries,
        lower,
    )


def _bounds(comment: str) -> tuple[PrintedEntry | None, str]:
    """Split the comment of a range, ``… and …``: the line of its lower bound, and the rest.

    torch puts what several lines ask of a size into one guard
    (``torch/fx/experimental/symbolic_shapes.py``, 2.13, ``produce_guards_verbose``).
    """
    for cut in re.finditer(" and ", comment):
        lower, upper = comment[: cut.start()], comment[cut.end() :]
        if _place(lower)[0] is not None and _place(upper)[0] is not None:
            return _place(lower)[0], upper
    return None, comment


def _split(body: str) -> tuple[str, str, str | None]:
    code = _CODE.match(body)
    end = len(body) if code is None else code.end()
    comment = body[end:].rstrip()
    hint = None
    if comment.endswith(")") and (start := comment.rfind(_HINT)) >= 0:
        comment, hint = comment[:start], " ".join(comment[start + len(_HINT) : -1].split())
    return body[:end].strip(), comment[len("# ") :].rstrip(), hint


def _place(comment: str) -> tuple[PrintedEntry | None, str | None]:
    code, separator, last = comment.rpartition(_SEPARATOR)
    is_closed = last.endswith(")")
    for match in _PLACE.finditer(last):
        has_note = is_closed and last.startswith(" (", match.end())
        if match.start() and (has_note or match.end() == len(last)):
            text = code.strip() if separator else ""
            place = PrintedEntry(
                last[: match.start()], int(match["line"]), match["function"], text or None
            )
            return place, last[match.end() + 2 : -1] if has_note else None
    return None, None if comment == _UNKNOWN_PLACE else comment or None
