"""Calls with other inputs: one property changed at a time, and values made to break an edit.

A variant is made from a fresh copy of a call, whose tensors it may change in place. Integers and
bools of attacks stay between the values that the program was called with, because they may be
indices. The same call has the same variants in every process.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from operator import methodcaller
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import Module

from ...facts.base import Fields, grouped
from ..record.describe import dtype_text, value_text
from ..target.snapshot import dressed_as, set_for
from ..target.targets import Call
from .arguments import has_strides, is_plain, resized
from .leaves import Leaf, leaves_of, replaced

_Change = Callable[[Tensor], Tensor]


class _Edit(NamedTuple):
    """A change of one argument; ``code``: Python that makes it, by the function's own names."""

    leaf: Leaf
    change: Callable[[Any], Any]
    code: str = ""


@dataclass(frozen=True)
class Variant:
    """A changed call.

    Args:
        text: The new value, or the change as a clause.
        context: Modes around the call.
        is_special: torch tends to compile for this value alone.
        is_search: Worth compiling only if it runs lines that few others do.
        is_drawn: One of many with random values.
        is_empty: The batch has no rows, so that no result shows what a line computes.
        is_odd: Sizes no longer fit together. A program that only gets by because it returns early
            isn't made for it.
    """

    text: str
    edits: Sequence[_Edit] = ()
    context: Callable[[], AbstractContextManager[Any]] = nullcontext
    is_special: bool = False
    is_search: bool = False
    is_drawn: bool = False
    is_empty: bool = False
    is_odd: bool = False

    @property
    def code(self) -> str:
        """Python that makes the change, by the names of the function's parameters."""
        return "\n".join(edit.code for edit in self.edits)

    @contextmanager
    def make(self, call: Call) -> Iterator[Call]:
        """Make it of an unchanged call."""
        for leaf, change, _ in self.edits:
            call = replaced(call, leaf.path, change)
        with self.context():
            yield call


# Attacks.

_MAX_APART = 3
"""So many tensors of one kind are also changed one at a time."""

_RANDOM = 30
"""Calls with random values, or the program's own in another order, to be kept if they reach lines
that few others do; in every second one the batch is ``_MANY`` times as large."""
_MANY = 4

_MAX_STATE = 6
"""So many parameters and buffers are also changed one at a time, those with few numbers first."""
_FEW = 1
"""What has more numbers gets the first of the changes only."""

_CONSTANT_CHANGES = {
    "float": {
        "all zero": "{}.data.zero_()",
        "NaN in one place": "{}.data[{middle}] = float('nan')",
        "infinite in one place": "{}.data[{middle}] = float('inf')",
        "negated": "{}.data.neg_()",
        "all one": "{}.data.fill_(1)",
        "1e4 times as large": "{}.data.mul_(1e4)",
        "1e-4 times as large": "{}.data.mul_(1e-4)",
    },
    "bool": {
        "all False": "{}.data.fill_(False)",
        "all True": "{}.data.fill_(True)",
        "inverted": "{}.data.logical_not_()",
    },
    "integer": {
        "at the lowest value": "{}.data.fill_({lowest})",
        "at the highest value": "{}.data.fill_({highest})",
    },
}
"""By kind of tensor, what a change is called and does; ``{}`` is the tensor."""

_DRAWS = ("a little different", "random", "in another order")


class Arguments:
    """A call's arguments, and the calls with others in their place.

    ``batch``: the first dim of the first tensor, the batch in most programs; 0 if none.
    """

    def __init__(self, call: Call, function: Any) -> None:
        self._function = function
        self._leaves = leaves_of(call, function)
        self._tensors = [leaf for leaf in self._leaves if is_plain(leaf.value)]
        sizes = [leaf.value.shape[0] for leaf in self._tensors if leaf.value.ndim]
        self.batch: int = sizes[0] if sizes else 0

    @property
    def forms(self) -> list[tuple[torch.Size, torch.dtype]]:
        """Shapes and dtypes of the tensors."""
        return [(leaf.value.shape, leaf.value.dtype) for leaf in self._tensors]

    @property
    def searchable(self) -> list[str]:
        """The tensors whose values a search may change: not integers, which may be indices."""
        floats = (leaf for leaf in self._tensors if leaf.value.is_floating_point())
        return [leaf.expression for leaf in floats]

    def resized(self, size: int) -> Variant:
        """Return the call with another batch."""
        edits = _resizing(self._tensors, self.batch, size)
        return Variant(f"the batch is {size}", edits, is_empty=size == 0)

    def changed(self, codes: Mapping[str, str]) -> Variant:
        """Return the call with arguments changed in place: code by expression."""
        leaves = {leaf.expression: leaf for leaf in self._leaves}
        return Variant("", [_in_place(leaves[name], code) for name, code in codes.items()])

    def attacks(self) -> Iterator[Variant]:
        """Yield the attacks on them, the most valuable first."""
        batch, tensors = self.batch, self._tensors
        filled = [leaf for leaf in tensors if leaf.value.numel()]
        by_kind = grouped((_kind(leaf.value), leaf) for leaf in filled)
        yield Variant("nothing is changed")
        for kind, alike in by_kind.items():
            yield from _constant_attacks(kind, alike)
        for size in dict.fromkeys((1, 2 * batch, 0, (batch + 1) // 2)) if batch else ():
            if size != batch:
                yield self.resized(size)
        yield from _in_other_mode(self._function, "the module is in {} mode", is_search=True)
        yield from self._structural_attacks()
        for kind, alike in by_kind.items():
            for leaf in alike if 1 < len(alike) <= _MAX_APART else ():
                yield from _constant_attacks(kind, [leaf], is_search=True)
        # Values are drawn in memory's order, which a tensor that is larger may not have.
        is_in_order = all(leaf.value.is_contiguous() for leaf in tensors)
        larger = _resizing(tensors, batch, _MANY * batch) if is_in_order and batch else []
        for seed in range(1, _RANDOM + 1) if filled else ():
            text = f"values are {_DRAWS[seed % 3]} (seed {seed})"
            edits = [
                _in_place(leaf, _drawing(leaf.value, seed + 100 * place, seed % 3))
                for place, leaf in enumerate(tensors)
                if leaf.value.numel()
            ]
            if larger and seed % 2 == 0:
                text = f"the batch is {_MANY * batch}, and {text}"
                edits = [*larger, *edits]
            yield Variant(text, edits, is_search=True, is_drawn=True)

    def _structural_attacks(self) -> Iterator[Variant]:
        """Yield other sizes, numbers, dtypes and keys, each apart from the rest."""
        batch, tensors = self.batch, self._tensors
        # An index out of range ends the process on other devices.
        is_on_cpu = all(leaf.value.device.type == "cpu" for leaf in tensors)
        sized = [leaf for leaf in tensors if leaf.value.ndim] if is_on_cpu else []
        # Samples that follow the others: what counts them has other values.
        for count in (2, 3) if batch and is_on_cpu else ():
            edits = [_appended(leaf, count) for leaf in sized]
            yield Variant(f"the samples are there {count} times", edits, is_search=True)
        for dim, alike in grouped((leaf.value.shape[0], leaf) for leaf in sized).items():
            for some in [alike] * (dim != batch) + [[leaf] for leaf in alike] * (len(alike) > 1):
                names = " and ".join(leaf.expression for leaf in some)
                for size in (1, 2 * dim) if dim > 1 else (2,) if dim else ():
                    text = f"{names} {'has' if len(some) == 1 else 'have'} {size} in the first dim"
                    edits = _resizing(some, dim, size)
                    yield Variant(text, edits, is_search=True, is_odd=True)
        for leaf in self._leaves:
            name = leaf.expression
            if type(leaf.value) in (int, float, bool) and not leaf.is_default:
                for number, _ in _other_numbers(leaf.value):
                    edit = _assigned(leaf, repr(number))
                    yield Variant(f"{name} is {number!r}", [edit], is_search=True)
            kind, key = leaf.path[-1]
            if kind == "item" and type(key) is str and len(leaf.path) > 2:
                holder = Leaf(leaf.path[:-1], name, None)
                edit = _Edit(holder, partial(_without_key, key), f"del {name}")
                yield Variant(f"{name} isn't there", [edit], is_search=True)
        for leaf in tensors:
            if leaf.value.ndim == 1 and leaf.value.numel():
                text = f"{leaf.expression} is a scalar"
                yield Variant(text, [_assigned(leaf, "{}[0]")], is_search=True, is_odd=True)
        floats = [leaf for leaf in tensors if leaf.value.is_floating_point()]
        for dtype in (torch.float64, torch.float16) if floats else ():
            edits = [_assigned(leaf, f"{{}}.to({dtype})") for leaf in floats]
            yield Variant(f"floats are {dtype_text(dtype)}", edits, is_search=True)


def state_attacks(tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield changes of parameters and buffers: what each is called, and by name the code that makes
    it, with ``tensor`` for the tensor.
    """
    kept = {name: tensor for name, tensor in tensors.items() if is_plain(tensor) and tensor.numel()}
    floats = [name for name, tensor in kept.items() if _kind(tensor) == "float"]
    few = sorted(kept, key=lambda name: kept[name].numel())[:_MAX_STATE]
    for names in ([floats] if len(floats) > 1 else []) + [[name] for name in few]:
        changes = [*_CONSTANT_CHANGES[_kind(kept[names[0]])].items()]
        is_few = len(names) > 1 or kept[names[0]].numel() <= _FEW
        for text, code in changes if is_few else changes[:2]:
            what = names[0] if len(names) == 1 else "all parameters and buffers"
            codes = {name: _filled(code, kept[name], "tensor") for name in names}
            yield f"{what} {'is' if len(names) == 1 else 'are'} {text}", codes


def change_tensor(tensor: Tensor, code: str) -> None:
    """Run code of ``state_attacks``."""
    exec(code, {"torch": torch, "tensor": tensor})


def _in_other_mode(function: Any, text: str, **fields: bool) -> Iterator[Variant]:
    """Yield a call in the other mode of a module; nothing for a function."""
    if isinstance(function, Module):
        is_training = not function.training
        name = text.format("train" if is_training else "eval")
        yield Variant(name, (), partial(_in_mode, function, is_training=is_training), **fields)


def _without_key(key: str, mapping: Any) -> Any:
    return type(mapping)({name: value for name, value in mapping.items() if name != key})


def _kind(tensor: Tensor) -> str:
    if tensor.dtype is torch.bool:
        return "bool"
    return "float" if tensor.is_floating_point() or tensor.is_complex() else "integer"


def _filled(code: str, tensor: Tensor, name: str) -> str:
    """Complete the code of a change of a tensor that has a name."""
    code = code.replace("{middle}", ", ".join(str(n // 2) for n in tensor.shape) or "()")
    for place, extreme in (("{lowest}", Tensor.min), ("{highest}", Tensor.max)):
        if place in code:
            code = code.replace(place, str(int(extreme(tensor))))
    return code.replace("{}", name)


def _in_place(leaf: Leaf, code: str) -> _Edit:
    """Change a tensor in place."""

    def change(tensor: Tensor) -> Tensor:
        change_tensor(tensor, _filled(code, leaf.value, "tensor"))
        return tensor

    return _Edit(leaf, change, _filled(code, leaf.value, leaf.expression))


def _assigned(leaf: Leaf, code: str) -> _Edit:
    """Put what an expression gives in an argument's place."""

    def change(value: Any) -> Any:
        made = eval(code.replace("{}", "value"), {"torch": torch, "value": value})
        return dressed_as(made, value) if isinstance(made, Tensor) else made

    return _Edit(leaf, change, f"{leaf.expression} = {code.replace('{}', leaf.expression)}")


def _appended(leaf: Leaf, count: int) -> _Edit:
    """Samples again; integers in them go on behind the largest, as those of another graph do."""
    tensor = leaf.value
    step = int(tensor.max()) + 1 if _kind(tensor) == "integer" and tensor.numel() else 0
    later = f" + {step} * n" if step else ""
    again = f"torch.cat([{{}}{later} for n in range({count})]).detach()"
    return _assigned(leaf, f"{again}.requires_grad_({tensor.requires_grad})")


def _constant_attacks(
    kind: str, leaves: Sequence[Leaf], *, is_search: bool = False
) -> Iterator[Variant]:
    names = f"all {kind} tensors"
    if len(leaves) <= _MAX_APART:
        names = " and ".join(leaf.expression for leaf in leaves)
    verb = "is" if len(leaves) == 1 else "are"
    for text, code in _CONSTANT_CHANGES[kind].items():
        edits = [_in_place(leaf, code) for leaf in leaves]
        yield Variant(f"{names} {verb} {text}", edits, is_search=is_search)


def _drawing(tensor: Tensor, seed: int, way: int) -> str:
    """Code that changes values by up to 30%, at random, or by another order, which keeps what they
    have in common.
    """
    kind = _kind(tensor)
    chosen = torch.Generator().manual_seed(seed)
    cpu = f"generator=torch.Generator().manual_seed({seed})"
    is_on_cpu = tensor.device.type == "cpu"
    there = cpu if is_on_cpu else cpu.replace("()", f'("{tensor.device}")', 1)
    if torch.get_default_device().type != "cpu":
        cpu += ', device="cpu"'
    moved = "" if is_on_cpu else ".to({}.device)"
    if way == 2:
        order = f"torch.randperm({{}}.numel(), {cpu}){moved}"
        return f"{{}}.data.copy_({{}}.data.flatten()[{order}].view_as({{}}))"
    if kind == "float" and way == 0:
        return f"{{}}.data.mul_(torch.rand({{}}.shape, {cpu}){moved} * 0.6 + 0.7)"
    if kind == "float":
        mean, spread = (
            round(float(it), 2) for it in torch.randn(2, generator=chosen, device="cpu")
        )
        return f"{{}}.data.normal_({2 * mean}, {abs(spread) * 2 + 0.01}, {there})"
    if kind == "bool":
        share = round(float(torch.rand((), generator=chosen, device="cpu")), 2)
        return f"{{}}.data.bernoulli_({share}, {there})"
    return f"{{}}.data.random_({int(tensor.min())}, {int(tensor.max()) + 1}, {there})"


def _resizing(tensors: Sequence[Leaf], batch: int, size: int) -> list[_Edit]:
    """Another size of the first dim, the batch in most programs, of all tensors that have this
    one.
    """
    edits = []
    for leaf in tensors:
        if leaf.value.ndim and leaf.value.shape[0] == batch:
            repeats = ", 1" * (leaf.value.ndim - 1)
            rows = f".repeat({size // batch}{repeats})" if size > batch else f"[:{size}]"
            code = f"{leaf.expression} = {leaf.expression}{rows}"
            edits.append(_Edit(leaf, partial(resized, dim=0, size=size), code))
    return edits


# Properties.

_MAX_MODULES = 50
_MAX_MEMBERS = 4

_FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
_INTEGERS = (torch.int64, torch.int32, torch.int16)

_CHANNELS_LAST = "channels last"
_CONTIGUOUS = "contiguous"


@dataclass(frozen=True)
class Way:
    """One way to change a property, and those that change with it."""

    values: Sequence[Variant]
    tied: Sequence[str] = ()


@dataclass(frozen=True)
class Property:
    """Something that torch may guard on; ``reason``: why it can't be changed."""

    expression: str
    kind: str
    base: str
    ways: Sequence[Way] = ()
    tier: tuple[int, ...] = (9,)
    reason: str | None = None

    def planned(self) -> Fields:
        """Fields of ``Variation``, before it is varied."""
        return {"expression": self.expression, "kind": self.kind, "base": self.base, "tied": []}


def properties_of(call: Call, function: Any, *, is_no_grad: bool) -> list[Property]:
    """Everything about a call that can be changed, or that a person would expect here."""
    leaves = leaves_of(call, function)
    tensors = [leaf for leaf in leaves if isinstance(leaf.value, Tensor)]
    properties: list[Property] = []
    for leaf in leaves:
        if isinstance(leaf.value, Tensor):
            properties += _size_properties(leaf, tensors)
            properties += _tensor_properties(leaf)
        else:
            properties.append(_plain_property(leaf))
    used = [leaf.value for leaf in tensors]
    if isinstance(function, Module):
        properties += _attributes(function)
        used += list(function.parameters())[:1]
    device = next((tensor.device.type for tensor in used if tensor.device.type != "cpu"), "cpu")
    return [*properties, *_modes(function, is_no_grad=is_no_grad, device=device)]


def _plain_property(leaf: Leaf) -> Property:
    value, kind = leaf.value, type(leaf.value)
    name = {str: "text", bool: "flag", int: "number", float: "number"}.get(kind, "value")
    others: list[tuple[Any, bool]] = []
    if kind in (int, float, bool):
        others = _other_numbers(value)
    elif kind is str:
        others = [(f"{value}_", False), (f"{value}__", False)]
    elif isinstance(value, enum.Enum):
        others = [(member, False) for member in kind if member != value][:_MAX_MEMBERS]
    base = value_text(value) + " (default)" * leaf.is_default
    if value is None and not others:
        return Property(leaf.expression, "none", base, reason="it is None")
    if not others:
        reason = f"no other {kind.__qualname__} value is known"
        return Property(leaf.expression, name, base, reason=reason)
    values = [
        Variant(value_text(other), [_Edit(leaf, partial(_constant, other))], is_special=is_special)
        for other, is_special in others
    ]
    return Property(leaf.expression, name, base, [Way(values)], (1,))


def _constant(value: Any, _: Any) -> Any:
    return value


def _other_numbers(value: float | bool) -> list[tuple[Any, bool]]:
    """Other numbers of the same type, each with whether torch tends to compile for it alone."""
    if isinstance(value, bool):
        return [(not value, False)]
    ordinary: Sequence[float]
    special: Sequence[float]
    if isinstance(value, int):
        ordinary = [value + more for more in (1, 2, 3, 4) if value + more not in (-1, 0, 1)][:2]
        special = [0, 1, -1 if value >= 0 else -value]
    elif not math.isfinite(value) or value == 0:
        ordinary = [0.5, 0.25]
        special = [1.0]
    else:
        # Halves first: most floats are shares and rates, which have an upper bound.
        ordinary = [value * 0.5, value * 0.75]
        special = [0.0, 1.0, -value]
    numbers = dict.fromkeys([*ordinary, *special])
    return [(number, number not in ordinary) for number in numbers if number != value]


def _size_properties(leaf: Leaf, tensors: Sequence[Leaf]) -> Iterator[Property]:
    """Sizes of a tensor: each alone, or if it can't be, with the same dim of others that have it,
    or with all that are equal.
    """
    if not has_strides(leaf.value):
        reason = f"its layout is {leaf.value.layout}"
        yield Property(f"{leaf.expression}.shape", "size", value_text(leaf.value), reason=reason)
        return
    sized = [it for it in tensors if has_strides(it.value)]
    for dim, size in enumerate(leaf.value.shape):
        alone = leaf, dim
        equal = [(it, at) for it in sized for at, n in enumerate(it.value.shape) if n == size]
        others = [place for place in equal if place[0] is not leaf or place[1] != dim]
        of_dim = [place for place in others if place[1] == dim]
        ways = [_size_way(size, [alone])]
        ways += [_size_way(size, [alone, *of_dim])] if of_dim else []
        ways += [_size_way(size, [alone, *others])] if others != of_dim else []
        yield Property(f"{leaf.expression}.shape[{dim}]", "size", str(size), ways, (2, dim))


def _size_way(size: int, places: Sequence[tuple[Leaf, int]]) -> Way:
    # The doubled size first: code that needs an even size, or a multiple of the old one, still
    # works.
    others = [n for n in dict.fromkeys((2 * size, size + 1, 2, 3)) if n > 1 and n != size][:3]
    values = []
    for n in [*others, *[1] * (size != 1)]:
        edits = [_Edit(leaf, partial(resized, dim=dim, size=n)) for leaf, dim in places]
        values.append(Variant(str(n), edits, is_special=n == 1))
    return Way(values, [f"{leaf.expression}.shape[{dim}]" for leaf, dim in places[1:]])


def _tensor_properties(leaf: Leaf) -> Iterator[Property]:
    value: Tensor = leaf.value

    def varied(
        kind: str, base: str, changes: Mapping[str, _Change], tier: int, suffix: str = ""
    ) -> Iterator[Property]:
        # What has another requires_grad is no parameter any more.
        change_of = partial(partial, _changed, is_bare=kind == "requires_grad")
        values = [
            Variant(text, [_Edit(leaf, change_of(change))]) for text, change in changes.items()
        ]
        if values:
            expression = f"{leaf.expression}.{suffix or kind}"
            yield Property(expression, kind, base, [Way(values)], (tier,))

    family = next((of for of in (_FLOATS, _INTEGERS) if value.dtype in of), ())
    dtypes = [dtype for dtype in family if dtype is not value.dtype]
    dtypes = dtypes if family is _FLOATS else dtypes[:1]
    casts = {dtype_text(dtype): methodcaller("to", dtype) for dtype in dtypes}
    yield from varied("dtype", dtype_text(value.dtype), casts, 4)
    if has_strides(value):
        layout = f"strides {tuple(value.stride())}"
        if value.is_contiguous():
            layout = _CONTIGUOUS
        elif value.ndim == 4 and value.is_contiguous(memory_format=torch.channels_last):
            layout = _CHANNELS_LAST
        yield from varied("stride", layout, _other_layouts(value), 5, "stride()")
    if value.is_floating_point() or value.is_complex():
        needs = not value.requires_grad
        marks = {str(needs): methodcaller("requires_grad_", needs)}
        yield from varied("requires_grad", str(not needs), marks, 4)


def _changed(change: _Change, tensor: Tensor, *, is_bare: bool) -> Tensor:
    changed = change(tensor.detach())
    return changed if is_bare else dressed_as(changed, tensor)


def _other_layouts(tensor: Tensor) -> dict[str, _Change]:
    """Return functions that lay out the same values otherwise, by name; one per set of strides."""

    def in_wider(source: Tensor) -> Tensor:
        wider = source.new_zeros((*source.shape[:-1], 2 * source.shape[-1]))
        return wider[..., : source.shape[-1]].copy_(source)

    layouts: dict[str, _Change] = {
        "transposed": lambda source: source.mT.clone(memory_format=torch.contiguous_format).mT,
        _CHANNELS_LAST: methodcaller("clone", memory_format=torch.channels_last),
        _CONTIGUOUS: methodcaller("clone", memory_format=torch.contiguous_format),
        "slice of a wider tensor": in_wider,
    }
    names: dict[tuple[int, ...], str] = {}
    for name, lay_out in layouts.items() if tensor.ndim and tensor.numel() > 1 else ():
        with suppress(RuntimeError):  # it's for tensors with more dims
            names.setdefault(lay_out(tensor.detach()).stride(), name)
    names.pop(tensor.stride(), None)
    return {name: layouts[name] for name in names.values()}


def _attributes(function: Module) -> Iterator[Property]:
    """Plain numbers on the target and on its direct submodules, unless their class is torch's."""
    children = [(f"self.{name}", child) for name, child in function.named_children()]
    for owner, module in [("self", function), *children][:_MAX_MODULES]:
        for name, value in vars(module).items():
            is_number = type(value) in (int, float, bool) and name != "training"
            if not is_number or name[0] == "_" or type(module).__module__[:9] == "torch.nn.":
                continue
            setter = partial(setattr, module, name)
            values = []
            for n, is_special in _other_numbers(value):
                context = partial(set_for, setter, value, n)
                values.append(Variant(value_text(n), (), context, is_special=is_special))
            kind = "flag" if isinstance(value, bool) else "module_number"
            # Of all kinds it's these that a module may have many of.
            yield Property(f"{owner}.{name}", kind, value_text(value), [Way(values)], (8,))


def _modes(function: Any, *, is_no_grad: bool, device: str) -> Iterator[Property]:
    def setting(
        name: str, kind: str, setter: Callable[[Any], object], now: Any, *others: Any
    ) -> Property:
        text = dtype_text if isinstance(now, torch.dtype) else str
        values = [Variant(text(n), (), partial(set_for, setter, now, n)) for n in others]
        return Property(name, kind, text(now), [Way(values)], (0,))

    for switched in _in_other_mode(function, "{}"):
        base = "train" if function.training else "eval"
        yield Property("train/eval", "training", base, [Way([switched])], (0,))
    modes = [] if is_no_grad else [Variant("no_grad", (), torch.no_grad)]
    modes.append(Variant("inference_mode", (), torch.inference_mode))
    base = "no_grad" if is_no_grad else "enabled"
    yield Property("grad mode", "grad_mode", base, [Way(modes)], (0,))
    autocast = Variant("bf16", (), partial(torch.autocast, device, torch.bfloat16))
    yield Property("autocast", "autocast", "off", [Way([autocast])], (0,))
    dtype = torch.get_default_dtype()
    count = torch.get_num_threads()
    other = torch.float64 if dtype is not torch.float64 else torch.float32
    yield setting("default dtype", "default_dtype", torch.set_default_dtype, dtype, other)
    counts = count + 1, count + 2
    yield setting("number of threads", "threads", torch.set_num_threads, count, *counts)


@contextmanager
def _in_mode(module: Module, *, is_training: bool) -> Iterator[None]:
    before = [(child, child.training) for child in module.modules()]
    module.train(is_training)
    try:
        yield
    finally:
        for child, mode in before:
            child.training = mode
