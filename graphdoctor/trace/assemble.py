"""Turns what an ``Intake`` kept into a ``Recording``: the facts of one process until a reset of Dynamo.

A torch before 2.6 has no records of breaks. A resume function's name has the line of the break in the function itself
(``torch/_dynamo/resume_execution.py``), and the metrics of the compile before it torch's reason (``restart_reasons``).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from graphdoctor.facts.base import Fact
from graphdoctor.facts.counts import Coverage
from graphdoctor.facts.expressions import expression
from graphdoctor.facts.reading import read_fact
from graphdoctor.facts.recompiles import GuardChange, RecompileCause
from graphdoctor.facts.recording import (
    BreakEffect,
    BreakRecord,
    Call,
    Compile,
    CompileOutcome,
    FailedCompile,
    Frame,
    Graph,
    Recording,
    Settling,
    SourceContext,
    TargetInfo,
)
from graphdoctor.facts.run import ProbeExit
from graphdoctor.facts.stack import StackEntry
from graphdoctor.facts.trials import Replay
from graphdoctor.trace.breaks import PrintedBreak, PrintedEntry, limit_of, mechanism_of, parse_chain
from graphdoctor.trace.ddp_splits import split_of
from graphdoctor.trace.gaps import old_log_gaps, run_gaps, unreadable_gaps
from graphdoctor.trace.inductor_runtime import cache_bypasses, cache_use
from graphdoctor.trace.intake import Intake, SeenCompile, SeenGraph
from graphdoctor.trace.metrics import CompileMetrics
from graphdoctor.trace.origin import RESUME_NAME, innermost, without_probe
from graphdoctor.trace.roots import Root


def resumed_breaks(
    compiles: Iterable[SeenCompile], code_names: Mapping[int, tuple[str, str, int]]
) -> Iterator[PrintedBreak]:
    """The breaks after which torch resumed, in the order of the log."""
    before: dict[tuple[str, str], SeenCompile] = {}
    for compile_ in compiles:
        if compile_.frame_id not in code_names:
            continue
        name, file, _ = code_names[compile_.frame_id]
        resume = RESUME_NAME.match(name)
        function = resume[1] if resume else name
        broken = before.pop((file, function), None) if resume else None
        if broken is not None and resume is not None and broken.metrics is not None:
            words = broken.metrics.restart_reasons[-1].strip("'")
            entry = PrintedEntry(file, int(resume[2]), function, None)
            yield PrintedBreak(
                parse_chain(words), words, (entry,), compile_id=broken.compile_id, call_index=broken.call_index
            )
        if compile_.metrics is not None and compile_.metrics.restart_reasons:
            before[file, function] = compile_


_LIMIT_TYPE = "Dynamo recompile limit exceeded"
_WRAPPER_FILES = ("_dynamo/external_utils.py", "_dynamo\\external_utils.py")
_DTENSOR_NAME = ': "DTensor('
_DTENSOR = re.compile(r'\bL_(\w+): "DTensor\(\w+(?:\[[^\]"]*\])+[\w:]+, ([^"]*)\)"')
"""An input of a printed graph, such as ``L_w_: "DTensor(f32[64, 32][32, 1]cpu, S(0))"`` (2.13)."""
_MAX_MESSAGE = 20_000
_Fact = TypeVar("_Fact", bound=Fact)


@dataclass(frozen=True)
class RunFacts:
    """What is known about a run as a whole."""

    target: TargetInfo
    exit: ProbeExit
    coverage: Coverage | None = None
    settling: Settling | None = None
    replay: Replay | None = None


class Assembler:
    """Makes facts of what was taken in."""

    def __init__(self, intake: Intake, *, is_ours: bool) -> None:
        self._intake = intake
        self._is_ours = is_ours
        self._unreadable: Counter[str] = Counter()
        self._broken: dict[tuple[str, int], str] | None = None

    def _stack(self, found: PrintedBreak, function: str | None) -> tuple[tuple[StackEntry, ...], bool]:
        if found.exact:
            return found.exact, True
        printed = found.stack
        header = found.header or (None if printed else self._failed_line(found))
        # If the exception has no stack, only the header has the function's first line.
        if header and (not printed or (printed[-1].file, printed[-1].line) != header):
            printed = (*printed, PrintedEntry(*header, function or "<unknown>", None))
        entries = tuple(self._intake.entry(item.file, item.line, item.function, item.text) for item in printed)
        return without_probe(entries), False

    def _failed_line(self, found: PrintedBreak) -> tuple[str, int] | None:
        """The line at which the metrics of the compile that an error ended say that it failed."""
        compile_ = self._intake.compiles.get(found.compile_id or "")
        metrics = compile_.metrics if compile_ is not None and compile_.error is found else None
        if metrics is None or metrics.fail_user_frame_filename is None or metrics.fail_user_frame_lineno is None:
            return None
        return metrics.fail_user_frame_filename, metrics.fail_user_frame_lineno

    def _named(self, stack: tuple[StackEntry, ...]) -> tuple[StackEntry, ...]:
        return tuple(
            entry.model_copy(update={"qualname": context.qualname})
            if (context := self._intake.sources.get((entry.file, entry.line)))
            else entry
            for entry in stack
        )

    def _break_record(self, found: PrintedBreak, effect: BreakEffect) -> BreakRecord:
        compile_ = self._intake.compiles.get(found.compile_id or "")
        named = self._intake.code_names.get(compile_.frame_id) if compile_ else None
        function = named[0] if named else None
        stack, is_exact = self._stack(found, function)
        root = None if compile_ is None else self._intake.roots.get(compile_.frame_id)
        if root is not None and innermost(stack) is None:
            # No line of the program is on it: the module that torch wraps breaks in torch's own code.
            stack = (root.place, *stack)
        return BreakRecord(
            compile_id=found.compile_id,
            attempt=found.attempt,
            call_index=found.call_index,
            effect=effect,
            instruction=found.instruction,
            chain=found.chain,
            stack=self._named(stack),
            is_stack_exact=is_exact,
            higher_order_operator=found.higher_order_operator,
            words=found.words[:_MAX_MESSAGE],
            topic=found.topic,
            mechanism=mechanism_of((*compile_.stack[:-1], *stack) if compile_ else stack, found),
        )

    def _effect(self, found: PrintedBreak) -> BreakEffect:
        compile_ = self._intake.compiles.get(found.compile_id or "")
        if (
            compile_ is not None
            and self._outcome(compile_) == "skipped"
            and compile_.breaks[-1] is found
            and not _is_declined(compile_)
        ):
            return "frame_skipped"
        return found.effect or "resumed"

    def _outcome(self, compile_: SeenCompile) -> CompileOutcome:
        metrics = compile_.metrics
        if metrics is None:
            return "unfinished" if compile_.error is None else "failed"
        if not metrics.has_guarded_code:
            if not compile_.is_started and metrics.co_name is None:
                return "limit"
            is_skip = any(found.effect == "frame_skipped" for found in compile_.breaks)
            return "skipped" if is_skip else "failed"
        if metrics.guard_count is not None:
            return "compiled"
        return "skipped" if _is_declined(compile_) else "empty"

    def _failure(self, compile_: SeenCompile, outcome: CompileOutcome) -> FailedCompile | None:
        metrics = compile_.metrics or CompileMetrics()
        if outcome not in ("skipped", "failed", "limit"):
            return None
        stack: tuple[StackEntry, ...] = ()
        if compile_.error is not None:
            stack = self._named(self._stack(compile_.error, None)[0])
        message = compile_.error.words if compile_.error else (metrics.fail_reason or "")
        if _is_declined(compile_):
            message = compile_.backend_error or "The backend declined the graph, so torch runs the frame eagerly."
        return FailedCompile(
            type=metrics.fail_type or compile_.error_type or ("SkipFrame" if _is_declined(compile_) else "unknown"),
            message=str(message)[:_MAX_MESSAGE],
            chain=parse_chain(str(message)),
            stack=stack,
            limit=limit_of(str(message)) if outcome == "limit" else None,
        )

    def _finished_compile(self, compile_: SeenCompile) -> Compile:
        metrics = compile_.metrics or CompileMetrics()
        outcome = self._outcome(compile_)
        return read_fact(
            Compile,
            {
                "compile_id": compile_.compile_id,
                "frame_id": compile_.frame_id,
                "compiled_autograd_id": compile_.compiled_autograd_id,
                "call_index": compile_.call_index,
                "outcome": outcome,
                "is_recompile": bool(compile_.reasons) or bool(metrics.recompile_reason),
                "recompile_reasons": compile_.reasons,
                "attempts": compile_.attempts,
                "restart_reasons": tuple(_first_line(reason) for reason in metrics.restart_reasons),
                "op_count": metrics.graph_op_count,
                "guard_count": metrics.guard_count,
                "duration_s": _seconds(metrics.duration_us),
                "backend_s": _seconds(metrics.aot_autograd_cumulative_compile_time_us),
                "failure": self._failure(compile_, outcome),
                "stack": self._named(compile_.stack),
                "cause": self._read("graphdoctor_recompile", lambda: self._cause(compile_)),
            },
        )

    def _read(self, kind: str, make: Callable[[], _Fact | None]) -> _Fact | None:
        try:
            return make()
        except (ValueError, TypeError, LookupError, AttributeError):
            self._unreadable[kind] += 1
            return None

    def _cause(self, compile_: SeenCompile) -> RecompileCause | None:
        if not compile_.reasons and compile_.recompile is None:
            return None
        # Imported here: most logs have no recompile, and reading guard texts takes half a dozen modules.
        from graphdoctor.trace.causes import cause_of_reasons, cause_of_record, with_carried

        if compile_.recompile is None:
            cause = cause_of_reasons(compile_.reasons, self._intake.place)
        else:
            cause = cause_of_record(compile_.recompile, self._intake.place, reasons=compile_.reasons)
            # A frame over its limit has no dynamo_start record, so nothing else says who called it.
            cause = cause.model_copy(update={"caller": () if compile_.stack else self._named(compile_.caller)})
        if (root := self._intake.roots.get(compile_.frame_id)) is not None:
            cause = cause.model_copy(update={"changes": tuple(_of_root(change, root) for change in cause.changes)})
        return with_carried(cause, self._carried(compile_))

    def _carried(self, compile_: SeenCompile) -> Callable[[str], str]:
        """Returns what names the values passed to a resume function; the last one is what broke the graph."""
        code_name, file, _ = self._intake.code_names.get(compile_.frame_id, ("", "", 0))
        resume = RESUME_NAME.match(code_name)
        if resume is None:
            return lambda _name: "(a value from an earlier line)"
        line = int(resume[2])
        # The whole path of a generated file is replaced by its name later.
        name_of_file = file if file in self._intake.generated else re.split(r"[/\\]", file)[-1]
        place = f"{name_of_file}:{line}"
        broken = self._broken_expression(file, line)
        names = compile_.recompile.get("stack_names") or [] if compile_.recompile else []
        last = max(names, key=lambda name: int(name.removeprefix("___stack")), default=None)
        return lambda name: (
            f"the value of `{broken}` at {place}" if broken and name == last else f"(a value from {place})"
        )

    def _broken_expression(self, file: str, line: int) -> str | None:
        """The call that broke the graph at a line; the resume function gets its result."""
        if self._broken is None:
            self._broken = {}
            for found in self._intake.breaks:
                entry = found.exact[0] if found.exact else None
                if (
                    entry is not None
                    and (found.instruction or "").startswith("CALL")
                    and entry.text is not None
                    and entry.column is not None
                    and entry.end_column is not None
                ):
                    start, end = (column - 1 - (entry.indent or 0) for column in (entry.column, entry.end_column))
                    self._broken.setdefault((entry.file, entry.line), entry.text[max(start, 0) : end])
        return self._broken.get((file, line))

    def _frames(self, compiles: list[Compile], target: TargetInfo) -> list[Frame]:
        frames: dict[int, Frame] = {}
        for compile_ in compiles:
            named = self._intake.code_names.get(compile_.frame_id)
            if compile_.frame_id in frames or named is None:
                continue
            code_name, file, line = named
            if (root := self._intake.roots.get(compile_.frame_id)) is not None:
                frames[compile_.frame_id] = _root_frame(compile_.frame_id, root, code_name)
                continue
            resume = RESUME_NAME.match(code_name)
            context = self._intake.sources.get((file, line))
            origin, package = self._intake.origins.of(file)
            frames[compile_.frame_id] = Frame(
                frame_id=compile_.frame_id,
                function=resume[1] if resume else code_name,
                qualname=f"backward pass {compile_.compiled_autograd_id} (compiled autograd)"
                if compile_.compiled_autograd_id is not None
                else self._qualname(file, code_name, context, target),
                file=file,
                line=(context.function_line or line) if context else line,
                text=self._definition(file, line, context),
                origin=origin,
                package=package,
                resumes_at=int(resume[2]) if resume else None,
                code_name=code_name,
            )
        return list(frames.values())

    def _qualname(self, file: str, code_name: str, context: SourceContext | None, target: TargetInfo) -> str | None:
        """The function's qualified name, or that of the wrapped module if torch compiles its own wrapper.

        If the root's class is torch's own, its frame is ``inner`` (``torch/_dynamo/external_utils.py``, 2.13).
        """
        if code_name == "inner" and file.endswith(_WRAPPER_FILES) and self._intake.origins.of(file)[0] == "torch":
            return f"{target.class_name}.forward" if target.class_name else None
        return context.qualname if context else None

    def _definition(self, file: str, line: int, context: SourceContext | None) -> str | None:
        if context is None or context.function_line is None:
            return None
        at = context if context.function_line == line else self._intake.sources.get((file, context.function_line))
        return at.statement.splitlines()[0] if at and at.statement else None

    def _raised_breaks(self) -> list[PrintedBreak]:
        return [
            compile_.error
            for compile_ in self._intake.compiles.values()
            if compile_.error is not None
            and not compile_.is_extra
            and not compile_.breaks
            and self._outcome(compile_) == "failed"
            and (compile_.metrics or CompileMetrics()).fail_type in ("Unsupported", "UserError")
            and compile_.error.chain[0].gb_type != _LIMIT_TYPE
        ]

    def finish(self, run: RunFacts, *, is_cut: bool) -> Recording:
        """Make the recording."""
        own = [compile_ for compile_ in self._intake.compiles.values() if not compile_.is_extra]
        compiles = [self._finished_compile(compile_) for compile_ in own]
        breaks = [self._break_record(found, self._effect(found)) for found in self._intake.breaks]
        breaks += [self._break_record(found, "raised") for found in self._raised_breaks()]
        if self._intake.is_older and not self._intake.breaks:
            resumed = resumed_breaks(own, self._intake.code_names)
            breaks += [self._break_record(found, "resumed") for found in resumed]
        made = (
            self._read("graphdoctor_graph", partial(self._graph, index, seen))
            for index, seen in enumerate(self._intake.graphs)
        )
        frames = {frame.frame_id: frame for frame in self._frames(compiles, run.target)}
        # An export traces frames that don't run.
        ran = {one.compile_id: frames[one.frame_id] for one in compiles if one.frame_id in frames}
        graphs = [_captured_from(ran.get(graph.compile_id), graph) for graph in made if graph is not None]
        calls, evidence = self._calls(compiles), self._intake.evidence.finish()
        is_unfinished = any(call.outcome != "ok" for call in calls) or run.exit.reason not in (None, "finished")
        replay = run.replay and run.replay.model_copy(update={"warm_up_frames_over_limit": self._extra_limits()})
        return Recording(
            environment=self._intake.environment,
            target=run.target,
            exit=run.exit,
            is_partial=is_cut or is_unfinished,
            calls=calls,
            compile_calls=tuple(self._intake.compile_calls),
            frames=tuple(frames.values()),
            ddp_splits=tuple(split_of(seen, self._parameters(seen.compile_id)) for seen in self._intake.ddp_splits),
            compiles=tuple(compiles),
            graphs=tuple(graphs),
            breaks=tuple(breaks),
            sources=tuple(self._intake.sources.values()),
            coverage=run.coverage,
            steps=self._intake.steps,
            settling=run.settling and self._settling(run.settling, run.target),
            replay=replay,
            cache_bypasses=cache_bypasses(evidence.cache_answers),
            caches=cache_use(evidence.cache_answers),
            evidence=evidence,
            gaps=(
                *unreadable_gaps(self._unreadable),
                *run_gaps(
                    run.target,
                    run.coverage,
                    [
                        found.compile_id
                        for found in self._intake.compiles.values()
                        if self._outcome(found) == "unfinished" and not found.is_metrics_unread
                    ],
                    is_ours=self._is_ours,
                    is_unfinished=is_unfinished,
                ),
                *old_log_gaps(self._intake.environment.torch, is_older=self._intake.is_older),
            ),
        )

    def _calls(self, compiles: Sequence[Compile]) -> tuple[Call, ...]:
        counts = Counter(compile_.call_index for compile_ in compiles if compile_.outcome == "compiled")
        return tuple(
            call.model_copy(update={"compile_count": counts[index]})
            for index, call in sorted(self._intake.calls.items())
        )

    def _settling(self, settling: Settling, target: TargetInfo) -> Settling:
        extra = [self._finished_compile(compile_) for compile_ in self._intake.compiles.values() if compile_.is_extra]
        again = [compile_ for compile_ in extra if compile_.is_recompile or compile_.outcome == "limit"]
        return settling.model_copy(update={"recompiles": tuple(again), "frames": tuple(self._frames(again, target))})

    def _graph(self, index: int, seen: SeenGraph) -> Graph:
        graph = _graph(index, seen)
        compile_ = self._intake.compiles.get(graph.compile_id)
        root = None if compile_ is None else self._intake.roots.get(compile_.frame_id)
        if root is None or graph.inputs is None:
            return graph
        inputs = (
            item if item.source is None else item.model_copy(update={"source": root.named_source(item.source)})
            for item in graph.inputs
        )
        return graph.model_copy(update={"inputs": tuple(inputs)})

    def _parameters(self, compile_id: str) -> dict[str, str] | None:
        """What the program calls the parameters among a graph's inputs, by input; None if they weren't recorded."""
        inputs = next((seen.inputs for seen in self._intake.graphs if seen.compile_id == compile_id), None)
        if inputs is None:
            return None
        return {item.name.lower(): expression(item.source or item.name) for item in inputs if item.is_parameter}

    def _extra_limits(self) -> int:
        extra = [compile_ for compile_ in self._intake.compiles.values() if compile_.is_extra]
        return len({compile_.frame_id for compile_ in extra if self._outcome(compile_) == "limit"})


def _captured_from(frame: Frame | None, graph: Graph) -> Graph:
    if frame is None:
        return graph
    return graph.model_copy(update={"function": frame.described, "resumes_at": frame.resumes_at})


def _of_root(change: GuardChange, root: Root) -> GuardChange:
    """A change of a value of torch's wrapper, in the program's own names and at a line of its own."""
    place = change.guard_location
    is_inside = place is None or place.origin == "torch"
    return change.model_copy(
        update={"expression": root.named(change.expression), "guard_location": root.place if is_inside else place}
    )


def _root_frame(frame_id: int, root: Root, code_name: str) -> Frame:
    place = root.place
    return Frame(
        frame_id=frame_id,
        function="forward",
        qualname=f"{root.class_name}.forward",
        file=place.file,
        line=place.line,
        text=place.text,
        origin=place.origin,
        package=place.package,
        code_name=code_name,
        is_wrapper=True,
        container=root.container,
    )


def _is_declined(compile_: SeenCompile) -> bool:
    """Whether the backend got the graph and raised ``SkipFrame``, so that torch skipped the frame.

    torch then claims guarded code without counts, as it does for a frame without operations
    (``torch/_dynamo/convert_frame.py``, 2.13, ``_compile_inner``); only the graph distinguishes the two.
    """
    metrics = compile_.metrics
    return metrics is not None and metrics.has_guarded_code and metrics.guard_count is None and compile_.has_graph


def _first_line(text: str) -> str:
    return next(iter(text.splitlines()), "")


def _seconds(microseconds: float | None) -> float | None:
    return None if microseconds is None else microseconds / 1e6


def _graph(index: int, seen: SeenGraph) -> Graph:
    record = seen.record or {}
    return read_fact(
        Graph,
        {
            "compile_id": seen.compile_id or "?",
            "index": index,
            "op_count": record.get("op_count"),
            "tensor_op_count": record.get("tensor_op_count"),
            "inputs": seen.inputs,
            "nodes": seen.nodes,
            "code": seen.code,
            "dtensors": dict(_DTENSOR.findall(seen.code)) if seen.code and _DTENSOR_NAME in seen.code else {},
            "backend": record.get("backend"),
            "backend_s": record.get("backend_s"),
            "backend_error": record.get("backend_error"),
        },
    )
