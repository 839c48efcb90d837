"""Configurations of transformers as plain settings, and settings as the source of a configuration."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

from ..library import call_text
from .shrinking import Settings

_PLAIN = (bool, int, float, str, type(None))


@dataclasses.dataclass(frozen=True)
class Configured:
    """A class's default configuration."""

    class_name: str
    settings: Settings
    needed: dict[str, Any]

    def source(self, changes: dict[str, Any]) -> str:
        """The expression that makes it with other values."""
        return call_text(self.class_name, _merged(self.needed, changes))


def configured(config_class: Any) -> Configured:  # noqa: ANN401
    """The default configuration of a class."""
    config = config_class()
    settings, needed = _read(config, declared_class=None)
    return Configured(config_class.__name__, settings, needed)


def _merged(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    merged = dict(first)
    for name, value in second.items():
        old = merged.get(name)
        merged[name] = _merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def _read(config: Any, declared_class: Any) -> tuple[Settings, dict[str, Any]]:  # noqa: ANN401
    defaults = _defaults(type(config))
    usual = None if declared_class is None else _usual(type(config))
    values: dict[str, Any] = {}
    parts: dict[str, Settings] = {}
    needed: dict[str, Any] = {}
    for name in defaults:
        try:
            value = getattr(config, name, None)
        except Exception:  # noqa: BLE001 - it differs by layer, which transformers calls ambiguous
            continue
        if hasattr(value, "to_dict") and hasattr(value, "model_type"):
            declared = getattr(type(config), "sub_configs", {}).get(name)
            parts[name], below = _read(value, declared_class=declared or object)
            if below:
                needed[name] = below
        elif _is_plain(value):
            values[name] = value
            if usual is not None and value != getattr(usual, name, None):
                needed[name] = list(value) if isinstance(value, tuple) else value
    model_type = getattr(config, "model_type", "")
    if needed and model_type and declared_class not in (None, type(config)):
        needed = {"model_type": model_type, **needed}
    chosen = _chosen_stages(config)
    if usual is not None and chosen and chosen != _chosen_stages(usual):
        needed["out_indices"] = values["out_indices"] = chosen
    computed = frozenset(name for name, default in defaults.items() if default is None and name not in needed)
    return Settings(values, parts, computed, model_type if declared_class not in (None, type(config)) else None), needed


def _chosen_stages(config: Any) -> list[int] | None:  # noqa: ANN401
    """Which layers a backbone returns; a property, so that it's none of the declared values."""
    try:
        return list(config.out_indices)
    except (AttributeError, TypeError, ValueError):
        return None


def _usual(config_class: Any) -> Any:  # noqa: ANN401
    try:
        return config_class()
    except Exception:  # noqa: BLE001 - it needs arguments
        return None


def _defaults(config_class: Any) -> dict[str, Any]:  # noqa: ANN401
    from transformers import PretrainedConfig

    shared = inspect.signature(PretrainedConfig.__init__).parameters
    found: dict[str, Any] = {}
    if dataclasses.is_dataclass(config_class):
        common = (
            {field.name for field in dataclasses.fields(PretrainedConfig)}
            if dataclasses.is_dataclass(PretrainedConfig)
            else set()
        )
        for field in dataclasses.fields(config_class):
            if field.name not in common and not field.name.startswith("_"):
                found[field.name] = None if field.default is dataclasses.MISSING else field.default
        return found
    for name, parameter in inspect.signature(config_class.__init__).parameters.items():
        if name not in shared and parameter.kind is not parameter.VAR_KEYWORD and name != "self":
            found[name] = None if parameter.default is parameter.empty else parameter.default
    return found


def _is_plain(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return all(_is_plain(item) for item in value)
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(item) for key, item in value.items())
    return isinstance(value, _PLAIN)
