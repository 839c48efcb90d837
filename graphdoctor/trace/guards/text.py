"""Splits a printed guard into its parts: compile id, kind, expression, the line that caused it, hint, user stack.

Comes in: a guard as torch prints it, in the tree of ``dynamo_cpp_guards_str`` or as a recompile reason. Goes out: a
``GuardText``. Pure; a text with another layout is kept whole as the expression, and nothing raises.

The layout, as in ``torch/_dynamo/guards.py``, 2.13 and 2.15 (``get_verbose_code_part``,
``get_guard_fail_reason_helper``)::

    0/1: EQUALS_MATCH: L['f'] == 1.5    # y = x * f  # model.py:14 in forward (HINT: …)
    User stack trace:
      File "/p/model.py", line 14, in forward
        y = x * f
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from graphdoctor.trace.breaks import PrintedEntry, parse_stack

_COMPILE_ID = re.compile(r"((?:(?:p|rank|reset)\d+:)*\[?(?:!\d+(?:/\d+/\d+)?|\d+/\d+)(?:_\d+)?\]?): ")
"""``CompileId.__str__`` and ``TraceId.__str__`` (``torch/_guards.py``, 2.13) with our own prefixes (``merge.py``)."""
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
"""What comes before a comment or a hint; both can be in a string. Strings end as ``tokens`` says."""
_UNKNOWN_PLACE = "<unknown>"


@dataclass(frozen=True)
class GuardText:
    """The parts of a printed guard.

    Args:
        compile_id: The cache entry's id, in a recompile reason.
        kind: torch's name, such as ``TENSOR_MATCH``, in a tree.
        expression: What is checked, as printed, or torch's message about what failed.
        place: The line of code that made torch guard on the value; its file can lack its first letters.
        hint: torch's hint.
        note: The rest of torch's comment.
        stack: The printed user stack, outermost first.
    """

    compile_id: str | None
    kind: str | None
    expression: str
    place: PrintedEntry | None = None
    hint: str | None = None
    note: str | None = None
    stack: tuple[PrintedEntry, ...] = ()

    @property
    def line(self) -> PrintedEntry | None:
        """The user's line, with its whole path if torch printed a stack."""
        if not self.stack:
            return self.place
        last = self.stack[-1]
        text = last.text or (self.place.text if self.place else None)
        return PrintedEntry(last.file, last.line, last.function, text)


def take_apart(text: str) -> GuardText:
    """Split a printed guard or recompile reason into its parts."""
    body, _, stack = text.strip().partition(_PRINTED_STACK)
    compile_id = _COMPILE_ID.match(body)
    start = compile_id.end() if compile_id else 0
    kind = _KIND.match(body, start)
    expression, comment, hint = _split(body[kind.end() if kind else start :])
    place, note = _place(comment)
    return GuardText(
        compile_id=compile_id[1] if compile_id else None,
        kind=kind[1] if kind else None,
        expression=expression,
        place=place,
        hint=hint,
        note=note,
        stack=parse_stack(stack) if stack else (),
    )


def _split(body: str) -> tuple[str, str, str | None]:
    """Expression, comment and hint; ``#`` and ``(HINT: `` in a string belong to the expression."""
    found = _CODE.match(body)
    end = len(body) if found is None else found.end()
    comment, hint = _without_hint(body[end:].rstrip())
    return body[:end].strip(), comment[len("# ") :].rstrip(), hint


def _without_hint(rest: str) -> tuple[str, str | None]:
    start = rest.rfind(_HINT)
    if start < 0 or not rest.endswith(")"):
        return rest, None
    return rest[:start], " ".join(rest[start + len(_HINT) : -1].split())


def _place(comment: str) -> tuple[PrintedEntry | None, str | None]:
    """The place at the end of a comment, and the rest of the comment if it is a note."""
    code, separator, last = comment.rpartition(_SEPARATOR)
    is_closed = last.endswith(")")
    for match in _PLACE.finditer(last):
        has_note = is_closed and last.startswith(" (", match.end())
        if match.start() and (has_note or match.end() == len(last)):
            text = code.strip() if separator else ""
            place = PrintedEntry(last[: match.start()], int(match["line"]), match["function"], text or None)
            return place, last[match.end() + 2 : -1] if has_note else None
    return None, None if comment == _UNKNOWN_PLACE else comment or None
