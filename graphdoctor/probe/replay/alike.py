"""Which calls are alike: the same arguments but for the values in tensors, or but for their sizes too."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, Literal

import torch

from ..target.targets import Call
from ..torch_private import torch_api

Alike = Literal["sizes", "kinds"]
"""``sizes``: tensors of the same sizes; ``kinds``: tensors of the same number of dims."""


def named_leaves(call: Call, signature: inspect.Signature | None) -> Iterator[tuple[str, Any]]:
    """The leaves of a call's arguments, in torch's order, by the parameter's name and the path in it.

    Yields:
        Names such as ``d['k']``, with the leaves.
    """
    args, kwargs = call
    for name, value in (*zip(_positional_names(len(args), signature), args, strict=True), *kwargs.items()):
        for path, leaf in torch_api.tree_leaves_with_path(value):
            yield f"{name}{path}", leaf


def _positional_names(count: int, signature: inspect.Signature | None) -> list[str]:
    names: list[str] = []
    rest = "args"
    for parameter in signature.parameters.values() if signature is not None else ():
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
        elif parameter.kind is parameter.VAR_POSITIONAL:
            rest = parameter.name
    return [*names[:count], *(f"{rest}[{index}]" for index in range(count - len(names)))]


def sameness(call: Call, alike: Alike) -> object:
    """What two calls have in common if they are alike."""
    leaves = [_kind(leaf, alike) for leaf in torch_api.tree_leaves(call)]
    return torch_api.tree_structure(call), leaves


def _kind(leaf: Any, alike: Alike) -> object:  # noqa: ANN401
    if isinstance(leaf, torch.Tensor):
        return str(leaf.dtype), str(leaf.device), tuple(leaf.shape) if alike == "sizes" else leaf.ndim
    is_plain = isinstance(leaf, (bool, int, float, complex, str, type(None)))
    return type(leaf).__qualname__, leaf if is_plain else None


class AlikeCalls:
    """Keeps the calls that are like the first one, and notes what differs in the others."""

    def __init__(self, alike: Alike, signature: inspect.Signature | None) -> None:
        self._alike = alike
        self._signature = signature
        self._first: object = None
        self._kinds: object = None
        self._sizes: dict[str, list[tuple[int, ...]]] = {}
        self.total = 0
        self.made = 0
        self.other: list[int] = []
        """Numbers of the calls that have other arguments than tensors of other sizes."""

    def keeps(self, call: Call) -> bool:
        """Whether to make a call; called for each, in order."""
        self.total += 1
        mine, kinds = sameness(call, self._alike), sameness(call, "kinds")
        if self.total == 1:
            self._first, self._kinds = mine, kinds
        if kinds != self._kinds:
            self.other.append(self.total)
        else:
            for source, leaf in named_leaves(call, self._signature):
                if isinstance(leaf, torch.Tensor):
                    self._sizes.setdefault(source, []).append(tuple(leaf.shape))
        self.made += mine == self._first
        return mine == self._first

    @property
    def differing(self) -> list[tuple[str, int, list[int]]]:
        """The dims whose sizes differ between calls: source, dim, sizes."""
        return [
            (source, dim, list(dict.fromkeys(shape[dim] for shape in shapes)))
            for source, shapes in self._sizes.items()
            for dim in range(len(shapes[0]))
            if len({shape[dim] for shape in shapes}) > 1
        ]
