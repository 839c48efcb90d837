"""What an expression in a loop's body is for all turns of the loop at once.

What depends on the turn has the turns as its first axis (``each``). What a mask, places of a mask
or a slice of unknown length selects keeps all rows, and the mask says which count (``picked``).
What has no such form declines.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from libcst import (
    And,
    Arg,
    Assign,
    Attribute,
    AugAssign,
    BaseExpression,
    BaseStatement,
    BinaryOperation,
    BitInvert,
    BooleanOperation,
    Call,
    ClassDef,
    Comparison,
    ComparisonTarget,
    CSTNode,
    Divide,
    For,
    FunctionDef,
    IfExp,
    Index,
    Integer,
    List,
    Multiply,
    Name,
    Not,
    Slice,
    Subscript,
    SubscriptElement,
    Tuple,
    UnaryOperation,
    parse_expression,
    parse_module,
)

from graphdoctor.fixes.source.expressions import (
    asks_for_any,
    is_boolean,
    is_by_dim,
    is_integer,
    is_literal_number,
)
from graphdoctor.fixes.source.nodes import (
    ATOMS,
    Names,
    called,
    calls_in,
    index_of,
    is_in_place,
    keyword_of,
    name_set,
)
from graphdoctor.fixes.source.ranks import SCALAR, Rank, Ranks, shifted, widest
from graphdoctor.fixes.source.torch_names import ELEMENTWISE, ROWWISE_LAYERS, draws_random, words
from graphdoctor.fixes.source.tree import (
    DeclinedError,
    SourceFile,
    decline_if,
    dotted,
    find,
    holds,
    known,
    need,
)

NOT_ALIKE = "turns of the loop depend on each other in a way that has no closed form"
_SELECTED = "a selection of a selection"
_NO_FORM = "`{}` has no form for all turns of the loop at once"
_MASK_NAME = re.compile(r"mask|valid|keep")
_ALONG = words("""
    sum mean amax amin any all prod norm max min std var softmax log_softmax cumsum cumprod flip
    unsqueeze argmax argmin
""")
_KEEPING = words("softmax log_softmax cumsum cumprod flip")
_FILL = {
    "sum": "0", "mean": "0", "any": "False", "all": "True", "prod": "1",
    "amax": 'float("-inf")', "amin": 'float("inf")', "max": 'float("-inf")', "min": 'float("inf")',
}  # fmt: skip
"""What changes nothing in a reduction."""
_CASTS = words("float long int double half bool to type_as detach clone contiguous masked_fill")
_COPIES = words("clone detach contiguous")
_PARTIAL = words("exp log log2 log10 log1p sqrt rsqrt pow reciprocal acos asin tan")
_LINEAR = words("add sub neg negative clamp clip minimum maximum where")
_ZERO_AT_ZERO = words("abs pow square relu neg negative mul tanh sin")
_TRUTHS = words("logical_and logical_or logical_not isfinite isnan isinf bool eq ne lt le gt ge")
_READS = ("item", "tolist", "builtins.float", "builtins.int", "builtins.bool")


@dataclass(frozen=True)
class Picked:
    """The rows that a mask selects; ``each`` if every turn has a mask."""

    mask: str
    rank: Rank
    each: bool = False
    slots: int = 1
    """The axis of the slots, where a mask has rows and slots."""


@dataclass(frozen=True)
class Value:
    """What an expression is for all turns; ``rank`` counts the dims of one turn, all rows
    included.
    """

    text: str
    rank: Rank = SCALAR
    each: bool = False
    picked: Picked | None = None
    kind: str = ""
    """``turn`` for the loop's number, ``mask``, ``rows`` and ``slots`` for the places of a mask,
    ``count`` for the number of its rows, ``slotted`` for a sum over slots, ``module`` for what one
    returns, ``integer``, ``read`` for another number that was read."""
    is_zero: bool = False
    """Whether rows that don't count are 0."""


@dataclass(frozen=True)
class Test:
    """A condition that some turns of the loop meet, or don't."""

    value: Value
    is_met: bool = True
    filled: str = ""
    """The mask that has a row where the value is true."""

    @property
    def opposite(self) -> Test:
        """The test that the other turns meet."""
        return replace(self, is_met=not self.is_met)


class _Text(str):
    """A text in a template: ``{}`` as an operand, ``{:b}`` between commas, ``{:+}`` beside an
    operator that binds less than ``*``.
    """

    __slots__ = ()

    def __format__(self, spec: str) -> str:
        text = str(self)
        node = parse_expression(text)
        is_whole = bool(node.lpar) or isinstance(node, (*ATOMS, List))
        is_tight = isinstance(node, UnaryOperation) or (
            isinstance(node, BinaryOperation) and isinstance(node.operator, Multiply | Divide)
        )
        if spec == "b":
            return bare(text)
        return text if is_whole or (is_tight and spec == "+") else f"({text})"


def bare(text: str) -> str:
    """Drop the parentheses around a text."""
    node = parse_expression(text)
    return text[1:-1] if len(node.lpar) == 1 and not isinstance(node, Tuple) else text


def operand(text: str) -> str:
    """Put parentheses around a text if it needs them before a dot or beside an operator."""
    return f"{_Text(text)}"


def negated(text: str) -> str:
    """Return the opposite of a boolean tensor."""
    sides = re.fullmatch(r"([\w.\[\]]+) (==|!=) ([\w.]+)", text)
    if sides is not None:
        return f"{sides[1]} {'!=' if sides[2] == '==' else '=='} {sides[3]}"
    return text[1:] if text.startswith("~") else f"~{operand(text)}"


class Turns:
    """Reads expressions in a loop, and writes lines that they need."""

    def __init__(
        self, source: SourceFile, function: FunctionDef, loop: For, *, is_axis: bool
    ) -> None:
        self.source, self.function, self.loop, self.is_axis = source, function, loop, is_axis
        self.names = Names(source, function)
        self.ranks = Ranks(source, function, loop, is_after=not is_axis)
        self.bases: dict[str, BaseExpression] = {}
        self.steps: dict[str, tuple[str, Value]] = {}
        """What turns add to a variable that they read, and what it is after that."""
        self.env: dict[str, Value] = {}
        self.stored: dict[str, list[tuple[Value, tuple[Test, ...]]]] = {}
        """What items of tensors, and lists, are set to, and in which turns."""
        self.tests: tuple[Test, ...] = ()
        """What the turns meet that run the statement that is read."""
        self.span = ("", "")
        self.turn = ""
        self.lines: list[BaseStatement] = []
        self.is_dense = False
        """Whether modules run on rows that the loop leaves out."""
        self._counted: dict[str, Picked] = {}
        self.wholes: dict[str, str] = {}
        """The masks with slots, by the rows of which any is selected."""
        self._named: dict[tuple[str, str], str] = {}
        self._written = set[str]()
        self._numbered: dict[Rank, str] = {}

    def code(self, node: CSTNode) -> str:
        """Return a node as source text."""
        return self.source.code(node)

    def no_form(self, node: CSTNode) -> DeclinedError:
        """Return the error that an expression or statement can't be read."""
        return DeclinedError(_NO_FORM.format(self.source.shortened(node)))

    def emit(self, text: str) -> None:
        """Write a line."""
        self.lines += [line for line in parse_module(text).body if isinstance(line, BaseStatement)]

    def name(self, wanted: str, text: str) -> str:
        """Return a name for a text, and write the line that sets it unless it is a name."""
        if isinstance(parse_expression(text), Name):
            return text
        key = wanted, text
        if key not in self._named:
            self._named[key] = self.names.fresh(wanted)
            self.emit(f"{self._named[key]} = {text}")
        return self._named[key]

    def renamed(self, value: Value, name: str) -> Value:
        """Return a value under a name that a line sets it to."""
        if value.text in self._counted:
            self._counted[name] = self._counted[value.text]
        return replace(value, text=name)

    def varies(self, node: CSTNode) -> bool:
        """Check whether an expression depends on the turn, or on a selection."""
        return bool(name_set(node) & (self.env.keys() | self.stored.keys())) or self._selects(node)

    def _selects(self, node: CSTNode) -> bool:
        if any(self._is_places(call) for call in calls_in(node)):
            return True
        indices = [index_of(part) for part in find(node, Subscript)]
        return any(index is not None and is_boolean(index, self.source) for index in indices)

    # Expressions.

    def value(self, node: BaseExpression) -> Value:
        """Return what an expression is."""
        if not self.varies(node):
            for call in calls_in(node):
                decline_if(draws_random(called(call)), f"`{called(call)}` draws random numbers")
                decline_if(is_in_place(call), f"`{called(call)}` changes a tensor in place")
            kind = "mask" if is_boolean(node, self.source) else ""
            kind = "integer" if not kind and is_integer(node, self.source) else kind
            return Value(self.code(node), self.ranks.of(node), kind=kind)
        match node:
            case Name(value=name):
                decline_if(name not in self.env, NOT_ALIKE)
                return self.env[name]
            case Comparison(left=left, comparisons=[ComparisonTarget(comparator=right) as pair]):
                operator = self.code(pair.operator).strip()
                if operator in ("==", "!=", "<", "<=", ">", ">="):
                    return self._binary(left, operator, right, kind="mask")
            case BinaryOperation(left=left, operator=operation, right=right):
                operator = self.code(operation).strip()
                if operator != "@":
                    kind = "mask" if operator in ("&", "|", "^") else ""
                    return self._binary(left, operator, right, kind=kind)
            case BooleanOperation(left=left, operator=joint, right=right):
                parts = [self.truth(left), self.truth(right)]
                sign = "&" if isinstance(joint, And) else "|"
                return self.together(parts, f"{{}} {sign} {{}}", kind="mask")
            case UnaryOperation(operator=Not() | BitInvert(), expression=inner):
                value = self.truth(inner)
                return replace(value, text=negated(value.text))
            case UnaryOperation(expression=inner):
                return self.together([self.value(inner)], "-{}")
            case IfExp(test=test, body=yes, orelse=no):
                return self.chosen((self.test(test),), self.value(yes), self.value(no))
            case Subscript():
                return self._subscript(node)
            case Call():
                return self._call(node)
        raise self.no_form(node)

    def truth(self, node: BaseExpression) -> Value:
        """Return whether an expression is true."""
        value = self.value(node)
        if value.kind == "count":
            return self._over(self._counted[value.text], "any")
        is_mask = value.kind == "mask" or is_boolean(node, self.source)
        text = value.text if is_mask else f"{operand(value.text)}.bool()"
        return self.together([replace(value, text=text)], "{:b}", kind="mask")

    def test(self, node: BaseExpression) -> Test:
        """Return what decides a branch."""
        match node:
            case UnaryOperation(operator=Not(), expression=inner):
                return self.test(inner).opposite
            case Comparison(left=left) if (is_met := asks_for_any(node, self.source)) is not None:
                is_size = called(left) in ("numel", "nelement") and isinstance(left, Call)
                holder = self.source.receiver(left) if is_size else None
                count = self._size(holder, "0") if holder is not None else self.value(left)
                if count.kind == "count":
                    mask = self._counted[count.text]
                    return Test(self._over(mask, "any"), is_met, mask.mask)
        value, filled = self.truth(node), ""
        decline_if(value.picked is not None or value.kind == "slotted", NOT_ALIKE)
        match node:
            case Call(func=Attribute(value=mask_node, attr=Name("any")), args=[]):
                filled = self.value(mask_node).text
        # A turn has one truth.
        return Test(replace(value, rank=SCALAR), filled=filled)

    def _binary(
        self, left: BaseExpression, operator: str, right: BaseExpression, kind: str
    ) -> Value:
        step, after = self.steps.get(dotted(left) or "", ("", None))
        if after is not None and operator == "+" and self.code(right) == step:
            return after
        values = [self.value(left), self.value(right)]
        is_rows = not any(value.text.isdecimal() for value in values)
        if operator in ("/", "//", "%") and not is_literal_number(right):
            values[1] = self._harmless(values[1])
        if operator == "**" or (operator in ("*", "/") and is_rows):
            # Gradients of rows that don't count are 0, but 0 times NaN is NaN.
            raw = [at for at, value in enumerate(values) if value.kind != "module"]
            at = next((at for at in raw if values[at].picked is not None), 0)
            values[at] = self._zeroed(values[at]) if at == 0 or operator == "*" else values[at]
        is_product = operator == "*" or (operator == "/" and values[1].kind != "slotted")
        is_loose = operator in ("+", "-", "==", "!=", "<", "<=", ">", ">=")
        template = f"{{:+}} {operator} {{:+}}" if is_loose else f"{{}} {operator} {{}}"
        result = self.together(values, template, kind=kind, is_product=is_product)
        is_finite = [
            value.is_zero or value.kind == "module" or value.text.isdecimal() for value in values
        ]
        is_zero = values[0].is_zero and (operator in ("/", "**") or all(is_finite))
        is_zero |= operator == "*" and values[1].is_zero and all(is_finite)
        return replace(result, is_zero=is_zero and operator in ("*", "/", "**"))

    def _zeroed(self, value: Value) -> Value:
        """Return a value in which rows that don't count are 0."""
        if value.picked is None or value.is_zero or value.kind == "slotted":
            return value
        return replace(value, text=self.kept(value, "0"), is_zero=True)

    def _harmless(self, value: Value) -> Value:
        """Return an operand that is 1 where its result isn't used."""
        if value.kind == "count" and self.tests:
            return replace(value, text=f"{operand(value.text)}.clamp(min=1)")
        if value.picked is not None:
            return replace(value, text=self.kept(value, "1"))
        is_used = not self.tests or ".clamp(min=" in value.text
        return value if is_used else self.chosen(self.tests, value, Value("1"))

    def together(
        self, values: Sequence[Value], template: str, *, kind: str = "", is_product: bool = False
    ) -> Value:
        """Combine values that broadcast in each turn."""
        picks = {value.picked for value in values} - {None}
        decline_if(len(picks) > 1, "rows that different masks select are combined")
        kinds = [value.kind for value in values]
        is_slotted = "slotted" in kinds
        decline_if(kinds.count("slotted") > int(is_product), NOT_ALIKE)
        decline_if({"rows", "slots"}.intersection(kinds), NOT_ALIKE)
        if picks and any(value.picked is None and value.rank != SCALAR for value in values):
            values = [self._vectors(value) for value in values]
        each = any(value.each for value in values)
        # What is alike in all turns, and isn't known, is a number more often than not.
        symbols = {value.rank[0] for value in values if value.each and value.rank != SCALAR}
        ranks = [value.rank for value in values if not symbols or value.rank[0] in {"", *symbols}]
        rank = widest(*ranks)
        values = [self.unread(value) if kind != "mask" else value for value in values]
        texts = [
            self._numbers(rank, values) if value.kind == "turn" else self._widened(value, rank)
            for value in values
        ]
        kind = "slotted" if is_slotted else kind
        return Value(template.format(*map(_Text, texts)), rank, each, next(iter(picks), None), kind)

    def unread(self, value: Value) -> Value:
        """Return a number that was read without its gradient, as a read is."""
        if value.kind != "read":
            return value
        return replace(value, text=f"{operand(value.text)}.detach()", kind="")

    def _numbers(self, rank: Rank, values: Sequence[Value]) -> str:
        """Return the turns as a tensor that broadcasts beside others."""
        texts = [value.text for value in values if value.kind != "turn"]
        leading = [re.match(r"(?!torch\b)[a-z_][\w.]*", text) for text in texts]
        devices = [f"{start[0]}.device" for start in leading if start]
        devices += re.findall(r"device=([\w.]+\.device)", " ".join(texts))
        device = f", device={devices[0]}" if devices else ""
        span = ", ".join(part for part in self.span if part)
        made = Value(f"torch.arange({span}{device})", each=True)
        dims = rank if rank[0] == "" else ("?", rank[1])
        if dims not in self._numbered:
            is_first = not self._numbered
            self._numbered[dims] = self.turn if is_first else self.names.fresh(self.turn)
            self.emit(f"{self._numbered[dims]} = {self._widened(made, rank)}")
        return self._numbered[dims]

    def _widened(self, value: Value, rank: Rank) -> str:
        """Return a value's text with dims after the turns, so that it broadcasts as in one turn."""
        if not value.each or rank in (value.rank, SCALAR):
            return value.text
        if value.rank[0] == rank[0]:
            more = ", None" * (rank[1] - value.rank[1])
            return f"{operand(value.text)}[:{more}]" if more else value.text
        if value.rank != SCALAR:
            return value.text
        decline_if(rank[0] == "?", "it isn't known how many dims a tensor has")
        dims = f"{rank[0]}.dim()" + (f" - {-rank[1]}" if rank[1] < 0 else "")
        dims = f"({dims})" if rank[1] < 0 else dims
        return f"{operand(value.text)}.view(-1, *[1] * {dims})"

    def chosen(self, tests: tuple[Test, ...], yes: Value, no: Value) -> Value:
        """Return one value where all tests are met, and another elsewhere."""
        if not tests:
            return yes
        test = self.all_of(tests)
        kind = yes.kind if yes.kind == no.kind else ""
        if test.text.startswith("~"):
            test, yes, no = replace(test, text=test.text[1:]), no, yes
        return self.together([test, yes, no], "torch.where({:b}, {:b}, {:b})", kind=kind)

    def all_of(self, tests: tuple[Test, ...]) -> Value:
        """Return whether all tests are met."""
        values = [
            test.value if test.is_met else replace(test.value, text=negated(test.value.text))
            for test in tests
        ]
        template = "{:b}" if len(values) == 1 else " & ".join(["{}"] * len(values))
        return self.together(values, template, kind="mask")

    # Rows that a mask selects.

    def picked_by(self, mask: Value) -> Picked:
        """Return what a mask selects, and give it a name."""
        decline_if(mask.picked is not None, _SELECTED)
        return Picked(self.name("chosen", mask.text), mask.rank, mask.each)

    def _over(self, picked: Picked, name: str) -> Value:
        if not picked.each:
            return Value(f"{operand(picked.mask)}.{name}()")
        flat = "" if picked.rank == ("", 1) else ".flatten(1)"
        return Value(f"{operand(picked.mask)}{flat}.{name}(1)", each=True)

    def count_of(self, picked: Picked) -> Value:
        """Return how many rows a mask selects."""
        count = replace(self._over(picked, "sum"), kind="count")
        self._counted[count.text] = picked
        return count

    def mask_of(self, count: Value) -> Picked | None:
        """Return the mask whose rows a value counts."""
        return self._counted.get(count.text) if count.kind == "count" else None

    def kept(self, value: Value, fill: str) -> str:
        """Return a value in which rows that don't count are filled."""
        if value.is_zero and fill == "0":
            return value.text
        return f"torch.where({self.mask_for(value)}, {bare(value.text)}, {fill})"

    def mask_for(self, value: Value) -> str:
        """Return a value's mask, with as many dims."""
        picked = known(value.picked)
        mask, (symbol, dims) = operand(picked.mask), value.rank
        if symbol == picked.rank[0] or symbol == "?":
            more = dims - picked.rank[1] if symbol == picked.rank[0] else 1
            decline_if(more < 0, NOT_ALIKE)
            start = ":" if picked.rank == ("", 1) and not picked.each else "..."
            return f"{mask}[{start}{', None' * more}]" if more else picked.mask
        decline_if(not symbol, NOT_ALIKE)
        more = picked.rank[1] - dims
        rows = f"({picked.rank[0]}.dim() + {more})" if picked.rank[0] else str(more)
        beyond = f"{symbol}.dim() - {rows}"
        return f"{mask}[(..., *[None] * ({beyond}))]"

    def _is_places(self, call: Call) -> bool:
        given = self.source.receiver(call)
        plain = [arg for arg in self.source.given_to(call) if not arg.keyword]
        return called(call) in ("nonzero", "where", "argwhere") and given is not None and not plain

    def places(self, node: BaseExpression) -> Value | None:
        """Return the mask whose places an expression lists: ``torch.nonzero(mask).squeeze(-1)``."""
        match node:
            case Call() if self._is_places(node):
                return replace(self.truth(known(self.source.receiver(node))), kind="rows")
            case Call(func=Attribute(value=inner, attr=Name("squeeze" | "flatten" | "view"))):
                return self.places(inner)
            case Subscript(value=Call() as inner) if self.code(index_of(node) or node) == "0":
                # Of one tensor of all places, it's the first one.
                return self.places(inner) if is_by_dim(inner, self.source) else None
        return None

    # Indices.

    def _first_place(self, node: BaseExpression, *, is_read: bool = False) -> Value | None:
        """Return the first place where a mask with one dim is true: ``mask.nonzero()[0, 0]``."""
        inner, items = node, list[str]()
        while isinstance(inner, Subscript):
            items = [*(self.code(item.slice) for item in inner.slice), *items]
            inner = inner.value
        is_first = items == ["0", "0"] or (is_read and items == ["0"])
        if not is_first or not isinstance(inner, Call) or not self._is_places(inner):
            return None
        asked = known(self.source.receiver(inner))
        mask = self.truth(asked)
        is_of_rows = isinstance(asked, Comparison) and all(map(self.varies, asked.children))
        decline_if(mask.picked is not None or is_of_rows, _SELECTED)
        text = f"{operand(mask.text)}.int().argmax({int(mask.each)})"
        return Value(text, each=mask.each, kind="integer")

    def _subscript(self, node: Subscript) -> Value:
        if (first := self._first_place(node)) is not None:
            return first
        places = self.places(node)
        if places is not None:
            return places
        items = list(node.slice)
        match node.value:
            case Attribute(value=holder, attr=Name("shape")) if self.varies(holder):
                return self._size(holder, self.code(items[0].slice))
        is_before = dotted(node.value) in self.stored or not self.varies(node.value)
        if is_before and self.is_turn(items[0]):
            return self.item(self.of_turn(node.value, items[0]), items[1:])
        if is_before and self.is_turn(items[-1]) and self.is_axis:
            # ``x[:, i]``
            whole = [self.code(item.slice) for item in items[:-1]]
            decline_if(set(whole) != {":"} or holds(items[-1], BinaryOperation), NOT_ALIKE)
            text = operand(self.code(node.value))
            if self.span[0] or not self._is_whole(node.value):
                text += f"[{', '.join([*whole, ':'.join(self.span)])}]"
            rank = shifted(self.ranks.of(node.value), -1)
            return Value(f"{text}.movedim({len(whole)}, 0)", rank, each=True)
        return self.item(self.value(node.value), items)

    def is_turn(self, item: SubscriptElement) -> bool:
        """Check for an index by the loop's number, or some turns before or after."""
        match item.slice:
            case Index(value=BinaryOperation(left=Name(value=name), right=Integer())):
                return name == self.turn
            case Index(value=Name(value=name)):
                return name == self.turn != ""
        return False

    def of_turn(self, base: BaseExpression, item: SubscriptElement) -> Value:
        """Return ``x[i]``, or ``x[i + 1]``."""
        name = dotted(base) or ""
        index = item.slice.value if isinstance(item.slice, Index) else None
        if name in self.stored:
            decline_if(not isinstance(index, Name), NOT_ALIKE)
            return self.held(name, self.before(base))
        start, stop = self.span
        if isinstance(index, BinaryOperation):
            by = self.code(index.operator).strip() + self.code(index.right)
            decline_if(by[0] not in "+-", NOT_ALIKE)
            total = int(start or 0) + int(by) if (start or "0").isdigit() else -1
            decline_if(total < 0, NOT_ALIKE)
            start, stop = str(total or ""), f"{stop} {by[0]} {by[1:]}"
        text = self.code(base)
        if (start, stop) != ("", self.span[1]) or not self._is_whole(base):
            text = f"{operand(text)}[{start}:{stop}]"
        return Value(text, shifted(self.ranks.of(base), -1), each=True)

    def before(self, base: BaseExpression) -> Value:
        """Return what turns have of a tensor before the loop."""
        part = "" if not self.span[0] and self._is_whole(base) else f"[{':'.join(self.span)}]"
        return Value(self.code(base) + part, shifted(self.ranks.of(base), -1), each=True)

    def _is_whole(self, base: BaseExpression) -> bool:
        """Check whether turns are all that a tensor has, as far as names show."""
        if isinstance(parse_expression(self.span[1]), Name | Attribute | Call | Subscript):
            return True
        made = self.source.set_values(base) if isinstance(base, Name) else []
        return any(self.span[1] in re.split(r"[(),] ?", self.code(value)) for value in made)

    def held(self, name: str, base: Value | None) -> Value:
        """Return what turns have of a tensor or list by now."""
        value = base
        for later, tests in self.stored.get(name, ()):
            decline_if(tests and value is None, "some turns add nothing to a list")
            value = self.chosen(tests, later, value) if tests and value is not None else later
        return known(value, NOT_ALIKE)

    def index(self, item: SubscriptElement) -> Value | None:
        """Return what a turn's index is; None for slices and what is the same in all turns."""
        if not isinstance(item.slice, Index):
            return None
        if not self.varies(item.slice) and not is_boolean(item.slice.value, self.source):
            return None
        value = self.places(item.slice.value) or self.value(item.slice.value)
        if value.kind in ("rows", "slots", "turn", "mask"):
            return value
        node = item.slice.value
        while isinstance(node, Subscript):
            node = node.value
        is_mask = is_boolean(node, self.source) or _MASK_NAME.search(dotted(node) or "")
        return replace(value, kind="mask") if is_mask else value

    def _size(self, holder: BaseExpression, dim: str) -> Value:
        """Return ``x.shape[0]`` of something in the loop."""
        value = self.value(holder)
        decline_if(not re.fullmatch(r"-?\d", dim) or value.kind in ("slots", "turn"), NOT_ALIKE)
        picked = value.picked
        if value.kind == "rows" and picked is None:
            picked = self.picked_by(value)
        if picked is not None and dim == "0":
            return self.count_of(picked)
        axes = int(value.each and not dim.startswith("-"))
        return Value(f"{operand(value.text)}.shape[{int(dim) + axes}]", kind="integer")

    def item(self, value: Value, items: Sequence[SubscriptElement]) -> Value:
        """Index what a turn has."""
        if not items:
            return value
        first, rest = items[0], items[1:]
        match first.slice:
            case Slice(step=None) if self.varies(first):
                return self._tail(self.ragged(value, [first]), rest, axes=1)
        index = self.index(first)
        decline_if(value.kind in ("rows", "slots", "turn"), NOT_ALIKE)
        if index is None:
            is_rows = value.picked is not None and self.code(first.slice) not in (":", "...")
            decline_if(is_rows, _SELECTED)
            return self._tail(value, items)
        decline_if(value.picked is not None, _SELECTED)
        if index.kind in ("rows", "mask"):
            return self._selected(value, index, rest)
        is_number = index.kind in ("", "integer", "read")
        decline_if(not index.each or not is_number, NOT_ALIKE)
        if not value.each:
            dims = index.rank[1] if index.rank[0] == "" else 0
            text = f"{operand(value.text)}[{index.text}]"
            return self._tail(
                Value(text, shifted(value.rank, dims - 1), each=True), rest, axes=dims
            )
        dims = index.rank[1] if index.rank[0] == "" else 1
        turns = f"torch.arange(len({value.text}), device={operand(value.text)}.device)"
        turns += f"[:{', None' * dims}]" if dims else ""
        text = f"{operand(value.text)}[{turns}, {index.text}]"
        return self._tail(Value(text, shifted(value.rank, dims - 1), each=True), rest, axes=dims)

    def _tail(self, value: Value, items: Sequence[SubscriptElement], axes: int = 0) -> Value:
        """Index further dims by what is the same in all turns."""
        if not items:
            return value
        decline_if(any(map(self.varies, items)), NOT_ALIKE)
        axes += value.each or (value.picked is not None and value.picked.each)
        text = ", ".join([*[":"] * axes, *(self.code(item.slice) for item in items)])
        rank = self.ranks.indexed(value.rank, *items)
        return replace(value, text=f"{operand(value.text)}[{text}]", rank=rank)

    def _selected(self, value: Value, index: Value, rest: Sequence[SubscriptElement]) -> Value:
        """Index by a mask, or by the places where it's true."""
        if index.picked is None:
            picked = self.picked_by(index)
            dims = picked.rank[1] if picked.rank[0] == "" else 1
            return self._tail(replace(value, picked=picked), rest, axes=dims)
        rows = self.rows_of(index.picked)
        slots = self.index(rest[0]) if rest else None
        if slots is None:
            return self._tail(replace(value, picked=rows), rest, axes=1)
        decline_if(slots.kind != "slots" or slots.picked != index.picked, NOT_ALIKE)
        axis = index.picked.slots
        weights = value.text if axis else f"{operand(value.text)}.T"
        text = f"torch.where({index.picked.mask}, {weights}, 0).sum({axis})"
        summed = Value(text, shifted(value.rank, -1), picked=rows, kind="slotted")
        return self._tail(summed, rest[1:], axes=1)

    def rows_of(self, picked: Picked) -> Picked:
        """Return the rows of a mask of which any slot is selected."""
        text = self.name("taken", f"{operand(picked.mask)}.any({picked.slots})")
        self.wholes[text] = picked.mask
        return Picked(text, shifted(picked.rank, -1), picked.each)

    def ragged(self, value: Value, items: Sequence[SubscriptElement]) -> Value:
        """Slice the dims of a turn by bounds that tensors give; other dims are whole."""
        decline_if(value.picked is not None, _SELECTED)
        text, parts = operand(value.text), list[Value]()
        key = f"{', '.join(map(self.code, items))} {value.each}"
        is_new = ("mask", key) not in self._named
        for at, item in enumerate(items):
            bounds = need(item.slice, Slice, NOT_ALIKE)
            decline_if(bounds.step is not None, NOT_ALIKE)
            pairs = ((bounds.lower, ">="), (bounds.upper, "<"))
            compared = [(bound, operator) for bound, operator in pairs if bound is not None]
            made = f"torch.arange({text}.shape[{at + value.each}], device={text}.device)"
            if len(compared) > 1 and is_new:
                made = self.name("places", made)
            more = len(items) - 1 - at
            made += f"[:{', None' * more}]" if more else ""
            for bound, operator in compared:
                # What bounds a slice is one number.
                pair = [Value(made, ("", len(items))), replace(self.value(bound), rank=SCALAR)]
                parts.append(self.together(pair, f"{{}} {operator} {{:+}}"))
        if is_new:
            mask = self.together(parts, " & ".join(["{}"] * len(parts)) if parts[1:] else "{:b}")
            self._named["mask", key] = self.name("mask", mask.text)
        each = any(part.each for part in parts)
        return replace(value, picked=Picked(self._named["mask", key], ("", len(items)), each))

    # Calls.

    def _call(self, call: Call) -> Value:
        source, name = self.source, called(call)
        decline_if(draws_random(name), f"`{name}` draws random numbers")
        decline_if(is_in_place(call), f"`{name}` changes a tensor in place")
        path, args = source.dotted_name(call), [arg.value for arg in call.args]
        if any(arg.star for arg in call.args) or (
            not args and not isinstance(call.func, Attribute)
        ):
            raise self.no_form(call)
        if path == "builtins.len":
            return self._size(args[0], "0")
        if path in ("builtins.max", "builtins.min") and len(args) == 2:
            return self._limited(path.endswith("max"), args[0], args[1])
        if (places := self.places(call)) is not None:
            return places
        is_held = (dotted(call.func) or "self").startswith("self.") or not isinstance(
            call.func, Attribute
        )
        if not path and is_held and len(args) == 1:
            return self._layer(call, args[0])
        is_builtin = path.startswith("builtins.") and len(args) == 1
        given = args[0] if is_builtin else source.receiver(call)
        rest = [] if is_builtin else list(source.given_to(call))
        if given is None or (path and not path.startswith(("torch.", "builtins."))):
            raise self.no_form(call)
        is_read = (path or name) in _READS
        first = self._first_place(given, is_read=True) if is_read else None
        value = first or self.value(given)
        if is_read:
            return self._number(value, name, call)
        if value.kind in ("rows", "slots") or (value.kind == "turn" and name not in ELEMENTWISE):
            raise self.no_form(call)
        if name in ELEMENTWISE | _CASTS or path == "torch.where":
            return self._elementwise(call, value, rest)
        if name in _ALONG:
            return self._along(call, value, rest)
        raise self.no_form(call)

    def _elementwise(self, call: Call, value: Value, rest: Sequence[Arg]) -> Value:
        name = called(call)
        power = rest[0].value if name == "pow" and rest else None
        is_total = isinstance(power, Integer)
        if name in _PARTIAL and not is_total:
            value = self._harmless(value)
        elif name in ELEMENTWISE - _LINEAR:
            value = self._zeroed(value)
        values = [value, *(self.value(arg.value) for arg in rest)]
        shown = [f"{key}={{:b}}" if (key := keyword_of(arg)) else "{:b}" for arg in rest]
        if self.source.dotted_name(call):
            template = f"{self.code(call.func)}({', '.join(['{:b}', *shown])})"
        else:
            template = f"{{}}.{name}({', '.join(shown)})"
        is_cast = name in _CASTS and name != "bool"
        kind = "mask" if name in _TRUTHS else "integer" if name in ("long", "int") else ""
        kind = value.kind if name in _COPIES and value.kind == "mask" else kind
        result = self.together(values, template, kind=kind, is_product=is_cast)
        return replace(result, is_zero=value.is_zero and name in _ZERO_AT_ZERO | _CASTS)

    def _is_place(self, node: CSTNode) -> bool:
        """Check whether a number is an index or a bound of one, so that it's an integer."""
        kept = self.source.around(node, Assign, AugAssign)
        targets = [kept.target] if isinstance(kept, AugAssign) else []
        targets += [part.target for part in kept.targets] if isinstance(kept, Assign) else []
        name = dotted(targets[0] if targets else node)
        uses = [part for part in find(self.loop.body, Name) if part.value == name]
        return any(
            isinstance(parent, Slice | Index)
            for use in (node, *uses)
            for parent in itertools.takewhile(
                lambda parent: isinstance(parent, BaseExpression | Slice | Index | Arg),
                self.source.parents(use),
            )
        )

    def _number(self, value: Value, name: str, node: CSTNode) -> Value:
        """Return a number that is read, as the tensor that it is in each turn."""
        decline_if(value.kind in ("rows", "slots") or value.picked is not None, NOT_ALIKE)
        is_cast = name == "int" and value.kind not in ("turn", "count", "mask", "integer")
        text = f"{operand(value.text)}.long()" if is_cast else value.text
        kind = value.kind or ("integer" if self._is_place(node) else "read")
        kind = "integer" if is_cast else kind
        return replace(value, text=text, rank=SCALAR if name != "tolist" else value.rank, kind=kind)

    def _limited(self, is_max: bool, left: BaseExpression, right: BaseExpression) -> Value:
        """Return Python's ``max`` or ``min`` of two numbers."""
        values = [self.value(left), self.value(right)]
        values = values if self.varies(left) else values[::-1]
        return self.together(values, f"{{}}.clamp({'min' if is_max else 'max'}={{:b}})")

    def _layer(self, call: Call, argument: BaseExpression) -> Value:
        """Apply a module that treats each row by itself."""
        value = self._vectors(self.value(argument))
        decline_if(value.kind in ("rows", "slots", "turn", "slotted"), NOT_ALIKE)
        reason = mixes_rows(self.source, self.held_by(call.func))
        decline_if(reason, f"`{self.code(call.func)}` {reason}")
        self.is_dense = self.is_dense or value.picked is not None
        text = self.kept(value, "0") if value.picked is not None else bare(value.text)
        text = f"{self.code(call.func)}({text})"
        return replace(value, text=text, kind="module", is_zero=False)

    def held_by(self, func: BaseExpression) -> BaseExpression:
        """Return what holds a module that is called."""
        if isinstance(func, Subscript):
            return func.value
        targets: list[CSTNode] = [self.loop.target]
        holders = [self.loop.iter]
        match self.loop:
            case For(target=Tuple(elements=parts), iter=Call(args=args) as over):
                targets = [part.value for part in parts]
                holders = [arg.value for arg in args]
                holders = [over, *holders] if called(over) == "enumerate" else holders
        for target, holder in zip(targets, holders, strict=False):
            if isinstance(target, Name) and dotted(target) == dotted(func):
                return holder
        values = self.source.set_values(func) if isinstance(func, Name) else []
        return values[0].value if len(values) == 1 and isinstance(values[0], Subscript) else func

    def _along(self, call: Call, value: Value, rest: Sequence[Arg]) -> Value:
        """Reduce, or compute along a dim."""
        name = called(call)
        keywords = {keyword_of(arg) or "dim" * (not at): arg.value for at, arg in enumerate(rest)}
        dim = keywords.pop("dim", None)
        if "" in keywords or any(map(self.varies, keywords.values())):
            raise self.no_form(call)
        more = "".join(f", {key}={self.code(part)}" for key, part in keywords.items())
        if dim is None:
            is_needed = name in _KEEPING or name == "unsqueeze" or more
            if is_needed:
                raise self.no_form(call)
            return self._whole(call, value, name)
        texts = re.fullmatch(r"[(\[]?(-?\d+(?:, *-?\d+)*),?[)\]]?", self.code(dim))
        if texts is None:
            raise self.no_form(call)
        dims = [int(text) for text in texts[1].split(",")]
        if dims != [0] and name != "unsqueeze":
            value = self._vectors(value)
        if value.picked is not None and not self._is_beyond(value, name, dims):
            if dims != [0] or value.kind == "slotted":
                raise self.no_form(call)
            return self._rows_reduced(call, value, name, more)
        if (value.kind == "slotted" and name != "unsqueeze") or name in ("max", "min"):
            raise self.no_form(call)
        axes = int(value.each or (value.picked is not None and value.picked.each))
        moved = [number if number < 0 else number + axes for number in dims]
        shown = str(moved[0]) if len(moved) == 1 else str(tuple(moved))
        is_kept = name in _KEEPING or "keepdim=True" in more
        by = 1 if name == "unsqueeze" else 0 if is_kept else -len(dims)
        key = "dim=" if name == "norm" else ""
        text = f"{operand(value.text)}.{name}({key}{shown}{more})"
        is_zero = value.is_zero and name not in ("softmax", "log_softmax")
        return replace(value, text=text, rank=shifted(value.rank, by), is_zero=is_zero)

    def _is_beyond(self, value: Value, name: str, dims: Sequence[int]) -> bool:
        """Check that dims come after those of the rows."""
        picked = known(value.picked)
        more = value.rank[1] - picked.rank[1] if value.rank[0] == picked.rank[0] else 1
        more += name == "unsqueeze"
        return all(number > 0 if number >= 0 else -number <= more for number in dims)

    def _vectors(self, value: Value) -> Value:
        """Take rows for vectors if nothing shows what they are."""
        picked = value.picked
        if picked is None or value.rank[0] == picked.rank[0]:
            return value
        return replace(value, rank=shifted(picked.rank, 1))

    def _rows_reduced(self, call: Call, value: Value, name: str, more: str) -> Value:
        picked = known(value.picked)
        each = picked.each or value.each
        value = self._vectors(value)
        if name not in _FILL or name in ("max", "min"):
            raise self.no_form(call)
        rank = shifted(value.rank, 0 if "keepdim=True" in more else -1)
        reduction = "sum" if name == "mean" else name
        text = f"{operand(self.kept(value, _FILL[name]))}.{reduction}({int(each)}{more})"
        total = Value(text, rank, each)
        if name != "mean":
            return total
        return self.together([total, self._harmless(self.count_of(picked))], "{} / {}")

    def _whole(self, call: Call, value: Value, name: str) -> Value:
        """Reduce all that a turn has to one number."""
        given = self.source.receiver(call)
        is_mask = value.kind == "mask" or (given is not None and is_boolean(given, self.source))
        picked, each = value.picked, value.each
        if picked is None and is_mask and name in ("sum", "any"):
            mask = Picked(value.text, value.rank, each)
            return (
                self.count_of(mask)
                if name == "sum"
                else replace(self._over(mask, "any"), kind="mask")
            )
        text, reduction = operand(value.text), name
        if picked is not None:
            if name not in _FILL or value.kind == "slotted":
                raise self.no_form(call)
            each = each or picked.each
            text = operand(self.kept(value, _FILL[name]))
            reduction = "sum" if name == "mean" else name
        if each:
            reduction = {"max": "amax", "min": "amin"}.get(reduction, reduction)
            flat = "" if value.rank == ("", 1) else ".flatten(1)"
            end = f"{flat}.{reduction}({'dim=' if reduction == 'norm' else ''}1)"
        else:
            flat, end = "", f".{reduction}()"
        total = Value(f"{text}{end}", each=each)
        if picked is None or name != "mean":
            return total
        if value.rank == picked.rank:
            return self.together([total, self._harmless(self.count_of(picked))], "{} / {}")
        wide = f"{operand(self.mask_for(value))}.expand_as({text}){end}"
        return self.together(
            [total, Value(wide, each=each)], "{} / {}.clamp(min=1)" if self.tests else "{} / {}"
        )


def mixes_rows(source: SourceFile, module: BaseExpression) -> str:
    """Say why a module can't run on more rows without changing those that it ran on; an empty
    string if it can.
    """
    values = source.bound_to(module) if isinstance(module, Name | Attribute) else []
    classes = {node.name.value: node for node in find(source.tree, ClassDef)}
    waiting: list[CSTNode] = [value for value in values if value is not None]
    if not waiting or len(waiting) != len(values):
        return "isn't a module whose layers are known"
    seen = set[str]()
    while waiting:
        for call in calls_in(waiting.pop()):
            name, path = called(call), source.dotted_name(call)
            if name in classes and name not in seen:
                waiting.append(classes[name])
            seen.add(name)
            if draws_random(name):
                return f"contains `{name}`, which draws random numbers"
            is_layer = path.startswith("torch.nn.") and not path.startswith("torch.nn.functional.")
            if is_layer and path not in ROWWISE_LAYERS:
                return f"contains `{name}`, which may mix rows"
    return ""
