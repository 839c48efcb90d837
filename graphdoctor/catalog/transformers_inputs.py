"""Inputs that a model might take, by the names of the arguments of ``forward``, its configuration
and its errors.
"""

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

_MOST_TRIES = 32
_MOST_FEATURES = 4096
"""Tokens for one image; more are too many for a small program."""

_COUNTS = re.compile(r"tokens?:?\s*(\d+)\D+features?:?\s*(\d+)", re.IGNORECASE)
_MISSING = re.compile(r"missing \d+ required (?:positional|keyword-only) arguments?: (.+)")
_WANTED = re.compile(
    r"specify|provide|pass|need|missing|require|must|cannot be None|can't be None|should"
)
_RANK = re.compile(r"values to unpack \(expected (\d+)")
_NAME = re.compile(r"`(\w+)`|'(\w+)'")
_MOST_RESIZED = 3
_MOST_ARGUMENTS = 10
_NONE_ON_PURPOSE = frozenset(
    re.findall(
        r"\w+",
        "past_key_values inputs_embeds decoder_inputs_embeds position_ids labels encoder_outputs"
        " use_cache output_attentions output_hidden_states return_dict cache_params"
        " mm_encoder_outputs cache_position",
    )
)

_IDS = "torch.randint({low}, {high}, ({batch}, {length}))"
_ONES = "torch.ones({batch}, {length}, dtype=torch.int64)"
_ZEROS = "torch.zeros({batch}, {length}, dtype=torch.int64)"
_TABLES = tables(__file__)
_SIZES, _COMPANIONS, _FORMS, _BY_ANNOTATION = (
    _TABLES[name] for name in ("sizes", "companions", "forms", "by_annotation")
)
_NAMED = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class _Plan:
    """Which arguments are given, each with several forms to try.

    ``placeholder``: the token that stands for an image or a sound in ``input_ids``; ``around``:
    those before and after.
    """

    what: str
    forms: Mapping[str, tuple[str, ...]]
    placeholder: int | None = None
    placeholders: int = 4
    around: tuple[int, ...] = ()
    resized: int = 0


def candidates(model: Any) -> Generator[InputsText, BaseException, None]:
    """Inputs, the richest first."""
    takes = _Arguments(model)
    tried = set()
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
    def __init__(self, model: Any) -> None:
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

    def _value(self, *names: str, near: str = "") -> Any:
        """Return the first of these settings that is set anywhere, in parts whose name has ``near``
        first.
        """
        nodes = sorted(self._all, key=lambda item: bool(near) and near not in item[0])
        for _, config in nodes:
            for name in names:
                value = getattr(config, name, None)
                if value is not None and not isinstance(value, bool):
                    return value
        return None

    def _size(
        self,
        of: tuple[str, ...] = (),
        near: str = "",
        *,
        factor: int = 1,
        most: int = 2**31,
        default: int | None = None,
    ) -> int | None:
        """Return a setting as ``_SIZES`` describes it; of several numbers the first."""
        value = self._value(*of, near=near)
        number = next(integers([*value.values()] if isinstance(value, dict) else value), 0)
        return number * factor if 0 < number <= most else default

    def _found_sizes(self) -> dict[str, int]:
        """Those of the table that are known, and what is computed of them."""
        stated = ((name, self._size(**rule)) for name, rule in _SIZES.items())
        sizes = {name: size for name, size in stated if size is not None}
        match self._value("image_size", "img_size", near="vision"):
            case [int() as height, int() as width]:
                sizes |= {"image_height": height, "image_width": width}
        if "books" in sizes:
            sizes["books_and_text"] = sizes["books"] + 1
        sizes["low"], sizes["high"] = self._ordinary_ids()
        sizes["past"] += max(integers(self._value("lags_sequence")), default=0)
        sizes["times"] += sizes["dynamic_times"]
        pixels = sizes["channels"] * sizes["patch"] ** 2
        patches = sizes["count"] ** 2
        return sizes | {
            "patches": patches,
            "cells": sizes["batch"] * patches,
            "tiles": sizes["side"] // sizes["patch"],
            "pixels": pixels,
            "patch_values": pixels * sizes["temporal"],
            "numbered_values": 2 + pixels,
        }

    def _ordinary_ids(self) -> tuple[int, int]:
        vocabularies = []
        special: set[int] = set()
        for _, config in self._all:
            for name in vars(config):
                value = getattr(config, name, None)
                if "vocab" in name.split("_"):
                    vocabularies.append(value)
                if "token" in name or "_id" in name:
                    special.update(integers(value))
        size = min((it for it in vocabularies if isinstance(it, int) and it > 8), default=128)
        edges = [-1, *sorted(number for number in special if 0 <= number < size), size]
        low, high = max(itertools.pairwise(edges), key=lambda pair: pair[1] - pair[0])
        return low + 1, min(high, low + 101)

    def plans(self) -> Iterator[_Plan]:
        """Sets of arguments, the richest first."""
        main = self._taken(*self._main)
        images = self._taken("pixel_values", "flattened_patches")
        sounds = self._taken("input_features", "input_values", "audio_values")
        has_text = "input_ids" in self._names
        if has_text:
            for kind, names in (("image", images), ("audio", sounds)):
                if names:
                    yield from self._with_placeholders(kind, names[0])
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
        what = "text and images" if kind == "image" else "text and sounds"
        plan = self._plan(what, ["input_ids", name])
        if isinstance(token, int):
            prefix = "vision" if kind == "image" else kind
            around = tuple(self._value(f"{prefix}_{end}_token_id") for end in ("start", "end"))
            has_both = all(isinstance(item, int) for item in around)
            yield replace(plan, placeholder=token, around=around if has_both else ())
        yield plan

    def _plan(self, what: str, names: list[str]) -> _Plan:
        together = " ".join(names)
        companions: list[str] = []
        for pattern, members in _COMPANIONS.items():
            companions += members if re.search(pattern, together) else ()
        has_decoder = getattr(self._config, "is_encoder_decoder", False)
        if has_decoder or "decoder_input_ids" in self._required:
            companions.append("decoder_input_ids")
        chosen = dict.fromkeys([*names, *self._taken(*companions), *self._required])
        return _Plan(what, {name: self._forms(name) for name in chosen})

    def learnt(self, plan: _Plan, error: BaseException) -> _Plan | None:
        """Return a better plan by what a model raised; None to go on."""
        text = str(error)
        counted = _COUNTS.search(text)
        if counted and plan.placeholder is not None:
            tokens, features = map(int, counted.groups())
            # Some count the features' channels too.
            needed = features if features != tokens else features // self._sizes["width"]
            count = plan.placeholders * needed // tokens if tokens else 0
            if count and count != plan.placeholders and count <= _MOST_FEATURES:
                return replace(plan, placeholders=count)
        named = _MISSING.search(text)
        mentioned = [a or b for a, b in _NAME.findall(named.group(1) if named else text)]
        if not named and not _WANTED.search(text):
            mentioned = []
        for name in (*mentioned, *_absent(error)):
            if name in self._names and name not in plan.forms and len(plan.forms) < _MOST_ARGUMENTS:
                return replace(plan, forms={**plan.forms, name: self._forms(name)})
        return _with_size(plan, text) or _with_rank(plan, text)

    def _forms(self, name: str) -> tuple[str, ...]:
        """Those of the first table that has any; the ones that name a size which isn't known are
        left out.
        """
        usable = (
            table["given"]
            for table in _FORMS
            if any(re.fullmatch(table["beside"], name_) for name_ in self._names)
        )
        forms = next(filter(None, (known_values(name, table) for table in usable)), None)
        forms = forms or known_values(f"{name}: {self._annotations[name]}", _BY_ANNOTATION)
        has_mask = "past_observed_mask" in self._names
        has_masked_series = has_mask and "past_time_features" not in self._names
        if name == "past_values" and (self._sizes["series"] > 1 or has_masked_series):
            forms = (forms[1], *forms[1:])
        return tuple(
            form.format_map(self._sizes)
            for form in forms
            if {*_NAMED.findall(form)} <= self._sizes.keys()
        )

    def text(self, forms: dict[str, str], plan: _Plan) -> InputsText:
        """Return a plan with one form of each of its arguments."""
        before = []
        if plan.placeholder is not None and "input_ids" in forms:
            first = 1 + bool(plan.around)
            last = first + plan.placeholders
            longer = {**self._sizes, "length": self._sizes["length"] + plan.placeholders}
            before.append(f"input_ids = {_IDS}".format_map(longer))
            if plan.around:
                edges = ", ".join(map(str, plan.around))
                before.append(f"input_ids[:, {first - 1}], input_ids[:, {last}] = {edges}")
            zeros = "torch.zeros({batch}, {length}, dtype=torch.bool)".format_map(longer)
            before += [
                f"placeholders = {zeros}",
                f"placeholders[:, {first}:{last}] = True",
                f"input_ids[placeholders] = {plan.placeholder}",
            ]
            forms = forms | {"input_ids": "input_ids"}
            if "attention_mask" in forms:
                forms["attention_mask"] = _ONES.format_map(longer)
        elif "mm_token_type_ids" in forms:
            forms = forms | {"mm_token_type_ids": _ZEROS.format_map(self._sizes)}
        lines = [f'    "{name}": {value},' for name, value in forms.items()]
        body = "\n".join([*before, "return {", *lines, "}"])
        return InputsText(body, (f"It is called with {plan.what}.",))


def _absent(error: BaseException) -> Iterator[str]:
    """Names that are None where an exception was raised, the innermost first, as far as the
    statement has them.
    """
    entries, trace = [], error.__traceback__
    while trace is not None:
        entries.append(trace)
        trace = trace.tb_next
    for entry in reversed(entries):
        code, values = entry.tb_frame.f_code, entry.tb_frame.f_locals
        first, last, _, _ = next(itertools.islice(code.co_positions(), entry.tb_lasti // 2, None))
        lines = (
            linecache.getline(code.co_filename, number)
            for number in range(first or 0, (last or first or 0) + 1)
        )
        for name in re.findall(r"[A-Za-z_]\w*", "".join(lines)):
            if name in values and values[name] is None and name not in _NONE_ON_PURPOSE:
                yield name


def _with_size(plan: _Plan, text: str) -> _Plan | None:
    """Return the plan with another size of one dim, the last that a kernel didn't expect; None if
    it says no such thing.
    """
    for got, expected in wrong_sizes(text):
        last = re.compile(rf"\b{got}\b(?!.*\b{got}\b)")
        forms = {
            name: tuple(
                last.sub(str(expected), form) if form.startswith("torch.randn(") else form
                for form in options
            )
            for name, options in plan.forms.items()
        }
        if forms != plan.forms and plan.resized < _MOST_RESIZED:
            return replace(plan, forms=forms, resized=plan.resized + 1)
    return None


def _with_rank(plan: _Plan, text: str) -> _Plan | None:
    """Return the plan with only those tensors that have as many dims as something unpacked; None if
    none have.
    """
    if (rank := _RANK.search(text)) is None:
        return None
    forms = {}
    for name, options in plan.forms.items():
        fitting = tuple(
            form
            for form in options
            if form.startswith("torch.randn(") and form.count(",") + 1 == int(rank[1])
        )
        forms[name] = fitting if fitting and len(options) > 2 else options
    return None if forms == plan.forms else replace(plan, forms=forms)


def _tree(config: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    yield name, config
    for key, value in vars(config).items():
        if hasattr(value, "to_dict") and hasattr(value, "model_type"):
            yield from _tree(value, key)
