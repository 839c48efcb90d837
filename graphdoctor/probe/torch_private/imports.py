"""Calls back when a module has been imported, whoever imports it and whenever; standard library only.

The import is Python's own: the module's spec and loader are those it would have, and a traceback through a failing
import has no line of ours.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # typing would be most of what a program without torch waits for
if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any


class AfterImport:
    """A finder for the front of ``sys.meta_path``.

    Args:
        callbacks: By a module's full name what to call with the module, once it has run; called once each.
    """

    def __init__(self, callbacks: dict[str, Callable[[ModuleType], None]]) -> None:
        self._callbacks = callbacks

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:  # noqa: ANN401
        """The spec that the other finders have, its loader's ``exec_module`` followed by the callback."""
        if name not in self._callbacks:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(name, path, target) if find is not None and finder is not self else None
            if spec is not None:
                self._follow(spec.loader, name)
                return spec
        return None

    def _follow(self, loader: Any, name: str) -> None:  # noqa: ANN401
        execute = getattr(loader, "exec_module", None)
        # A loader without attributes of its own (an extension's, a zip file's) holds no module that is asked for.
        if execute is None or not hasattr(loader, "__dict__"):
            return

        def exec_module(module: ModuleType) -> None:
            try:
                execute(module)
            except BaseException as error:
                hide_caller(error)
                raise
            vars(loader).pop("exec_module", None)
            # Asked for without being imported (importlib.util.find_spec), a module is found twice.
            callback = self._callbacks.pop(name, None)
            if callback is not None:
                callback(module)

        loader.exec_module = exec_module


def hide_caller(error: BaseException) -> None:
    """Take the line of the function that handles an exception out of its traceback, before a bare ``raise``.

    Python adds a line for a function where an exception enters it, not where a bare ``raise`` sends it on.
    """
    if error.__traceback__ is not None:
        error.__traceback__ = error.__traceback__.tb_next
