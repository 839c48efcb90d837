"""A replay of the same calls under a remedy: changes each call as asked, keeps or compares the
results.

The request's ``trial`` says how; every key but ``outputs`` and ``references`` may be missing.
Sources are torch's, such as ``L['x']``. Every call starts from the same seed. Results are kept on
disk, and compared with those of the ``references``; a ``float64`` run and the ``others``, more runs
of the untouched program, say what is rounding. ``without`` leaves parts of the compiler out, all of
a kind for null, and has those that are used reported. ``alike`` makes only calls like the first
one, ``export`` those of ``torch.export``'s program. ``forms`` has what callers rely on besides
values and what a call raises as results, ``fresh`` each call compiled anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import reduce
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from ...facts.base import Fields
from ...facts.trials import CompilerPartKind, Replay
from ..events import EventFile
from ..record.errors import TargetError, raised_text
from ..target.snapshot import RandomState, State, seed_everything, set_for
from ..target.targets import Call, set_up, signature_of
from ..torch_private import torch_config
from ..torch_private.torch_questions import answered_as_compiled
from .comparing import Rounding, compared, differing_attributes
from .leaves import Step, item_at, passed_arguments, replaced_in
from .locating import Locating
from .plain_values import changing_values, plain_values
from .results import (
    AFTER_CALLS,
    Results,
    Tensors,
    copies_of,
    forms_in,
    gradients_of,
    modules_of,
    parameters_of,
    strides_in,
    tensors_in,
    tensors_of,
)
from .shaking import Shaken

_ARGUMENT = re.compile(r"L\['(\w+)'\]((?:\['[^']*'\]|\[\d+\]|\.\w+)*)")
_STEP = re.compile(r"\['([^']*)'\]|\[(\d+)\]|\.(\w+)")


class Trial:
    """One replay; ``modules``: those that the target uses, by its names for them."""

    def __init__(self, plan: Mapping[str, Any], function: Any) -> None:
        self.plan = plan
        self.is_compiled = not plan.get("is_eager") and plan.get("export") is None
        self._is_float64 = bool(plan.get("is_float64"))
        self._function, self._signature = function, signature_of(function)
        self.modules = modules_of(function)
        self._results = Results()
        self._arguments: Tensors = {}
        self._copies: Tensors = {}
        self._lost_gradients: list[int] = []
        self._buffers: Tensors = {}
        seed = plan.get("shaken")
        self._shaken = None if seed is None else Shaken(int(seed))
        self.has_forms = bool(plan.get("forms"))
        self._values: Fields = {}
        """The arguments of the call, by name."""
        self._plain: list[dict[str, str]] = []
        self._locating: Locating | None = None

    def prepare(self, events: EventFile) -> None:
        """Before torch.compile: convert or shake what the target uses, and set up torch as
        asked.
        """
        if self._is_float64:
            for module in self.modules.values():
                module.double()
        self._convert(self._function, None)
        if self.plan.get("setup"):
            set_up(self.plan["setup"])

        def report_part(kind: CompilerPartKind, name: str) -> None:
            events.write("part", kind=kind, name=name)

        try:
            if self.plan.get("without") is not None:
                torch_config.leave_out(self.plan["without"], report_part)
        except (ImportError, AttributeError) as error:
            raise TargetError(f"this torch can't be asked where it fails: {error}") from error
        if (asked := self.plan.get("locate")) is not None:
            self._locating = Locating(asked["limit_s"], asked["what"])

    @contextmanager
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

    def _convert(self, function: Any, call: Call | None) -> None:
        """Change tensors in place: what a call writes to one of them is there in the next call."""
        if self._is_float64:
            for tensor in State(function, call).tensors:
                if tensor.is_floating_point() or tensor.is_complex():
                    dtype = torch.complex128 if tensor.is_complex() else torch.float64
                    tensor.data = tensor.data.to(dtype)
        elif self._shaken is not None:
            self._shaken.shake(State(function, call).tensors)

    def changed(self, call: Call) -> Call:
        """Change a call as the remedy wants it."""
        self._convert(None, call)
        changes: dict[str, Callable[..., Any]] = {
            **_CHANGES,
            "buffers": self._buffered,
            "marks": _marked,
        }
        for kind, change in changes.items():
            for row in self.plan.get(kind, ()):
                # A source, with numbers for some changes.
                source, *numbers = [row] if isinstance(row, str) else row
                more = [source] if kind == "buffers" else numbers
                call = self._replaced(call, source, lambda value: change(value, *more))  # noqa: B023
        return call

    def _buffered(self, value: Any, source: str) -> Any:
        """A tensor that stays from call to call, with the values of the one that is passed."""
        if not isinstance(value, Tensor) or value.requires_grad:
            return value
        kept = self._buffers.get(source)
        kinds = {(it.shape, it.dtype, it.device) for it in (kept, value) if it is not None}
        if kept is None or len(kinds) > 1:
            kept = self._buffers[source] = _static(value.clone())
        else:
            kept.copy_(value)
        return kept

    def _replaced(self, call: Call, source: str, change: Callable[[Any], Any]) -> Call:
        """Change what a source stands for, in the arguments or in the module that is called."""
        match = _ARGUMENT.fullmatch(source)
        name, rest = ("", "") if match is None else (match[1], match[2])
        steps: list[Step] = [
            ("attribute", attribute) if attribute else ("item", int(index) if index else key)
            for key, index, attribute in _STEP.findall(rest)
        ]
        bound = None
        whole: Any = self._function
        if self._signature is not None and name in self._signature.parameters:
            bound = self._signature.bind(*call[0], **call[1])
            whole, steps = dict(bound.arguments), [("item", name), *steps]
        elif name != "self" or not isinstance(self._function, Module):
            raise TargetError(f"{source} isn't an argument of the call")
        try:
            reduce(item_at, steps, whole)
        except (AttributeError, KeyError, IndexError, TypeError):
            return call  # a default, or something in a cache that is still empty
        changed = replaced_in(whole, steps, change)
        if changed is whole:
            return call
        if bound is None or any(kind == "attribute" for kind, _ in steps):
            raise TargetError(f"{source} can't be replaced in the call")
        bound.arguments.update(changed)
        return bound.args, bound.kwargs

    def begin_call(self, call: Call) -> None:
        """Keep copies of a call's arguments, and of its defaults, to see whether it mutates
        them.
        """
        if self.plan.get("fresh"):
            torch.compiler.reset()
            # AOTAutograd's finds what an equal graph gave with other values outside of it.
            torch_config.miss_caches()
            self._plain.append(plain_values(self._function, call))
        if self._locating is not None:
            self._locating.call += 1
        parameters = () if self._signature is None else self._signature.parameters.values()
        values = {p.name: p.default for p in parameters if p.default is not p.empty}
        values |= {name: value for _, name, value in passed_arguments(call, self._function)}
        self._values, self._arguments = values, tensors_in(values)
        self._copies = copies_of(self._arguments)

    @contextmanager
    def seeded(self, seed: int) -> Iterator[None]:
        """Make a call that draws the same random numbers in every replay."""
        with RandomState():
            seed_everything(seed)
            of_call = RandomState()
            with self._precise(), self._uncompiled(), self._asked(), self._shaken or nullcontext():
                yield
            self._results.draws_random |= not of_call.is_current()
            if self._results.is_sampled:
                self._results.add_draws(RandomState())

    def _uncompiled(self) -> AbstractContextManager[Any]:
        """Run what the program itself compiles without torch.compile, too, where all is compared
        with eager mode.
        """
        is_eager = self.has_forms and not self.is_compiled
        return torch.compiler.set_stance("force_eager") if is_eager else nullcontext()

    def _asked(self) -> AbstractContextManager[None]:
        """Answer the program's questions whether it is compiled as compiled code has them."""
        return answered_as_compiled() if self.plan.get("asks_as_compiled") else nullcontext()

    def _precise(self) -> AbstractContextManager[None]:
        """Make new tensors in float64 if the run is; not those that inputs are made from, which
        must stay the same.
        """
        if not self._is_float64:
            return nullcontext()
        return set_for(torch.set_default_dtype, torch.get_default_dtype(), torch.float64)

    def end_call(self, output: object, *, has_backward: bool) -> None:
        """Keep what a call returned, its gradients, and the arguments that it mutated."""
        results = self._results
        results.add_call(output)
        results.add_arguments(self._copies, self._arguments)
        if self.has_forms:
            tensors = {**self._arguments, **tensors_of(self.modules)}
            results.add_forms(forms_in(output, self._values, tensors), strides_in(output))
        if has_backward:
            tensors = {**self._arguments, **parameters_of(self.modules)}
            # Only leaves get one from backward; asking another tensor for it warns.
            results.add_gradients({name: it.grad for name, it in tensors.items() if it.is_leaf})
            return
        try:
            with self._precise(), self._asked(), self._shaken or nullcontext():
                gradients = gradients_of(output, self.modules, self._arguments)
        except RuntimeError:
            self._lost_gradients.append(results.call_count)
        else:
            results.add_gradients(gradients)

    def end_by_raising(self, error: BaseException) -> None:
        """Keep what a call raised."""
        self._results.add_exception(raised_text(error))

    def finish(self, texts: Mapping[str, str]) -> Replay:
        """Write the results, and compare them with those of the references."""
        mine = self._results
        plan = self.plan
        mine.add_state(self.modules)
        mine.add_written(texts)
        mine.save(Path(plan["outputs"]))
        loaded = {name: _loaded(path) for name, path in plan["references"].items()}
        references = {name: results for name, results in loaded.items() if results is not None}
        eager = references.get("eager")
        rounding = None
        if eager is not None and plan.get("judged") is not None:
            runs = map(_loaded, plan.get("others", ()))
            rounding = Rounding(
                _loaded(plan.get("float64")),
                eager,
                [results for results in runs if results is not None],
                judged=plan["judged"],
                is_shaken=self._shaken is not None,
            )
        lost = []
        if plan.get("export") is not None and eager is not None:
            lost = self._take_out_attributes(mine, eager)
        comparisons = {name: compared(mine, of, rounding) for name, of in references.items()}
        earlier = _loaded(plan.get("earlier"))
        if earlier is not None and eager is not None:
            comparisons["earlier"] = compared(earlier, eager, rounding)
        if self._lost_gradients:
            calls = ", ".join(map(str, self._lost_gradients))
            note = f"backward can't run for call {calls}: gradients are not compared"
            comparisons = {name: of.replace(note=note) for name, of in comparisons.items()}
        return Replay(
            compared=comparisons,
            errors=() if rounding is None else rounding.errors(mine),
            kinds_apart=() if rounding is None else rounding.kinds_apart(),
            changing=changing_values(self._plain),
            draws_random=mine.draws_random,
            lost=tuple(lost),
            **({} if self._locating is None else self._locating.found()),
        )

    def _take_out_attributes(self, mine: Results, eager: Results) -> list[str]:
        """Leave out attributes of modules, which an exported program doesn't have; those that the
        calls change.
        """
        owned = {name + AFTER_CALLS for name in tensors_of(self.modules)}
        states = mine.values["state"], eager.values["state"]
        names = {name for state in states for name in state if name.endswith(AFTER_CALLS)} - owned
        taken = [{name: state.pop(name, None) for name in names} for state in states]
        return differing_attributes(*taken)


def _loaded(path: str | None) -> Results | None:
    return Results.load(Path(path)) if path is not None and Path(path).exists() else None


def _marked(value: Any, dim: int) -> Any:
    # A size of 0 or 1 can't be dynamic, and torch refuses it.
    if isinstance(value, Tensor) and dim < value.ndim and value.shape[dim] > 1:
        torch._dynamo.mark_dynamic(value, dim)
    return value


def _static(value: Any) -> Any:
    if isinstance(value, Tensor):
        torch._dynamo.mark_static_address(value)
    return value


def _as_tensor(value: Any) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return torch.tensor(value) if is_number else value


_CHANGES: dict[str, Callable[..., Any]] = {
    "tensors": _as_tensor,
    "contiguous": Tensor.contiguous,
    "on_device": lambda value: value.to("cuda") if isinstance(value, Tensor) else value,
    "static": _static,
}
"""What is done to arguments, by the key of their sources."""
