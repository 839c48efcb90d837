"""The compiled target and its calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Literal, TypeVar

import torch

from ...facts.recording import GapKind
from ...facts.run import Phase
from ..events import EventFile
from ..measure.guard_cost import CompiledCode
from ..measure.timing import Activity
from ..record.codegen import CodegenRecorder
from ..record.compile_calls import block_root, target_root
from ..record.errors import TargetError, type_name
from ..record.files import ProgramFiles
from ..record.hooks import Hooks
from ..record.listener import TraceListener
from ..record.reports import CompileSwitches, hooking, unrecorded_gap
from ..record.streams import silence
from ..replay.leaves import AlikeCalls
from ..replay.trial import Trial
from ..target.regions import CompiledRegions, compile_target, described, repeated_blocks
from ..target.snapshot import RandomState, State
from ..target.targets import (
    Call,
    Calls,
    Target,
    backward,
    forget_gradients,
    forward,
    lacks_batch,
    parameters_of,
)
from ..torch_private import torch_api, torch_inductor
from ..torch_private.torch_codegen import CodegenWatch, PartitionWatch
from ..torch_private.torch_cuda_graphs import CudaGraphWatch, asks_for_cuda_graphs
from ..torch_private.torch_hooks import GraphGlobals
from ..wire import ProbeRequest

_Found = TypeVar("_Found")

Complain = Callable[[str], object]
"""Prints an error of the program's."""


class UnmeasuredError(Exception):
    """Something can't be measured; the message, the end of a sentence, says why."""


class Workload:
    """Compiles a target, and makes calls."""

    def __init__(
        self,
        request: ProbeRequest,
        events: EventFile,
        complain: Complain,
        target: Target,
        calls: Calls,
    ) -> None:
        self.request, self.events, self.complain = request, events, complain
        self._target, self._calls = target, calls
        self.function: Any = target.function
        """The target, not compiled."""
        self.activity = Activity(0, 0)
        self.durations_s: list[float] = []
        """Of the calls that came back."""
        self.last_call: Call | None = None
        self.has_fresh_calls = calls.is_fresh
        """``calls`` makes new arguments each time."""
        self._output: object = None
        self._is_batch_checked = False
        # Found before any of them is compiled.
        self._blocks = repeated_blocks(target.function)
        events.write("target", **self._described())
        # Attached after the user's import: a program that resets torch's logging there keeps us.
        # A trial's changes are in its own files; nobody reads its picture.
        files = ProgramFiles(target.file, has_texts=not request["trial"])
        self.listener = TraceListener(self._on_compile, files, on_limit=self._on_limit)
        self.hooks = Hooks(events, self.listener)
        self.hooks.install()
        self._add_roots()
        self.compiled_code = CompiledCode() if request["guard_cost"] else None
        self.switches = CompileSwitches(events)
        plan = request["trial"]
        self.trial = Trial(plan, target.function) if plan else None
        self.is_compiled = self.trial is None or self.trial.is_compiled
        self.alike: AlikeCalls | None = None
        if self.trial is not None:
            if plan.get("alike") is not None:
                self.alike = AlikeCalls()
            self.trial.prepare(events)
        self.compiled: Any = self.function
        self._regions: CompiledRegions | None = None
        self._watch_compiler()
        try:
            if self.is_compiled:
                self.compiled, self._regions = compile_target(self.function, request)
        except TargetError:
            self.close()
            raise

    def close(self) -> None:
        """Remove everything from torch, and release the program's objects.

        torch keeps the backend of a compile that failed, through ``torch.compiler.reset`` too
        (2.13), and so us.
        """
        self.last_call = self._output = self.compiled = None
        if self._regions is not None:
            self._regions.switch_off()
        self.hooks.close()
        for watch in (
            self.graphs,
            self.cuda_graphs,
            self.compiled_code,
            self.codegen,
            self._partitions,
        ):
            if watch is not None:
                watch.close()

    def _described(self) -> dict[str, object]:
        """What the target turned out to be: fields of ``TargetInfo``."""
        function = self.function
        is_module = isinstance(function, torch.nn.Module)
        named = type(function) if is_module else function
        return {
            "name": self._target.name,
            "kind": self._target.kind,
            "class_name": getattr(named, "__qualname__", type(named).__qualname__),
            "file": self._target.file,
            **parameters_of(function),
            "inputs_from": self._calls.origin,
            "blocks": described(self._blocks) if is_module else None,
        }

    def _add_roots(self) -> None:
        target, listener = self._target, self.listener
        # Even if no record points to it: the target file may only make a package's model.
        if target.file is not None:
            listener.want_file(target.file)
        root = target_root(target.function, target.name, target.kind, target.file)
        if root is not None:
            listener.roots.add(root)
            for found in self._blocks.values() if self.request["regional"] else ():
                for block in found:
                    listener.roots.add(block_root(root, block.path, block.module))

    def _watch_compiler(self) -> None:
        request = self.request
        self.graphs: GraphGlobals | None = None
        """Of the compiled graphs, where their runs are to be watched."""
        if request["coverage"] or request["lanes"]:
            with hooking(self.events, "how much of a call runs in graphs"):
                self.graphs = GraphGlobals(lambda: self.hooks.graphs.latest)
        has_cuda_graphs = asks_for_cuda_graphs(
            request["backend"], request["mode"], request["options"]
        )
        self.cuda_graphs = CudaGraphWatch() if self.is_compiled and has_cuda_graphs else None
        self._partitions: PartitionWatch | None = None
        if request["profile"]:
            with hooking(self.events, "which tensors are kept for the backward pass"):
                self._partitions = PartitionWatch()
        self.code = CodegenRecorder(self.listener.want_file, self._partitions)
        self.codegen: CodegenWatch | None = None
        if request["profile"] or request["stages"]:
            with hooking(self.events, "which operations are in which kernel"):
                self.codegen = CodegenWatch(self.code.record)

    def _on_compile(self, compile_id: str | None) -> None:
        if compile_id is None:
            self.events.step(None)
            return
        self.activity = self.activity._replace(compiles=self.activity.compiles + 1)
        if self.request["stages"]:
            # Each time, because the second of two equal graphs would come from the cache too.
            torch_inductor.miss_caches()
        self.events.step(f"compiling {compile_id}")

    def _on_limit(self) -> None:
        self.activity = self.activity._replace(limits=self.activity.limits + 1)

    def calls(self) -> Iterator[Call]:
        """The calls in order, each prepared just before its turn: a generator may change state in
        between.
        """
        for _ in range(self.request["calls"]):
            for call in self._calls.rounds():
                if self.alike is None or self.alike.keeps(call):
                    self.last_call = call
                    yield call

    def call(self, call: Call, *, is_eager: bool = False, draw: int = 0) -> None:
        """Make one call of the compiled target, or of the target itself, and run backward when
        asked to.

        In a trial, calls with the same ``draw`` draw the same random numbers.
        """
        if self.trial is None:
            self._make(call, is_eager=is_eager)
            return
        self.last_call = call = self.trial.changed(call)
        self.trial.begin_call(call)
        with self.trial.seeded(self.request["seed"] + draw):
            self._make(call, is_eager=is_eager)

    def _make(self, call: Call, *, is_eager: bool) -> None:
        self._output = self.forward(call, is_eager=is_eager)
        if (size := self.request["batch"]) is not None and not self._is_batch_checked:
            self._is_batch_checked = True
            if lacks_batch(self._output, size):
                message = f"Whether the calls have a batch of {size}: nothing that the first returned has such a size."
                self.events.gap("batch", message)
        if self.request["backward"]:
            backward(self._output)
            if self.trial is None:
                forget_gradients(self.function)

    def keep_results(self) -> None:
        """In a trial, keep the results of the last call."""
        if self.trial is not None:
            self.trial.end_call(self._output, has_backward=self.request["backward"])
            if self.request["backward"]:
                forget_gradients(self.function)
        self._output = None

    def warm_up(self) -> None:
        """Make all calls once if the trial wants it; what they change is restored afterwards."""
        if self.trial is None or not self.trial.plan.get("warm_up"):
            return
        state = State(self.function)
        # The calls that follow are to be made of the same random numbers as without it.
        with self.repeating("warming up"), RandomState():
            for draw, call in enumerate(self.calls()):
                with self.trial.seeded(self.request["seed"] + draw):
                    self.forward(call)
        state.restore()

    def forward(self, call: Call, *, is_eager: bool = False) -> Any:
        """Make a call, or the same without torch.compile, without its backward pass; what it
        returns.
        """
        no_grad = self.request["no_grad"]
        if not is_eager:
            return forward(self.compiled, call, no_grad=no_grad)
        # Compiled regions are in the target itself.
        with nullcontext() if self._regions is None else self._regions.off():
            return forward(self.function, call, no_grad=no_grad)

    def make_again(
        self, call: Call, *, is_eager: bool = False, backward_range: str | None = None
    ) -> None:
        """Repeat a call with its backward pass where asked for, and keep nothing of it."""
        output = self.forward(call, is_eager=is_eager)
        if self.request["backward"]:
            with (
                nullcontext()
                if backward_range is None
                else torch.profiler.record_function(backward_range)
            ):
                backward(output)
            forget_gradients(self.function)

    def error_of(self, call: Call, *, is_eager: bool = False) -> BaseException | None:
        """What a call raises, or None when it works."""
        try:
            self.make_again(call, is_eager=is_eager)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - what it raises is the answer
            return error
        return None

    def report_unrecorded(self) -> None:
        """Report what torch left to eager mode without a record of it."""
        if not self.is_compiled:
            return
        if reasons := torch_api.unrecorded_breaks():
            self.events.gap(*unrecorded_gap(reasons))
        elif (
            not self.activity.compiles
            and self.last_call is not None
            and not self.switches.are_found
        ):
            self.events.gap(
                "nothing_compiled",
                "torch.compile compiled nothing and gave no reason: it skips calls without a tensor, functions under "
                "torch.compiler.disable, and code made by exec().",
            )

    def repeated(
        self, kind: GapKind, phase: Phase, failed: str, make: Callable[[Call], _Found]
    ) -> _Found | None:
        """What is made of repeating the last call; a gap and None where that can't be done.

        It is an extra, whose failure must not lose the report.
        """
        reason = "no call was made"
        try:
            if (call := self.last_call) is not None:
                with self.repeating(phase):
                    return make(call)
        except UnmeasuredError as error:
            reason = str(error)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - see the docstring
            reason = f"repeating the last call raised {type_name(error)}"
        self.events.gap(kind, f"{failed}: {reason}.")
        return None

    @contextmanager
    def repeating(self, phase: Phase) -> Iterator[None]:
        """Mark repetitions of ours; what the program prints meanwhile is dropped."""
        self.events.phase(phase)
        self.mark("start", None)
        try:
            with silence():
                yield
        finally:
            self.mark("end", None)

    def mark(self, event: Literal["start", "end"], index: int | None, **known: object) -> None:
        """Write into the trace where a call starts or ends; without a number, a repetition of
        ours.
        """
        self.hooks.keeper.restore()
        torch_api.write_artifact("graphdoctor_call", {"event": event, "index": index, **known})
