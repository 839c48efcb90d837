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


def branches(node: ast.AST, place: Surrounding, site: Site) -> Iterator[Spot]:
    """Find ``if``, ``while``, a conditional expression, and an ``assert`` with a computed message.

    An ``assert`` with a constant message, or none, becomes a check in the graph.
    """
    match node:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            if _decides(test, site):
                pointed = (
                    test.operand
                    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
                    else test
                )
                yield Spot(pointed, *_BRANCH)
        case ast.Assert(test=test, msg=ast.expr() as message):
            is_plain = isinstance(message, ast.Constant) and isinstance(message.value, str)
            if not is_plain and _decides(test, site):
                yield Spot(node, *_BRANCH)
        case ast.BoolOp(values=[first, *_]):
            # As a value; a branch reports its own test.
            if not place.is_test and site.is_tensor(first):
                yield Spot(node, *_BRANCH)


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
_LOG_METHODS = frozenset(("debug", "info", "warning", "error", "critical", "exception", "log"))
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


def calls(node: ast.AST, place: Surrounding, site: Site) -> Iterator[Spot]:
    """Find calls that break whatever their arguments are."""
    if isinstance(node, ast.ClassDef):
        yield Spot(node, "GD100", "GB8977", "Invalid call to __build_class__")
        return
    if not isinstance(node, ast.Call):
        return
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
        yield Spot(
            node,
            "GD101",
            "GB0059",
            _BUILTIN,
            f"builtin print [] {bool(node.keywords) or not is_plain}",
        )
    elif dotted in _CALLS and node not in entered:
        yield Spot(node, *_CALLS[dotted])
    elif dotted == "torch._dynamo.skip_frame":
        yield Spot(
            node, "GD107", "GB4297", "Call to `torch._dynamo.skip_frame()`", is_frame_lost=True
        )
    elif isinstance(node.func, ast.Attribute):
        if node.func.attr in _LOG_METHODS and site.kind(node.func.value) == "logger":
            yield Spot(node, "GD101", "GB0291", _LOGGER)
        elif node.func.attr in ("acquire", "release") and site.kind(node.func.value) == "lock":
            yield Spot(node, "GD109", "GB0156", _METHOD)
    for copied in node.args if len(node.args) == 1 else ():
        parts = copied.elts if isinstance(copied, (ast.List, ast.Tuple)) else [copied]
        if dotted == "copy.copy" and site.is_tensor(copied):
            yield Spot(node, "GD108", "GB0208", "torch.* op returned non-Tensor")
        elif dotted == "copy.deepcopy" and any(
            site.kind(part) in ("tensor", "layer") for part in parts
        ):
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


def reads(node: ast.AST, place: Surrounding, site: Site) -> Iterator[Spot]:
    """Find ``item()``, ``tolist()``, ``float(t)``, ``math.sqrt(t)``, ``torch.equal``, ``range(t)``,
    ``not t``.
    """
    if isinstance(node, ast.UnaryOp):
        if isinstance(node.op, ast.Not) and not place.is_test and site.is_tensor(node.operand):
            yield Spot(node, "GD103", "GB0033", _DEPENDS, is_frame_lost=True)
    elif isinstance(node, ast.Subscript):
        is_list = isinstance(node.value, (ast.List, ast.Tuple)) and isinstance(node.ctx, ast.Load)
        if is_list and site.is_tensor(node.slice):
            yield Spot(node, *_ITEM)
    elif (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and site.has_tensor_methods(node.func.value)
    ):
        name = node.func.attr
        if name == "item" and not node.args:
            yield Spot(node, *_ITEM)
        elif name == "tolist" and site.is_of(node.func.value, "int"):
            yield Spot(node, "GD103", "GB0033", _DEPENDS)
        elif name == "tolist":
            yield Spot(node, "GD103", "GB0109", "Tensor.tolist() with non-integer tensor")
        elif name in ("equal", "allclose"):
            yield Spot(node, "GD103", "GB0033", _DEPENDS, f"aten.{name}.default")
    elif isinstance(node, ast.Call) and node.args and site.is_tensor(node.args[0]):
        if (dotted := site.dotted(node.func)) in _TAKERS:
            yield Spot(node, *_TAKERS[dotted or ""])
    elif isinstance(node, ast.Call) and site.dotted(node.func) == "builtins.sorted" and node.args:
        first = node.args[0]
        is_list = isinstance(first, (ast.List, ast.Tuple)) and len(first.elts) > 1
        if is_list and not node.keywords and all(site.is_tensor(item) for item in first.elts):  # type: ignore[attr-defined]
            yield Spot(node, "GD123", "GB0207", "sort with non-constant keys", _VARIABLE)


_SHAPE = "Dynamic shape operator"
_OPERATORS = {
    "nonzero": "nonzero",
    "argwhere": "nonzero",
    "masked_select": "masked_select",
    "unique": "_unique2",
    "unique_consecutive": "unique_consecutive",
    "bincount": "bincount",
}


def shapes(node: ast.AST, place: Surrounding, site: Site) -> Iterator[Spot]:
    """Find ``nonzero``, ``x[mask]``, ``unique``, ``bincount``, ``repeat_interleave`` with a tensor,
    ``one_hot``.
    """
    if isinstance(node, ast.Subscript):
        indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        is_masked = any(site.is_of(item, "bool") for item in indices)
        # `x[mask] += 1` reads too, `x[mask] = 1` doesn't.
        is_changed = isinstance(place.statement, ast.AugAssign) and place.statement.target is node
        is_read = is_changed or isinstance(node.ctx, ast.Load)
        if is_read and is_masked and site.is_tensor(node.value):
            yield _spot(node, "nonzero")
        return
    if not isinstance(node, ast.Call):
        return
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
        and len(arguments) > 1
        and keyword_value(node, "output_size") is None
        and site.is_tensor(arguments[1])
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


def managers(node: ast.AST, site: Site) -> Iterator[Spot]:
    """Find ``with`` on a lock, a file, ``torch.device``, anomaly detection and a few others."""
    if not isinstance(node, ast.With):
        return
    for entered in (item.context_expr for item in node.items):
        made = site.dotted(entered.func) if isinstance(entered, ast.Call) else None
        if made in _MAKERS or site.kind(entered) == "lock":
            yield Spot(node, "GD110", "GB0142", "Unsupported context manager", is_frame_lost=True)
            return


_BY_METHOD = {
    "to_sparse": ("GD117", "GB0277", "Attempted to wrap sparse Tensor with VariableTracker"),
    "to_sparse_csr": ("GD117", "GB0277", "Attempted to wrap sparse Tensor with VariableTracker"),
    "is_inference": ("GD118", "GB0045", "Encountered tensor.is_inference() during tracing"),
    "random_": ("GD100", "GB0107", "Tensor.random_ op"),
}


def gradients(node: ast.AST, site: Site) -> Iterator[Spot]:
    """Find ``backward()``, optimizer methods, ``requires_grad``, tensors created with it, sparse
    tensors.
    """
    for target in node.targets if isinstance(node, ast.Assign) else []:
        is_switch = isinstance(target, ast.Attribute) and target.attr == "requires_grad"
        if isinstance(target, ast.Attribute) and is_switch and site.is_tensor(target.value):
            yield Spot(target, "GD114", "GB0206", "setattr() on Tensor.requires_grad")
    if not isinstance(node, ast.Call):
        return
    dotted = site.dotted(node.func) or ""
    module, _, name = dotted.rpartition(".")
    if module == "torch" and name in ("ones", "zeros", "full", "rand", "randn", "empty", "tensor"):
        if getattr(keyword_value(node, "requires_grad"), "value", None) is True:
            yield Spot(
                node,
                "GD114",
                "GB0225",
                "Attempted to use tensor creation function with requires_grad=True",
            )
    elif isinstance(node.func, ast.Attribute) and dotted not in _CALLS:
        yield from _gradient_methods(node, node.func, site)


def _gradient_methods(node: ast.Call, func: ast.Attribute, site: Site) -> Iterator[Spot]:
    kind = site.kind(func.value)
    if kind == "optimizer" and func.attr == "step":
        yield Spot(
            node, "GD112", "GB0025", "Call to `torch._dynamo.graph_break()`", "qualname: Optimizer."
        )
    elif kind == "optimizer" and func.attr == "zero_grad":
        yield Spot(node, "GD112", "GB0008", _INLINED, "qualname: Optimizer.")
    root, scope = func.value, site.region.scope
    is_plain = not node.args and not node.keywords
    if func.attr == "backward":
        is_local = isinstance(root, ast.Name) and site.dotted(root) is None
        is_own = site.values.owner(root, scope) is not None
        is_defined = any("backward" in info.methods for info in site.program.classes.values())
        if kind == "tensor" or (is_plain and is_local and not is_own and not is_defined):
            yield Spot(node, "GD112", "GB0123", "Unsupported Tensor.backward() call")
    if kind != "tensor":
        return
    is_parameter = isinstance(root, ast.Name) and [
        binding.kind for binding in scope.bindings.get(root.id, ())
    ] == ["parameter"]
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


def modules(node: ast.AST, site: Site) -> Iterator[Spot]:
    """Find an RNN, GRU or LSTM, which torch refuses where it is read, called or not; ``self.step +=
    1``.
    """
    is_read = isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load)
    if is_read and isinstance(node, ast.expr) and site.kind(node) == "recurrent":
        yield Spot(
            node, "GD116", "GB0014", "Attempted to wrap RNN, GRU, or LSTM", is_frame_lost=True
        )
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Attribute):
        name = node.target.attr
        owner = site.values.owner(node.target.value, site.region.scope)
        if owner is None or not site.program.is_module_class(owner):
            return
        values = [
            binding.node
            for info in site.program.ancestors(owner)
            for _, binding in info.attributes.get(name, ())
        ]
        starts = [
            value
            for value in values
            if isinstance(value, ast.Constant) and isinstance(value.value, int | float)
        ]
        steps = [
            value
            for value in values
            if isinstance(value, ast.BinOp) and _is_step(value.op, value.right)
        ]
        is_counted = starts and len(starts) + len(steps) == len(values)
        if is_counted and _is_step(node.op, node.value):
            yield Spot(node, "GD205", subject=f"self.{name}")


def _is_step(op: ast.operator, value: ast.expr) -> bool:
    is_number = (
        isinstance(value, ast.Constant) and type(value.value) in (int, float) and value.value != 0
    )
    return is_number and isinstance(op, (ast.Add, ast.Sub))


def spots_at(node: ast.AST, place: Surrounding, site: Site) -> Iterator[Spot]:
    """Find what torch certainly breaks at, or recompiles for, at one node that certainly runs."""
    for check in (calls, branches, reads, shapes):
        yield from check(node, place, site)
    for plain in (managers, gradients, modules):
        yield from plain(node, site)
