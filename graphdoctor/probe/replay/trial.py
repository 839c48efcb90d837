"""A replay of the same calls under a remedy: changes each call as asked, keeps or compares the
results.

The request's ``trial`` says how; every key but ``outputs`` and ``references`` may be missing.
Sources are torch's, such as ``L['x']``. Every call starts from the same seed. Results are kept on
disk, and compared with those of the ``references``; a ``float64`` run and the ``others``, more runs
of the untouched program, say what is rounding. ``without`` leaves parts of the compiler out, all of
a kind for null, and has those that are used reported. ``alike`` makes only calls like the first
one, ``export`` those of ``torch.export``'s program.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial, reduce
from inspect import Parameter
from pathlib import Path
from typing import Any

import torch

from ...facts.trials import CompilerPartKind, Reference, Replay
from ..events import EventFile
from ..record.errors import TargetError
from ..target.snapshot import RandomState, State, seed_everything, set_for
from ..target.targets import Call, set_up, signature_of
from ..torch_private import torch_inductor
from .arguments import resized
from .comparing import attribute_of, compared, differing_names
from .leaves import Step, given, item_at, replaced_in
from .results import (
    AFTER_CALLS,
    Results,
    copies_of,
    gradients_of,
    modules_of,
    parameters_of,
    tensors_in,
)
from .rounding import Rounding, Shaken

_ARGUMENT = re.compile(r"L\['(\w+)'\]((?:\['[^']*'\]|\[\d+\]|\.\w+)*)")
_STEP = re.compile(r"\['([^']*)'\]|\[(\d+)\]|\.(\w+)")


class Trial:
    """One replay."""

    def __init__(self, plan: Mapping[str, Any], function: Any) -> None:
        self.plan = plan
        self.is_compiled = not plan.get("is_eager") and plan.get("export") is None
        self._is_float64 = bool(plan.get("is_float64"))
        self._function, self._signature = function, signature_of(function)
        self._modules = modules_of(function)
        self._results = Results()
        self._arguments: dict[str, torch.Tensor] = {}
        self._copies: dict[str, torch.Tensor] = {}
        self._lost_gradients: list[int] = []
        self._buffers: dict[str, torch.Tensor] = {}
        seed = plan.get("shaken")
        self._shaken = None if seed is None else Shaken(int(seed))

    def prepare(self, events: EventFile) -> None:
        """Before torch.compile: convert or shake what the target uses, and set up torch as
        asked.
        """
        plan = self.plan
        if self._is_float64:
            for module in self._modules.values():
                module.double()
        self._convert(
            State(self._function).tensors if self._is_float64 or self._shaken is not None else ()
        )
        if plan.get("setup"):
            set_up(plan["setup"])

        def report_part(kind: CompilerPartKind, name: str) -> None:
            events.write("part", kind=kind, name=name)

        try:
            if plan.get("without") is not None:
                torch_inductor.leave_out(plan["without"], report_part)
        except (ImportError, AttributeError) as error:
            raise TargetError(f"this torch can't be asked where it fails: {error}") from error

    @property
    def modules(self) -> dict[str, torch.nn.Module]:
        """The modules that the target uses, by its names for them."""
        return self._modules

    @contextlib.contextmanager
    def apart(self) -> Iterator[Results]:
        """Keep the results of the calls that are made meanwhile apart, and what large tensors hold
        in part.
        """
        kept = self._results
        self._results = Results(is_sampled=True)
        try:
            yield self._results
        finally:
            self._results = kept

    def _convert(self, tensors: Iterable[torch.Tensor]) -> None:
        """Change tensors in place: what a call writes to one of them is there in the next call."""
        if self._shaken is not None and not self._is_float64:
            self._shaken.shake(tensors)
        for tensor in tensors if self._is_float64 else ():
            if tensor.is_floating_point() or tensor.is_complex():
                tensor.data = tensor.data.to(
                    torch.complex128 if tensor.is_complex() else torch.float64
                )

    def changed(self, call: Call) -> Call:
        """A call as the remedy wants it."""
        if self._is_float64 or self._shaken is not None:
            self._convert(State(None, call).tensors)
        plan = self.plan
        changes = [
            (source, change) for kind, change in _CHANGES.items() for source in plan.get(kind, ())
        ]
        changes += [(source, partial(self._buffered, source)) for source in plan.get("buffers", ())]
        changes += [
            (source, partial(_resized, dim=dim, size=size))
            for source, dim, size in plan.get("sizes", ())
        ]
        changes += [(source, partial(_marked, dim=dim)) for source, dim in plan.get("marks", ())]
        for source, change in changes:
            call = self._replaced(call, source, change)
        return call

    def _buffered(self, source: str, value: Any) -> Any:
        """A tensor that stays from call to call, with the values of the one that is passed."""
        if not isinstance(value, torch.Tensor) or value.requires_grad:
            return value
        kept = self._buffers.get(source)
        if kept is None or (kept.shape, kept.dtype, kept.device) != (
            value.shape,
            value.dtype,
            value.device,
        ):
            kept = self._buffers[source] = _static(value.clone())
        else:
            kept.copy_(value)
        return kept

    def _replaced(self, call: Call, source: str, change: Callable[[Any], Any]) -> Call:
        """A call with what a source stands for changed, in its arguments or in the module that is
        called.
        """
        match = _ARGUMENT.fullmatch(source)
        parameters = {} if self._signature is None else self._signature.parameters
        whole: Any = [*call]
        is_module = isinstance(self._function, torch.nn.Module)
        if match is not None and is_module and match[1] == "self" not in parameters:
            whole, path = self._function, _steps(match[2])
        elif match is None or match[1] not in parameters:
            raise TargetError(f"{source} isn't an argument of the call")
        else:
            path = self._path(call, parameters[match[1]], _steps(match[2]))
        try:
            reduce(item_at, path, whole)
        except (AttributeError, KeyError, IndexError, TypeError):
            return call  # a default, or something in a cache that is still empty
        changed = replaced_in(whole, path, change)
        if changed is whole:
            return call
        if whole is self._function or any(kind == "attribute" for kind, _ in path):
            raise TargetError(f"{source} can't be replaced in the call")
        args, kwargs = changed
        return args, kwargs

    def _path(self, call: Call, parameter: Parameter, steps: list[Step]) -> list[Step]:
        """Where an argument is in a call, or would be if it were passed by name."""
        name = parameter.name
        if parameter.kind is Parameter.VAR_KEYWORD:
            return [("item", 1), *steps]
        if parameter.kind is Parameter.VAR_POSITIONAL and steps:
            name, steps = f"{name}[{steps[0][1]}]", steps[1:]
        passed = {known: path for path, known, _ in given(call, self._function)}
        return [*passed.get(name, (("item", 1), ("item", name))), *steps]

    def begin_call(self, call: Call) -> None:
        """Keep copies of a call's arguments, and of its defaults, to see whether it mutates
        them.
        """
        parameters = () if self._signature is None else self._signature.parameters.values()
        defaults = {one.name: one.default for one in parameters if one.default is not one.empty}
        self._arguments = tensors_in(
            {**defaults, **{name: value for _, name, value in given(call, self._function)}}
        )
        self._copies = copies_of(self._arguments)

    @contextlib.contextmanager
    def seeded(self, seed: int) -> Iterator[None]:
        """Make a call that draws the same random numbers in every replay."""
        with RandomState():
            seed_everything(seed)
            of_call = RandomState()
            with self._precise():
                yield
            self._results.draws_random |= not of_call.is_current()

    def _precise(self) -> AbstractContextManager[None]:
        """Make new tensors in float64 if the run is; not those that inputs are made from, which
        must stay the same.
        """
        if not self._is_float64:
            return nullcontext()
        return set_for(torch.set_default_dtype, torch.get_default_dtype(), torch.float64)

    def end_call(self, output: object, *, has_backward: bool) -> None:
        """Keep what a call returned, its gradients, and the arguments that it mutated."""
        self._results.add_call(output)
        self._results.add_arguments(self._copies, self._arguments)
        try:
            gradients = self._gradients(output, has_backward=has_backward)
        except RuntimeError:
            self._lost_gradients.append(self._results.call_count)
            return
        self._results.add_gradients(gradients)

    def _gradients(self, output: object, *, has_backward: bool) -> dict[str, torch.Tensor | None]:
        if not has_backward:
            with self._precise():
                return gradients_of(output, self._modules, self._arguments)
        tensors = {**self._arguments, **parameters_of(self._modules)}
        # Only leaves get one from backward; asking another tensor for it warns.
        return {name: tensor.grad for name, tensor in tensors.items() if tensor.is_leaf}

    def finish(self, texts: Mapping[str, str]) -> Replay:
        """Write the results, and compare them with those of the references."""
        self._results.add_state(self._modules)
        self._results.add_written(texts)
        mine, plan = self._results, self.plan
        mine.save(Path(plan["outputs"]))
        known = {name: _loaded(path) for name, path in plan["references"].items()}
        references: dict[Reference, Results] = {
            name: found for name, found in known.items() if found is not None
        }
        eager = references.get("eager")
        rounding = None if eager is None else self._rounding(eager)
        is_exported = plan.get("export") is not None
        lost = self._take_out_attributes(mine, eager) if is_exported and eager is not None else []
        found = {name: compared(mine, results, rounding) for name, results in references.items()}
        earlier = _loaded(plan.get("earlier"))
        if earlier is not None and eager is not None:
            found["earlier"] = compared(earlier, eager, rounding)
        if self._lost_gradients:
            calls = ", ".join(map(str, self._lost_gradients))
            note = {"note": f"backward can't run for call {calls}: gradients are not compared"}
            found = {name: comparison.replace(**note) for name, comparison in found.items()}
        return Replay(
            compared=found,
            errors=() if rounding is None else rounding.errors(mine),
            kinds_apart=() if rounding is None else rounding.kinds_apart(),
            draws_random=mine.draws_random,
            lost=tuple(lost),
        )

    def _take_out_attributes(self, mine: Results, eager: Results) -> list[str]:
        """Leave out attributes of modules, which an exported program doesn't have; those that the
        calls change.
        """
        owned = {
            f"{prefix}.{name}".lstrip(".") + AFTER_CALLS
            for prefix, module in self._modules.items()
            for name, _ in (*module.named_parameters(), *module.named_buffers())
        }
        states = mine.values["state"], eager.values["state"]
        names = {name for state in states for name in state if name.endswith(AFTER_CALLS)} - owned
        taken = [{name: state.pop(name, None) for name in names} for state in states]
        return sorted({attribute_of(name) for name in differing_names("state", *taken)})

    def _rounding(self, eager: Results) -> Rounding | None:
        if self.plan.get("judged") is None:
            return None
        others = [
            results
            for path in self.plan.get("others", ())
            if (results := _loaded(path)) is not None
        ]
        precise, is_shaken = _loaded(self.plan.get("float64")), self._shaken is not None
        return Rounding(precise, eager, others, judged=self.plan["judged"], is_shaken=is_shaken)


def _loaded(path: str | None) -> Results | None:
    return Results.load(Path(path)) if path is not None and Path(path).exists() else None


def _steps(text: str) -> list[Step]:
    return [
        ("attribute", attribute) if attribute else ("item", int(index) if index else key)
        for key, index, attribute in _STEP.findall(text)
    ]


def _resized(value: Any, *, dim: int, size: int) -> Any:
    if (
        not isinstance(value, torch.Tensor)
        or not -value.ndim <= dim < value.ndim
        or not value.shape[dim]
    ):
        raise TargetError(
            f"{type(value).__name__} has no size {dim} to change: it isn't a tensor with such a dim"
        )
    return resized(value, dim, size)


def _marked(value: Any, *, dim: int) -> Any:
    # A size of 0 or 1 can't be dynamic, and torch refuses it.
    if isinstance(value, torch.Tensor) and dim < value.ndim and value.shape[dim] > 1:
        torch._dynamo.mark_dynamic(value, dim)
    return value


def _static(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        torch._dynamo.mark_static_address(value)
    return value


def _as_tensor(value: Any) -> Any:
    return (
        torch.tensor(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool)
        else value
    )


_CHANGES: dict[str, Callable[[Any], Any]] = {
    "tensors": _as_tensor,
    "contiguous": torch.Tensor.contiguous,
    "on_device": lambda value: value.to("cuda") if isinstance(value, torch.Tensor) else value,
    "static": _static,
}
"""What is done to arguments, by the key of their sources."""
