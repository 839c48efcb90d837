"""Every private name of torch that graphdoctor uses, and every difference between versions.

Only the other modules of this folder use private names too: ``torch_hooks`` for a program that is run as it is,
``torch_guards``, ``torch_trace``, ``torch_loan``, ``torch_config`` and ``torch_inductor``.

Each access survives a missing name: ``missing()`` lists what this torch lacks, and the session reports each as a
gap. Seen on 2.11.0, 2.13.0 and 2.15.0.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import logging
import os
import sys
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any

import torch

from ...facts.recording import SwitchKind
from ..events import json_text
from ..wire import Artifact, ArtifactName, CacheCounts

TRACE_LOGGER_NAME = "torch.__trace"
"""Logger of the structured trace: ``torch/_logging/_internal.py``, 2.13 (``trace_log``)."""

_NO_COMPILE, _NO_DYNAMO = "TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE"

_CONVERT_FRAME = str(Path("_dynamo", "convert_frame.py"))
_EVAL_FRAME = str(Path("_dynamo", "eval_frame.py"))

_FRAME_SKIP_LOGGER_NAME = "torch._dynamo.convert_frame.__graph_breaks"
"""``torch/_dynamo/convert_frame.py``, 2.13: the record of a frame skipped outside symbolic execution is only written
while this artifact logger is enabled for DEBUG."""

_REQUIRED = {
    "torch._logging.trace_structured": "our own records in the trace log",
    "torch._dynamo.list_backends": "the list of backends",
    "torch._dynamo.exc.TorchDynamoException": "telling torch.compile's errors from the program's own",
    "torch._TorchCompileInductorWrapper": "inductor with its mode and options",
    "torch._TorchCompileWrapper": "a backend with its mode and options",
    "torch._dynamo.convert_frame.register_bytecode_hook": "the cost of guard checks",
    "torch._dynamo.eval_frame._debug_get_cache_entry_list": "the cost of guard checks",
    "torch._C._dynamo.guards.RootGuardManager": "the cost of guard checks",
    "torch.utils._pytree.tree_leaves": "tensors inside outputs",
    "torch.utils._pytree.tree_map": "moving inputs to a device",
}


def _lookup(dotted: str) -> Any:  # noqa: ANN401
    """The object at a dotted path below torch; ``AttributeError`` or ``ImportError`` when this torch lacks it."""
    parts = dotted.split(".")
    value: Any = torch
    for depth, part in enumerate(parts[1:], start=2):
        try:
            value = getattr(value, part)
        except AttributeError:
            value = importlib.import_module(".".join(parts[:depth]))
    return value


def missing() -> dict[str, str]:
    """Private names that this torch lacks, with what is lost without each."""
    absent = {}
    for dotted, purpose in _REQUIRED.items():
        try:
            _lookup(dotted)
        except (AttributeError, ImportError):
            absent[dotted] = purpose
    if not trace_logger().handlers:
        absent[f"handler on the logger {TRACE_LOGGER_NAME}"] = "the trace log itself"
    return absent


def trace_logger() -> logging.Logger:
    """The logger that every structured record goes through."""
    return logging.getLogger(TRACE_LOGGER_NAME)


def switched_loggers() -> tuple[logging.Logger, ...]:
    """The loggers that ``keep_trace_enabled`` and ``record_skipped_frames`` change."""
    return trace_logger(), logging.getLogger(_FRAME_SKIP_LOGGER_NAME)


def keep_trace_enabled() -> None:
    """Undo what a program does to all loggers: ``logging.config.dictConfig`` and ``logging.disable``.

    Since 2.13 torch itself keeps its trace logger out of ``logging.disable`` (``torch/_logging/_internal.py``,
    ``_init_logs``); 2.11 doesn't. The override can go when 2.13 is the oldest torch.
    """
    for logger in switched_loggers():
        logger.disabled = False
        logger.isEnabledFor = partial(_is_level_enabled, logger)  # type: ignore[method-assign]


def _is_level_enabled(logger: logging.Logger, level: int) -> bool:
    # Asked before each record is made; the program may have configured logging in between.
    logger.disabled = False
    return level >= logger.getEffectiveLevel()


def write_artifact(name: ArtifactName, payload: Artifact) -> None:
    """Add a record of ours to the trace log, under the compile that is under way, if any."""
    trace_structured = getattr(torch._logging, "trace_structured", None)
    if trace_structured is None:
        return
    # expect_trace_id=False: outside a compile torch would add the whole Python stack to explain the missing id.
    trace_structured(
        "artifact",
        metadata_fn=lambda: {"name": name, "encoding": "json"},
        payload_fn=lambda: json_text(payload),
        expect_trace_id=False,
    )


def record_skipped_frames() -> None:
    """Make torch write a record for frames that it skips outside symbolic execution (see the logger's note)."""
    logger = logging.getLogger(_FRAME_SKIP_LOGGER_NAME)
    if not logger.isEnabledFor(logging.DEBUG):
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())


def exception_being_logged(max_depth: int = 16) -> BaseException | None:
    """The exception that a graph-break or error record is about, seen from inside a logging handler.

    torch logs most breaks while handling the exception; a data-dependent jump is logged after its handler has ended
    (``InstructionTranslatorBase.jump_graph_break``, 2.13), so there the caller's local is the only way to it.
    """
    frame: FrameType | None = sys._getframe(1)
    for _ in range(max_depth):
        if frame is None:
            break
        if frame.f_code.co_name == "log_graph_break":
            found = frame.f_locals.get("exc")
            if isinstance(found, BaseException):
                return found
        frame = frame.f_back
    return sys.exc_info()[1]


def frames_above_compile(outside: Collection[FrameType] = ()) -> Iterator[FrameType]:
    """The Python frames that led to the frame being compiled, innermost first, seen from inside a compile.

    Between us and the caller are logging and Dynamo's frame conversion (``torch/_dynamo/convert_frame.py``, 2.13,
    its ``__call__`` methods); the frame to be compiled hasn't begun, so it isn't on the stack.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not frame.f_code.co_filename.endswith(_CONVERT_FRAME):
        frame = frame.f_back
    while frame is not None and frame.f_code.co_filename.endswith(_CONVERT_FRAME):
        frame = frame.f_back
    while frame is not None:
        if frame not in outside:
            yield frame
        frame = frame.f_back


def compiled_values() -> Mapping[str, Any]:
    """The values of the frame that is being compiled, seen from inside its compile; empty if they can't be seen.

    ``_compile`` gets them as its argument ``locals`` (``torch/_dynamo/convert_frame.py``, 2.11 to 2.15).
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "_compile" and frame.f_code.co_filename.endswith(_CONVERT_FRAME):
            found = frame.f_locals.get("locals")
            return found if isinstance(found, Mapping) else {}
        frame = frame.f_back
    return {}


def stack_of(frames: Iterable[FrameType]) -> list[traceback.FrameSummary]:
    """Frames, innermost first, as the lines of a stack, outermost first."""
    summaries = [
        traceback.FrameSummary(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name, lookup_line=False)
        for frame in frames
    ]
    return summaries[::-1]


def is_compiler_error(error: BaseException) -> bool:
    """torch.compile raised it of its own accord: the same call could work in eager.

    ``TorchRuntimeError`` is left out: it wraps what the program's own operation raised.
    """
    try:
        exceptions = _lookup("torch._dynamo.exc")
    except (AttributeError, ImportError):
        return False
    if isinstance(error, exceptions.TorchRuntimeError):
        return False
    kinds = (exceptions.TorchDynamoException, getattr(exceptions, "FailOnRecompileLimitHit", ()))
    return isinstance(error, kinds)


def backend_function(name: str, *, mode: str | None, options: dict[str, Any] | None, dynamic: bool | None) -> Any:  # noqa: ANN401
    """The callable that ``torch.compile(backend=name, mode=…, options=…)`` would hand graphs to.

    Mirrors the choice at the end of ``torch.compile`` (``torch/__init__.py``, 2.13): inductor has a wrapper of its own
    that applies mode and options; every other backend receives them as keyword arguments. In a torch without the
    wrappers the backend is found by its name; mode and options are lost then, and ``missing()`` reports it.

    Raises:
        torch._dynamo.exc.InvalidBackend: No backend has that name.
    """
    if name == "inductor":
        if mode is None and options is None:
            mode = "default"
        wrapper = getattr(torch, "_TorchCompileInductorWrapper", None)
        return torch._dynamo.lookup_backend(name) if wrapper is None else wrapper(mode, options, dynamic)
    wrapper = getattr(torch, "_TorchCompileWrapper", None)
    return torch._dynamo.lookup_backend(name) if wrapper is None else wrapper(name, mode, options, dynamic)


def backend_names() -> list[str]:
    """Every registered backend, experimental and debugging ones included."""
    return sorted(torch._dynamo.list_backends(None))


def mode_names() -> list[str]:
    """The modes that ``torch.compile`` takes."""
    return list(torch._inductor.list_mode_options())


def option_names() -> list[str]:
    """The options that ``torch.compile(backend="inductor", options=…)`` takes."""
    return list(torch._inductor.list_options())


def compile_switches() -> Iterator[tuple[SwitchKind, str]]:
    """What can keep torch.compile from compiling now, each with its value.

    ``disable`` of Dynamo's config, which ``TORCH_COMPILE_DISABLE`` sets when torch is imported
    (``torch/_dynamo/config.py``, 2.13), ``TORCHDYNAMO_DISABLE`` (``_optimize``, ``torch/_dynamo/eval_frame.py``, 2.13)
    and the stance, which only ``_stance`` in the same file shows.
    """
    if os.environ.get(_NO_DYNAMO) == "1":
        yield "environment", _NO_DYNAMO
    if torch._dynamo.config.disable:
        is_from_variable = os.environ.get(_NO_COMPILE) == "1"
        yield ("environment", _NO_COMPILE) if is_from_variable else ("config", "torch._dynamo.config.disable")
    with contextlib.suppress(AttributeError, ImportError):
        stance = str(_lookup("torch._dynamo.eval_frame")._stance.stance)
        if stance != "default":
            yield "stance", stance
    if (code := getattr(torch.compile, "__code__", None)) is None or not _is_torch_file(code.co_filename):
        name = getattr(torch.compile, "__qualname__", type(torch.compile).__qualname__)
        yield "replacement", name if code is None else f"{name} ({code.co_filename}:{code.co_firstlineno})"


def _is_torch_file(file: str) -> bool:
    return any(Path(file).is_relative_to(root) for root in (torch_root(), Path(torch.__file__).parent))


CACHE_LOOKUP = "TorchDynamo Cache Lookup"
"""Profiler range of Dynamo's search for a cache entry whose guards hold, at the entry of every frame that it hasn't
skipped for good (``dynamo__custom_eval_frame``, ``torch/csrc/dynamo/eval_frame_cpp.cpp``, 2.13 and 2.15)."""

REGION_PREFIX = "Torch-Compiled Region: "
"""Profiler range of a run of Dynamo's code for a frame, followed by its compile id; it begins right after the search
that found it (``annotation_str``, ``torch/_dynamo/convert_frame.py``, 2.13 and 2.15)."""

COMPILED_FORWARD, COMPILED_BACKWARD = "CompiledFunction", "CompiledFunctionBackward"
"""Profiler ranges of AOTAutograd's two graphs, which have one sequence number
(``torch/_functorch/_aot_autograd/runtime_wrappers.py``, 2.13 and 2.15)."""

FRAME_PHASE, BACKWARD_PHASE = "dynamo", "entire_backward_compile"
"""``chromium_event`` records around one compile of a frame, also one that stops at the recompile limit (``_compile``,
``torch/_dynamo/convert_frame.py``, 2.13 and 2.15), and around a backward graph's, which is compiled when it first runs
(``_AutogradBackwardCompiler``, ``torch/_functorch/_aot_autograd/runtime_wrappers.py``, 2.13 and 2.15)."""

PROFILED_OVERHEAD = ("Pregraph bytecode", CACHE_LOOKUP)
"""Profiler ranges of torch's own work that no program asked for: numbers and NumPy arrays turned into tensors before a
graph (``PyCodegen.make_call_generated_code``, ``torch/_dynamo/codegen.py``, 2.13) and the check of guards, which makes
tensors of NumPy arrays too (``_PythonDispatcher``'s cache lookup, ``torch/csrc/dynamo/eval_frame_cpp.cpp``, 2.13)."""


_CONVERTING = frozenset({"item", "to_numpy_helper"})


@contextlib.contextmanager
def marked_conversions(range_name: str) -> Iterator[None]:
    """Put what Dynamo's code converts after a graph into a profiler range, while the context lasts.

    A graph returns tensors; where the program has a number or a NumPy array, the code that Dynamo generates calls
    ``Tensor.item`` or ``to_numpy_helper`` on them (``PyCodegen.__call__``, ``torch/_dynamo/codegen.py``, 2.13).
    """
    try:
        utils = _lookup("torch._dynamo.utils")
        to_numpy, generated = utils.to_numpy_helper, _lookup("torch._dynamo.convert_frame").output_codes
    except (AttributeError, ImportError):
        yield
        return
    item = torch.Tensor.item
    own_item = torch.Tensor.__dict__.get("item")

    def marked_item(tensor: torch.Tensor) -> Any:  # noqa: ANN401
        if not _is_called_by_generated_code(generated):
            return item(tensor)
        with torch.profiler.record_function(range_name):
            return item(tensor)

    def marked_to_numpy(value: Any) -> Any:  # noqa: ANN401
        with torch.profiler.record_function(range_name):
            return to_numpy(value)

    disable: Callable[[Any], Any] = torch._dynamo.disable
    utils.to_numpy_helper = disable(marked_to_numpy)
    torch.Tensor.item = disable(marked_item)  # type: ignore[method-assign]
    try:
        yield
    finally:
        utils.to_numpy_helper = to_numpy
        if own_item is None:
            del torch.Tensor.item  # it is inherited again
        else:
            torch.Tensor.item = own_item  # type: ignore[method-assign]


def has_conversions() -> bool:
    """Some code that Dynamo generated can convert what a graph returns, as ``marked_conversions`` marks it."""
    try:
        seen = _lookup("torch._dynamo.convert_frame").output_codes.seen
    except (AttributeError, ImportError):
        return True
    codes = (reference() for reference in seen)
    return any(code is not None and not _CONVERTING.isdisjoint(code.co_names) for code in codes)


def _is_called_by_generated_code(generated: Any) -> bool:  # noqa: ANN401
    """The caller of our caller is an instruction that Dynamo generated, not one that it copied from the program.

    Copied instructions keep their columns (the call at which a graph broke); generated ones have only a line.
    """
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.endswith(_EVAL_FRAME):
        frame = frame.f_back
    if frame is None or frame.f_code not in generated:
        return False
    positions = list(frame.f_code.co_positions())
    return positions[frame.f_lasti // 2][2] is None


def original_callable(function: Any) -> Any:  # noqa: ANN401
    """What ``torch.compile`` compiled, when ``function`` is its result; otherwise ``function`` itself.

    ``_orig_mod`` and ``_torchdynamo_orig_callable``: ``torch/_dynamo/eval_frame.py``, 2.13.
    """
    module = getattr(function, "_orig_mod", None)
    if isinstance(module, torch.nn.Module) and type(function).__name__ == "OptimizedModule":
        return module
    if isinstance(function, torch.nn.Module):
        return function
    # torch.compiler.disable leaves the same attribute; what was disabled must stay disabled.
    if getattr(function, "_torchdynamo_disable", False):
        return function
    return getattr(function, "_torchdynamo_orig_callable", function)


def as_not_compiled_in_place(module: torch.nn.Module) -> None:
    """Have a module and its submodules run their own code even where ``Module.compile()`` was called on them.

    ``_compiled_call_impl``: ``torch/nn/modules/module.py``, 2.13.
    """
    for inner in module.modules():
        if vars(inner).get("_compiled_call_impl") is not None:
            vars(inner)["_compiled_call_impl"] = None


def keep_from_compiling(function: Callable[..., Any]) -> bool:
    """Have Dynamo leave a function alone, whoever calls it; False if this torch can't.

    ``skip_code``: ``torch/_dynamo/eval_frame.py``, 2.13.
    """
    try:
        _lookup("torch._dynamo.eval_frame").skip_code(function.__code__)
    except (AttributeError, ImportError):
        return False
    return True


def keep_all_from_compiling(function: Callable[..., Any]) -> None:
    """Have Dynamo leave a function alone, and all that it calls.

    ``set_code_exec_strategy``: ``torch/_dynamo/eval_frame.py``, 2.11 to 2.15.
    """
    with contextlib.suppress(AttributeError, ImportError):
        frames = _lookup("torch._dynamo.eval_frame")
        skip = frames.FrameAction.SKIP
        frames.set_code_exec_strategy(function.__code__, frames.FrameExecStrategy(skip, skip))


def submodules(module: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Module]]:
    """A module's own submodules by name; one with two names comes twice, unlike in ``named_children``."""
    return ((name, child) for name, child in module._modules.items() if child is not None)


def compiled_entry(
    module: torch.nn.Module, compile_one: Callable[[Any], Callable[..., Any]]
) -> tuple[str, Callable[..., Any]]:
    """The attribute of a module through which its calls run compiled code, and that code.

    It is what ``Module.compile()`` sets (``torch/nn/modules/module.py``, 2.13), unless that would do nothing.
    """
    if is_compiled_by_its_forward(module):
        return "forward", compile_one(module.forward)
    return "_compiled_call_impl", compile_one(module._call_impl)


def is_compiled_by_its_forward(module: torch.nn.Module) -> bool:
    """Up to 2.13, ``Module.compile()`` does nothing to it: Dynamo skips frames of torch's own ``forward``.

    torch.compile makes a frame of its own around such a function, if it is given the function itself.
    ``check``: ``torch/_dynamo/trace_rules.py``, 2.13.
    """
    # An instance's own ``forward`` and a property can be anything, and aren't torch's.
    function = None if "forward" in vars(module) else inspect.getattr_static(type(module), "forward", None)
    try:
        return isinstance(function, FunctionType) and bool(_lookup("torch._dynamo.trace_rules").check(function))
    except (AttributeError, ImportError):
        return False


def container_inside(called: object) -> str | None:
    """The class of torch's own that a module has its ``forward`` from, or the one that it wraps; None if there is none.

    ``DistributedDataParallel`` has the module that it wraps as ``module``; FSDP makes a subclass of the module's class.
    """
    inner = getattr(called, "module", called) if type(called).__name__ == "DistributedDataParallel" else called
    if not isinstance(inner, torch.nn.Module) or not is_compiled_by_its_forward(inner):
        return None
    return next((kind.__name__ for kind in type(inner).__mro__ if "forward" in vars(kind)), None)


def is_profiling() -> bool:
    """A ``torch.profiler`` runs in this thread; a second one would end it."""
    with contextlib.suppress(AttributeError):
        return bool(torch._C._autograd._profiler_enabled())
    return False


def tree_leaves(value: object) -> list[Any]:
    """Every leaf of nested containers, transformers' outputs included."""
    return list(torch.utils._pytree.tree_leaves(value))


def tree_leaves_with_path(value: object) -> Iterator[tuple[str, Any]]:
    """Every leaf of nested containers with its path, such as ``['logits'][0]``."""
    for path, leaf in torch.utils._pytree.tree_leaves_with_path(value):
        yield torch.utils._pytree.keystr(path), leaf


def tree_structure(value: object) -> str:
    """Kinds of the nested containers, keys included, as text."""
    return str(torch.utils._pytree.tree_structure(value))


def tree_map(function: Callable[[Any], Any], value: object) -> Any:  # noqa: ANN401
    """``value`` with ``function`` applied to every leaf."""
    return torch.utils._pytree.tree_map(function, value)


def placeholder_source(node: Any) -> str | None:  # noqa: ANN401
    """Where Dynamo takes a graph input from, such as ``L['x']``; ``name`` is a method up to 2.11, then a property."""
    source = getattr(node, "_dynamo_source", None)
    if source is None:
        source = getattr(node.meta.get("grapharg"), "source", None)
    name = getattr(source, "name", None)
    if callable(name):
        name = name()
    return name if isinstance(name, str) and name else None


def node_value(node: Any) -> Any:  # noqa: ANN401
    """The example value that Dynamo computed for a node, or None."""
    return node.meta.get("example_value")


def node_module(node: Any) -> str | None:  # noqa: ANN401
    """Path of the innermost module that a node was traced in, such as ``L['self'].blocks.0.lin``, or None.

    ``record_nn_module_stack`` (``torch/_dynamo/variables/nn_module.py``, 2.13) keeps path and class, innermost last.
    """
    stack = node.meta.get("nn_module_stack")
    innermost = next(reversed(stack.values()), None) if isinstance(stack, dict) else None
    path = innermost[0] if isinstance(innermost, tuple) and innermost else None
    return path if isinstance(path, str) and path else None


def is_number_made_tensor(node: Any) -> bool:  # noqa: ANN401
    """The node turns a number into a tensor for Dynamo's own use.

    ``SymNodeVariable.as_tensor`` (``torch/_dynamo/variables/tensor.py``, 2.13) adds it, at the line that ends the
    graph; a call of the program itself is in that line's text.
    """
    if getattr(node.target, "__name__", None) != "scalar_tensor":
        return False
    argument = node.args[0] if node.args else None
    number = getattr(argument, "meta", {}).get("example_value")
    return isinstance(number, (torch.SymFloat, torch.SymInt)) and "scalar_tensor" not in (node.stack_trace or "")


def synchronize() -> None:
    """Wait for what the program has launched on a GPU, if it uses one."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def uses_cuda() -> bool:
    """The program has memory on a CUDA device."""
    if not torch.cuda.is_initialized():
        return False
    return any(torch.cuda.memory_allocated(index) for index in range(torch.cuda.device_count()))


def counters() -> dict[str, dict[str, int]]:
    """What Dynamo counts over the life of the process: its own object; empty in a torch without it."""
    with contextlib.suppress(AttributeError, ImportError):
        found: dict[str, dict[str, int]] = _lookup("torch._dynamo.utils").counters
        return found
    return {}


def on_compile(call: Callable[[], None]) -> None:
    """Have a function called whenever Dynamo begins to compile (``torch._dynamo.callback``, 2.11 to 2.15)."""
    _lookup("torch._dynamo.callback").callback_handler.register_start_callback(lambda _arguments: call())


def cache_counts() -> CacheCounts:
    """What the caches on disk did in this process so far, in graphs.

    AOTAutograd's cache is asked first, and holds what Inductor made of its graphs; Inductor's own is asked where that
    one misses or is off (``torch/_functorch/_aot_autograd/autograd_cache.py`` and ``torch/_inductor/codecache.py``,
    2.13).
    """
    counted = counters()
    inductor, autograd = counted.get("inductor", {}), counted.get("aot_autograd", {})
    hits = autograd.get("autograd_cache_hit", 0)
    return {
        "hits": hits + max(inductor.get("fxgraph_cache_hit", 0) - hits, 0),
        "misses": inductor.get("fxgraph_cache_miss", 0),
        "bypasses": inductor.get("fxgraph_cache_bypass", 0),
    }


def unrecorded_breaks(before: Mapping[str, int] | None = None) -> list[str]:
    """What torch skipped before a compile had an id: it counts these and writes no record.

    A generator function is the only case (``ConvertFrameAssert.__call__``, ``torch/_dynamo/convert_frame.py``, 2.13).

    Args:
        before: What had been counted (``unimplemented`` of ``counters``) at the beginning; None for nothing.

    Returns:
        The first two lines of torch's words for each, such as ``Attempt to trace generator: Generators cannot …``.
    """
    found = []
    for text, count in counters().get("unimplemented", {}).items():
        if count == (before or {}).get(text):
            continue
        name, _, rest = str(text).partition("\n")
        if name == "Attempt to trace generator":
            explanation = rest.strip().partition("\n")[0].removeprefix("Explanation:").strip()
            found.append(f"{name}: {explanation}" if explanation else name)
    return found


def torch_root() -> Path:
    """The folder of torch's own files."""
    return Path(torch.__file__).resolve().parent
