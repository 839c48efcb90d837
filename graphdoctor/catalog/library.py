"""What a library's module says to the search, and how a program is written down.

A program is a file with ``build()`` and ``example_inputs()`` that needs torch and the library
alone.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import itertools
import math
import os
import re
import sys
import textwrap
import tomllib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch

from ..probe.record.errors import TargetError
from ..probe.wire import LIBRARIES


class ModelText(NamedTuple):
    """One way to build an architecture, as source.

    Args:
        imports: Statements such as ``from transformers import LlamaModel``; ``import torch`` is
            there already.
        subject: What the library wants to know again when it is asked for inputs.
    """

    imports: tuple[str, ...]
    body: str
    notes: tuple[str, ...] = ()
    subject: Any = None


class InputsText(NamedTuple):
    """Inputs that a model might take: statements of ``example_inputs()``, which returns a dict or a
    tuple.
    """

    body: str
    notes: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()


class Library(Protocol):
    """A library with a catalog."""

    most_parameters: int
    """A model with more is too large for a survey."""

    def families(self) -> dict[str, str]:
        """Return the family of each architecture, in the library's order; builds none."""

    def models(self, name: str) -> Iterator[ModelText]:
        """Ways to build an architecture, the smallest first."""

    def inputs(self, text: ModelText, model: Any) -> Generator[InputsText, BaseException, None]:
        """Inputs to try with a model that was built, the best first; gets the exception that it
        raised with them.
        """


_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE")
"""Keep libraries that load weights by name from the network; they read these when they are
imported."""


def imported(name: str) -> Library:
    """A library's catalog, with the library imported. From now on, this process loads no weights
    from the network.
    """
    os.environ.update(dict.fromkeys(_OFFLINE, "1"))
    module = LIBRARIES[name]
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise TargetError(
            f"{name} isn't installed for this interpreter.",
            f"Install it there: pip install {name}.",
        ) from error
    if (settings := sys.modules.get("huggingface_hub.constants")) is not None:
        # It may have been imported before.
        vars(settings)["HF_HUB_OFFLINE"] = True
    library: Library = importlib.import_module(f".{module}", __package__).LIBRARY
    return library


_WIDTH = 100


def program_text(header: str, model: ModelText, inputs: InputsText, *, parameters: int) -> str:
    """Return the whole file."""
    notes = [f"The model has {parameters:,} parameters.", *model.notes, *inputs.notes]
    paragraphs = [
        textwrap.fill(note, _WIDTH, break_long_words=False, break_on_hyphens=False)
        for note in notes
    ]
    docstring = "\n\n".join([header, *paragraphs]).replace("\\", "\\\\")
    imports = "\n".join(dict.fromkeys(("import torch", *model.imports, *inputs.imports)))
    return f'{docstring}\n"""\n\n{imports}\n\n\n{source(model)}\n\n\n{source(inputs)}\n'


def source(text: ModelText | InputsText) -> str:
    """Return ``build()`` or ``example_inputs()``."""
    name = "build" if isinstance(text, ModelText) else "example_inputs"
    return f"def {name}():\n{_indented('torch.manual_seed(0)', text.body)}"


def returned(values: Mapping[str, str], *, by_position: bool = False) -> str:
    """Return the statements of ``example_inputs()`` that name each value and return all, in a dict
    or a tuple.
    """
    lines = [f"{name} = {value}" for name, value in values.items()]
    whole = ", ".join(f'"{name}": {name}' for name in values)
    row = ", ".join(values) + "," * (len(values) == 1)
    return "\n".join([*lines, f"return ({row})" if by_position else f"return {{{whole}}}"])


def call_text(function: str, arguments: Mapping[str, object], *, before: Sequence[str] = ()) -> str:
    """Return a call as source, on several lines if it doesn't fit on one."""
    parts = [*before, *(f"{name}={_literal(value)}" for name, value in arguments.items())]
    line = f"{function}({', '.join(parts)})"
    if len(line) <= _WIDTH - 20 and "\n" not in line:
        return line
    return f"{function}(\n{_indented(*(f'{part},' for part in parts))}\n)"


def _literal(value: object) -> str:
    """Return a plain value as source: numbers, strings, None, and lists, tuples and dicts of
    these.
    """
    short = _short(value)
    if len(short) <= _WIDTH - 30:
        return short
    if isinstance(value, Mapping):
        items = [f"{_literal(key)}: {_literal(item)}," for key, item in value.items()]
        return f"{{\n{_indented(*items)}\n}}"
    if isinstance(value, (list, tuple)) and any(
        isinstance(item, (list, tuple, Mapping)) for item in value
    ):
        left, right = "()" if isinstance(value, tuple) else "[]"
        return f"{left}\n{_indented(*(f'{_literal(item)},' for item in value))}\n{right}"
    return short


def _short(value: object) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, str):
        quoted = repr(value)
        return f'"{quoted[1:-1]}"' if quoted[0] == "'" and '"' not in quoted else quoted
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_short(key)}: {_short(item)}' for key, item in value.items())}}}"
    if isinstance(value, tuple):
        return f"({', '.join(map(_short, value))}{',' if len(value) == 1 else ''})"
    return f"[{', '.join(map(_short, value))}]" if isinstance(value, list) else repr(value)


def _indented(*parts: str) -> str:
    return textwrap.indent("\n".join(parts), "    ")


# Arguments for a signature, by the names of its parameters: what can be written for each, the
# likeliest first.

_GATHERED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Slot(NamedTuple):
    """A parameter, and what it can be given, as source; "" leaves it out."""

    name: str
    values: tuple[str, ...]


class UnknownParameterError(Exception):
    """A parameter that must be given, and no rule knows what."""


def parameters_of(called: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters of a function, or of a class's constructor, without ``self``."""
    if inspect.isclass(called):
        return list(inspect.signature(called.__init__).parameters.values())[1:]
    return list(inspect.signature(called).parameters.values())


def slots(
    parameters: Sequence[inspect.Parameter],
    values: Callable[[inspect.Parameter], Sequence[str]],
    *,
    owner: str,
    is_given: Callable[[inspect.Parameter], bool] = lambda _parameter: False,
) -> list[Slot]:
    """Return the values that each parameter can take.

    One with a default is first left out, and always without a value.
    """
    result = []
    for parameter in parameters:
        if parameter.kind in _GATHERED:
            continue
        options = tuple(values(parameter))
        is_optional = parameter.default is not parameter.empty
        if not options and not is_optional:
            raise unknown(parameter, owner)
        if options and is_optional:
            options = (*options, "") if is_given(parameter) else ("", *options)
        if options:
            result.append(Slot(parameter.name, options))
    return result


def tables(module_file: str) -> dict[str, Any]:
    """Return the tables beside a library's module, from names of parameters to what they are
    given.
    """
    return tomllib.loads(Path(module_file).with_suffix(".toml").read_text(encoding="utf-8"))


def known_values(name: str, rules: Mapping[str, Sequence[str]]) -> Sequence[str]:
    """Return the values of the first rule whose pattern is the name's; none if no rule is."""
    return next((values for pattern, values in rules.items() if re.fullmatch(pattern, name)), ())


def choices(tried: Sequence[Slot], *, most_changes: int) -> Iterator[dict[str, str]]:
    """Sets of arguments: first every slot's first value, then with ever more slots changed, single
    slots first.
    """

    def named(chosen: Sequence[str]) -> dict[str, str]:
        return {slot.name: value for slot, value in zip(tried, chosen, strict=True) if value}

    seen = set()
    for changes in range(most_changes + 1):
        ways = itertools.combinations_with_replacement(range(len(tried)), changes)
        for places in sorted(ways, key=lambda places: len(set(places))):
            if all(places.count(place) < len(tried[place].values) for place in places):
                chosen = tuple(slot.values[places.count(place)] for place, slot in enumerate(tried))
                seen.add(chosen)
                yield named(chosen)
    every = tuple(next(filter(None, slot.values), "") for slot in tried)
    if every not in seen:
        yield named(every)


def unknown(parameter: inspect.Parameter, owner: str) -> UnknownParameterError:
    """Return the error that names a parameter, with its type."""
    kind, text = parameter.annotation, parameter.name
    if kind is not parameter.empty:
        text += f": {kind if isinstance(kind, str) else inspect.formatannotation(kind)}"
    return UnknownParameterError(f"No rule knows a value for `{text}` of {owner}.")


def evaluated_body(name: str, arguments: Mapping[str, str]) -> str:
    """``build()`` for a module in evaluation mode."""
    made = call_text(name, {}, before=[f"{key}={value}" for key, value in arguments.items()])
    # Not `.eval()` on the same line: a module's own `train` may return nothing.
    return f"model = {made}\nmodel.eval()\nreturn model"


_WRONG_SIZES = tuple(
    re.compile(pattern)
    for pattern in (
        r"size of tensor a \((?P<got>\d+)\) must match the size of tensor b \((?P<wanted>\d+)\)",
        r"shapes cannot be multiplied \(\d+x(?P<got>\d+) and (?P<wanted>\d+)x\d+\)",
        (
            r"expected input with shape \[\*, (?P<wanted>\d+)\], but got input of size ?\[[\d,"
            r" ]*?(?P<got>\d+)\]"
        ),
        r"to have (?P<wanted>\d+) channels, but got (?P<got>\d+) channels",
        r"expected number of channels in input to be .*? (?P<wanted>\d+)\D+(?P<got>\d+)",
        r"expects? .{0,60}length (?P<wanted>\d+),? .{0,30}(?:found|got) (?P<got>\d+)",
    )
)


def wrong_sizes(message: str) -> Iterator[tuple[int, int]]:
    """Yield the size of a dim that a model was given, and the one that it wants, as its exception
    says.
    """
    for pattern in _WRONG_SIZES:
        if said := pattern.search(message):
            yield int(said["got"]), int(said["wanted"])


_MOST_MODELS = 3


def smallest(
    names: Sequence[str], home: str, build: Callable[[str], Any]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the models of a module that have the fewest parameters, the smallest first, and notes
    on it.
    """
    counts: dict[str, int] = {}
    first: Exception | None = None
    for name in names:
        # Some compute with other tensors while they are built.
        for context in (torch.device("meta"), _parameters_on_meta()):
            try:
                with context:
                    counts[name] = parameter_count(build(name))
                break
            except Exception as error:  # noqa: BLE001
                failure = error
        else:
            first = first or failure
    if first is not None and not counts:
        raise first
    notes = (f"It is the smallest of {home}, which has {len(names)}.",) if len(names) > 1 else ()
    yield from ((name, notes) for name in sorted(counts, key=counts.__getitem__)[:_MOST_MODELS])


def parameter_count(model: Any) -> int:
    """Count how many numbers a model learns; a function learns none."""
    parameters = model.parameters() if isinstance(model, torch.nn.Module) else ()
    return sum(parameter.numel() for parameter in parameters)


@contextlib.contextmanager
def _parameters_on_meta() -> Iterator[None]:
    """Keep no parameter's memory longer than until its module has it, and let all other tensors
    be.
    """
    register = torch.nn.Module.register_parameter

    def registered(module: Any, name: str, parameter: torch.nn.Parameter | None) -> None:
        if parameter is not None:
            needs = parameter.requires_grad
            parameter = torch.nn.Parameter(parameter.to("meta"), requires_grad=needs)
        register(module, name, parameter)

    torch.nn.Module.register_parameter = registered  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        torch.nn.Module.register_parameter = register  # type: ignore[method-assign]
