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

from .library import (
    InputsText,
    ModelText,
    UnknownParameterError,
    described,
    evaluated_body,
    returned,
    tables,
    wrong_sizes,
)

_FAMILIES = ("unets", "transformers", "autoencoders", "controlnets")
_OTHER = "others"

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
_DRAWN = "torch.randn("
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

    def inputs(self, _text: ModelText, model: Any) -> Generator[InputsText, BaseException, None]:
        parameters = inspect.signature(model.forward).parameters
        kinds = {base.__name__ for module in model.modules() for base in type(module).__mro__}
        latents = _LATENTS[next((kind for kind in _LATENTS if kind in kinds), "Linear")]
        # Some take a mask only of another shape than the likeliest.
        for optional in (
            (),
            (*parameters,),
            (*(name for name in parameters if "mask" not in name),),
        ):
            names = [
                name
                for name, parameter in parameters.items()
                if parameter.default is parameter.empty
                or (name in optional and _is_taken(name, model.config))
            ]
            for denoised in latents:
                yield from _corrected(_inputs(names, parameters, denoised), model.config)


LIBRARY = _Diffusers()


def _is(kind: str, name: str) -> bool:
    return re.fullmatch(_NAMES[kind], name) is not None


def _is_taken(name: str, config: Mapping[str, Any]) -> bool:
    fields = _ASKED_FOR.get(name)
    return fields is None or any(config.get(field) for field in fields)


def _classes() -> dict[str, Any]:
    members = {name: getattr(models, name, None) for name in dir(models)}
    return {
        name: made
        for name, made in members.items()
        if inspect.isclass(made) and issubclass(made, ModelMixin) and made is not ModelMixin
    }


def _family(made: type[Any]) -> str:
    return next((part for part in made.__module__.split(".") if part in _FAMILIES), _OTHER)


def _configurations(made: type[Any]) -> Iterator[dict[str, object]]:
    parameters = inspect.signature(made.__init__).parameters.items()
    defaults = {
        name: parameter.default
        for name, parameter in parameters
        if parameter.default not in (parameter.empty, None)
        and not isinstance(parameter.default, bool)
    }
    layers = _smaller(defaults, _FEW_LAYERS, "layers")
    layers |= {
        name: value[:1] for name, value in defaults.items() if _are_chosen_layers(name, value)
    }
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
    required = {
        name: _USUAL[name]
        for name, parameter in parameters
        if parameter.default is parameter.empty and name in _USUAL
    }
    # Some can't be built with None.
    filled = {
        name: _USUAL[name]
        for name, parameter in parameters
        if parameter.default is None and name in _USUAL
    }
    for more in (required, {**required, **filled}, {**required, **filled, **groups}):
        yield {**more, **layers, **heads, **narrow, **inner}
        yield {**more, **layers, **heads, **wider, **inner}
        yield {**more, **layers, **heads, **inner}
        yield {**more, **layers, **narrow}
        yield {**more, **layers}


def _are_chosen_layers(name: str, value: object) -> bool:
    if not _is("chosen_layers", name) or not isinstance(value, (tuple, list)) or len(value) < 2:
        return False
    return value[0] == 0 and list(value) == sorted(set(value))


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
            is_list = form.startswith(_DRAWN) and _is_list(parameters[name])
            source = f"[{form.replace('(1, ', '(')}]" if is_list else form
            sources[name] = source.replace("{own}", f"{{{name}}}")
        elif parameters[name].default is inspect.Parameter.empty:
            raise UnknownParameterError(
                f"No rule knows a value for {described(parameters[name])} of forward."
            )
    return sources


def _is_list(parameter: inspect.Parameter) -> bool:
    return bool(
        re.match(
            r"(typing\.)?list\[(torch\.)?Tensor\b", inspect.formatannotation(parameter.annotation)
        )
    )


def _corrected(
    sources: dict[str, str], config: Mapping[str, Any]
) -> Generator[InputsText, BaseException, None]:
    unknown = iter(_UNKNOWN)
    named = dict.fromkeys(name for source in sources.values() for name in _SIZE.findall(source))
    widths = {
        name: _stated(name, config) or next(unknown)
        for name in named
        if name not in ("tokens", "axes")
    }
    widths["tokens"] = _stated("tokens", config) or _TOKENS
    for _ in range(_MOST_CORRECTIONS):
        failure = yield _text(sources, {**widths, "axes": _axes(config)})
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


def _axes(config: Mapping[str, Any]) -> int:
    stated = (config.get(field) for field in ("axes_dims_rope", "axes_dims", "axes_dim"))
    return next((len(axes) for axes in stated if isinstance(axes, (tuple, list))), 3)


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


def _text(sources: Mapping[str, str], sizes: Mapping[str, int]) -> InputsText:
    return InputsText(
        returned(
            {
                name: _SIZE.sub(lambda size: str(sizes[size[1]]), source)
                for name, source in sources.items()
            }
        )
    )
