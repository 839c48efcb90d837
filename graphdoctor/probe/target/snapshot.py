"""Makes a call repeatable: fresh copies of its arguments, and the state that it changes restored.

Nothing is deep-copied: objects keep their identity, because torch guards on it. The content of the
containers and tensors that can be reached from the target is kept, and restored where it changed.
"""

from __future__ import annotations

import copy
import dataclasses
import enum
import logging
import random
import sys
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, Parameter

from ...wording import counted
from ..events import EventFile
from .targets import Call, plain_function

_MAX_OBJECTS = 200_000
_MAX_BYTES = 2**30
"""Most bytes of tensors that are kept; parameters beyond it aren't restored."""

_LEFT_ALONE = (
    "torch._dynamo",
    "torch._inductor",
    "torch.fx",
    "torch._C",
    "torch._functorch",
    "threading",
    "_thread",
)
"""Modules of classes whose objects are torch's own, or hold no state."""

_WITHOUT_STATE = (type, ModuleType, CodeType, enum.Enum, logging.Logger, torch._ops.OpOverload)
_USED = (Module, Tensor, torch.optim.Optimizer, list, dict, set, deque)
"""Of the globals that a function uses, those that it may change."""

_NUMBERS = (int, float, bool, str)


class FreshCopies:
    """Copies arguments: tensors with strides and sharing, containers and plain objects; other
    objects are reused.
    """

    def __init__(self) -> None:
        self._copies: dict[int, Any] = {}
        self._storages: dict[int, torch.UntypedStorage] = {}

    def call(self, call: Call) -> Call:
        """Copy a call's arguments."""
        args, kwargs = call
        return tuple(map(self.of, args)), {name: self.of(value) for name, value in kwargs.items()}

    def of(self, value: Any) -> Any:
        """Copy a value; an object in two places stays one object."""
        if id(value) not in self._copies:
            self._copies[id(value)] = self._copied(value)
        return self._copies[id(value)]

    def _copied(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return self._tensor(value)
        kind = type(value)
        if kind in (list, tuple):
            return kind(map(self.of, value))
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return kind(*map(self.of, value))
        names = attribute_names(value)
        items = [*value.items()] if isinstance(value, dict) else []
        if not names and not items and kind is not dict:
            return value
        try:
            copied = copy.copy(value)
            for key, item in items:
                copied[key] = self.of(item)
            for name in names:
                object.__setattr__(copied, name, self.of(getattr(value, name)))
        except Exception:  # noqa: BLE001 - a class of the program's that refuses; its object is reused
            return value
        return copied

    def _tensor(self, value: Tensor) -> Tensor:
        if value.layout is not torch.strided or type(value) not in (Tensor, Parameter):
            return value.detach().clone().requires_grad_(value.requires_grad)
        storage = value.untyped_storage()
        key = storage.data_ptr() or id(value)
        if key not in self._storages:
            self._storages[key] = storage.clone()
        copied = torch.empty(0, dtype=value.dtype, device=value.device)
        copied.set_(self._storages[key], value.storage_offset(), value.size(), value.stride())
        return dressed_as(copied, value)


class RandomState:
    """The state of Python's, torch's and NumPy's random numbers when this was made; a ``with`` goes
    back there.
    """

    def __init__(self) -> None:
        numpy = sys.modules.get("numpy.random")
        self._python, self._torch = random.getstate(), torch.get_rng_state()
        self._numpy = None if numpy is None else numpy.get_state()
        self._cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None

    def is_current(self) -> bool:
        """Return whether no generator that existed then was drawn from or seeded since."""
        now = RandomState()
        now._numpy = now._numpy if self._numpy is not None else None
        now._cuda = now._cuda if self._cuda is not None else None
        return now._values() == self._values()

    def digest(self) -> int:
        """Sum it up in a number."""
        return zlib.crc32(repr(self._values()).encode())

    def _values(self) -> tuple[object, ...]:
        numpy = None if self._numpy is None else (self._numpy[1].tobytes(), self._numpy[2:])
        tensors = [tensor.numpy().tobytes() for tensor in (self._torch, *(self._cuda or ()))]
        return self._python, tensors, numpy

    def __enter__(self) -> RandomState:
        return self

    def __exit__(self, *_: object) -> None:
        self.restore()

    def restore(self) -> None:
        """Go back there."""
        random.setstate(self._python)
        torch.set_rng_state(self._torch)
        if self._numpy is not None:
            sys.modules["numpy.random"].set_state(self._numpy)
        if self._cuda is not None:
            torch.cuda.set_rng_state_all(self._cuda)


def seed_everything(seed: int) -> None:
    """Seed Python's and torch's random numbers, and NumPy's if the program has loaded it."""
    random.seed(seed)
    # Without an accelerator in this build, the CPU's generator is the only one; for CUDA that isn't
    # there, ``torch.manual_seed`` formats the whole stack (``_lazy_call``, ``torch/cuda``, 2.13).
    if torch.accelerator.current_accelerator() is None:
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None and hasattr(numpy, "random"):
        numpy.random.seed(seed % 2**32)


def dressed_as(tensor: Tensor, original: Tensor) -> Tensor:
    """Give a tensor the class, ``requires_grad`` and marks of another (``mark_dynamic`` sets
    attributes).
    """
    tensor = tensor.detach()
    wants_grad = original.requires_grad and (tensor.is_floating_point() or tensor.is_complex())
    if isinstance(original, Parameter):
        tensor = Parameter(tensor, requires_grad=wants_grad)
    else:
        tensor.requires_grad_(wants_grad)
    tensor.__dict__.update(original.__dict__)
    return tensor


def attribute_names(value: object, *, is_callable: bool = False) -> list[str]:
    """List the attributes to look into: those of dataclasses and of plain objects; otherwise none.

    ``is_callable``: also of objects that can be called, such as torch-geometric's ``Data``.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        # A dict that is also a dataclass (transformers' outputs) has the same values as items.
        fields = () if isinstance(value, dict) else dataclasses.fields(value)
        return [field.name for field in fields]
    opaque = (type, enum.Enum, Module, BaseException, FunctionType, ModuleType, dict)
    if isinstance(value, opaque) or (callable(value) and not is_callable):
        return []
    if type(value).__module__.partition(".")[0] in ("torch", "builtins", "functools", "threading"):
        return []
    return [name for name in _attributes(value) or () if name.isidentifier()]


def _attributes(value: object) -> dict[str, Any] | None:
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return attributes if type(attributes) is dict else None


class State:
    """What a call may change, as it was when this was made."""

    def __init__(self, function: Any, arguments: object = None) -> None:
        self._seen: dict[int, Any] = {}
        self._containers: list[tuple[Any, Any]] = []
        self._others: list[Callable[[], object]] = []
        """What restores variables of functions."""
        self._tensors: list[_KeptTensor] = []
        self._bytes = 0
        self._used_up: set[str] = set()
        """Iterators, which can't be restored, by type name."""
        self._refusals = 0
        """Tensors that changed and couldn't be restored."""
        # For a module also its function: a class may be defined in a function, whose variables its
        # forward uses.
        called = plain_function(function)
        waiting = [function, called, arguments]
        if called is not None:
            scope = called.__globals__
            used = {name: scope.get(name) for name in names_in(called.__code__)}
            plain = {name: value for name, value in used.items() if type(value) in _NUMBERS}
            self._others.append(partial(scope.update, plain))
            waiting += (value for value in used.values() if isinstance(value, _USED))
        while waiting and len(self._seen) < _MAX_OBJECTS:
            value = waiting.pop()
            is_plain = value is None or type(value) in (*_NUMBERS, bytes)
            if id(value) not in self._seen and not is_plain:
                self._seen[id(value)] = value
                # A class of the program's may refuse any access.
                with suppress(Exception):
                    waiting += self._keep(value)

    def _keep(self, value: Any) -> Iterable[Any]:
        """Keep what a value holds itself; returns what to look into."""
        if isinstance(value, Tensor):
            tensor = _KeptTensor(value)
            size = value.numel() * value.element_size()
            self._tensors.append(tensor)
            if tensor.version is None or self._bytes + size <= _MAX_BYTES:
                self._bytes += size
                tensor.content = value.detach().clone()
            return [tensor.grad]
        attributes = _attributes(value)
        if isinstance(value, dict | list | set | deque):
            kept: Any = dict(value) if isinstance(value, dict) else list(value)
            self._containers.append((value, kept))
            return [*(kept.values() if isinstance(value, dict) else kept), attributes or None]
        if isinstance(value, tuple | frozenset):
            return value
        if isinstance(value, FunctionType):
            inside = [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
            for cell in value.__closure__ or ():
                with suppress(ValueError):  # empty
                    inside.append(cell.cell_contents)
                    self._others.append(partial(setattr, cell, "cell_contents", inside[-1]))
            return inside
        if isinstance(value, MethodType):
            return [value.__self__, value.__func__]
        if isinstance(value, partial):
            return [value.func, *value.args, *value.keywords.values()]
        if isinstance(value, Iterator):
            self._used_up.add(type(value).__qualname__)
            return []
        is_left_alone = type(value).__module__.startswith(_LEFT_ALONE)
        return [] if isinstance(value, _WITHOUT_STATE) or is_left_alone else [attributes]

    @property
    def tensors(self) -> list[Tensor]:
        """All tensors that are in it."""
        return [kept.tensor for kept in self._tensors]

    def report_lost(self, events: EventFile, when: str) -> None:
        """Report what ``restore`` can't restore."""
        lost = sorted(self._used_up)
        if self._refusals:
            lost.append(counted(self._refusals, "changed tensor"))
        if len(self._seen) >= _MAX_OBJECTS:
            lost.append(f"what is beyond the first {_MAX_OBJECTS:,} objects")
        if lost:
            message = f"Of what the target holds, this can't be restored {when}: {', '.join(lost)}."
            events.gap("not_put_back", message)

    def is_changed(self) -> bool:
        """Return whether a container or a tensor differs from its copy."""
        return any(_differs(container, kept) for container, kept in self._containers) or any(
            kept.content is not None and not is_same(kept.tensor, kept.content)
            for kept in self._tensors
        )

    def restore(self) -> None:
        """Restore everything that changed."""
        for container, kept in self._containers:
            with suppress(Exception):  # a class of the program's that refuses
                if not _differs(container, kept):
                    continue
                is_dict = isinstance(container, dict)
                if not is_dict or list(container) != list(kept):
                    container.clear()
                for key, value in kept.items() if is_dict else ():
                    if key not in container or container[key] is not value:
                        container[key] = value
                if not is_dict:
                    container.update(kept) if isinstance(container, set) else container.extend(kept)
        for restore in self._others:
            restore()
        with torch.no_grad():
            self._refusals = sum(not kept.restore() for kept in self._tensors)


@contextmanager
def set_for(setter: Callable[[Any], object], before: Any, value: Any) -> Iterator[None]:
    """Have a setting of torch's another value for a while."""
    setter(value)
    try:
        yield
    finally:
        setter(before)


def restorer(call: object, make: Callable[[], object]) -> Callable[[], None] | None:
    """Find what puts back what a call changes in its arguments; None if it changes nothing.
    ``make`` makes it, once.
    """
    state = State(None, call)
    make()
    is_changed = state.is_changed()
    state.restore()
    return state.restore if is_changed else None


class _KeptTensor:
    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.content: Tensor | None = None
        """None for a parameter that isn't kept."""
        # Running statistics change without a new version (``torch.nn.functional.batch_norm``,
        # 2.13).
        is_versioned = isinstance(tensor, Parameter) and not tensor.is_inference()
        self.version = tensor._version if is_versioned else None
        self.requires_grad = tensor.requires_grad
        self.grad = tensor.grad if tensor.is_leaf else None

    def restore(self) -> bool:
        """Write what changed; False if it can't be restored."""
        tensor = self.tensor
        if self.content is None:
            return tensor._version == self.version
        try:
            # An unchanged tensor keeps its version, which a backward pass may check; what is
            # written to its `data` has none.
            if not is_same(tensor, self.content):
                tensor.copy_(self.content)
            if tensor.is_leaf and tensor.requires_grad != self.requires_grad:
                tensor.requires_grad_(self.requires_grad)
            if tensor.is_leaf and tensor.grad is not self.grad:
                tensor.grad = self.grad
        except RuntimeError:  # made in inference mode, with another shape now: nothing can write it
            return False
        return True


def is_same(tensor: Tensor, other: Tensor) -> bool:
    """Return whether two tensors have the same values; NaN is NaN."""
    try:
        if tensor.shape != other.shape or torch.equal(tensor, other):
            return tensor.shape == other.shape
        return bool(((tensor == other) | (tensor.isnan() & other.isnan())).all())
    except RuntimeError:  # a kind of tensor that can't be compared
        return False


def _differs(container: Any, kept: Any) -> bool:
    if isinstance(container, dict):
        is_other = list(container) != list(kept)
        return is_other or any(container[key] is not value for key, value in kept.items())
    pairs = zip(container, kept, strict=True)
    return len(container) != len(kept) or any(now is not then for now, then in pairs)


def names_in(code: CodeType) -> list[str]:
    """List the names of globals and attributes in a function's code, and in functions inside."""
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return [*code.co_names, *(name for within in inner for name in names_in(within))]
