"""Inputs that a model might take, by the names of the arguments of ``forward``, its configuration and its errors."""

from __future__ import annotations

import inspect
import itertools
import linecache
import re
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..library import InputsText

_BATCH = 2
_LENGTH = 16
_MOST_TRIES = 32
_MOST_FEATURES = 4096
"""Tokens for one image; more are too many for a small program."""

_COUNTS = re.compile(r"tokens?:?\s*(\d+)\D+features?:?\s*(\d+)", re.IGNORECASE)

_MISSING = re.compile(r"missing \d+ required (?:positional|keyword-only) arguments?: (.+)")
_WANTED = re.compile(r"specify|provide|pass|need|missing|require|must|cannot be None|can't be None|should")
_SIZES = (
    re.compile(r"mat1 and mat2 shapes cannot be multiplied \(\d+x(?P<got>\d+) and (?P<wanted>\d+)x\d+\)"),
    re.compile(r"normalized_shape=\[(?P<wanted>\d+)\].*got input of size\[[\d, ]*?(?P<got>\d+)\]"),
    re.compile(r"to have (?P<wanted>\d+) channels, but got (?P<got>\d+) channels"),
    re.compile(r"size of tensor a \((?P<got>\d+)\) must match the size of tensor b \((?P<wanted>\d+)\)"),
    re.compile(r"expects? .{0,60}length (?P<wanted>\d+),? .{0,30}(?:found|got) (?P<got>\d+)"),
)

_RANK = re.compile(r"values to unpack \(expected (\d+)")
_MOST_RESIZED = 3
_MOST_ARGUMENTS = 10
_OPTIONAL = frozenset(
    (
        "past_key_values",
        "inputs_embeds",
        "decoder_inputs_embeds",
        "position_ids",
        "labels",
        "encoder_outputs",
        "use_cache",
        "output_attentions",
        "output_hidden_states",
        "return_dict",
        "cache_params",
        "mm_encoder_outputs",
        "cache_position",
    )
)

_NAME = re.compile(r"`(\w+)`|'(\w+)'")


@dataclass(frozen=True)
class _Plan:
    """Which arguments are given, each with several forms to try.

    Args:
        placeholder: The token that stands for an image or a sound in ``input_ids``; None for none.
        around: Tokens before and after them; none, or two.
    """

    what: str
    forms: Mapping[str, tuple[str, ...]]
    placeholder: int | None = None
    placeholders: int = 4
    around: tuple[int, ...] = field(default=())
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
                inputs = _inputs(dict(zip(current.forms, forms, strict=True)), current, takes)
                if inputs.body in tried:
                    continue
                tried.add(inputs.body)
                tries += 1
                if tries > _MOST_TRIES:
                    break
                error = yield inputs
                better = takes.learnt(current, error)
                if better is not None:
                    waiting = [better]
                    break


class _Arguments:
    def __init__(self, model: Any) -> None:  # noqa: ANN401
        self._config = model.config
        parameters = [
            item
            for item in list(inspect.signature(model.forward).parameters.values())
            if item.kind in (item.POSITIONAL_OR_KEYWORD, item.KEYWORD_ONLY)
        ]
        self._annotations = {item.name: str(item.annotation) for item in parameters}
        self.names = [item.name for item in parameters]
        self._required = [item.name for item in parameters if item.default is item.empty]
        main = getattr(model, "main_input_name", None)
        self._main = [main] if isinstance(main, str) else list(main or [])
        self._all = list(_tree(self._config))

    def value(self, *names: str, near: str = "") -> Any:  # noqa: ANN401
        """The first of these settings that is set anywhere, in parts whose name has ``near`` first."""
        nodes = sorted(self._all, key=lambda item: bool(near) and near not in item[0])
        for _, config in nodes:
            for name in names:
                found = getattr(config, name, None)
                if found is not None and not isinstance(found, bool):
                    return found
        return None

    def plans(self) -> Iterator[_Plan]:
        main = [name for name in self._main if name in self.names]
        images: list[str] = [name for name in ("pixel_values", "flattened_patches") if name in self.names]
        sounds: list[str] = [name for name in ("input_features", "input_values", "audio_values") if name in self.names]
        has_text = "input_ids" in self.names
        if has_text:
            for kind, found in (("image", images), ("audio", sounds)):
                if found:
                    yield from self._with_placeholders(kind, found[:1])
            if images and sounds:
                yield self._plan("text, images and sounds", ["input_ids", images[0], sounds[0]])
        if main:
            yield self._plan(f"its main input, {' and '.join(f'`{name}`' for name in main)}", main)
        for name in (*images, *sounds, "pixel_values_videos"):
            if name in self.names:
                yield self._plan(f"`{name}` alone", [name])
        if has_text:
            yield self._plan("text alone", ["input_ids"])
        yield self._plan("what it requires", [])

    def learnt(self, plan: _Plan, error: BaseException) -> _Plan | None:
        """A better plan by what a model raised; None to go on."""
        text = str(error)
        counted = _COUNTS.search(text)
        if counted and plan.placeholder is not None:
            tokens, features = map(int, counted.groups())
            # Some count the features' channels too.
            each = features if features != tokens else features // self._width
            wanted = plan.placeholders * each // tokens if tokens else 0
            if wanted and wanted != plan.placeholders and wanted <= _MOST_FEATURES:
                return replace(plan, placeholders=wanted)
        named = _MISSING.search(text)
        mentioned = [a or b for a, b in _NAME.findall(named.group(1) if named else text)]
        if not named and not _WANTED.search(text):
            mentioned = []
        for name in (*mentioned, *_absent(error)):
            if name in self.names and name not in plan.forms and len(plan.forms) < _MOST_ARGUMENTS:
                return replace(plan, forms={**plan.forms, name: self._forms(name)})
        return self._resized(plan, text) or _with_rank(plan, text)

    def _resized(self, plan: _Plan, text: str) -> _Plan | None:
        for pattern in _SIZES:
            if (found := pattern.search(text)) is None:
                continue
            got, wanted = found["got"], found["wanted"]
            forms = {name: tuple(_with_size(form, got, wanted) for form in known) for name, known in plan.forms.items()}
            if forms != plan.forms and plan.resized < _MOST_RESIZED:
                return replace(plan, forms=forms, resized=plan.resized + 1)
        return None

    def _with_placeholders(self, kind: str, names: list[str]) -> Iterator[_Plan]:
        token = self.value(f"{kind}_token_id", f"{kind}_token_index", f"{kind}_token")
        plan = self._plan(f"text and {'images' if kind == 'image' else 'sounds'}", ["input_ids", *names])
        if isinstance(token, int):
            start = self.value("vision_start_token_id" if kind == "image" else "audio_start_token_id")
            end = self.value("vision_end_token_id" if kind == "image" else "audio_end_token_id")
            around = tuple(item for item in (start, end) if isinstance(item, int))
            yield replace(plan, placeholder=token, around=around if len(around) == 2 else ())
        yield plan

    def _plan(self, what: str, names: list[str]) -> _Plan:
        chosen = list(dict.fromkeys([*names, *self._companions(names), *self._required]))
        return _Plan(what, {name: self._forms(name) for name in chosen})

    def _companions(self, names: list[str]) -> list[str]:
        found = []
        if "input_ids" in names:
            found += ["attention_mask", "bbox"]
            if "pixel_values" in names:
                found += ["image_grid_thw", "mm_token_type_ids"]
        if getattr(self._config, "is_encoder_decoder", False) or "decoder_input_ids" in self._required:
            found.append("decoder_input_ids")
        if "pixel_values_videos" in names:
            found.append("video_grid_thw")
        if "past_values" in names:
            found += ["past_time_features", "past_observed_mask", "future_values", "future_time_features"]
        return [name for name in found if name in self.names]

    def _forms(self, name: str) -> tuple[str, ...]:
        known = getattr(self, f"_{name}", None)
        forms: tuple[str, ...] = known() if known is not None else self._by_annotation(name)
        return forms

    def _by_annotation(self, name: str) -> tuple[str, ...]:
        annotation = self._annotations[name]
        width = self._width
        if name.endswith(("_ids", "_tokens")) or name.startswith("input_ids"):
            return (self._ids(),)
        if name.endswith("_mask") or "BoolTensor" in annotation:
            return (
                f"torch.ones({_BATCH}, {_LENGTH}, dtype=torch.int64)",
                f"torch.ones({_BATCH}, {_LENGTH}, dtype=torch.bool)",
            )
        if "LongTensor" in annotation or "IntTensor" in annotation:
            return (
                self._ids(),
                f"torch.zeros({_BATCH}, {_LENGTH}, dtype=torch.int64)",
                f"torch.zeros({_BATCH}, dtype=torch.int64)",
            )
        if "Tensor" in annotation or "_empty" in annotation:
            return (f"torch.randn({_BATCH}, {_LENGTH}, {width})", f"torch.randn({_BATCH}, {width})")
        if "int" in annotation:
            return ("1",)
        return ("None",)

    @property
    def _width(self) -> int:
        found = self.value("hidden_size", "d_model", "n_embd", "embed_dim", "hidden_dim", near="text")
        return found if isinstance(found, int) else 32

    def _ids(self, size: str = f"{_BATCH}, {_LENGTH}") -> str:
        low, high = self.ordinary
        return f"torch.randint({low}, {high}, ({size}))"

    @property
    def ordinary(self) -> tuple[int, int]:
        """The widest range of ids that has no special token."""
        vocabularies = [
            getattr(config, name)
            for _, config in self._all
            for name in vars(config)
            if "vocab" in name.split("_") and isinstance(getattr(config, name), int) and getattr(config, name) > 8
        ]
        size = min(vocabularies, default=128)
        special = sorted(
            {
                value
                for _, config in self._all
                for name in vars(config)
                if "token" in name or "_id" in name
                for value in _integers(getattr(config, name, None))
                if 0 <= value < size
            }
        )
        edges = [-1, *special, size]
        low, high = max(itertools.pairwise(edges), key=lambda pair: pair[1] - pair[0])
        return low + 1, min(high, low + 101)

    def _input_ids(self) -> tuple[str, ...]:
        books = self.value("num_codebooks", "n_codebooks")
        # Sound as several tokens at once, some with a token of text beside them.
        shapes = ("{length}, {books}", "{length}, {more}", "{books}, {length}") if isinstance(books, int) else ()
        sized = (shape.format(length=_LENGTH, books=books, more=(books or 0) + 1) for shape in shapes)
        return (self._ids(), *(self._ids(f"{_BATCH}, {shape}") for shape in sized))

    def _decoder_input_ids(self) -> tuple[str, ...]:
        channels = self.value("num_channels", near="decoder")
        several = (self._ids(f"{_BATCH}, {_LENGTH}, {channels}"),) if isinstance(channels, int) else ()
        return (*self._input_ids(), *several)

    def _attention_mask(self) -> tuple[str, ...]:
        return (f"torch.ones({_BATCH}, {_LENGTH}, dtype=torch.int64)",)

    def _bbox(self) -> tuple[str, ...]:
        return (f"torch.tensor([10, 20, 40, 60]).repeat({_BATCH}, {_LENGTH}, 1)",)

    def _channels(self) -> int:
        found = self.value("num_channels", "in_channels", "in_chans", "image_num_channels", near="vision")
        return found if isinstance(found, int) and found < 16 else 3

    def _side(self) -> int:
        found = self.value("image_size", "img_size", "image_resolution", near="vision")
        found = found[0] if isinstance(found, (list, tuple)) and found else found
        if isinstance(found, dict):
            found = next(iter(found.values()), None)
        return found if isinstance(found, int) and found > 0 else 64

    def _area(self) -> str:
        found = self.value("image_size", "img_size", near="vision")
        if isinstance(found, (list, tuple)) and len(found) == 2 and all(isinstance(side, int) for side in found):
            return f"{found[0]}, {found[1]}"
        return f"{self._side()}, {self._side()}"

    def _patches(self) -> tuple[int, int, int, int]:
        """Size of a patch, of a patch in time, how many become one token on a side, and how many a side has."""
        patch = _first(self.value("patch_size", near="vision"), 16)
        temporal = _first(self.value("temporal_patch_size", near="vision"), 1)
        merge = _first(self.value("spatial_merge_size", "merge_size", near="vision"), 1)
        return patch, temporal, merge, 2 * merge

    def _pixel_values(self) -> tuple[str, ...]:
        channels, side = self._channels(), self._side()
        patch, temporal, _, count = self._patches()
        flat = (
            f"torch.randn({_BATCH * count * count}, {channels * temporal * patch * patch})",
            f"torch.randn({_BATCH * count * count}, {channels}, {patch}, {patch})",
        )
        areas = list(dict.fromkeys([self._area(), f"{side}, {side}", "64, 64", "224, 224"]))
        plain = tuple(f"torch.randn({_BATCH}, {channels}, {area})" for area in areas)
        several = tuple(f"torch.randn({_BATCH}, {count}, {channels}, {side}, {side})" for count in (1, 2))
        frames = _first(self.value("num_frames", near="vision"), 4)
        video = (
            f"torch.randn({_BATCH}, {frames}, {channels}, {side}, {side})",
            f"torch.randn({_BATCH}, {channels}, {frames}, {side}, {side})",
        )
        rows = (f"torch.randn({_BATCH}, {count * count}, {channels * patch * patch})",)
        if {"image_grid_thw", "grid_thw"} & set(self.names):
            return (*flat, *plain)
        if {"spatial_shapes", "pixel_position_ids", "image_position_ids"} & set(self.names):
            return (*rows, *plain)
        return (*plain, *several, *video, *flat, *rows)

    _prompt_pixel_values = _pixel_values

    def _pixel_values_videos(self) -> tuple[str, ...]:
        channels, side = self._channels(), self._side()
        frames = _first(self.value("num_frames", "frames_per_clip", near="vision"), 4)
        return (f"torch.randn({_BATCH}, {frames}, {channels}, {side}, {side})",)

    def _hidden_states(self) -> tuple[str, ...]:
        patch, temporal, _, count = self._patches()
        if "grid_thw" in self.names:
            return (f"torch.randn({_BATCH * count * count}, {self._channels() * temporal * patch * patch})",)
        return (f"torch.randn({_BATCH}, {_LENGTH}, {self._width})",)

    def _grid_thw(self) -> tuple[str, ...]:
        count = self._patches()[3]
        return (f"torch.tensor([[1, {count}, {count}]] * {_BATCH})",)

    _image_grid_thw = _grid_thw
    _video_grid_thw = _grid_thw

    def _spatial_shapes(self) -> tuple[str, ...]:
        count = self._patches()[3]
        return (f"torch.tensor([[{count}, {count}]] * {_BATCH})",)

    def _pixel_position_ids(self) -> tuple[str, ...]:
        count = self._patches()[3]
        return (f"torch.cartesian_prod(torch.arange({count}), torch.arange({count})).repeat({_BATCH}, 1, 1)",)

    _image_position_ids = _pixel_position_ids

    def _target_sizes(self) -> tuple[str, ...]:
        count = self._side() // self._patches()[0]
        return (f"torch.tensor([[{count}, {count}]] * {_BATCH})",)

    def _pixel_attention_mask(self) -> tuple[str, ...]:
        count = self._patches()[3]
        if "spatial_shapes" in self.names:
            return (f"torch.ones({_BATCH}, {count * count}, dtype=torch.int64)",)
        side = self._side()
        return (
            f"torch.ones({_BATCH}, {side}, {side}, dtype=torch.int64)",
            f"torch.ones({_BATCH}, 1, {side}, {side}, dtype=torch.int64)",
        )

    def _image_sizes(self) -> tuple[str, ...]:
        return (f"torch.tensor([[{self._side()}, {self._side()}]] * {_BATCH})",)

    def _mm_token_type_ids(self) -> tuple[str, ...]:
        return ("placeholders.to(torch.int64)",)

    def _bands(self) -> int:
        return _first(
            self.value(
                "num_mel_bins",
                "feature_size",
                "n_mels",
                "input_feat_per_channel",
                "mel_bins",
                "num_mel_filters",
                "input_dim",
                near="audio",
            ),
            80,
        )

    def _frames(self) -> tuple[int, ...]:
        positions = self.value("max_source_positions", near="audio")
        windows = self.value("n_window", near="audio")
        found = [2 * positions] if isinstance(positions, int) else []
        found += [2 * windows] if isinstance(windows, int) else []
        return tuple(dict.fromkeys([*found, 128, 1024]))

    def _input_features(self) -> tuple[str, ...]:
        bands = self._bands()
        return tuple(
            form
            for frames in self._frames()
            for form in (f"torch.randn({_BATCH}, {bands}, {frames})", f"torch.randn({_BATCH}, {frames}, {bands})")
        )

    _audio_mel = _input_features

    def _input_features_mask(self) -> tuple[str, ...]:
        return tuple(
            f"torch.ones({_BATCH}, {frames}, dtype={kind})"
            for frames in self._frames()
            for kind in ("torch.int64", "torch.bool")
        )

    _audio_mel_mask = _input_features_mask
    _feature_attention_mask = _input_features_mask

    def _input_values(self) -> tuple[str, ...]:
        channels = _first(self.value("audio_channels", near="audio"), 1)
        length, bands = self.value("max_length"), self._bands()
        rows = (f"torch.randn({_BATCH}, {length}, {bands})",) if isinstance(length, int) else ()
        return (
            *rows,
            f"torch.randn({_BATCH}, 4000)",
            f"torch.randn({_BATCH}, {channels}, 4000)",
            f"torch.randn({_BATCH}, {channels}, 7680)",
            f"torch.randn({_BATCH}, 7680)",
            f"torch.randn({_BATCH}, 128, {bands})",
            f"torch.randn({_BATCH}, 16000)",
        )

    _audio_values = _input_values

    def _flattened_patches(self) -> tuple[str, ...]:
        patch = self._patches()[0]
        return (f"torch.randn({_BATCH}, {_LENGTH}, {2 + self._channels() * patch * patch})",)

    def _past(self) -> int:
        lags = self.value("lags_sequence")
        return _first(self.value("context_length", "prediction_length"), 32) + max(_integers(lags), default=0)

    def _past_values(self) -> tuple[str, ...]:
        series = _first(self.value("input_size", "num_input_channels"), 1)
        return (
            f"torch.randn({_BATCH}, {self._past()}, {series})"
            if series > 1 or ("past_observed_mask" in self.names and "past_time_features" not in self.names)
            else f"torch.randn({_BATCH}, {self._past()})",
            f"torch.randn({_BATCH}, {self._past()}, {series})",
            f"[torch.randn({self._past()}) for _ in range({_BATCH})]",
        )

    def _past_observed_mask(self) -> tuple[str, ...]:
        return (f"torch.ones({_BATCH}, {self._past()})",)

    def _past_values_padding(self) -> tuple[str, ...]:
        return (f"torch.zeros({_BATCH}, {self._past()})",)

    def _freq(self) -> tuple[str, ...]:
        return (f"torch.zeros({_BATCH}, 1, dtype=torch.int64)",)

    def _features_of_time(self) -> int:
        return _first(self.value("num_time_features"), 0) + _first(self.value("num_dynamic_real_features"), 0)

    def _past_time_features(self) -> tuple[str, ...]:
        return (f"torch.randn({_BATCH}, {self._past()}, {self._features_of_time()})",)

    def _future_time_features(self) -> tuple[str, ...]:
        return (f"torch.randn({_BATCH}, {_first(self.value('prediction_length'), 8)}, {self._features_of_time()})",)

    def _future_values(self) -> tuple[str, ...]:
        return (f"torch.randn({_BATCH}, {_first(self.value('prediction_length'), 8)})",)


def _inputs(forms: dict[str, str], plan: _Plan, takes: _Arguments) -> InputsText:
    notes = (f"It is called with {plan.what}.",)
    before: list[str] = []
    if plan.placeholder is not None and "input_ids" in forms:
        low, high = takes.ordinary
        first = 1 + bool(plan.around)
        length = _LENGTH + plan.placeholders
        last = first + plan.placeholders
        before.append(f"input_ids = torch.randint({low}, {high}, ({_BATCH}, {length}))")
        if plan.around:
            before.append(f"input_ids[:, {first - 1}], input_ids[:, {last}] = {plan.around[0]}, {plan.around[1]}")
        before.append(f"placeholders = torch.zeros({_BATCH}, {length}, dtype=torch.bool)")
        before.append(f"placeholders[:, {first}:{last}] = True")
        before.append(f"input_ids[placeholders] = {plan.placeholder}")
        forms = forms | {"input_ids": "input_ids"}
        if "attention_mask" in forms:
            forms["attention_mask"] = f"torch.ones({_BATCH}, {length}, dtype=torch.int64)"
    elif "mm_token_type_ids" in forms:
        forms = forms | {"mm_token_type_ids": f"torch.zeros({_BATCH}, {_LENGTH}, dtype=torch.int64)"}
    lines = [f'    "{name}": {value},' for name, value in forms.items()]
    return InputsText("\n".join([*before, "return {", *lines, "}"]), notes)


def _absent(error: BaseException) -> Iterator[str]:
    """Names that are None where an exception was raised, the innermost first, as far as the statement has them."""
    entries = []
    trace = error.__traceback__
    while trace is not None:
        entries.append(trace)
        trace = trace.tb_next
    for entry in reversed(entries):
        code, values = entry.tb_frame.f_code, entry.tb_frame.f_locals
        first, last, _, _ = next(itertools.islice(code.co_positions(), entry.tb_lasti // 2, None))
        lines = (linecache.getline(code.co_filename, number) for number in range(first or 0, (last or first or 0) + 1))
        for name in re.findall(r"[A-Za-z_]\w*", "".join(lines)):
            if name in values and values[name] is None and name not in _OPTIONAL:
                yield name


def _with_rank(plan: _Plan, text: str) -> _Plan | None:
    found = _RANK.search(text)
    if found is None:
        return None
    forms = {}
    for name, known in plan.forms.items():
        fitting = tuple(form for form in known if _rank(form) == int(found.group(1)))
        forms[name] = fitting if fitting and len(known) > 2 else known
    return None if forms == plan.forms else replace(plan, forms=forms)


def _rank(form: str) -> int | None:
    return form.count(",") + 1 if form.startswith("torch.randn(") else None


def _with_size(form: str, got: str, wanted: str) -> str:
    if not form.startswith("torch.randn("):
        return form
    return re.sub(rf"\b{got}\b(?!.*\b{got}\b)", wanted, form)


def _tree(config: Any, name: str = "") -> Iterator[tuple[str, Any]]:  # noqa: ANN401
    yield name, config
    for key, value in vars(config).items():
        if hasattr(value, "to_dict") and hasattr(value, "model_type"):
            yield from _tree(value, key)


def _integers(value: Any) -> Iterator[int]:  # noqa: ANN401
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _integers(item)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield value


def _first(value: Any, default: int) -> int:  # noqa: ANN401
    return next(_integers(value), default)
