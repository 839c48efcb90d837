"""torch-geometric: its models, convolutions, poolings and aggregations, each on a small random
graph.

Nothing lists what these classes take, so arguments come from signatures: a value for each name that
the library uses, tried until the model runs. The graph has 32 nodes, in 4 graphs of 8, and 4 edges
from each.
"""

from __future__ import annotations

import inspect
import itertools
import re
import typing
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any

import torch
import torch_geometric.nn

from .library import (
    InputsText,
    ModelText,
    choices,
    evaluated_body,
    known_values,
    parameters_of,
    returned,
    slots,
    tables,
)

_ROOMS = {
    "models": "models",
    "kge": "models",
    "conv": "convolutions",
    "dense": "convolutions",
    "pool": "pooling",
    "aggr": "aggregation",
}

_BASES = ("MessagePassing", "Aggregation", "KGEModel")
"""What the others are made of; can't be called itself."""

_POOLING = re.compile(r"[Pp]ool(ing)?$")
_LAYERS = re.compile(r"Conv$|[Pp]ool(ing)?$")
"""What is listed of ``dense``, which has plain layers too."""

_MOST_MODELS = 24

_MOST_CALLS = 60

_MOST_CHANGES = 3

_TABLES = tables(__file__)
_MADE_WITH, _CALLED_WITH = _TABLES["made_with"], _TABLES["called_with"]

_SMALL = re.compile(
    r"hidden_channels|dim_inner|num_filters|multi_head_dim_inner|layers_mp|num_interactions"
)
"""Parameters whose default makes a model larger than it need be."""

_NOTES = {
    "interaction_graph": (
        "Every two atoms interact, however far apart: what finds the near ones is an optional"
        " library."
    )
}

_ATOMS = ("torch.randint(1, 10, (32,))",)
_ENCODED = ("torch.randn(32, 16)",)
_DENSE = ("torch.randn(4, 8, 16)",)

_GATHERED: dict[str, tuple[tuple[str, ...], ...]] = {
    "args": (("x", "edge_index"), ("y", "mask", "edge_index")),
    "args_dict": (("x_dict", "edge_index_dict"),),
}
"""What stands for the positional arguments that a ``forward`` gathers, by what it calls them."""

_NAMES = {"torch": torch, "torch_geometric": torch_geometric}
_BY_TYPE = {int: ("4",), float: ("0.5",), bool: ("True",)}
_MISSING = re.compile(r"missing \d+ required .*arguments?: (.+)|[Aa]rgument `(\w+)` must be given")
_ASKED = re.compile(r"[Ss]et `(\w+)=(\w+)`")


class _TorchGeometric:
    most_parameters = 10_000_000

    def families(self) -> dict[str, str]:
        return {
            name: "pooling" if _POOLING.search(name) else _ROOMS[room]
            for name, room in _rooms().items()
        }

    def models(self, name: str) -> Iterator[ModelText]:
        room = _rooms()[name]
        made = getattr(getattr(torch_geometric.nn, room), name)
        home = f"from torch_geometric.nn.{room} import {name}"
        if not inspect.isclass(made):
            yield ModelText((home,), f"return {name}", subject=made)
            return
        return (yield from itertools.islice(_models(made, home), _MOST_MODELS))

    def inputs(self, text: ModelText, _model: Any) -> Generator[InputsText, BaseException, None]:
        for inputs in _calls(text.subject):
            failure = yield inputs
            if isinstance(failure, ImportError):  # of an optional library: no other inputs help
                return


LIBRARY = _TorchGeometric()


def _rooms() -> dict[str, str]:
    rooms: dict[str, str] = {}
    for room in _ROOMS:
        module = getattr(torch_geometric.nn, room)
        for name in module.__all__:
            member = getattr(module, name)
            is_part = name in _BASES or (room == "dense" and not _LAYERS.search(name))
            is_module = inspect.isclass(member) and issubclass(member, torch.nn.Module)
            is_function = room in ("pool", "dense") and inspect.isfunction(member)
            if not is_part and (is_module or is_function):
                rooms.setdefault(name, room)
    return rooms


def _models(made: type[Any], home: str) -> Iterator[ModelText]:
    """Ways to build it that work; the likeliest one's error where none does."""
    parameters = parameters_of(made)
    takes_more = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    tried = slots(parameters, _made_with, owner=made.__name__, is_given=_is_large)
    more: dict[str, str] = {}
    first = None
    is_made = False
    for likely in choices(tried, most_changes=_MOST_CHANGES):
        while True:
            arguments = {**likely, **more}
            try:
                made(**{name: eval(value, _NAMES) for name, value in arguments.items()})
            except ImportError:  # an optional library
                raise
            except Exception as error:  # noqa: BLE001
                # What was missing was then given, if a rule knows it.
                first = error if first is None or _wanted(first) else first
                missing = {
                    name: value
                    for name, value in _wanted(error).items()
                    if takes_more and name not in more
                }
                if not missing:
                    break
                more.update(missing)
                continue
            is_made = True
            notes = tuple(_NOTES[name] for name in arguments if name in _NOTES)
            imports = (home, *_imports(arguments.values()))
            yield ModelText(imports, evaluated_body(made.__name__, arguments), notes, made.forward)
            break
    if first is not None and not is_made:
        raise first


def _wanted(failure: Exception) -> dict[str, str]:
    """Return the arguments that a constructor behind ``**kwargs`` asks for, as far as there are
    values for them.
    """
    message = str(failure)
    if asked := _ASKED.search(message):
        return {asked[1]: asked[2]}
    missing = _MISSING.search(message)
    names = re.findall(r"\w+", missing[1] or missing[2]) if missing else []
    values = {name: known_values(name, _MADE_WITH) for name in names if name != "and"}
    return {name: options[0] for name, options in values.items()} if all(values.values()) else {}


def _calls(called: Callable[..., Any]) -> Iterator[InputsText]:
    parameters = [parameter for parameter in parameters_of(called) if parameter.name != "self"]
    before = list(itertools.takewhile(lambda it: it.kind is not it.VAR_POSITIONAL, parameters))
    gathers = parameters[len(before)].name if len(before) < len(parameters) else None
    wholes = [parameters]
    if gathers is not None:
        taken = [parameter.name for parameter in before]
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        wholes = [
            [*before, *(inspect.Parameter(name, kind) for name in names if name not in taken)]
            for names in _GATHERED.get(gathers, ())
        ]
    for whole in wholes:
        tried = slots(whole, _called_with(whole), owner=called.__qualname__)
        for values in itertools.islice(choices(tried, most_changes=_MOST_CHANGES), _MOST_CALLS):
            yield InputsText(
                returned(values, by_position=gathers is not None), imports=_imports(values.values())
            )


def _imports(values: Iterable[str]) -> tuple[str, ...]:
    return ("import torch_geometric",) if "torch_geometric." in " ".join(values) else ()


def _made_with(parameter: inspect.Parameter) -> Sequence[str]:
    likely = known_values(parameter.name, _MADE_WITH)
    if parameter.default is parameter.empty:
        return likely or _by_type(parameter.annotation)
    return likely if parameter.default is None or _is_large(parameter) else ()


def _is_large(parameter: inspect.Parameter) -> bool:
    return isinstance(parameter.default, int) and _SMALL.fullmatch(parameter.name) is not None


def _called_with(
    parameters: Iterable[inspect.Parameter],
) -> Callable[[inspect.Parameter], Sequence[str]]:
    names = {parameter.name for parameter in parameters}

    def values(parameter: inspect.Parameter) -> Sequence[str]:
        if parameter.name == "x" and "adj" in names:
            return _DENSE
        if parameter.name == "z":
            return _ATOMS if "pos" in names else _ENCODED
        likely = known_values(parameter.name, _CALLED_WITH)
        if parameter.default is parameter.empty:
            return likely or _by_type(parameter.annotation)
        return likely if parameter.default is None else ()

    return values


def _by_type(annotation: object) -> tuple[str, ...]:
    """Return the candidates for a type that is a number, or can be one."""
    for kind in (annotation, *typing.get_args(annotation)):
        if kind in _BY_TYPE:
            return _BY_TYPE[kind]
    return ()
