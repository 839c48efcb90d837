"""Inputs made to break an edit: the tensors of a call with other values or another batch size, by
rule.

Values are changed in place, so a call must be a fresh copy. Integers and bools stay between the
values that the program was called with, because they may be indices. The same call has the same
attacks in every process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch

from ..target.targets import Call
from .arguments import has_strides, resized
from .leaves import Leaf, leaves_of, replaced

_MAX_APART = 3
"""So many tensors of one kind are also changed one at a time."""

_RANDOM = 60
"""How many calls with random values, or the program's own in another order, are offered, to be kept
if they reach lines that few others do."""

_MANY = 4
"""In half of them the batch is so many times as large."""

_Kind = Literal["float", "integer", "bool"]


@dataclass(frozen=True)
class Attack:
    """One changed call; ``text`` is a clause.

    ``code`` makes the change, with the function's own names for its arguments; ``is_search``: worth
    compiling only if it runs lines that few others do; ``is_empty``: its batch has no rows, so that
    no result shows what a line computes.
    """

    text: str
    code: str
    make: Callable[[Call], Call]
    is_search: bool = False
    is_empty: bool = False


@dataclass(frozen=True)
class _Change:
    """A change of a tensor in place; ``{}`` in ``code`` is the tensor."""

    text: str
    code: str
    apply: Callable[[torch.Tensor], object]


def _one(value: float) -> Callable[[torch.Tensor], object]:
    def apply(tensor: torch.Tensor) -> None:
        tensor[_middle(tensor)] = value

    return apply


def _middle(tensor: torch.Tensor) -> tuple[int, ...]:
    return tuple(size // 2 for size in tensor.shape)


_FLOATS = (
    _Change("all zero", "{}.data.zero_()", torch.Tensor.zero_),
    _Change("NaN in one place", "{}.data[{middle}] = float('nan')", _one(float("nan"))),
    _Change("infinite in one place", "{}.data[{middle}] = float('inf')", _one(float("inf"))),
    _Change("negated", "{}.data.neg_()", torch.Tensor.neg_),
    _Change("all one", "{}.data.fill_(1)", lambda tensor: tensor.fill_(1)),
    _Change("1e4 times as large", "{}.data.mul_(1e4)", lambda tensor: tensor.mul_(1e4)),
    _Change("1e-4 times as large", "{}.data.mul_(1e-4)", lambda tensor: tensor.mul_(1e-4)),
)
_BOOLS = (
    _Change("all False", "{}.data.fill_(False)", lambda tensor: tensor.fill_(False)),
    _Change("all True", "{}.data.fill_(True)", lambda tensor: tensor.fill_(True)),
    _Change("inverted", "{}.data.logical_not_()", torch.Tensor.logical_not_),
)


def attacks_of(call: Call, function: Any) -> Iterator[Attack]:
    """The attacks on a call, those that are worth most first."""
    tensors = [leaf for leaf in leaves_of(call, function) if _is_plain(leaf.value)]
    by_kind: dict[_Kind, list[Leaf]] = {}
    for leaf in tensors:
        if leaf.value.numel():
            by_kind.setdefault(_kind(leaf.value), []).append(leaf)
    yield Attack("nothing is changed", "", lambda call: call)
    yield from _values(by_kind, together=True)
    yield from _sizes(tensors)
    yield from _values(by_kind, together=False)
    # Values are drawn in memory's order, which a tensor that is larger may not have.
    is_in_order = all(leaf.value.is_contiguous() for leaf in tensors)
    larger = next(_sizes(tensors, (_MANY,)), None) if is_in_order else None
    for seed in range(1, _RANDOM + 1) if by_kind else ():
        drawn = [
            (leaf, _drawn(leaf.value, seed + 100 * place)) for place, leaf in enumerate(tensors)
        ]
        text = f"values are {('a little different', 'random', 'in another order')[_way(seed)]} (seed {seed})"
        attack = _attack(
            text, [(leaf, change) for leaf, change in drawn if leaf.value.numel()], is_search=True
        )
        yield attack if larger is None or seed % 2 else _after(larger, attack)


def _is_plain(value: Any) -> bool:
    return (
        type(value) in (torch.Tensor, torch.nn.Parameter)
        and has_strides(value)
        and not value.is_quantized
    )


def _kind(tensor: torch.Tensor) -> _Kind:
    if tensor.dtype is torch.bool:
        return "bool"
    return "float" if tensor.is_floating_point() or tensor.is_complex() else "integer"


def _values(by_kind: dict[_Kind, list[Leaf]], *, together: bool) -> Iterator[Attack]:
    for kind, leaves in by_kind.items():
        groups = [leaves] if together else [[leaf] for leaf in leaves]
        if together or 1 < len(leaves) <= _MAX_APART:
            for group in groups:
                yield from _of_kind(kind, group)


def _of_kind(kind: _Kind, leaves: Sequence[Leaf]) -> Iterator[Attack]:
    names = (
        " and ".join(leaf.expression for leaf in leaves)
        if len(leaves) <= _MAX_APART
        else f"all {kind} tensors"
    )
    verb = "is" if len(leaves) == 1 else "are"
    if kind == "integer":
        for word, extreme in (("lowest", torch.Tensor.min), ("highest", torch.Tensor.max)):
            filled = [(leaf, _filled(int(extreme(leaf.value)))) for leaf in leaves]
            yield _attack(f"{names} {verb} at the {word} value", filled)
        return
    for change in _FLOATS if kind == "float" else _BOOLS:
        yield _attack(f"{names} {verb} {change.text}", [(leaf, change) for leaf in leaves])


def _filled(value: int) -> _Change:
    return _Change(str(value), f"{{}}.data.fill_({value})", lambda tensor: tensor.fill_(value))


def _drawn(tensor: torch.Tensor, seed: int) -> _Change:
    chosen = torch.Generator().manual_seed(seed)
    generator = f"generator=torch.Generator().manual_seed({seed})"
    kind = _kind(tensor)
    if _way(seed) == 2:
        order = f"torch.randperm({{}}.numel(), {generator})"
        return _Change(
            "",
            f"{{}}.data.copy_({{}}.data.flatten()[{order}].view_as({{}}))",
            partial(_shuffled, seed),
        )
    if kind == "float" and _way(seed) == 0:
        factors = f"torch.rand({{}}.shape, {generator})"
        return _Change("", f"{{}}.data.mul_({factors} * 0.6 + 0.7)", partial(_scaled, seed))
    if kind == "float":
        mean, std = (round(float(one), 2) for one in torch.randn(2, generator=chosen))
        mean, std = 2 * mean, abs(std) * 2 + 0.01
        return _Change(
            "", f"{{}}.data.normal_({mean}, {std}, {generator})", partial(_normal, seed, mean, std)
        )
    if kind == "bool":
        share = round(float(torch.rand((), generator=chosen)), 2)
        return _Change(
            "", f"{{}}.data.bernoulli_({share}, {generator})", partial(_bernoulli, seed, share)
        )
    low, high = int(tensor.min()), int(tensor.max()) + 1
    return _Change(
        "", f"{{}}.data.random_({low}, {high}, {generator})", partial(_random, seed, low, high)
    )


def _generator(tensor: torch.Tensor, seed: int) -> torch.Generator:
    return torch.Generator(tensor.device).manual_seed(seed)


def _way(seed: int) -> int:
    """How a seed changes values: by up to 30%, at random, or by another order, which keeps what
    they have in common.
    """
    return seed % 3


def _scaled(seed: int, tensor: torch.Tensor) -> None:
    factors = torch.rand(tensor.shape, generator=torch.Generator().manual_seed(seed))
    tensor.mul_((factors * 0.6 + 0.7).to(tensor.device))


def _shuffled(seed: int, tensor: torch.Tensor) -> None:
    order = torch.randperm(tensor.numel(), generator=torch.Generator().manual_seed(seed))
    tensor.copy_(tensor.flatten()[order.to(tensor.device)].view_as(tensor))


def _normal(seed: int, mean: float, std: float, tensor: torch.Tensor) -> None:
    tensor.normal_(mean, std, generator=_generator(tensor, seed))


def _bernoulli(seed: int, share: float, tensor: torch.Tensor) -> None:
    tensor.bernoulli_(share, generator=_generator(tensor, seed))


def _random(seed: int, low: int, high: int, tensor: torch.Tensor) -> None:
    tensor.random_(low, high, generator=_generator(tensor, seed))


def _attack(
    text: str, changes: Sequence[tuple[Leaf, _Change]], *, is_search: bool = False
) -> Attack:
    lines = []
    for leaf, change in changes:
        middle = ", ".join(map(str, _middle(leaf.value))) or "()"
        lines.append(change.code.replace("{middle}", middle).replace("{}", leaf.expression))

    def make(call: Call) -> Call:
        for leaf, change in changes:
            change.apply(_at(call, leaf).data)
        return call

    return Attack(text, "\n".join(lines), make, is_search)


def _at(call: Call, leaf: Leaf) -> torch.Tensor:
    value: Any = call
    for kind, key in leaf.path:
        value = getattr(value, key) if kind == "attribute" else value[key]
    return value


def _after(first: Attack, second: Attack) -> Attack:
    text, code = f"{first.text}, and {second.text}", f"{first.code}\n{second.code}"
    return Attack(text, code, lambda call: second.make(first.make(call)), second.is_search)


def _sizes(tensors: Sequence[Leaf], factors: Sequence[int] | None = None) -> Iterator[Attack]:
    """Other sizes of the first dim, which is the batch in most programs, of all tensors that have
    the first one's.
    """
    first = next((leaf.value.shape[0] for leaf in tensors if leaf.value.ndim), 0)
    batched = [leaf for leaf in tensors if leaf.value.ndim and leaf.value.shape[0] == first]
    sizes = (1, 2 * first, 0) if factors is None else [first * factor for factor in factors]
    for size in sizes if first else ():
        if size == first:
            continue
        change = partial(resized, dim=0, size=size)

        def make(call: Call, change: Callable[[Any], Any] = change) -> Call:
            for leaf in batched:
                call = replaced(call, leaf.path, change)
            return call

        code = [
            f"{leaf.expression} = {leaf.expression}"
            + (
                f".repeat({size // first}{', 1' * (leaf.value.ndim - 1)})"
                if size > first
                else f"[:{size}]"
            )
            for leaf in batched
        ]
        yield Attack(f"the batch is {size}", "\n".join(code), make, is_empty=size == 0)
