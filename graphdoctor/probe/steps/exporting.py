"""Exports the target with ``torch.export``, and has the calls made with the program that comes
out.
"""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import re
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.export import ExportedProgram

from ...facts.recording import ExportInput, NamedClass
from ..record.describe import value_text
from ..record.errors import message_of, type_name
from ..record.files import is_user_file
from ..record.listener import stack_entries
from ..record.streams import kept_texts
from ..replay.leaves import given
from ..replay.results import modules_of
from ..target.snapshot import RandomState, State, seed_everything
from ..target.targets import Call, plain_function
from ..torch_private import torch_export
from .calls import compare, make_calls
from .workload import Workload

_CLASS = re.compile(r"<class '(\w+(?:\.\w+)+)'>")
_VARIABLE = re.compile(r"UserDefined\w*Variable\((\w+)\)")
_MODEL = "model"


def export(workload: Workload) -> bool:
    """Export the target, make the calls with the result, and compare what they returned and
    wrote.
    """
    calls, trial, is_complete = workload.calls(), workload.trial, True
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
        self._is_wrapped = not isinstance(function, torch.nn.Module)
        self._module = torch.nn.Module() if self._is_wrapped else function
        if self._is_wrapped:
            for name, module in _parts(function).items():
                self._module.add_module(name, module)
            self._module.forward = function

    def run(self, call: Call) -> bool:
        """Export the target with the arguments of a call, and have the calls made with the result;
        whether it could.
        """
        args, kwargs = call
        arguments: dict[str, Any] = {"kwargs": kwargs or None, "strict": self._is_strict}
        state, random = State(self._function, call), RandomState()
        seed_everything(self._workload.request["seed"])
        program, failure = None, None
        started = time.perf_counter()
        try:
            with torch.set_grad_enabled(
                torch.is_grad_enabled() and not self._workload.request["no_grad"]
            ):
                program = torch.export.export(self._module, args, **arguments)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - why torch refuses is the answer
            failure = self._failure(error)
        found: dict[str, object] = {"op_count": None, "inputs": [], "constraints": []}
        seconds = time.perf_counter() - started
        if program is not None:
            nodes = (node for node in program.graph.nodes if node.op.startswith("call_"))
            found = {
                "op_count": sum(
                    getattr(node.target, "__name__", "") != "getitem" for node in nodes
                ),
                "inputs": _inputs(program),
                "constraints": torch_export.guards_of(program),
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
            **found,
        )
        self._workload.listener.write_sources()
        return program is not None

    def finish(self) -> None:
        """After the calls: hand the state that the exported program changed to the target, whose
        state is compared.
        """
        module = self._module
        theirs = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        with torch.no_grad():
            for name, value in self._exported.named_buffers():
                own = theirs.get(name)
                if (
                    own is not None
                    and own.shape == value.shape
                    and own.data_ptr() != value.data_ptr()
                ):
                    own.copy_(value)
        if self._workload.alike is not None:
            self._workload.events.write("export_calls", self._workload.alike.found())

    # What torch said.

    def _failure(self, error: BaseException) -> dict[str, object]:
        # What torch says before it runs the program, or after, is about no line of it.
        stack = self._stack_of(error)
        trace = error.__traceback__
        return {
            "type": type_name(error),
            "message": message_of(error),
            "stack": self._known(stack or self._definition()),
            "is_at_line": bool(stack),
            "is_truth": trace is not None and torch_export.asks_for_truth(trace, is_user_file),
            "classes": self._named_classes(message_of(error)),
        }

    def _stack_of(self, error: BaseException) -> list[dict[str, Any]]:
        """The stack from the program's first line on; that of what Dynamo was tracing, where
        Python's has none.
        """
        for summaries in (
            traceback.extract_tb(error.__traceback__),
            getattr(error, "real_stack", None) or (),
        ):
            outside = itertools.dropwhile(
                lambda entry: not is_user_file(entry["file"]), stack_entries(summaries)
            )
            if entries := list(outside):
                return entries
        return []

    def _definition(self) -> list[dict[str, Any]]:
        """The first line of what is exported; none if it isn't Python of the program's."""
        function = plain_function(self._function)
        if function is None:
            return []
        # What a decorator wraps is what people know.
        code = getattr(inspect.unwrap(function), "__code__", function.__code__)
        summary = traceback.FrameSummary(
            code.co_filename, code.co_firstlineno, code.co_name, lookup_line=False
        )
        return stack_entries([summary])

    def _known(self, entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for entry in entries:
            self._workload.listener.want_source(entry["file"], entry["line"], entry["function"])
        return entries

    def _named_classes(self, message: str) -> list[NamedClass]:
        """Classes that a message names; strict export names those of results without their
        module.
        """
        found: dict[str, NamedClass] = {}
        function = plain_function(self._function)
        around = {} if function is None else inspect.unwrap(function).__globals__
        named = [path.rpartition(".") for path in _CLASS.findall(message)]
        for module, _, name in (*named, *(("", "", name) for name in _VARIABLE.findall(message))):
            kind = getattr(sys.modules.get(module), name, None) if module else around.get(name)
            if module.partition(".")[0] in ("torch", "builtins") and module:
                continue
            is_dataclass = isinstance(kind, type) and dataclasses.is_dataclass(kind)
            home = kind.__module__ if isinstance(kind, type) else module
            found[name] = NamedClass(name=name, module=home, is_dataclass=is_dataclass)
        return list(found.values())

    # Python that does the same.

    def _line(self, call: Call) -> str:
        args, kwargs = call
        names = [name for _, name, _ in given(call, self._function)][: len(args)]
        name = "wrapper" if self._is_wrapped else _MODEL
        parts = [name, f"({', '.join(names)}{',' * (len(names) == 1)})"]
        if kwargs:
            parts.append("{" + ", ".join(f'"{key}": {key}' for key in kwargs) + "}")
        parts.append(f"strict={self._is_strict}")
        before = "\n".join(_wrapping(self._function)) + "\n" if self._is_wrapped else ""
        return f"{before}program = torch.export.export({', '.join(parts)})"


def _parts(function: Any) -> dict[str, torch.nn.Module]:
    """The modules that a function uses, whose parameters are the wrapper's then, by the names to
    give them.
    """
    return {
        _MODEL if name == "self" else name: module for name, module in modules_of(function).items()
    }


def _wrapping(function: Any) -> Iterator[str]:
    yield "wrapper = torch.nn.Module()"
    yield from (f"wrapper.{name} = {name}" for name in _parts(function))
    called = getattr(function, "__name__", "function")
    owner = getattr(function, "__self__", None)
    yield (
        f"wrapper.forward = {_MODEL}.{called}"
        if owner is not None
        else f"wrapper.forward = {called}"
    )


def _inputs(program: ExportedProgram) -> list[ExportInput]:
    values = {
        node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"
    }
    return [
        ExportInput(
            name=str(spec.arg.name),
            kind=str(spec.kind.name).lower(),
            target=None if spec.target is None else str(spec.target),
            value=None if values.get(spec.arg.name) is None else value_text(values[spec.arg.name]),
        )
        for spec in program.graph_signature.input_specs
    ]
