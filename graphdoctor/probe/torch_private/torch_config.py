"""torch's configuration by private names: config modules, float32 precision on CUDA
(TensorFloat32), and what is changed in the compiler for a trial: its cache folder, parts that are
left out.

``torch/utils/_config_module.py``, 2.11 to 2.15; ``changed_config`` from 2.13 on. ``fp32_precision``
(``torch/backends/__init__.py``, 2.13), since older names raise an error once a program has used the
newer ones. ``torch/_inductor/runtime/cache_dir_utils.py``, ``codecache.py``, ``cpu_vec_isa.py`` and
``compiler_bisector.py``, 2.11 to 2.15.
"""

from __future__ import annotations

import os
import pkgutil
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from ...facts.kernels import Float32Precision
from ...facts.trials import CompilerPartKind
from ...wording import clipped
from .imports import AfterImport
from .torch_api import Function, put_in_place, wrap

_CONFIG_MODULES = (
    "torch._dynamo.config",
    "torch._inductor.config",
    "torch._functorch.config",
    "torch.fx.experimental._config",
)
_MAX_CONFIG_TEXT = 200


def set_config(dotted: str, value: object) -> None:
    """Set a torch config value.

    Raises:
        AttributeError, ImportError: There is no such.
    """
    config_value(dotted)
    module_name, _, name = dotted.rpartition(".")
    setattr(import_module(module_name), name, value)


def config_value(dotted: str) -> object:
    """Read a torch config value; raises as ``set_config`` does."""
    module_name, _, name = dotted.rpartition(".")
    module = import_module(module_name)
    if "." not in module_name or not hasattr(module, "_config"):
        raise AttributeError(f"{module_name} isn't a config module")
    return getattr(module, name)


def config_type(dotted: str) -> type | None:
    """Return the plain type that a torch config value is declared with (``get_type``, 2.13); None
    for a union or none.
    """
    module_name, _, name = dotted.rpartition(".")
    with suppress(AttributeError, KeyError):
        declared = import_module(module_name).get_type(name)
        return declared if declared in (bool, int, float, str) else None
    return None


def config_names() -> list[str]:
    """List every setting of the config modules that are loaded, by dotted name."""
    return [
        f"{module.__name__}.{name}"
        for path, module in sys.modules.items()
        if path.startswith("torch.") and path.endswith(".config")
        for name in getattr(module, "_config", ())
    ]


@contextmanager
def config_kept() -> Iterator[None]:
    """Restore every config value when the context ends."""
    # All, loaded or not: the first compile loads them, and what is set then must be restored too.
    modules = map(import_module, (*_CONFIG_MODULES, "torch.compiler.config"))
    before = [(module, dict(module.get_config_copy())) for module in modules]
    try:
        yield
    finally:
        for module, values in before:
            now = module.get_config_copy()
            for name, value in values.items():
                if name not in now or not _is_equal(now[name], value):
                    setattr(module, name, value)


def changed_config() -> dict[str, str]:
    """List the config values that differ from their defaults, by dotted name, as Python prints
    them.

    Of the loaded modules, as this thread sees them (``_ConfigEntry``, 2.13). What torch takes from
    an environment variable at import counts as a default. ``AttributeError`` if this torch keeps
    its config differently.
    """
    changed = {}
    for module in (sys.modules[name] for name in _CONFIG_MODULES if name in sys.modules):
        for name, entry in module._config.items():
            # An alias is another name for a value that is listed itself; unittest.mock hides some
            # for a moment. The first access to a deprecated value warns; leave the warning to the
            # program.
            is_quiet = getattr(entry, "deprecated", False) and module._is_default(name)
            if entry.alias is None and not entry.hide and not is_quiet:
                value = getattr(module, name)
                if not _is_equal(value, entry.default):
                    changed[f"{module.__name__}.{name}"] = _printed(value)
    return changed


def _is_equal(value: object, default: object) -> bool:
    try:
        return value is default or bool(value == default)
    except Exception:  # noqa: BLE001 - any __eq__ of the program's; those of defaults never fail
        return False


def _printed(value: object) -> str:
    try:
        return clipped(repr(value), _MAX_CONFIG_TEXT)
    except Exception:  # noqa: BLE001 - any __repr__ of the program's
        return f"<{type(value).__qualname__}>"


def float32_precision() -> Float32Precision | None:
    """Return what float32 computes with on CUDA now; None if CUDA isn't used, and on ROCm."""
    if torch.version.cuda is None or not torch.cuda.is_initialized():
        return None
    backends: Any = torch.backends
    return Float32Precision(
        matmul_tf32=backends.cuda.matmul.fp32_precision == "tf32",
        convolution_tf32=backends.cudnn.conv.fp32_precision == "tf32",
        capabilities=tuple(map(torch.cuda.get_device_capability, range(torch.cuda.device_count()))),
    )


def matmul_setting() -> str:
    """Return the precision of float32 matmuls as the program set it, such as ``highest``."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        # The program used the newer names.
        return f"fp32_precision={torch.backends.cuda.matmul.fp32_precision}"


@contextmanager
def tf32_matmuls() -> Iterator[None]:
    """Compute matmuls of float32 in TensorFloat32, until it ends."""
    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    matmul.fp32_precision = "tf32"
    try:
        yield
    finally:
        matmul.fp32_precision = before


# Inductor's caches.

_FOLDER = "TORCHINDUCTOR_CACHE_DIR"
"""Inductor reads it each time that it looks for a file, and sets it where nobody has."""

_VECTORS = "torch._inductor.cpu_vec_isa"
_CODE_CACHE = "torch._inductor.codecache"
_AUTOGRAD_CACHE = "torch._functorch._aot_autograd.autograd_cache"
_PATTERNS = "torch._inductor.fx_passes.serialized_patterns"


def compile_into(folder: str, *, shares_checks: bool = True) -> None:
    """Have Inductor look for what it compiled in a folder of its own from now on, and leave it
    there.

    It compiles small files to find out which vector instructions there are: with ``shares_checks``
    it goes on looking for those where it did before; otherwise they are part of what a first start
    costs.
    """
    before = os.environ.get(_FOLDER)
    os.environ[_FOLDER] = folder

    def check_build(check: Function, *args: Any, **kwargs: Any) -> Any:
        now = os.environ.pop(_FOLDER)
        try:
            if before is not None:
                os.environ[_FOLDER] = before
            return check(*args, **kwargs)
        finally:
            os.environ[_FOLDER] = now

    def share(vectors: ModuleType) -> None:
        wrap(vectors.VecISA, "check_build", check_build)

    if shares_checks and (vectors := sys.modules.get(_VECTORS)) is not None:
        share(vectors)
    elif shares_checks:
        sys.meta_path.insert(0, AfterImport({_VECTORS: share}))


def warm_up(*, has_vectors: bool) -> None:
    """Import what Inductor imports while it compiles, and ask what it asks once in each process:
    forks then have the answers.

    ``has_vectors``: find out which vector instructions kernels can use; each check starts an
    interpreter that loads a small compiled file. What settings say of it is looked up again. The
    header of kernels with them is looked for, too, which runs the compiler. A name that this torch
    lacks takes longer later.
    """
    for module in pkgutil.iter_modules(import_module(_PATTERNS).__path__, f"{_PATTERNS}."):
        import_module(module.name)
    # The part of the keys of Inductor's cache that stands for torch itself.
    codecache = import_module(_CODE_CACHE)
    codecache.torch_key()
    if has_vectors:
        vectors = import_module(_VECTORS)
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

    config.cache_key_tag = f"graphdoctor {os.getpid()} {time.time_ns()}"


def generate_anew(folder: str) -> None:
    """Have Inductor generate all code and time ways to compute again, and leave what it keeps of
    that in a folder.

    What it compiles from the code, in C++ and Triton, it goes on looking for, and leaves, where it
    did before.
    """
    miss_caches()
    ours = Path(folder)
    for module, cache, name, place in (
        (_CODE_CACHE, "FxGraphCache", "_get_tmp_dir", str(ours / "graphs")),
        (_AUTOGRAD_CACHE, "AOTAutogradCache", "_get_tmp_dir", str(ours / "autograd")),
        (_CODE_CACHE, "CacheBase", "get_local_cache_path", ours / "times"),
    ):
        owner = getattr(import_module(module), cache)
        put_in_place(owner, name, staticmethod(lambda place=place: place))


# Parts of the compiler.

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
    when it would have been used.

    Raises:
        AttributeError, ImportError: This torch has no bisector.
    """
    bisector = import_module("torch._inductor.compiler_bisector").CompilerBisector
    seen = set()

    def disable_subsystem(
        _cls: type, _backend: str, subsystem: str, debug_info: Callable[[], str] | None = None
    ) -> bool:
        kind = _KINDS.get(subsystem)
        name = None if debug_info is None else debug_info()
        # An operator rather than that text, which gives a graph's own name for a node.
        for cell in getattr(debug_info, "__closure__", None) or ():
            value = getattr(cell.cell_contents, "target", cell.cell_contents)
            if hasattr(value, "_schema"):
                name = str(value)
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
