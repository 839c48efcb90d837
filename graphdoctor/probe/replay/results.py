"""The results of a replay, and how they differ from another's: outputs, gradients, state, printed text.

Everything is kept under a name that a person understands (``call 2, output['logits']``, ``gradient of x in call 1``,
``bn.running_mean after the calls``), tensors as copies on the CPU, other objects as text.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

import torch

from ..record.describe import value_text
from ..torch_private import torch_api
from ..wire import ComparisonRecord, DifferenceRecord

_MAX_BYTES = 2**29
"""Most bytes kept for comparison; later calls aren't compared."""

_MAX_FUNCTIONS = 200
_MAX_COPIED = 2**26
"""Bytes of arguments that are copied before a call."""

_MAX_TEXT = 2**20
"""Characters of printed text that are compared."""

_NUMBERS = (bool, int, float, complex, str, type(None))
KINDS = ("outputs", "gradients", "state", "stdout")
_GRADIENT_SEED = 20_250


@dataclass
class Results:
    """The results of one replay.

    Args:
        values: By kind, then by name.
        byte_count: Bytes of the tensors among them.
        call_count: Calls that came back.
        omitted_from: The first call that was too large to keep, or None.
    """

    values: dict[str, dict[str, Any]] = field(default_factory=lambda: {kind: {} for kind in KINDS})
    byte_count: int = 0
    call_count: int = 0
    omitted_from: int | None = None

    def add_call(self, output: object) -> None:
        """Keep what a call returned, containers taken apart."""
        self.call_count += 1
        prefix = f"call {self.call_count}, "
        self._keep("outputs", dict(_named_leaves(output, f"{prefix}output")))
        self._keep("outputs", {f"{prefix}structure": torch_api.tree_structure(output)})

    def add_gradients(self, gradients: dict[str, torch.Tensor | None]) -> None:
        """Keep the gradients of the last call, by parameter or argument."""
        prefix = f"call {self.call_count}, gradient of "
        self._keep("gradients", {prefix + name: value for name, value in gradients.items()})

    def add_arguments(self, before: dict[str, Any], after: dict[str, Any]) -> None:
        """Keep the arguments that the last call mutated.

        Args:
            before: Copies of their tensors, by name.
            after: The tensors.
        """
        prefix = f"call {self.call_count}, argument "
        for name, copy in before.items():
            now = after[name].detach()
            if copy.shape != now.shape or not torch.equal(copy.nan_to_num(), now.nan_to_num()):
                self._keep("state", {f"{prefix}{name} after it": now})

    def add_state(self, modules: dict[str, torch.nn.Module]) -> None:
        """Keep parameters, buffers and numbers of modules after the calls."""
        for name, module in modules.items():
            self._keep("state", dict(_state(module, f"{name}." if name else "")))

    def add_stdout(self, text: str) -> None:
        """Keep what the program printed in the calls."""
        self.values["stdout"]["text"] = text[:_MAX_TEXT]

    def _keep(self, kind: str, values: dict[str, Any]) -> None:
        size = sum(value.numel() * value.element_size() for value in values.values() if isinstance(value, torch.Tensor))
        if self.byte_count + size > _MAX_BYTES:
            self.omitted_from = self.omitted_from or self.call_count
            return
        self.byte_count += size
        self.values[kind] |= {name: _kept(value) for name, value in values.items()}

    def save(self, path: Path) -> None:
        """Write them to disk."""
        torch.save({"values": self.values, "call_count": self.call_count, "omitted_from": self.omitted_from}, path)

    @classmethod
    def load(cls, path: Path) -> Results:
        """Read them back."""
        kept = torch.load(path, weights_only=True)
        return cls(kept["values"], 0, kept["call_count"], kept["omitted_from"])

    def compared(self, reference: Results) -> ComparisonRecord:
        """How they differ from those of a reference.

        Returns:
            The kinds with something to compare, and the worst difference of each kind that differs.
        """
        notes = []
        first_omitted = min((n for n in (self.omitted_from, reference.omitted_from) if n is not None), default=None)
        if first_omitted is not None:
            notes.append(f"from call {first_omitted} on, values are too large to compare")
        found = []
        for kind in KINDS:
            mine, other = self.values[kind], reference.values[kind]
            if first_omitted is not None:
                both = mine.keys() & other.keys()
                mine, other = ({k: v for k, v in values.items() if k in both} for values in (mine, other))
            difference = _worst(kind, mine, other)
            if difference is not None:
                found.append(difference)
        return ComparisonRecord(
            kinds=[kind for kind in KINDS if reference.values[kind] or self.values[kind]],
            differences=found,
            note="; ".join(notes) or None,
        )


def _worst(kind: str, mine: dict[str, Any], other: dict[str, Any]) -> DifferenceRecord | None:
    """The worst difference of a kind; None when all values are equal."""
    worst: DifferenceRecord | None = None
    for name in (*other, *(name for name in mine if name not in other)):
        if name not in mine or name not in other:
            detail = "is missing" if name not in mine else "is new"
            found = DifferenceRecord(kind=kind, where=name, largest=None, detail=detail)
        elif kind == "stdout":
            if mine[name] == other[name]:
                continue
            detail = _text_difference(mine[name], other[name])
            return DifferenceRecord(kind=kind, where="printed text", largest=None, detail=detail)
        elif _is_close(mine[name], other[name]):
            continue
        else:
            largest, difference = _difference(mine[name], other[name])
            found = DifferenceRecord(kind=kind, where=name, largest=largest, detail=difference)
        # What has no number (another shape or type) is worse than any number.
        if worst is None or (
            worst["largest"] is not None and (found["largest"] is None or found["largest"] > worst["largest"])
        ):
            worst = found
    return worst


def _text_difference(mine: str, other: str) -> str:
    lines, wanted = mine.splitlines(), other.splitlines()
    if len(lines) < len(wanted):
        missing = next((line for line in wanted if line not in lines), wanted[-1])
        return f"{len(lines)} of {len(wanted)} lines; the first missing one: {missing[:80]!r}"
    changed = next((pair for pair in zip(lines, wanted, strict=False) if pair[0] != pair[1]), (lines[-1], ""))
    return f"{changed[0][:80]!r} instead of {changed[1][:80]!r}"


def _difference(value: object, wanted: object) -> tuple[float | None, str | None]:
    """The largest absolute difference, or a detail where there is no number."""
    if not isinstance(value, torch.Tensor) or not isinstance(wanted, torch.Tensor):
        return None, f"{_short(value)} instead of {_short(wanted)}"
    if value.shape != wanted.shape or value.dtype != wanted.dtype or value.layout != wanted.layout:
        return None, f"{value_text(value)} instead of {value_text(wanted)}"
    if value.numel() == 0 or value.is_quantized or value.layout is not torch.strided:
        return None, None
    apart = (value.to(torch.complex128) - wanted.to(torch.complex128)).abs()
    largest = float(apart.nan_to_num(nan=float("inf")).max())
    return (None, "NaN or infinity") if largest == float("inf") else (largest, None)


def _short(value: object) -> str:
    return value if isinstance(value, str) and len(value) <= 80 else value_text(value)


def _is_close(value: object, wanted: object) -> bool:
    if not isinstance(value, torch.Tensor) or not isinstance(wanted, torch.Tensor):
        return type(value) is type(wanted) and value == wanted
    try:
        torch.testing.assert_close(value, wanted, equal_nan=True)
    except AssertionError:
        return False
    return True


def _kept(leaf: object) -> Any:  # noqa: ANN401
    if isinstance(leaf, torch.Tensor):
        return leaf.detach().clone().cpu()
    return leaf if type(leaf) in _NUMBERS else value_text(leaf)


def _named_leaves(value: object, name: str, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """The leaves of nested containers with their paths; objects that torch doesn't take apart, by their tensors."""
    for path, leaf in torch_api.tree_leaves_with_path(value):
        yield f"{name}{path}", leaf
        if isinstance(leaf, (torch.Tensor, *_NUMBERS, type)) or depth > 2:
            continue
        members = (
            {part.name: getattr(leaf, part.name, None) for part in fields(leaf)}
            if is_dataclass(leaf)
            else getattr(leaf, "__dict__", {})
        )
        for key, member in members.items() if isinstance(members, dict) else ():
            if isinstance(member, (torch.Tensor, list, tuple, dict)):
                yield from _named_leaves(member, f"{name}{path}.{key}", depth + 1)


def _state(module: torch.nn.Module, prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in (*module.named_parameters(), *module.named_buffers()):
        yield f"{prefix}{name} after the calls", value
    for path, part in module.named_modules():
        for name, value in vars(part).items():
            if type(value) in (bool, int, float) and not name.startswith("_"):
                yield f"{prefix}{path}{'.' if path else ''}{name} after the calls", value


def modules_of(function: Any) -> dict[str, torch.nn.Module]:  # noqa: ANN401
    """The modules that a target uses, by its names for them.

    Itself, its object's, those in its closure and among the globals that it names, and those of the functions that it
    finds there: which function of a file holds a module is nothing that a program computes.
    """
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
        waiting += [value for value in around.values() if callable(value) and not isinstance(value, type)]
    return found


def _add_modules(found: dict[str, torch.nn.Module], names: Mapping[str, Any]) -> None:
    for name, value in names.items():
        if isinstance(value, torch.nn.Module) and not any(value is other for other in found.values()):
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
    """Gradients of all outputs that have one, by parameter and argument; empty when nothing requires any.

    Each output is weighted with fixed random numbers: the gradient of a plain sum hides differences (that of a softmax
    is zero). ``.grad`` is left alone.

    Args:
        output: What a call gave back.
        modules: The target's modules, by name.
        arguments: The call's tensors, by name.

    Raises:
        RuntimeError: torch cannot run backward, such as through a graph that the program freed.
    """
    outputs = [
        leaf
        for _, leaf in _named_leaves(output, "")
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad and (leaf.is_floating_point() or leaf.is_complex())
    ]
    wanted = {name: tensor for name, tensor in (arguments | parameters_of(modules)).items() if tensor.requires_grad}
    if not outputs or not wanted:
        return {}
    generator = torch.Generator().manual_seed(_GRADIENT_SEED)
    weights = [torch.randn(leaf.shape, generator=generator, dtype=torch.float64).to(leaf) for leaf in outputs]
    found = torch.autograd.grad(outputs, list(wanted.values()), weights, allow_unused=True)
    return dict(zip(wanted, found, strict=True))
