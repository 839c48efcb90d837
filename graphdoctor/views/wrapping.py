"""Text in lines that fit a terminal: prose wrapped between words, code between tokens, and no line within a name.

Comes in: text and a width in terminal cells. Goes out: offsets at which to break prose, and lines of code or of a
shell's command. Code that doesn't fit even so is cut, and the cut shows.
"""

from __future__ import annotations

import io
import re
import shlex
import tokenize
import warnings
from collections.abc import Iterator

from rich.cells import cell_len, set_cell_size

from graphdoctor.views.printable import printable_lines

CUT = "…"
_WORD = re.compile(r"\s*\S+\s*")
_PARTS = re.compile(r"\w+[,;.]?(?=\s|$)|\w+|[^\w\s]+|\s+")
"""What stands together in a word; a comma stays with the name before it."""
_PLAIN_TEXT = re.compile(r"""(["'])(?!\1\1)((?:(?!\1)[^\\])*)\1""")
"""A text without a prefix and without a backslash, in single quotes of either kind."""
_BLANK = frozenset({"NEWLINE", "NL", "INDENT", "DEDENT", "ENDMARKER", "COMMENT"})
_LEAST_TEXT = 12
_CONTINUED = "    "
_BACKSLASH = " \\"


def prose_breaks(text: str, width: int) -> list[int]:
    """Where to break one line of prose so that each part fits.

    Returns:
        Offsets. A word that is wider than the line, such as a path, is broken beside a name in it; only a name that is
        wider by itself stays whole.
    """
    found: list[int] = []
    used = 0
    for match in _WORD.finditer(text):
        word = match[0]
        if used and used + cell_len(word.rstrip()) > width:
            found.append(match.start())
            used = 0
        if cell_len(word.rstrip()) <= width:
            used += cell_len(word)
            continue
        for part in _PARTS.finditer(word):
            at = match.start() + part.start()
            if used and used + cell_len(part[0].rstrip()) > width:
                found.append(at)
                used = 0
            used += cell_len(part[0])
    return found


def longest_name(text: str) -> int:
    """The cells of the longest part of a text that isn't broken."""
    return max((cell_len(part) for part in _PARTS.findall(text)), default=0)


def cut(line: str, width: int) -> str:
    """A line that fits, ended by a sign if something is missing."""
    return line if cell_len(line) <= width else set_cell_size(line, max(width - 1, 0)) + CUT[:width]


def code_lines(code: str, width: int) -> list[str]:
    """Python in lines that fit, which means the same.

    A line is broken only between tokens: within brackets as it is, elsewhere with a backslash. A long text becomes
    several that Python joins. A token that doesn't fit by itself is cut.
    """
    # The tokenizer ends lines where Python does, ``splitlines`` at separators and control characters too.
    code = printable_lines(code).removesuffix("\n")
    if all(cell_len(line) <= width for line in code.split("\n")):
        return code.split("\n")
    code = _with_short_texts(code, width)
    lines, breaks = code.split("\n"), _breaks(code)
    return [part for number, line in enumerate(lines, start=1) for part in _broken(line, breaks.get(number, {}), width)]


def command_lines(command: str, width: int) -> list[str]:
    """A shell's command in lines that fit, which means the same: broken between arguments, with a backslash.

    An argument that doesn't fit by itself stays whole, so that the terminal wraps it.
    """
    words = [shlex.quote(word) for word in shlex.split(command)]
    lines, line = [], words[0]
    for number, word in enumerate(words[1:], start=2):
        following = "" if number == len(words) else _BACKSLASH
        if cell_len(f"{line} {word}{following}") > width:
            lines.append(line + _BACKSLASH)
            line = _CONTINUED + word
        else:
            line = f"{line} {word}"
    return [*lines, line]


def _with_short_texts(code: str, width: int) -> str:
    """Code whose plain texts within brackets are written in parts that fit, side by side: Python joins them."""
    lines = code.split("\n")
    for token, is_within in reversed(_tokens(code)):
        row, start = token.start
        line = lines[row - 1]
        room = width - len(line) + len(line.lstrip()) - len(_CONTINUED) - len(",")
        is_text = is_within and token.type == tokenize.STRING and row == token.end[0]
        is_in_the_way = is_text and cell_len(token.string) > room > _LEAST_TEXT and cell_len(line) > width
        if is_in_the_way and (plain := _PLAIN_TEXT.fullmatch(token.string)):
            parts = " ".join(f"{plain[1]}{part}{plain[1]}" for part in _texts(plain[2], room - 2))
            lines[row - 1] = line[:start] + parts + line[token.end[1] :]
    return "\n".join(lines)


def _texts(text: str, room: int) -> Iterator[str]:
    """A text between quotes in parts, each of which ends behind a space."""
    while cell_len(text) > room and (at := text.rfind(" ", 0, room)) > 0:
        yield text[: at + 1]
        text = text[at + 1 :]
    yield text


def _tokens(code: str) -> list[tuple[tokenize.TokenInfo, bool]]:
    """The tokens, each with whether it is within brackets, f-strings whole; none if the code can't be read."""
    found, depth, text_depth = [], 0, 0
    try:
        with warnings.catch_warnings():
            # From Python 3.12 on, the tokenizer warns about escapes in texts.
            warnings.simplefilter("ignore")
            for token in tokenize.generate_tokens(io.StringIO(code).readline):
                name = tokenize.tok_name[token.type]
                if name not in _BLANK and not text_depth:
                    found.append((token, depth > 0))
                text_depth += name.endswith("STRING_START") - name.endswith("STRING_END")
                if name == "OP" and not text_depth:
                    depth += (token.string in ("(", "[", "{")) - (token.string in (")", "]", "}"))
    except (tokenize.TokenError, SyntaxError, UnicodeError, SystemError):
        # The last two come from the tokenizer of 3.12, where a text that is no Python ends within a character.
        return []
    return found


def _breaks(code: str) -> dict[int, dict[int, bool]]:
    """By line, the columns before which it can be broken, each with whether it is within brackets."""
    found: dict[int, dict[int, bool]] = {}
    for token, is_within in _tokens(code):
        found.setdefault(token.start[0], {})[token.start[1]] = is_within
    return found


def _broken(line: str, breaks: dict[int, bool], width: int) -> Iterator[str]:
    """One line in parts that fit."""
    indent = line[: len(line) - len(line.lstrip())]
    start, prefix = len(indent), indent
    while cell_len(prefix + line[start:]) > width:
        fitting = [
            column
            for column in sorted(breaks)
            if line[start:column].strip()
            and cell_len(prefix + line[start:column].rstrip() + ("" if breaks[column] else _BACKSLASH)) <= width
        ]
        # Behind a space or an opening bracket it reads best.
        good = [column for column in fitting if line[column - 1] in " ([{"]
        at = next(reversed(good or fitting), None)
        if at is None:
            # Nothing fits: break behind the token that is too long, and cut it.
            at = next((column for column in sorted(breaks) if column > start), None)
            if at is None:
                break
        yield cut(prefix + line[start:at].rstrip() + ("" if breaks[at] else _BACKSLASH), width)
        start, prefix = at, indent + _CONTINUED
    yield cut(prefix + line[start:], width)
