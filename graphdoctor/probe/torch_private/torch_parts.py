"""Leaves parts of the compiler out: decompositions, passes over graphs, lowerings; and reports which are used.

torch asks ``CompilerBisector.disable_subsystem`` before each of them, for its own bisector
(``torch/_inductor/compiler_bisector.py``, the same arguments from 2.6 to 2.15). That one leaves out one kind from a
number on; ours leaves out what has a name, of all kinds at once.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Mapping

from ..wire import CompilerPartKind
from .replacing import Undo, put_in_place
from .torch_config import set_config

_KINDS: Mapping[str, CompilerPartKind] = {
    "decomposition": "decomposition",
    "pre_grad_passes": "pass",
    "joint_graph_passes": "pass",
    "post_grad_passes": "pass",
    "lowerings": "lowering",
}
"""torch's names for the kinds."""

_NEEDED = ("decompose_", "fix_auto_functionalized_dtype_views", "stable_sort")
"""Beginnings of the names of passes without which a graph can't be lowered (``post_grad_passes``,
``torch/_inductor/fx_passes/post_grad.py``, 2.13)."""


def leave_out(
    parts: Mapping[CompilerPartKind, Collection[str] | None], on_use: Callable[[CompilerPartKind, str], None]
) -> Undo:
    """Leave parts of the compiler out, and turn its caches of graphs off: those return what was compiled with them.

    Args:
        parts: Names by kind; None for all of a kind.
        on_use: Called with each part at its first use, or when it would have been used.

    Raises:
        AttributeError: This torch has no bisector.
        ImportError: The same.
    """
    bisector = importlib.import_module("torch._inductor.compiler_bisector").CompilerBisector
    seen: set[tuple[CompilerPartKind, str]] = set()

    def disable_subsystem(
        _cls: type, _backend: str, subsystem: str, debug_info: Callable[[], str] | None = None
    ) -> bool:
        kind, name = _KINDS.get(subsystem), _name(debug_info)
        if kind is None or name is None or name.startswith(_NEEDED):
            return False
        if (kind, name) not in seen:
            seen.add((kind, name))
            on_use(kind, name)
        names = parts.get(kind, ())
        return names is None or name in names

    undo = put_in_place(bisector, "disable_subsystem", classmethod(disable_subsystem))
    # Not force_disable_caches, which makes a folder of its own (2.13), so that all that Inductor compiles for itself is
    # compiled once more.
    set_config("torch._inductor.config.fx_graph_cache", value=False)
    set_config("torch._functorch.config.enable_autograd_cache", value=False)
    return undo


def _name(debug_info: Callable[[], str] | None) -> str | None:
    """The operator or pass that torch asks about; the text alone would give a graph's own name for a node."""
    for cell in getattr(debug_info, "__closure__", None) or ():
        value = getattr(cell.cell_contents, "target", cell.cell_contents)
        if hasattr(value, "_schema"):
            return str(value)
    return None if debug_info is None else debug_info()
