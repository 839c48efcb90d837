"""What can be changed about a call, one property at a time, and the values to change it to."""

from __future__ import annotations

import contextlib
import enum
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import torch

from ..record.describe import dtype_text, value_text
from ..target.snapshot import set_for
from ..target.targets import Call
from . import arguments
from .leaves import Leaf, leaves_of, replaced

_MAX_ATTRIBUTES = 20
_MAX_MODULES = 50
_MAX_CHOICES = 4


_Make: TypeAlias = Callable[[Call], AbstractContextManager[Call]]
"""Makes the changed call from an unchanged one; modes around the call hold inside the context."""


@dataclass(frozen=True)
class Value:
    """One value that a property can be set to."""

    text: str
    make: _Make
    is_special: bool = False


@dataclass(frozen=True)
class Way:
    """One way to change a property."""

    values: tuple[Value, ...]
    tied: tuple[str, ...] = ()


@dataclass(frozen=True)
class Property:
    """Something that torch may guard on."""

    expression: str
    kind: str
    base: str
    ways: tuple[Way, ...] = ()
    reason: str | None = None
    tier: tuple[int, ...] = (9,)
    is_joint: bool = False

    def planned(self) -> dict[str, object]:
        """What it is, for the plan of a run."""
        tied = list(self.ways[0].tied) if self.is_joint else []
        return {"expression": self.expression, "kind": self.kind, "base": self.base, "tied": tied}


def properties_of(call: Call, function: Any, *, is_no_grad: bool) -> list[Property]:
    """Everything about a call that can be changed, or that a person would expect here."""
    leaves = leaves_of(call, function)
    found = [*_argument_properties(leaves), *_attributes(function)]
    found += _modes(function, is_no_grad=is_no_grad, device=_device_type(leaves, function))
    return found


def _changeable(name: str, kind: str, base: str, *values: Value, tier: int = 0) -> Property:
    return Property(name, kind, base, (Way(values),), tier=(tier,))


def _device_type(leaves: Sequence[Leaf], function: Any) -> str:
    tensors = [leaf.value for leaf in leaves if isinstance(leaf.value, torch.Tensor)]
    if isinstance(function, torch.nn.Module):
        tensors += list(function.parameters())[:1]
    return next((tensor.device.type for tensor in tensors if tensor.device.type != "cpu"), "cpu")


# Arguments.


def _argument_properties(leaves: Sequence[Leaf]) -> Iterator[Property]:
    tensors = [leaf for leaf in leaves if isinstance(leaf.value, torch.Tensor)]
    sizes: dict[tuple[int, int], list[Leaf]] = {}
    for leaf in tensors:
        for dim, size in enumerate(_shape(leaf)):
            sizes.setdefault((dim, size), []).append(leaf)
    shared = {place: having for place, having in sizes.items() if len(having) > 1 and place[1] > 1}
    for leaf in leaves:
        if isinstance(leaf.value, torch.Tensor):
            yield from _tensor_properties(leaf, tensors, shared)
        else:
            yield _plain_property(leaf)


def _changed(
    leaf: Leaf, to: Callable[[Any], Any], *more: tuple[Leaf, Callable[[Any], Any]]
) -> _Make:
    def make(call: Call) -> AbstractContextManager[Call]:
        for each, change in ((leaf, to), *more):
            call = replaced(call, each.path, change)
        return contextlib.nullcontext(call)

    return make


def _constant(leaf: Leaf, value: Any, *, is_special: bool = False) -> Value:
    return Value(value_text(value), _changed(leaf, lambda _: value), is_special)


def _plain_property(leaf: Leaf) -> Property:
    value, kind = leaf.value, type(leaf.value)
    base = f"{value_text(value)} (default)" if leaf.is_default else value_text(value)
    members: Sequence[Any] = leaf.choices or (
        list(type(value)) if isinstance(value, enum.Enum) else ()
    )
    choices = [choice for choice in members if choice != value][:_MAX_CHOICES]
    name = {str: "text", bool: "flag", int: "number", float: "number"}.get(kind, "value")
    if choices:
        name = "text" if kind is str else "value"
        values = tuple(_constant(leaf, choice) for choice in choices)
    elif kind in (int, float, bool):
        values = tuple(
            _constant(leaf, other, is_special=special) for other, special in _other_numbers(value)
        )
    elif kind is str:
        values = tuple(_constant(leaf, value + more) for more in ("_", "__"))
    elif value is None:
        return Property(leaf.expression, "none", base, reason="it is None")
    else:
        return Property(
            leaf.expression, name, base, reason=f"no other {kind.__qualname__} value is known"
        )
    return _changeable(leaf.expression, name, base, *values, tier=1)


def _other_numbers(value: float | bool) -> list[tuple[Any, bool]]:
    """Other numbers of the same type, each with whether torch tends to compile for it alone."""
    if isinstance(value, bool):
        return [(not value, False)]
    if isinstance(value, int):
        ordinary = [value + more for more in (1, 2, 3, 4) if value + more not in (-1, 0, 1)][:2]
        candidates: list[tuple[Any, bool]] = [(number, False) for number in ordinary]
        candidates += [(0, True), (1, True), (-1 if value >= 0 else -value, True)]
    elif not math.isfinite(value) or value == 0:
        candidates = [(0.5, False), (0.25, False), (1.0, True)]
    else:
        # Halves first: most floats are shares and rates, which have an upper bound.
        candidates = [
            (value * 0.5, False),
            (value * 0.75, False),
            (0.0, True),
            (1.0, True),
            (-value, True),
        ]
    distinct: dict[Any, bool] = {}
    for number, is_special in candidates:
        if number != value:
            distinct.setdefault(number, is_special)
    return list(distinct.items())


def _shape(leaf: Leaf) -> Sequence[int]:
    return leaf.value.shape if arguments.has_strides(leaf.value) else ()


def _tensor_properties(
    leaf: Leaf, tensors: Sequence[Leaf], shared: dict[tuple[int, int], list[Leaf]]
) -> Iterator[Property]:
    value: torch.Tensor = leaf.value
    is_plain = arguments.has_strides(value)
    for dim, size in enumerate(_shape(leaf)):
        name = _size_name(leaf, dim)
        together = shared.get((dim, size), ())
        if together and together[0] is leaf:
            tied = tuple(_size_name(other, dim) for other in together[1:])
            way = Way(_sizes(size, [(other, dim) for other in together]), tied)
            yield Property(name, "size", str(size), (way,), tier=(2, dim, 0), is_joint=True)
        ways = tuple(_size_ways(leaf, dim, tensors, has_joint=bool(together)))
        yield Property(name, "size", str(size), ways, tier=(2, dim, 1))
    if not is_plain:
        yield Property(
            f"{leaf.expression}.shape",
            "size",
            value_text(value),
            reason=f"its layout is {value.layout}",
        )
    dtypes = arguments.other_dtypes(value.dtype)
    if dtypes:
        casts = [
            Value(dtype_text(dtype), _changed(leaf, partial(arguments.cast, dtype=dtype)))
            for dtype in dtypes
        ]
        yield _changeable(
            f"{leaf.expression}.dtype", "dtype", dtype_text(value.dtype), *casts, tier=4
        )
    if is_plain and (layouts := arguments.other_layouts(value)):
        laid_out = [
            Value(name, _changed(leaf, partial(arguments.laid_out, layout=name)))
            for name in layouts
        ]
        yield _changeable(
            f"{leaf.expression}.stride()", "stride", arguments.layout_name(value), *laid_out, tier=5
        )
    if value.is_floating_point() or value.is_complex():
        wanted = not value.requires_grad
        marked = Value(
            str(wanted), _changed(leaf, lambda tensor: tensor.detach().requires_grad_(wanted))
        )
        yield _changeable(
            f"{leaf.expression}.requires_grad", "requires_grad", str(not wanted), marked, tier=4
        )
    other = arguments.other_device(value.device)
    if other is not None:
        moved = Value(other, _changed(leaf, lambda tensor: tensor.detach().to(other)))
        yield _changeable(f"{leaf.expression}.device", "device", str(value.device), moved, tier=6)


def _size_ways(leaf: Leaf, dim: int, tensors: Sequence[Leaf], *, has_joint: bool) -> Iterator[Way]:
    size = leaf.value.shape[dim]
    yield Way(_sizes(size, [(leaf, dim)]))
    same_size = [
        (other, other_dim)
        for other in tensors
        for other_dim, other_size in enumerate(_shape(other))
        if other_size == size and (other is not leaf or other_dim != dim)
    ]
    # Where all of them are the same dim of their tensors, they are varied together in any case.
    if same_size and not (has_joint and all(other_dim == dim for _, other_dim in same_size)):
        yield Way(
            _sizes(size, [(leaf, dim), *same_size]),
            tuple(_size_name(*place) for place in same_size),
        )


def _size_name(leaf: Leaf, dim: int) -> str:
    return f"{leaf.expression}.shape[{dim}]"


def _sizes(size: int, places: Sequence[tuple[Leaf, int]]) -> tuple[Value, ...]:
    # The doubled size first: code that needs an even size, or a multiple of the old one, still
    # works.
    ordinary = [
        value for value in dict.fromkeys((2 * size, size + 1, 2, 3)) if value > 1 and value != size
    ][:3]
    values = [*((value, False) for value in ordinary), *([] if size == 1 else [(1, True)])]
    return tuple(Value(str(value), _resized(places, value), special) for value, special in values)


def _resized(places: Sequence[tuple[Leaf, int]], size: int) -> _Make:
    first, *more = [(leaf, partial(arguments.resized, dim=dim, size=size)) for leaf, dim in places]
    return _changed(*first, *more)


# The module's own numbers.


def _attributes(function: Any) -> Iterator[Property]:
    """Plain numbers on the target and on its direct submodules, unless their class is torch's."""
    if not isinstance(function, torch.nn.Module):
        return
    owners = [
        ("self", function),
        *((f"self.{name}", child) for name, child in function.named_children()),
    ]
    count = 0
    for owner, module in owners[:_MAX_MODULES]:
        if type(module).__module__.startswith("torch.nn."):
            continue
        for name, value in vars(module).items():
            if name == "training" or name.startswith("_") or type(value) not in (int, float, bool):
                continue
            count += 1
            kind = "flag" if isinstance(value, bool) else "module_number"
            if count > _MAX_ATTRIBUTES:
                reason = f"more than {_MAX_ATTRIBUTES} numbers on modules"
                yield Property(f"{owner}.{name}", kind, value_text(value), reason=reason)
                continue
            values = tuple(
                _around(
                    value_text(other),
                    partial(set_for, partial(setattr, module, name), value, other),
                    special,
                )
                for other, special in _other_numbers(value)
            )
            yield _changeable(f"{owner}.{name}", kind, value_text(value), *values, tier=3)


# Modes around the call.


def _modes(function: Any, *, is_no_grad: bool, device: str) -> Iterator[Property]:
    if isinstance(function, torch.nn.Module):
        names = ("eval", "train")
        switched = _around(
            names[not function.training],
            partial(_in_mode, function, is_training=not function.training),
        )
        yield _changeable("train/eval", "training", names[function.training], switched)
    inference = _around("inference_mode", torch.inference_mode)
    grad_modes = (inference,) if is_no_grad else (_around("no_grad", torch.no_grad), inference)
    yield _changeable("grad mode", "grad_mode", "no_grad" if is_no_grad else "enabled", *grad_modes)
    yield _changeable(
        "autocast",
        "autocast",
        "off",
        _around("bf16", lambda: torch.autocast(device, torch.bfloat16)),
    )
    dtype = torch.get_default_dtype()
    other = torch.float64 if dtype is not torch.float64 else torch.float32
    switch = _around(dtype_text(other), lambda: set_for(torch.set_default_dtype, dtype, other))
    yield _changeable("default dtype", "default_dtype", dtype_text(dtype), switch)
    threads = torch.get_num_threads()
    counts = (threads + 1, threads + 2)
    changed = (_around(str(n), partial(set_for, torch.set_num_threads, threads, n)) for n in counts)
    yield _changeable("number of threads", "threads", str(threads), *changed)
    is_on = torch.are_deterministic_algorithms_enabled()
    flip = _around(
        str(not is_on), lambda: set_for(torch.use_deterministic_algorithms, is_on, not is_on)
    )
    yield _changeable("deterministic algorithms", "determinism", str(is_on), flip, tier=7)


def _around(
    text: str, context: Callable[[], AbstractContextManager[Any]], is_special: bool = False
) -> Value:
    @contextlib.contextmanager
    def make(call: Call) -> Iterator[Call]:
        with context():
            yield call

    return Value(text, make, is_special)


@contextlib.contextmanager
def _in_mode(module: torch.nn.Module, *, is_training: bool) -> Iterator[None]:
    before = [(child, child.training) for child in module.modules()]
    module.train(is_training)
    try:
        yield
    finally:
        for child, mode in before:
            child.training = mode
