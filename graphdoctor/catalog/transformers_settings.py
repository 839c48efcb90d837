"""A configuration of transformers: read as plain settings, made small by rules, and written as
source.

Widths and head counts are divided by common factors over the whole tree of configurations, so that
what must be equal, a product of others or divisible by them stays so. Everything else is a count,
which becomes a small one.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import inspect
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeGuard

from .library import call_text, tables

_TABLES = tables(__file__)
_NAMES, _MOST, _NEEDED = _TABLES["names"], _TABLES["most"], _TABLES["needed"]

_LAYERS = 2
_MOST_LAYERS = 4
_LEAST_WIDTH = 16
"""Narrower ones stay as they are, and no main width becomes narrower."""


def _is(kind: str, name: str) -> bool:
    return re.search(_NAMES[kind], name.replace("_", " ")) is not None


def _most(name: str, value: int) -> int:
    """Return the most of a count; a value that has no such limit itself."""
    return next(
        (most for pattern, most in _MOST.items() if re.search(pattern, name.replace("_", " "))),
        value,
    )


LARGEST_VOCABULARY = _most("vocab_size", 0)
_WINDOW = _most("sliding_window", 0)

Images = Literal["few patches", "more patches", "default"]


@dataclass(frozen=True)
class Settings:
    """A configuration's values, and the configurations in it.

    ``needed``: what its class must be given to have these values, its parts' included.
    """

    values: Mapping[str, Any]
    parts: Mapping[str, Settings] = field(default_factory=dict)
    computed: frozenset[str] = frozenset()
    model_type: str | None = None
    class_name: str = ""
    needed: dict[str, Any] = field(default_factory=dict)

    def source(self, changes: dict[str, Any]) -> str:
        """Return the expression that makes it with other values."""
        return call_text(self.class_name, _merged(self.needed, changes))

    def tree(self) -> Iterator[Settings]:
        """It and all its parts."""
        yield self
        for part in self.parts.values():
            yield from part.tree()

    def numbers(self, kind: str) -> list[int]:
        """All integers in settings of a kind, in all parts."""
        named = ((name, value) for node in self.tree() for name, value in node.values.items())
        return [number for name, value in named if _is(kind, name) for number in integers(value)]


@dataclass(frozen=True)
class Strength:
    """How far a configuration is shrunk."""

    name: str
    images: Images
    head_size: int | None = None
    counts: bool = True
    layers: bool = True
    heads: bool = False
    least_heads: int = 2


STRENGTHS = tuple(Strength(**fields) for fields in _TABLES["strengths"])


def shrunk(settings: Settings, strength: Strength) -> dict[str, Any]:
    """Return the settings that change, with their new values."""
    return _Shrinking(settings, strength).changes(settings)


class _Shrinking:
    def __init__(self, whole: Settings, strength: Strength) -> None:
        self._strength = strength
        self._heads, self._head_size = (
            (1, 1) if strength.head_size is None else _divisors(whole, strength)
        )
        self._patch = max(whole.numbers("patch"), default=None)
        # Special tokens that the small vocabulary doesn't have get new ids, each its own, from its
        # end.
        tokens = sorted(
            {number for number in whole.numbers("token") if number >= LARGEST_VOCABULARY}
        )
        self._tokens = {
            old: LARGEST_VOCABULARY - 1 - place % (LARGEST_VOCABULARY // 2)
            for place, old in enumerate(reversed(tokens))
        }

    def changes(self, settings: Settings) -> dict[str, Any]:
        depths = _Depths(settings)
        changes: dict[str, Any] = {}
        for name, value in settings.values.items():
            if value is None and name in _NEEDED:
                changes[name] = _NEEDED[name]
            if name in settings.computed and not isinstance(value, (list, tuple, dict)):
                continue
            new = depths.shrunk(name, value) if self._strength.layers else value
            if new == value:
                new = self._value(name, value)
            if new != value:
                changes[name] = list(new) if isinstance(new, tuple) else new
        kinds = changes.get("layer_types", ())
        is_without_attention = kinds and set(kinds) <= {"linear_attention", "mamba"}
        if is_without_attention and "num_attention_heads" in settings.values:
            # Which layers of a hybrid model attend is in its checkpoints only.
            changes["layer_types"] = [*kinds[:-1], "full_attention"]
        has_windows = "sliding_attention" in (settings.values.get("layer_types") or ())
        if has_windows and settings.values.get("sliding_window", _WINDOW) is None:
            # Some defaults are only right with the values of a checkpoint.
            changes["sliding_window"] = _WINDOW
        for name, part in settings.parts.items():
            if below := self.changes(part):
                named = {"model_type": part.model_type} if part.model_type else {}
                changes[name] = named | below
        return changes

    def _value(self, name: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._value(key, item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(self._value(name, item) for item in value)
        if not _is_integer(value):
            return value
        if name == "image_embedding_size" and self._patch is not None:
            return self._image_size(value * self._patch) // self._patch
        if _is("image_size", name):
            return self._image_size(value)
        if _is("heads", name):
            return _divided(value, self._heads) if value > 1 else value
        if _is("head_size", name) or _is("section", name):
            return _divided(value, self._head_size)
        if _is("width", name) and value >= _LEAST_WIDTH:
            factor = self._heads * self._head_size
            quotient = value / factor
            # If it isn't small, a multiple of 8, as fast kernels need it.
            is_plain = quotient < 8 or factor == 1
            return _divided(value, factor) if is_plain else math.ceil(quotient / 8) * 8
        if _is("width", name):
            return value
        if not self._strength.counts:
            return value
        most = _most(name, value)
        is_token = _is("token", name) and most == value
        return self._tokens.get(value, value) if is_token else min(value, most)

    def _image_size(self, value: int) -> int:
        if self._strength.images == "default":
            return value
        patches = 4 if self._strength.images == "few patches" else 8
        # Without large patches, a model halves its images up to five times.
        patch = self._patch or 0
        return min(value, patches * (patch if patch >= 8 else 16))


def _divided(value: int, factor: int) -> int:
    """Return the quotient, or what is even and close to it."""
    return value // factor if value % factor == 0 else max(2, round(value / factor / 2) * 2)


def _is_integer(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def integers(value: Any) -> Iterator[int]:
    """Yield the integers in a setting, in nested lists too."""
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from integers(item)
    elif _is_integer(value):
        yield value


def _divisors(settings: Settings, strength: Strength) -> tuple[int, int]:
    counts = [number for number in settings.numbers("heads") if number > 1]
    widths = [width for width in settings.numbers("main_width") if width >= _LEAST_WIDTH]

    def are_wide(factor: int) -> bool:
        return all(width >= _LEAST_WIDTH * factor for width in widths)

    if strength.heads:
        # Those that share keys and values are fewer, and become one or two.
        most = [number for number in counts if number >= max(counts) // 2]
        return _common(most, lambda factor: min(most) // factor >= 2 and are_wide(factor)), 1
    sizes, sections = settings.numbers("head_size"), []
    for node in settings.tree():
        named = [
            (kind, value)
            for name, value in node.values.items()
            for kind in ("heads", "main_width")
            if _is(kind, name)
        ]
        heads_here = [n for kind, value in named if kind == "heads" for n in integers(value)]
        for kind, value in named:
            if kind == "main_width" and isinstance(value, int):
                sizes += [value // n for n in heads_here if n > 1 and value % n == 0]
        inner = [item for it in node.values.values() if isinstance(it, dict) for item in it.items()]
        sections += [n for name, it in inner if _is("section", name) for n in integers(it)]
    sizes = [size for size in sizes if size >= _LEAST_WIDTH]
    least = strength.head_size or 1
    heads = _common(counts, lambda factor: min(counts) // factor >= strength.least_heads)
    head_size = _common(
        [*sizes, *sections],
        lambda factor: all(size // factor >= least and size // factor % 4 == 0 for size in sizes),
    )
    if not sizes:
        head_size = _common(widths, are_wide)
    while heads > 1 and not are_wide(heads * head_size):
        heads = next(factor for factor in range(heads - 1, 0, -1) if heads % factor == 0)
    return heads, head_size


def _common(numbers: list[int], fits: Callable[[int], bool]) -> int:
    whole = math.gcd(*numbers)
    return next(
        (factor for factor in range(whole, 1, -1) if whole % factor == 0 and fits(factor)), 1
    )


class _Depths:
    """Which settings of a configuration are numbers of layers, and which layers of so many stay."""

    def __init__(self, settings: Settings) -> None:
        lists = [value for value in settings.values.values() if isinstance(value, (list, tuple))]
        are_numbers = [all(isinstance(item, (int, float)) for item in value) for value in lists]
        numeric = list(itertools.compress(lists, are_numbers))
        self._names = {
            name
            for name, count in settings.values.items()
            if _is("depth", name) and _is_integer(count) and count > _LAYERS
            # Otherwise stages, not layers: their widths, strides and so on are listed.
            if count > 8 or sum(len(item) == count for item in numeric) < 2
        }
        self._kept = {
            count: _kept_layers(count, lists)
            for count in {settings.values[name] for name in self._names}
        }

    def shrunk(self, name: str, value: Any) -> Any:
        if name in self._names:
            return len(self._kept[value])
        if isinstance(value, (list, tuple)):
            is_small = value and all(isinstance(item, int) and item < 100 for item in value)
            if is_small and _is("depth", name) and len(value) not in self._kept:
                return [min(item, _LAYERS) for item in value]
            is_referring = _is("referring", name)
            for count, kept in self._kept.items():
                if len(value) == count and not is_referring:
                    return [value[layer] for layer in kept]
                if is_referring and _are_indices(value, count):
                    return _renumbered(value, count, len(kept))
            return value
        if not _is_integer(value) or not self._kept:
            return value
        if _is("every", name):
            return min(value, _LAYERS)
        if _is("from_layer", name):
            return min(value, 1)
        if _is("up_to_layer", name):
            return min(value, max(map(len, self._kept.values())))
        return value


def _kept_layers(count: int, lists: list[Any]) -> list[int]:
    """Return the layers that stay: one of each kind, and as many as others refer to."""
    named = [
        value
        for value in lists
        if len(value) == count and any(isinstance(item, str) for item in value)
    ]
    first: dict[tuple[Any, ...], int] = {}
    for layer in range(count if named else 0):
        first.setdefault(tuple(value[layer] for value in named), layer)
    kept = sorted(first.values())[:_MOST_LAYERS]
    referred = max((len(set(value)) for value in lists if _are_indices(value, count)), default=0)
    # A pattern of kinds that is repeated until there are enough.
    patterns = (
        len(value) for value in lists if 1 < len(value) < count and isinstance(value[0], str)
    )
    count_kept = min(
        max(_LAYERS, len(kept), referred, min(max(patterns, default=0), _MOST_LAYERS)), count
    )
    others = (layer for layer in range(count) if layer not in kept)
    return sorted([*kept, *itertools.islice(others, count_kept - len(kept))])


def _are_indices(value: Any, count: int) -> bool:
    return bool(value) and all(_is_integer(item) and 0 <= item <= count for item in value)


def _renumbered(indices: Sequence[int], count: int, kept: int) -> list[int]:
    """Layers of a model with fewer of them; the last ones, in the same order."""
    old = sorted(set(indices))
    # Some count what comes before the first layer as 0, so that the last is the number of layers.
    above = 1 if old[-1] == count else 0
    new = {number: max(0, kept - len(old) + place + above) for place, number in enumerate(old)}
    return list(dict.fromkeys(new[number] for number in indices))


def _merged(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    merged = dict(first)
    for name, value in second.items():
        old = merged.get(name)
        if isinstance(old, dict) and isinstance(value, dict):
            value = _merged(old, value)  # noqa: PLW2901
        merged[name] = value
    return merged


def configured(config_class: Any) -> Settings:
    """Return the default configuration of a class, with what that must be given."""
    given = _TABLES["given"].get(config_class.model_type, {})
    settings = _read(config_class(**copy.deepcopy(given)), declared=None, given=given)
    return dataclasses.replace(settings, needed=_merged(settings.needed, given))


def _read(config: Any, *, declared: Any, given: Iterable[str] = ()) -> Settings:
    """Return a configuration; ``declared`` is the class that it has by default in another, None
    where it is in none.
    """
    kind = type(config)
    defaults, usual = _defaults(kind), None
    if declared is not None:
        with contextlib.suppress(Exception):  # it needs arguments
            usual = kind()
    values: dict[str, Any] = {}
    parts: dict[str, Settings] = {}
    needed: dict[str, Any] = {}
    for name in dict.fromkeys((*defaults, *given)):
        try:
            value = getattr(config, name, None)
        except Exception:  # noqa: BLE001 - it differs by layer, which transformers calls ambiguous
            continue
        if hasattr(value, "to_dict") and hasattr(value, "model_type"):
            parts[name] = _read(
                value, declared=getattr(kind, "sub_configs", {}).get(name) or object
            )
            if parts[name].needed:
                needed[name] = parts[name].needed
        elif _is_plain(value):
            values[name] = value
            if usual is not None and value != getattr(usual, name, None):
                needed[name] = list(value) if isinstance(value, tuple) else value
    model_type = None if declared in (None, kind) else getattr(config, "model_type", "")
    if needed and model_type:
        needed = {"model_type": model_type, **needed}
    chosen = _chosen_stages(config)
    if usual is not None and chosen and chosen != _chosen_stages(usual):
        needed["out_indices"] = values["out_indices"] = chosen
    computed = frozenset(
        name for name, default in defaults.items() if default is None and name not in needed
    )
    return Settings(values, parts, computed, model_type, kind.__name__, needed)


def _chosen_stages(config: Any) -> list[int] | None:
    """Return the layers that a backbone returns.

    They are a property, so none of the declared values.
    """
    try:
        return list(config.out_indices)
    except (AttributeError, TypeError, ValueError):
        return None


def _defaults(config_class: Any) -> dict[str, Any]:
    """Return the settings of a class, but for those that all have, with their defaults; None for
    none.
    """
    from transformers import PretrainedConfig

    parameters: list[Any]
    if dataclasses.is_dataclass(config_class):
        shared = {*getattr(PretrainedConfig, "__dataclass_fields__", ())}
        parameters = [it for it in dataclasses.fields(config_class) if it.name[0] != "_"]
    else:
        shared = {"self", *inspect.signature(PretrainedConfig.__init__).parameters}
        signature = inspect.signature(config_class.__init__)
        parameters = [it for it in signature.parameters.values() if it.kind is not it.VAR_KEYWORD]
    missing = (dataclasses.MISSING, inspect.Parameter.empty)
    return {
        it.name: None if any(it.default is none for none in missing) else it.default
        for it in parameters
        if it.name not in shared
    }


def _is_plain(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return all(_is_plain(item) for item in value)
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(item) for key, item in value.items())
    return value is None or isinstance(value, (bool, int, float, str))
