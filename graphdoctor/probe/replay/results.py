"""The results of a replay: outputs, gradients, state, and what it wrote; ``comparing.py`` says how
they differ.

Everything is kept under a name that a person understands (``call 2, output['logits']``, ``gradient
of x in call 1``, ``bn.running_mean after the calls``), tensors as copies on the CPU, other objects
as text.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

import torch

from ...facts.trials import ResultKind
from ..record.describe import value_text
from ..target.snapshot import is_same
from ..torch_private import torch_api

_MAX_BYTES = 2**29
"""Most bytes kept for comparison; later calls aren't compared."""

_MAX_FUNCTIONS = 200
_MAX_COPIED = 2**26

_MAX_TEXT = 2**20
_MAX_SAMPLE = 2**15

_MAX_LEAVES = 1000

_NUMBERS = (bool, int, float, complex, str, type(None))
_OF_EVERY_MODULE = frozenset({*vars(torch.nn.Module()), "_is_torch_compile"})
"""Attributes that torch gives a module; what counts in them is among its parameters and buffers.
The last one marks what was compiled (``torch/_dynamo/eval_frame.py``, 2.13)."""

_CONTENT = (torch.Tensor, bool, int, float, complex, str, list, tuple, dict)

AFTER_CALLS = " after the calls"
STRUCTURE = ", structure"
TEXTS: tuple[ResultKind, ...] = ("stdout", "logs", "stderr")
COMPUTED: tuple[ResultKind, ...] = ("outputs", "gradients", "state")
KINDS: tuple[ResultKind, ...] = (*COMPUTED, *TEXTS)
_GRADIENT_SEED = 20_250


@dataclass
class Results:
    """The results of one replay."""

    values: dict[str, dict[str, Any]] = field(default_factory=lambda: {kind: {} for kind in KINDS})
    byte_count: int = 0
    call_count: int = 0
    omitted_from: int | None = None
    draws_random: bool = False
    raised: str | None = None
    """What a call raised."""
    is_refused: bool = False
    """Whether torch or Python raised it, rather than the program on purpose."""
    is_sampled: bool = False
    """Whether a large tensor is kept as some of its elements and their norm."""

    def add_call(self, output: object) -> None:
        """Keep what a call returned, containers taken apart."""
        self.call_count += 1
        call = f"call {self.call_count}"
        self._keep("outputs", dict(_named_leaves(output, f"{call}, output")))
        self._keep("outputs", {f"{call}{STRUCTURE}": torch_api.tree_structure(output)})

    def add_gradients(self, gradients: dict[str, torch.Tensor | None]) -> None:
        """Keep the gradients of the last call, by parameter or argument."""
        prefix = f"call {self.call_count}, gradient of "
        self._keep("gradients", {prefix + name: value for name, value in gradients.items()})

    def add_arguments(self, before: dict[str, Any], after: dict[str, Any]) -> None:
        """Keep the arguments that the last call mutated."""
        prefix = f"call {self.call_count}, argument "
        for name, copy in before.items():
            now = after[name].detach()
            if not is_same(now, copy):
                self._keep("state", {f"{prefix}{name} after it": now})

    def add_state(self, modules: dict[str, torch.nn.Module]) -> None:
        """Keep parameters, buffers, gradients and plain attributes of modules after the calls."""
        for prefix, module in modules.items():
            self._keep("state", dict(_state(module, f"{prefix}." if prefix else "")))
        left = {
            name: value.grad
            for name, value in parameters_of(modules).items()
            if value.grad is not None
        }
        self._keep(
            "gradients", {f"gradient of {name}{AFTER_CALLS}": value for name, value in left.items()}
        )

    def add_written(self, texts: Mapping[str, str]) -> None:
        """Keep what the program wrote in the calls, by kind."""
        for kind, text in texts.items():
            self.values[kind]["text"] = text[:_MAX_TEXT]

    def _keep(self, kind: str, values: dict[str, Any]) -> None:
        size = sum(
            value.numel() * value.element_size()
            for value in values.values()
            if isinstance(value, torch.Tensor)
        )
        if self.byte_count + size > _MAX_BYTES:
            self.omitted_from = self.omitted_from or self.call_count
            return
        self.byte_count += size
        for name, value in values.items():
            if self.is_sampled and isinstance(value, torch.Tensor) and value.numel() > _MAX_SAMPLE:
                flat = value.detach().flatten()
                self.values[kind][name] = _kept(flat[:: 1 + flat.numel() // _MAX_SAMPLE])
                self.values[kind][f"{name}, norm"] = _kept(flat.float().norm())
            else:
                self.values[kind][name] = _kept(value)

    def save(self, path: Path) -> None:
        """Write them to disk."""
        torch.save(vars(self), path)

    @classmethod
    def load(cls, path: Path) -> Results:
        """Read them back."""
        return cls(**torch.load(path, weights_only=True))


def _kept(leaf: object) -> Any:
    if isinstance(leaf, torch.Tensor):
        return leaf.detach().clone().cpu()
    return leaf if type(leaf) in _NUMBERS else value_text(leaf)


def _named_leaves(value: object, name: str, depth: int = 0) -> Iterator[tuple[str, Any]]:
    for path, leaf in torch_api.tree_leaves_with_path(value):
        yield f"{name}{path}", leaf
        if isinstance(leaf, (torch.Tensor, *_NUMBERS, type)) or depth > 2:
            continue
        members = getattr(leaf, "__dict__", {})
        if is_dataclass(leaf):
            members = {part.name: getattr(leaf, part.name, None) for part in fields(leaf)}
        for key, member in members.items() if isinstance(members, dict) else ():
            if isinstance(member, (torch.Tensor, list, tuple, dict)):
                yield from _named_leaves(member, f"{name}{path}.{key}", depth + 1)


def _state(module: torch.nn.Module, prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in (*module.named_parameters(), *module.named_buffers()):
        yield f"{prefix}{name}{AFTER_CALLS}", value
    for path, part in module.named_modules():
        for name, value in vars(part).items():
            if name not in _OF_EVERY_MODULE and isinstance(value, _CONTENT):
                yield from _attribute(f"{prefix}{path}{'.' if path else ''}{name}", value)


def _attribute(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, (list, tuple, dict)):
        yield f"{name}{AFTER_CALLS}", f"{type(value).__name__} of {len(value)}"
    for path, leaf in itertools.islice(torch_api.tree_leaves_with_path(value), _MAX_LEAVES):
        if isinstance(leaf, (torch.Tensor, *_NUMBERS)):
            yield f"{name}{path}{AFTER_CALLS}", leaf


def modules_of(function: Any) -> dict[str, torch.nn.Module]:
    """The modules that a target uses, by its names for them."""
    if isinstance(function, torch.nn.Module):
        return {"": function}
    found: dict[str, torch.nn.Module] = {}
    owner = getattr(function, "__self__", None)
    if isinstance(owner, torch.nn.Module):
        found["self"] = owner
    elif owner is not None:
        _add_modules(found, getattr(owner, "__dict__", {}))
    waiting, known = [function], set[int]()
    while waiting:
        plain = inspect.unwrap(waiting.pop(0))
        plain = getattr(plain, "__func__", plain)
        if not inspect.isfunction(plain) or id(plain) in known or len(known) > _MAX_FUNCTIONS:
            continue
        known.add(id(plain))
        names = inspect.getclosurevars(plain)
        around = {**names.globals, **names.nonlocals}
        _add_modules(found, around)
        waiting += [
            value for value in around.values() if callable(value) and not isinstance(value, type)
        ]
    return found


def _add_modules(found: dict[str, torch.nn.Module], names: Mapping[str, Any]) -> None:
    for name, value in names.items():
        if isinstance(value, torch.nn.Module) and not any(
            value is other for other in found.values()
        ):
            found.setdefault(name, value)


def parameters_of(modules: dict[str, torch.nn.Module]) -> dict[str, torch.Tensor]:
    """The parameters of several modules, each under the module's name."""
    return {
        f"{prefix}.{name}".lstrip("."): value
        for prefix, module in modules.items()
        for name, value in module.named_parameters()
    }


def tensors_in(arguments: dict[str, Any]) -> dict[str, torch.Tensor]:
    """The tensors among a call's arguments, by the argument's name and their path in it."""
    return {
        path: leaf
        for name, value in arguments.items()
        for path, leaf in _named_leaves(value, name)
        if isinstance(leaf, torch.Tensor)
    }


def copies_of(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Copies that later show whether a call mutated them; those that are too large are left out."""
    found: dict[str, torch.Tensor] = {}
    size = 0
    for name, tensor in tensors.items():
        size += tensor.numel() * tensor.element_size()
        if size > _MAX_COPIED:
            break
        found[name] = tensor.detach().clone()
    return found


def gradients_of(
    output: object, modules: dict[str, torch.nn.Module], arguments: dict[str, torch.Tensor]
) -> dict[str, torch.Tensor | None]:
    """Gradients of all outputs that have one, by parameter and argument; ``.grad`` is left alone.

    Each output is weighted with fixed random numbers: the gradient of a plain sum hides differences
    (that of a softmax is zero). ``RuntimeError`` if torch can't run backward, such as through a
    graph that the program freed.
    """
    outputs = [
        leaf
        for _, leaf in _named_leaves(output, "")
        if isinstance(leaf, torch.Tensor)
        and leaf.requires_grad
        and (leaf.is_floating_point() or leaf.is_complex())
    ]
    wanted = {
        name: tensor
        for name, tensor in (arguments | parameters_of(modules)).items()
        if tensor.requires_grad
    }
    if not outputs or not wanted:
        return {}
    generator = torch.Generator().manual_seed(_GRADIENT_SEED)
    # In a dtype whose values are the same in every other, so that a float64 run has the same
    # weights.
    drawn = [torch.randn(leaf.shape, generator=generator, dtype=torch.float32) for leaf in outputs]
    weights = [weight.bfloat16().to(leaf) for weight, leaf in zip(drawn, outputs, strict=True)]
    found = torch.autograd.grad(outputs, list(wanted.values()), weights, allow_unused=True)
    return dict(zip(wanted, found, strict=True))
