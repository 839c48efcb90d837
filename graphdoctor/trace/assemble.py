"""Records of the trace log, one by one, to a ``Recording``.

Which record says what was seen on 2.13 (``torch/_dynamo/convert_frame.py``): ``dynamo_start`` begins a compile,
``compilation_metrics`` ends it. A frame over its recompile limit has metrics and no start. A frame dropped for having
no operation has metrics that claim guarded code, without counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import orjson

from graphdoctor.model.recording import (
    BreakEffect,
    BreakRecord,
    Call,
    CaptureGap,
    Compile,
    CompileOutcome,
    Coverage,
    Environment,
    FailedCompile,
    Frame,
    Graph,
    GraphInput,
    GraphNode,
    ProbeExit,
    Recording,
    SourceContext,
    StackEntry,
    TargetInfo,
)
from graphdoctor.trace.breaks import BreakText, PrintedEntry, exception_words, parse_break, parse_chain
from graphdoctor.trace.grammar import Record
from graphdoctor.trace.origin import RESUME_NAME, Origins, collapse_resumes, without_probe

_BREAK = "dynamo_graph_break_reason"
_WANTED = frozenset(
    {
        "str",
        "dynamo_start",
        "dynamo_output_graph",
        "compilation_metrics",
        "recompile_reasons",
        "dynamo_error",
        "torch_version",
        _BREAK,
        "graphdoctor_call",
        "graphdoctor_caller",
        "graphdoctor_graph",
        "graphdoctor_stack",
        "graphdoctor_sources",
    }
)
_WRAPPER_FILES = ("_dynamo/external_utils.py", "_dynamo\\external_utils.py")
_LIMIT_TYPE = "Dynamo recompile limit exceeded"
_MAX_MESSAGE = 20_000


@dataclass
class _Break:
    """A break record whose stack may still be replaced by the exact one that follows."""

    compile_id: str | None
    attempt: int | None
    call_index: int | None
    text: BreakText
    exact: tuple[StackEntry, ...] = ()
    is_error: bool = False


@dataclass
class _Compile:
    """What is known of a compile so far."""

    compile_id: str
    frame_id: int
    call_index: int | None
    is_extra: bool
    is_started: bool = False
    stack: tuple[StackEntry, ...] = ()
    attempts: int = 1
    reasons: tuple[str, ...] = ()
    metrics: dict[str, Any] | None = None
    breaks: list[_Break] = field(default_factory=list)
    error: _Break | None = None
    error_type: str | None = None
    has_graph: bool = False
    backend_error: str | None = None


class Assembler:
    """Takes records in the order of the log.

    Args:
        environment: Where the recording was made.
        is_ours: The recording should hold our own records; their absence is then a gap of its own.
    """

    def __init__(self, environment: Environment, *, is_ours: bool) -> None:
        self._environment = environment
        self._is_ours = is_ours
        self._origins = Origins(environment)
        self._strings: dict[int, str] = {}
        self._compiles: dict[str, _Compile] = {}
        self._code_names: dict[int, tuple[str, str, int]] = {}
        self._breaks: list[_Break] = []
        self._graphs: list[dict[str, Any]] = []
        self._calls: dict[int, Call] = {}
        self._call: int | None = None
        self._is_extra = False
        self._last_stacked: _Break | None = None
        self._sources: dict[tuple[str, int], SourceContext] = {}
        self.has_repeated_ids = False

    @property
    def compile_count(self) -> int:
        """Compiles seen so far."""
        return len(self._compiles)

    @staticmethod
    def wants(kind: str) -> bool:
        """Whether a kind of record matters here."""
        return kind in _WANTED

    def add(self, record: Record) -> None:
        """Take the next record."""
        handler = getattr(self, f"_on_{record.kind}", None)
        if handler is not None:
            handler(record)

    # Records of torch.

    def _on_str(self, record: Record) -> None:
        text, key = record.value
        self._strings[key] = text
        self._origins.learn_from(text)

    def _on_torch_version(self, record: Record) -> None:
        if self._environment.torch is None and record.payload:
            version = orjson.loads(record.payload).get("pytorch_version")
            self._environment = self._environment.model_copy(update={"torch": version})

    def _on_dynamo_start(self, record: Record) -> None:
        compile_ = self._compile_of(record)
        if compile_ is None:
            return
        if compile_.is_started:
            self.has_repeated_ids = True
        compile_.is_started = True
        raw = record.value.get("stack") or []
        entries = tuple(
            self._entry(
                self._strings.get(line.get("filename"), "<unknown>"),
                line["line"],
                line["name"],
                line.get("loc"),
            )
            for line in raw
        )
        if not entries:
            return
        # The last entry is the frame itself; its file is never ours.
        frame = entries[-1]
        compile_.stack = collapse_resumes((*without_probe(entries[:-1]), frame))
        self._code_names.setdefault(compile_.frame_id, (frame.function, frame.file, frame.line))

    def _on_recompile_reasons(self, record: Record) -> None:
        compile_ = self._compile_of(record)
        if compile_ is None or record.payload is None:
            return
        # A single reason is a bare string although the record claims JSON; several are a list.
        try:
            value = orjson.loads(record.payload)
        except orjson.JSONDecodeError:
            value = record.payload
        compile_.reasons = tuple(map(str, value)) if isinstance(value, list) else (str(value).strip(),)

    def _on_dynamo_graph_break_reason(self, record: Record) -> None:
        found = _Break(record.compile_id, record.attempt, self._call, parse_break(record.payload or ""))
        self._last_stacked = found
        compile_ = self._compile_of(record)
        if compile_ is not None:
            compile_.breaks.append(found)
            if compile_.is_extra:
                return
        elif self._is_extra:
            return
        self._breaks.append(found)

    def _on_dynamo_error(self, record: Record) -> None:
        words = exception_words(record.payload or "")
        text = BreakText(parse_chain(words), None, None, None, words, (), None)
        error = _Break(record.compile_id, record.attempt, self._call, text, is_error=True)
        self._last_stacked = error
        compile_ = self._compile_of(record)
        if compile_ is not None:
            compile_.error = error

    def _on_dynamo_output_graph(self, record: Record) -> None:
        compile_ = self._compile_of(record)
        if compile_ is not None:
            compile_.has_graph = True
        if self._is_extra:
            return
        self._graphs.append({"compile_id": record.compile_id, "code": record.payload})

    def _on_compilation_metrics(self, record: Record) -> None:
        metrics = orjson.loads(record.payload) if record.payload else record.value
        # A backward graph compiled later has metrics of its own under the same compile id.
        if not isinstance(metrics, dict) or metrics.get("is_forward") is False:
            return
        compile_ = self._compile_of(record)
        if compile_ is None or (compile_.metrics is not None and metrics.get("co_name") is None):
            return
        restarts = metrics.get("restart_reasons")
        if isinstance(restarts, str):
            metrics["restart_reasons"] = orjson.loads(restarts)
        compile_.metrics = {key: metrics.get(key) for key in _METRICS}
        if isinstance(metrics.get("attempt"), int):
            compile_.attempts = metrics["attempt"] + 1
        if record.attempt is not None:
            compile_.attempts = max(compile_.attempts, record.attempt + 1)
        name, file, line = (metrics.get(key) for key in ("co_name", "co_filename", "co_firstlineno"))
        if name and file and isinstance(line, int):
            self._code_names.setdefault(compile_.frame_id, (name, file, line))

    # Records of ours.

    def _on_graphdoctor_call(self, record: Record) -> None:
        value = orjson.loads(record.payload or "{}")
        index = value.get("index")
        if value.get("event") == "start":
            self._call, self._is_extra = index, index is None
            if index is not None:
                self._calls[index] = Call(index=index, inputs=value.get("inputs"))
        else:
            if index in self._calls:
                outcome = {key: value[key] for key in ("outcome", "duration_s", "error") if key in value}
                self._calls[index] = Call(**self._calls[index].model_dump() | outcome)
            self._call, self._is_extra = None, False

    def _on_graphdoctor_graph(self, record: Record) -> None:
        if self._is_extra:
            return
        value = orjson.loads(record.payload or "{}")
        compile_ = self._compile_of(record)
        if compile_ is not None:
            compile_.has_graph = True
            compile_.backend_error = value.get("backend_error")
        if value.get("inputs") is not None:
            value["inputs"] = tuple(GraphInput(**item) for item in value["inputs"])
        if value.get("nodes") is not None:
            value["nodes"] = tuple(GraphNode(**item) for item in value["nodes"])
        # torch's own record of the same graph stands right before it, except where a backend is called again.
        if self._graphs and self._graphs[-1]["compile_id"] == record.compile_id and "index" not in self._graphs[-1]:
            self._graphs[-1] |= value
        else:
            self._graphs.append({"compile_id": record.compile_id, "code": None, **value})

    def _on_graphdoctor_caller(self, record: Record) -> None:
        compile_ = self._compile_of(record)
        if compile_ is None or not compile_.stack:
            return
        above = tuple(self._recorded_entry(entry) for entry in orjson.loads(record.payload or "[]"))
        frame = compile_.stack[-1]
        if compile_.frame_id in self._code_names:
            frame = frame.model_copy(update={"function": self._code_names[compile_.frame_id][0]})
        compile_.stack = collapse_resumes((*without_probe(above), frame))

    def _on_graphdoctor_stack(self, record: Record) -> None:
        value = orjson.loads(record.payload or "{}")
        last = self._last_stacked
        if last is None or last.compile_id != record.compile_id:
            return
        last.exact = tuple(self._recorded_entry(entry) for entry in value.get("stack") or ())
        compile_ = self._compiles.get(record.compile_id or "")
        if last.is_error and compile_ is not None:
            compile_.error_type = value.get("type")

    def _on_graphdoctor_sources(self, record: Record) -> None:
        for value in orjson.loads(record.payload or "[]"):
            context = SourceContext(**value)
            self._sources[context.file, context.line] = context

    # Putting together.

    def _compile_of(self, record: Record) -> _Compile | None:
        compile_id = record.compile_id
        if compile_id is None or not isinstance(record.metadata.get("frame_id"), int):
            return None
        if compile_id not in self._compiles:
            self._compiles[compile_id] = _Compile(compile_id, record.metadata["frame_id"], self._call, self._is_extra)
        return self._compiles[compile_id]

    def _entry(self, file: str, line: int, function: str, text: str | None, **columns: Any) -> StackEntry:  # noqa: ANN401
        origin, package = self._origins.of(file)
        return StackEntry(
            file=file,
            line=line,
            function=function,
            text=text or None,
            origin=origin,
            package=package,
            **columns,
        )

    def _recorded_entry(self, entry: dict[str, Any]) -> StackEntry:
        return self._entry(**{key: value for key, value in entry.items() if key in _ENTRY})

    def _stack(self, found: _Break, function: str | None) -> tuple[tuple[StackEntry, ...], bool]:
        """A break's stack, and whether it is the exact one."""
        if found.exact:
            return found.exact, True
        printed = found.text.stack
        header = found.text.header
        # Where the exception has no stack, torch names the function's first line in the header alone.
        if header and (not printed or (printed[-1].file, printed[-1].line) != header):
            printed = (*printed, PrintedEntry(*header, function or "<unknown>", None))
        entries = tuple(self._entry(item.file, item.line, item.function, item.text) for item in printed)
        return without_probe(entries), False

    def _named(self, stack: tuple[StackEntry, ...]) -> tuple[StackEntry, ...]:
        """The stack with the qualified names that are known."""
        return tuple(
            entry.model_copy(update={"qualname": context.qualname})
            if (context := self._sources.get((entry.file, entry.line)))
            else entry
            for entry in stack
        )

    def _break_record(self, found: _Break, effect: BreakEffect) -> BreakRecord:
        compile_ = self._compiles.get(found.compile_id or "")
        function = (
            self._code_names[compile_.frame_id][0] if compile_ and compile_.frame_id in self._code_names else None
        )
        stack, is_exact = self._stack(found, function)
        return BreakRecord(
            compile_id=found.compile_id,
            attempt=found.attempt,
            call_index=found.call_index,
            effect=effect,
            instruction=found.text.instruction,
            chain=found.text.chain,
            stack=self._named(stack),
            is_stack_exact=is_exact,
            higher_order_operator=found.text.higher_order_operator,
            words=found.text.words[:_MAX_MESSAGE],
        )

    def _effect(self, found: _Break) -> BreakEffect:
        compile_ = self._compiles.get(found.compile_id or "")
        if (
            compile_ is not None
            and self._outcome(compile_) == "skipped"
            and compile_.breaks[-1] is found
            and not _is_declined(compile_)
        ):
            return "frame_skipped"
        return found.text.effect or "resumed"

    def _outcome(self, compile_: _Compile) -> CompileOutcome:
        metrics = compile_.metrics
        if metrics is None:
            return "unfinished" if compile_.error is None else "failed"
        if not metrics["has_guarded_code"]:
            if not compile_.is_started and metrics["co_name"] is None:
                return "limit"
            is_skip = any(found.text.effect == "frame_skipped" for found in compile_.breaks)
            return "skipped" if is_skip else "failed"
        if metrics["guard_count"] is not None:
            return "compiled"
        return "skipped" if _is_declined(compile_) else "empty"

    def _failure(self, compile_: _Compile, outcome: CompileOutcome) -> FailedCompile | None:
        metrics = compile_.metrics or {}
        if outcome not in ("skipped", "failed", "limit"):
            return None
        stack: tuple[StackEntry, ...] = ()
        if compile_.error is not None:
            stack = self._named(self._stack(compile_.error, None)[0])
        message = compile_.error.text.words if compile_.error else (metrics.get("fail_reason") or "")
        if _is_declined(compile_):
            message = compile_.backend_error or "The backend got the graph, and torch left the frame to eager mode."
        return FailedCompile(
            type=metrics.get("fail_type")
            or compile_.error_type
            or ("SkipFrame" if _is_declined(compile_) else "unknown"),
            message=str(message)[:_MAX_MESSAGE],
            chain=parse_chain(str(message)),
            stack=stack,
        )

    def _finished_compile(self, compile_: _Compile) -> Compile:
        metrics = compile_.metrics or {}
        outcome = self._outcome(compile_)
        restarts = metrics.get("restart_reasons") or ()
        return Compile(
            compile_id=compile_.compile_id,
            frame_id=compile_.frame_id,
            call_index=compile_.call_index,
            outcome=outcome,
            is_recompile=bool(compile_.reasons) or bool(metrics.get("recompile_reason")),
            recompile_reasons=compile_.reasons,
            attempts=compile_.attempts,
            restart_reasons=tuple(str(reason).splitlines()[0] for reason in restarts),
            op_count=metrics.get("graph_op_count"),
            guard_count=metrics.get("guard_count"),
            duration_s=_seconds(metrics.get("duration_us")),
            backend_s=_seconds(metrics.get("aot_autograd_cumulative_compile_time_us")),
            failure=self._failure(compile_, outcome),
            stack=self._named(compile_.stack),
        )

    def _frames(self, compiles: list[Compile], target: TargetInfo) -> list[Frame]:
        frames: dict[int, Frame] = {}
        for compile_ in compiles:
            named = self._code_names.get(compile_.frame_id)
            if compile_.frame_id in frames or named is None:
                continue
            code_name, file, line = named
            resume = RESUME_NAME.match(code_name)
            context = self._sources.get((file, line))
            origin, package = self._origins.of(file)
            frames[compile_.frame_id] = Frame(
                frame_id=compile_.frame_id,
                function=resume[1] if resume else code_name,
                qualname=self._qualname(file, code_name, context, target),
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
        """The function's qualified name; where torch compiles its own wrapper, that of what is wrapped.

        The frame of a root whose class is torch's own is ``inner`` (``torch/_dynamo/external_utils.py``, 2.13).
        """
        if code_name == "inner" and file.endswith(_WRAPPER_FILES) and self._origins.of(file)[0] == "torch":
            return f"{target.class_name}.forward" if target.class_name else None
        return context.qualname if context else None

    def _definition(self, file: str, line: int, context: SourceContext | None) -> str | None:
        """The first line of a frame's function; a resume function's own line lies inside it."""
        if context is None or context.function_line is None:
            return None
        at = context if context.function_line == line else self._sources.get((file, context.function_line))
        return at.statement.splitlines()[0] if at and at.statement else None

    def _raised_breaks(self) -> list[_Break]:
        """Breaks that were raised (``fullgraph``): torch writes no break record for them, only the error."""
        return [
            compile_.error
            for compile_ in self._compiles.values()
            if compile_.error is not None
            and not compile_.is_extra
            and not compile_.breaks
            and self._outcome(compile_) == "failed"
            and (compile_.metrics or {}).get("fail_type") in ("Unsupported", "UserError")
            and compile_.error.text.chain[0].gb_type != _LIMIT_TYPE
        ]

    def finish(
        self,
        *,
        target: TargetInfo,
        exit: ProbeExit,
        coverage: Coverage | None,
        gaps: list[CaptureGap],
        is_cut: bool,
    ) -> Recording:
        """The recording.

        Args:
            target: What was compiled.
            exit: How the process ended.
            coverage: What was measured, if anything.
            gaps: What is already known to be missing.
            is_cut: The log ends in the middle of a record.
        """
        own = [compile_ for compile_ in self._compiles.values() if not compile_.is_extra]
        compiles = [self._finished_compile(compile_) for compile_ in own]
        breaks = [self._break_record(found, self._effect(found)) for found in self._breaks]
        breaks += [self._break_record(found, "raised") for found in self._raised_breaks()]
        calls = tuple(self._calls[index] for index in sorted(self._calls))
        is_unfinished = any(call.outcome != "ok" for call in calls) or exit.reason not in (None, "finished")
        return Recording(
            environment=self._environment,
            target=target,
            exit=exit,
            is_partial=is_cut or is_unfinished,
            calls=calls,
            frames=tuple(self._frames(compiles, target)),
            compiles=tuple(compiles),
            graphs=tuple(_graph(index, value) for index, value in enumerate(self._graphs)),
            breaks=tuple(breaks),
            sources=tuple(self._sources.values()),
            coverage=coverage,
            gaps=(*gaps, *self._gaps(coverage, is_partial=is_unfinished)),
        )

    def _gaps(self, coverage: Coverage | None, *, is_partial: bool) -> list[CaptureGap]:
        gaps = []
        if not self._is_ours:
            gaps.append(
                CaptureGap(
                    code="GD904",
                    message="This log was not recorded by graphdoctor: it has no calls, no coverage, no columns, and "
                    "stacks as torch prints them, which can lack lines.",
                )
            )
        elif is_partial and coverage is None:
            gaps.append(CaptureGap(code="GD900", message="Coverage was not measured: the run ended early."))
        unfinished = [c.compile_id for c in self._compiles.values() if self._outcome(c) == "unfinished"]
        if unfinished:
            gaps.append(
                CaptureGap(code="GD902", message=f"The run ended while torch was compiling {', '.join(unfinished)}.")
            )
        return gaps


_METRICS = (
    "co_name",
    "has_guarded_code",
    "guard_count",
    "graph_op_count",
    "fail_type",
    "fail_reason",
    "recompile_reason",
    "restart_reasons",
    "duration_us",
    "aot_autograd_cumulative_compile_time_us",
)
_ENTRY = frozenset({"file", "line", "function", "text", "indent", "column", "end_column"})


def _is_declined(compile_: _Compile) -> bool:
    """The backend got the graph and had the frame skipped, by raising ``SkipFrame``.

    torch then claims guarded code without counts, as it does for a frame without operations
    (``torch/_dynamo/convert_frame.py``, 2.13, ``_compile_inner``); only a graph tells the two apart.
    """
    metrics = compile_.metrics
    return (
        metrics is not None
        and bool(metrics["has_guarded_code"])
        and metrics["guard_count"] is None
        and compile_.has_graph
    )


def _seconds(microseconds: object) -> float | None:
    return microseconds / 1e6 if isinstance(microseconds, (int, float)) else None


def _graph(index: int, value: dict[str, Any]) -> Graph:
    return Graph(
        compile_id=value["compile_id"] or "?",
        index=index,
        op_count=value.get("op_count"),
        tensor_op_count=value.get("tensor_op_count"),
        inputs=value.get("inputs"),
        nodes=value.get("nodes"),
        code=value.get("code"),
        backend=value.get("backend"),
        backend_s=value.get("backend_s"),
        backend_error=value.get("backend_error"),
    )
