"""What a request names, made ready: the target imported with its edits, its calls found, both on
their device and in their dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial, reduce
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from ...facts.recording import BatchedTensor
from ..events import EventFile
from ..replay.arguments import InDtype, WithBatch, cast_module
from ..replay.leaves import Leaf
from ..replay.results import modules_of
from ..target.options import device_named, dtype_named, make_input, set_config
from ..target.overlay import lay_over
from ..target.snapshot import seed_everything
from ..target.targets import Call, Calls, Target, find_calls, find_target, import_target
from ..torch_private import torch_api, torch_config
from ..torch_private.torch_guards import leave_guards_untimed
from ..torch_private.torch_kernels import show_generated_kernels
from ..wire import ProbeRequest


def prepared(request: ProbeRequest, events: EventFile) -> tuple[Target, Calls]:
    """Import the target and find its calls."""
    if request["kernels"] or request["profile"] is not None:
        show_generated_kernels()
    if request["profile"] is not None:
        torch_config.generate_anew(request["profile"])
    seed_everything(request["seed"])
    device = device_named(request["device"])
    dtype = dtype_named(request["dtype"], device)
    for name, value in request["config"].items():
        set_config(name, value)
    plan = request["trial"] or {}
    is_start_timed = plan.get("is_start_timed")
    if plan.get("patches"):
        lay_over(plan["patches"])
    if plan.get("compiled"):
        # All that belongs to a start is timed with it.
        torch_config.compile_into(plan["compiled"], shares_checks=not is_start_timed)
    if plan and request["timing"] is None and not is_start_timed:
        leave_guards_untimed()
    events.phase("importing the target")
    module = import_target(request["file"], request["module"])
    events.phase("making the target")
    target = find_target(module, request["name"], is_call=request["is_call"])
    if isinstance(target.function, Module):
        if device is not None:
            target.function.to(device)
        if request["train"] is not None:
            target.function.train(request["train"])
    if dtype is not None:
        for used in modules_of(target.function).values():
            cast_module(used, dtype)
    seed_everything(request["seed"])
    inputs = request["inputs"]
    if inputs is not None:
        named = {name: make_input(spec) for name, spec in inputs["kwargs"].items()}
        inputs = tuple(map(make_input, inputs["args"])), named
    calls = find_calls(target, inputs)
    if torch_api.counters().get("frames"):
        # What the program compiled while it was imported would answer its calls, as if nothing were
        # compiled.
        torch.compiler.reset()
    changes: list[Callable[[Call], Call]] = []
    if dtype is not None:
        changes.append(InDtype(dtype, target.function))
    if request["batch"] is not None:

        def report(leaves: list[Leaf]) -> None:
            tensors = [BatchedTensor(expression=it.expression, path=repr(it.path)) for it in leaves]
            events.write("batch", tensors=tensors)

        changes.append(WithBatch(request["batch"], target.function, report))
    if device is not None:

        def move(leaf: Any) -> Any:
            return leaf.to(device) if isinstance(leaf, Tensor) else leaf

        changes.append(partial(torch_api.tree_map, move))

    def rounds() -> Iterator[Call]:
        for call in calls.rounds():
            yield reduce(lambda changed, change: change(changed), changes, call)

    return target, replace(calls, rounds=rounds)
