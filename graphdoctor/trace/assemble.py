"""Turns what an ``Intake`` kept into a ``Recording``: the facts of one process until a reset of
Dynamo.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

from graphdoctor.facts.base import grouped, values_of
from graphdoctor.facts.expressions import expression
from graphdoctor.facts.guards import RecompileCause
from graphdoctor.facts.recording import (
    BreakRecord,
    Compile,
    DdpSplit,
    FailedCompile,
    Frame,
    Graph,
    Recording,
)
from graphdoctor.facts.stack import StackEntry, innermost, resumed
from graphdoctor.trace.breaks import (
    MAX_MESSAGE,
    PrintedBreak,
    PrintedEntry,
    limit_of,
    mechanism_of,
    parse_chain,
)
from graphdoctor.trace.gaps import run_gaps, unreadable_gaps
from graphdoctor.trace.inductor import cache_bypasses
from graphdoctor.trace.intake import CompileMetrics, Intake, SeenCompile, SeenSplit
from graphdoctor.trace.origin import without_probe

_LIMIT_TYPE = "Dynamo recompile limit exceeded"
_DECLINED = "The backend declined the graph, so torch runs the frame eagerly."
_WRAPPER_FILES = ("_dynamo/external_utils.py", "_dynamo\\external_utils.py")
_NOTHING = CompileMetrics()

_REFUSALS = frozenset(
    {
        "Unsupported",
        "UserError",
        "UncapturedHigherOrderOpError",
        "CondOpArgsMismatchError",
        "InfiniteGeneratorError",
        "UnsafeScriptObjectError",
        "UnknownPropertiesDuringBackwardTrace",
    }
)
"""Exceptions that Dynamo raises where it can't break the graph (``torch/_dynamo/exc.py``, 2.13)."""


class Assembler:
    """Makes facts of what was taken in, and of what is known of the run as a whole."""

    def __init__(self, intake: Intake, run: Recording, *, is_ours: bool) -> None:
        self._intake = intake
        self._run = run
        self._is_ours = is_ours
        self._unreadable: Counter[str] = Counter()

    def finish(self, *, is_cut: bool) -> Recording:
        """Make the recording."""
        intake = self._intake
        run = self._run
        by_extra = grouped((seen.is_extra, seen) for seen in intake.compiles.values())
        compiles = [self._compile(seen) for seen in by_extra.get(False, ())]
        by_frame = grouped((compile_.frame_id, compile_) for compile_ in compiles)
        frames = {
            frame_id: self._frame(frame_id, of_frame[0].compiled_autograd_id)
            for frame_id, of_frame in by_frame.items()
            if frame_id in intake.code_names
        }
        counts = Counter(
            compile_.call_index for compile_ in compiles if compile_.outcome == "compiled"
        )
        calls = [call.replace(compile_count=counts[n]) for n, call in sorted(intake.calls.items())]
        evidence = intake.evidence.finish()
        is_finished = run.exit.reason in (None, "finished")
        is_unfinished = not is_finished or any(call.outcome != "ok" for call in calls)
        unfinished = [
            seen.compile_id
            for seen in intake.compiles.values()
            if seen.outcome == "unfinished" and not seen.is_metrics_unread
        ]
        replay = run.replay
        if replay is not None:
            limits = {seen.frame_id for seen in by_extra.get(True, ()) if seen.outcome == "limit"}
            replay = replay.replace(warm_up_frames_over_limit=len(limits))
        breaks = [*intake.breaks, *self._raised_breaks()]
        # An export traces frames that don't run.
        by_compile = {compile_.compile_id: frames.get(compile_.frame_id) for compile_ in compiles}
        return run.replace(
            environment=intake.environment,
            is_partial=is_cut or is_unfinished,
            calls=tuple(calls),
            compile_calls=tuple(intake.compile_calls),
            frames=tuple(frames.values()),
            ddp_splits=tuple(map(self._ddp_split, intake.ddp_splits)),
            compiles=tuple(compiles),
            graphs=tuple(
                self._graph(seen.graph, by_compile.get(seen.graph.compile_id))
                for seen in intake.graphs
            ),
            breaks=tuple(map(self._break, breaks)),
            sources=tuple(intake.sources.values()),
            replay=replay,
            cache_bypasses=cache_bypasses(evidence.cache_answers),
            ignored_caches=tuple(
                cache.replace(entry=self._named([cache.entry])[0])
                for cache in intake.ignored_caches
            ),
            tracing_branches=tuple(
                branch.replace(location=self._named([branch.location])[0])
                for branch in intake.tracing_branches.values()
            ),
            evidence=evidence,
            gaps=(
                *unreadable_gaps(self._unreadable),
                *run_gaps(run, unfinished, is_ours=self._is_ours, is_unfinished=is_unfinished),
            ),
        )

    def _stack(self, break_: PrintedBreak, function: str | None) -> tuple[StackEntry, ...]:
        if break_.exact:
            return break_.exact
        printed = break_.stack
        header = break_.header
        compile_ = self._intake.compiles.get(break_.record.compile_id or "")
        if not header and not printed and compile_ is not None and compile_.error is break_:
            metrics = compile_.metrics or _NOTHING
            file = metrics.fail_user_frame_filename
            line = metrics.fail_user_frame_lineno
            header = None if file is None or line is None else (file, line)
        # If the exception has no stack, only the header has the function's first line.
        if header and (not printed or (printed[-1].file, printed[-1].line) != header):
            printed = (*printed, PrintedEntry(*header, function or "<unknown>", None))
        return without_probe(self._intake.entry(*entry) for entry in printed)

    def _named(self, stack: Iterable[StackEntry]) -> tuple[StackEntry, ...]:
        return tuple(
            entry.replace(qualname=context.qualname)
            if (context := self._intake.source(*entry.at, entry.function))
            else entry
            for entry in stack
        )

    def _break(self, break_: PrintedBreak) -> BreakRecord:
        record = break_.record
        intake = self._intake
        compile_ = intake.compiles.get(record.compile_id or "")
        function = root = None
        is_skip = False
        path: tuple[StackEntry, ...] = ()
        if compile_ is not None:
            function, _, _ = intake.code_names.get(compile_.frame_id, (None, "", 0))
            root = intake.roots.get(compile_.frame_id)
            path = compile_.stack[:-1]
            is_last = bool(compile_.breaks) and compile_.breaks[-1] is break_
            is_skip = is_last and compile_.outcome == "skipped" and not compile_.is_declined
        stack = self._stack(break_, function)
        if root is not None and innermost(stack) is None:
            # No line of the program is on it: the module that torch wraps breaks in torch's own
            # code.
            stack = (root.place, *stack)
        return record.replace(
            effect="frame_skipped" if is_skip else record.effect,
            stack=self._named(stack),
            is_stack_exact=bool(break_.exact),
            mechanism=mechanism_of((*path, *stack), record),
        )

    def _raised_breaks(self) -> Iterator[PrintedBreak]:
        for compile_ in self._intake.compiles.values():
            error = compile_.error
            metrics = compile_.metrics or _NOTHING
            is_refused = metrics.fail_type in _REFUSALS and compile_.outcome == "failed"
            if error is None or not is_refused or compile_.breaks or compile_.is_extra:
                continue
            if error.record.chain[0].gb_type != _LIMIT_TYPE:
                yield error

    def _failure(self, compile_: SeenCompile) -> FailedCompile | None:
        metrics = compile_.metrics or _NOTHING
        error = compile_.error
        outcome = compile_.outcome
        if outcome not in ("skipped", "failed", "limit"):
            return None
        message = metrics.fail_reason or ""
        kind = metrics.fail_type or compile_.error_type
        stack: tuple[StackEntry, ...] = ()
        if error is not None:
            message = error.record.words
            stack = self._named(self._stack(error, None))
        if compile_.is_declined:
            message = compile_.backend_error or _DECLINED
            kind = kind or "SkipFrame"
        return FailedCompile(
            type=kind or "unknown",
            message=str(message)[:MAX_MESSAGE],
            chain=parse_chain(str(message)),
            stack=stack,
            limit=limit_of(str(message)) if outcome == "limit" else None,
        )

    def _compile(self, compile_: SeenCompile) -> Compile:
        metrics = compile_.metrics or _NOTHING
        backend_us = metrics.aot_autograd_cumulative_compile_time_us
        same = (
            "compile_id",
            "frame_id",
            "compiled_autograd_id",
            "call_index",
            "outcome",
            "attempts",
        )
        return Compile(
            **values_of(compile_, *same),
            is_recompile=bool(compile_.reasons or metrics.recompile_reason),
            recompile_reasons=compile_.reasons,
            op_count=metrics.graph_op_count,
            guard_count=metrics.guard_count,
            duration_s=metrics.duration_us and metrics.duration_us / 1e6,
            backend_s=backend_us and backend_us / 1e6,
            failure=self._failure(compile_),
            stack=self._named(compile_.stack),
            cause=self._cause(compile_),
        )

    def _cause(self, compile_: SeenCompile) -> RecompileCause | None:
        record = compile_.recompile
        reasons = compile_.reasons
        place = self._intake.place
        if not reasons and record is None:
            return None
        # Imported here: most logs have no recompile, and reading guard texts takes half a dozen
        # modules.
        from graphdoctor.trace.causes import cause_of_reasons, cause_of_record, with_carried

        root = self._intake.roots.get(compile_.frame_id)
        program = root or self._intake.wrapped(compile_.frame_id)
        try:
            if record is None:
                cause = cause_of_reasons(reasons, place)
            else:
                cause = cause_of_record(record, place, reasons=reasons)
                # A frame over its limit has no dynamo_start record, so nothing else says who called
                # it.
                cause = cause.replace(caller=() if compile_.stack else self._named(compile_.caller))
            changes = []
            for change in cause.changes:
                line, words = change.guard_location, change.expression
                if root is not None and (line is None or line.origin == "torch"):
                    line = root.place
                words = words if program is None else program.named(words)
                changes.append(change.replace(expression=words, guard_location=line))
            return with_carried(cause.replace(changes=tuple(changes)), self._carried(compile_))
        except (ValueError, TypeError, LookupError, AttributeError):
            self._unreadable["graphdoctor_recompile"] += 1
            return None

    def _carried(self, compile_: SeenCompile) -> Callable[[str], str]:
        """Returns what names the values passed to a resume function; the last one is what broke the
        graph.
        """
        code_name, file, _ = self._intake.code_names.get(compile_.frame_id, ("", "", 0))
        _, line = resumed(code_name)
        if line is None:
            return lambda _name: "(a value from an earlier line)"
        # The whole path of a generated file is replaced by its name later.
        name_of_file = file if file in self._intake.generated else re.split(r"[/\\]", file)[-1]
        place = f"{name_of_file}:{line}"
        broken = self._broken_expressions.get((file, line))
        names = (compile_.recompile or {}).get("stack_names") or []
        last = max(names, key=lambda name: int(name.removeprefix("___stack")), default=None)
        return lambda name: (
            f"the value of `{broken}` at {place}"
            if broken and name == last
            else f"(a value from {place})"
        )

    @cached_property
    def _broken_expressions(self) -> dict[tuple[str, int], str]:
        """The calls that broke a graph, by file and line."""
        broken: dict[tuple[str, int], str] = {}
        for break_ in self._intake.breaks:
            if not break_.exact or not (break_.record.instruction or "").startswith("CALL"):
                continue
            match entry := break_.exact[0]:
                case StackEntry(text=str(text), column=int(column), end_column=int(end)):
                    removed = 1 + (entry.indent or 0)
                    code = text[max(column - removed, 0) : end - removed]
                    broken.setdefault(entry.at, code)
        return broken

    def _frame(self, frame_id: int, compiled_autograd_id: int | None) -> Frame:
        intake = self._intake
        code_name, file, line = intake.code_names[frame_id]
        if (root := intake.roots.get(frame_id)) is not None:
            fields = values_of(root.place, "file", "line", "text", "origin", "package")
            name = root.expression if root.class_name == "partial" else f"{root.class_name}.forward"
            fields |= {"function": "forward", "qualname": name, "code_name": code_name}
            return Frame(frame_id=frame_id, is_wrapper=True, container=root.container, **fields)
        function, resumes_at = resumed(code_name)
        wrapped = intake.wrapped(frame_id)
        context = intake.source(file, line, function)
        origin, package = intake.origins.of(file)
        qualname = None
        text = None
        first_line = line
        if context is not None:
            qualname = context.qualname
            first_line = context.function_line or line
            start = intake.source(file, first_line, function) if context.function_line else None
            text = start.statement.splitlines()[0] if start and start.statement else None
        if compiled_autograd_id is not None:
            qualname = f"backward pass {compiled_autograd_id} (compiled autograd)"
        elif code_name == "inner" and file.endswith(_WRAPPER_FILES) and origin == "torch":
            # So torch calls the frame if the root's class is its own
            # (``torch/_dynamo/external_utils.py``, 2.13).
            class_name = self._run.target.class_name
            qualname = f"{class_name}.forward" if class_name else None
        if qualname and code_name.endswith(("comp>", "<genexpr>")):
            qualname += f".{code_name}"  # a comprehension is a function within that
        return Frame(
            frame_id=frame_id,
            function=function,
            qualname=qualname,
            wraps=None if wrapped is None else wrapped.qualname,
            wraps_at=None if wrapped is None else wrapped.place,
            file=file,
            line=first_line,
            text=text,
            origin=origin,
            package=package,
            resumes_at=resumes_at,
            code_name=code_name,
            code_line=line,
        )

    def _graph(self, graph: Graph, frame: Frame | None) -> Graph:
        if frame is not None:
            graph = graph.replace(function=frame.described, resumes_at=frame.resumes_at)
        compile_ = self._intake.compiles.get(graph.compile_id)
        root = None if compile_ is None else self._intake.roots.get(compile_.frame_id)
        if root is None or graph.inputs is None:
            return graph
        inputs = (
            item if item.source is None else item.replace(source=root.named_source(item.source))
            for item in graph.inputs
        )
        return graph.replace(inputs=tuple(inputs))

    def _ddp_split(self, split: SeenSplit) -> DdpSplit:
        # Imported here: few logs have any.
        from graphdoctor.trace.printed_graph import split_of

        graphs = (seen.graph for seen in self._intake.graphs)
        same = (graph.inputs for graph in graphs if graph.compile_id == split.compile_id)
        inputs = next(same, None)
        if inputs is None:
            return split_of(split, None)
        parameters = (item for item in inputs if item.is_parameter)
        names = {item.name.lower(): expression(item.source or item.name) for item in parameters}
        return split_of(split, names)
