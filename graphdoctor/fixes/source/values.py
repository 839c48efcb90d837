"""What an expression certainly is: a tensor, a layer, an object of a class, a function. Unknown if
there is any doubt.

The order of statements is ignored: a name is a tensor if everything that is ever bound to it in its
scope is one. A parameter that doesn't show what it is by its use is what the calls in the file
pass.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from graphdoctor.fixes.source import torch_names
from graphdoctor.fixes.source.flow import certain_nodes
from graphdoctor.fixes.source.program import (
    UNWRAPPED,
    Binding,
    ClassInfo,
    Compilers,
    Program,
    Scope,
    keyword_value,
    own_nodes,
)

T = TypeVar("T")

Method = tuple[Scope, ClassInfo | None]
"""A function, and the class of the object that it's called on."""
_MAX_ROUNDS = 8
_MAX_DEPTH = 60
_MAX_EFFORT = 20_000


class Solver:
    """Resolves values by key, each once; those that depend on each other, again and again until
    none changes.
    """

    def __init__(self) -> None:
        self._settled: dict[object, Any] = {}
        self._assumed: dict[object, Any] = {}
        self._seen: set[object] = set()
        self._is_changed = False
        self._depth = 0
        self._round = 0

    def value(self, key: object, evaluate: Callable[[], T], bottom: T, *, unknown: T) -> T:
        """The value of a key, which is ``bottom`` as long as it's only known to depend on
        itself.
        """
        if key in self._settled or key in self._seen:
            value: T = self._settled[key] if key in self._settled else self._assumed[key]
            return value
        if self._depth > _MAX_DEPTH or len(self._settled) > _MAX_EFFORT:
            return unknown
        while True:
            self._seen.add(key)
            assumed = self._assumed.setdefault(key, bottom)
            self._depth += 1
            value = evaluate()
            self._depth -= 1
            if value != assumed:
                self._is_changed = True
                if self._round >= _MAX_ROUNDS:
                    self._settled[key] = value = unknown
                self._assumed[key] = value
            if self._depth:
                return value
            if not self._is_changed or key in self._settled:
                break
            self._seen, self._is_changed, self._round = set(), False, self._round + 1
        if not self._is_changed:
            self._settled |= {seen_key: self._assumed[seen_key] for seen_key in self._seen}
        self._seen, self._assumed, self._is_changed, self._round = set(), {}, False, 0
        return value


Kind = Literal[
    "unknown", "bottom", "tensor", "tensors", "layer", "layers", "recurrent", "lock", "logger",
    "optimizer", "instance", "number", "compared", "function", "class", "tuple",
]  # fmt: skip


@dataclass(frozen=True)
class Value:
    """The facts known about a value.

    Args:
        kind: What it certainly is. ``bottom`` only while names that depend on each other are being
            resolved. ``compared`` is a tensor's ``==`` with anything: a mask, or False.
        classes: The file's classes that it's one of, an instance of, or holds instances of
            (``layers``).
        parts: What a tuple holds.
    """

    kind: Kind
    dtype: Literal["bool", "int"] | None = None
    classes: tuple[ClassInfo, ...] = ()
    functions: tuple[Scope, ...] = ()
    parts: tuple[Value, ...] = ()


UNKNOWN = Value("unknown")
TENSOR = Value("tensor")
MASK = Value("tensor", "bool")
INTEGERS = Value("tensor", "int")
TENSORS = Value("tensors")
LAYER = Value("layer")
NUMBER = Value("number")
OPTIMIZER = Value("optimizer")
COMPARED = Value("compared")
_BOTTOM = Value("bottom")
_MADE = {
    **dict.fromkeys((f"torch.{name}" for name in torch_names.TUPLE_METHODS), TENSORS),
    **dict.fromkeys(torch_names.BOOLEAN_FUNCTIONS, MASK),
    **dict.fromkeys(torch_names.TENSOR_RESULTS, TENSOR),
    **dict.fromkeys(torch_names.LAYERS, LAYER),
    **dict.fromkeys(torch_names.RECURRENT, Value("recurrent")),
    **dict.fromkeys(torch_names.LOCKS, Value("lock")),
    "logging.getLogger": Value("logger"),
}
"""What calls return, whatever they are given."""
_ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_EQUAL = (ast.Eq, ast.NotEq)
_TENSORS_OF = {
    "tensors": ("values", "indices"),
    "tensor": ("T", "mT", "H", "mH", "data", "real", "imag"),
}
_SEQUENTIAL = "torch.nn.Sequential"
_MODULE_LIST = "torch.nn.ModuleList"
_FOLLOWED = ("instance", "function", "class", "bottom")


class Values:
    """Says what expressions of a file are."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.compilers = Compilers(program)
        self._solver = Solver()
        self._calls: dict[Scope, list[tuple[ast.Call, Scope]]] = {}
        methods = {name for info in program.classes.values() for name in info.methods}
        self._only_tensors = torch_names.ONLY_TENSOR_METHODS - methods
        self._reductions = torch_names.REDUCTIONS - methods
        self._index_calls()

    def of(self, node: ast.expr, scope: Scope) -> Value:
        """Return what an expression certainly is."""
        value = self._of(node, scope)
        return UNKNOWN if value == _BOTTOM else value

    def is_tensor(self, node: ast.expr, scope: Scope) -> bool:
        """Check whether an expression is certainly a tensor."""
        return self.of(node, scope).kind == "tensor"

    def owner(self, node: ast.expr, scope: Scope) -> ClassInfo | None:
        """The class of the method, if an expression is the method's own object (``self``)."""
        if not isinstance(node, ast.Name) or (resolved := scope.lookup(node.id)) is None:
            return None
        holder, bindings = resolved
        info = holder.owner if holder.self_name == node.id and len(bindings) == 1 else None
        return info if info is not None and self._program.is_certain(info) else None

    def attribute(self, info: ClassInfo, name: str) -> Value:
        """Return what an attribute of an object of a class, or of one derived from it, certainly
        is.
        """
        return self._value((info, name), lambda: self._attribute(info, name))

    def method(self, info: ClassInfo, name: str) -> Scope | None:
        """The method that a class's objects certainly have, inherited or not; None if something is
        assigned over it.
        """
        is_kept = not self._assigned(info, name)
        return self._program.method(info, name) if is_kept else None

    def methods_of_family(self, info: ClassInfo, name: str) -> list[Method]:
        """The methods that an object of a class, or of one derived from it in the file, may have
        under a name.
        """
        methods: dict[Scope, ClassInfo | None] = {}
        for class_ in (info, *self._program.descendants(info)):
            method = self.method(class_, name)
            if method is None:
                return []
            methods.setdefault(method, class_)
        return list(methods.items())

    def returned(self, scope: Scope) -> Value:
        """Return what calling a function certainly returns."""
        return self._value(("returned", scope), lambda: self._returned(scope))

    def passed(self, name: str, scope: Scope) -> list[Value]:
        """Return what each call of a function in the file passes for a parameter."""
        if not isinstance(scope.node, ast.FunctionDef):
            return []
        values: list[Value] = []
        default = _default(name, scope)
        for call, caller in self._calls.get(scope, ()):
            argument = _argument(call, name, scope)
            is_unpacked = any(isinstance(argument, ast.Starred) for argument in call.args) or any(
                keyword.arg is None for keyword in call.keywords
            )
            if argument is not None:
                values.append(self._of(argument, caller))
            else:
                values.append(
                    UNKNOWN if default is None or is_unpacked else self._of(default, scope)
                )
        return values

    def _index_calls(self) -> None:
        """Note who calls each function of the file. What is found on the way is forgotten: no
        parameter was known.
        """
        calls: dict[Scope, list[tuple[ast.Call, Scope]]] = {}
        for call, caller in self._program.calls:
            callees = [method for method, _ in self.called(call.func, caller)]
            if not callees and (value := self._of(call.func, caller)).kind == "class":
                inits = [self._program.method(info, "__init__") for info in value.classes]
                callees = [init for init in inits if init is not None]
            for callee in callees:
                calls.setdefault(callee, []).append((call, caller))
        self._solver = Solver()
        self._calls = calls

    def called(
        self, func: ast.expr, scope: Scope, receiver: ClassInfo | None = None
    ) -> list[Method]:
        """The functions of the file that a call of an expression may run.

        ``receiver`` is the class of the method's own object, if more is known of it than where the
        method is defined.
        """
        if isinstance(func, ast.Attribute):
            owner = self.owner(func.value, scope)
            if owner is not None:
                methods = self.methods_of_family(receiver or owner, func.attr)
            else:
                value = self._of(func.value, scope)
                if value.kind != "instance":
                    return []
                methods = [
                    (method, info)
                    for info in value.classes
                    if (method := self.method(info, func.attr)) is not None
                ]
            if methods:
                return methods
        itself = self.owner(func, scope)
        if itself is not None:
            return self.run_by(Value("instance", classes=(receiver or itself,)))
        return self.run_by(self._of(func, scope))

    def run_by(self, value: Value) -> list[Method]:
        """The functions of the file that calling a value may run."""
        classes = value.classes if value.kind == "instance" else ()
        methods: list[Method] = [
            (method, info) for info in classes if (method := self._runs(info)) is not None
        ]
        return methods + [(function, None) for function in value.functions]

    def _value(self, key: object, evaluate: Callable[[], Value]) -> Value:
        return self._solver.value(key, evaluate, _BOTTOM, unknown=UNKNOWN)

    def _may_be(self, node: ast.expr, scope: Scope, family: list[ClassInfo]) -> bool:
        if isinstance(node, ast.Name):
            definition = self._program.definition(node.id, scope)
            if isinstance(definition, ClassInfo):
                return definition in family
        owner = self.owner(node, scope)
        if owner is not None:
            return owner in family
        value = self._of(node, scope)
        return value in (UNKNOWN, _BOTTOM) or any(class_ in family for class_ in value.classes)

    def _attribute(self, info: ClassInfo, name: str) -> Value:
        values = [self._bound(binding, scope) for binding, scope in self._assigned(info, name)]
        for class_ in self._family(info):
            values += [UNKNOWN] if name in class_.methods else []
        return _joined(values)

    def _family(self, info: ClassInfo) -> list[ClassInfo]:
        return [*self._program.ancestors(info), *self._program.descendants(info)]

    def _assigned(self, info: ClassInfo, name: str) -> list[tuple[Binding, Scope]]:
        """Return what is assigned to an attribute of a class's objects in the file, but for its own
        compiled value.
        """
        family = self._family(info)
        assigned: list[tuple[Binding, Scope]] = []
        for class_ in family:
            for scope, binding in class_.attributes.get(name, ()):
                target = ast.Attribute(ast.Name(scope.self_name or ""), name)
                if not self.compilers.is_wrapping(binding.node, target, scope):
                    assigned.append((binding, scope))
        for store in self._program.stores.get(name, ()):
            is_kept = self.compilers.is_wrapping(store.binding.node, store.target, store.scope)
            if is_kept or _is_self(store.target.value, store.scope):
                continue
            if self._may_be(store.target.value, store.scope, family):
                assigned.append((store.binding, store.scope))
        return assigned

    def _returned(self, scope: Scope) -> Value:
        if isinstance(scope.node, ast.Lambda):
            return self._of(scope.node.body, scope)
        if (
            isinstance(scope.node, ast.FunctionDef)
            and self.compilers.is_plain(scope)
            and _always_leaves(scope.node.body)
        ):
            returns = [node for node in own_nodes(scope.node) if isinstance(node, ast.Return)]
            return _joined(
                [
                    UNKNOWN if statement.value is None else self._of(statement.value, scope)
                    for statement in returns
                ]
            )
        return UNKNOWN

    def _of(self, node: ast.expr, scope: Scope) -> Value:
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
                return (
                    value if value.kind in ("bottom", "number", "compared", "tensor") else UNKNOWN
                )
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self._comparison(left, right, op, scope)
            case ast.Subscript(value=inner):
                return self._part(self._of(inner, scope), node.slice)
            case ast.Tuple(elts=elts) if not any(
                isinstance(element, ast.Starred) for element in elts
            ):
                return Value("tuple", parts=tuple(self._of(element, scope) for element in elts))
            case ast.IfExp(body=body, orelse=orelse):
                return _joined([self._of(body, scope), self._of(orelse, scope)])
            case ast.NamedExpr(value=inner):
                return self._of(inner, scope)
            case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
                return NUMBER
        return UNKNOWN

    @staticmethod
    def _part(value: Value, index: ast.expr) -> Value:
        match value.kind, index:
            case "tensors", _:
                return TENSOR if isinstance(index, ast.Constant) else UNKNOWN
            case "tuple", ast.Constant(value=int(at)) if 0 <= at < len(value.parts):
                return value.parts[at]
            case "layers", _:
                return value if isinstance(index, ast.Slice) else _held(value)
            case "compared", _:
                return MASK  # False can't be subscripted
        return value if value == _BOTTOM else TENSOR if value.kind == "tensor" else UNKNOWN

    def _named(self, name: str, scope: Scope) -> Value:
        resolved = scope.lookup(name)
        if resolved is None:
            return UNKNOWN
        holder, bindings = resolved
        if (
            any(binding.is_comprehension for binding in bindings)
            and holder.parent
            and holder.parent.lookup(name)
        ):
            return UNKNOWN  # which of the two a use means depends on where it stands
        if len(bindings) == 1 and bindings[0].kind in ("function", "class"):
            return self._bound(bindings[0], holder)
        return self._value((holder, name), lambda: self._joined_bindings(name, bindings, holder))

    def _joined_bindings(self, name: str, bindings: Sequence[Binding], scope: Scope) -> Value:
        others = (
            binding
            for binding in bindings
            if not self.compilers.is_wrapping(binding.node, ast.Name(name), scope)
        )
        return _joined([self._bound_name(name, binding, scope) for binding in others])

    def _bound_name(self, name: str, binding: Binding, scope: Scope) -> Value:
        if binding.kind != "parameter":
            return self._bound(binding, scope)
        annotation = binding.node.annotation if isinstance(binding.node, ast.arg) else None
        dotted = None if annotation is None else self._annotated(annotation, scope)
        if dotted in torch_names.TENSOR_TYPES and not _may_be_none(name, scope):
            return TENSOR
        if dotted is not None and dotted.startswith("torch.optim."):
            return OPTIMIZER
        if dotted in ("builtins.int", "builtins.float") and not _may_be_none(name, scope):
            return NUMBER
        return TENSOR if name in self._tensors_demanded(scope) else self._argument(name, scope)

    def _argument(self, name: str, scope: Scope) -> Value:
        """Return what all calls in the file pass; an object or a function only if there is one
        call.
        """
        passed = self.passed(name, scope)
        value = _joined(passed)
        return UNKNOWN if value.kind in _FOLLOWED and len(passed) > 1 else value

    def _bound(self, binding: Binding, scope: Scope) -> Value:
        node = binding.node
        if binding.kind == "function" and node is not None:
            return Value("function", functions=(self._program.scopes[node],))
        if isinstance(node, ast.ClassDef):
            info = self._program.classes[node]
            return Value("class", classes=(info,)) if self._program.is_certain(info) else UNKNOWN
        if binding.kind == "buffer":
            return TENSOR
        if not isinstance(node, ast.expr):
            return UNKNOWN
        value = self._of(node, scope)
        if binding.kind == "value" or value == _BOTTOM:
            return value
        if binding.kind == "element":
            return self._part(value, ast.Constant(binding.index))
        if value.kind == "layers":
            return _held(value)
        return _joined(value.parts) if value.kind == "tuple" else UNKNOWN

    def _annotated(self, annotation: ast.expr, scope: Scope) -> str | None:
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            try:
                annotation = ast.parse(annotation.value, mode="eval").body
            except SyntaxError:
                return None
        return self._program.dotted(annotation, scope)

    def _tensors_demanded(self, scope: Scope) -> frozenset[str]:
        """The parameters that a function certainly uses in a way that fails for anything but a
        tensor.

        Only code before a name's first other binding counts, because the name is the parameter
        until then.
        """
        if isinstance(scope.node, (ast.Module, ast.Lambda)):
            return frozenset()
        empty: frozenset[str] = frozenset()
        return self._solver.value(
            ("demands", scope), lambda: frozenset(self._demanded_in(scope)), empty, unknown=empty
        )

    def _demanded_in(self, scope: Scope) -> Iterator[str]:
        limits = {
            name: min(
                (binding.end for binding in bindings if binding.kind != "parameter"),
                default=(1 << 30, 0),
            )
            for name, bindings in scope.bindings.items()
            if any(binding.kind == "parameter" for binding in bindings)
        }
        for node, _ in certain_nodes(scope, self._program):
            if isinstance(node, ast.Call):
                place = (node.lineno, node.col_offset)
                yield from (
                    name for name in self._demanded(node, scope) if place < limits.get(name, (0, 0))
                )

    def _demanded(self, call: ast.Call, scope: Scope) -> Iterator[str]:
        first = call.args[0].id if call.args and isinstance(call.args[0], ast.Name) else None
        if isinstance(call.func, ast.Attribute):
            receiver = call.func.value
            is_proof = call.func.attr in self._only_tensors or self._has_dim(call)
            if (
                isinstance(receiver, ast.Name)
                and is_proof
                and self._program.dotted(receiver, scope) is None
            ):
                yield receiver.id
                return
            owner = self.owner(receiver, scope)
            if owner is not None:
                if first and self.attribute(owner, call.func.attr).kind == "layer":
                    yield first
                return
        if first and self._program.dotted(call.func, scope) in torch_names.TENSOR_TAKERS:
            yield first

    def _has_dim(self, call: ast.Call) -> bool:
        """Check for a method call with a dimension as only torch has it: ``x.sum(dim=-1)``; NumPy
        calls it axis.
        """
        assert isinstance(call.func, ast.Attribute)
        dim = keyword_value(call, "dim")
        return call.func.attr in self._reductions and dim is not None and _is_dimension(dim)

    def _attribute_of(self, node: ast.Attribute, scope: Scope) -> Value:
        owner = self.owner(node.value, scope)
        if owner is not None:
            return self.attribute(owner, node.attr)
        value = self._of(node.value, scope)
        if value == _BOTTOM:
            return _BOTTOM
        if node.attr in _TENSORS_OF.get(value.kind, ()):
            return TENSOR
        if value.kind == "instance":
            return _joined([self.attribute(info, node.attr) for info in value.classes])
        return UNKNOWN

    def _called(self, node: ast.Call, scope: Scope) -> Value:
        compiled = self.compilers.compiled(node, scope)
        if compiled is not None:
            return self._of(compiled[0], scope)
        dotted = self._program.dotted(node.func, scope)
        if dotted is not None:
            return self._made(dotted, node, scope)
        results = [self.returned(method) for method, _ in self.called(node.func, scope)]
        value = _joined(results)
        if value == UNKNOWN and isinstance(node.func, ast.Attribute):
            value = self._method(node, scope)
        if value != UNKNOWN or results:
            return value
        value = self._of(node.func, scope)
        if value.kind == "class":
            return Value("instance", classes=value.classes)
        return value if value == _BOTTOM else TENSOR if value.kind == "layer" else UNKNOWN

    def _runs(self, info: ClassInfo) -> Scope | None:
        is_own = self._program.method(
            info, "__call__"
        ) is not None or not self._program.is_module_class(info)
        return self.method(info, "__call__" if is_own else "forward")

    def _made(self, dotted: str, node: ast.Call, scope: Scope) -> Value:
        if dotted in _MADE:
            return _MADE[dotted]
        if dotted in torch_names.TENSOR_FUNCTIONS or dotted in (
            "torch.nn.Parameter",
            "torch.nn.Buffer",
        ):
            return TENSOR if keyword_value(node, "out") is None else UNKNOWN
        if dotted in ("copy.deepcopy", "copy.copy") and len(node.args) == 1:
            return self._of(node.args[0], scope)
        is_reduced = (
            dotted in ("torch.max", "torch.min") and len(node.args) == 1 and not node.keywords
        )
        if is_reduced or (dotted == "torch.where" and len(node.args) == 3):
            return TENSOR
        if dotted in (_SEQUENTIAL, _MODULE_LIST):
            return self._container(dotted, node, scope)
        return (
            OPTIMIZER if dotted.startswith("torch.optim.") and dotted.count(".") == 2 else UNKNOWN
        )

    def _container(self, dotted: str, node: ast.Call, scope: Scope) -> Value:
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
        classes = tuple(dict.fromkeys(class_ for value in values for class_ in value.classes))
        is_plain = bool(values) and all(value.kind == "layer" for value in values)
        if dotted == _SEQUENTIAL:
            return LAYER if is_plain else Value("instance", classes=classes) if classes else UNKNOWN
        if is_plain:
            return Value("layers", parts=(LAYER,))
        return Value("layers", classes=classes) if classes else UNKNOWN

    def _method(self, node: ast.Call, scope: Scope) -> Value:
        assert isinstance(node.func, ast.Attribute)
        name, receiver = node.func.attr, node.func.value
        value = self._of(receiver, scope)
        if value == _BOTTOM:
            return _BOTTOM
        if value.kind in ("instance", "layer", "recurrent") and name in UNWRAPPED:
            return value
        is_only = name in self._only_tensors or self._has_dim(node)
        is_only = (
            is_only
            and self._program.dotted(receiver, scope) is None
            and self.owner(receiver, scope) is None
        )
        is_cast = isinstance(receiver, ast.Compare) and name in (
            "bool",
            "float",
            "int",
            "long",
            "double",
            "half",
        )
        is_proved = value.kind in ("tensor", "compared") or (
            value == UNKNOWN and (is_cast or is_only)
        )
        if not is_proved:
            return UNKNOWN
        if name in ("all", "any", "logical_not") and not node.args and not node.keywords:
            return MASK if name == "logical_not" else TENSOR
        if name in torch_names.BOOLEAN_METHODS:
            return MASK
        if name == "to" and any(
            self._program.dotted(argument, scope) == "torch.bool" for argument in node.args
        ):
            return MASK
        if name in torch_names.INTEGER_METHODS:
            return INTEGERS
        if name in ("max", "min"):
            return (
                TENSOR
                if not node.args and not node.keywords
                else TENSORS
                if _is_dim(node)
                else UNKNOWN
            )
        if name in torch_names.TUPLE_METHODS:
            return TENSORS
        return TENSOR if name in torch_names.TENSOR_METHODS else UNKNOWN

    def _operation(self, left: ast.expr, right: ast.expr, op: ast.operator, scope: Scope) -> Value:
        first, other = self._of(left, scope), self._of(right, scope)
        if _BOTTOM in (first, other):
            return _BOTTOM
        if first == other == NUMBER:
            return NUMBER
        # With a tensor on the left, the result is a tensor or the line fails.
        if isinstance(op, (ast.BitAnd, ast.BitOr, ast.BitXor)) and first == COMPARED:
            return COMPARED
        is_tensor = first.kind == "tensor" or (other.kind == "tensor" and first == NUMBER)
        if not is_tensor:
            return UNKNOWN
        return (
            MASK
            if first == other == MASK and isinstance(op, (ast.BitAnd, ast.BitOr, ast.BitXor))
            else TENSOR
        )

    def _comparison(self, left: ast.expr, right: ast.expr, op: ast.cmpop, scope: Scope) -> Value:
        first, other = self._of(left, scope), self._of(right, scope)
        if _BOTTOM in (first, other):
            return _BOTTOM
        if "tensor" not in (first.kind, other.kind):
            return UNKNOWN
        if isinstance(op, _ORDER):
            return MASK
        # Comparing a tensor with None, a string or a list by == is just False.
        are_plain = {first.kind, other.kind} <= {"tensor", "number"}
        return (MASK if are_plain else COMPARED) if isinstance(op, _EQUAL) else UNKNOWN


def _always_leaves(body: Sequence[ast.stmt]) -> bool:
    """Check that a function never goes on after some lines: they end with a return or raise."""
    match body[-1]:
        case ast.Return() | ast.Raise():
            return True
        case ast.If(body=yes, orelse=[_, *_] as no):
            return _always_leaves(yes) and _always_leaves(no)
        case ast.With(body=inner):
            return _always_leaves(inner)
    return False


def _held(value: Value) -> Value:
    return value.parts[0] if value.parts else Value("instance", classes=value.classes)


def _may_be_none(name: str, scope: Scope) -> bool:
    """Check whether a parameter has None as its default, as in ``x: Tensor = None``, whatever its
    annotation.
    """
    default = _default(name, scope)
    return isinstance(default, ast.Constant) and default.value is None


def _is_dim(node: ast.Call) -> bool:
    """Check for ``x.max(1)`` or ``x.max(dim=1)``, which return values and indices; ``x.max(other)``
    doesn't.
    """
    if node.args:
        return isinstance(node.args[0], (ast.Constant, ast.UnaryOp))
    return keyword_value(node, "dim") is not None


def _joined(values: Sequence[Value]) -> Value:
    """Return what all values are; unknown if they differ in more than a tensor's dtype or an
    instance's class.
    """
    settled = [value for value in values if value != _BOTTOM]
    if len(settled) <= 1:
        return settled[0] if settled else _BOTTOM if values else UNKNOWN
    first = settled[0]
    if any(value.kind != first.kind for value in settled):
        return UNKNOWN
    if first.kind == "tuple":
        if any(len(value.parts) != len(first.parts) for value in settled):
            return UNKNOWN
        return Value(
            "tuple",
            parts=tuple(
                _joined(column) for column in zip(*(value.parts for value in settled), strict=True)
            ),
        )
    dtype = first.dtype if all(value.dtype == first.dtype for value in settled) else None
    classes, functions, parts = (
        tuple(dict.fromkeys(item for value in settled for item in getattr(value, name)))
        for name in ("classes", "functions", "parts")
    )
    return Value(first.kind, dtype, classes, functions, parts)


def _argument(call: ast.Call, name: str, scope: Scope) -> ast.expr | None:
    assert isinstance(scope.node, ast.FunctionDef)
    names = [parameter.arg for parameter in (*scope.node.args.posonlyargs, *scope.node.args.args)][
        scope.self_name is not None :
    ]
    arguments = dict(zip(names, call.args, strict=False))
    arguments |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    return (
        None
        if any(isinstance(argument, ast.Starred) for argument in call.args)
        else arguments.get(name)
    )


def _default(name: str, scope: Scope) -> ast.expr | None:
    if isinstance(scope.node, ast.Module):
        return None
    arguments = scope.node.args
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults: dict[str, ast.expr | None] = dict(
        zip(
            (parameter.arg for parameter in reversed(plain)),
            reversed(arguments.defaults),
            strict=False,
        )
    )
    defaults |= {
        parameter.arg: value
        for parameter, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    }
    return defaults.get(name)


def _is_dimension(node: ast.expr) -> bool:
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return False
    return type(value) is int or (
        isinstance(value, tuple | list) and all(type(index) is int for index in value)
    )


def _is_self(node: ast.expr, scope: Scope) -> bool:
    resolved = scope.lookup(node.id) if isinstance(node, ast.Name) else None
    return resolved is not None and isinstance(node, ast.Name) and resolved[0].self_name == node.id
