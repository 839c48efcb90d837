"""Sinks of ``graphdoctor.watch``: the protocol, those that need no library, and how one is opened
by name.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast, runtime_checkable

import orjson

from graphdoctor.errors import GraphDoctorError, missing_package, os_errors
from graphdoctor.facts.watch import WatchEvent
from graphdoctor.views.watch import event_line, is_warning
from graphdoctor.wording import near_names

LOGGER = "graphdoctor.watch"
"""The logger that recompiles and limits are written to."""
_KEPT_RECORDINGS = 20
"""As many as the commands keep."""


@runtime_checkable
class Sink(Protocol):
    """Receives the events, one after another, on a thread of the watch's own.

    What it raises is logged once and stops nothing.
    """

    def export(self, event: WatchEvent) -> None:
        """Take one event."""

    def close(self) -> None:
        """Write what is left; the last call."""


@runtime_checkable
class SpanSink(Protocol):
    """A sink that also adds each event to the span that is current where it happened."""

    def mark_span(self, event: WatchEvent) -> None:
        """Add the event, in the thread that compiled, which waits for it."""


class LogSink:
    """Writes to Python's logging: compiles at INFO; recompiles and limits at WARNING."""

    def __init__(self, _argument: str | None = None) -> None:
        self._logger = logging.getLogger(LOGGER)

    def export(self, event: WatchEvent) -> None:
        """Log the event; the record's ``event`` is the fact."""
        level = logging.WARNING if is_warning(event) else logging.INFO
        self._logger.log(level, "%s", event_line(event), extra={"event": event})

    def close(self) -> None:
        """Nothing is kept."""


class ConsoleSink:
    """Prints a line to standard error for each event."""

    def __init__(self, _argument: str | None = None) -> None:
        self._stream = sys.stderr

    def export(self, event: WatchEvent) -> None:
        """Print the event."""
        self._stream.write(f"graphdoctor: {event_line(event)}\n")
        self._stream.flush()

    def close(self) -> None:
        """Nothing is kept."""


class JsonLinesSink:
    """Appends each event to a file as a line of JSON, ``watch.jsonl`` unless another is named.

    Raises:
        GraphDoctorError: The file can't be written.
    """

    def __init__(self, argument: str | None = None) -> None:
        path = Path(argument or "watch.jsonl")
        with os_errors(path, "written"):
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def export(self, event: WatchEvent) -> None:
        """Append the event in one write, so that lines of several processes don't mix."""
        os.write(self._descriptor, orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE))

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


class RecordingSink:
    """Keeps a recording of the whole watch that ``graphdoctor report`` opens, in the folder that is
    named or below the working directory.

    It listens to torch itself, as ``graphdoctor.record`` does, and takes no events.

    Raises:
        GraphDoctorError: The process is already being recorded, or the folder can't be written.
    """

    def __init__(self, argument: str | None = None) -> None:
        from graphdoctor.api.block import recording_alone
        from graphdoctor.probe.ways_in.in_process import recorded
        from graphdoctor.trials.launch.store import Store

        folder = None if argument is None else Path(argument)
        with ExitStack() as opening:
            opening.enter_context(recording_alone())
            self.path = (
                Store(Path.cwd(), keep_count=_KEPT_RECORDINGS, folder=folder).create("watch").path
            )
            opening.enter_context(recorded(self.path, outside=(), is_reset=False))
            self._open = opening.pop_all()

    def export(self, event: WatchEvent) -> None:
        """Nothing: the recording has it from torch."""

    def close(self) -> None:
        """Complete the recording."""
        from graphdoctor.facts.run import ProbeExit
        from graphdoctor.trials.launch.child import write_meta

        self._open.close()
        ended = ProbeExit(status=None, reason="finished", duration_s=None)
        write_meta(self.path, {"text": "graphdoctor.watch()", "kind": "block"}, ended)


_WATCHING = "graphdoctor.api.watching"
_NAMED = {
    "log": f"{_WATCHING}.sinks:LogSink",
    "console": f"{_WATCHING}.sinks:ConsoleSink",
    "jsonl": f"{_WATCHING}.sinks:JsonLinesSink",
    "recording": f"{_WATCHING}.sinks:RecordingSink",
    "prometheus": f"{_WATCHING}.prometheus:PrometheusSink",
    "opentelemetry": f"{_WATCHING}.opentelemetry:OpenTelemetrySink",
}
"""Module and class of each sink that has a name; the class takes what follows ``name:``, or None.
"""


def open_sink(named: object) -> Sink:
    """Open a sink by its name, such as ``log``, ``prometheus`` or ``jsonl:events.jsonl``, or make
    one of a writer: anything with ``add_scalar`` (TensorBoard) or ``log`` (Weights & Biases).

    Raises:
        GraphDoctorError: There is no such sink, or its library is missing.
    """
    if not isinstance(named, str):
        if isinstance(named, Sink):
            return named
        if hasattr(named, "add_scalar") or hasattr(named, "log"):
            return _made(f"{_WATCHING}.scalars:ScalarSink", named)
        raise GraphDoctorError(
            f"watch can't send events to an object of type {type(named).__qualname__}.",
            hint="Pass a name, or an object with export and close, add_scalar, or log.",
        )
    name, _, argument = named.partition(":")
    if (home := _NAMED.get(name)) is None:
        near = near_names(name, list(_NAMED), most=1)
        hint = f"Did you mean {near[0]}?" if near else f"Names are {', '.join(_NAMED)}."
        raise GraphDoctorError(f"watch has no sink named {name!r}.", hint=hint)
    try:
        return _made(home, argument or None)
    except ModuleNotFoundError as error:
        raise missing_package(name, str(error.name), name) from error


def _made(home: str, argument: object) -> Sink:
    module, _, name = home.partition(":")
    make: Callable[[object], Sink] = cast(
        "Callable[[object], Sink]", getattr(import_module(module), name)
    )
    return make(argument)
