"""Runs of one graph on the same inputs, with the same random numbers: eagerly, in float64, from
inputs with other last digits, and compiled; judged by ``comparing``.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.fx import GraphModule
from torch.fx.node import map_aggregate

from ...facts.trials import FORMS, Difference
from ..target.snapshot import FreshCopies, RandomState, dressed_as, set_for
from .comparing import Rounding, compared
from .results import Results, Tensors, forms_in, gradients_of, strides_in
from .shaking import Shaken

_MAX_SHAKEN = 6
"""As many runs with other last digits as the judge of whole programs makes."""

_SMALL_BYTES = 2**28
"""Inputs of so many bytes are copied for each run, so that a compiled graph can't change others
than it should."""

_TO_DOUBLE = frozenset({"float", "half", "bfloat16"})


@contextmanager
def modes_set(modes: tuple[Any, ...]) -> Iterator[None]:
    """Set what ``ambient_modes`` described, but for transforms of functions."""
    has_grad, is_inference, autocast, _ = modes
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode(is_inference))
        stack.enter_context(torch.set_grad_enabled(has_grad))
        for device, is_on, dtype in autocast:
            stack.enter_context(torch.autocast(device, dtype=dtype, enabled=is_on))
        yield


class Inputs(NamedTuple):
    """Inputs of a graph, by name, and under what they are used."""

    values: Mapping[str, Any]
    inner: frozenset[str]
    """Tensors that operations made which take part in autograd, so that they may be changed in
    place."""
    modes: tuple[Any, ...]
    random: RandomState

    @classmethod
    def now(cls, values: Mapping[str, Any], modes: tuple[Any, ...]) -> Inputs:
        """Take values as they are, and the random numbers that come next."""
        tensors = ((name, it) for name, it in values.items() if isinstance(it, Tensor))
        inner = frozenset(name for name, it in tensors if it.requires_grad and not it.is_leaf)
        return cls(values, inner, modes, RandomState())

    def kept(self) -> Inputs:
        """Copy them, for when the program goes on."""
        with torch.inference_mode(mode=False):
            copies = FreshCopies()
            return self._replace(values={name: copies.of(it) for name, it in self.values.items()})


class Judged(NamedTuple):
    """How a compiled graph's results compare with eager mode's."""

    differences: Sequence[Difference]
    mine: Results
    eager: Results
    precise: Results | None
    rounding: Rounding | None


class Runs:
    """Runs of a graph; ``changed``: names of the inputs that it changes, if they are known;
    ``are_forms``: the forms of its results are compared, not their values.
    """

    def __init__(
        self,
        module: GraphModule,
        inputs: Inputs,
        changed: frozenset[str] | None = None,
        *,
        are_forms: bool = False,
    ) -> None:
        self.module, self.inputs = module, inputs
        self.changed, self._are_forms = changed, are_forms
        tensors = [it for it in inputs.values.values() if isinstance(it, Tensor)]
        size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        self._is_small = size <= _SMALL_BYTES or inputs.modes[1]
        self._shaken: list[Results] = []

    def arguments(
        self, change: Callable[[list[Tensor]], None] | None = None
    ) -> tuple[list[Any], Tensors]:
        """Copy the inputs as far as something may change them; returns them, and leaves that
        gradients are of.
        """
        copies = FreshCopies()
        leaves: Tensors = {}
        arguments: list[Any] = []
        with torch.inference_mode(mode=False), torch.enable_grad():
            for name, value in self.inputs.values.items():
                if not isinstance(value, Tensor):
                    arguments.append(value)
                    continue
                is_copied = change or self._is_small or self.changed is None or name in self.changed
                leaf = leaves[name] = copies.of(value) if is_copied else dressed_as(value, value)
                if change is not None:
                    change([leaf])
                arguments.append(leaf.clone() if name in self.inputs.inner else leaf)
        return arguments, leaves

    def results(
        self,
        run: Callable[..., Any],
        change: Callable[[list[Tensor]], None] | None = None,
        within: AbstractContextManager[Any] | None = None,
    ) -> Results:
        """Run a form of the graph, and its backward pass if it has one."""
        results = Results()
        arguments, leaves = self.arguments(change)
        named = dict(zip(self.inputs.values, arguments, strict=True))
        with RandomState(), modes_set(self.inputs.modes), within or nullcontext():
            self.inputs.random.restore()
            versions = {} if self.changed is not None else _versions(named)
            returned = run(*arguments)
            results.draws_random = not self.inputs.random.is_current()
            output = list(returned) if isinstance(returned, tuple | list) else returned
            results.add_call(output)
            if self._are_forms:
                tensors = {name: it for name, it in named.items() if isinstance(it, Tensor)}
                results.add_forms(forms_in(output, named, tensors), strides_in(output))
            if self.changed is None:
                now = _versions(named)
                self.changed = frozenset(it for it in now if now[it] != versions[it])
            results.add_plain({}, {name: named[name].detach() for name in self.changed})
            results.add_gradients(gradients_of(returned, {}, leaves))
        return results

    @cached_property
    def eager(self) -> Results:
        """The results of eager mode; the first run, which finds out what the graph changes."""
        return self.results(self.module)

    @cached_property
    def precise(self) -> Results | None:
        """The results in float64; None if the graph doesn't run so."""
        before = torch.get_default_dtype()
        default = set_for(torch.set_default_dtype, before, torch.float64)
        try:
            # Autocast warns that it can't be for float64.
            with default, warnings.catch_warnings(action="ignore"):
                return self.results(_in_float64(self.module), _convert)
        except Exception:  # noqa: BLE001 - whatever an operation raises for this dtype
            return None

    def judged(self, compiled: Callable[..., Any]) -> Judged:
        """Compare a compiled form with eager mode.

        Raises:
            Exception: What the graph raises.
        """
        eager = self.eager
        mine = self.results(compiled)
        if self._are_forms:
            forms = [it for it in compared(mine, eager).differences if it.kind in FORMS]
            return Judged(forms, mine, eager, None, None)
        if compared(mine, eager).is_bitwise_equal:
            return Judged((), mine, eager, None, None)
        rounding = self._rounding()
        differences = compared(mine, eager, rounding).differences
        while differences and len(self._shaken) < _MAX_SHAKEN:
            shaken = Shaken(len(self._shaken))
            self._shaken.append(self.results(self.module, shaken.shake, shaken))
            rounding = self._rounding()
            differences = compared(mine, eager, rounding).differences
        return Judged(differences, mine, eager, self.precise, rounding)

    def _rounding(self) -> Rounding:
        return Rounding(
            self.precise, self.eager, self._shaken, judged="variant", is_shaken=self.is_shaken
        )

    @property
    def is_shaken(self) -> bool:
        """Return whether it took other last digits to judge."""
        return bool(self._shaken)

    def is_repeatable(self) -> bool:
        """Return whether eager mode gives the same once more."""
        rounding = Rounding(self.precise, self.eager, (), judged="variant")
        return not compared(self.results(self.module), self.eager, rounding).differences


def _versions(named: Mapping[str, Any]) -> dict[str, int]:
    tensors = ((name, it) for name, it in named.items() if isinstance(it, Tensor))
    return {name: it._version for name, it in tensors if not it.is_inference()}


def _convert(tensors: list[Tensor]) -> None:
    for tensor in tensors:
        if tensor.is_floating_point() or tensor.is_complex():
            is_complex = tensor.is_complex()
            tensor.data = tensor.data.to(torch.complex128 if is_complex else torch.float64)


def _in_float64(module: GraphModule) -> GraphModule:
    """Copy a graph, with float64 wherever it asks for a floating-point dtype by name."""

    def double(value: Any) -> Any:
        is_float = isinstance(value, torch.dtype) and value.is_floating_point
        return torch.float64 if is_float else value

    doubled = copy.deepcopy(module).double()
    for part in doubled.modules():
        if not isinstance(part, GraphModule):
            continue
        for node in part.graph.nodes:
            node.args = map_aggregate(node.args, double)
            node.kwargs = map_aggregate(node.kwargs, double)
            if node.op == "call_method" and node.target in _TO_DOUBLE:
                node.target = "double"
        part.recompile()
    return doubled
