"""The compiled target and its calls."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Literal

import torch

from ...facts.recording import RepeatedBlocks
from ...facts.run import Phase
from ...facts.trials import CompilerPartKind
from ..events import EventFile
from ..measure.guard_cost import CompiledCode
from ..measure.timing import Activity
from ..record.backend import GraphRuns, InstrumentedBackend
from ..record.codegen import CodegenRecorder
from ..record.compile_calls import block_root, target_root
from ..record.errors import RequestError, TargetError
from ..record.files import ProgramFiles, user_file_test
from ..record.guards import RecompileRecorder
from ..record.listener import TraceListener
from ..record.reports import CompileSwitches, Gap, hooking, unrecorded_gap
from ..record.streams import silence
from ..replay.leaves import AlikeCalls
from ..replay.trial import Trial
from ..target.options import check_compile_arguments
from ..target.regions import Blocks, CompiledRegions, compile_regions, described, repeated_blocks
from ..target.snapshot import seed_everything
from ..target.targets import Call, Calls, Target, backward, forget_gradients, forward, lacks_batch, set_up, signature_of
from ..torch_private import torch_api, torch_inductor, torch_trace
from ..torch_private.torch_codegen import CodegenWatch, PartitionWatch
from ..torch_private.torch_cuda_graphs import CudaGraphWatch, asks_for_cuda_graphs
from ..torch_private.torch_trace import TraceKeeper
from ..wire import ProbeRequest


class Workload:
    """Compiles a target with the instrumented backend, and makes calls."""

    def __init__(self, request: ProbeRequest, events: EventFile, target: Target, calls: Calls) -> None:
        self._request = request
        self._events = events
        self.activity = Activity(0, 0)
        self.function: Any = target.function
        """The target, not compiled."""
        self.last_call: Call | None = None
        self.changes = request["dtype"], request["batch"]
        self.has_fresh_calls = calls.is_fresh
        """``calls`` makes new arguments each time."""
        self._output: object = None
        self._is_batch_checked = False
        self._target = target
        self._calls = calls
        # Found before any of them is compiled.
        self._blocks: Blocks = {}
        self._described_blocks: list[RepeatedBlocks] | None = None
        if isinstance(target.function, torch.nn.Module):
            self._blocks = repeated_blocks(target.function)
            self._described_blocks = described(self._blocks)
        # Attached after the user's import: a program that resets torch's logging there keeps us.
        self.listener = self._attach_listener()
        self.keeper = TraceKeeper(self.listener)
        with hooking(events, "compiles after a change of torch's trace logger"):
            self.keeper.install()
        self.recompiles = RecompileRecorder(user_file_test(), self.listener.want_source, self.listener.want_file)
        if (lost := self.recompiles.install()) is not None:
            events.gap("recompile_causes", lost)
        self.compiled_code = CompiledCode() if request["guard_cost"] else None
        self.runs = GraphRuns()
        self.switches = CompileSwitches(events)
        plan = request["trial"]
        self.trial = Trial(plan, target.function) if plan else None
        self._is_compiled = self.trial is None or self.trial.is_compiled
        self.alike: AlikeCalls | None = None
        self._peeked: Iterator[Call] | None = None
        if self.trial is not None:
            if self.trial.alike is not None:
                self.alike = AlikeCalls(self.trial.alike, self.trial.signature)
            self._prepare_trial(self.trial)
        self._regions: CompiledRegions | None = None
        self._watch_compiler()
        try:
            self.compiled = self._compile()
        except TargetError:
            self.close()
            raise
        self.description = self._describe()

    def close(self) -> None:
        """Remove everything from torch, and release the program's objects.

        torch keeps the backend of a compile that failed, through ``torch.compiler.reset`` too (2.13), and so us.
        """
        self.last_call = self._output = self.compiled = None
        if self._regions is not None:
            self._regions.switch_off()
        self.keeper.uninstall()
        torch_api.trace_logger().removeHandler(self.listener)
        self.recompiles.uninstall()
        for watch in (self.cuda_graphs, self.compiled_code, self.codegen, self._partitions):
            if watch is not None:
                watch.close()

    def _watch_compiler(self) -> None:
        request = self._request
        has_cuda_graphs = asks_for_cuda_graphs(request["backend"], request["mode"], request["options"])
        self.cuda_graphs = CudaGraphWatch() if self._is_compiled and has_cuda_graphs else None
        self._partitions: PartitionWatch | None = None
        if request["profile"]:
            with hooking(self._events, "which tensors are kept for the backward pass"):
                self._partitions = PartitionWatch()
        self.code = CodegenRecorder(self.listener.want_file, self._partitions)
        self.codegen: CodegenWatch | None = None
        if request["profile"] or request["stages"]:
            with hooking(self._events, "which operations are in which kernel"):
                self.codegen = CodegenWatch(self.code.record)

    def _prepare_trial(self, trial: Trial) -> None:
        trial.prepare()
        if trial.setup is not None:
            set_up(trial.setup)

        def report_part(kind: CompilerPartKind, name: str) -> None:
            self._events.write("part", kind=kind, name=name)

        try:
            if trial.without is not None:
                torch_inductor.leave_out(trial.without, report_part)
            if trial.minifier is not None:
                torch_inductor.wait_for_graph(**trial.minifier)
        except (ImportError, AttributeError) as error:
            raise TargetError(f"this torch can't be asked where it fails: {error}") from error

    def _attach_listener(self) -> TraceListener:
        # A trial's changes are in its own files; nobody reads its picture.
        files = ProgramFiles(self._target.file, has_texts=not self._request["trial"])
        listener = TraceListener(self._on_compile, files, on_limit=self._on_limit)
        torch_trace.listen(listener)
        # Even if no record points to it: the target file may only make a package's model.
        if self._target.file is not None:
            listener.want_file(self._target.file)
        target = self._target
        root = target_root(target.function, target.name, target.kind, target.file)
        if root is not None:
            listener.roots.add(root)
            for found in self._blocks.values() if self._request["regional"] else ():
                for block in found:
                    listener.roots.add(block_root(root, block.path, block.module))
        return listener

    def _on_compile(self, compile_id: str | None) -> None:
        if compile_id is None:
            self._events.step(None)
            return
        self.activity = self.activity._replace(compiles=self.activity.compiles + 1)
        if self._request["stages"]:
            # Each time, because the second of two equal graphs would come from the cache too.
            torch_inductor.miss_caches()
        self._events.step(f"compiling {compile_id}")

    def _on_limit(self) -> None:
        self.activity = self.activity._replace(limits=self.activity.limits + 1)

    def _compile(self) -> Any:  # noqa: ANN401
        request = self._request
        if not self._is_compiled:
            return self.function
        check_compile_arguments(request["backend"], request["mode"], request["options"])
        try:
            inner = torch_api.backend_function(
                request["backend"],
                mode=request["mode"],
                options=request["options"] or None,
                dynamic=request["dynamic"],
            )
        except (RuntimeError, ValueError, TypeError) as error:
            raise RequestError("refused_compile_arguments", error=str(error)) from error
        is_watched = request["coverage"] or request["lanes"]
        arguments: dict[str, Any] = {
            "backend": InstrumentedBackend(
                request["backend"], inner, self.runs if is_watched else None, self.listener.want_file
            ),
            "dynamic": request["dynamic"],
            "fullgraph": request["fullgraph"],
        }
        if request["regional"]:
            self._regions = compile_regions(self.function, **arguments)
            return self.function
        return torch.compile(self.function, **arguments)

    def _describe(self) -> dict[str, object]:
        """What the target turned out to be: fields of ``TargetInfo``."""
        function = self.function
        named = type(function) if isinstance(function, torch.nn.Module) else function
        signature = signature_of(function)
        return {
            "name": self._target.name,
            "kind": self._target.kind,
            "class_name": getattr(named, "__qualname__", type(named).__qualname__),
            "file": self._target.file,
            "parameters": None if signature is None else list(signature.parameters),
            "inputs_from": self._calls.origin,
            "blocks": self._described_blocks,
        }

    def calls(self) -> Iterator[Call]:
        """The calls in order, each prepared just before its turn: a generator may change state in between."""
        peeked, self._peeked = self._peeked, None
        yield from self._made() if peeked is None else peeked

    def peek(self) -> Call | None:
        """The first call, which ``calls`` still yields; None if there is none."""
        calls = self._made()
        first = next(calls, None)
        self._peeked = itertools.chain(() if first is None else (first,), calls)
        return first

    def _made(self) -> Iterator[Call]:
        for _ in range(self._request["calls"]):
            for args, kwargs in self._calls.rounds():
                if self.alike is not None and not self.alike.keeps((args, kwargs)):
                    continue
                self.last_call = args, kwargs
                yield self.last_call

    def call(self, call: Call) -> None:
        """Make one call of the compiled target, and run backward when asked to."""
        if self.trial is None:
            self._make(call)
            return
        call = self.trial.changed(call)
        self.last_call = call
        if self.trial.timing is None:
            self.trial.begin_call(call)
        with self.trial.seeded(self._request["seed"]):
            self._make(call)

    def _make(self, call: Call) -> None:
        self._output = self.forward(call)
        if (size := self._request["batch"]) is not None and not self._is_batch_checked:
            self._is_batch_checked = True
            if lacks_batch(self._output, size):
                message = f"Whether the calls have a batch of {size}: nothing that the first returned has such a size."
                self._events.gap("batch", message)
        if self._request["backward"]:
            backward(self._output)
            if self.trial is None:
                forget_gradients(self.function)

    @property
    def is_decided(self) -> bool:
        """The results of a trial's last call decide it, so that no more are made."""
        return self.trial is not None and self.trial.is_decided

    def keep_results(self) -> None:
        """In a trial, keep the results of the last call."""
        if self.trial is not None and self.trial.timing is None:
            self.trial.end_call(self._output, has_backward=self._request["backward"])
            if self._request["backward"]:
                forget_gradients(self.function)
        self._output = None

    def warm_up(self) -> None:
        """Make all calls once if the trial wants it; parameters and buffers are restored afterwards."""
        if self.trial is None or not self.trial.has_warm_up:
            return
        module = self.function if isinstance(self.function, torch.nn.Module) else None
        state = {name: value.clone() for name, value in module.state_dict().items()} if module is not None else {}
        with self.repeating("warming up"):
            for call in self.calls():
                seed_everything(self._request["seed"])
                self.forward(call)
        if module is not None:
            module.load_state_dict(state)

    def forward(self, call: Call, *, is_eager: bool = False) -> Any:  # noqa: ANN401
        """Make a call, or the same without torch.compile, without its backward pass; what it returns."""
        no_grad = self._request["no_grad"]
        if not is_eager:
            return forward(self.compiled, call, no_grad=no_grad)
        # Compiled regions are in the target itself.
        if self._regions is not None:
            self._regions.switch_off()
        try:
            return forward(self.function, call, no_grad=no_grad)
        finally:
            if self._regions is not None:
                self._regions.switch_on()

    def make_again(self, call: Call, *, is_eager: bool = False, backward_range: str | None = None) -> None:
        """Repeat a call with its backward pass where asked for, and keep nothing of it."""
        output = self.forward(call, is_eager=is_eager)
        if self._request["backward"]:
            with nullcontext() if backward_range is None else torch.profiler.record_function(backward_range):
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

    def unrecorded(self) -> Gap | None:
        """What torch left to eager mode without a record of it, or None."""
        if not self._is_compiled:
            return None
        if reasons := torch_api.unrecorded_breaks():
            return unrecorded_gap(reasons)
        if self.activity.compiles or self.last_call is None or self.switches.are_found:
            return None
        return (
            "nothing_compiled",
            "torch.compile compiled nothing and gave no reason: it skips calls without a tensor, functions under "
            "torch.compiler.disable, and code made by exec().",
        )

    @contextmanager
    def repeating(self, phase: Phase) -> Iterator[None]:
        """Mark repetitions of ours; what the program prints meanwhile is dropped."""
        self._events.phase(phase)
        self.mark("start", None)
        try:
            with silence():
                yield
        finally:
            self.mark("end", None)

    def mark(self, event: Literal["start", "end"], index: int | None, **known: object) -> None:
        """Write into the trace where a call starts or ends; without a number, a repetition of ours."""
        self.keeper.restore()
        torch_api.write_artifact("graphdoctor_call", {"event": event, "index": index, **known})
