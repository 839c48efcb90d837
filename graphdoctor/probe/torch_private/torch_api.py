"""Private names of torch that graphdoctor uses, and differences between its versions; this folder
has the others. Attributes of torch's are replaced here until that is undone.

Seen on 2.11.0, 2.13.0 and 2.15.0.
"""

from __future__ import annotations

import inspect
import logging
import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from functools import WRAPPER_UPDATES, wraps
from importlib import import_module
from pathlib import Path
from traceback import FrameSummary
from types import FrameType, FunctionType
from typing import Any, Literal
from unittest import mock

import torch
from torch import Tensor
from torch._logging._internal import trace_structured
from torch.nn import Module
from torch.utils import _dtype_abbrs
from torch.utils._python_dispatch import TorchDispatchMode

from ...facts.recording import RaisedBy, SwitchKind
from ..events import json_text
from ..wire import CacheCounts
from .imports import hide_callers

_SAID_ELSEWHERE = {
    "torch._subclasses.fake_tensor": "failed while attempting to run meta for",
    "torch._dynamo.variables.tensor": "Graph break from `Tensor.item()`",
}
"""Beginnings of messages by their logger: of an exception that is then raised again
(``torch/_subclasses/fake_tensor.py``, 2.13, ``_dispatch_impl``), and of a break, which reports show
with its fix (``torch/_dynamo/variables/tensor.py``, 2.13, ``_warn_capture_scalar_outputs``)."""

_WARNED_ELSEWHERE = "Dynamo does not know how to trace the builtin"
"""Begins a warning that is also the explanation of the break that follows
(``torch/_dynamo/variables/functions.py``, 2.13, ``SkipFunctionVariable.call_function``)."""

DispatchMode = TorchDispatchMode

_NO_COMPILE = "TORCH_COMPILE_DISABLE"
_NO_DYNAMO = "TORCHDYNAMO_DISABLE"
_CONVERT_FRAME = str(Path("_dynamo", "convert_frame.py"))
_EVAL_FRAME = str(Path("_dynamo", "eval_frame.py"))

# Replacing.

Function = Callable[..., Any]
"""One of torch's, or of the program's."""

Undo = Callable[[], None]
"""Undoes what was done; harmless when called twice."""


def put_in_place(owner: Any, name: str, value: object) -> Undo:
    """Replace an attribute that its owner itself has; undone, unless somebody has replaced the new
    one since.
    """
    before = vars(owner)[name]
    setattr(owner, name, value)

    def undo() -> None:
        if vars(owner).get(name) is value:
            setattr(owner, name, before)

    return undo


def wrap(owner: Any, name: str, around: Function, *, is_traced: bool = False) -> Undo:
    """Have ``around(original, *arguments)`` called in the place of a function or a class method.

    ``is_traced``: Dynamo may compile what calls it, and is to leave our part alone.
    """
    attribute = vars(owner)[name]
    is_of_class = isinstance(attribute, classmethod)
    original = attribute.__func__ if is_of_class else attribute

    @wraps(original, updated=() if isinstance(original, type) else WRAPPER_UPDATES)
    def replacement(*args: Any, **kwargs: Any) -> Any:
        try:
            return around(original, *args, **kwargs)
        except BaseException as error:
            hide_callers(error)
            raise

    if is_traced:
        keep_from_compiling(replacement)
        keep_from_compiling(around)
        keep_from_compiling(survived, has_callees=True)
    return put_in_place(owner, name, classmethod(replacement) if is_of_class else replacement)


def look_on(
    owner: Any,
    name: str,
    *,
    before: Callable[..., object] | None = None,
    after: Callable[..., object] | None = None,
    is_traced: bool = False,
) -> Undo:
    """Have functions of ours called before and after one of torch's.

    ``before`` gets its positional arguments; ``after`` gets what it returned before these, unless
    it raised.
    """

    def around(original: Function, *args: Any, **kwargs: Any) -> Any:
        if before is not None:
            survived(before, *args)
        result = original(*args, **kwargs)
        if after is not None:
            survived(after, result, *args)
        return result

    return wrap(owner, name, around, is_traced=is_traced)


class Failures(Counter[str]):
    """Counts errors of ours that may not reach the program, by type name."""

    @contextmanager
    def survived(self) -> Iterator[None]:
        """Count what is raised meanwhile, and go on."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - see the class
            self[type(error).__name__] += 1


def survived(call: Callable[..., object], *args: Any) -> None:
    """Call a function of ours; no error of ours may reach the program."""
    with suppress(Exception):
        call(*args)


# The trace.


def trace_logger() -> logging.Logger:
    """Return the logger that every structured record goes through (``trace_log``,
    ``torch/_logging/_internal.py``, 2.13).
    """
    return logging.getLogger("torch.__trace")


def write_artifact(name: str, payload: object) -> None:
    """Add a record of ours to the trace log, under the compile that is under way, if any."""
    # expect_trace_id=False: outside a compile torch would add the whole Python stack to explain
    # the missing id.
    trace_structured(
        "artifact",
        metadata_fn=lambda: {"name": name, "encoding": "json"},
        payload_fn=lambda: json_text(payload),
        expect_trace_id=False,
    )


def log_once() -> None:
    """Leave out what torch logs or warns of though it, or the report, says it elsewhere (2.11 to
    2.15).
    """

    def is_new(record: logging.LogRecord) -> bool:
        return not str(record.msg).startswith(_SAID_ELSEWHERE[record.name])

    for name in _SAID_ELSEWHERE:
        logging.getLogger(name).addFilter(is_new)
    warnings.filterwarnings("ignore", _WARNED_ELSEWHERE)


# What is on the stack while torch compiles.


def current_compile_id() -> str | None:
    """Return the compile that is under way, such as ``0/1``; None outside any."""
    current = torch._guards.CompileContext.current_compile_id()
    return None if current is None else str(current)


def frames_outwards() -> Iterator[FrameType]:
    """Yield the Python frames on the stack, the caller's first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def exception_being_logged() -> BaseException | None:
    """Find the exception that a graph-break or error record is about, from inside a logging
    handler.

    A data-dependent jump is logged after its handler has ended (``jump_graph_break``, 2.13): it is
    the caller's local.
    """
    for _, frame in zip(range(16), frames_outwards(), strict=False):
        error = frame.f_locals.get("exc") if frame.f_code.co_name == "log_graph_break" else None
        if isinstance(error, BaseException):
            return error
    return sys.exc_info()[1]


def setting_that_raises(error: BaseException) -> RaisedBy | None:
    """Return by which setting a graph break raises an error, from where its exception is logged.

    ``torch/_dynamo/convert_frame.py``, 2.11 to 2.15: ``_compile`` has ``one_graph``. An operator
    such as ``torch.cond`` compiles itself so, whatever the program asks for.
    """
    frames = list(frames_outwards())
    if any("_higher_order_ops" in frame.f_code.co_filename for frame in frames):
        return None
    # Only of frames that are torch's own: f_locals of the program's would keep its objects alive.
    compiles = [frame for frame in frames if frame.f_code.co_filename.endswith(_CONVERT_FRAME)]
    if any(frame.f_locals.get("one_graph") is True for frame in compiles):
        return "fullgraph"
    traced = getattr(error, "_torch_dynamo_tracer_output", None)
    return "error_on_graph_break" if getattr(traced, "error_on_graph_break", False) else None


def frames_above_compile(outside: Collection[FrameType] = ()) -> Iterator[FrameType]:
    """Yield the Python frames that led to the frame being compiled, innermost first, from inside a
    compile.

    They are above Dynamo's frame conversion (``torch/_dynamo/convert_frame.py``, 2.13); that frame
    hasn't begun.
    """
    is_in_dynamo = is_above = False
    for frame in frames_outwards():
        was_in_dynamo = is_in_dynamo
        is_in_dynamo = frame.f_code.co_filename.endswith(_CONVERT_FRAME)
        is_above = is_above or (was_in_dynamo and not is_in_dynamo)
        if is_above and frame not in outside:
            yield frame


def compiled_values() -> Mapping[str, Any]:
    """Return the values of the frame that is being compiled, from inside its compile; empty if they
    can't be seen.

    ``_compile`` gets them as its argument ``locals`` (``torch/_dynamo/convert_frame.py``, 2.11 to
    2.15).
    """
    for frame in frames_outwards():
        if frame.f_code.co_name == "_compile" and frame.f_code.co_filename.endswith(_CONVERT_FRAME):
            values = frame.f_locals.get("locals")
            return values if isinstance(values, Mapping) else {}
    return {}


def stack_of(frames: Iterable[FrameType]) -> list[FrameSummary]:
    """Turn frames, innermost first, into the lines of a stack, outermost first."""
    lines = ((it.f_code.co_filename, it.f_lineno, it.f_code.co_name) for it in frames)
    return [FrameSummary(*line, lookup_line=False) for line in lines][::-1]


# What torch.compile takes, and what keeps it from compiling.


def is_compiler_error(error: BaseException) -> bool:
    """Return whether torch.compile raised it of its own accord.

    ``TorchRuntimeError`` wraps what the program's operation raised.
    """
    kinds = torch._dynamo.exc
    if isinstance(error, kinds.TorchRuntimeError):
        return False
    return isinstance(error, kinds.TorchDynamoException | kinds.FailOnRecompileLimitHit)


def names_of(argument: Literal["backend", "mode", "option"]) -> list[str]:
    """List what torch.compile takes: every registered backend, Inductor's modes, or its options."""
    if argument == "backend":
        return sorted(torch._dynamo.list_backends(None))
    inductor = torch._inductor
    return list(inductor.list_mode_options() if argument == "mode" else inductor.list_options())


def usual_backends() -> list[str]:
    """List the backends that programs use, and those of Dynamo's and AOTAutograd's own stages."""
    return sorted([*torch._dynamo.list_backends(), "aot_eager", "eager"])


def stance() -> str:
    """Return what ``torch.compiler.set_stance`` set last."""
    return str(torch._dynamo.eval_frame._stance.stance)


def compile_switches() -> Iterator[tuple[SwitchKind, str]]:
    """Yield what keeps torch.compile from compiling (``_optimize``, ``_stance``:
    ``torch/_dynamo/eval_frame.py``, 2.13).
    """
    if os.environ.get(_NO_DYNAMO) == "1":
        yield "environment", _NO_DYNAMO
    if torch._dynamo.config.disable:
        if os.environ.get(_NO_COMPILE) == "1":
            yield "environment", _NO_COMPILE
        else:
            yield "config", "torch._dynamo.config.disable"
    if (name := stance()) != "default":
        yield "stance", name
    code = getattr(torch.compile, "__code__", None)
    file = None if code is None else Path(code.co_filename)
    if code is None or file is None or not any(map(file.is_relative_to, torch_roots())):
        name = getattr(torch.compile, "__qualname__", type(torch.compile).__qualname__)
        place = "" if code is None else f" ({code.co_filename}:{code.co_firstlineno})"
        yield "replacement", f"{name}{place}"


def torch_root() -> Path:
    """Return the folder of torch's own files."""
    return Path(torch.__file__).resolve().parent


def torch_roots() -> set[Path]:
    """Return that folder as code objects name it, and resolved: an environment's folder may be a
    link.
    """
    return {torch_root(), Path(torch.__file__).parent}


# Profiler ranges and records of torch's own.

CACHE_LOOKUP = "TorchDynamo Cache Lookup"
"""Profiler range of Dynamo's search for a cache entry whose guards hold, at the entry of every
frame that it hasn't skipped for good (``dynamo__custom_eval_frame``,
``torch/csrc/dynamo/eval_frame_cpp.cpp``, 2.13 and 2.15)."""

REGION_PREFIX = "Torch-Compiled Region: "
"""Profiler range of a run of Dynamo's code for a frame, followed by its compile id; it begins right
after the search that found it (``annotation_str``, ``torch/_dynamo/convert_frame.py``, 2.13 and
2.15)."""


def region_of(range_name: str) -> str | None:
    """Return the compile id of such a range; None for another one."""
    return range_name.removeprefix(REGION_PREFIX) if range_name.startswith(REGION_PREFIX) else None


COMPILED_FORWARD = "CompiledFunction"
COMPILED_BACKWARD = "CompiledFunctionBackward"
"""Profiler ranges of AOTAutograd's two graphs, which have one sequence number
(``torch/_functorch/_aot_autograd/runtime_wrappers.py``, 2.13 and 2.15)."""

FRAME_PHASE = "dynamo"
BACKWARD_PHASE = "entire_backward_compile"
"""``chromium_event`` records around one compile of a frame, also one that stops at the recompile
limit (``_compile``, ``torch/_dynamo/convert_frame.py``, 2.13 and 2.15), and around a backward
graph's, which is compiled when it first runs (``_AutogradBackwardCompiler``,
``torch/_functorch/_aot_autograd/runtime_wrappers.py``, 2.13 and 2.15)."""

PROFILED_OVERHEAD = ("Pregraph bytecode", CACHE_LOOKUP)
"""Profiler ranges of torch's own work that no program asked for: numbers and NumPy arrays turned
into tensors before a graph (``PyCodegen.make_call_generated_code``, ``torch/_dynamo/codegen.py``,
2.13) and the check of guards, which makes tensors of NumPy arrays too (``_PythonDispatcher``'s
cache lookup, ``torch/csrc/dynamo/eval_frame_cpp.cpp``, 2.13)."""


@contextmanager
def marked_conversions(range_name: str) -> Iterator[None]:
    """Put what Dynamo's code converts after a graph into a profiler range, while the context lasts.

    Where the program has a number or a NumPy array, generated code calls ``Tensor.item`` or
    ``to_numpy_helper`` (``PyCodegen.__call__``, ``torch/_dynamo/codegen.py``, 2.13).
    """

    def marked(convert: Function) -> Any:
        def run(value: Any) -> Any:
            is_dynamos = _is_called_by_generated_code()
            with torch.profiler.record_function(range_name) if is_dynamos else nullcontext():
                return convert(value)

        return torch._dynamo.disable(run)

    utils = torch._dynamo.utils
    with (
        mock.patch.object(utils, "to_numpy_helper", marked(utils.to_numpy_helper)),
        mock.patch.object(Tensor, "item", marked(Tensor.item)),
    ):
        yield


@contextmanager
def marked_texts(range_name: str) -> Iterator[None]:
    """Put what writes a tensor as text into a profiler range, while the context lasts.

    ``repr``, ``str`` and ``print`` call ``torch._tensor_str._str``, and an f-string
    ``Tensor.__format__`` (2.11 to 2.15).
    """

    def marked(write: Function) -> Any:
        def run(*arguments: Any, **options: Any) -> Any:
            with torch.profiler.record_function(range_name):
                return write(*arguments, **options)

        return torch._dynamo.disable(run)

    with (
        mock.patch.object(torch._tensor_str, "_str", marked(torch._tensor_str._str)),
        mock.patch.object(Tensor, "__format__", marked(Tensor.__format__)),
    ):
        yield


def has_conversions() -> bool:
    """Return whether code that Dynamo generated can convert graphs' results.

    ``marked_conversions`` marks such code.
    """
    codes = (reference() for reference in torch._dynamo.convert_frame.output_codes.seen)
    names = (code.co_names for code in codes if code is not None)
    return any("item" in used or "to_numpy_helper" in used for used in names)


def _is_called_by_generated_code() -> bool:
    """Return whether our caller's caller is an instruction that Dynamo generated, not a copied one.

    Copied instructions keep their columns; generated ones have only a line.
    """
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.endswith(_EVAL_FRAME):
        frame = frame.f_back
    if frame is None or frame.f_code not in torch._dynamo.convert_frame.output_codes:
        return False
    return list(frame.f_code.co_positions())[frame.f_lasti // 2][2] is None


def is_profiling() -> bool:
    """Return whether a ``torch.profiler`` runs in this thread; a second one would end it."""
    return torch._C._autograd._profiler_enabled()


# Functions and modules.


def original_callable(function: Any) -> Any:
    """Return what ``torch.compile`` compiled, if ``function`` is its result
    (``torch/_dynamo/eval_frame.py``, 2.13).
    """
    module = getattr(function, "_orig_mod", None)
    if isinstance(module, Module) and type(function).__name__ == "OptimizedModule":
        return module
    # torch.compiler.disable leaves the same attribute; what was disabled must stay disabled.
    if isinstance(function, Module) or getattr(function, "_torchdynamo_disable", False):
        return function
    return getattr(function, "_torchdynamo_orig_callable", function)


def as_not_compiled_in_place(module: Module) -> None:
    """Undo ``Module.compile()`` of a module and its submodules.

    ``_compiled_call_impl``: ``torch/nn/modules/module.py``, 2.13.
    """
    for inner in module.modules():
        if vars(inner).get("_compiled_call_impl") is not None:
            vars(inner)["_compiled_call_impl"] = None


def keep_from_compiling(function: Function, *, has_callees: bool = False) -> None:
    """Have Dynamo leave a function alone, and with ``has_callees`` all that it calls.

    ``skip_code``, ``set_code_exec_strategy``: ``torch/_dynamo/eval_frame.py``, 2.11 to 2.15.
    """
    # Its package may not be imported whole yet.
    frames = import_module("torch._dynamo.eval_frame")
    code = function.__code__
    if has_callees:
        skip = frames.FrameAction.SKIP
        frames.set_code_exec_strategy(code, frames.FrameExecStrategy(skip, skip))
    else:
        frames.skip_code(code)


def submodules(module: Module) -> list[tuple[str, Module]]:
    """List a module's own submodules by name; one with two names comes twice, unlike in
    ``named_children``.
    """
    return [(name, child) for name, child in module._modules.items() if child is not None]


def compiled_entry(module: Module, compile_one: Callable[[Any], Function]) -> tuple[str, Function]:
    """Compile the attribute through which a module runs compiled code, as ``Module.compile()`` sets
    it; returns its name and that code.
    """
    if is_compiled_by_its_forward(module):
        return "forward", compile_one(module.forward)
    return "_compiled_call_impl", compile_one(module._call_impl)


def is_compiled_by_its_forward(module: Module) -> bool:
    """Return whether ``Module.compile()`` has no effect on it, up to 2.13.

    Dynamo skips frames of torch's own ``forward``. Given the function itself, torch.compile makes a
    frame around it. ``check``: ``torch/_dynamo/trace_rules.py``, 2.13.
    """
    # An instance's own ``forward`` and a property can be anything, and aren't torch's.
    function = inspect.getattr_static(type(module), "forward", None)
    is_plain = "forward" not in vars(module) and isinstance(function, FunctionType)
    return is_plain and torch._dynamo.trace_rules.check(function)


def container_inside(called: object) -> str | None:
    """Name the class of torch's own that a module has its ``forward`` from, or the one that it
    wraps; None if there is none.

    DDP has the module that it wraps as ``module``; FSDP makes a subclass of the module's class.
    """
    is_ddp = type(called).__name__ == "DistributedDataParallel"
    inner = getattr(called, "module", called) if is_ddp else called
    if not isinstance(inner, Module) or not is_compiled_by_its_forward(inner):
        return None
    return next((kind.__name__ for kind in type(inner).__mro__ if "forward" in vars(kind)), None)


# Trees of values.

_pytree: Any = torch.utils._pytree
tree_leaves: Callable[[object], list[Any]] = _pytree.tree_leaves
tree_map: Callable[[Callable[[Any], Any], Any], Any] = _pytree.tree_map


def tensors_in(value: object) -> list[Tensor]:
    """List the tensors among the leaves of nested containers, transformers' outputs included."""
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]


def tree_leaves_with_path(value: object) -> Iterator[tuple[str, Any]]:
    """Yield every leaf with its path, such as ``['logits'][0]``.

    Containers may be registered without names for what they hold, as transformers 4 does its
    outputs. torch refuses to go into these; there, names are a mapping's keys, or positions.
    """
    for keys, node in _pytree.tree_leaves_with_path(value, is_leaf=_is_nameless):
        path = _pytree.keystr(keys)
        if not _is_nameless(node):
            yield path, node
            continue
        items, _ = _pytree.SUPPORTED_NODES[type(node)].flatten_fn(node)
        has_keys = isinstance(node, Mapping) and len(node) == len(items)
        for name, item in zip(node if has_keys else range(len(items)), items, strict=True):
            for rest, leaf in tree_leaves_with_path(item):
                yield f"{path}[{name!r}]{rest}", leaf


def _is_nameless(value: object) -> bool:
    node = _pytree.SUPPORTED_NODES.get(type(value))
    return node is not None and node.flatten_with_keys_fn is None


def tree_structure(value: object) -> str:
    """Print the kinds of the nested containers, keys included."""
    return str(_pytree.tree_structure(value))


# Nodes of Dynamo's graphs.


def placeholder_source(node: Any) -> str | None:
    """Return where Dynamo takes a graph input from, such as ``L['x']``."""
    of_argument = getattr(node.meta.get("grapharg"), "source", None)
    return name_of(getattr(node, "_dynamo_source", None) or of_argument) or None


def name_of(named: Any) -> str:
    """Return the name of a source, or of the source that a guard is about: a method up to 2.11,
    then a property.
    """
    name = getattr(named, "name", "")
    return str(name() if callable(name) else name)


def node_value(node: Any) -> Any:
    """Return the example value that Dynamo computed for a node, or None."""
    return node.meta.get("example_value")


def node_module(node: Any) -> str | None:
    """Return the path of the innermost module that a node was traced in, such as
    ``L['self'].blocks.0.lin``, or None.

    ``record_nn_module_stack``: ``torch/_dynamo/variables/nn_module.py``, 2.13; a backward node has
    its forward node's.
    """
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    return next((str(path) for path, _ in reversed([*stack.values()])), None) or None


def is_number_made_tensor(node: Any) -> bool:
    """Return whether the node turns a number into a tensor for Dynamo's use, not the program's.

    ``SymNodeVariable.as_tensor`` (``torch/_dynamo/variables/tensor.py``, 2.13) adds it at the line
    that ends the graph.
    """
    if getattr(node.target, "__name__", None) != "scalar_tensor":
        return False
    number = getattr(next(iter(node.args), None), "meta", {}).get("example_value")
    is_asked_for = "scalar_tensor" in (node.stack_trace or "")
    return isinstance(number, torch.SymFloat | torch.SymInt) and not is_asked_for


# Dtypes, devices and counters.

DTYPES: Mapping[torch.dtype, str] = _dtype_abbrs.dtype_abbrs
"""torch's own abbreviations, such as ``bf16``."""


def synchronize() -> None:
    """Wait for what the program has launched on a GPU, if it uses one."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def uses_cuda() -> bool:
    """Return whether the program has memory on a CUDA device."""
    cuda = torch.cuda
    return cuda.is_initialized() and any(map(cuda.memory_allocated, range(cuda.device_count())))


def counters() -> dict[str, Any]:
    """Return what Dynamo counts over the life of the process: its own object."""
    return torch._dynamo.utils.counters


def on_compile(call: Callable[[], None]) -> None:
    """Have a function called whenever Dynamo begins to compile (``torch._dynamo.callback``, 2.11 to
    2.15).
    """
    torch._dynamo.callback.callback_handler.register_start_callback(lambda _arguments: call())


def cache_counts() -> CacheCounts:
    """Count what the caches on disk did in this process so far, in graphs.

    AOTAutograd's is asked first, Inductor's where that one misses or is off
    (``_aot_autograd/autograd_cache.py`` and ``_inductor/codecache.py``, 2.13).
    """
    inductor = counters().get("inductor", {})
    autograd = counters().get("aot_autograd", {})
    return CacheCounts(
        hits=max(inductor.get("fxgraph_cache_hit", 0), autograd.get("autograd_cache_hit", 0)),
        misses=inductor.get("fxgraph_cache_miss", 0),
        bypasses=inductor.get("fxgraph_cache_bypass", 0),
    )


def unrecorded_breaks(before: Mapping[str, int] | None = None) -> list[str]:
    """List torch's words for what it skipped before a compile had an id: it counts these and writes
    no record.

    A generator function is the only case (``ConvertFrameAssert.__call__``,
    ``torch/_dynamo/convert_frame.py``, 2.13). ``before``: what had been counted (``unimplemented``
    of ``counters``) at the beginning; None for nothing.
    """
    breaks = []
    for text, count in counters().get("unimplemented", {}).items():
        name, _, rest = str(text).partition("\n")
        if name == "Attempt to trace generator" and count != (before or {}).get(text):
            explanation = rest.strip().partition("\n")[0].removeprefix("Explanation:").strip()
            breaks.append(f"{name}: {explanation}" if explanation else name)
    return breaks
