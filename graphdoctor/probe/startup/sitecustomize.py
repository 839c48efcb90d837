"""What Python imports at start-up with this folder on ``PYTHONPATH``: the way into a program that
is run as it is.

Python's own start, ``__main__``, ``sys.argv`` and exit stay as they are, in the program and in
every Python that it starts, because nothing of ours comes between Python and the program. Comes in:
the recording's folder, in an environment variable; without it nothing happens. This folder is
removed from ``sys.path`` again, and the environment's own ``sitecustomize`` runs as usual. May
import the standard library only, and as little of it as possible.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

_RECORDING = "_GRAPHDOCTOR_RECORDING"
"""``graphdoctor/trials/launch/script.py`` sets it."""
_WATCH = "GRAPHDOCTOR_WATCH"
_PARENT = "_graphdoctor"
"""As in ``graphdoctor/probe/__main__.py``."""
_HERE = __file__.rpartition(os.sep)[0]


def _begin(recording: str) -> None:
    parent = type(sys)(_PARENT)
    parent.__path__ = [_HERE.rpartition(os.sep)[0].rpartition(os.sep)[0]]
    sys.modules[_PARENT] = parent
    importlib.import_module(f"{_PARENT}.probe.ways_in.process").begin(recording)


def _import_the_next() -> None:
    """Import the ``sitecustomize`` that this one hides; ``site`` reports what it raises, as
    always.
    """
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


sys.path[:] = [entry for entry in sys.path if entry != _HERE]
if _RECORDING in os.environ:
    # Whatever goes wrong here, the program must run; the reader reports the missing events.
    with contextlib.suppress(Exception):
        _begin(os.environ[_RECORDING])
    if os.environ.get(_WATCH):
        # Of the program's own Python; ``run`` needs it nowhere else.
        with contextlib.suppress(ImportError):
            importlib.import_module("graphdoctor.api.watching.at_start")
_import_the_next()
