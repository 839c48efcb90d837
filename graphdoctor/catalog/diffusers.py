"""diffusers: its UNets, transformers, autoencoders and ControlNets, with few layers and narrow
ones.

Configurations come from the defaults of constructors, made smaller by what their parameters are
called. Inputs come from the signature of ``forward``: widths that nothing states are read from what
the model says about wrong ones.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Generator, Iterator, Mapping
from typing import Any

import diffusers
from diffusers import ModelMixin, models

from .library import InputsText, ModelText, evaluated_body, returned, tables, unknown, wrong_sizes

_FAMILIES = ("unets", "transformers", "autoencoders", "controlnets")

_FEW_LAYERS = 1
_FEW_HEADS = 2
_NARROW = 32

_TABLES = tables(__file__)
_LATENTS, _INPUTS, _ASKED_FOR, _STATED, _NAMES = (
    _TABLES[name] for name in ("latents", "inputs", "asked_for", "stated", "names")
)
_USUAL = {
    name: tuple(value) if isinstance(value, list) else value
    for name, value in _TABLES["usual"].items()
}

_MOST_CORRECTIONS = 8

_UNKNOWN = (37, 41, 43, 47, 53, 59, 61, 67)
"""Widths that nothing states: each of its own, so that an error that names one says whose it is."""

_TOKENS = 8
_LIST = re.compile(r"(typing\.)?list\[(torch\.)?Tensor\b")
_ONE, _ONE_AS_FLOAT = "torch.tensor([1])", "torch.tensor([1.0])"
_NOT_FLOAT = re.compile(r"got Long and Float|not implemented for 'Long'|expected scalar type Float")


_CONDITION = "controlnet_cond"
_IMAGE, _LARGE_CONDITION = (
    "torch.randn(1, {channels}, 16, 16)",
    f"torch.randn(1, {{{_CONDITION}}}, 128, 128)",
)
"""The image that a ControlNet goes by is eight times as large as what it has in latent space."""

_SIZE = re.compile(r"\{(\w+)\}")
"""In source: a number that a configuration or an error states."""


class _Diffusers:
    most_parameters = 200_000_000

    def families(self) -> dict[str, str]:
        homes = {name: made.__module__.split(".") for name, made in _classes().items()}
        return {
            name: next((part for part in home if part in _FAMILIES), "others")
            for name, home in homes.items()
        }

    def models(self, name: str) -> Iterator[ModelText]:
        made = _classes()[name]
        home = "diffusers" if hasattr(diffusers, name) else "diffusers.models"
        tried = []
        for smaller in _configurations(made):
            if smaller not in tried:
                tried.append(smaller)
                arguments = {key: repr(value) for key, value in smaller.items()}
                yield ModelText((f"from {home} import {name}",), evaluated_body(name, arguments))

    def inputs(self, _text: ModelText, model: Any) -> Generator[InputsText, BaseException, None]:
        parameters = inspect.signature(model.forward).parameters
        kinds = {base.__name__ for module in model.modules() for base in type(module).__mro__}
        latents = _LATENTS[next((kind for kind in _LATENTS if kind in kinds), "Linear")]
        required = [name for name, it in parameters.items() if it.default is it.empty]
        taken = [
            name
            for name in parameters
            if name not in _ASKED_FOR or any(map(model.config.get, _ASKED_FOR[name]))
        ]
        # Some take a mask only of another shape than the likeliest.
        for optional in ([], taken, [name for name in taken if "mask" not in name]):
            names = [name for name in parameters if name in required or name in optional]
            for denoised in latents:
                yield from _corrected(_inputs(names, parameters, denoised), model.config)


LIBRARY = _Diffusers()


def _is(kind: str, name: str) -> bool:
    return re.fullmatch(_NAMES[kind], name) is not None


def _classes() -> dict[str, Any]:
    members = {name: getattr(models, name, None) for name in dir(models)}
    return {
        name: made
        for name, made in members.items()
        if inspect.isclass(made) and issubclass(made, ModelMixin) and made is not ModelMixin
    }


def _configurations(made: type[Any]) -> Iterator[dict[str, object]]:
    parameters = inspect.signature(made.__init__).parameters.items()
    defaults = {
        name: parameter.default
        for name, parameter in parameters
        if parameter.default not in (parameter.empty, None)
        and not isinstance(parameter.default, bool)
    }
    layers = _smaller(defaults, _FEW_LAYERS, "layers")
    for name, value in defaults.items():
        is_choice = _is("chosen_layers", name) and isinstance(value, (tuple, list))
        if is_choice and len(value) > 1 and value[0] == 0 and [*value] == sorted(set(value)):
            layers[name] = value[:1]
    heads = _smaller(defaults, _FEW_HEADS, "heads")
    inner = {name: value for name, value in _inner(defaults).items() if value != defaults[name]}
    narrow = _smaller(defaults, _NARROW, "channels", "widths")
    wide = {
        name: value
        for name, value in narrow.items()
        if _is("channels", name) and not isinstance(value, int)
    }
    wider = narrow | {name: type(value)(item * 2 for item in value) for name, value in wide.items()}
    groups = {name: _FEW_HEADS for name in defaults if _is("groups", name)}
    usual = [(it, _USUAL[name]) for name, it in parameters if name in _USUAL]
    required = {it.name: value for it, value in usual if it.default is it.empty}
    # Some can't be built with None.
    filled = {it.name: value for it, value in usual if it.default is None}
    for more in (required, {**required, **filled}, {**required, **filled, **groups}):
        yield {**more, **layers, **heads, **narrow, **inner}
        yield {**more, **layers, **heads, **wider, **inner}
        yield {**more, **layers, **heads, **inner}
        yield {**more, **layers, **narrow}
        yield {**more, **layers}


def _smaller(defaults: Mapping[str, Any], few: int, *kinds: str) -> dict[str, Any]:
    """Numbers of these kinds, or as many of them as there are, where they are smaller than by
    default.
    """
    smaller: dict[str, Any] = {}
    for name, value in defaults.items():
        if not any(_is(kind, name) for kind in kinds):
            continue
        if isinstance(value, int):
            smaller[name] = min(value, few)
        elif isinstance(value, (tuple, list)) and all(isinstance(item, int) for item in value):
            smaller[name] = type(value)(min(item, few) for item in value)
    return {name: value for name, value in smaller.items() if value != defaults[name]}


def _inner(defaults: Mapping[str, Any]) -> dict[str, object]:
    """Widths that go with the number of heads: all that are as wide as all heads together by
    default.
    """
    count = next(
        (
            value
            for name, value in defaults.items()
            if _is("heads", name) and isinstance(value, int)
        ),
        None,
    )
    if not count:
        return {}
    few = min(count, _FEW_HEADS)
    wide = defaults.get("attention_head_dim")
    total = count * wide if isinstance(wide, int) else None
    return {
        name: value * few // count
        for name, value in defaults.items()
        if isinstance(value, int) and value % count == 0 and (value == total or _is("inner", name))
    }


def _inputs(
    names: list[str], parameters: Mapping[str, inspect.Parameter], denoised: str
) -> dict[str, str]:
    sources = {}
    for name in names:
        if _is("denoised", name):
            form = _LARGE_CONDITION if name == _CONDITION and denoised == _IMAGE else denoised
        elif _is("beside", name):
            form = denoised.replace("{channels}", "{own}")
        else:
            inputs = _INPUTS.items()
            form = next((text for pattern, text in inputs if re.fullmatch(pattern, name)), "")
        if form:
            annotation = inspect.formatannotation(parameters[name].annotation)
            is_list = form.startswith("torch.randn(") and _LIST.match(annotation)
            source = f"[{form.replace('(1, ', '(')}]" if is_list else form
            sources[name] = source.replace("{own}", f"{{{name}}}")
        elif parameters[name].default is inspect.Parameter.empty:
            raise unknown(parameters[name], "forward")
    return sources


def _corrected(
    sources: dict[str, str], config: Mapping[str, Any]
) -> Generator[InputsText, BaseException, None]:
    unstated = iter(_UNKNOWN)
    named = dict.fromkeys(name for source in sources.values() for name in _SIZE.findall(source))
    widths = {
        name: _stated(name, config) or next(unstated)
        for name in named
        if name not in ("tokens", "axes")
    }
    widths["tokens"] = _stated("tokens", config) or _TOKENS
    listed = (config.get(field) for field in ("axes_dims_rope", "axes_dims", "axes_dim"))
    axes = next((len(dims) for dims in listed if isinstance(dims, (tuple, list))), 3)
    for _ in range(_MOST_CORRECTIONS):
        sizes = {**widths, "axes": axes}
        values = {
            name: _SIZE.sub(lambda size: str(sizes[size[1]]), source)  # noqa: B023
            for name, source in sources.items()
        }
        failure = yield InputsText(returned(values))
        if _NOT_FLOAT.search(str(failure)) and _ONE in sources.values():
            sources = {
                name: _ONE_AS_FLOAT if source == _ONE else source
                for name, source in sources.items()
            }
            continue
        right = _right_width(str(failure), widths)
        if right is None or right[1] == widths[right[0]]:
            return
        widths[right[0]] = right[1]


def _stated(name: str, config: Mapping[str, Any]) -> int | None:
    stated = (config.get(field) for field in _STATED.get(name, ()))
    return next((width for width in stated if isinstance(width, int) and width), None)


def _right_width(message: str, widths: Mapping[str, int]) -> tuple[str, int] | None:
    """Whose width is wrong, and what it should be; several patches may lie side by side in the one
    that is named.
    """
    # Tensors that don't go together say something only if one has a width that nothing states.
    is_wrong = (
        pair
        for pair in wrong_sizes(message)
        if pair[0] in _UNKNOWN or "size of tensor a" not in message
    )
    got, expected = next(is_wrong, (0, 0))
    for name, width in widths.items():
        if width == got:
            return name, expected
    for name, width in widths.items() if got else ():
        if name != "tokens" and got % width == 0 and (expected * width) % got == 0:
            return name, expected * width // got
    return None
