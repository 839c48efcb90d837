"""Has torch's minifier wait for a graph that fails, and write the script that makes it smaller.

``torch/_dynamo/repro/after_dynamo.py`` and ``after_aot.py``, 2.11 to 2.15.
"""

from __future__ import annotations

import importlib
from typing import Literal

from .replacing import Undo, put_in_place
from .torch_config import set_config

_RAISES, _IS_WRONG = 2, 4
"""Levels: a graph raises; its results are wrong."""


def wait_for_graph(after: Literal["dynamo", "aot"], folder: str, *, is_wrong: bool) -> Undo:
    """Look at each graph, and write a script into a folder for the first that fails.

    ``is_wrong``: its results are wrong; otherwise it raises.

    Raises:
        AttributeError: This torch lacks one of the names.
        ImportError: The same.
    """
    set_config("torch._dynamo.config.repro_after", after)
    set_config("torch._dynamo.config.repro_level", _IS_WRONG if is_wrong else _RAISES)
    set_config("torch._dynamo.config.debug_dir_root", folder)
    # It would write repro.py into the user's folder, over a file of that name.
    repro = importlib.import_module("torch._dynamo.repro.after_aot")
    return put_in_place(repro, "dump_compiler_graph_state", _write_nothing)


def _write_nothing(*_arguments: object, **_options: object) -> None:
    """Leave the current folder alone."""
