"""The modules that repeat in a module, such as the layers of a transformer, and how to compile each
of them by itself.

torch's recipe for regional compilation: instances of one class share the code that torch compiles
for the first, so compiling takes as long as for one of them (``inline_inbuilt_nn_modules``, on by
default since torch 2.5, keeps guards off which instance it is).
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from ...facts.recording import RepeatedBlocks
from ..record.errors import RequestError
from ..torch_private import torch_api
from ..wire import ProbeRequest
from .options import check_compile_arguments

FEWEST = 3
"""How many modules of one class and structure make blocks: two can be two models, such as a pair of
encoders."""

_CONTAINERS = (torch.nn.ModuleList, torch.nn.ModuleDict)
"""They hold modules, and nobody calls them."""

_Structure = tuple[Any, ...]


@dataclass(frozen=True)
class Block:
    """A module that repeats; one that is in several places is a block in each."""

    path: str
    module: torch.nn.Module
    holder: torch.nn.Module


Blocks = dict[type[torch.nn.Module], list[Block]]
"""The blocks of a module by their class, in the order of its tree."""


class CompiledRegions:
    """Blocks that are compiled, each by itself; what is around them runs eagerly."""

    def __init__(self, blocks: Blocks, compile_one: Callable[[Any], Callable[..., Any]]) -> None:
        modules = {id(block.module): block.module for found in blocks.values() for block in found}
        self._compiled = [
            (module, *torch_api.compiled_entry(module, compile_one)) for module in modules.values()
        ]
        self._before = [
            (module, name, vars(module).get(name, _MISSING)) for module, name, _ in self._compiled
        ]
        _set(self._compiled)

    def switch_off(self) -> None:
        """Have the blocks run as they did before."""
        _set(self._before)

    @contextlib.contextmanager
    def off(self) -> Iterator[None]:
        """Have them do so for a while."""
        self.switch_off()
        try:
            yield
        finally:
            _set(self._compiled)


_MISSING = object()


def _set(entries: Iterable[tuple[torch.nn.Module, str, Any]]) -> None:
    for module, name, value in entries:
        if value is _MISSING:
            vars(module).pop(name, None)
        else:
            vars(module)[name] = value


def compile_regions(function: Any, **arguments: Any) -> CompiledRegions:
    """Compile each block of a module in place; ``RequestError`` if it isn't a module, or nothing
    repeats in it.
    """
    is_module = isinstance(function, torch.nn.Module)
    blocks = repeated_blocks(function)
    if not blocks:
        named = type(function) if is_module else function
        name = str(getattr(named, "__qualname__", type(named).__qualname__))
        raise RequestError("no_blocks", target=name, is_module=is_module, fewest=FEWEST)
    return CompiledRegions(blocks, lambda one: torch.compile(one, **arguments))


def compile_target(function: Any, request: ProbeRequest) -> tuple[Any, CompiledRegions | None]:
    """A target under ``torch.compile`` as asked for; itself, if its blocks are to be compiled in
    place, and these.
    """
    check_compile_arguments(request["backend"], request["mode"], request["options"])
    names = ("backend", "fullgraph", "dynamic", "mode", "options")
    arguments: dict[str, Any] = {name: request[name] for name in names} | {
        "options": request["options"] or None
    }
    try:
        if request["regional"]:
            return function, compile_regions(function, **arguments)
        return torch.compile(function, **arguments), None
    except (RuntimeError, ValueError, TypeError) as error:
        raise RequestError("refused_compile_arguments", error=str(error)) from error


def described(blocks: Blocks) -> list[RepeatedBlocks]:
    """Blocks for whoever reads the recording; before they are compiled."""
    known: dict[int, _Structure] = {}
    return [
        RepeatedBlocks(
            class_name=module_class.__qualname__,
            paths=tuple(block.path for block in found),
            kinds=len({_structure(block.module, known) for block in found}),
            compiled_as="forward"
            if torch_api.is_compiled_by_its_forward(found[0].module)
            else "module",
            container=_container(found),
        )
        for module_class, found in blocks.items()
    ]


def _container(blocks: list[Block]) -> str | None:
    holder, path = blocks[0].holder, blocks[0].path.rpartition(".")[0]
    if not isinstance(holder, (torch.nn.ModuleList, torch.nn.Sequential)) or len(holder) != len(
        blocks
    ):
        return None
    return path if all(block.holder is holder for block in blocks) else None


def repeated_blocks(module: Any) -> Blocks:
    """The outermost modules in a module whose class repeats; none in what isn't a module.

    A class repeats if at least ``FEWEST`` of its instances have the same parameters and submodules;
    the others then are blocks too, since they run the same code. A module of torch's own without
    submodules is none, nor is one without parameters.
    """
    if not isinstance(module, torch.nn.Module):
        return {}
    structures: dict[int, _Structure] = {}
    everywhere = [block for block in _inner("", module) if _can_be_block(block.module)]
    classes = _repeating(everywhere, structures)
    while True:
        # Of a class that is mostly within other blocks, too few can be left outside.
        outermost = list(_outermost("", module, classes))
        repeating = _repeating(outermost, structures)
        if repeating == classes:
            break
        classes = repeating
    found: Blocks = {}
    for block in outermost:
        found.setdefault(type(block.module), []).append(block)
    return found


def _repeating(
    blocks: list[Block], structures: dict[int, _Structure]
) -> set[type[torch.nn.Module]]:
    counts = Counter((type(block.module), _structure(block.module, structures)) for block in blocks)
    return {module_class for (module_class, _), count in counts.items() if count >= FEWEST}


def _children(path: str, module: torch.nn.Module) -> Iterator[Block]:
    """The submodules in all their places: ``named_children`` leaves out what it has seen."""
    for name, child in torch_api.submodules(module):
        yield Block(f"{path}.{name}".removeprefix("."), child, module)


def _inner(path: str, module: torch.nn.Module) -> Iterator[Block]:
    for child in _children(path, module):
        yield child
        yield from _inner(child.path, child.module)


def _outermost(
    path: str, module: torch.nn.Module, classes: set[type[torch.nn.Module]]
) -> Iterator[Block]:
    for child in _children(path, module):
        if type(child.module) in classes and _can_be_block(child.module):
            yield child
        else:
            yield from _outermost(child.path, child.module, classes)


def _can_be_block(module: torch.nn.Module) -> bool:
    if (
        isinstance(module, (*_CONTAINERS, torch.jit.ScriptModule))
        or next(module.parameters(), None) is None
    ):
        return False
    if torch_api.original_callable(module) is not module:
        return False  # the program compiles it by itself; what it compiles can be one
    is_torchs = type(module).__module__.partition(".")[0] == "torch"
    return not is_torchs or any(module.children())


def _structure(module: torch.nn.Module, known: dict[int, _Structure]) -> _Structure:
    if id(module) not in known:
        tensors = (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False))
        known[id(module)] = (
            type(module),
            tuple((name, _size(tensor)) for name, tensor in tensors),
            tuple((name, _structure(child, known)) for name, child in torch_api.submodules(module)),
        )
    return known[id(module)]


def _size(tensor: torch.Tensor) -> tuple[Any, ...] | None:
    # The sizes of a lazy module's parameters aren't known before its first call.
    return None if torch.nn.parameter.is_lazy(tensor) else (tuple(tensor.shape), tensor.dtype)
