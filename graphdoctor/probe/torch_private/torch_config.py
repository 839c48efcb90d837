"""The private names of torch that its config needs: ``torch_api`` for the config modules.

``torch/utils/_config_module.py``, seen on 2.11.0, 2.13.0 and 2.15.0; what ``changed_config`` needs on the last two.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator
from typing import Any

_CONFIG_MODULES = (
    "torch._dynamo.config",
    "torch._inductor.config",
    "torch._functorch.config",
    "torch.fx.experimental._config",
)
_MAX_CONFIG_TEXT = 200


def set_config(dotted: str, value: object) -> object:
    """Set a torch config value.

    Returns:
        The value it had.

    Raises:
        AttributeError: There is no such config.
    """
    before = config_value(dotted)
    module_name, _, name = dotted.rpartition(".")
    setattr(importlib.import_module(module_name), name, value)
    return before


def config_value(dotted: str) -> object:
    """A torch config value.

    Raises:
        AttributeError: There is no such config.
        ImportError: There is no such module.
    """
    module_name, _, name = dotted.rpartition(".")
    module = importlib.import_module(module_name)
    if "." not in module_name or not hasattr(module, "_config"):
        raise AttributeError(f"{module_name} isn't a config module")
    return getattr(module, name)


def config_type(dotted: str) -> type | None:
    """The plain type that a torch config value is declared with; None for a union or no declaration.

    ``get_type``: ``torch/utils/_config_module.py``, 2.13.
    """
    module_name, _, name = dotted.rpartition(".")
    try:
        declared = importlib.import_module(module_name).get_type(name)
    except (AttributeError, KeyError):
        return None
    return declared if declared in (bool, int, float, str) else None


def config_names() -> list[str]:
    """Every setting of the config modules that are loaded, by dotted name."""
    modules = [module for name, module in sys.modules.items() if name.startswith("torch.") and name.endswith(".config")]
    return [f"{module.__name__}.{name}" for module in modules for name in getattr(module, "_config", ())]


@contextlib.contextmanager
def config_kept() -> Iterator[None]:
    """Restore every config value when the context ends."""
    # All four, loaded or not: the first compile loads them, and what is set then must be restored too.
    before = [(module, dict(module.get_config_copy())) for module in map(importlib.import_module, _CONFIG_MODULES)]
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

    Covers the loaded modules, as this thread sees them: values are context variables (``_ConfigEntry``, 2.13). A value
    that torch takes from an environment variable at import, like most of inductor's, counts as the default.

    Raises:
        AttributeError: This torch keeps its config differently.
    """
    return {
        f"{module_name}.{name}": text
        for module_name in _CONFIG_MODULES
        if module_name in sys.modules
        for name, text in _changed(sys.modules[module_name])
    }


def _changed(module: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401
    for name, entry in module._config.items():
        # An alias is another name for a value that is listed itself; unittest.mock hides some for a moment.
        if entry.alias is not None or entry.hide:
            continue
        # The first access to a deprecated value warns; leave the warning to the program.
        if getattr(entry, "deprecated", False) and module._is_default(name):
            continue
        value = getattr(module, name)
        if not _is_equal(value, entry.default):
            yield name, _printed(value)


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
