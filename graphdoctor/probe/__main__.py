"""Entry of the child process: ``python .../graphdoctor/probe/__main__.py REQUEST.json [LIFELINE]``,
or ``warm SOCKET``.

``request.json`` asks for a run, ``catalog.json`` for what a library has.

Started by path, because graphdoctor may not be installed where the probe runs. The folder of this
file must not stay on ``sys.path``: its modules would hide the user's own ``events`` or ``target``.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from pathlib import Path
from types import ModuleType

_PARENT = "_graphdoctor"
"""Stands for the package ``graphdoctor`` in this process: the probe and the facts are imported
below it."""
_PACKAGE = f"{_PARENT}.probe"


def _load_package() -> None:
    here = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if not entry or Path(entry).resolve() != here]
    parent = ModuleType(_PARENT)
    parent.__path__ = [str(here.parent)]
    sys.modules[_PARENT] = parent


if __name__ == "__main__":
    _load_package()
    # torch says it of each environment without NumPy, which a model may well not need.
    warnings.filterwarnings("ignore", "Failed to initialize NumPy")
    request = sys.argv[1]
    process = importlib.import_module(f"{_PACKAGE}.ways_in.process")
    if request == "warm":
        # Returns in each of the processes that it forks.
        request = importlib.import_module(f"{_PACKAGE}.ways_in.warm").serve(int(sys.argv[2]))
    elif len(sys.argv) > 2:
        process.end_with(int(sys.argv[2]))
    names = importlib.import_module(f"{_PACKAGE}.file_names")
    is_catalog = Path(request).name == names.CATALOG_REQUEST_FILE
    way_in = f"{_PARENT}.catalog.answer" if is_catalog else f"{_PACKAGE}.ways_in.session"
    process.leave(importlib.import_module(way_in).main(Path(request)))
