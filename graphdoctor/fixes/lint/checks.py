"""What breaks a graph or makes torch recompile: a check looks at one node, and yields where torch
2.13 surely does.

``tests/fixes/lint`` compiles a program for each.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from graphdoctor.fixes.lint.regions import Region
from graphdoctor.fixes.source import torch_names
from graphdoctor.fixes.source.flow import Surrounding
from graphdoctor.fixes.source.program import Program, keyword_value
from graphdoctor.fixes.source.values import Kind, Values


@dataclass(frozen=True)
class Spot:
    """A place where torch certainly breaks or recompiles.

    ``torch_id`` is torch 2.13's, None for a recompile, whose changed value is the ``subject``. If
    ``is_frame_lost``, the function runs eagerly from there on, or as a whole.
    """

    node: ast.expr | ast.stmt
    code: str
    torch_id: str | None = None
    gb_type: str = ""
    context: str | None = None
    subject: str = field(default="", kw_only=True)
    is_frame_lost: bool = field(default=False, kw_only=True)


@dataclass(frozen=True)
class Site:
    """The function that a check looks at."""

    region: Region
    program: Program
    values: Values

    def dotted(self, node: ast.expr) -> str | None:
        """Resolve the full name that an expression refers to, or None."""
        return self.program.dotted(node, self.region.scope)

    def is_tensor(self, node: ast.expr) -> bool:
        """Tell if an expression is certainly a tensor."""
        return self.values.is_tensor(node, self.region.scope)

    def has_tensor_methods(self, node: ast.expr) -> bool:
        """Tell if an expression is certainly a tensor once one of a tensor's methods is called on
        it.
        """
        return self.kind(node) in ("tensor", "compared")

    def kind(self, node: ast.expr) -> Kind:
        """Tell what an expression certainly is."""
        return self.values.of(node, self.region.scope).kind

    def is_of(self, node: ast.expr, dtype: str) -> bool:
        """Tell if an expression is certainly a tensor of integers (``int``), or a boolean one
        (``bool``).
        """
        value = self.values.of(node, self.region.scope)
        return value.kind == "tensor" and value.dtype == dtype


_Cause = tuple[str, str, str, str | None]
"""Rule code, torch's id, type and context."""
_BRANCH: _Cause = (
    "GD102",
    "GB0170",
    "Data-dependent branching",
    "attempted to jump with TensorVariable()",
)


def _decides(test: ast.expr, site: Site) -> bool:
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _decides(operand, site)
        case ast.BoolOp(values=[first, *_]):
            return _decides(first, site)
        case ast.Compare(left=left, ops=[op, _, *_], comparators=[right, *_]):
            return site.is_tensor(ast.Compare(left, [op], [right]))
        case _:
            return site.is_tensor(test)


_BUILTIN = "Failed to trace builtin operator"
_METHOD = "Unsupported method call"
_SKIPPED = "Attempted to call function marked as skipped"
_INLINED = "Attempted to inline function marked as skipped"
_NUMPY = "attempted to trace numpy function unsupported by PyTorch"
_LOGGER = "logging.Logger method not supported for non-export cases"
_WARNED = "module: _warnings, qualname: warn, skip reason"


def _named(
    names: str, code: str, torch_id: str, gb_type: str, context: str | None = None
) -> dict[str, _Cause]:
    return dict.fromkeys(names.split(), (code, torch_id, gb_type, context))


_CALLS: dict[str, _Cause] = {
    **_named("warnings.warn", "GD101", "GB0007", _SKIPPED, _WARNED),
    **_named(
        "logging.debug logging.info logging.warning logging.error",
        "GD101",
        "GB4841",
        "Unsupported python_type() call",
    ),
    **_named(
        "pprint.pprint sys.stdout.write sys.stderr.write sys.stdout.flush",
        "GD101",
        "GB0156",
        _METHOD,
    ),
    **_named(
        "time.time time.perf_counter time.monotonic time.process_time time.time_ns"
        " time.perf_counter_ns time.sleep time.strftime os.getcwd os.getpid os.listdir os.makedirs"
        " os.system os.urandom os.path.exists uuid.uuid4 subprocess.run subprocess.check_output"
        " subprocess.check_call pickle.dumps pickle.loads gc.collect random.choice random.gauss"
        " inspect.stack traceback.print_stack torch.save torch.load torch.manual_seed"
        " torch.get_rng_state torch.set_num_threads hashlib.md5 hashlib.sha256 tqdm.tqdm"
        " tqdm.trange tqdm.auto.tqdm",
        "GD105",
        "GB0007",
        _SKIPPED,
    ),
    **_named("secrets.token_hex", "GD105", "GB0008", _INLINED),
    **_named("builtins.open", "GD105", "GB0059", _BUILTIN, "builtin open []"),
    **_named(
        "torch._dynamo.graph_break", "GD107", "GB0025", "Call to `torch._dynamo.graph_break()`"
    ),
    **_named(
        "builtins.input builtins.exec builtins.globals builtins.compile",
        "GD109",
        "GB0059",
        _BUILTIN,
    ),
    **_named("datetime.datetime.now json.dumps json.loads", "GD109", "GB0156", _METHOD),
    **_named("numpy.interp numpy.save numpy.random.default_rng", "GD109", "GB0294", _NUMPY),
    **_named(
        "torch.autograd.backward",
        "GD112",
        "GB0007",
        _SKIPPED,
        "module: torch.autograd, qualname: backward,",
    ),
    **_named(
        "torch.autograd.grad",
        "GD112",
        "GB9186",
        "using `torch.autograd.grad` with `torch._dynamo.config.trace_autograd_ops`",
    ),
    # A norm may have no parameter.
    **_named(
        "torch.nn.Parameter torch.nn.Linear torch.nn.Bilinear torch.nn.Conv1d torch.nn.Conv2d"
        " torch.nn.Embedding",
        "GD115",
        "GB0264",
        "Attempted to use `torch.nn.Parameter()` constructor with Dynamo",
    ),
    **_named("torch.sparse_coo_tensor", "GD117", "GB0007", _SKIPPED),
    **_named(
        "torch.is_inference_mode_enabled",
        "GD118",
        "GB0046",
        "Encountered torch.is_inference_mode_enabled during tracing",
    ),
}
"""By function. Leaves out what 2.15 traces, such as ``random.random``."""


_BY_KIND: dict[tuple[str, str], _Cause] = {
    **{
        ("logger", name): ("GD101", "GB0291", _LOGGER, None)
        for name in ("debug", "info", "warning", "error", "critical", "exception", "log")
    },
    **{("lock", name): ("GD109", "GB0156", _METHOD, None) for name in ("acquire", "release")},
    ("optimizer", "step"): (
        *("GD112", "GB0025", "Call to `torch._dynamo.graph_break()`", "qualname: Optimizer."),
    ),
    ("optimizer", "zero_grad"): ("GD112", "GB0008", _INLINED, "qualname: Optimizer."),
}
"""By what a method belongs to, and its name."""


def _calls(node: ast.Call, place: Surrounding, site: Site) -> Iterator[Spot]:
    """Find calls that break whatever their arguments are."""
    dotted, statement = site.dotted(node.func), place.statement
    entered = (
        [item.context_expr for item in statement.items]
        if isinstance(statement, (ast.With, ast.AsyncWith))
        else []
    )
    if dotted == "builtins.print":
        # torch can defer it only if it prints nothing but tensors, strings and numbers.
        is_plain = all(
            isinstance(item, (ast.Constant, ast.JoinedStr)) or site.is_tensor(item)
            for item in node.args
        )
        context = f"builtin print [] {bool(node.keywords) or not is_plain}"
        yield Spot(node, "GD101", "GB0059", _BUILTIN, context)
    elif dotted in _CALLS and node not in entered:
        yield Spot(node, *_CALLS[dotted])
    elif dotted == "torch._dynamo.skip_frame":
        skips = "Call to `torch._dynamo.skip_frame()`"
        yield Spot(node, "GD107", "GB4297", skips, is_frame_lost=True)
    elif isinstance(node.func, ast.Attribute):
        of_kind = site.kind(node.func.value), node.func.attr
        if of_kind in _BY_KIND:
            yield Spot(node, *_BY_KIND[of_kind])
    for copied in node.args if len(node.args) == 1 else ():
        parts = copied.elts if isinstance(copied, (ast.List, ast.Tuple)) else [copied]
        kinds = {site.kind(part) for part in parts}
        if dotted == "copy.copy" and site.is_tensor(copied):
            yield Spot(node, "GD108", "GB0208", "torch.* op returned non-Tensor")
        elif dotted == "copy.deepcopy" and kinds & {"tensor", "layer"}:
            yield Spot(node, "GD108", "GB4198", "Attempted to copy.deepcopy a tensor")


_ITEM: _Cause = (
    *("GD103", "GB0124", "Unsupported Tensor.item() call with capture_scalar_outputs=False"),
    "call_method TensorVariable() item () {}",
)
_DEPENDS = "Data dependent operator"
_VARIABLE = "TensorVariable()"
_TAKERS: dict[str, _Cause] = {
    **dict.fromkeys(("builtins.float", "builtins.int", "builtins.bool"), _ITEM),
    **_named("builtins.range", "GD103", "GB0059", _BUILTIN, f"builtin range [{_VARIABLE}]"),
    **_named("builtins.str", "GD109", "GB0059", _BUILTIN, f"builtin str [{_VARIABLE}]"),
    **_named("builtins.repr", "GD109", "GB0569", "repr() on tensor"),
    **_named(
        "torch.equal torch.allclose math.sqrt math.isnan math.isinf math.isfinite math.exp math.log"
        " math.floor math.ceil math.sin math.cos",
        "GD103",
        "GB0033",
        _DEPENDS,
    ),
}
"""Functions that need the value of the tensor that they are given."""


def _reads(node: ast.Call, site: Site) -> Iterator[Spot]:
    """Find ``item()``, ``tolist()``, ``float(t)``, ``math.sqrt(t)``, ``torch.equal``,
    ``range(t)``.
    """
    func = node.func
    if isinstance(func, ast.Attribute) and site.has_tensor_methods(func.value):
        if func.attr == "item" and not node.args:
            yield Spot(node, *_ITEM)
        elif func.attr == "tolist" and site.is_of(func.value, "int"):
            yield Spot(node, "GD103", "GB0033", _DEPENDS)
        elif func.attr == "tolist":
            yield Spot(node, "GD103", "GB0109", "Tensor.tolist() with non-integer tensor")
        elif func.attr in ("equal", "allclose"):
            yield Spot(node, "GD103", "GB0033", _DEPENDS, f"aten.{func.attr}.default")
    elif node.args and site.is_tensor(node.args[0]):
        if (dotted := site.dotted(func)) in _TAKERS:
            yield Spot(node, *_TAKERS[dotted or ""])
    elif site.dotted(func) == "builtins.sorted" and not node.keywords:
        match node.args:
            case [ast.List(elts=[_, _, *_] as items) | ast.Tuple(elts=[_, _, *_] as items), *_]:
                if all(map(site.is_tensor, items)):
                    yield Spot(node, "GD123", "GB0207", "sort with non-constant keys", _VARIABLE)


def _subscripts(node: ast.Subscript, place: Surrounding, site: Site) -> Iterator[Spot]:
    """Find ``[a, b][t]`` and ``x[mask]``."""
    is_read = isinstance(node.ctx, ast.Load)
    if is_read and isinstance(node.value, (ast.List, ast.Tuple)) and site.is_tensor(node.slice):
        yield Spot(node, *_ITEM)
    indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    is_masked = any(site.is_of(item, "bool") for item in indices)
    # `x[mask] += 1` reads too, `x[mask] = 1` doesn't.
    is_changed = isinstance(place.statement, ast.AugAssign) and place.statement.target is node
    if (is_changed or is_read) and is_masked and site.is_tensor(node.value):
        yield _spot(node, "nonzero")


_SHAPE = "Dynamic shape operator"
_OPERATORS = {
    "nonzero": "nonzero",
    "argwhere": "nonzero",
    "masked_select": "masked_select",
    "unique": "_unique2",
    "unique_consecutive": "unique_consecutive",
    "bincount": "bincount",
}


def _shapes(node: ast.Call, site: Site) -> Iterator[Spot]:
    """Find ``nonzero``, ``unique``, ``bincount``, ``repeat_interleave`` with a tensor,
    ``one_hot``.
    """
    dotted = site.dotted(node.func) or ""
    if dotted == "torch.nn.functional.one_hot":
        if len(node.args) == 1 and keyword_value(node, "num_classes") is None:
            unset = "Attempted to use `torch.nn.functional.one_hot` with total classes unset"
            yield Spot(node, "GD104", "GB0246", unset)
        return
    if dotted.startswith("torch."):
        name, arguments = dotted.removeprefix("torch."), node.args
    elif isinstance(node.func, ast.Attribute) and site.has_tensor_methods(node.func.value):
        name, arguments = node.func.attr, [node.func.value, *node.args]
    else:
        return
    if name in _OPERATORS or (name == "where" and len(arguments) == 1 and not node.keywords):
        yield _spot(node, _OPERATORS.get(name, "nonzero"))
    elif (
        name == "repeat_interleave"
        and keyword_value(node, "output_size") is None
        and any(map(site.is_tensor, arguments[1:2]))
    ):
        yield _spot(node, name)


def _spot(node: ast.expr, operator: str) -> Spot:
    return Spot(node, "GD104", "GB0036", _SHAPE, f"aten.{operator}.default")


_MAKERS = torch_names.LOCKS | {
    "builtins.open",
    "contextlib.redirect_stdout",
    "tempfile.TemporaryDirectory",
    "torch.device",
    "torch.autograd.detect_anomaly",
    "torch.autograd.set_detect_anomaly",
    "torch.autograd.graph.save_on_cpu",
    "torch.random.fork_rng",
}


_BY_METHOD: dict[str, _Cause] = {
    **_named(
        "to_sparse to_sparse_csr",
        "GD117",
        "GB0277",
        "Attempted to wrap sparse Tensor with VariableTracker",
    ),
    "is_inference": ("GD118", "GB0045", "Encountered tensor.is_inference() during tracing", None),
    "random_": ("GD100", "GB0107", "Tensor.random_ op", None),
}


_WITH_GRADIENT = (
    "GD114", "GB0225", "Attempted to use tensor creation function with requires_grad=True"
)  # fmt: skip
_CREATORS = ("ones", "zeros", "full", "rand", "randn", "empty", "tensor")


def _gradients(node: ast.Call, site: Site) -> Iterator[Spot]:
    """Find ``backward()``, ``requires_grad_()``, tensors made with a gradient, and sparse ones."""
    func, scope = node.func, site.region.scope
    dotted = site.dotted(func) or ""
    module, _, name = dotted.rpartition(".")
    if module == "torch" and name in _CREATORS:
        if getattr(keyword_value(node, "requires_grad"), "value", None) is True:
            yield Spot(node, *_WITH_GRADIENT)
        return
    if not isinstance(func, ast.Attribute) or dotted in _CALLS:
        return
    root, is_tensor = func.value, site.kind(func.value) == "tensor"
    is_plain = not node.args and not node.keywords
    if func.attr == "backward":
        is_local = isinstance(root, ast.Name) and site.dotted(root) is None
        is_own = site.values.owner(root, scope) is not None
        is_defined = any("backward" in info.methods for info in site.program.classes.values())
        if is_tensor or (is_plain and is_local and not is_own and not is_defined):
            yield Spot(node, "GD112", "GB0123", "Unsupported Tensor.backward() call")
    if not is_tensor:
        return
    bindings = scope.bindings.get(root.id, ()) if isinstance(root, ast.Name) else ()
    is_parameter = [binding.kind for binding in bindings] == ["parameter"]
    # What a chain of methods and subscripts begins with may be sparse already if it comes from
    # elsewhere.
    while True:
        match root:
            case ast.Subscript(value=inner):
                root = inner
            case ast.Call(func=ast.Attribute(value=inner)) if site.dotted(root.func) is None:
                root = inner
            case _:
                break
    if func.attr in _BY_METHOD and site.is_tensor(root):
        yield Spot(node, *_BY_METHOD[func.attr])
    elif func.attr == "requires_grad_" and is_parameter and is_plain:
        yield Spot(node, "GD114", "GB0125", "Unsupported Tensor.requires_grad_() call")


def _steps(node: ast.AugAssign, target: ast.Attribute, site: Site) -> Iterator[Spot]:
    """Find ``self.step += 1``, if that and a number are all that it is set to."""
    owner = site.values.owner(target.value, site.region.scope)
    if owner is None or not site.program.is_module_class(owner):
        return
    values = [
        binding.node
        for info in site.program.ancestors(owner)
        for _, binding in info.attributes.get(target.attr, ())
    ]
    starts = [
        value
        for value in values
        if isinstance(value, ast.Constant) and isinstance(value.value, int | float)
    ]
    sums = (value for value in values if isinstance(value, ast.BinOp))
    steps = [value for value in sums if _is_step(value.op, value.right)]
    is_counted = starts and len(starts) + len(steps) == len(values)
    if is_counted and _is_step(node.op, node.value):
        yield Spot(node, "GD205", subject=f"self.{target.attr}")


def _is_step(op: ast.operator, value: ast.expr) -> bool:
    is_number = (
        isinstance(value, ast.Constant) and type(value.value) in (int, float) and value.value != 0
    )
    return is_number and isinstance(op, (ast.Add, ast.Sub))


_RECURRENT = ("GD116", "GB0014", "Attempted to wrap RNN, GRU, or LSTM")


def spots_at(node: ast.AST, place: Surrounding, site: Site) -> Iterator[Spot]:
    """Find what torch certainly breaks at, or recompiles for, at one node that certainly runs."""
    match node:
        case ast.ClassDef():
            yield Spot(node, "GD100", "GB8977", "Invalid call to __build_class__")
        case ast.Call():
            yield from _calls(node, place, site)
            yield from _reads(node, site)
            yield from _shapes(node, site)
            yield from _gradients(node, site)
        case ast.Subscript():
            yield from _subscripts(node, place, site)
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            if _decides(test, site):
                is_not = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
                yield Spot(test.operand if is_not else test, *_BRANCH)  # type: ignore[attr-defined]
        case ast.Assert(test=test, msg=ast.expr() as message):
            # With a constant message, or none, it becomes a check in the graph.
            is_plain = isinstance(message, ast.Constant) and isinstance(message.value, str)
            if not is_plain and _decides(test, site):
                yield Spot(node, *_BRANCH)
        case ast.BoolOp(values=[first, *_]):
            # As a value; a branch reports its own test.
            if not place.is_test and site.is_tensor(first):
                yield Spot(node, *_BRANCH)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            if not place.is_test and site.is_tensor(operand):
                yield Spot(node, "GD103", "GB0033", _DEPENDS, is_frame_lost=True)
        case ast.With(items=items):
            for entered in (item.context_expr for item in items):
                made = site.dotted(entered.func) if isinstance(entered, ast.Call) else None
                if made in _MAKERS or site.kind(entered) == "lock":
                    unsupported = "Unsupported context manager"
                    yield Spot(node, "GD110", "GB0142", unsupported, is_frame_lost=True)
                    break
        case ast.Assign(targets=targets):
            for target in targets:
                match target:
                    case ast.Attribute(value=value, attr="requires_grad") if site.is_tensor(value):
                        yield Spot(target, "GD114", "GB0206", "setattr() on Tensor.requires_grad")
        case ast.AugAssign(target=ast.Attribute() as target):
            yield from _steps(node, target, site)
        case ast.Name(ctx=ast.Load()) | ast.Attribute(ctx=ast.Load()):
            # torch refuses it where it is read, called or not.
            if site.kind(node) == "recurrent":
                yield Spot(node, *_RECURRENT, is_frame_lost=True)
