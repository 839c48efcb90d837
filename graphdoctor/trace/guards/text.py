"""One printed guard to what it checks: the value's source, what is expected of it in words, the line that caused it.

Comes in: a guard as torch prints it, in the tree of ``dynamo_cpp_guards_str`` or as the reason of a recompile. Goes
out: a ``GuardText``. Pure; text of a form that is not known keeps its words and never raises.

Forms as seen in ``torch/_dynamo/guards.py``, 2.13 and 2.15 (``GuardBuilder``, ``get_verbose_code_part``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from graphdoctor.trace.guards.meaning import meaning, outside_strings

_KIND = re.compile(r"^([A-Z][A-Z_]{3,})(?:: |$)")
_COMPILE_ID = re.compile(r"^(?:!\d+/)?\d+/\d+(?:_\d+)?: ")
_PLACE = re.compile(r"^(?P<file>\S.*?):(?P<line>\d+) in (?P<function>[^\s()]+)(?: \((?P<note>.*)\))?\s*$", re.DOTALL)
_HINT = re.compile(r" \(HINT: (?P<hint>.*)\)\s*$", re.DOTALL)
_STACK_LINE = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)')

_MAX_EXPECTED = 120


@dataclass(frozen=True)
class GuardText:
    """What one printed guard says.

    Args:
        kind: torch's name, such as ``TENSOR_MATCH``; where the text has none, the one that its form belongs to, else
            None.
        source: torch's source of the value, such as ``L['x']`` (in the reasons of a recompile without the ``L[…]``);
            None for process-wide state and for what is not known.
        expected: What the value must be, in words, such as ``f32[4, 4]``, ``1.5`` or ``a dict``; None when not known.
        code: The line of code that made torch guard on it, as torch printed it; None without one.
        file: That line's file as printed, which can lack its first letters; None without one.
        line: 1-based; None without one.
        function: The code object's name; None without one.
        hint: torch's hint or note.
        guard: The guard's own expression as printed; never lost.
    """

    kind: str | None
    source: str | None
    expected: str | None
    code: str | None
    file: str | None
    line: int | None
    function: str | None
    hint: str | None
    guard: str


def parse_guard(text: str) -> GuardText:
    """Read one guard.

    Args:
        text: Such as ``EQUALS_MATCH: L['f'] == 1.5  # x * f  # model.py:14 in forward``; the kind, the comment and a
            compile id before it may be missing, a printed user stack may follow.

    Returns:
        What it says; for text of another form only ``guard`` is set.
    """
    text = _COMPILE_ID.sub("", text.strip())
    text, _, stack = text.partition("\nUser stack trace:")
    named = _KIND.match(text)
    kind = named[1] if named else None
    rest = text[named.end() :] if named else text
    hint = None
    if found := _HINT.search(rest):
        hint, rest = found["hint"], rest[: found.start()]
    guard, *comments = _split_comments(rest)
    code, file, line, function, note = _place(comments)
    printed = list(_STACK_LINE.finditer(stack))
    if printed:
        file, line, function = printed[-1]["file"], int(printed[-1]["line"]), printed[-1]["function"]
        code = stack[printed[-1].end() :].strip().split("\n", maxsplit=1)[0].strip() or code
    inferred, source, expected = meaning(guard)
    return GuardText(
        kind=kind or inferred,
        source=source,
        expected=None if expected is None else _shortened(expected),
        code=code,
        file=file,
        line=line,
        function=function,
        hint=hint or note,
        guard=guard,
    )


def _split_comments(text: str) -> list[str]:
    """The expression and its comments; a ``#`` inside a string of the expression is no comment."""
    end = next(
        (at for at, _ in outside_strings(text) if text.startswith("# ", at) and text[at - 1 : at] in ("", " ")), None
    )
    if end is None:
        return [text.strip()]
    comment = text[end + 2 :]
    code, separator, place = comment.rpartition("  # ")
    parts = [code, place] if separator else [place]
    return [text[:end].strip(), *parts]


def _place(comments: list[str]) -> tuple[str | None, str | None, int | None, str | None, str | None]:
    """Code, file, line, function and note of a guard's comments."""
    if not comments:
        return None, None, None, None, None
    place = _PLACE.match(comments[-1])
    if place is None:
        note = "  # ".join(comments).strip()
        return None, None, None, None, None if note == "<unknown>" else note or None
    code = comments[0].strip() if len(comments) > 1 else None
    return code or None, place["file"], int(place["line"]), place["function"], place["note"]


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_EXPECTED else text[: _MAX_EXPECTED - 1] + "…"
