"""What an expression certainly is: a tensor, a layer, a lock. Unknown if there is any doubt.

The analysis ignores the order of statements: a name is a tensor if everything that is ever bound to it in its scope is
one. A name that is reused for something else is unknown everywhere.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Literal

from graphdoctor.lint import torch_names
from graphdoctor.lint.flow import certain_nodes
from graphdoctor.lint.program import Binding, ClassInfo, Program, Scope

Kind = Literal[
    "bottom", "tensor", "tensors", "layer", "layers", "recurrent", "lock", "logger", "optimizer", "instance", "number"
]


@dataclass(frozen=True)
class Value:
    """What is known about a value.

    Args:
        kind: What it is; ``bottom`` only while names that depend on each other are being resolved.
        dtype: A tensor's dtype, if certain.
        classes: The file's classes that it's an instance of, or holds instances of (``layers``).
    """

    kind: Kind
    dtype: Literal["bool", "int"] | None = None
    classes: tuple[ClassInfo, ...] = ()


TENSOR = Value("tensor")
MASK = Value("tensor", "bool")
INTEGERS = Value("tensor", "int")
TENSORS = Value("tensors")
LAYER = Value("layer")
NUMBER = Value("number")
OPTIMIZER = Value("optimizer")
_BOTTOM = Value("bottom")
_ROUNDS = 8
_ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_EQUAL = (ast.Eq, ast.NotEq)
_SEQUENTIAL = "torch.nn.Sequential"
_MODULE_LIST = "torch.nn.ModuleList"
UNWRAPPED = ("to", "cuda", "cpu", "eval", "train", "half", "float", "double", "bfloat16", "requires_grad_")
"""Methods of a module that return the module itself."""


class Values:
    """Says what expressions of a file are.

    Args:
        program: The file.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._names: dict[Scope, dict[str, Value | None]] = {}
        self._attributes: dict[tuple[ClassInfo, str], Value | None] = {}
        own = {name for info in program.classes.values() for name in info.methods}
        self._only_tensors = torch_names.ONLY_TENSOR_METHODS - own

    def of(self, node: ast.expr, scope: Scope) -> Value | None:
        """What an expression certainly is, or None."""
        value = self._of(node, scope)
        return None if value == _BOTTOM else value

    def is_tensor(self, node: ast.expr, scope: Scope) -> bool:
        """Whether an expression is certainly a tensor."""
        value = self.of(node, scope)
        return value is not None and value.kind == "tensor"

    def owner(self, node: ast.expr, scope: Scope) -> ClassInfo | None:
        """The class of the method, if an expression is the method's own object (``self``)."""
        found = scope.lookup(node.id) if isinstance(node, ast.Name) else None
        if found is None or not isinstance(node, ast.Name):
            return None
        holder, bindings = found
        return holder.owner if holder.self_name == node.id and len(bindings) == 1 else None

    def attribute(self, info: ClassInfo, name: str) -> Value | None:
        """What an attribute of an object of a class certainly is."""
        key = (info, name)
        if key not in self._attributes:
            self._attributes[key] = None  # unknown while it depends on itself
            self._attributes[key] = self._attribute(info, name)
        return self._attributes[key]

    def _attribute(self, info: ClassInfo, name: str) -> Value | None:
        values: list[Value | None] = []
        for one in self._program.ancestors(info):
            for scope, binding in one.attributes.get(name, ()):
                values.append(self._bound(binding, scope))
            if name in one.methods:
                values.append(None)
            values += [TENSOR for _ in _registered(one, name)]
        return _joined(values)

    def _of(self, node: ast.expr, scope: Scope) -> Value | None:
        match node:
            case ast.Name(id=name):
                return self._named(name, scope)
            case ast.Attribute():
                return self._attribute_of(node, scope)
            case ast.Call():
                return self._called(node, scope)
            case ast.BinOp(left=left, right=right):
                return self._operation(left, right, node.op, scope)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Invert(), operand=operand):
                value = self._of(operand, scope)
                return value if value in (_BOTTOM, NUMBER) or _is(value, "tensor") else None
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self._comparison(left, right, op, scope)
            case ast.Subscript(value=inner):
                value = self._of(inner, scope)
                if _is(value, "tensors"):
                    return TENSOR if isinstance(node.slice, ast.Constant) else None
                return TENSOR if _is(value, "tensor") else _BOTTOM if value == _BOTTOM else None
            case ast.IfExp(body=body, orelse=orelse):
                return _joined([self._of(body, scope), self._of(orelse, scope)])
            case ast.NamedExpr(value=inner):
                return self._of(inner, scope)
            case ast.Constant(value=bool()):
                return None
            case ast.Constant(value=int() | float()):
                return NUMBER
            case _:
                return None

    def _named(self, name: str, scope: Scope) -> Value | None:
        found = scope.lookup(name)
        return None if found is None else self._names_of(found[0]).get(name)

    def _names_of(self, scope: Scope) -> dict[str, Value | None]:
        """Every name that a scope binds, resolved from the bottom up until nothing changes."""
        if scope in self._names:
            return self._names[scope]
        names: dict[str, Value | None] = dict.fromkeys(scope.bindings, _BOTTOM)
        self._names[scope] = names
        for _ in range(_ROUNDS):
            is_changed = False
            for name, bindings in scope.bindings.items():
                value = _joined([self._bound_name(name, binding, scope) for binding in bindings])
                is_changed |= value != names[name]
                names[name] = value
            if not is_changed:
                return names
        names.update(dict.fromkeys(names))  # it doesn't converge: nothing is known
        return names

    def _bound_name(self, name: str, binding: Binding, scope: Scope) -> Value | None:
        if binding.kind != "parameter":
            return self._bound(binding, scope)
        annotation = binding.node.annotation if isinstance(binding.node, ast.arg) else None
        dotted = None if annotation is None else self._annotated(annotation, scope)
        if dotted in torch_names.TENSOR_TYPES and not _may_be_none(name, scope):
            return TENSOR
        if dotted is not None and dotted.startswith("torch.optim."):
            return OPTIMIZER
        return TENSOR if self._is_used_as_tensor(name, scope) else None

    def _bound(self, binding: Binding, scope: Scope) -> Value | None:
        if not isinstance(binding.node, ast.expr):
            return None
        value = self._of(binding.node, scope)
        if binding.kind == "value":
            return value
        if value == _BOTTOM:
            return _BOTTOM
        if binding.kind == "element":
            return TENSOR if _is(value, "tensors") else None
        if binding.kind == "item" and value is not None and value.kind == "layers":
            return Value("instance", classes=value.classes)
        return None

    def _annotated(self, annotation: ast.expr, scope: Scope) -> str | None:
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            try:
                annotation = ast.parse(annotation.value, mode="eval").body
            except SyntaxError:
                return None
        return self._program.dotted(annotation, scope)

    def _is_used_as_tensor(self, name: str, scope: Scope) -> bool:
        """Whether the function certainly uses a parameter in a way that fails for anything but a tensor.

        Only code before the name's first other binding counts, because the name is the parameter until then.
        """
        if isinstance(scope.node, (ast.Module, ast.Lambda)):
            return False
        others = [binding.end for binding in scope.bindings[name] if binding.kind != "parameter"]
        limit = min(others, default=(scope.node.end_lineno or 0, 1 << 30))
        for node, _ in certain_nodes(scope, self._program):
            if not isinstance(node, ast.Call) or (node.lineno, node.col_offset) >= limit:
                continue
            if self._demanded(node, scope) == name:
                return True
        return False

    def _demanded(self, call: ast.Call, scope: Scope) -> str | None:
        """The name that a call requires to be a tensor."""
        first = call.args[0].id if call.args and isinstance(call.args[0], ast.Name) else None
        if isinstance(call.func, ast.Attribute):
            receiver = call.func.value
            if isinstance(receiver, ast.Name) and call.func.attr in self._only_tensors:
                return receiver.id if self._program.dotted(receiver, scope) is None else None
            owner = self.owner(receiver, scope)
            if first and owner is not None:
                value = self.attribute(owner, call.func.attr)
                return first if value is not None and value.kind == "layer" else None
        return first if self._program.dotted(call.func, scope) in torch_names.TENSOR_TAKERS else None

    def _attribute_of(self, node: ast.Attribute, scope: Scope) -> Value | None:
        owner = self.owner(node.value, scope)
        if owner is not None:
            return self.attribute(owner, node.attr)
        value = self._of(node.value, scope)
        if value == _BOTTOM:
            return _BOTTOM
        if _is(value, "tensor") and node.attr in ("T", "mT", "H", "mH", "data", "real", "imag"):
            return TENSOR
        return None

    def _called(self, node: ast.Call, scope: Scope) -> Value | None:
        dotted = self._program.dotted(node.func, scope)
        if dotted is not None:
            return self._made(dotted, node, scope)
        if isinstance(node.func, ast.Name):
            definition = self._program.definition(node.func.id, scope)
            if isinstance(definition, ClassInfo):
                return Value("instance", classes=(definition,))
        value = self._of(node.func, scope)
        if value is not None and value.kind in ("layer", "bottom"):
            return TENSOR if value.kind == "layer" else _BOTTOM
        return self._method(node, scope) if isinstance(node.func, ast.Attribute) else None

    def _made(self, dotted: str, node: ast.Call, scope: Scope) -> Value | None:
        """What an imported function or class returns."""
        if dotted in torch_names.BOOLEAN_FUNCTIONS:
            return MASK
        if dotted in torch_names.TENSOR_FUNCTIONS or dotted in ("torch.nn.Parameter", "torch.nn.Buffer"):
            return TENSOR if not any(keyword.arg == "out" for keyword in node.keywords) else None
        root, _, name = dotted.rpartition(".")
        if root == "torch" and name in ("max", "min") and len(node.args) == 1 and not node.keywords:
            return TENSOR
        if root == "torch" and name == "where" and len(node.args) == 3:
            return TENSOR
        if root == "torch" and name in torch_names.TUPLE_METHODS:
            return TENSORS
        if dotted in (_SEQUENTIAL, _MODULE_LIST):
            return self._container(dotted, node, scope)
        if dotted in torch_names.LAYERS:
            return LAYER
        if dotted in torch_names.RECURRENT:
            return Value("recurrent")
        if dotted in torch_names.LOCKS:
            return Value("lock")
        if dotted == "logging.getLogger":
            return Value("logger")
        if dotted.startswith("torch.optim.") and dotted.count(".") == 2:
            return OPTIMIZER
        return None

    def _container(self, dotted: str, node: ast.Call, scope: Scope) -> Value | None:
        parts: list[ast.expr] = []
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                argument = argument.value  # noqa: PLW2901 - what is unpacked
            if isinstance(argument, (ast.List, ast.Tuple)):
                parts += argument.elts
            elif isinstance(argument, (ast.ListComp, ast.GeneratorExp)):
                parts.append(argument.elt)
            else:
                parts.append(argument)
        values = [self._of(part, scope) for part in parts]
        classes = tuple(dict.fromkeys(one for value in values if value for one in value.classes))
        if dotted == _SEQUENTIAL:
            is_plain = bool(values) and all(_is(value, "layer") for value in values)
            return LAYER if is_plain else Value("instance", classes=classes) if classes else None
        return Value("layers", classes=classes) if classes else None

    def _method(self, node: ast.Call, scope: Scope) -> Value | None:
        assert isinstance(node.func, ast.Attribute)
        name, receiver = node.func.attr, node.func.value
        value = self._of(receiver, scope)
        if value == _BOTTOM:
            return _BOTTOM
        if value is not None and value.kind in ("instance", "layer", "recurrent") and name in UNWRAPPED:
            return value
        is_only = name in self._only_tensors and self._program.dotted(receiver, scope) is None
        if not _is(value, "tensor") and not (is_only and value is None and self.owner(receiver, scope) is None):
            return None
        if name in ("all", "any", "logical_not") and not node.args and not node.keywords:
            return MASK if name == "logical_not" else TENSOR
        if name in torch_names.BOOLEAN_METHODS:
            return MASK
        if name == "to" and any(self._program.dotted(one, scope) == "torch.bool" for one in node.args):
            return MASK
        if name in torch_names.INTEGER_METHODS:
            return INTEGERS
        if name in ("max", "min"):
            return TENSOR if not node.args and not node.keywords else TENSORS if _is_dim(node) else None
        if name in torch_names.TUPLE_METHODS:
            return TENSORS
        return TENSOR if name in torch_names.TENSOR_METHODS else None

    def _operation(self, left: ast.expr, right: ast.expr, op: ast.operator, scope: Scope) -> Value | None:
        one, other = self._of(left, scope), self._of(right, scope)
        if _BOTTOM in (one, other):
            return _BOTTOM
        if one == other == NUMBER:
            return NUMBER
        # With a tensor on the left, the result is a tensor or the line fails.
        is_tensor = _is(one, "tensor") or (_is(other, "tensor") and one == NUMBER)
        if not is_tensor:
            return None
        return MASK if one == other == MASK and isinstance(op, (ast.BitAnd, ast.BitOr, ast.BitXor)) else TENSOR

    def _comparison(self, left: ast.expr, right: ast.expr, op: ast.cmpop, scope: Scope) -> Value | None:
        one, other = self._of(left, scope), self._of(right, scope)
        if _BOTTOM in (one, other):
            return _BOTTOM
        known = (_is(one, "tensor"), _is(other, "tensor"))
        if isinstance(op, _ORDER):
            return MASK if any(known) else None
        # Comparing a tensor with None, a string or a list by == is just False.
        if isinstance(op, _EQUAL):
            return (
                MASK if any(known) and all(_is(value, "tensor") or value == NUMBER for value in (one, other)) else None
            )
        return None


def _may_be_none(name: str, scope: Scope) -> bool:
    """Whether a parameter has None as its default, as in ``x: Tensor = None``, whatever its annotation."""
    if isinstance(scope.node, ast.Module):
        return True
    arguments = scope.node.args
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = dict(zip((one.arg for one in reversed(plain)), reversed(arguments.defaults), strict=False))
    defaults |= {
        one.arg: value
        for one, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if value is not None
    }
    default = defaults.get(name)
    return isinstance(default, ast.Constant) and default.value is None


def _is(value: Value | None, kind: Kind) -> bool:
    return value is not None and value.kind == kind


def _is_dim(node: ast.Call) -> bool:
    """Whether it's ``x.max(1)`` or ``x.max(dim=1)``, which return values and indices; ``x.max(other)`` doesn't."""
    if node.args:
        return isinstance(node.args[0], (ast.Constant, ast.UnaryOp))
    return any(keyword.arg == "dim" for keyword in node.keywords)


def _joined(values: list[Value | None]) -> Value | None:
    """What all of them are; None if they differ in more than a tensor's dtype or an instance's class."""
    known = [value for value in values if value != _BOTTOM]
    if not known:
        return _BOTTOM if values else None
    first = known[0]
    if first is None or any(value is None or value.kind != first.kind for value in known):
        return None
    same = [value for value in known if value is not None]
    dtype = first.dtype if all(value.dtype == first.dtype for value in same) else None
    classes = tuple(dict.fromkeys(one for value in same for one in value.classes))
    return Value(first.kind, dtype, classes)


def _registered(info: ClassInfo, name: str) -> list[ast.Call]:
    """The calls ``self.register_buffer(name, …)`` with something other than ``None``."""
    return [
        node
        for method in info.methods.values()
        for node in ast.walk(method.node)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "register_buffer"
        and len(node.args) >= 2
        and isinstance(node.args[0], ast.Constant)
        and node.args[0].value == name
        and not (isinstance(node.args[1], ast.Constant) and node.args[1].value is None)
    ]
