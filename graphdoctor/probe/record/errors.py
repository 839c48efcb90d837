"""Why a target or a request is refused, and the program's exceptions as text: tracebacks without
the probe's own lines.

Needs no torch, which may be what is missing.
"""

from __future__ import annotations

import importlib
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from traceback import StackSummary, TracebackException

from ...facts.run import HintCode, HintValue

_MAX_MESSAGE = 20_000
_ADDRESS = re.compile(r"\b0x[0-9a-f]+")
_COMPILING = "torch._dynamo.exc."
_IMPORTS = ("<frozen importlib", importlib.__file__)
_CHILD = tuple(str(Path(__file__).resolve().parents[2] / room) for room in ("catalog", "probe"))


class TargetError(Exception):
    """The target can't be used as asked."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class RequestError(TargetError):
    """What the person asked for can't be done; the parent words it, in the names that the options
    have there.
    """

    def __init__(self, code: HintCode, **values: HintValue) -> None:
        super().__init__(f"{code}: {values}")
        self.code = code
        self.values = values


def described_error(error: BaseException) -> dict[str, str]:
    """Describe an exception: type, message and traceback."""
    return {
        "type": type_name(error),
        "message": message_of(error),
        "traceback": traceback_text(error),
    }


def traceback_text(error: BaseException, *, has_packages: bool = True) -> str:
    """Format the program's traceback as Python does, without the probe's own lines; without
    ``has_packages`` also without those of installed packages, unless there are no others.
    """
    report = without_probe(error)
    stack = [entry for entry in report.stack if "site-packages" not in entry.filename]
    if not has_packages and stack and not report.__cause__ and not report.__context__:
        report.stack = StackSummary.from_list(stack)
    return formatted(report)


def formatted(report: TracebackException) -> str:
    """Format a traceback; of a long one, the end."""
    return "".join(report.format())[-_MAX_MESSAGE:]


def without_probe(error: BaseException) -> TracebackException:
    """Take the traceback of an exception, and of its causes, without the probe's own lines."""
    report = TracebackException.from_exception(error)
    for part in _chain(report):
        entries = [entry for entry in part.stack if not entry.filename.startswith(_CHILD)]
        if len(entries) < len(part.stack):
            # Python's import machinery imports the target for us.
            entries = list(
                itertools.dropwhile(lambda entry: entry.filename.startswith(_IMPORTS), entries)
            )
        part.stack = StackSummary.from_list(entries)
    return report


def _chain(report: TracebackException | None) -> Iterator[TracebackException]:
    while report is not None:
        yield report
        yield from _chain(report.__cause__)
        report = report.__context__


def message_of(error: BaseException) -> str:
    """Return an exception's message, cut where it is long."""
    return text_of(error)[:_MAX_MESSAGE]


def raised_text(error: BaseException) -> str:
    """Write type and message of an exception; of one that torch wrapped another in while it
    compiled, both. Addresses of objects differ from run to run.
    """
    inside = getattr(error, "inner_exception", error.__cause__)
    text = f"{type_name(error)}: {message_of(error)}"
    if type_name(error).startswith(_COMPILING) and isinstance(inside, BaseException):
        text = f"{type_name(error)} around {type_name(inside)}: {message_of(inside)}"
    return _ADDRESS.sub("0x…", text)


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its type's name."""
    return (str(error).splitlines() or [type(error).__qualname__])[0]


def text_of(value: object) -> str:
    """Call ``str()`` of an object that may refuse it."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - any __str__ of the program's
        return f"<{type(value).__qualname__} whose str() failed>"


def type_name(error: BaseException) -> str:
    """Name an exception's type, with its module unless that is Python's own."""
    kind = type(error)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return f"{module}{kind.__qualname__}"
