"""The compiled target and its calls."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch

from ..events import EventFile
from ..measure import coverage
from ..measure.guard_cost import CheckTimer, CompiledCode, Searches, kept_random_state, time_call, time_searches
from ..measure.timing import Activity, Settling, serve, settle, steady_us
from ..record.backend import GraphRuns, InstrumentedBackend
from ..record.codegen import CodegenRecorder
from ..record.compile_calls import block_root, target_root
from ..record.cuda_graphs import CudaGraphWatch
from ..record.describe import arguments_text
from ..record.files import FileTexts, GeneratedFiles, user_file_test
from ..record.guards import RecompileRecorder
from ..record.listener import TraceListener
from ..record.reports import CompileSwitches, hook_gap, unrecorded_gap
from ..replay.leaves import AlikeCalls
from ..replay.trial import Trial, parameter_names
from ..target.calling import backward, forget_gradients, forward, lacks_batch, set_up
from ..target.errors import RequestError, TargetError
from ..target.options import check_compile_arguments
from ..target.regions import Blocks, CompiledRegions, compile_regions, described, repeated_blocks
from ..target.snapshot import seed_everything
from ..target.targets import Call, Calls, Target
from ..torch_private import torch_api, torch_inductor, torch_trace
from ..torch_private.torch_codegen import CodegenWatch
from ..torch_private.torch_cuda_graphs import asks_for_cuda_graphs
from ..torch_private.torch_partition import PartitionWatch
from ..torch_private.torch_trace import TraceKeeper
from ..wire import (
    BlocksRecord,
    CallArtifact,
    CallErrorRecord,
    CompilerPartKind,
    CoverageEvent,
    GapEvent,
    GuardCostEvent,
    PartEvent,
    ProbeRequest,
    SteadyCallEvent,
    TargetEvent,
)

UNSETTLED = "the last call compiles something each time it is repeated."
"""Why a call that never gets steady isn't measured."""

_MAX_NAMES = 20
"""Names of eager operations that are written down."""


class Workload:
    """Compiles a target with the instrumented backend, and makes calls.

    Raises:
        TargetError: The request doesn't fit the target.
    """

    def __init__(self, request: ProbeRequest, events: EventFile, target: Target, calls: Calls) -> None:
        self._request = request
        self._events = events
        self._activity = Activity(0, 0)
        self._last_call: Call | None = None
        self._output: object = None
        self._is_batch_checked = False
        self._target = target
        self._calls = calls
        # Found before any of them is compiled.
        self._blocks: Blocks = {}
        self._described_blocks: list[BlocksRecord] | None = None
        if isinstance(target.function, torch.nn.Module):
            self._blocks = repeated_blocks(target.function)
            self._described_blocks = described(self._blocks)
        # Attached after the user's import: a program that resets torch's logging there keeps us.
        self.listener = self._attach_listener()
        self.keeper = TraceKeeper(self.listener)
        try:
            self.keeper.install()
        except (ImportError, AttributeError, KeyError) as error:
            events.write(hook_gap("compiles after a change of torch's trace logger", error))
        self.recompiles = RecompileRecorder(user_file_test(), self.listener.want_source, self.listener.want_file)
        if (lost := self.recompiles.install()) is not None:
            events.gap("recompile_causes", lost)
        self._compiled_code = CompiledCode() if request["guard_cost"] else None
        self.runs = GraphRuns()
        self.switches = CompileSwitches(events)
        plan = request["trial"]
        self.trial = Trial(plan, self._target.function) if plan else None
        self.alike: AlikeCalls | None = None
        if self.trial is not None and self.trial.alike is not None:
            self.alike = AlikeCalls(self.trial.alike, self.trial.signature)
        self._peeked: Iterator[Call] | None = None
        if self.trial is not None:
            self._prepare_trial(self.trial)
        self._regions: CompiledRegions | None = None
        self._cuda_graphs = CudaGraphWatch() if self._asks_for_cuda_graphs() else None
        self._partitions = self._watch_partitions() if request["profile"] else None
        self.code = CodegenRecorder(self.listener.want_file, self._partitions)
        self.codegen = self._watch_codegen() if request["profile"] or request["stages"] else None
        try:
            self._compiled = self._compile()
        except TargetError:
            self.close()
            raise
        self.description = self._describe()

    def close(self) -> None:
        """Remove everything from torch, and release the program's objects.

        torch keeps the backend of a compile that failed, through ``torch.compiler.reset`` too (2.13), and so us.
        """
        self._last_call = self._output = self._compiled = None
        if self._regions is not None:
            self._regions.switch_off()
        self.keeper.uninstall()
        torch_api.trace_logger().removeHandler(self.listener)
        self.recompiles.uninstall()
        if self._cuda_graphs is not None:
            self._cuda_graphs.close()
        if self._compiled_code is not None:
            self._compiled_code.close()
        if self.codegen is not None:
            self.codegen.close()
        if self._partitions is not None:
            self._partitions.close()

    def _prepare_trial(self, trial: Trial) -> None:
        trial.prepare()
        if trial.setup is not None:
            set_up(trial.setup)
        try:
            if trial.without is not None:
                torch_inductor.leave_out(trial.without, self._report_part)
            if trial.minifier is not None:
                torch_inductor.wait_for_graph(**trial.minifier)
        except (ImportError, AttributeError) as error:
            raise TargetError(f"this torch can't be asked where it fails: {error}") from error

    def _report_part(self, kind: CompilerPartKind, name: str) -> None:
        self._events.write(PartEvent(event="part", kind=kind, name=name))

    @property
    def function(self) -> Any:  # noqa: ANN401
        """The target, not compiled."""
        return self._target.function

    @property
    def changes(self) -> tuple[str | None, int | None]:
        """The dtype and the batch size that the request gives the calls; None for their own."""
        return self._request["dtype"], self._request["batch"]

    @property
    def activity(self) -> Activity:
        """What torch has done so far."""
        return self._activity

    @property
    def asks_for_cuda_graphs(self) -> bool:
        """Torch is to record CUDA graphs."""
        return self._cuda_graphs is not None

    @property
    def last_call(self) -> Call | None:
        """The call that was made last."""
        return self._last_call

    @property
    def has_fresh_calls(self) -> bool:
        """``calls`` makes new arguments each time."""
        return self._calls.is_fresh

    def _attach_listener(self) -> TraceListener:
        # A trial's changes are in its own files; nobody reads its picture.
        files = None if self._request["trial"] else FileTexts()
        generated = GeneratedFiles(self._target.file)
        listener = TraceListener(self._on_compile, files, on_limit=self._on_limit, generated=generated)
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
        self._activity = self._activity._replace(compiles=self._activity.compiles + 1)
        if self._request["stages"]:
            # Each time, because the second of two equal graphs would come from the cache too.
            torch_inductor.miss_caches()
        self._events.step(f"compiling {compile_id}")

    def _on_limit(self) -> None:
        self._activity = self._activity._replace(limits=self._activity.limits + 1)

    def _compile(self) -> Any:  # noqa: ANN401
        request = self._request
        if self.trial is not None and (self.trial.is_eager or self.trial.export is not None):
            return self._target.function
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
            self._regions = compile_regions(self._target.function, **arguments)
            return self._target.function
        return torch.compile(self._target.function, **arguments)

    def _watch_codegen(self) -> CodegenWatch | None:
        try:
            return CodegenWatch(self.code.record)
        except (ImportError, AttributeError, KeyError) as error:
            self._events.write(hook_gap("which operations are in which kernel", error))
            return None

    def _watch_partitions(self) -> PartitionWatch | None:
        try:
            return PartitionWatch()
        except (ImportError, AttributeError, KeyError) as error:
            self._events.write(hook_gap("which tensors are kept for the backward pass", error))
            return None

    def _asks_for_cuda_graphs(self) -> bool:
        request = self._request
        if self.trial is not None and (self.trial.is_eager or self.trial.export is not None):
            return False
        return asks_for_cuda_graphs(request["backend"], request["mode"], request["options"])

    def report_cuda_graphs(self) -> None:
        """Write what became of CUDA graphs, where they were asked for."""
        if self._cuda_graphs is not None:
            self._cuda_graphs.report(self._events)

    def _describe(self) -> TargetEvent:
        function = self._target.function
        named = type(function) if isinstance(function, torch.nn.Module) else function
        return TargetEvent(
            event="target",
            name=self._target.name,
            kind=self._target.kind,
            class_name=getattr(named, "__qualname__", type(named).__qualname__),
            file=self._target.file,
            parameters=parameter_names(function),
            inputs_from=self._calls.origin,
            blocks=self._described_blocks,
        )

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

    def call_with(self, function: Any) -> None:  # noqa: ANN401
        """Make all calls of something that stands for the target."""
        self._compiled = function

    def _made(self) -> Iterator[Call]:
        for _ in range(self._request["calls"]):
            for args, kwargs in self._calls.rounds():
                if self.alike is not None and not self.alike.keeps((args, kwargs)):
                    continue
                self._last_call = args, kwargs
                yield self._last_call

    def inputs_text(self, call: Call) -> str:
        """A call's arguments in short."""
        return arguments_text(*call)

    def call(self, call: Call) -> None:
        """Make one call of the compiled target, and run backward when asked to."""
        if self.trial is None:
            self._make(call)
            return
        call = self.trial.changed(call)
        self._last_call = call
        if self.trial.timing is None:
            self.trial.begin_call(call)
        with self.trial.seeded(self._request["seed"]):
            self._make(call)

    def _make(self, call: Call) -> None:
        self._output = self._forward(self._compiled, call)
        if (size := self._request["batch"]) is not None and not self._is_batch_checked:
            self._is_batch_checked = True
            if lacks_batch(self._output, size):
                message = f"Whether the calls have a batch of {size}: nothing that the first returned has such a size."
                self._events.gap("batch", message)
        if self._request["backward"]:
            self._backward(self._output)

    def repeat(self, call: Call) -> None:
        """Repeat a call, with the backward pass in a profiler range of its own."""
        output = self._forward(self._compiled, call)
        if self._request["backward"]:
            with torch.profiler.record_function(coverage.BACKWARD_RANGE):
                self._backward(output)

    @property
    def is_decided(self) -> bool:
        """The results of a trial's last call decide it, so that no more are made."""
        return self.trial is not None and self.trial.is_decided

    def keep_results(self) -> None:
        """In a trial, keep the results of the last call."""
        if self.trial is not None and self.trial.timing is None:
            self.trial.end_call(self._output, has_backward=self._request["backward"])
            self._forget_gradients()
        self._output = None

    def warm_up(self) -> None:
        """Make all calls once, as a warm-up; parameters and buffers are restored afterwards."""
        function = self._target.function
        module = function if isinstance(function, torch.nn.Module) else None
        state = {name: value.clone() for name, value in module.state_dict().items()} if module is not None else {}
        for call in self.calls():
            seed_everything(self._request["seed"])
            self._forward(self._compiled, call)
        if module is not None:
            module.load_state_dict(state)

    def steady_us(self) -> float | None:
        """Median time of the last call once it is steady, in microseconds; None when it never is."""
        call = self._last_call
        if call is None:
            return None
        return steady_us(lambda: self._forward(self._compiled, call), lambda: self._activity)

    def serve_times(self, descriptor: int) -> None:
        """Time the last call, with backward where asked for, as often as the other end of a socket asks."""
        call = self._last_call
        if call is not None:
            serve(lambda: self.make_again(call), lambda: self._activity, descriptor)

    def make_again(self, call: Call) -> None:
        """Repeat a call with its backward pass where asked for, and keep nothing of it."""
        self._repeat(self._compiled, call)

    def _repeat(self, function: Any, call: Call) -> None:  # noqa: ANN401
        output = self._forward(function, call)
        if self._request["backward"]:
            self._backward(output)
            self._forget_gradients()

    def _forward(self, function: Any, call: Call) -> Any:  # noqa: ANN401
        return forward(function, call, no_grad=self._request["no_grad"])

    def unrecorded(self) -> GapEvent | None:
        """What torch left to eager mode without a record of it, or None."""
        if self.trial is not None and (self.trial.is_eager or self.trial.export is not None):
            return None
        if reasons := torch_api.unrecorded_breaks():
            return unrecorded_gap(reasons)
        if self._activity.compiles or self._last_call is None or self.switches.are_found:
            return None
        message = (
            "torch.compile compiled nothing and gave no reason: it skips calls without a tensor, functions under "
            "torch.compiler.disable, and code made by exec()."
        )
        return GapEvent(event="gap", kind="nothing_compiled", message=message)

    def _backward(self, output: object) -> None:
        backward(output)
        if self.trial is None:
            self._forget_gradients()

    def _forget_gradients(self) -> None:
        if self._request["backward"]:
            forget_gradients(self._target.function)

    def is_compiler_error(self, error: BaseException) -> bool:
        """torch.compile itself raised it."""
        return torch_api.is_compiler_error(error)

    def eager_error(self, call: Call) -> BaseException | None:
        """What the same call raises without torch.compile, or None when it works."""
        with self.eager_mode():
            return self._error_of(self._target.function, call)

    def call_error(self, call: Call) -> BaseException | None:
        """What a call of the compiled target raises, or None when it works."""
        return self._error_of(self._compiled, call)

    def _error_of(self, function: Any, call: Call) -> BaseException | None:  # noqa: ANN401
        try:
            output = self._forward(function, call)
            if self._request["backward"]:
                self._backward(output)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - what it raises is the answer
            return error
        return None

    def measure_coverage(self) -> tuple[Settling, CoverageEvent | None] | str:
        """Repeat the last call under the profiler until it is steady.

        Returns:
            What the repetitions compiled, with the coverage of the steady one, None when the call never gets steady; or
            the reason why no call was repeated.
        """
        call = self._last_call
        if call is None:
            return "no call was made."
        if torch_api.is_profiling():
            return "the program runs a torch.profiler, and only one can run at a time."
        counted: list[coverage.CountedOps] = []

        def make() -> None:
            # The first repetition is measured at once: most calls are steady by then.
            counted.append(coverage.measure(lambda: self._forward(self._compiled, call), self.runs))

        settling = settle(make, lambda: self._activity)
        if not settling.is_settled:
            return settling, None
        return settling, CoverageEvent(
            event="coverage",
            graph_ops=counted[-1].graph_ops,
            eager_ops=counted[-1].eager_ops.total(),
            extra_calls=len(settling.compiles),
            extra_compiles=sum(settling.compiles),
            eager_op_names=dict(counted[-1].eager_ops.most_common(_MAX_NAMES)),
        )

    def time_graphs(self) -> SteadyCallEvent | None:
        """When each graph runs in a steady call; None when something was compiled again.

        Coverage has been measured, so the last call is steady.
        """
        call, before = self._last_call, self._activity
        timed = coverage.time_runs(lambda: self._forward(self._compiled, call), self.runs) if call else None
        return timed if self._activity == before else None

    def measure_guards(self) -> tuple[GuardCostEvent, list[str]] | str:
        """What the guard checks of the last call cost, once it no longer compiles anything.

        Returns:
            The call's time with the cost of each compiled frame that it runs, and what couldn't be measured; or the
            reason why nothing was measured.
        """
        call, compiled = self._last_call, self._compiled_code
        if call is None or compiled is None:
            return "no call was made."
        if sys.getprofile() is not None:
            return "the program runs a profiler, and only one can run at a time."

        def make() -> None:
            self._forward(self._compiled, call)

        with kept_random_state():
            if not settle(make, lambda: self._activity).is_settled:
                return UNSETTLED
            before = self._activity
            timed = time_call(make)
            searches = self._time_searches(make)
            timer = CheckTimer(compiled)
            entries = timer.run(make)
        if self._activity != before:
            return "the last call compiled something again while it was measured."
        cost = GuardCostEvent(
            event="guard_cost",
            call_us=timed.median_us,
            call_low_us=timed.low_us,
            call_high_us=timed.high_us,
            call_count=timed.count,
            entries=entries,
            is_complete=not timer.troubles,
        )
        if searches is not None:
            searches.add_to(cost)
        return cost, timer.troubles

    def _time_searches(self, make: Callable[[], None]) -> Searches | None:
        """The searches for compiled code in repetitions of a call; without them a gap says why."""
        reason = "this torch doesn't tell the profiler's ranges"
        if torch_api.is_profiling():
            reason, searches = "the program runs a torch.profiler, and only one can run at a time", None
        else:
            searches = time_searches(make)
        if searches is None:
            self._events.gap("guard_cost", f"Guard checks were timed only by repeating them: {reason}.")
        return searches

    @contextmanager
    def eager_mode(self) -> Iterator[None]:
        """Meanwhile, the target itself has nothing compiled in it."""
        if self._regions is not None:
            self._regions.switch_off()
        try:
            yield
        finally:
            if self._regions is not None:
                self._regions.switch_on()

    def make_eagerly(self, call: Call) -> None:
        """Repeat a call with its backward pass where asked for, without torch.compile, and keep nothing of it."""
        with self.eager_mode():
            self._repeat(self._target.function, call)

    def forward(self, call: Call) -> Any:  # noqa: ANN401
        """Repeat a call without its backward pass; what it returns."""
        return self._forward(self._compiled, call)

    def forward_eagerly(self, call: Call) -> Any:  # noqa: ANN401
        """The same without torch.compile."""
        with self.eager_mode():
            return self._forward(self._target.function, call)

    def mark_start(self, index: int | None, call: Call | None = None) -> None:
        """Write into the trace where a call starts.

        ``index``: its number; None for repetitions of ours.
        """
        self.keeper.restore()
        artifact = CallArtifact(event="start", index=index)
        if call is not None:
            artifact["inputs"] = self.inputs_text(call)
        torch_api.write_artifact("graphdoctor_call", artifact)

    def mark_end(
        self,
        index: int | None,
        *,
        outcome: Literal["ok", "error"] | None = None,
        duration_s: float | None = None,
        error: CallErrorRecord | None = None,
    ) -> None:
        """Write into the trace where a call ends."""
        self.keeper.restore()
        artifact = CallArtifact(event="end", index=index)
        if outcome is not None:
            artifact["outcome"] = outcome
        if duration_s is not None:
            artifact["duration_s"] = duration_s
        if error is not None:
            artifact["error"] = error
        torch_api.write_artifact("graphdoctor_call", artifact)
