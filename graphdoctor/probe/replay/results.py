"""The results of a replay: outputs, gradients, state, and what it wrote.

Everything is kept under a name that a person understands (``call 2, output['logits']``, ``gradient
of x in call 1``, ``bn.running_mean after the calls``), tensors as copies on the CPU, other objects
as text.

The forms of a call's outputs are what callers rely on besides values: dtype, device and
``requires_grad`` of tensors, what they share memory with, and which outputs are arguments; and
their strides.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from ...facts.base import Fields
from ...facts.trials import ResultKind
from ..record.describe import dtype_text, value_text
from ..target.snapshot import RandomState, attribute_names, is_same
from ..torch_private.torch_api import tree_leaves_with_path, tree_structure

_MAX_BYTES = 2**29
"""Most bytes kept for comparison; later calls aren't compared."""

_MAX_FUNCTIONS = 200
_MAX_COPIED = 2**26

_MAX_TEXT = 2**20
_MAX_SAMPLE = 2**15

_MAX_LEAVES = 1000

_NUMBERS = (bool, int, float, complex, str, type(None))
_OF_EVERY_MODULE = frozenset({*vars(Module()), "_is_torch_compile"})
"""Attributes that torch gives a module; what counts in them is among its parameters and buffers.
The last one marks what was compiled (``torch/_dynamo/eval_frame.py``, 2.13)."""

_CONTAINERS = (list, tuple, dict)

AFTER_CALLS = " after the calls"
GRADIENT_OF = "gradient of "
DRAWN = "random numbers drawn in"
STRUCTURE = ", structure"
TEXTS: tuple[ResultKind, ...] = ("stdout", "logs", "warnings", "files", "stderr")
COMPUTED: tuple[ResultKind, ...] = ("outputs", "gradients", "state")
KINDS: tuple[ResultKind, ...] = (*COMPUTED, "forms", "strides", "exceptions", *TEXTS)
_GRADIENT_SEED = 20_250

Modules = dict[str, Module]
"""Modules by the target's names for them."""

Tensors = dict[str, Tensor]


@dataclass
class Results:
    """The results of one replay."""

    values: dict[str, Fields] = field(default_factory=lambda: {kind: {} for kind in KINDS})
    calls: dict[str, int] = field(default_factory=dict)
    """The calls that values are of, by the values' names."""
    byte_count: int = 0
    call_count: int = 0
    omitted_from: int | None = None
    draws_random: bool = False
    raised: str | None = None
    is_refused: bool = False
    """Whether torch or Python raised it, rather than the program on purpose."""
    is_sampled: bool = False
    """Whether a large tensor is kept as some of its elements and their norm."""

    def add_call(self, output: object) -> None:
        """Keep what a call returned, containers taken apart."""
        self.call_count += 1
        call = f"call {self.call_count}"
        self._keep_of_call("outputs", dict(named_leaves(output, f"{call}, output")))
        self._keep_of_call("outputs", {f"{call}{STRUCTURE}": tree_structure(output)})

    def add_forms(self, forms: Fields, strides: Fields) -> None:
        """Keep what the last call's outputs are besides their values; nothing was raised."""
        call = f"call {self.call_count}"
        self._keep_of_call("forms", {f"{call}, {name}": value for name, value in forms.items()})
        self._keep_of_call("strides", {f"{call}, {name}": value for name, value in strides.items()})
        self._keep_of_call("exceptions", {call: ""})

    def add_exception(self, text: str) -> None:
        """Keep what a call raised in place of its results; no call comes after it."""
        self.call_count += 1
        self._keep_of_call("exceptions", {f"call {self.call_count}": text})

    def add_draws(self, random: RandomState) -> None:
        """Keep where the last call, whose results come later, left the random numbers."""
        self._keep("state", {f"{DRAWN} call {self.call_count + 1}": random.digest()})

    def add_gradients(self, gradients: dict[str, Tensor | None]) -> None:
        """Keep the gradients of the last call, by parameter or argument."""
        prefix = f"call {self.call_count}, {GRADIENT_OF}"
        named = {prefix + name: value for name, value in gradients.items()}
        self._keep_of_call("gradients", named)

    def add_arguments(self, before: Tensors, after: Tensors) -> None:
        """Keep the arguments that the last call mutated."""
        prefix = f"call {self.call_count}, argument "
        for name, copy in before.items():
            now = after[name].detach()
            if not is_same(now, copy):
                self._keep_of_call("state", {f"{prefix}{name} after it": now})

    def add_plain(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        """Keep what calls changed of the values that a target has outside of modules."""
        changed = {
            name: value
            for name, value in after.items()
            if name not in before or not _is_equal(value, before[name])
        }
        self._keep("state", changed)

    def add_state(self, modules: Modules) -> None:
        """Keep parameters, buffers, gradients and plain attributes of modules after the calls."""
        self._keep(
            "state", {f"{name}{AFTER_CALLS}": it for name, it in tensors_of(modules).items()}
        )
        for prefix, module in modules.items():
            self._keep("state", dict(_attributes(module, f"{prefix}." if prefix else "")))
        gradients = {
            f"{GRADIENT_OF}{name}{AFTER_CALLS}": value.grad
            for name, value in parameters_of(modules).items()
            if value.grad is not None
        }
        self._keep("gradients", gradients)

    def add_written(self, texts: Mapping[str, str]) -> None:
        """Keep what the program wrote in the calls, by kind."""
        for kind, text in texts.items():
            self.values[kind]["text"] = text[:_MAX_TEXT]

    def _keep_of_call(self, kind: str, values: Fields) -> None:
        self._keep(kind, values)
        self.calls |= dict.fromkeys(values, self.call_count)

    def _keep(self, kind: str, values: Fields) -> None:
        tensors = [value for value in values.values() if isinstance(value, Tensor)]
        size = sum(value.numel() * value.element_size() for value in tensors)
        if self.byte_count + size > _MAX_BYTES:
            self.omitted_from = self.omitted_from or self.call_count
            return
        self.byte_count += size
        for name, value in values.items():
            if self.is_sampled and isinstance(value, Tensor) and value.numel() > _MAX_SAMPLE:
                flat = value.detach().flatten()
                self.values[kind][name] = _kept(flat[:: 1 + flat.numel() // _MAX_SAMPLE])
                self.values[kind][f"{name}, norm"] = _kept(flat.float().norm())
            else:
                self.values[kind][name] = _kept(value)

    def without(self, kind: ResultKind, beginnings: tuple[str, ...]) -> Results:
        """Leave out values of a kind by what their names begin with."""
        values = self.values[kind]
        left = {name: value for name, value in values.items() if not name.startswith(beginnings)}
        return replace(self, values={**self.values, kind: left})

    def before(self, call: int) -> Results:
        """Leave out what is of a call and of those after it, and what all calls left."""
        values = {
            kind: {n: value for n, value in named.items() if self.calls.get(n, call) < call}
            for kind, named in self.values.items()
        }
        return replace(self, values={**values, "exceptions": self.values["exceptions"]})

    def save(self, path: Path) -> None:
        """Write them to disk."""
        torch.save(vars(self), path)

    @classmethod
    def load(cls, path: Path) -> Results:
        """Read them back."""
        return cls(**torch.load(path, weights_only=True))


def _kept(leaf: object) -> Any:
    if isinstance(leaf, Tensor):
        return leaf.detach().clone().cpu()
    return leaf if type(leaf) in _NUMBERS else value_text(leaf)


def named_leaves(value: object, name: str, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield what is in containers, dataclasses and objects, with the path to it."""
    for path, leaf in tree_leaves_with_path(value):
        yield f"{name}{path}", leaf
        if isinstance(leaf, (Tensor, *_NUMBERS, type)) or depth > 2:
            continue
        members = getattr(leaf, "__dict__", {})
        if is_dataclass(leaf):
            members = {part.name: getattr(leaf, part.name, None) for part in fields(leaf)}
        for key, member in members.items() if isinstance(members, dict) else ():
            if isinstance(member, (Tensor, *_CONTAINERS)):
                yield from named_leaves(member, f"{name}{path}.{key}", depth + 1)


def _attributes(module: Module, prefix: str) -> Iterator[tuple[str, Any]]:
    for path, part in module.named_modules():
        for name, value in vars(part).items():
            if name in _OF_EVERY_MODULE:
                continue
            yield from _plain_state(value, f"{prefix}{path}{'.' if path else ''}{name}")


def _is_equal(value: object, before: object) -> bool:
    if isinstance(value, Tensor) and isinstance(before, Tensor):
        return is_same(value, before)
    return type(value) is type(before) and value == before


def _plain_state(value: object, place: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, _CONTAINERS):
        yield f"{place}{AFTER_CALLS}", f"{type(value).__name__} of {len(value)}"
    elif not isinstance(value, (Tensor, *_NUMBERS[:-1])):
        return
    for leaf_path, leaf in islice(tree_leaves_with_path(value), _MAX_LEAVES):
        if isinstance(leaf, (Tensor, *_NUMBERS)):
            yield f"{place}{leaf_path}{AFTER_CALLS}", leaf


def modules_of(function: Any) -> Modules:
    """Find the modules that a target uses, by its names for them."""
    if isinstance(function, Module):
        return {"": function}
    modules = {}
    owner = getattr(function, "__self__", None)
    if isinstance(owner, Module):
        modules["self"] = owner
    for name, value in _used_by(function):
        if isinstance(value, Module) and all(value is not old for old in modules.values()):
            modules.setdefault(name, value)
    return modules


def plain_of(function: Any) -> Fields:
    """Copy the numbers, tensors and containers that a target uses outside of modules, by its names
    for them.
    """
    called = getattr(function, "forward", function) if isinstance(function, Module) else function
    return {
        place: _kept(leaf)
        for name, value in _used_by(called)
        if isinstance(value, (Tensor, int, float, *_CONTAINERS)) and not name.startswith("__")
        for place, leaf in _plain_state(value, name)
    }


def _used_by(function: Any) -> Iterator[tuple[str, Any]]:
    """Yield attributes of the object whose method a function is, if that is no module, and what it
    and the functions that it uses find around them.
    """
    owner = getattr(function, "__self__", None)
    if owner is not None and not isinstance(owner, Module):
        yield from [*getattr(owner, "__dict__", {}).items()]
    waiting = [function]
    seen = set[int]()
    while waiting:
        plain = inspect.unwrap(waiting.pop(0))
        plain = getattr(plain, "__func__", plain)
        if not inspect.isfunction(plain) or id(plain) in seen or len(seen) > _MAX_FUNCTIONS:
            continue
        seen.add(id(plain))
        names = inspect.getclosurevars(plain)
        around = {**names.globals, **names.nonlocals}
        yield from around.items()
        values = around.values()
        waiting += [value for value in values if callable(value) and not isinstance(value, type)]


def parameters_of(modules: Modules) -> Tensors:
    """List the parameters of several modules, each under the module's name."""
    return _named(modules, Module.named_parameters)


def tensors_of(modules: Modules) -> Tensors:
    """List the parameters and buffers of several modules, each under the module's name."""
    return parameters_of(modules) | _named(modules, Module.named_buffers)


def _named(modules: Modules, named: Callable[[Module], Iterator[tuple[str, Tensor]]]) -> Tensors:
    return {
        f"{prefix}.{name}".lstrip("."): tensor
        for prefix, module in modules.items()
        for name, tensor in named(module)
    }


def tensors_in(arguments: Fields) -> Tensors:
    """List the tensors among a call's arguments, by the argument's name and their path in it."""
    return {
        path: leaf
        for name, value in arguments.items()
        for path, leaf in named_leaves(value, name)
        if isinstance(leaf, Tensor)
    }


def copies_of(tensors: Tensors) -> Tensors:
    """Copy tensors, to show later whether a call mutated them; those that are too large are left
    out.
    """
    copies = {}
    size = 0
    for name, tensor in tensors.items():
        size += tensor.numel() * tensor.element_size()
        if size > _MAX_COPIED:
            break
        copies[name] = tensor.detach().clone()
    return copies


def gradients_of(output: object, modules: Modules, arguments: Tensors) -> dict[str, Tensor | None]:
    """Compute gradients of all outputs that have one, by parameter and argument; ``.grad`` is left
    alone.

    Each output is weighted with fixed random numbers: the gradient of a plain sum hides differences
    (that of a softmax is zero).

    Raises:
        RuntimeError: torch can't run backward, such as through a graph that the program freed.
    """
    outputs = [
        leaf
        for _, leaf in named_leaves(output, "")
        if isinstance(leaf, Tensor)
        and leaf.requires_grad
        and (leaf.is_floating_point() or leaf.is_complex())
    ]
    tensors = arguments | parameters_of(modules)
    learnt = {name: tensor for name, tensor in tensors.items() if tensor.requires_grad}
    if not outputs or not learnt:
        return {}
    generator = torch.Generator().manual_seed(_GRADIENT_SEED)
    # In a dtype whose values are the same in every other, so that a float64 run has the same
    # weights; on the generator's device, whatever torch's default is.
    form: Fields = {"generator": generator, "dtype": torch.float32, "device": "cpu"}
    drawn = [torch.randn(leaf.shape, **form) for leaf in outputs]
    weights = [weight.bfloat16().to(leaf) for weight, leaf in zip(drawn, outputs, strict=True)]
    gradients = torch.autograd.grad(outputs, list(learnt.values()), weights, allow_unused=True)
    return dict(zip(learnt, gradients, strict=True))


# Forms.

_MAX_NESTED = 3
_CHANGEABLE = (list, dict, set, deque)


def forms_in(output: object, arguments: Fields, tensors: Tensors) -> Fields:
    """Describe what a call returned.

    Args:
        output: What it returned.
        arguments: By name.
        tensors: Those that an output may share memory with: the arguments', parameters and buffers.
    """
    forms: Fields = {}
    same = {id(tensor): name for name, tensor in reversed(tensors.items())}
    shared = {storage: name for name, storage in _storages(reversed(tensors.items()))}
    for name, leaf in named_leaves(output, "output"):
        if not isinstance(leaf, Tensor):
            continue
        forms[f"dtype of {name}"] = dtype_text(leaf.dtype)
        forms[f"device of {name}"] = str(leaf.device)
        forms[f"requires_grad of {name}"] = leaf.requires_grad
        text = "memory of its own"
        if id(leaf) in same:
            text = f"{same[id(leaf)]} itself"
        for _, storage in _storages([(name, leaf)]):
            if storage in shared and text.startswith("memory"):
                text = f"memory of {shared[storage]}"
            shared.setdefault(storage, name)
        same.setdefault(id(leaf), name)
        forms[f"memory of {name}"] = text
    objects = {
        id(value): name
        for argument, whole in reversed(arguments.items())
        for name, value in _objects(whole, argument)
    }
    for name, value in _objects(output, "output"):
        is_passed = id(value) in objects
        forms[f"identity of {name}"] = f"{objects[id(value)]} itself" if is_passed else "a new one"
    return forms


def strides_in(output: object) -> Fields:
    """Describe how what a call returned lies in memory."""
    return {
        f"strides of {name}": _strides_text(leaf)
        for name, leaf in named_leaves(output, "output")
        if isinstance(leaf, Tensor) and leaf.layout is torch.strided and leaf.numel()
    }


def _strides_text(tensor: Tensor) -> str:
    """Write strides, without those of dims of size 1, which have no effect."""
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return f"({', '.join(str(stride) if size > 1 else '-' for size, stride in pairs)})"


def _storages(tensors: Iterable[tuple[str, Tensor]]) -> Iterator[tuple[str, int]]:
    for name, tensor in tensors:
        with suppress(RuntimeError, NotImplementedError):  # a kind of tensor without one
            if address := tensor.untyped_storage().data_ptr():
                yield name, address


def _objects(value: object, name: str, depth: int = 0) -> Iterator[tuple[str, object]]:
    """Yield what can be changed in place, other than tensors."""
    names = attribute_names(value)
    if isinstance(value, _CHANGEABLE) or names:
        yield name, value
    if depth == _MAX_NESTED:
        return
    inside: list[tuple[str, Any]] = [(f".{key}", getattr(value, key, None)) for key in names]
    if isinstance(value, dict):
        inside = [(f"[{key!r}]", item) for key, item in value.items()]
    elif isinstance(value, list | tuple):
        inside = [(f"[{index}]", item) for index, item in enumerate(value)]
    for path, item in inside:
        yield from _objects(item, name + path, depth + 1)
