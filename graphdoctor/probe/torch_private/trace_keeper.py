"""Keeps torch's trace going in a program that changes its logger, and counts the compiles that it lost all the same.

``logging.getLogger("torch.__trace").handlers.clear()``, a level, ``logging.config.dictConfig`` and
``torch._logging.set_logs`` all end or change the trace, and torch then says nothing. Comes in: our handler. Goes out:
handlers that are back in their places before each compile writes its first record. Names as in ``torch_api``.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Callable
from functools import partial, wraps
from importlib import import_module
from typing import Any

from . import torch_api, torch_trace
from .replacing import Undo, put_in_place


class TraceKeeper:
    """Knows the two handlers that a recording needs: torch's, which writes the log, and ours, which follows it.

    Args:
        folder: Where torch's writes; None for the first that writes anywhere.
    """

    def __init__(self, listener: logging.Handler, folder: str | None = None) -> None:
        self._kept = [handler for handler in (torch_trace.writer(folder), listener) if handler is not None]
        self._begun = 0
        self._undo: Undo | None = None
        self.write_error: OSError | None = None
        """Why the log ends early; None while it's written."""
        if (writer := torch_trace.writer(folder)) is not None:
            writer.handleError = partial(self._end_log, writer)  # type: ignore[method-assign]

    def install(self) -> None:
        """Look after the handlers before each compile.

        Raises:
            AttributeError, ImportError, KeyError: This torch lacks the place of the hook.
        """
        self.restore()
        self._undo = before_compiles(self._begin)

    def uninstall(self) -> None:
        """Leave torch's logger to the program."""
        if self._undo is not None:
            self._undo()

    def _begin(self, is_nested: bool) -> None:
        self._begun += not is_nested
        self.restore()

    def _end_log(self, writer: logging.Handler, _record: logging.LogRecord) -> None:
        """Write no more after an error, which ``logging`` would print for every record."""
        error = sys.exception()
        if not isinstance(error, OSError):
            return
        self.write_error = error
        # Not off the logger: ``logging`` is going through its handlers, and would miss the next.
        writer.addFilter(torch_trace.refuse)
        stream: Any = getattr(writer, "stream", None)
        if stream is not None:
            writer.stream = None  # type: ignore[attr-defined]
            # What it holds can't be written, and closing it would try again.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            with contextlib.suppress(OSError, ValueError):
                os.dup2(nowhere, stream.fileno(), inheritable=False)
                stream.close()
            os.close(nowhere)

    def restore(self) -> None:
        """Put back what the program took away."""
        logger = torch_api.trace_logger()
        torch_api.record_skipped_frames()
        torch_api.keep_trace_enabled()
        # torch's own level, whatever the handlers want (``torch/_logging/_internal.py``, 2.13).
        logger.setLevel(logging.DEBUG)
        for handler in self._kept:
            handler.setLevel(logging.NOTSET)
        places = [logger.handlers.index(handler) for handler in self._kept if handler in logger.handlers]
        if len(places) < len(self._kept) or places != sorted(places):
            others = [handler for handler in logger.handlers if handler not in self._kept]
            # In front: torch's own handler removes itself from the list if it has no folder (``torch_trace.listen``).
            logger.handlers[:] = [*self._kept, *others]

    def lost_count(self, finished: int) -> int:
        """How many compiles began whose last record never came."""
        return max(0, self._begun - finished)


def before_compiles(callback: Callable[[bool], None]) -> Undo:
    """Call back before a compile writes its first record, with whether it is part of another compile.

    ``get_compile_id``: ``torch/_dynamo/convert_frame.py``, 2.11 to 2.15.
    """
    module: Any = import_module("torch._dynamo.convert_frame")
    context = import_module("torch._guards").CompileContext
    number = module.get_compile_id

    @wraps(number)
    def get_compile_id(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        with contextlib.suppress(Exception):  # the compile must go on
            callback(context.current_compile_id() is not None)
        return number(*args, **kwargs)

    return put_in_place(module, "get_compile_id", get_compile_id)
