"""Changes the compiler for a trial: its cache folder, and parts that are left out.

``torch/_inductor/runtime/cache_dir_utils.py``, ``codecache.py``, ``cpu_vec_isa.py`` and
``compiler_bisector.py``, 2.11 to 2.15.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import os
import pkgutil
import sys
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from ...facts.trials import CompilerPartKind
from .imports import AfterImport
from .replacing import put_in_place, wrap
from .torch_config import set_config

_FOLDER = "TORCHINDUCTOR_CACHE_DIR"
"""Inductor reads it each time that it looks for a file, and sets it where nobody has."""

_VECTORS = "torch._inductor.cpu_vec_isa"

_PATTERNS = "torch._inductor.fx_passes.serialized_patterns"

_tags = itertools.count()


def compile_into(folder: str, *, shares_checks: bool = True) -> None:
    """Have Inductor look for what it compiled in a folder of its own from now on, and leave it
    there.

    It compiles small files to find out which vector instructions there are: with ``shares_checks``
    it goes on looking for those where it did before; otherwise they are part of what a first start
    costs.
    """
    before = os.environ.get(_FOLDER)
    os.environ[_FOLDER] = folder

    def check_build(check: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        now = os.environ.pop(_FOLDER)
        try:
            if before is not None:
                os.environ[_FOLDER] = before
            return check(*args, **kwargs)
        finally:
            os.environ[_FOLDER] = now

    def share(vectors: ModuleType) -> None:
        # Without that name in torch, it takes longer.
        with contextlib.suppress(AttributeError, KeyError):
            wrap(vectors.VecISA, "check_build", check_build)

    if shares_checks and (vectors := sys.modules.get(_VECTORS)) is not None:
        share(vectors)
    elif shares_checks:
        sys.meta_path.insert(0, AfterImport({_VECTORS: share}))


def warm_up(*, has_vectors: bool) -> None:
    """Import what Inductor imports while it compiles, and ask what it asks once in each process:
    forks then know.

    ``has_vectors``: find out which vector instructions kernels can use; each check starts an
    interpreter that loads a small compiled file. What settings say of it is looked up again. The
    header of kernels with them is looked for, too, which runs the compiler. A name that this torch
    lacks takes longer later.
    """
    for module in pkgutil.iter_modules(
        importlib.import_module(_PATTERNS).__path__, f"{_PATTERNS}."
    ):
        importlib.import_module(module.name)
    # The part of the keys of Inductor's cache that stands for torch itself.
    codecache = importlib.import_module("torch._inductor.codecache")
    codecache.torch_key()
    if has_vectors:
        vectors = importlib.import_module(_VECTORS)
        before = os.environ.get(_FOLDER)
        try:
            vectors.valid_vec_isa_list()
            codecache.CppPythonBindingsCodeCache.load_async("// at::vec::")
            vectors.valid_vec_isa_list.cache_clear()
        finally:
            if before is None:
                os.environ.pop(_FOLDER, None)


def miss_caches() -> None:
    """Have torch find nothing on disk for the graphs that it compiles from now on.

    What it takes from a cache, it doesn't log. The tag is part of every key:
    ``torch/compiler/config.py``, 2.13.
    """
    from torch.compiler import config

    if hasattr(config, "cache_key_tag"):
        config.cache_key_tag = f"graphdoctor {os.getpid()} {time.time_ns()} {next(_tags)}"


def generate_anew(folder: str) -> None:
    """Have Inductor generate all code and time ways to compute again, and leave what it keeps of
    that in a folder.

    What it compiles from the code, in C++ and Triton, it goes on looking for, and leaves, where it
    did before. Where a name is missing, what nobody finds again is left there, too.
    """
    miss_caches()
    own = Path(folder)
    for module, cache, name, place in (
        ("torch._inductor.codecache", "FxGraphCache", "_get_tmp_dir", str(own / "graphs")),
        (
            "torch._functorch._aot_autograd.autograd_cache",
            "AOTAutogradCache",
            "_get_tmp_dir",
            str(own / "autograd"),
        ),
        ("torch._inductor.codecache", "CacheBase", "get_local_cache_path", own / "times"),
    ):
        with contextlib.suppress(ImportError, AttributeError, KeyError):
            owner = getattr(importlib.import_module(module), cache)
            put_in_place(owner, name, staticmethod(lambda place=place: place))


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
    parts: Mapping[CompilerPartKind, Collection[str] | None],
    on_use: Callable[[CompilerPartKind, str], None],
) -> None:
    """Leave parts of the compiler out, and turn its caches of graphs off: those return what was
    compiled with them.

    ``parts``: names by kind; None for all of a kind. ``on_use`` gets each part at its first use, or
    when it would have been used. ``AttributeError`` or ``ImportError`` if this torch has no
    bisector.
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

    put_in_place(bisector, "disable_subsystem", classmethod(disable_subsystem))
    # Not force_disable_caches, which makes a folder of its own (2.13), so that all that Inductor
    # compiles for itself is compiled once more.
    set_config("torch._inductor.config.fx_graph_cache", value=False)
    set_config("torch._functorch.config.enable_autograd_cache", value=False)


def _name(debug_info: Callable[[], str] | None) -> str | None:
    """The operator or pass that torch asks about; the text alone would give a graph's own name for
    a node.
    """
    for cell in getattr(debug_info, "__closure__", None) or ():
        value = getattr(cell.cell_contents, "target", cell.cell_contents)
        if hasattr(value, "_schema"):
            return str(value)
    return None if debug_info is None else debug_info()
