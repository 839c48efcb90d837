"""A replay of the same calls under a remedy: changes each call as asked, keeps or compares the results.

The request's ``trial`` says how; every key but ``outputs`` and ``references`` may be missing. Sources are torch's,
such as ``L['x']``. Every call starts from the same seed, whatever remedy it runs under. Results are kept on disk, and
compared with those of the ``references``. If there is a ``float64`` run of the program, it and the ``others``, which
are more runs of the untouched one, say what is rounding. The replay stops at the first call whose results of a
``decisive`` kind differ: nothing that comes later changes what that means. ``without`` leaves parts of the compiler
out, all of a kind for null, and has those that are used reported. ``minifier`` has torch's own write a script for the
first graph that fails. ``alike`` makes only calls like the first one. ``export`` makes the calls with what
``torch.export`` made of the target (``steps/exporting.py``).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch

from ...facts.trials import CompilerPartKind, Reference, Replay, ResultKind
from ..record.errors import TargetError
from ..target.snapshot import RandomState, State, seed_everything
from ..target.targets import Call, signature_of
from .arguments import resized
from .comparing import attribute_of, compared, differing_names, is_different
from .leaves import Alike, Step, replaced_in
from .results import AFTER_CALLS, Results, copies_of, gradients_of, modules_of, parameters_of, tensors_in
from .rounding import Rounding, Shaken

_ARGUMENT = re.compile(r"L\['(\w+)'\]((?:\['[^']*'\]|\[\d+\]|\.\w+)*)")
_STEP = re.compile(r"\['([^']*)'\]|\[(\d+)\]|\.(\w+)")


class Trial:
    """One replay."""

    def __init__(self, plan: Mapping[str, Any], function: Any) -> None:  # noqa: ANN401
        self._plan = plan
        self.is_eager = bool(plan.get("is_eager"))
        """The replay runs without torch.compile: its outputs are what the others are compared with."""
        self.has_warm_up = bool(plan.get("warm_up"))
        self.alike: Alike | None = plan.get("alike")
        """Which calls to make: those like the first one in this; None for all."""
        self.export: Mapping[str, Any] | None = plan.get("export")
        self.is_compiled = not self.is_eager and self.export is None
        self.setup: str | None = plan.get("setup") or None
        self.without: Mapping[CompilerPartKind, list[str] | None] | None = plan.get("without")
        self.minifier: Mapping[str, Any] | None = plan.get("minifier")
        """Arguments of ``torch_inductor.wait_for_graph``; None to have it do nothing."""
        self.is_steady_timed = bool(plan.get("steady"))
        self.timing: int | None = plan.get("timing")
        """File descriptor of the socket that asks for times of the last call; then nothing is compared."""
        self.signature = signature_of(function)
        self._is_float64 = bool(plan.get("is_float64"))
        self._function = function
        self._modules = modules_of(function)
        self._results = Results()
        self._arguments: dict[str, torch.Tensor] = {}
        self._copies: dict[str, torch.Tensor] = {}
        self._lost_gradients: list[int] = []
        self._buffers: dict[str, torch.Tensor] = {}
        seed = plan.get("shaken")
        self._shaken = None if seed is None else Shaken(int(seed))

    @property
    def is_decided(self) -> bool:
        """The results of the last call decide what comes of the replay, so that no more calls are made."""
        return self._results.stopped_for is not None

    def changed(self, call: Call) -> Call:
        """A call as the remedy wants it."""
        if self._is_float64:
            _make_precise(State(None, call).tensors)
        elif self._shaken is not None:
            self._shaken.shake(State(None, call).tensors)
        for kind, change in (
            ("tensors", _as_tensor),
            ("contiguous", torch.Tensor.contiguous),
            ("on_device", _on_device),
        ):
            for source in self._plan.get(kind, ()):
                call = self._replaced(call, source, change)
        for source in self._plan.get("buffers", ()):
            call = self._replaced(call, source, partial(self._buffered, source))
        for source in self._plan.get("static", ()):
            if isinstance(value := self._value(call, source), torch.Tensor):
                torch._dynamo.mark_static_address(value)
        for source, dim, size in self._plan.get("sizes", ()):
            if _taken_apart(source)[0] not in self._names(call):
                raise TargetError(f"{source} isn't an argument of the call")
            call = self._replaced(call, source, partial(_resized, dim=dim, size=size))
        for source, dim in self._plan.get("marks", ()):
            value = self._value(call, source)
            # A cache that is still empty has no such tensor; a size of 0 or 1 can't be dynamic, and torch refuses it.
            if isinstance(value, torch.Tensor) and dim < value.ndim and value.shape[dim] > 1:
                torch._dynamo.mark_dynamic(value, dim)
        return call

    def _buffered(self, source: str, value: Any) -> Any:  # noqa: ANN401
        """A tensor that stays from call to call, with the values of the one that is passed."""
        if not isinstance(value, torch.Tensor) or value.requires_grad:
            return value
        kept = self._buffers.get(source)
        if kept is None or (kept.shape, kept.dtype, kept.device) != (value.shape, value.dtype, value.device):
            kept = self._buffers[source] = value.clone()
            torch._dynamo.mark_static_address(kept)
        else:
            kept.copy_(value)
        return kept

    def _names(self, call: Call) -> dict[str, Any]:
        if self.signature is None:
            raise TargetError("the names of the arguments are unknown")
        bound = self.signature.bind(*call[0], **call[1])
        bound.apply_defaults()
        return bound.arguments

    def _value(self, call: Call, source: str) -> Any:  # noqa: ANN401
        """What a source stands for in a call's arguments, or in the module that is called; None if it isn't there."""
        name, steps = _taken_apart(source)
        names = self._names(call)
        if name == "self" and name not in names and isinstance(self._function, torch.nn.Module):
            names = {name: self._function}
        if name not in names:
            raise TargetError(f"{source} isn't an argument of the call")
        value = names[name]
        try:
            for kind, key in steps:
                value = getattr(value, key) if kind == "attribute" else value[key]
        except (AttributeError, KeyError, IndexError, TypeError):
            return None
        return value

    def _replaced(self, call: Call, source: str, change: Callable[[Any], Any]) -> Call:
        name, steps = _taken_apart(source)
        if self.signature is None or any(kind == "attribute" for kind, _ in steps):
            raise TargetError(f"{source} can't be replaced in the call")
        args, kwargs = call
        if name in kwargs:
            return args, {**kwargs, name: replaced_in(kwargs[name], steps, change)}
        bound = self.signature.bind(*args, **kwargs)
        if name not in bound.arguments:
            return call  # the default: no other value in this call
        position = list(self.signature.parameters).index(name)
        if not steps and position < len(args) and bound.arguments[name] is args[position]:
            return (*args[:position], change(args[position]), *args[position + 1 :]), kwargs
        bound.arguments[name] = replaced_in(bound.arguments[name], steps, change)
        return bound.args, dict(bound.kwargs)

    def begin_call(self, call: Call) -> None:
        """Keep copies of a call's arguments, to see whether it mutates them."""
        try:
            named = self._names(call)
        except (TargetError, TypeError):
            named = {"args": call[0], "kwargs": call[1]}
        self._arguments = tensors_in(named)
        self._copies = copies_of(self._arguments)

    @contextlib.contextmanager
    def seeded(self, seed: int) -> Iterator[None]:
        """Make a call that draws the same random numbers in every replay."""
        with RandomState():
            seed_everything(seed)
            of_call = RandomState()
            with self.precise():
                yield
            self._results.draws_random |= not of_call.is_current()

    @contextlib.contextmanager
    def precise(self) -> Iterator[None]:
        """Make new tensors in float64 if the run is; not those that inputs are made from, which must stay the same."""
        if not self._is_float64:
            yield
            return
        dtype = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            yield
        finally:
            torch.set_default_dtype(dtype)

    def end_call(self, output: object, *, has_backward: bool) -> None:
        """Keep what a call returned, its gradients, and the arguments that it mutated."""
        gradients: dict[str, torch.Tensor | None]
        self._results.add_call(output)
        if self._decides("outputs"):
            return
        self._results.add_arguments(self._copies, self._arguments)
        if has_backward:
            tensors = {**self._arguments, **parameters_of(self._modules)}
            # Only leaves get one from backward; asking another tensor for it warns.
            gradients = {name: tensor.grad for name, tensor in tensors.items() if tensor.is_leaf}
        else:
            try:
                with self.precise():
                    gradients = gradients_of(output, self._modules, self._arguments)
            except RuntimeError:
                self._lost_gradients.append(self._results.call_count)
                return
        self._results.add_gradients(gradients)
        self._decides("gradients")

    def _decides(self, kind: ResultKind) -> bool:
        decisive, eager = self._plan.get("decisive", ()), self._references.get("eager")
        if kind not in decisive or eager is None:
            return False
        if is_different(kind, self._results, eager, self._rounding, call=self._results.call_count):
            self._results.stopped_for = kind
        return self.is_decided

    def finish(self, texts: Mapping[str, str]) -> Replay:
        """Write the results, and compare them with those of the references."""
        if not self.is_decided:
            self._results.add_state(self._modules)
            self._results.add_written(texts)
        mine = self._results
        mine.save(Path(self._plan["outputs"]))
        rounding, eager = self._rounding, self._references.get("eager")
        references, lost = self._references, list[str]()
        if self.export is not None:
            lost = self._lost_attributes(mine, eager)
            mine, references = (
                self._without_attributes(mine),
                {name: self._without_attributes(results) for name, results in references.items()},
            )
        found = {
            name: compared(mine.beside(mine), results.beside(mine), rounding) for name, results in references.items()
        }
        earlier = _loaded(self._plan.get("earlier"))
        if earlier is not None and eager is not None:
            found["earlier"] = compared(earlier.beside(earlier), eager.beside(earlier), rounding)
        if self._lost_gradients:
            calls = ", ".join(map(str, self._lost_gradients))
            note = {"note": f"backward can't run for call {calls}: gradients are not compared"}
            found = {name: comparison.model_copy(update=note) for name, comparison in found.items()}
        return Replay(
            compared=found,
            errors=() if rounding is None else rounding.errors(mine),
            kinds_apart=() if rounding is None else rounding.kinds_apart(),
            is_rounding_known=rounding is not None and rounding.has_float64,
            draws_random=mine.draws_random,
            is_stopped=self.is_decided,
            lost=tuple(lost),
        )

    def _without_attributes(self, results: Results) -> Results:
        """Results without attributes of modules: an exported program has parameters and buffers, and nothing else."""
        attributes = self._attributes(results)
        state = {name: value for name, value in results.values["state"].items() if name not in attributes}
        return replace(results, values={**results.values, "state": state})

    def _lost_attributes(self, mine: Results, eager: Results | None) -> list[str]:
        if eager is None:
            return []
        names = self._attributes(mine) | self._attributes(eager)
        values = ({name: of.values["state"].get(name) for name in names} for of in (mine, eager))
        return sorted({attribute_of(name) for name in differing_names("state", *values)})

    def _attributes(self, results: Results) -> set[str]:
        owned = {
            f"{prefix}.{name}".lstrip(".")
            for prefix, module in self._modules.items()
            for name, _ in (*module.named_parameters(), *module.named_buffers())
        }
        after = (name for name in results.values["state"] if name.endswith(AFTER_CALLS))
        return {name for name in after if name.removesuffix(AFTER_CALLS) not in owned}

    @cached_property
    def _references(self) -> dict[Reference, Results]:
        named = self._plan["references"].items()
        return {name: results for name, path in named if (results := _loaded(path)) is not None}

    @cached_property
    def _rounding(self) -> Rounding | None:
        precise, eager = _loaded(self._plan.get("float64")), self._references.get("eager")
        if eager is None or self._plan.get("judged") is None:
            return None
        others = [results for path in self._plan.get("others", ()) if (results := _loaded(path)) is not None]
        return Rounding(precise, eager, others, judged=self._plan["judged"], is_shaken=self._shaken is not None)

    def prepare(self) -> None:
        """Convert what the target uses if the run is in float64, all numbers exactly the same, or shake them."""
        if self._is_float64:
            for module in self._modules.values():
                module.double()
            _make_precise(State(self._function).tensors)
        elif self._shaken is not None:
            self._shaken.shake(State(self._function).tensors)


def _loaded(path: str | None) -> Results | None:
    return Results.load(Path(path)) if path is not None and Path(path).exists() else None


def _make_precise(tensors: Iterable[torch.Tensor]) -> None:
    """Convert tensors in place: what a call writes to one of them is there in the next call."""
    for tensor in tensors:
        if tensor.is_floating_point() or tensor.is_complex():
            tensor.data = tensor.data.to(torch.complex128 if tensor.is_complex() else torch.float64)


def _taken_apart(source: str) -> tuple[str, list[Step]]:
    """The name of an argument, and the steps from there to what a source stands for."""
    if (match := _ARGUMENT.fullmatch(source)) is None:
        raise TargetError(f"{source} isn't an argument of the call")
    found = _STEP.findall(match[2])
    return match[1], [
        ("attribute", attribute) if attribute else ("item", int(index) if index else key)
        for key, index, attribute in found
    ]


def _resized(value: Any, *, dim: int, size: int) -> Any:  # noqa: ANN401
    if not isinstance(value, torch.Tensor) or not -value.ndim <= dim < value.ndim or not value.shape[dim]:
        raise TargetError(f"{type(value).__name__} has no size {dim} to change: it isn't a tensor with such a dim")
    return resized(value, dim, size)


def _on_device(value: Any) -> Any:  # noqa: ANN401
    return value.to("cuda") if isinstance(value, torch.Tensor) else value


def _as_tensor(value: Any) -> Any:  # noqa: ANN401
    return torch.tensor(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value
