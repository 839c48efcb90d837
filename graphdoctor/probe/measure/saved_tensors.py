"""What autograd keeps of a call for its backward pass, compiled or not, whoever keeps it."""

from __future__ import annotations

import gc
import operator
import weakref
from collections.abc import Callable, Iterable, Iterator

import torch

from ..torch_private.torch_api import tree_leaves


class _Saved:
    """What an operation saved: alive as long as the operation's part of the graph is."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor


def kept_bytes(call: Callable[[], object]) -> int | None:
    """The memory that is kept while a call's result lives, and that wasn't there before.

    Returns:
        The size of all storages of saved tensors, each once; None if one of them can't be measured, as of a sparse
        tensor, or saved tensors can't be watched in this call.
    """
    # Held, so that nothing new gets the same address.
    before = {storage.data_ptr(): storage for storage in _present()}
    saved: list[weakref.ref[_Saved]] = []

    def pack(tensor: torch.Tensor) -> _Saved:
        found = _Saved(tensor)
        saved.append(weakref.ref(found))
        return found

    try:
        with torch.autograd.graph.saved_tensors_hooks(pack, operator.attrgetter("tensor")):
            output = call()
        alive = [found.tensor for each in saved if (found := each()) is not None]
        sizes: dict[int, int] = {}
        for tensor in (*alive, *_on_contexts(output)):
            for storage in _storages(tensor):
                sizes[storage.data_ptr()] = storage.nbytes()
    except (RuntimeError, NotImplementedError):
        return None
    return sum(size for address, size in sizes.items() if address not in before)


def _present() -> Iterator[torch.UntypedStorage]:
    for found in gc.get_objects():
        if not issubclass(type(found), torch.Tensor):
            continue
        try:
            yield from [storage for storage in _storages(found) if storage.device.type != "meta"]
        except (RuntimeError, NotImplementedError):
            continue


def _storages(tensor: torch.Tensor) -> Iterator[torch.UntypedStorage]:
    """A tensor's memory; of one that is made of others, theirs.

    Raises:
        RuntimeError, NotImplementedError: It has no storage.
    """
    flatten = getattr(tensor, "__tensor_flatten__", None)
    if flatten is None:
        yield tensor.untyped_storage()
        return
    for name in flatten()[0]:
        yield from _storages(getattr(tensor, name))


def _on_contexts(output: object) -> Iterator[torch.Tensor]:
    """Tensors that custom functions keep as attributes of their contexts, as AOTAutograd's does with some."""
    waiting = [leaf.grad_fn for leaf in tree_leaves(output) if isinstance(leaf, torch.Tensor)]
    seen: set[object] = set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        waiting.extend(following for following, _ in node.next_functions)
        yield from _tensors(getattr(node, "__dict__", {}).values())


def _tensors(values: Iterable[object]) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from (each for each in value if isinstance(each, torch.Tensor))
