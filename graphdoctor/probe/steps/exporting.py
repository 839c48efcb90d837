"""Exports the target with ``torch.export``, and has the calls made with the program that comes
out.
"""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import re
import sys
from collections.abc import Mapping
from time import perf_counter
from traceback import FrameSummary, extract_tb
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.nn import Module

from ...facts.base import Fields
from ...facts.recording import ExportInput, NamedClass
from ..record.describe import value_text
from ..record.errors import message_of, type_name
from ..record.files import is_user_file
from ..record.listener import stack_entries
from ..record.streams import kept_texts
from ..replay.leaves import passed_arguments
from ..replay.results import modules_of
from ..target.snapshot import RandomState, State, seed_everything
from ..target.targets import Call, plain_function
from ..torch_private.torch_guards import asks_for_truth, exported_guards
from .calls import compare, make_calls
from .workload import Workload

_CLASS = re.compile(r"<class '(\w+(?:\.\w+)+)'>")
_VARIABLE = re.compile(r"UserDefined\w*Variable\((\w+)\)")
_MODEL = "model"

_Entries = list[Fields]
"""Lines of a stack, as ``StackEntry``."""


def export(workload: Workload) -> bool:
    """Export the target, make the calls with the result, and compare what they returned and
    wrote.
    """
    calls = workload.calls()
    trial = workload.trial
    is_complete = True
    assert trial is not None
    exporting = _Exporting(workload, trial.plan["export"])
    call = next(calls, None)
    workload.events.phase("exporting the target")
    if call is not None and exporting.run(call):
        with kept_texts() as texts:
            is_complete = make_calls(workload, itertools.chain((call,), calls))
        exporting.finish()
        if is_complete:
            compare(workload, trial, texts())
    workload.hooks.report_failures()
    return is_complete


class _Exporting:
    def __init__(self, workload: Workload, plan: Mapping[str, Any]) -> None:
        self._workload = workload
        self._is_strict = plan["is_strict"]
        self._function = function = workload.function
        self._is_wrapped = not isinstance(function, Module)
        # The modules that a function uses, whose parameters are the wrapper's then, by the names to
        # give them.
        self._parts = {
            _MODEL if name == "self" else name: module
            for name, module in (modules_of(function) if self._is_wrapped else {}).items()
        }
        self._module = Module() if self._is_wrapped else function
        for name, module in self._parts.items():
            self._module.add_module(name, module)
        if self._is_wrapped:
            self._module.forward = function

    def run(self, call: Call) -> bool:
        """Export the target with the arguments of a call, and have the calls made with the result;
        returns whether it could.
        """
        args, kwargs = call
        arguments = {"kwargs": kwargs or None, "strict": self._is_strict}
        state = State(self._function, call)
        random = RandomState()
        seed_everything(self._workload.request["seed"])
        program = None
        failure = None
        has_grad = torch.is_grad_enabled() and not self._workload.request["no_grad"]
        started = perf_counter()
        try:
            with torch.set_grad_enabled(has_grad):
                program = torch.export.export(self._module, args, **arguments)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - why torch refuses is the answer
            failure = self._failure(error)
        facts: Fields = {"op_count": None, "inputs": [], "constraints": []}
        seconds = perf_counter() - started
        if program is not None:
            targets = [node.target for node in program.graph.nodes if node.op.startswith("call_")]
            items = sum(getattr(target, "__name__", "") == "getitem" for target in targets)
            facts = {
                "op_count": len(targets) - items,
                "inputs": _inputs(program),
                "constraints": exported_guards(program),
            }
            self._workload.compiled = self._exported = program.module()
        state.restore()
        random.restore()
        self._workload.events.write(
            "export",
            is_strict=self._is_strict,
            is_wrapped=self._is_wrapped,
            seconds=seconds,
            line=self._line(call),
            failure=failure,
            **facts,
        )
        self._workload.listener.write_sources()
        return program is not None

    def finish(self) -> None:
        """After the calls: hand the state that the exported program changed to the target, whose
        state is compared.
        """
        module = self._module
        tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        with torch.no_grad():
            for name, value in self._exported.named_buffers():
                buffer = tensors.get(name)
                if buffer is None or buffer.shape != value.shape:
                    continue
                if buffer.data_ptr() != value.data_ptr():
                    buffer.copy_(value)
        if self._workload.alike is not None:
            self._workload.events.write("export_calls", self._workload.alike.calls())

    # What torch said.

    def _failure(self, error: BaseException) -> Fields:
        # What torch says before it runs the program, or after, is about no line of it.
        stack = _stack_of(error)
        trace = error.__traceback__
        entries = stack or self._definition()
        for entry in entries:
            self._workload.listener.want_source(entry["file"], entry["line"], entry["function"])
        return {
            "type": type_name(error),
            "message": message_of(error),
            "stack": entries,
            "is_at_line": bool(stack),
            "is_truth": trace is not None and asks_for_truth(trace, is_user_file),
            "classes": self._named_classes(message_of(error)),
        }

    def _definition(self) -> _Entries:
        """Return the first line of what is exported; none if it isn't Python of the program's."""
        function = plain_function(self._function)
        if function is None:
            return []
        # What a decorator wraps is what people wrote.
        code = getattr(inspect.unwrap(function), "__code__", function.__code__)
        line = code.co_filename, code.co_firstlineno, code.co_name
        return stack_entries([FrameSummary(*line, lookup_line=False)])

    def _named_classes(self, message: str) -> list[NamedClass]:
        """Classes that a message names; strict export names those of results without their
        module.
        """
        classes = {}
        function = plain_function(self._function)
        scope = {} if function is None else inspect.unwrap(function).__globals__
        paths = [path.rpartition(".") for path in _CLASS.findall(message)]
        for module, _, name in (*paths, *(("", "", name) for name in _VARIABLE.findall(message))):
            kind = getattr(sys.modules.get(module), name, None) if module else scope.get(name)
            if module.partition(".")[0] in ("torch", "builtins"):
                continue
            is_dataclass = isinstance(kind, type) and dataclasses.is_dataclass(kind)
            home = kind.__module__ if isinstance(kind, type) else module
            classes[name] = NamedClass(name=name, module=home, is_dataclass=is_dataclass)
        return list(classes.values())

    # Python that does the same.

    def _line(self, call: Call) -> str:
        args, kwargs = call
        names = [name for _, name, _ in passed_arguments(call, self._function)][: len(args)]
        name = "wrapper" if self._is_wrapped else _MODEL
        parts = [name, f"({', '.join(names)}{',' * (len(names) == 1)})"]
        if kwargs:
            parts.append("{" + ", ".join(f'"{key}": {key}' for key in kwargs) + "}")
        parts.append(f"strict={self._is_strict}")
        lines = []
        if self._is_wrapped:
            lines.append("wrapper = torch.nn.Module()")
            lines += (f"wrapper.{name} = {name}" for name in self._parts)
            is_method = getattr(self._function, "__self__", None) is not None
            called = getattr(self._function, "__name__", "function")
            lines.append(f"wrapper.forward = {f'{_MODEL}.' * is_method}{called}")
        return "\n".join([*lines, f"program = torch.export.export({', '.join(parts)})"])


def _stack_of(error: BaseException) -> _Entries:
    """Return the stack from the program's first line on; that of what Dynamo was tracing, where
    Python's has none.
    """
    for summaries in (extract_tb(error.__traceback__), getattr(error, "real_stack", None) or ()):
        entries = stack_entries(summaries)
        while entries and not is_user_file(entries[0]["file"]):
            del entries[0]
        if entries:
            return entries
    return []


def _inputs(program: ExportedProgram) -> list[ExportInput]:
    placeholders = (node for node in program.graph.nodes if node.op == "placeholder")
    values = {node.name: node.meta.get("val") for node in placeholders}
    inputs = []
    for spec in program.graph_signature.input_specs:
        name = str(spec.arg.name)
        value = values.get(spec.arg.name)
        inputs.append(
            ExportInput(
                name=name,
                kind=str(spec.kind.name).lower(),
                target=None if spec.target is None else str(spec.target),
                value=None if value is None else value_text(value),
            )
        )
    return inputs
