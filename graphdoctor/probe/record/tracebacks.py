"""The program's exceptions as text: tracebacks without the probe's own lines."""

from __future__ import annotations

import importlib
import itertools
import traceback
from collections.abc import Iterator
from pathlib import Path

_MAX_MESSAGE = 20_000

_HERE = str(Path(__file__).resolve().parent.parent)


def described_error(error: BaseException) -> dict[str, str]:
    """An exception's type, message and traceback."""
    return {"type": type_name(error), "message": message_of(error), "traceback": traceback_text(error)}


def traceback_text(error: BaseException) -> str:
    """The program's traceback as Python prints it, without the probe's own lines."""
    return formatted(without_probe(traceback.TracebackException.from_exception(error)))


def formatted(report: traceback.TracebackException) -> str:
    """A traceback as text; the end of a long one."""
    return "".join(report.format())[-_MAX_MESSAGE:]


def without_probe(report: traceback.TracebackException) -> traceback.TracebackException:
    """A traceback, and those of its causes, without the probe's own lines."""
    for part in _chain(report):
        entries = [entry for entry in part.stack if not entry.filename.startswith(_HERE)]
        if len(entries) < len(part.stack):
            # Python's import machinery imports the target for us.
            entries = list(itertools.dropwhile(lambda entry: _is_importlib(entry.filename), entries))
        part.stack = traceback.StackSummary.from_list(entries)
    return report


def _is_importlib(file: str) -> bool:
    return file.startswith("<frozen importlib") or file == importlib.__file__


def _chain(report: traceback.TracebackException | None) -> Iterator[traceback.TracebackException]:
    while report is not None:
        yield report
        if report.__cause__ is not None:
            yield from _chain(report.__cause__)
        report = report.__context__


def message_of(error: BaseException) -> str:
    """An exception's message, cut where it is long."""
    return text_of(error)[:_MAX_MESSAGE]


def text_of(value: object) -> str:
    """``str()`` of an object that may refuse it."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - any __str__ of the program's
        return f"<{type(value).__qualname__} whose str() failed>"


def type_name(error: BaseException) -> str:
    """An exception's type, with its module unless that is Python's own."""
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
