"""The compiled target and its calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Literal, TypeVar

from torch.nn import Module
from torch.profiler import record_function

from ...facts.counts import EagerReason
from ...facts.recording import GapKind, Repeats
from ...facts.run import Phase
from ..events import EventFile
from ..measure.eager_calls import EagerCalls
from ..measure.guard_cost import CompiledCode
from ..measure.timing import Activity
from ..record.errors import TargetError, type_name
from ..record.files import ProgramFiles
from ..record.graphs import CodegenRecorder
from ..record.listener import TraceListener, target_root
from ..record.reports import CompileSwitches, Hooks, hooking, unrecorded_gap
from ..record.streams import silence
from ..replay.leaves import AlikeCalls
from ..replay.trial import Trial
from ..target.options import CompiledRegions, compile_target, described_blocks, repeated_blocks
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
from ..torch_private.torch_api import stance, unrecorded_breaks, write_artifact
from ..torch_private.torch_codegen import CodegenWatch, PartitionWatch
from ..torch_private.torch_config import miss_caches
from ..torch_private.torch_hooks import GraphGlobals
from ..torch_private.torch_kernels import CudaGraphWatch, asks_for_cuda_graphs
from ..wire import ProbeRequest

_Measured = TypeVar("_Measured")

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
        self._calls = calls
        self.function: Any = target.function
        """The target, not compiled."""
        self.activity = Activity(0, 0)
        self._watched_call: int | None = None
        self.eager_calls = EagerCalls(self._place)
        self.durations_s: list[float] = []
        """Of the calls that came back."""
        self.last_call: Call | None = None
        self.repeats: Repeats | None = None
        self.restore: Callable[[], object] = lambda: None
        """Puts back what a steady call changes in its arguments."""
        self._output: object = None
        self._is_batch_checked = False
        # Before any of them is compiled.
        blocks = repeated_blocks(target.function)
        is_module = isinstance(target.function, Module)
        named = type(target.function) if is_module else target.function
        events.write(
            "target",
            name=target.name,
            kind=target.kind,
            class_name=getattr(named, "__qualname__", type(named).__qualname__),
            file=target.file,
            **parameters_of(target.function),
            inputs_from=calls.origin,
            blocks=described_blocks(blocks) if is_module else None,
        )
        # Attached after the user's import: a program that resets torch's logging there keeps us.
        # A trial's changes are in its own files; nobody reads its picture.
        files = ProgramFiles(target.file, has_texts=not request["trial"])
        self.listener = TraceListener(self._on_compile, files, on_limit=self._on_limit)
        self.hooks = Hooks(events, self.listener)
        self.hooks.install()
        # Even if no record points to it: the target file may only make a package's model.
        if target.file is not None:
            self.listener.want_file(target.file)
        root = target_root(target.function, target.name, target.kind, target.file)
        if root is not None:
            self.listener.add_root(root)
            for members in blocks.values() if request["regional"] else ():
                for block in members:
                    self.listener.add_root(root.block(block.path, block.module))
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

    def _watch_compiler(self) -> None:
        request = self.request
        events = self.events
        self.graphs: GraphGlobals | None = None
        """Of the compiled graphs, where their runs are to be watched."""
        if request["coverage"] or request["lanes"]:
            with hooking(events, "how much of a call runs in graphs"):
                self.graphs = GraphGlobals(lambda: self.hooks.graphs.latest)
        self.cuda_graphs: CudaGraphWatch | None = None
        arguments = request["backend"], request["mode"], request["options"]
        if asks_for_cuda_graphs(*arguments) and self.is_compiled:
            self.cuda_graphs = CudaGraphWatch()
        self._partitions: PartitionWatch | None = None
        if request["profile"]:
            with hooking(events, "which tensors are kept for the backward pass"):
                self._partitions = PartitionWatch()
        self.code = CodegenRecorder(self.listener.want_file, self._partitions)
        self.codegen: CodegenWatch | None = None
        if request["profile"] or request["stages"]:
            with hooking(events, "which operations are in which kernel"):
                self.codegen = CodegenWatch(self.code.record)

    def close(self) -> None:
        """Remove everything from torch, and release the program's objects.

        torch keeps the backend of a compile that failed, through ``torch.compiler.reset`` too
        (2.13), and so us.
        """
        self.last_call = self._output = self.compiled = None
        if self._regions is not None:
            self._regions.switch_off()
        self.hooks.close()
        self.eager_calls.close()
        watches = (self.graphs, self.cuda_graphs, self.compiled_code, self.codegen)
        for watch in (*watches, self._partitions):
            if watch is not None:
                watch.close()

    def _on_compile(self, compile_id: str | None) -> None:
        if compile_id is None:
            self.events.step(None)
            return
        self.eager_calls.on_compile(compile_id)
        self.activity = self.activity._replace(compiles=self.activity.compiles + 1)
        if self.request["stages"]:
            # Each time, because the second of two equal graphs would come from the cache too.
            miss_caches()
        self.events.step(f"compiling {compile_id}")

    def _on_limit(self) -> None:
        self.eager_calls.on_limit()
        self.activity = self.activity._replace(limits=self.activity.limits + 1)

    def calls(self) -> Iterator[Call]:
        """Yield the calls in order, each prepared just before its turn: a generator may change
        state in between.
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
                what = "nothing that the first returned has such a size."
                self.events.gap("batch", f"Whether the calls have a batch of {size}: {what}")
        if self.request["backward"]:
            backward(self._output)
            if self.trial is None:
                forget_gradients(self.function)

    def _place(self) -> tuple[int, int] | None:
        return None if self._watched_call is None else (0, self._watched_call)

    @contextmanager
    def watched(self, index: int) -> Iterator[list[EagerReason]]:
        """Watch a call of the user's; yields a list that in the end has why code of it ran
        eagerly.
        """
        reasons: list[EagerReason] = []
        before = self.eager_calls.counts[0].copy()
        activity = self.activity
        self._watched_call = index
        self.eager_calls.look_on()
        try:
            yield reasons
        finally:
            self._watched_call = None
            self.eager_calls.close()
            reasons += self.eager_calls.counts[0] - before
            is_first = index == 1 and activity == self.activity
            if self.is_compiled and stance() == "force_eager":
                reasons.append("force_eager")
            elif self.is_compiled and stance() == "eager_then_compile" and is_first:
                reasons.append("eager_then_compile")

    def keep_results(self) -> None:
        """In a trial, keep the results of the last call."""
        if self.trial is not None:
            self.trial.end_call(self._output, has_backward=self.request["backward"])
            if self.request["backward"]:
                forget_gradients(self.function)
        self._output = None

    def end_by_raising(self, error: BaseException) -> None:
        """In a trial, keep what the last call raised; there is none to repeat."""
        if self.trial is not None:
            self.trial.end_by_raising(error)
        self.last_call = self._output = None

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
        """Make a call, or the same without torch.compile, without its backward pass; returns what
        it returned.
        """
        no_grad = self.request["no_grad"]
        # Of an export, ``compiled`` is its program, and nothing is compiled.
        if not is_eager and (self.is_compiled or self.compiled is not self.function):
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
            with nullcontext() if backward_range is None else record_function(backward_range):
                backward(output)
            forget_gradients(self.function)

    def error_of(self, call: Call, *, is_eager: bool = False) -> BaseException | None:
        """Repeat a call; returns what it raises, or None when it works."""
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
        is_quiet = not self.activity.compiles and not self.switches.seen
        if reasons := unrecorded_breaks():
            self.events.gap(*unrecorded_gap(reasons))
        elif is_quiet and self.last_call is not None:
            self.events.gap(
                "nothing_compiled",
                "torch.compile compiled nothing and gave no reason: it skips calls without a "
                "tensor, functions under torch.compiler.disable, and code made by exec().",
            )

    def repeated(
        self, kind: GapKind, phase: Phase, failed: str, make: Callable[[Call], _Measured]
    ) -> _Measured | None:
        """Repeat the last call for a measurement; a gap and None where that can't be done.

        It is an extra, whose failure must not lose the report.
        """
        reason = "no call was made"
        try:
            if (call := self.last_call) is not None:
                self.restore()
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
        with self.marked(None), silence():
            yield

    @contextmanager
    def marked(self, index: int | None, **facts: object) -> Iterator[None]:
        """Mark what is made meanwhile as a call; without a number, as a repetition of ours."""
        self.mark("start", index, **facts)
        try:
            yield
        finally:
            self.mark("end", index)

    def mark(self, event: Literal["start", "end"], index: int | None, **facts: object) -> None:
        """Write into the trace where a call starts or ends; without a number, a repetition of
        ours.
        """
        self.hooks.keeper.restore()
        write_artifact("graphdoctor_call", {"event": event, "index": index, **facts})
