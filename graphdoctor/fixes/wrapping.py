"""Breaks the lines of an edit that are too long at brackets, as the project's formatter (ruff or
black) would.

Comes in: a file before and after an edit. Goes out: the bytes to write, as they are without a
formatter's settings.
"""

from __future__ import annotations

import ast
import io
import itertools
import re
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path

from graphdoctor.facts.stack import parsed

_DEFAULT = 88
"""What both formatters have by themselves."""

_WIDEST = 100
"""Columns of a new line where nothing says how many."""

_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")
_CONDITION = re.compile(r"((?:el)?if |while |return |[\w.]+ = )(.+?)(:?)$")


def wrapped(before: bytes, after: bytes, path: Path) -> bytes:
    """An edited file without new lines that are too long for its project, or for a reader, if they
    can be broken.
    """
    tree = parsed(after)
    try:
        text, old_lines = after.decode(), set(before.decode(errors="replace").split("\n"))
    except UnicodeDecodeError:
        return after
    limit = longest_line(path) or _WIDEST
    indented = re.search(r":\s*\n([ \t]+)\S", text)
    unit = indented[1] if indented else "    "
    lines = []
    for line in text.split("\n"):
        code, end = line.removesuffix("\r"), "\r" * line.endswith("\r")
        is_kept = line in old_lines or len(code) <= limit
        lines += [line] if is_kept else [f"{part}{end}" for part in _broken(code, limit, unit)]
    content = "\n".join(lines).encode()
    result = parsed(content)
    is_same = tree is not None and result is not None and ast.dump(result) == ast.dump(tree)
    return content if is_same else after


def longest_line(path: Path) -> int | None:
    """Read the longest line that the nearest settings of ruff or black allow; None without any."""
    for folder in path.absolute().parents:
        for name in (".ruff.toml", "ruff.toml", "pyproject.toml"):
            try:
                config = tomllib.loads((folder / name).read_text(encoding="utf-8"))
            except (OSError, ValueError):
                continue
            tools = config.get("tool", {}) if name == "pyproject.toml" else {"ruff": config}
            settings = tools.get("ruff", tools.get("black"))
            if settings is not None:
                length = settings.get("line-length", _DEFAULT)
                return length if isinstance(length, int) else None
        if (folder / ".git").exists():
            break
    return None


def _broken(line: str, limit: int, unit: str) -> list[str]:
    """Return a line broken at its longest brackets: what is in them on a line of its own, or each
    item if it is too long.

    A condition is broken before its ``and`` or ``or``, in brackets.
    """
    code = line.lstrip()
    indent = line[: len(line) - len(code)]
    has_comment = any(token.type == tokenize.COMMENT for token in _tokens(code))
    if len(line) <= limit or has_comment:
        return [line]
    condition = _CONDITION.match(code)
    operators = [] if condition is None else _operators(code)
    if condition is not None and operators:
        edges = [condition.start(2), *operators, condition.end(2)]
        parts = [
            f"{indent}{unit}{code[left:right].strip()}" for left, right in itertools.pairwise(edges)
        ]
        return [f"{indent}{condition[1]}(", *parts, f"{indent}){condition[3]}"]
    pair = max(_brackets(code), key=lambda bracket: bracket[1] - bracket[0], default=None)
    if pair is None:
        return [line]
    start, end, *commas = pair
    inner = indent + unit
    body = code[start:end].strip()
    parts = [f"{inner}{body}"]
    if len(parts[0]) > limit and commas:
        edges = [start, *(comma + 1 for comma in commas), end]
        items = [code[left:right].strip() for left, right in itertools.pairwise(edges)]
        parts = [f"{inner}{item.removesuffix(',')}," for item in items if item]
    broken = [bracket for part in parts for bracket in _broken(part, limit, unit)]
    return [f"{indent}{code[:start]}", *broken, f"{indent}{code[end:]}"]


def _brackets(code: str) -> Iterator[tuple[int, ...]]:
    depth, start = 0, 0
    commas: list[int] = []
    tokens = _tokens(code)
    has_lambda = any(token.string == "lambda" for token in tokens)
    for token in tokens:
        if token.type != tokenize.OP:
            continue
        if token.string in _OPENING:
            depth += 1
            if depth == 1:
                start, commas = token.end[1], []
        elif token.string in _CLOSING:
            depth -= 1
            if depth == 0 and code[start : token.start[1]].strip():
                yield (start, token.start[1], *commas)
        elif token.string == "," and depth == 1 and not has_lambda:
            commas.append(token.start[1])


def _operators(code: str) -> list[int]:
    """Find where ``and``, or ``or``, stand outside brackets; empty if both do."""
    depth = 0
    offsets: dict[str, list[int]] = {}
    for token in _tokens(code):
        if token.type == tokenize.OP:
            depth += (token.string in _OPENING) - (token.string in _CLOSING)
        if token.string in ("and", "or", "if", "lambda") and depth == 0 and token.start[1]:
            offsets.setdefault(token.string, []).append(token.start[1])
    is_plain = len(offsets) == 1 and offsets.keys() <= {"and", "or"}
    return next(iter(offsets.values())) if is_plain else []


def _tokens(text: str) -> list[tokenize.TokenInfo]:
    try:
        return list(tokenize.generate_tokens(io.StringIO(f"{text}\n").readline))
    except (tokenize.TokenError, SyntaxError):
        return []
