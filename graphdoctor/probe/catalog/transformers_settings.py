"""A configuration of transformers: read as plain settings, made small by rules, and written as source.

Widths and head counts are divided by common factors over the whole tree of configurations, so that what must be equal,
a product of others or divisible by them stays so. Everything else is a count, which becomes a small one.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from .library import call_text

LARGEST_VOCABULARY = 256
_MOST_POSITIONS = 128
_EXPERTS = 4
_EXPERTS_PER_TOKEN = 2
_QUERIES = 8
_WINDOW = 8
_LAYERS = 2
_MOST_LAYERS = 4
_LEAST_WIDTH = 16
"""Narrower ones stay as they are, and no main width becomes narrower."""

_WIDTH_WORDS = frozenset(
    re.findall(
        r"\w+",
        "hidden dim dims channels channel embd embed embedding width widths ffn ff inner rank filters intermediate "
        "proj projection model bottleneck latents",
    )
)
_NOT_A_WIDTH = frozenset(
    re.findall(
        r"\w+",
        "num n kernel window stride strides vocab position positions codebook mel mels head heads bins layers layer "
        "image img patch conv1d max min ratio scale offset length state",
    )
)
_HEAD_SIZE = re.compile(r"head_dim|dim_head|head_size|d_kv|kv_channels|rotary_dim|head_width")
_COUNTED_WIDTHS = re.compile(r"(^|_)(num|n)_(filters|channels|features|pos_feats|embd|inner|hidden)$")
_MAIN_WIDTHS = (
    *("hidden_size", "d_model", "n_embd", "embed_dim", "hidden_dim", "dim", "width"),
    *("hidden_sizes", "embed_dims", "embedding_size"),
)
_HEADS = re.compile(r"(^|_)heads?$|(^|_)(num|n|norm_num|pos_embedding|embedding)_groups$")
_NOT_HEADS = re.compile(r"has_|use_|with_|_head$(?<!n_head)")
_DEPTH = re.compile(r"(^|_)(layers?|depths?|blocks?|n_layer|numb_of_layers)$")
_NOT_DEPTH = re.compile(
    r"feature_layer|select|feat_extract|index|_id|start|end|conv|norm|drop|kv_shared|first|last|nextn|mtp"
)
_EVERY = re.compile(r"(period|interval|frequency|every_n\w*|_pattern|sparse_step|cross_attention_freq)$")
_POSITIONS = re.compile(
    r"(^|_)(position_embeddings|positions|n_ctx|seq_len|seq_length|sequence_length|max_target_len)$"
)
_TOKENS = re.compile(
    r"(_token_ids?|_token_index|_token_id_list|_token_type_index|_tokens?_ids?|_index|_idx)$|^(bos|eos|pad)_"
)
_IMAGE_SIZES = re.compile(r"(^|_)(image_size|img_size|image_resolution)$")

Images = Literal["few patches", "more patches", "default"]


@dataclass(frozen=True)
class Settings:
    """A configuration's values."""

    values: Mapping[str, Any]
    parts: Mapping[str, Settings] = field(default_factory=dict)
    computed: frozenset[str] = frozenset()
    model_type: str | None = None

    def tree(self) -> Iterator[Settings]:
        """It and all its parts."""
        yield self
        for part in self.parts.values():
            yield from part.tree()


@dataclass(frozen=True)
class Strength:
    """How far a configuration is shrunk."""

    name: str
    head_size: int | None
    images: Images
    counts: bool = True
    layers: bool = True
    heads: bool = False
    least_heads: int = 2


_NEEDED: dict[str, Any] = {
    "prediction_length": 8,
    "num_experts_per_tok": _EXPERTS_PER_TOKEN,
    "attn_layer_indices": [1],
    "image_token_index": LARGEST_VOCABULARY - 5,
    "image_token_id": LARGEST_VOCABULARY - 5,
    "video_token_index": LARGEST_VOCABULARY - 6,
}
"""Settings that are None by default, and that only a checkpoint has: how far a time series is forecast, how many
experts a token uses, which layers of a hybrid model attend, and which tokens stand for images."""

STRENGTHS = (
    Strength("with few layers, narrow, with small images, vocabularies and experts", 8, "few patches"),
    Strength("with few layers, narrow, with small vocabularies and few experts", 16, "more patches", least_heads=4),
    Strength("with few layers, narrow, with small vocabularies and few experts", 16, "default"),
    Strength("narrow, with small images, vocabularies and experts", 8, "few patches", layers=False),
    Strength("narrow, with small vocabularies and few experts", 16, "default", layers=False),
    Strength("with few layers and heads, small images, vocabularies and few experts", 1, "few patches", heads=True),
    Strength(
        "with few layers, small images, vocabularies and few experts; its widths are the default", None, "few patches"
    ),
    Strength("with few layers, small vocabularies and few experts; its widths are the default", None, "default"),
    Strength("with few layers", None, "default", counts=False),
)


@dataclass(frozen=True)
class _Factors:
    heads: int
    head_size: int
    tokens: Mapping[int, int]
    patch: int | None

    @property
    def width(self) -> int:
        return self.heads * self.head_size


def shrunk(settings: Settings, strength: Strength) -> dict[str, Any]:
    """What changes."""
    heads, head_size = (1, 1) if strength.head_size is None else _divisors(settings, strength)
    factors = _Factors(heads, head_size, _tokens(settings) if strength.counts else {}, _patch(settings))
    return _changes(settings, strength, factors)


def _changes(settings: Settings, strength: Strength, factors: _Factors) -> dict[str, Any]:
    depths = _Depths(settings)
    changes: dict[str, Any] = {}
    for name, value in settings.values.items():
        if value is None and name in _NEEDED:
            changes[name] = _NEEDED[name]
        if name in settings.computed and not isinstance(value, (list, tuple, dict)):
            continue
        new = depths.shrunk(name, value) if strength.layers else value
        if new == value:
            new = _shrunk_value(name, value, strength, factors)
        if new != value:
            changes[name] = list(new) if isinstance(new, tuple) else new
    kinds = changes.get("layer_types", ())
    if kinds and set(kinds) <= {"linear_attention", "mamba"} and "num_attention_heads" in settings.values:
        # Which layers of a hybrid model attend is in its checkpoints only.
        changes["layer_types"] = [*kinds[:-1], "full_attention"]
    has_windows = "sliding_attention" in (settings.values.get("layer_types") or ())
    if has_windows and settings.values.get("sliding_window", _WINDOW) is None:
        # Some defaults are only right with the values of a checkpoint.
        changes["sliding_window"] = _WINDOW
    for name, part in settings.parts.items():
        below = _changes(part, strength, factors)
        if below:
            changes[name] = {"model_type": part.model_type, **below} if part.model_type else below
    return changes


def _shrunk_value(name: str, value: Any, strength: Strength, factors: _Factors) -> Any:  # noqa: ANN401
    if isinstance(value, dict):
        return {key: _shrunk_value(key, item, strength, factors) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_shrunk_value(name, item, strength, factors) for item in value)
    if isinstance(value, bool) or not isinstance(value, int):
        return value
    if name == "image_embedding_size" and factors.patch is not None:
        return _image_size(value * factors.patch, strength.images, factors.patch) // factors.patch
    if _IMAGE_SIZES.search(name):
        return _image_size(value, strength.images, factors.patch)
    if name.endswith("_section"):
        return _divided(value, factors.head_size)
    if _is_heads(name):
        return _divided(value, factors.heads) if value > 1 else value
    if _HEAD_SIZE.search(name):
        return _divided(value, factors.head_size)
    if _is_width(name):
        return _divided_width(value, factors.width) if value >= _LEAST_WIDTH else value
    return _count(name, value, factors.tokens) if strength.counts else value


def _count(name: str, value: int, tokens: Mapping[int, int]) -> int:
    words = set(name.split("_"))
    if _is_vocabulary(name):
        return min(value, LARGEST_VOCABULARY)
    if _TOKENS.search(name):
        return tokens.get(value, value)
    if "experts" in words or ("expert" in words and "num" in words) or ("moe" in words and words & {"topk", "k"}):
        if "shared" in words or "capacity" in words or "size" in words:
            return value
        if words & {"per", "top", "topk", "k", "selected", "active", "used"}:
            return min(value, _EXPERTS_PER_TOKEN)
        return min(value, _EXPERTS)
    if name in ("n_group", "topk_group", "n_expert_groups", "num_expert_groups"):
        return min(value, 1)
    if (words & {"queries", "query"} and words & {"num", "n"}) or words >= {"num", "latents"}:
        return min(value, _QUERIES)
    if name in ("sliding_window", "attention_window", "local_attention", "sliding_window_size"):
        return min(value, _WINDOW)
    if (_POSITIONS.search(name) and not words & {"num", "relative", "original"}) or name in ("n_positions", "n_ctx"):
        return min(value, _MOST_POSITIONS)
    return value


def _divided(value: int, factor: int) -> int:
    """The quotient, or what is even and close to it."""
    if value % factor == 0:
        return value // factor
    return max(2, round(value / factor / 2) * 2)


def _divided_width(value: int, factor: int) -> int:
    """The quotient; if it isn't small, a multiple of 8, as fast kernels need it."""
    quotient = value / factor
    return _divided(value, factor) if quotient < 8 or factor == 1 else math.ceil(quotient / 8) * 8


def _is_heads(name: str) -> bool:
    return bool(_HEADS.search(name)) and name not in ("use_head", "lm_head") and not _NOT_HEADS.search(name)


def _is_width(name: str) -> bool:
    if _COUNTED_WIDTHS.search(name):
        return True
    words = set(name.split("_"))
    return bool(words & _WIDTH_WORDS) and not words & _NOT_A_WIDTH and name != "input_dim"


def _is_vocabulary(name: str) -> bool:
    return "vocab" in name.split("_") or name in ("codebook_size", "num_embeddings", "vocabulary_size", "n_vocab")


def _integers(value: Any) -> Iterator[int]:  # noqa: ANN401
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _integers(item)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield value


def _divisors(settings: Settings, strength: Strength) -> tuple[int, int]:
    least = strength.head_size or 1
    counts, sizes, widths = _sizes(settings)
    sections = [
        number
        for node in settings.tree()
        for value in node.values.values()
        if isinstance(value, dict)
        for name, listed in value.items()
        if name.endswith("_section")
        for number in _integers(listed)
    ]
    if strength.heads:
        # Those that share keys and values are fewer, and become one or two.
        most = [number for number in counts if number >= max(counts) // 2]
        return _common(most, lambda factor: min(most) // factor >= 2 and _are_wide(widths, factor)), 1
    heads = _common(counts, lambda factor: min(counts) // factor >= strength.least_heads)
    head_size = _common(
        [*sizes, *sections],
        lambda factor: all(size // factor >= least and size // factor % 4 == 0 for size in sizes),
    )
    if not sizes:
        head_size = _common(widths, lambda factor: _are_wide(widths, factor))
    while heads > 1 and not _are_wide(widths, heads * head_size):
        heads = next(factor for factor in range(heads - 1, 0, -1) if heads % factor == 0)
    return heads, head_size


def _are_wide(widths: list[int], factor: int) -> bool:
    return all(width >= _LEAST_WIDTH * factor for width in widths)


def _sizes(settings: Settings) -> tuple[list[int], list[int], list[int]]:
    counts: list[int] = []
    sizes: list[int] = []
    widths: list[int] = []
    for node in settings.tree():
        own = [number for name, value in node.values.items() if _is_heads(name) for number in _integers(value)]
        counts += [number for number in own if number > 1]
        main = [number for name in _MAIN_WIDTHS for number in _integers(node.values.get(name))]
        widths += [width for width in main if width >= _LEAST_WIDTH]
        for name, value in node.values.items():
            if _HEAD_SIZE.search(name):
                sizes += [number for number in _integers(value) if number >= _LEAST_WIDTH]
        single = [node.values[name] for name in _MAIN_WIDTHS if isinstance(node.values.get(name), int)]
        sizes += [width // number for width in single for number in own if number > 1 and width % number == 0]
    return counts, [size for size in sizes if size >= _LEAST_WIDTH], widths


def _common(numbers: list[int], fits: Any) -> int:  # noqa: ANN401
    whole = math.gcd(*numbers)
    return next((factor for factor in range(whole, 1, -1) if whole % factor == 0 and fits(factor)), 1)


def _tokens(settings: Settings) -> dict[int, int]:
    """New ids of special tokens that the small vocabulary doesn't have, each its own, from its end."""
    found: list[int] = []
    for node in settings.tree():
        for name, value in node.values.items():
            if _TOKENS.search(name):
                found += [number for number in _integers(value) if number >= LARGEST_VOCABULARY]
    distinct = sorted(set(found), reverse=True)
    return {old: LARGEST_VOCABULARY - 1 - place % (LARGEST_VOCABULARY // 2) for place, old in enumerate(distinct)}


def _patch(settings: Settings) -> int | None:
    found = [
        number
        for node in settings.tree()
        for name in ("patch_size", "encoder_stride")
        for number in _integers(node.values.get(name))
    ]
    return max(found, default=None)


def _image_size(value: int, images: Images, patch: int | None) -> int:
    if images == "default":
        return value
    patches = 4 if images == "few patches" else 8
    # Without large patches, a model halves its images up to five times.
    small = patches * patch if patch is not None and patch >= 8 else 16 * patches
    return min(value, small)


class _Depths:
    def __init__(self, settings: Settings) -> None:
        self._counts = {
            name: value
            for name, value in settings.values.items()
            if isinstance(value, int) and not isinstance(value, bool) and value > _LAYERS and _is_depth(name)
        }
        lists = [value for value in settings.values.values() if isinstance(value, (list, tuple))]
        numeric = [value for value in lists if value and all(isinstance(item, (int, float)) for item in value)]
        # Stages, not layers: their widths, strides and so on are listed.
        self._counts = {
            name: count
            for name, count in self._counts.items()
            if count > 8 or sum(len(item) == count for item in numeric) < 2
        }
        self._kept = {count: self._kept_layers(count, lists) for count in set(self._counts.values())}
        self._computed = settings.computed

    @staticmethod
    def _kept_layers(count: int, lists: list[Any]) -> list[int]:
        """Which layers stay: one of each kind, and as many as others refer to."""
        named = [value for value in lists if len(value) == count and any(isinstance(item, str) for item in value)]
        first: dict[tuple[Any, ...], int] = {}
        for layer in range(count if named else 0):
            first.setdefault(tuple(value[layer] for value in named), layer)
        kept = sorted(first.values())[:_MOST_LAYERS]
        referred = max((len(set(value)) for value in lists if _are_indices(value, count)), default=0)
        # A pattern of kinds that is repeated until there are enough.
        patterns = (len(value) for value in lists if 1 < len(value) < count and isinstance(value[0], str))
        wanted = min(max(_LAYERS, len(kept), referred, min(max(patterns, default=0), _MOST_LAYERS)), count)
        for layer in range(count):
            if len(kept) >= wanted:
                break
            if layer not in kept:
                kept.append(layer)
        return sorted(kept)

    def shrunk(self, name: str, value: Any) -> Any:  # noqa: ANN401
        if name in self._counts:
            return len(self._kept[value])
        if isinstance(value, (list, tuple)):
            if (
                _is_depth(name)
                and value
                and all(isinstance(item, int) and item < 100 for item in value)
                and len(value) not in self._kept
            ):
                return [min(item, _LAYERS) for item in value] if name not in _REFERRING else value
            return self._listed(name, value)
        if not isinstance(value, int) or isinstance(value, bool) or not self._kept:
            return value
        return self._counted(name, value)

    def _listed(self, name: str, value: Any) -> Any:  # noqa: ANN401
        for count, kept in self._kept.items():
            if len(value) == count and not _are_referring(name):
                return [value[layer] for layer in kept]
            if _are_referring(name) and _are_indices(value, count):
                return _renumbered(value, count, len(kept))
        return value

    def _counted(self, name: str, value: int) -> int:
        most = max(map(len, self._kept.values()))
        if _EVERY.search(name):
            return min(value, _LAYERS)
        if name.startswith(
            ("first_k_dense", "num_dense", "n_dense", "moe_layer_start", "num_kv_shared", "insert_layer")
        ):
            return min(value, 1)
        if name.endswith("_layer_offset"):
            return min(value, 1)
        if name in ("max_window_layers", "num_hidden_groups", "moe_layer_end_index"):
            return min(value, most)
        return value


_REFERRING = frozenset({"out_indices"})


def _are_referring(name: str) -> bool:
    return bool(re.search(r"(indices|indexes|_idx|_layers|_ids|layer_ids|layers|hooks|_layer)$", name))


def _is_depth(name: str) -> bool:
    return bool(_DEPTH.search(name)) and not _NOT_DEPTH.search(name)


def _are_indices(value: Any, count: int) -> bool:  # noqa: ANN401
    return bool(value) and all(
        isinstance(item, int) and not isinstance(item, bool) and 0 <= item <= count for item in value
    )


def _renumbered(indices: Iterable[int], count: int, kept: int) -> list[int]:
    """Layers of a model with fewer of them; the last ones, in the same order."""
    old = sorted(set(indices))
    # Some count what comes before the first layer as 0, so that the last is the number of layers.
    above = 1 if old[-1] == count else 0
    new = {number: max(0, kept - len(old) + place + above) for place, number in enumerate(old)}
    return list(dict.fromkeys(new[number] for number in indices))


# Configurations.

_PLAIN = (bool, int, float, str, type(None))


@dataclass(frozen=True)
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
