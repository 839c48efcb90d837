"""Calls back when a module has been imported, whoever imports it and whenever; standard library
only.

The import is Python's own: the module has the spec and loader it would have anyway, and a traceback
through a failing import has no line of ours.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # typing would be most of what a program without torch waits for
if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any


_PROBE = __file__.rpartition("/torch_private/")[0]


class AfterImport:
    """A finder for the front of ``sys.meta_path``: for each module's full name, what to call once
    it has run.
    """

    def __init__(self, callbacks: dict[str, Callable[[ModuleType], object]]) -> None:
        self._callbacks = callbacks

    def find_spec(
        self, name: str, path: Any = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Take the spec that the other finders have; its loader's ``exec_module`` calls back."""
        for finder in sys.meta_path if name in self._callbacks else ():
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = None if find is None else find(name, path, target)
            if spec is not None:
                self._follow(spec.loader, name)
                return spec
        return None

    def _follow(self, loader: Any, name: str) -> None:
        execute = getattr(loader, "exec_module", None)
        # A loader without attributes of its own (an extension's, a zip file's) never holds a
        # watched module.
        if execute is None or not hasattr(loader, "__dict__"):
            return

        def exec_module(module: ModuleType) -> None:
            try:
                execute(module)
            except BaseException as error:
                hide_callers(error)
                raise
            vars(loader).pop("exec_module", None)
            # importlib.util.find_spec finds a module without importing it, so it may be found
            # twice.
            if (callback := self._callbacks.pop(name, None)) is not None:
                callback(module)

        loader.exec_module = exec_module


def hide_callers(error: BaseException) -> None:
    """Remove the probe's own lines from the start of an exception's traceback, before a bare
    ``raise``.

    Python adds a line for a function when an exception enters it, not when a bare ``raise`` passes
    it on.
    """
    while (entry := error.__traceback__) is not None:
        if not entry.tb_frame.f_code.co_filename.startswith(_PROBE):
            break
        error.__traceback__ = entry.tb_next
