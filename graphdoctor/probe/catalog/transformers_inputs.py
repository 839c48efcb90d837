"""Inputs that a model might take, by the names of the arguments of ``forward``, its configuration and its errors."""

from __future__ import annotations

import inspect
import itertools
import linecache
import re
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from .library import InputsText, known_values, tables, wrong_sizes
from .transformers_settings import integers

_BATCH = 2
_LENGTH = 16
_MOST_TRIES = 32
_MOST_FEATURES = 4096
"""Tokens for one image; more are too many for a small program."""

_COUNTS = re.compile(r"tokens?:?\s*(\d+)\D+features?:?\s*(\d+)", re.IGNORECASE)
_MISSING = re.compile(r"missing \d+ required (?:positional|keyword-only) arguments?: (.+)")
_WANTED = re.compile(r"specify|provide|pass|need|missing|require|must|cannot be None|can't be None|should")
_RANK = re.compile(r"values to unpack \(expected (\d+)")
_NAME = re.compile(r"`(\w+)`|'(\w+)'")
_MOST_RESIZED = 3
_MOST_ARGUMENTS = 10
_NONE_ON_PURPOSE = frozenset(
    re.findall(
        r"\w+",
        "past_key_values inputs_embeds decoder_inputs_embeds position_ids labels encoder_outputs use_cache "
        "output_attentions output_hidden_states return_dict cache_params mm_encoder_outputs cache_position",
    )
)

_IDS = "torch.randint({low}, {high}, ({batch}, {length}))"
_FLAT_PATCHES = "torch.randn({cells}, {patch_values})"
_ONES = "torch.ones({batch}, {length}, dtype=torch.int64)"
_FORMS = tables(__file__)["forms"]


@dataclass(frozen=True)
class _Plan:
    """Which arguments are given, each with several forms to try.

    ``placeholder``: the token that stands for an image or a sound in ``input_ids``; ``around``: those before and after.
    """

    what: str
    forms: Mapping[str, tuple[str, ...]]
    placeholder: int | None = None
    placeholders: int = 4
    around: tuple[int, ...] = ()
    resized: int = 0


def candidates(model: Any) -> Generator[InputsText, BaseException, None]:  # noqa: ANN401
    """Inputs, the richest first."""
    takes = _Arguments(model)
    tried: set[str] = set()
    for plan in takes.plans():
        tries = 0
        waiting = [plan]
        while waiting:
            current = waiting.pop(0)
            for forms in itertools.product(*current.forms.values()):
                inputs = takes.text(dict(zip(current.forms, forms, strict=True)), current)
                if inputs.body in tried:
                    continue
                tried.add(inputs.body)
                tries += 1
                if tries > _MOST_TRIES:
                    break
                better = takes.learnt(current, (yield inputs))
                if better is not None:
                    waiting = [better]
                    break


class _Arguments:
    def __init__(self, model: Any) -> None:  # noqa: ANN401
        self._config = model.config
        parameters = [
            item
            for item in inspect.signature(model.forward).parameters.values()
            if item.kind in (item.POSITIONAL_OR_KEYWORD, item.KEYWORD_ONLY)
        ]
        self._annotations = {item.name: str(item.annotation) for item in parameters}
        self._names = [item.name for item in parameters]
        self._required = [item.name for item in parameters if item.default is item.empty]
        main = getattr(model, "main_input_name", None)
        self._main = [main] if isinstance(main, str) else list(main or [])
        self._all = list(_tree(self._config))
        self._sizes = self._found_sizes()

    def _value(self, *names: str, near: str = "") -> Any:  # noqa: ANN401
        """The first of these settings that is set anywhere, in parts whose name has ``near`` first."""
        nodes = sorted(self._all, key=lambda item: bool(near) and near not in item[0])
        for _, config in nodes:
            for name in names:
                found = getattr(config, name, None)
                if found is not None and not isinstance(found, bool):
                    return found
        return None

    def _integer(self, *names: str, near: str = "", default: int) -> int:
        return next(integers(self._value(*names, near=near)), default)

    def _found_sizes(self) -> dict[str, int]:
        low, high = self._ordinary_ids()
        width = self._value("hidden_size", "d_model", "n_embd", "embed_dim", "hidden_dim", near="text")
        channels = self._value("num_channels", "in_channels", "in_chans", "image_num_channels", near="vision")
        channels = channels if isinstance(channels, int) and channels < 16 else 3
        side = self._value("image_size", "img_size", "image_resolution", near="vision")
        side = side[0] if isinstance(side, (list, tuple)) and side else side
        side = next(iter(side.values()), None) if isinstance(side, dict) else side
        side = side if isinstance(side, int) and side > 0 else 64
        patch = self._integer("patch_size", near="vision", default=16)
        temporal = self._integer("temporal_patch_size", near="vision", default=1)
        # How many patches a side has; so many of them become one token.
        count = 2 * self._integer("spatial_merge_size", "merge_size", near="vision", default=1)
        bands = ("num_mel_bins", "feature_size", "n_mels", "input_feat_per_channel", "mel_bins", "num_mel_filters")
        times = ("num_time_features", "num_dynamic_real_features")
        lags = max(integers(self._value("lags_sequence")), default=0)
        return {
            "batch": _BATCH,
            "length": _LENGTH,
            "low": low,
            "high": high,
            "width": width if isinstance(width, int) else 32,
            "channels": channels,
            "side": side,
            "patch": patch,
            "count": count,
            "cells": _BATCH * count * count,
            "tiles": side // patch,
            "frames": self._integer("num_frames", near="vision", default=4),
            "clip": self._integer("num_frames", "frames_per_clip", near="vision", default=4),
            "patch_values": channels * temporal * patch * patch,
            "numbered_values": 2 + channels * patch * patch,
            "bands": self._integer(*bands, "input_dim", near="audio", default=80),
            "sounds": self._integer("audio_channels", near="audio", default=1),
            "past": self._integer("context_length", "prediction_length", default=32) + lags,
            "future": self._integer("prediction_length", default=8),
            "series": self._integer("input_size", "num_input_channels", default=1),
            "times": sum(self._integer(name, default=0) for name in times),
        }

    def _ordinary_ids(self) -> tuple[int, int]:
        names = [(config, name) for _, config in self._all for name in vars(config)]
        vocabularies = [getattr(config, name, None) for config, name in names if "vocab" in name.split("_")]
        size = min((each for each in vocabularies if isinstance(each, int) and each > 8), default=128)
        special = [getattr(config, name, None) for config, name in names if "token" in name or "_id" in name]
        numbers = {number for value in special for number in integers(value)}
        edges = [-1, *sorted(number for number in numbers if 0 <= number < size), size]
        low, high = max(itertools.pairwise(edges), key=lambda pair: pair[1] - pair[0])
        return low + 1, min(high, low + 101)

    def plans(self) -> Iterator[_Plan]:
        """Sets of arguments, the richest first."""
        main = self._taken(*self._main)
        images = self._taken("pixel_values", "flattened_patches")
        sounds = self._taken("input_features", "input_values", "audio_values")
        has_text = "input_ids" in self._names
        if has_text:
            for kind, found in (("image", images), ("audio", sounds)):
                if found:
                    yield from self._with_placeholders(kind, found[0])
            if images and sounds:
                yield self._plan("text, images and sounds", ["input_ids", images[0], sounds[0]])
        if main:
            yield self._plan(f"its main input, {' and '.join(f'`{name}`' for name in main)}", main)
        for name in (*images, *sounds, *self._taken("pixel_values_videos")):
            yield self._plan(f"`{name}` alone", [name])
        if has_text:
            yield self._plan("text alone", ["input_ids"])
        yield self._plan("what it requires", [])

    def _taken(self, *names: str) -> list[str]:
        return [name for name in names if name in self._names]

    def _with_placeholders(self, kind: str, name: str) -> Iterator[_Plan]:
        token = self._value(f"{kind}_token_id", f"{kind}_token_index", f"{kind}_token")
        plan = self._plan(f"text and {'images' if kind == 'image' else 'sounds'}", ["input_ids", name])
        if isinstance(token, int):
            prefix = "vision" if kind == "image" else kind
            around = tuple(self._value(f"{prefix}_{end}_token_id") for end in ("start", "end"))
            has_both = all(isinstance(item, int) for item in around)
            yield replace(plan, placeholder=token, around=around if has_both else ())
        yield plan

    def _plan(self, what: str, names: list[str]) -> _Plan:
        companions = []
        if "input_ids" in names:
            companions += ["attention_mask", "bbox"]
            if "pixel_values" in names:
                companions += ["image_grid_thw", "mm_token_type_ids"]
        if getattr(self._config, "is_encoder_decoder", False) or "decoder_input_ids" in self._required:
            companions.append("decoder_input_ids")
        if "pixel_values_videos" in names:
            companions.append("video_grid_thw")
        if "past_values" in names:
            companions += ["past_time_features", "past_observed_mask", "future_values", "future_time_features"]
        chosen = dict.fromkeys([*names, *self._taken(*companions), *self._required])
        return _Plan(what, {name: self._forms(name) for name in chosen})

    def learnt(self, plan: _Plan, error: BaseException) -> _Plan | None:
        """A better plan by what a model raised; None to go on."""
        text = str(error)
        counted = _COUNTS.search(text)
        if counted and plan.placeholder is not None:
            tokens, features = map(int, counted.groups())
            # Some count the features' channels too.
            each = features if features != tokens else features // self._sizes["width"]
            wanted = plan.placeholders * each // tokens if tokens else 0
            if wanted and wanted != plan.placeholders and wanted <= _MOST_FEATURES:
                return replace(plan, placeholders=wanted)
        named = _MISSING.search(text)
        mentioned = [a or b for a, b in _NAME.findall(named.group(1) if named else text)]
        if not named and not _WANTED.search(text):
            mentioned = []
        for name in (*mentioned, *_absent(error)):
            if name in self._names and name not in plan.forms and len(plan.forms) < _MOST_ARGUMENTS:
                return replace(plan, forms={**plan.forms, name: self._forms(name)})
        return _with_size(plan, text) or _with_rank(plan, text)

    def _forms(self, name: str) -> tuple[str, ...]:
        known = self._by_config(name) or known_values(name, _FORMS) or self._by_annotation(name)
        return tuple(form.format_map(self._sizes) for form in known)

    def _by_config(self, name: str) -> tuple[str, ...]:
        """Arguments of which the configuration, or what else there is, says more than sizes; none for others."""
        has_grid = bool(self._taken("image_grid_thw", "grid_thw"))
        match name:
            case "input_ids" | "decoder_input_ids":
                # Sound as several tokens at once, some with a token of text beside them.
                books = self._value("num_codebooks", "n_codebooks")
                shapes: list[str] = []
                if isinstance(books, int):
                    shapes = [f"{{length}}, {books}", f"{{length}}, {books + 1}", f"{books}, {{length}}"]
                channels = self._value("num_channels", near="decoder") if name == "decoder_input_ids" else None
                shapes += [f"{{length}}, {channels}"] if isinstance(channels, int) else []
                return (_IDS, *(f"torch.randint({{low}}, {{high}}, ({{batch}}, {shape}))" for shape in shapes))
            case "pixel_values" | "prompt_pixel_values":
                return self._pixels(has_grid=has_grid)
            case "hidden_states" if "grid_thw" in self._names:
                return (_FLAT_PATCHES,)
            case "pixel_attention_mask" if "spatial_shapes" in self._names:
                return (f"torch.ones({{batch}}, {self._sizes['count'] ** 2}, dtype=torch.int64)",)
            case "input_features" | "audio_mel":
                shapes = [
                    shape for frames in self._frames() for shape in (f"{{bands}}, {frames}", f"{frames}, {{bands}}")
                ]
                return tuple(f"torch.randn({{batch}}, {shape})" for shape in shapes)
            case "input_features_mask" | "audio_mel_mask" | "feature_attention_mask":
                return tuple(
                    f"torch.ones({{batch}}, {frames}, dtype={kind})"
                    for frames in self._frames()
                    for kind in ("torch.int64", "torch.bool")
                )
            case "input_values" | "audio_values" if isinstance(length := self._value("max_length"), int):
                return (f"torch.randn({{batch}}, {length}, {{bands}})", *known_values(name, _FORMS))
            case "past_values":
                is_masked = "past_observed_mask" in self._names and "past_time_features" not in self._names
                several = "torch.randn({batch}, {past}, {series})"
                first = several if self._sizes["series"] > 1 or is_masked else "torch.randn({batch}, {past})"
                return (first, several, "[torch.randn({past}) for _ in range({batch})]")
        return ()

    def _pixels(self, *, has_grid: bool) -> tuple[str, ...]:
        area = self._value("image_size", "img_size", near="vision")
        is_area = isinstance(area, (list, tuple)) and len(area) == 2 and all(isinstance(side, int) for side in area)
        square = f"{self._sizes['side']}, {self._sizes['side']}"
        areas = dict.fromkeys([f"{area[0]}, {area[1]}" if is_area else square, square, "64, 64", "224, 224"])
        plain = tuple(f"torch.randn({{batch}}, {{channels}}, {area})" for area in areas)
        flat = (_FLAT_PATCHES, "torch.randn({cells}, {channels}, {patch}, {patch})")
        rows = f"torch.randn({{batch}}, {self._sizes['count'] ** 2}, {self._sizes['numbered_values'] - 2})"
        if has_grid:
            return (*flat, *plain)
        if self._taken("spatial_shapes", "pixel_position_ids", "image_position_ids"):
            return (rows, *plain)
        several = ("1, {channels}", "2, {channels}", "{frames}, {channels}", "{channels}, {frames}")
        return (*plain, *(f"torch.randn({{batch}}, {each}, {square})" for each in several), *flat, rows)

    def _frames(self) -> list[int]:
        stated = (self._value(name, near="audio") for name in ("max_source_positions", "n_window"))
        return list(dict.fromkeys([*(2 * value for value in stated if isinstance(value, int)), 128, 1024]))

    def _by_annotation(self, name: str) -> tuple[str, ...]:
        """An argument that has no rule of its own: numbers of a kind that its annotation or its name says."""
        annotation = self._annotations[name]
        if name.endswith(("_ids", "_tokens")) or name.startswith("input_ids"):
            return (_IDS,)
        if name.endswith("_mask") or "BoolTensor" in annotation:
            return (_ONES, "torch.ones({batch}, {length}, dtype=torch.bool)")
        if "LongTensor" in annotation or "IntTensor" in annotation:
            zeros = "torch.zeros({batch}, {length}, dtype=torch.int64)"
            return (_IDS, zeros, "torch.zeros({batch}, dtype=torch.int64)")
        if "Tensor" in annotation or "_empty" in annotation:
            return ("torch.randn({batch}, {length}, {width})", "torch.randn({batch}, {width})")
        return ("1",) if "int" in annotation else ("None",)

    def text(self, forms: dict[str, str], plan: _Plan) -> InputsText:
        """A plan with one form of each of its arguments."""
        before: list[str] = []
        if plan.placeholder is not None and "input_ids" in forms:
            first, length = 1 + bool(plan.around), _LENGTH + plan.placeholders
            last = first + plan.placeholders
            before.append(f"input_ids = {_IDS}".format_map({**self._sizes, "length": length}))
            if plan.around:
                before.append(f"input_ids[:, {first - 1}], input_ids[:, {last}] = {plan.around[0]}, {plan.around[1]}")
            before.append(f"placeholders = torch.zeros({_BATCH}, {length}, dtype=torch.bool)")
            before.append(f"placeholders[:, {first}:{last}] = True")
            before.append(f"input_ids[placeholders] = {plan.placeholder}")
            forms = forms | {"input_ids": "input_ids"}
            if "attention_mask" in forms:
                forms["attention_mask"] = _ONES.format(batch=_BATCH, length=length)
        elif "mm_token_type_ids" in forms:
            forms = forms | {"mm_token_type_ids": f"torch.zeros({_BATCH}, {_LENGTH}, dtype=torch.int64)"}
        lines = [f'    "{name}": {value},' for name, value in forms.items()]
        return InputsText("\n".join([*before, "return {", *lines, "}"]), (f"It is called with {plan.what}.",))


def _absent(error: BaseException) -> Iterator[str]:
    """Names that are None where an exception was raised, the innermost first, as far as the statement has them."""
    entries, trace = [], error.__traceback__
    while trace is not None:
        entries.append(trace)
        trace = trace.tb_next
    for entry in reversed(entries):
        code, values = entry.tb_frame.f_code, entry.tb_frame.f_locals
        first, last, _, _ = next(itertools.islice(code.co_positions(), entry.tb_lasti // 2, None))
        lines = (linecache.getline(code.co_filename, number) for number in range(first or 0, (last or first or 0) + 1))
        for name in re.findall(r"[A-Za-z_]\w*", "".join(lines)):
            if name in values and values[name] is None and name not in _NONE_ON_PURPOSE:
                yield name


def _with_size(plan: _Plan, text: str) -> _Plan | None:
    """The plan with another size of one dim, the last that a kernel didn't expect; None if it says no such thing."""
    for got, wanted in wrong_sizes(text):
        last = re.compile(rf"\b{got}\b(?!.*\b{got}\b)")
        forms = {
            name: tuple(last.sub(str(wanted), form) if form.startswith("torch.randn(") else form for form in known)
            for name, known in plan.forms.items()
        }
        if forms != plan.forms and plan.resized < _MOST_RESIZED:
            return replace(plan, forms=forms, resized=plan.resized + 1)
    return None


def _with_rank(plan: _Plan, text: str) -> _Plan | None:
    """The plan with only those tensors that have as many dims as something unpacked; None if none have."""
    if (found := _RANK.search(text)) is None:
        return None
    forms = {}
    for name, known in plan.forms.items():
        fitting = tuple(
            form for form in known if form.startswith("torch.randn(") and form.count(",") + 1 == int(found[1])
        )
        forms[name] = fitting if fitting and len(known) > 2 else known
    return None if forms == plan.forms else replace(plan, forms=forms)


def _tree(config: Any, name: str = "") -> Iterator[tuple[str, Any]]:  # noqa: ANN401
    yield name, config
    for key, value in vars(config).items():
        if hasattr(value, "to_dict") and hasattr(value, "model_type"):
            yield from _tree(value, key)
