"""Calls to functions that torch doesn't trace, by full name."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from graphdoctor.fixes.lint.checks.base import Site, Spot
from graphdoctor.fixes.lint.flow import Place

_BUILTIN = "Failed to trace builtin operator"
_METHOD = "Unsupported method call"
_SKIPPED = "Attempted to call function marked as skipped"
_INLINED = "Attempted to inline function marked as skipped"
_NUMPY = "attempted to trace numpy function unsupported by PyTorch"
_LOGGER = "logging.Logger method not supported for non-export cases"
_LOG_METHODS = frozenset(("debug", "info", "warning", "error", "critical", "exception", "log"))
_WARNED = "module: _warnings, qualname: warn, skip reason"


def _named(
    names: str, code: str, torch_id: str, gb_type: str, context: str | None = None
) -> dict[str, tuple[str, ...]]:
    return dict.fromkeys(names.split(), (code, torch_id, gb_type, context or ""))


_CALLS: dict[str, tuple[str, ...]] = {
    **_named("warnings.warn", "GD101", "GB0007", _SKIPPED, _WARNED),
    **_named(
        "logging.debug logging.info logging.warning logging.error", "GD101", "GB4841", "Unsupported python_type() call"
    ),
    **_named("pprint.pprint sys.stdout.write sys.stderr.write sys.stdout.flush", "GD101", "GB0156", _METHOD),
    **_named(
        "time.time time.perf_counter time.monotonic time.process_time time.time_ns time.perf_counter_ns time.sleep "
        "time.strftime os.getcwd os.getpid os.listdir os.makedirs os.system os.urandom os.path.exists uuid.uuid4 "
        "subprocess.run subprocess.check_output subprocess.check_call pickle.dumps pickle.loads gc.collect "
        "random.choice random.gauss inspect.stack "
        "traceback.print_stack torch.save torch.load torch.manual_seed torch.get_rng_state torch.set_num_threads "
        "torch.autograd.backward hashlib.md5 hashlib.sha256 tqdm.tqdm tqdm.trange tqdm.auto.tqdm",
        "GD105",
        "GB0007",
        _SKIPPED,
    ),
    **_named("secrets.token_hex", "GD105", "GB0008", _INLINED),
    **_named("builtins.open", "GD105", "GB0059", _BUILTIN, "builtin open []"),
    **_named("torch._dynamo.graph_break", "GD107", "GB0025", "Call to `torch._dynamo.graph_break()`"),
    **_named("builtins.input builtins.exec builtins.globals builtins.compile", "GD109", "GB0059", _BUILTIN),
    **_named("datetime.datetime.now json.dumps json.loads", "GD109", "GB0156", _METHOD),
    **_named("numpy.interp numpy.save numpy.random.default_rng", "GD109", "GB0294", _NUMPY),
    **_named("torch.sparse_coo_tensor", "GD117", "GB0007", _SKIPPED),
    **_named(
        "torch.is_inference_mode_enabled",
        "GD118",
        "GB0046",
        "Encountered torch.is_inference_mode_enabled during tracing",
    ),
}
"""Rule code, torch's id, type and context by function. Leaves out what 2.15 traces, such as ``random.random``."""


def calls(node: ast.AST, place: Place, site: Site) -> Iterator[Spot]:
    """Calls that break whatever their arguments are."""
    if isinstance(node, ast.ClassDef):
        yield Spot("GD100", node, "GB8977", "Invalid call to __build_class__")
        return
    if not isinstance(node, ast.Call):
        return
    dotted = site.dotted(node.func)
    if dotted == "builtins.print":
        yield _printed(node, site)
    elif dotted in _CALLS and not _is_entered(node, place):
        code, torch_id, gb_type, context = _CALLS[dotted]
        yield Spot(code, node, torch_id, gb_type, context or None)
    elif dotted == "torch._dynamo.skip_frame":
        yield Spot("GD107", node, "GB4297", "Call to `torch._dynamo.skip_frame()`", is_frame_lost=True)
    elif isinstance(node.func, ast.Attribute):
        if node.func.attr in _LOG_METHODS and site.kind(node.func.value) == "logger":
            yield Spot("GD101", node, "GB0291", _LOGGER)
        elif node.func.attr in ("acquire", "release") and site.kind(node.func.value) == "lock":
            yield Spot("GD109", node, "GB0156", _METHOD)
    if dotted in ("copy.deepcopy", "copy.copy") and len(node.args) == 1:
        yield from _copied(node, dotted, site)


def _printed(node: ast.Call, site: Site) -> Spot:
    """A ``print``. torch can defer it only if it prints nothing but tensors, strings and numbers."""
    is_reorderable = not node.keywords and all(
        isinstance(one, (ast.Constant, ast.JoinedStr)) or site.is_tensor(one) for one in node.args
    )
    return Spot("GD101", node, "GB0059", _BUILTIN, f"builtin print [] {not is_reorderable}")


def _copied(node: ast.Call, dotted: str, site: Site) -> Iterator[Spot]:
    copied = node.args[0]
    if dotted == "copy.copy":
        if site.is_tensor(copied):
            yield Spot("GD108", node, "GB0208", "torch.* op returned non-Tensor")
        return
    parts = copied.elts if isinstance(copied, (ast.List, ast.Tuple)) else [copied]
    if any(site.kind(part) in ("tensor", "layer") for part in parts):
        yield Spot("GD108", node, "GB4198", "Attempted to copy.deepcopy a tensor")


def _is_entered(node: ast.Call, place: Place) -> bool:
    """Whether a ``with`` enters the result; then the ``with`` is the break."""
    statement = place.statement
    return isinstance(statement, (ast.With, ast.AsyncWith)) and any(
        item.context_expr is node for item in statement.items
    )
