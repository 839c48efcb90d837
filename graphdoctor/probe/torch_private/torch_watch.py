"""What torch says of its compiles in a program that runs on, 2.11 to 2.15, at no cost per call.

Three places of torch tell it, and each looks after the other two, which the program can clear
(``torch._dynamo.reset``, ``reset_recompile_user_contexts``, ``set_compilation_metrics_limit``):

- ``register_hook_for_recompile_user_context``: called in every compile, the first of a function
  too, once torch knows the reason and before it traces (``_compile`` of
  ``torch/_dynamo/convert_frame.py``);
- ``_compilation_metrics`` of ``torch/_dynamo/utils.py``, a deque of 64 to which the record of each
  compile is appended when it has ended, in the thread that compiled: ours passes it on, so that
  none is lost in a burst;
- ``callback_handler`` of ``torch/_dynamo/callback.py``, for recordings of CUDA graphs alone: of
  several compiles at once it reports one.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from types import CodeType
from typing import Any, NamedTuple

import torch

from ...facts.base import Fields
from ...facts.stack import resumed
from ...facts.watch import CacheResult
from .torch_api import (
    Undo,
    current_compile_id,
    frames_outwards,
    keep_from_compiling,
    put_in_place,
    survived,
    wrap,
)

_CONVERT_FRAME = "torch._dynamo.convert_frame"
_RESUME = "torch._dynamo.resume_execution"
_CUDA_GRAPHS = "torch._inductor.cudagraph_utils.__cudagraphs"
"""Logs a warning for each CUDA graph that is skipped (``torch/_inductor/cudagraph_utils.py``)."""
_LIMIT = re.compile(r"Limit type: (\w+)")
_MOST_NAMED = 4096
_CACHES = {
    "inductor_fx_local_cache": "fx_graph",
    "inductor_fx_remote_cache": "fx_graph_remote",
    "aotautograd_local_cache": "aot_autograd",
    "aotautograd_remote_cache": "aot_autograd_remote",
}
"""Layers by the names that their counts have in a record."""


class Begun(NamedTuple):
    """A compile that has begun."""

    compile_id: str
    code: CodeType
    reason: str | None
    """Why it isn't the function's first, in torch's words."""
    break_count: int
    """Graph breaks of the process until now."""
    is_fullgraph: bool

    @property
    def names(self) -> Fields:
        """Function, file and line."""
        code = self.code
        name, _ = resumed(code.co_name)
        return {"function": name, "file": code.co_filename, "line": code.co_firstlineno}

    @property
    def whole(self) -> CodeType:
        """Code of the whole function, where this is the part after a graph break."""
        made_of = import_module(_RESUME).ContinueExecutionCache.generated_code_metadata.get
        of = made_of(self.code)
        return self.code if of is None else of.code


class _Records(deque[Any]):
    """torch's deque of records, which passes on what is appended."""

    takers: list[Callable[[Any], None]]

    def append(self, record: Any) -> None:
        super().append(record)
        for take in tuple(self.takers):
            survived(take, record)


class CompileWatch:
    """Calls back for what torch compiles.

    Args:
        begin: Gets each compile that begins; what it raises ends the compile, and reaches the
            program.
        take: Gets fields of a ``WatchEvent`` and the ``Begun`` of its compile, None if there is
            none, in the thread that compiled.
        context: Returns what torch's own record is to say of the moment.
    """

    def __init__(
        self,
        *,
        begin: Callable[[Begun], None],
        take: Callable[[Fields, Begun | None], None],
        context: Callable[[], str],
    ) -> None:
        self._begin, self._take, self._context = begin, take, context
        self._begun: dict[str, Begun] = {}
        self._names: dict[str, Fields] = {}
        self._recording_since = 0.0
        self._skips = _Skips(self._on_skip)

    def install(self) -> None:
        """Begin to listen.

        Raises:
            AttributeError, ImportError: This torch lacks one of the places.
        """
        import_module(_CONVERT_FRAME)
        _ = import_module(_RESUME).ContinueExecutionCache.generated_code_metadata
        self._arm()
        logging.getLogger(_CUDA_GRAPHS).addHandler(self._skips)

    def _arm(self) -> None:
        """Install what isn't there, or was taken away."""
        utils = torch._dynamo.utils
        records = utils._compilation_metrics
        if not isinstance(records, _Records):
            records = utils._compilation_metrics = _Records(records, records.maxlen)
            records.takers = []
        if self._on_record not in records.takers:
            records.takers.append(self._on_record)
        if self._on_context not in (utils.get_hook_for_recompile_user_context() or ()):
            utils.register_hook_for_recompile_user_context(self._on_context)
        handler = torch._dynamo.callback.callback_handler
        if self._on_start not in handler.start_callbacks:
            handler.register_start_callback(self._on_start)
            handler.register_end_callback(self._on_end)

    def has_seen(self, compile_id: str) -> bool:
        """Return whether it saw this compile, and can still name it."""
        return compile_id in self._names

    def close(self) -> None:
        """Stop listening; torch is as it was."""
        logging.getLogger(_CUDA_GRAPHS).removeHandler(self._skips)
        utils = torch._dynamo.utils
        records = utils._compilation_metrics
        if isinstance(records, _Records):
            with suppress(ValueError):
                records.takers.remove(self._on_record)
            if not records.takers:
                utils._compilation_metrics = deque(records, records.maxlen)
        hooks = utils.get_hook_for_recompile_user_context()
        handler = torch._dynamo.callback.callback_handler
        held: Any
        for held, ours in (
            (hooks or [], self._on_context),
            (handler.start_callbacks, self._on_start),
            (handler.end_callbacks, self._on_end),
        ):
            with suppress(ValueError):
                held.remove(ours)
        if hooks == []:
            utils.reset_recompile_user_contexts()

    # While torch compiles.

    def _on_context(self) -> str:
        survived(self._arm)
        if (begun := _compile_under_way()) is not None:
            self._begun[begun.compile_id] = begun
            self._begin(begun)
        return self._context()

    def _on_record(self, record: Any) -> None:
        self._arm()
        compile_id = record.compile_id
        if record.is_runtime:
            return
        if record.is_forward is False:
            fields = {"kind": "backward", **self._names.get(compile_id, {})}
            self._take(fields | _of_record(record), None)
            return
        begun = self._begun.pop(compile_id, None)
        fields = {"kind": "compile"} if begun is None else self._of_begun(begun, record)
        self._take(fields | _of_record(record), begun)

    def _of_begun(self, begun: Begun, record: Any) -> Fields:
        names = self._names[begun.compile_id] = begun.names
        if len(self._names) > _MOST_NAMED:
            del self._names[next(iter(self._names))]
        # torch's own ``num_graph_breaks`` counts those of the whole process. A frame that can't be
        # resumed after its break has no code.
        breaks = len(torch._dynamo.utils.graph_break_reasons) - begun.break_count
        fields = {
            "kind": "compile" if begun.reason is None else "recompile",
            "reason": begun.reason,
            "graph_breaks": max(breaks, int(record.fail_type == "Unsupported")),
        }
        # No name: torch stopped before it traced.
        if record.co_name is None and (limit := _limit(record)) is not None:
            fields |= {"kind": "limit", "reason": f"{limit}: {begun.reason}", "graph_breaks": None}
        return names | fields

    def _on_start(self, args: Any) -> None:
        if args.callback_trigger.name == "CUDAGRAPH_RECORDING":
            self._recording_since = time.perf_counter()

    def _on_end(self, args: Any) -> None:
        if args.callback_trigger.name == "CUDAGRAPH_RECORDING":
            seconds = time.perf_counter() - self._recording_since
            survived(self._take_at, args.compile_id, {"kind": "cuda_graph", "seconds": seconds})

    def _on_skip(self, reason: str) -> None:
        self._take_at(current_compile_id(), {"kind": "cuda_graph_skipped", "reason": reason})

    def _take_at(self, compile_id: str | None, fields: Fields) -> None:
        begun = self._begun.get(compile_id or "")
        names = self._names.get(compile_id or "", {}) if begun is None else begun.names
        fields |= {"compile_id": compile_id, "time_s": time.time()}
        self._take(names | fields, None)


class _Skips(logging.Handler):
    def __init__(self, take: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._take_skip = take

    def emit(self, record: logging.LogRecord) -> None:
        survived(lambda: self._take_skip(record.getMessage()))


def _compile_under_way() -> Begun | None:
    for frame in frames_outwards():
        code = frame.f_code
        if code.co_name == "_compile" and code.co_filename.endswith("convert_frame.py"):
            values = frame.f_locals
            return Begun(
                str(values["compile_id"]),
                values["code"],
                values.get("recompile_reason"),
                len(torch._dynamo.utils.graph_break_reasons),
                bool(values.get("one_graph")),
            )
    return None


def _of_record(record: Any) -> Fields:
    start_us, end_us = record.start_time_us, record.end_time_us
    caches: dict[str, CacheResult] = {}
    for name, layer in _CACHES.items():
        if getattr(record, f"{name}_miss_count", None):
            caches[layer] = "miss"
        elif getattr(record, f"{name}_hit_count", None):
            caches[layer] = "hit"
    return {
        "compile_id": record.compile_id,
        "time_s": time.time() if end_us is None else end_us / 1e6,
        "seconds": None if start_us is None or end_us is None else (end_us - start_us) / 1e6,
        "cache": caches,
        "is_ok": record.fail_type is None,
    }


def _limit(record: Any) -> str | None:
    """Return the limit that a compile reached, such as ``recompile_limit``; None if it reached
    none.

    With ``fullgraph`` torch raises, and names none (``FailOnRecompileLimitHit``).
    """
    match = _LIMIT.search(record.fail_reason or "")
    is_raised = record.fail_type == "FailOnRecompileLimitHit"
    return match[1] if match is not None else "recompile_limit" if is_raised else None


# The lock.


class RunEagerly(Exception):  # noqa: N818 - no error: asks for something
    """Raised where a compile begins, to have this call run what there is, and the rest eagerly."""


def run_eagerly() -> Undo:
    """Have calls for which ``RunEagerly`` is raised run eagerly, as the stance
    ``eager_on_recompile`` does: they use compiled code, and compile none.

    Unlike a stance, costs a steady call nothing.
    """
    types = import_module("torch._dynamo.types")
    run_only = types.FrameExecStrategy(types.FrameAction.RUN_ONLY, types.FrameAction.RUN_ONLY)

    def compile_frame(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        except RunEagerly:
            return types.ConvertFrameReturn(frame_exec_strategy=run_only, apply_to_code=False)

    return wrap(import_module(_CONVERT_FRAME), "_compile", compile_frame)


def after_calls(count: int, callback: Callable[[], None]) -> Undo:
    """Call back once at the start of the compiled call that follows ``count`` others; costs each
    call until then a Python call.

    Every compiled call asks ``_callback_from_stance`` first (``torch/_dynamo/eval_frame.py``).
    """
    frames = import_module("torch._dynamo.eval_frame")
    ask = frames._callback_from_stance
    left = count

    def counting(callback_of_call: Any) -> Any:
        nonlocal left
        if callback_of_call:
            left -= 1
            if left < 0:
                undo()
                survived(callback)
        return ask(callback_of_call)

    keep_from_compiling(counting)
    undo = put_in_place(frames, "_callback_from_stance", counting)
    return undo


def rank() -> int | None:
    """Return this process's rank in a job of several; None outside of one."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    number = os.environ.get("RANK", "")
    is_job = number.isdecimal() and os.environ.get("WORLD_SIZE", "1") != "1"
    return int(number) if is_job else None
