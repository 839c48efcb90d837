"""A replay of the same calls under a remedy: changes each call as asked, keeps or compares what came out.

The request's ``trial`` says how::

    {"is_eager": …, "warm_up": …, "marks": [{"source": "L['x']", "dim": 0}, …], "tensors": ["L['scale']", …],
     "contiguous": ["L['x']", …], "outputs": path, "reference": path or null}

Every call is made from the same seed, whatever remedy it runs under, so that random numbers do not tell two replays
apart. Outputs are kept on disk as the leaves of their containers, gradients of the parameters behind them.
"""

from __future__ import annotations

import inspect
import re
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from . import torch_api
from .describe import value_text
from .targets import Call, TargetError

_MAX_BYTES = 2**29
"""Outputs that are kept for comparing; beyond it the rest of the calls is not compared."""

_ARGUMENT = re.compile(r"^L\['(\w+)'\](.*)$")
_STEP = re.compile(r"\['([^']*)'\]|\[(\d+)\]|\.(\w+)")
_STEADY_S = 0.5
_STEADY_RUNS = 50
_MAX_WARM_UPS = 4


class Trial:
    """One replay.

    Args:
        plan: The request's ``trial``.
        function: What is called, for the names of its arguments.
    """

    def __init__(self, plan: Mapping[str, Any], function: Any) -> None:  # noqa: ANN401
        self._plan = plan
        self._signature = _signature(function)
        self._kept: list[list[Any]] = []
        self._bytes = 0
        self._is_full = False

    @property
    def is_eager(self) -> bool:
        """The replay runs without torch.compile: its outputs are what the others are compared with."""
        return bool(self._plan.get("is_eager"))

    @property
    def has_warm_up(self) -> bool:
        """All calls are made once before those that count."""
        return bool(self._plan.get("warm_up"))

    def changed(self, call: Call) -> Call:
        """A call as the remedy wants it.

        Raises:
            TargetError: The remedy does not fit the call.
        """
        tensors = [*self._plan.get("tensors", ())]
        contiguous = [*self._plan.get("contiguous", ())]
        for source in tensors:
            call = self._replaced(call, source, _as_tensor)
        for source in contiguous:
            call = self._replaced(call, source, lambda value: value.contiguous())
        for mark in self._plan.get("marks", ()):
            value = self._value(call, mark["source"])
            # A size of 0 or 1 cannot be dynamic: torch refuses the mark later, in words of its own.
            if isinstance(value, torch.Tensor) and mark["dim"] < value.ndim and value.shape[mark["dim"]] > 1:
                torch._dynamo.mark_dynamic(value, mark["dim"])
        return call

    def _names(self, call: Call) -> dict[str, Any]:
        if self._signature is None:
            raise TargetError("the names of the arguments are not known")
        bound = self._signature.bind(*call[0], **call[1])
        bound.apply_defaults()
        return bound.arguments

    def _value(self, call: Call, source: str) -> Any:  # noqa: ANN401
        """What a source stands for in a call's arguments."""
        name, steps = _taken_apart(source)
        names = self._names(call)
        if name not in names:
            raise TargetError(f"{source} is no argument of the call")
        value = names[name]
        for key, index, attribute in steps:
            value = getattr(value, attribute) if attribute else value[int(index) if index else key]
        return value

    def _replaced(self, call: Call, source: str, change: Callable[[Any], Any]) -> Call:
        """The call with one argument, or one item of its keyword arguments, changed."""
        name, steps = _taken_apart(source)
        if self._signature is None or any(attribute for _, _, attribute in steps):
            raise TargetError(f"{source} cannot be replaced in the call")
        bound = self._signature.bind(*call[0], **call[1])
        if name not in bound.arguments:
            return call  # the default: no other value in this call
        bound.arguments[name] = _with_changed(bound.arguments[name], steps, change)
        return bound.args, dict(bound.kwargs)

    def saw(self, output: object) -> None:
        """Keep what a call gave back."""
        leaves = [_kept(leaf) for leaf in torch_api.tree_leaves(output)]
        self._bytes += sum(leaf.numel() * leaf.element_size() for leaf in leaves if isinstance(leaf, torch.Tensor))
        self._is_full = self._is_full or self._bytes > _MAX_BYTES
        if not self._is_full:
            self._kept.append(leaves)

    def saw_gradients(self, module: torch.nn.Module) -> None:
        """Keep the gradients of the parameters behind the last call's outputs."""
        if self._kept and not self._is_full:
            self._kept[-1] += [
                None if parameter.grad is None else _kept(parameter.grad) for parameter in module.parameters()
            ]

    def finish(self) -> dict[str, Any]:
        """Write the outputs, or compare them with those of the reference.

        Returns:
            ``outputs``: ``equal``, ``different`` or ``not_compared``; with ``largest_difference`` and ``where``.
        """
        torch.save(self._kept, self._plan["outputs"])
        reference = self._plan.get("reference")
        if not reference:
            return {"outputs": "not_compared"}
        path = Path(reference)
        if not path.exists():
            return {"outputs": "not_compared", "where": "eager mode gave no outputs"}
        expected = torch.load(path, weights_only=True)
        found = compare(self._kept, expected)
        if found["outputs"] == "equal" and self._is_full:
            found["where"] = f"the first {len(self._kept)} calls; the rest is too large to keep"
        return found


def parameter_names(function: Any) -> list[str] | None:  # noqa: ANN401
    """The names of a module's or function's parameters, or None when Python cannot tell."""
    signature = _signature(function)
    return None if signature is None else list(signature.parameters)


def _signature(function: Any) -> inspect.Signature | None:  # noqa: ANN401
    called = function.forward if isinstance(function, torch.nn.Module) else function
    try:
        return inspect.signature(called)
    except (TypeError, ValueError):
        return None


def compare(found: list[list[Any]], expected: list[list[Any]]) -> dict[str, Any]:
    """Compare the outputs of two replays.

    Args:
        found: For each call the leaves of its outputs.
        expected: Those of eager mode.

    Returns:
        As ``Trial.finish``; tensors are equal within ``torch.testing.assert_close``'s tolerances for their dtype.
    """
    largest, where = 0.0, None
    for number, (mine, other) in enumerate(zip(found, expected, strict=False), start=1):
        if len(mine) != len(other):
            return {"outputs": "different", "where": f"call {number}: {len(mine)} values in place of {len(other)}"}
        for index, (value, wanted) in enumerate(zip(mine, other, strict=True)):
            if _is_close(value, wanted):
                continue
            difference = _difference(value, wanted)
            if where is None or (difference or 0.0) > largest:
                where = f"call {number}, value {index + 1}"
            largest = max(largest, difference or 0.0)
    if len(found) < len(expected):
        return {"outputs": "different", "where": f"{len(found)} calls came back in place of {len(expected)}"}
    if where is None:
        return {"outputs": "equal"}
    return {"outputs": "different", "largest_difference": largest or None, "where": where}


def steady_us(call: Callable[[], Any], compile_count: Callable[[], int]) -> float | None:
    """Median time of a call that compiles nothing, in microseconds; None when it goes on compiling.

    Args:
        call: Makes it.
        compile_count: How many compiles there were so far.
    """
    for _ in range(_MAX_WARM_UPS):
        before = compile_count()
        call()
        if compile_count() == before:
            break
    else:
        return None
    times: list[float] = []
    ends = time.perf_counter() + _STEADY_S
    while len(times) < _STEADY_RUNS and (time.perf_counter() < ends or len(times) < 3):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return statistics.median(times) * 1e6


def _taken_apart(source: str) -> tuple[str, list[tuple[str, str, str]]]:
    match = _ARGUMENT.match(source)
    steps = _STEP.findall(match[2]) if match else []
    if match is None or "".join(_step_text(*step) for step in steps) != match[2]:
        raise TargetError(f"{source} is no argument of the call")
    return match[1], steps


def _step_text(key: str, index: str, attribute: str) -> str:
    return f".{attribute}" if attribute else f"[{index}]" if index else f"['{key}']"


def _with_changed(value: Any, steps: list[tuple[str, str, str]], change: Callable[[Any], Any]) -> Any:  # noqa: ANN401
    """A value with what lies at the end of the steps changed; containers on the way are copied."""
    if not steps:
        return change(value)
    key, index, _ = steps[0]
    at: Any = int(index) if index else key
    if isinstance(value, Mapping):
        return {**value, at: _with_changed(value[at], steps[1:], change)}
    items = [_with_changed(item, steps[1:], change) if number == at else item for number, item in enumerate(value)]
    return tuple(items) if isinstance(value, tuple) else items


def _as_tensor(value: Any) -> Any:  # noqa: ANN401
    return torch.tensor(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def _kept(leaf: object) -> Any:  # noqa: ANN401
    return leaf.detach().clone().cpu() if isinstance(leaf, torch.Tensor) else value_text(leaf)


def _is_close(value: object, wanted: object) -> bool:
    if not isinstance(value, torch.Tensor) or not isinstance(wanted, torch.Tensor):
        return type(value) is type(wanted) and value == wanted
    try:
        torch.testing.assert_close(value, wanted, equal_nan=True)
    except AssertionError:
        return False
    return True


def _difference(value: object, wanted: object) -> float | None:
    if not isinstance(value, torch.Tensor) or not isinstance(wanted, torch.Tensor) or value.shape != wanted.shape:
        return None
    if value.numel() == 0 or value.is_quantized or value.layout is not torch.strided:
        return None
    return float((value.to(torch.complex128) - wanted.to(torch.complex128)).abs().max())
