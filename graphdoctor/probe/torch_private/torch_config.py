"""The private names of torch's config modules, and of its float32 precision on CUDA
(TensorFloat32).

``torch/utils/_config_module.py``, 2.11 to 2.15; ``changed_config`` from 2.13 on. ``fp32_precision``
(``torch/backends/__init__.py``, 2.13), since older names raise an error once a program has used the
newer ones.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator
from typing import Any

import torch

from ...facts.kernels import Float32Precision

_CONFIG_MODULES = (
    "torch._dynamo.config",
    "torch._inductor.config",
    "torch._functorch.config",
    "torch.fx.experimental._config",
)
_MAX_CONFIG_TEXT = 200


def set_config(dotted: str, value: object) -> None:
    """Set a torch config value; ``AttributeError`` if there is no such."""
    config_value(dotted)
    module_name, _, name = dotted.rpartition(".")
    setattr(importlib.import_module(module_name), name, value)


def config_value(dotted: str) -> object:
    """A torch config value; ``AttributeError`` or ``ImportError`` if there is no such."""
    module_name, _, name = dotted.rpartition(".")
    module = importlib.import_module(module_name)
    if "." not in module_name or not hasattr(module, "_config"):
        raise AttributeError(f"{module_name} isn't a config module")
    return getattr(module, name)


def config_type(dotted: str) -> type | None:
    """The plain type that a torch config value is declared with (``get_type``, 2.13); None for a
    union or none.
    """
    module_name, _, name = dotted.rpartition(".")
    with contextlib.suppress(AttributeError, KeyError):
        declared: type = importlib.import_module(module_name).get_type(name)
        return declared if declared in (bool, int, float, str) else None
    return None


def config_names() -> list[str]:
    """Every setting of the config modules that are loaded, by dotted name."""
    modules = [
        module
        for name, module in sys.modules.items()
        if name.startswith("torch.") and name.endswith(".config")
    ]
    return [
        f"{module.__name__}.{name}" for module in modules for name in getattr(module, "_config", ())
    ]


@contextlib.contextmanager
def config_kept() -> Iterator[None]:
    """Restore every config value when the context ends."""
    # All, loaded or not: the first compile loads them, and what is set then must be restored too.
    modules = map(importlib.import_module, (*_CONFIG_MODULES, "torch.compiler.config"))
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
    """The config values that differ from their defaults, by dotted name, as Python prints them.

    Of the loaded modules, as this thread sees them (``_ConfigEntry``, 2.13). What torch takes from
    an environment variable at import counts as a default. ``AttributeError`` if this torch keeps
    its config differently.
    """
    found: dict[str, str] = {}
    for module in (sys.modules[name] for name in _CONFIG_MODULES if name in sys.modules):
        entries: dict[str, Any] = module._config
        for name, entry in entries.items():
            # An alias is another name for a value that is listed itself; unittest.mock hides some
            # for a moment. The first access to a deprecated value warns; leave the warning to the
            # program.
            is_quiet = getattr(entry, "deprecated", False) and module._is_default(name)
            if entry.alias is None and not entry.hide and not is_quiet:
                value = getattr(module, name)
                if not _is_equal(value, entry.default):
                    found[f"{module.__name__}.{name}"] = _printed(value)
    return found


def _is_equal(value: object, default: object) -> bool:
    try:
        return value is default or bool(value == default)
    except Exception:  # noqa: BLE001 - any __eq__ of the program's; those of defaults never fail
        return False


def _printed(value: object) -> str:
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - any __repr__ of the program's
        text = f"<{type(value).__qualname__}>"
    return text if len(text) <= _MAX_CONFIG_TEXT else f"{text[: _MAX_CONFIG_TEXT - 1]}…"


def float32_precision() -> Float32Precision | None:
    """What float32 computes with on CUDA now; None if CUDA isn't used, and on ROCm."""
    if torch.version.cuda is None or not torch.cuda.is_initialized():
        return None
    cudnn: Any = torch.backends.cudnn
    devices = range(torch.cuda.device_count())
    return Float32Precision(
        matmul_tf32=torch.backends.cuda.matmul.fp32_precision == "tf32",
        convolution_tf32=cudnn.conv.fp32_precision == "tf32",
        capabilities=tuple(torch.cuda.get_device_capability(device) for device in devices),
    )


def matmul_setting() -> str:
    """The precision of float32 matmuls as the program set it, such as ``highest``."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        # The program used the newer names.
        return f"fp32_precision={torch.backends.cuda.matmul.fp32_precision}"


@contextlib.contextmanager
def tf32_matmuls() -> Iterator[None]:
    """Matmuls of float32 in TensorFloat32, until it ends."""
    before = torch.backends.cuda.matmul.fp32_precision
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    try:
        yield
    finally:
        torch.backends.cuda.matmul.fp32_precision = before
