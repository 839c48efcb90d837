"""diffusers: its UNets, transformers, autoencoders and ControlNets, with few layers and narrow ones.

Configurations come from the defaults of constructors, made smaller by what their parameters are called. Inputs come
from the signature of ``forward``: widths that nothing states are read from what the model says about wrong ones.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Generator, Iterator, Mapping
from typing import Any, NamedTuple

import diffusers
import torch
from diffusers import ModelMixin, models

from .library import InputsText, ModelText, UnknownParameterError, described, evaluated_body, wrong_sizes

_FAMILIES = ("unets", "transformers", "autoencoders", "controlnets")
_OTHER = "others"

_LAYERS = re.compile(r"(num_|n_)\w*(layers|blocks)|layers_per_block|\w+_layers_per_block|depth|num_layers")
_HEADS = re.compile(r"num_\w*heads|n_heads|n_kv_heads|num_heads")
_CHANNELS = re.compile(r"(\w+_)?block_out_channels")
_WIDTHS = re.compile(
    r"ffn_dim|ff_dim|intermediate_size|cross_attention_dim|joint_attention_dim|caption_channels|cap_feat_dim|text_\w*dim|"
    r"pooled_projection_dim|encoder_hidden_size|base_dim|ch|base_channels|decoder_base_dim"
)
_PIXELS = re.compile(r"sample_size")
_GROUPS = re.compile(r"(\w+_)?num_groups")
_CHOSEN_LAYERS = re.compile(r"\w+_layers")
"""Which of the layers have something: the first of them still is there when there are few."""
_INNER = ("hidden_size", "dim", "model_dim", "inner_dim")

_FEW_LAYERS = 1
_FEW_HEADS = 2
_NARROW = 32

_USUAL: dict[str, object] = {
    "in_channels": 4,
    "out_channels": 4,
    "latent_channels": 4,
    "sample_size": 32,
    "patch_size": 2,
    "hidden_size": 64,
    "cross_attention_dim": 32,
    "caption_channels": 32,
    "block_out_channels": (32, 64),
    "layers_per_block": 1,
    "spatial_compression_ratio": 2,
    "temporal_compression_ratio": 1,
    "num_layers": 1,
    "ffn_dim_multiplier": 1.0,
    "caption_projection_dim": 32,
    "text_dim": 32,
    "num_attention_heads": 2,
    "attention_head_dim": 32,
}

_MOST_CORRECTIONS = 8

_UNKNOWN = (37, 41, 43, 47, 53, 59, 61, 67)
"""Widths that nothing states: each of its own, so that an error that names one says whose it is."""

_TOKENS = 8
_NOT_FLOAT = re.compile(r"got Long and Float|not implemented for 'Long'|expected scalar type Float")


class _Input(NamedTuple):
    """A tensor to be: its shape, as names of widths and numbers, or a value as source."""

    given: tuple[int | str, ...] | str
    is_list: bool = False


_IMAGE, _VIDEO, _PACKED, _SOUND, _FRAMES, _EMBEDDED, _CHANNELS_LAST = (
    (1, "channels", 16, 16),
    (1, "channels", 5, 16, 16),
    (1, 16, "channels"),
    (1, "channels", 64),
    (1, 5, "channels", 16, 16),
    (1, "channels"),
    (1, 5, 16, 16, "channels"),
)
_LARGER_IMAGE, _LARGER_VIDEO, _LONGER_SOUND = (1, "channels", 64, 64), (1, "channels", 9, 64, 64), (1, "channels", 2048)
_LATENTS: dict[type[torch.nn.Module], tuple[tuple[int | str, ...], ...]] = {
    torch.nn.Conv3d: (_VIDEO, _FRAMES, _LARGER_VIDEO, _PACKED, _CHANNELS_LAST, _IMAGE),
    torch.nn.Conv2d: (_IMAGE, _LARGER_IMAGE, _VIDEO, _FRAMES, _PACKED),
    torch.nn.Conv1d: (_SOUND, _PACKED, _LONGER_SOUND, _IMAGE),
    torch.nn.Linear: (_PACKED, _EMBEDDED, _IMAGE, _VIDEO, _FRAMES, _CHANNELS_LAST),
}
"""Shapes of what is denoised or encoded, the likeliest first, by the first of these modules that a model has."""

_INPUTS: tuple[tuple[str, tuple[int | str, ...] | str], ...] = (
    (r"timesteps?|t|target_timestep|timestep_r|r_timestep", "torch.tensor([1])"),
    (
        r"encoder_hidden_states\w*_mask|encoder_attention_mask\w*",
        "torch.ones(1, TOKENS, dtype=torch.bool)",
    ),
    (r"encoder_hidden_states_image", (1, 4, "image")),
    (r"encoder_hidden_states\w*|cap_feats|context|text_bth|inputs_embeds", (1, "tokens", "{}")),
    (r"(?!audio_hidden)\w+_hidden_states", (1, "tokens", "{}")),
    (r"(\w+_)?input_ids|prior_token_id", "torch.zeros(1, TOKENS, dtype=torch.long)"),
    (r"prior_token_drop", "torch.zeros(1, dtype=torch.bool)"),
    (r"text_lens", "torch.tensor([TOKENS])"),
    (r"timestep_ratio", "torch.tensor([0.5])"),
    (r"mel", (1, "{}", 64)),
    (r"visual_rope_pos", "[torch.arange(5), torch.arange(8), torch.arange(8)]"),
    (r"text_rope_pos", "torch.arange(TOKENS)"),
    (r"pooled_\w+|class_emb|clip_\w+|image_embeddings", (1, "{}")),
    (r"proj_embedding", (1, "{}")),
    (r"image_embeds", (1, 4, "image")),
    (r"guidance", "torch.tensor([1.0])"),
    (r"img_ids", "torch.zeros(16, AXES)"),
    (r"txt_ids", "torch.zeros(TOKENS, AXES)"),
    (r"class_labels", "torch.tensor([1])"),
    (r"conditioning_scale", "1.0"),
    (r"img_shapes", "[[(1, 4, 4)]]"),
    (r"txt_seq_lens", "[TOKENS]"),
    (r"original_size|target_size", "torch.tensor([[128, 128]])"),
    (r"crop_coords", "torch.tensor([[0, 0]])"),
    (r"(audio_)?num_frames", "1"),
    (r"height|width", "4"),
    (r"fps", "torch.tensor([8])"),
    (r"added_cond_kwargs", '{"resolution": None, "aspect_ratio": None}'),
    (r"added_time_ids", "torch.tensor([[8, 1, 0]])"),
)
"""What arguments are given, by their names: source, or shapes."""
_DENOISED = re.compile(r"hidden_states|sample|x|latents|z|audio_hidden_states|image_latents|controlnet_cond")
_BESIDE = re.compile(r"(?!indices_)\w+_latents|control_hidden_states")

_CONDITION = "controlnet_cond"
_EIGHTFOLD = (1, _CONDITION, 128, 128)
"""The image that a ControlNet goes by is eight times as large as what it has in latent space."""

_ASKED_FOR = {
    "guidance": ("guidance_embeds", "guidance_embed"),
    "class_labels": ("num_embeds_ada_norm", "num_class_embeds"),
    "encoder_hidden_states_image": ("image_dim",),
}

_STATED = {
    "channels": ("in_channels", "in_visual_dim", "latent_channels", "audio_channels", "z_dim", "num_channels"),
    "encoder_hidden_states": (
        "cross_attention_dim",
        "joint_attention_dim",
        "caption_channels",
        "text_embed_dim",
        "text_dim",
        "cap_feat_dim",
        "in_text_dim",
        "cross_attention_input_dim",
    ),
    "pooled_projections": ("pooled_projection_dim",),
    "tokens": ("max_text_seq_length", "num_embeddings"),
    _CONDITION: ("conditioning_channels", "in_channels"),
    "image": ("image_dim", "image_embed_dim"),
}


class _Diffusers:
    most_parameters = 200_000_000

    def families(self) -> dict[str, str]:
        return {name: _family(made) for name, made in _classes().items()}

    def models(self, name: str) -> Iterator[ModelText]:
        made = _classes()[name]
        home = "diffusers" if hasattr(diffusers, name) else "diffusers.models"
        tried: list[dict[str, object]] = []
        for smaller in _configurations(made):
            if smaller not in tried:
                tried.append(smaller)
                arguments = {key: repr(value) for key, value in smaller.items()}
                yield ModelText((f"from {home} import {name}",), evaluated_body(name, arguments))

    def inputs(self, _text: ModelText, model: Any) -> Generator[InputsText, BaseException, None]:  # noqa: ANN401
        parameters = inspect.signature(model.forward).parameters
        kind = next((kind for kind in _LATENTS if _has(model, kind)), torch.nn.Linear)
        # Some take a mask only of another shape than the likeliest.
        for optional in ((), (*parameters,), (*(name for name in parameters if "mask" not in name),)):
            names = [
                name
                for name, each in parameters.items()
                if each.default is each.empty or (name in optional and _is_taken(name, model.config))
            ]
            for latents in _LATENTS[kind]:
                yield from _corrected(_inputs(names, parameters, latents), model.config)


LIBRARY = _Diffusers()


def _has(model: torch.nn.Module, kind: type[torch.nn.Module]) -> bool:
    return any(isinstance(module, kind) for module in model.modules())


def _is_taken(name: str, config: Mapping[str, Any]) -> bool:
    fields = _ASKED_FOR.get(name)
    return fields is None or any(config.get(field) for field in fields)


def _classes() -> dict[str, Any]:
    found = {name: getattr(models, name, None) for name in dir(models)}
    return {
        name: made
        for name, made in found.items()
        if inspect.isclass(made) and issubclass(made, ModelMixin) and made is not ModelMixin
    }


def _family(made: type[Any]) -> str:
    return next((part for part in made.__module__.split(".") if part in _FAMILIES), _OTHER)


def _configurations(made: type[Any]) -> Iterator[dict[str, object]]:
    parameters = inspect.signature(made.__init__).parameters.items()
    defaults = {
        name: each.default
        for name, each in parameters
        if each.default not in (each.empty, None) and not isinstance(each.default, bool)
    }
    layers = _smaller(defaults, _FEW_LAYERS, _LAYERS)
    layers |= {name: value[:1] for name, value in defaults.items() if _are_chosen_layers(name, value)}
    heads = _smaller(defaults, _FEW_HEADS, _HEADS)
    inner = {name: value for name, value in _inner(defaults).items() if value != defaults[name]}
    narrow = _smaller(defaults, _NARROW, _CHANNELS, _WIDTHS, _PIXELS)
    wide = {name: value for name, value in narrow.items() if _CHANNELS.fullmatch(name) and not isinstance(value, int)}
    wider = narrow | {name: type(value)(item * 2 for item in value) for name, value in wide.items()}
    groups = {name: _FEW_HEADS for name in defaults if _GROUPS.fullmatch(name)}
    given = {name: _USUAL[name] for name, each in parameters if each.default is each.empty and name in _USUAL}
    # Some can't be built with None.
    filled = {name: _USUAL[name] for name, each in parameters if each.default is None and name in _USUAL}
    for more in (given, {**given, **filled}, {**given, **filled, **groups}):
        yield {**more, **layers, **heads, **narrow, **inner}
        yield {**more, **layers, **heads, **wider, **inner}
        yield {**more, **layers, **heads, **inner}
        yield {**more, **layers, **narrow}
        yield {**more, **layers}


def _are_chosen_layers(name: str, value: object) -> bool:
    if not _CHOSEN_LAYERS.fullmatch(name) or not isinstance(value, (tuple, list)) or len(value) < 2:
        return False
    return value[0] == 0 and list(value) == sorted(set(value))


def _smaller(defaults: Mapping[str, Any], few: int, *patterns: re.Pattern[str]) -> dict[str, Any]:
    """Numbers that a pattern names, or as many of them as there are, where they are smaller than by default."""
    found: dict[str, Any] = {}
    for name, value in defaults.items():
        if not any(pattern.fullmatch(name) for pattern in patterns):
            continue
        if isinstance(value, int):
            found[name] = min(value, few)
        elif isinstance(value, (tuple, list)) and all(isinstance(item, int) for item in value):
            found[name] = type(value)(min(item, few) for item in value)
    return {name: value for name, value in found.items() if value != defaults[name]}


def _inner(defaults: Mapping[str, Any]) -> dict[str, object]:
    """Widths that go with the number of heads: all that are as wide as all heads together by default."""
    count = next((value for name, value in defaults.items() if _HEADS.fullmatch(name) and isinstance(value, int)), None)
    if not count:
        return {}
    few = min(count, _FEW_HEADS)
    wide = defaults.get("attention_head_dim")
    total = count * wide if isinstance(wide, int) else None
    return {
        name: value * few // count
        for name, value in defaults.items()
        if isinstance(value, int) and value % count == 0 and (value == total or name in _INNER)
    }


def _inputs(
    names: list[str], parameters: Mapping[str, inspect.Parameter], latents: tuple[int | str, ...]
) -> dict[str, _Input]:
    found = {}
    for name in names:
        if _DENOISED.fullmatch(name):
            is_image = name == _CONDITION and latents == _IMAGE
            given: tuple[int | str, ...] | str | None = _EIGHTFOLD if is_image else latents
        elif _BESIDE.fullmatch(name):
            given = tuple("{}" if part == "channels" else part for part in latents)
        else:
            given = next((each for pattern, each in _INPUTS if re.fullmatch(pattern, name)), None)
        if given is not None:
            if not isinstance(given, str):
                given = tuple(part.format(name) if isinstance(part, str) else part for part in given)
            is_list = not isinstance(given, str) and _is_list(parameters[name])
            found[name] = _Input(given, is_list)
        elif parameters[name].default is inspect.Parameter.empty:
            raise UnknownParameterError(f"No rule knows a value for {described(parameters[name])} of forward.")
    return found


def _is_list(parameter: inspect.Parameter) -> bool:
    return bool(re.match(r"(typing\.)?list\[(torch\.)?Tensor\b", inspect.formatannotation(parameter.annotation)))


def _corrected(found: dict[str, _Input], config: Mapping[str, Any]) -> Generator[InputsText, BaseException, None]:
    shapes = (each.given for each in found.values() if not isinstance(each.given, str))
    named = dict.fromkeys(part for shape in shapes for part in shape if isinstance(part, str))
    unknown = iter(_UNKNOWN)
    widths = {name: _stated(name, config) or next(unknown) for name in named}
    widths["tokens"] = _stated("tokens", config) or _TOKENS
    is_float = False
    for _ in range(_MOST_CORRECTIONS):
        failure = yield _text(found, widths, axes=_axes(config), is_float=is_float)
        if not is_float and _NOT_FLOAT.search(str(failure)):
            is_float = True
            continue
        right = _right_width(str(failure), widths)
        if right is None or right[1] == widths[right[0]]:
            return
        widths[right[0]] = right[1]


def _stated(name: str, config: Mapping[str, Any]) -> int | None:
    stated = (config.get(field) for field in _STATED.get(name, ()))
    return next((width for width in stated if isinstance(width, int) and width), None)


def _axes(config: Mapping[str, Any]) -> int:
    stated = (config.get(field) for field in ("axes_dims_rope", "axes_dims", "axes_dim"))
    return next((len(axes) for axes in stated if isinstance(axes, (tuple, list))), 3)


def _right_width(message: str, widths: Mapping[str, int]) -> tuple[str, int] | None:
    """Whose width is wrong, and what it should be; several patches may lie side by side in the one that is named."""
    # Tensors that don't go together say something only if one has a width that nothing states.
    is_wrong = (pair for pair in wrong_sizes(message) if pair[0] in _UNKNOWN or "size of tensor a" not in message)
    given, wanted = next(is_wrong, (0, 0))
    for name, width in widths.items():
        if width == given:
            return name, wanted
    for name, width in widths.items() if given else ():
        if name != "tokens" and given % width == 0 and (wanted * width) % given == 0:
            return name, wanted * width // given
    return None


def _text(found: Mapping[str, _Input], widths: Mapping[str, int], *, axes: int, is_float: bool) -> InputsText:
    lines = []
    for name, (given, is_list) in found.items():
        if isinstance(given, str):
            value = given.replace("TOKENS", str(widths["tokens"])).replace("AXES", str(axes))
            value = value.replace("torch.tensor([1])", "torch.tensor([1.0])") if is_float else value
        else:
            shape = [widths[part] if isinstance(part, str) else part for part in given]
            drawn = f"torch.randn({', '.join(map(str, shape[is_list:]))})"
            value = f"[{drawn}]" if is_list else drawn
        lines.append(f"{name} = {value}")
    returned = ", ".join(f'"{name}": {name}' for name in found)
    return InputsText("\n".join([*lines, f"return {{{returned}}}"]))
