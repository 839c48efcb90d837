"""How a target is compiled: the arguments of ``torch.compile`` and other options checked, and the
modules that repeat in it, such as the layers of a transformer, each compiled by itself.

Raises ``RequestError`` with the nearest names where torch would print a long list, or accept what
it later ignores.

torch's recipe for regional compilation: instances of one class share the code that torch compiles
for the first, so compiling takes as long as for one of them (``inline_inbuilt_nn_modules``, on by
default since torch 2.5, keeps guards off which instance it is).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import torch
from torch.nn import Module, ModuleDict, ModuleList, Sequential

from ...facts.base import Fields
from ...facts.recording import RepeatedBlocks
from ...wording import near_names
from ..record.errors import RequestError, first_line
from ..torch_private import torch_config
from ..torch_private.torch_api import (
    DTYPES,
    compiled_entry,
    is_compiled_by_its_forward,
    names_of,
    original_callable,
    submodules,
    usual_backends,
)
from ..wire import ProbeRequest

# Options by name.

_DTYPES = {"bool": torch.bool, **{name: dtype for dtype, name in DTYPES.items()}}


def device_named(name: str | None) -> torch.device | None:
    """Try the device that was asked for; None when none was."""
    if name is None:
        return None
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError, NotImplementedError, ImportError) as error:
        raise RequestError("unusable_device", device=name, error=first_line(error)) from None
    return torch.device(name)


def dtype_named(name: str | None, device: torch.device | None) -> torch.dtype | None:
    """Try the dtype that was asked for on its device; None when none was."""
    if name is None:
        return None
    dtype = getattr(torch, name)
    try:
        number = torch.ones(1, dtype=dtype, device=device)
        number + number
    except (RuntimeError, TypeError, NotImplementedError) as error:
        where = None if device is None else str(device)
        line = first_line(error)
        raise RequestError("unusable_dtype", dtype=name, device=where, error=line) from None
    return dtype


_WITHOUT_MODES = ("eager", "aot_eager", "aot_eager_decomp_partition")
"""Backends that log that they ignore ``mode`` and ``options`` (torch/_dynamo/backends, 2.13)."""


def check_compile_arguments(backend: str, mode: str | None, options: Fields) -> None:
    """Refuse unknown names of backends, modes and options."""
    _refuse_unknown("backend", backend)
    if mode is not None:
        _refuse_unknown("mode", mode)
        if options:
            raise RequestError("mode_and_options")
    if backend in _WITHOUT_MODES and (mode not in (None, "default") or options):
        raise RequestError("ignored_mode", backend=backend)
    for name in options if backend == "inductor" else ():
        _refuse_unknown("option", name, name.replace("-", "_"))


def _refuse_unknown(
    argument: Literal["backend", "mode", "option"], name: str, listed_as: str | None = None
) -> None:
    names = sorted(names_of(argument))
    if (listed_as or name) not in names:
        near = near_names(name, names)
        # Hundreds of options are no help, nor are backends that torch tests itself with.
        shown = {"option": [], "mode": names, "backend": usual_backends()}[argument]
        raise RequestError("unknown_argument", argument=argument, name=name, near=near, known=shown)


def set_config(name: str, value: Any) -> None:
    """Set one of torch's config values; a name alone is one of ``torch._dynamo.config``.

    Raises:
        RequestError: torch has no such, or it takes another type.
    """
    dotted = name if "." in name else f"torch._dynamo.config.{name}"
    try:
        before: Any = torch_config.config_value(dotted if dotted.startswith("torch.") else "")
    except (AttributeError, ImportError, TypeError, ValueError):
        names = torch_config.config_names()
        setting = name.rpartition(".")[2]
        # Also by the last part alone: people leave the module out.
        near = [full for full in names if setting and full.rpartition(".")[2] == setting]
        near = near or near_names(dotted, names)
        raise RequestError("unknown_config", name=name, near=near) from None
    declared = torch_config.config_type(dotted)
    accepted = (int, float) if declared is float else (declared,)
    if declared is not None and type(value) not in accepted and value != before:
        kind = declared.__name__
        raise RequestError("config_type", name=name, value=value, type=kind, default=before)
    torch_config.set_config(dotted, value)


def make_input(spec: Fields) -> Any:
    """Make a value as the request describes it: floats are drawn from a normal distribution,
    integers from {0, 1}, which are valid as class, index and token alike.
    """
    if spec["kind"] == "value":
        return spec["value"]
    dtype = _DTYPES[spec["dtype"]]
    shape = spec["shape"]
    try:
        if dtype.is_floating_point or dtype.is_complex:
            return torch.randn(shape, dtype=dtype)
        return torch.randint(0, 2, shape).to(dtype)
    except (RuntimeError, TypeError) as error:
        text = f"{spec['dtype']}[{','.join(map(str, shape))}]"
        raise RequestError("unusable_input", input=text, error=first_line(error)) from None


# Blocks.

FEWEST = 3
"""How many modules of one class and structure make blocks: two can be two models, such as a pair of
encoders."""

_Structure = tuple[Any, ...]


class Block(NamedTuple):
    """A module that repeats; one that is in several places is a block in each."""

    path: str
    module: Module
    holder: Module


Blocks = dict[type[Module], list[Block]]
"""The blocks of a module by their class, in the order of its tree."""


class CompiledRegions:
    """Blocks that are compiled, each by itself; what is around them runs eagerly."""

    def __init__(self, blocks: Blocks, compile_one: Callable[[Any], Callable[..., Any]]) -> None:
        modules = {id(it.module): it.module for members in blocks.values() for it in members}
        self._compiled = [(it, *compiled_entry(it, compile_one)) for it in modules.values()]
        self._before = [(it, name, vars(it).get(name, _MISSING)) for it, name, _ in self._compiled]
        self._set(self._compiled)

    def _set(self, entries: list[tuple[Module, str, Any]]) -> None:
        for module, name, value in entries:
            if value is _MISSING:
                vars(module).pop(name, None)
            else:
                vars(module)[name] = value

    def switch_off(self) -> None:
        """Have the blocks run as they did before."""
        self._set(self._before)

    @contextmanager
    def off(self) -> Iterator[None]:
        """Have them do so for a while."""
        self.switch_off()
        try:
            yield
        finally:
            self._set(self._compiled)


_MISSING = object()


def compile_regions(function: Any, **arguments: Any) -> CompiledRegions:
    """Compile each block of a module in place.

    Raises:
        RequestError: It isn't a module, or nothing repeats in it.
    """
    blocks = repeated_blocks(function)
    if not blocks:
        is_module = isinstance(function, Module)
        named = type(function) if is_module else function
        name = str(getattr(named, "__qualname__", type(named).__qualname__))
        raise RequestError("no_blocks", target=name, is_module=is_module, fewest=FEWEST)
    return CompiledRegions(blocks, lambda module: torch.compile(module, **arguments))


def compile_target(function: Any, request: ProbeRequest) -> tuple[Any, CompiledRegions | None]:
    """Compile a target as asked for; where its blocks are compiled in place, returns itself, and
    these.
    """
    options = request["options"]
    check_compile_arguments(request["backend"], request["mode"], options)
    arguments = {name: request[name] for name in ("backend", "fullgraph", "dynamic", "mode")}
    arguments["options"] = options or None
    try:
        if request["regional"]:
            return function, compile_regions(function, **arguments)
        return torch.compile(function, **arguments), None
    except (RuntimeError, ValueError, TypeError) as error:
        raise RequestError("refused_compile_arguments", error=str(error)) from error


def described_blocks(blocks: Blocks) -> list[RepeatedBlocks]:
    """Describe blocks for whoever reads the recording; before they are compiled."""
    structures: dict[int, _Structure] = {}
    return [
        RepeatedBlocks(
            class_name=module_class.__qualname__,
            paths=tuple(block.path for block in members),
            kinds=len({_structure(block.module, structures) for block in members}),
            compiled_as="forward" if is_compiled_by_its_forward(members[0].module) else "module",
            container=_container(members),
        )
        for module_class, members in blocks.items()
    ]


def _container(blocks: list[Block]) -> str | None:
    holder = blocks[0].holder
    is_list = isinstance(holder, ModuleList | Sequential) and len(holder) == len(blocks)
    is_whole = is_list and all(block.holder is holder for block in blocks)
    return blocks[0].path.rpartition(".")[0] if is_whole else None


def repeated_blocks(module: Any) -> Blocks:
    """Find the outermost modules in a module whose class repeats; none in what isn't a module.

    A class repeats if at least ``FEWEST`` of its instances have the same parameters and submodules;
    the others then are blocks too, since they run the same code. A module of torch's own without
    submodules is none, nor is one without parameters.
    """
    if not isinstance(module, Module):
        return {}
    structures: dict[int, _Structure] = {}

    def repeating(candidates: list[Block]) -> set[type[Module]]:
        forms = ((type(it.module), _structure(it.module, structures)) for it in candidates)
        return {kind for (kind, _), count in Counter(forms).items() if count >= FEWEST}

    classes = repeating([block for block in _inner("", module) if _can_be_block(block.module)])
    while True:
        # Of a class that is mostly within other blocks, too few can be left outside.
        outermost = list(_inner("", module, classes))
        left = repeating(outermost)
        if left == classes:
            break
        classes = left
    blocks: Blocks = {}
    for block in outermost:
        blocks.setdefault(type(block.module), []).append(block)
    return blocks


def _inner(
    path: str, module: Module, outermost: set[type[Module]] | None = None
) -> Iterator[Block]:
    """Yield the submodules in all their places; of the ``outermost`` classes alone if there are
    any.
    """
    for name, child in submodules(module):
        block = Block(f"{path}.{name}".removeprefix("."), child, module)
        is_block = outermost is not None and type(child) in outermost and _can_be_block(child)
        if outermost is None or is_block:
            yield block
        if not is_block:
            yield from _inner(block.path, child, outermost)


def _can_be_block(module: Module) -> bool:
    # Nobody calls containers.
    if isinstance(module, ModuleList | ModuleDict | torch.jit.ScriptModule):
        return False
    if next(module.parameters(), None) is None:
        return False
    if original_callable(module) is not module:
        return False  # the program compiles it by itself; what it compiles can be one
    is_of_torch = type(module).__module__.partition(".")[0] == "torch"
    return not is_of_torch or any(module.children())


def _structure(module: Module, structures: dict[int, _Structure]) -> _Structure:
    if id(module) not in structures:
        tensors = (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False))
        # The sizes of a lazy module's parameters aren't there before its first call.
        sizes = (
            (name, None if torch.nn.parameter.is_lazy(it) else (tuple(it.shape), it.dtype))
            for name, it in tensors
        )
        parts = ((name, _structure(child, structures)) for name, child in submodules(module))
        structures[id(module)] = (type(module), tuple(sizes), tuple(parts))
    return structures[id(module)]
