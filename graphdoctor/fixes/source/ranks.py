"""How many dims tensors have at a loop, as far as the lines above it show.

A rank is a number, or that of a variable and some more or fewer: ``x[0]`` has one dim less than
``x``.
"""

from __future__ import annotations

import re

from libcst import (
    Assign,
    Attribute,
    BaseNumber,
    BinaryOperation,
    Call,
    Comparison,
    ComparisonTarget,
    CSTNode,
    For,
    FunctionDef,
    Index,
    Name,
    Slice,
    Subscript,
    SubscriptElement,
    Tuple,
    UnaryOperation,
)

from graphdoctor.fixes.source.nodes import called, keyword_of
from graphdoctor.fixes.source.torch_names import ELEMENTWISE, ROWWISE_LAYERS, words
from graphdoctor.fixes.source.tree import SourceFile, dotted, find

Rank = tuple[str, int]
"""A variable, if its dims count, and how many more."""

SCALAR: Rank = ("", 0)
UNKNOWN: Rank = ("?", 0)

_SAME = ELEMENTWISE | words("""
    float long int double half bool to type_as detach clone contiguous softmax log_softmax cumsum
    cumprod flip roll zeros_like ones_like empty_like full_like rand_like normalize topk sort where
    masked_fill t permute transpose swapaxes
""")
_REDUCING = words("sum mean amax amin any all prod norm max min argmax argmin std var logsumexp")
_MORE = {"unsqueeze": 1, "one_hot": 1, "squeeze": -1}
_NUMBERS = (
    r"\b{0}(\.tolist\(|\[\w+\]\.item\()|(float|int|bool)\({0}\[\w+\]\)"
    r"|{0}\[:, None\] [=!]= {0}\[None(, :)?\]"
    r"|\({0} == \w+\)\.nonzero|(if|not) {0}\[\w+\]( [<>=]|:)|\[\(?{0} == \w+\)?\]|nonzero\({0} == "
)
_SIZED = re.compile(r"(?:torch|.*)\.(?:new_)?(?:zeros|ones|empty|rand|randn|full|view|reshape)$")


def shifted(rank: Rank, by: int) -> Rank:
    """Return a rank with more dims."""
    return rank[0], rank[1] + by


def widest(*ranks: Rank) -> Rank:
    """Return the rank of what values broadcast to."""
    return max(ranks, key=lambda rank: (rank != SCALAR, rank[0] == "", rank[0] != "?", rank[1]))


class Ranks:
    """Ranks of what the lines of a function above a position set."""

    def __init__(
        self, source: SourceFile, function: FunctionDef, at: CSTNode, *, is_after: bool
    ) -> None:
        self._source, self._function = source, function
        self._attributes = set[str]()
        """Those whose ranks are being found."""
        end = source.position(at).end
        self._at = (end.line, end.column) if is_after else source.start(at)

    def of(self, node: CSTNode | None, before: tuple[int, int] | None = None) -> Rank:
        """Return the rank of an expression."""
        before = before or self._at
        match node:
            case Name(value=name):
                return self._of_name(name, before)
            case (
                BinaryOperation(left=left, right=right)
                | Comparison(left=left, comparisons=[ComparisonTarget(comparator=right)])
            ):
                return widest(self.of(left, before), self.of(right, before))
            case UnaryOperation(expression=inner):
                return self.of(inner, before)
            case Subscript(value=base, slice=items):
                return self.indexed(self.of(base, before), *items, before=before)
            case Attribute():
                values = self._source.bound_to(node)
                if len(values) == 1 and self._is_number(values[0]):
                    return SCALAR
                code = self._source.code(node)
                # What an attribute is set to may read it.
                if len(values) != 1 or code in self._attributes:
                    return code, 0
                self._attributes.add(code)
                rank = self.of(values[0], before)
                self._attributes.remove(code)
                return rank if rank[0] == "" else (code, 0)
            case Call():
                return self._of_call(node, before)
        code = self._source.code(node) if node is not None else "?"
        return SCALAR if re.fullmatch(r"\d[\d.e]*|True|False", code) else UNKNOWN

    def _is_number(self, node: CSTNode | None) -> bool:
        """Check for a parameter that is a number by default."""
        parameter = self._source.parameter(node) if isinstance(node, Name) else None
        return parameter is not None and isinstance(parameter.default, BaseNumber)

    def indexed(
        self, rank: Rank, *items: SubscriptElement, before: tuple[int, int] | None = None
    ) -> Rank:
        """Return the rank of what some indices give."""
        for item in items:
            match item.slice:
                case Index(value=Name(value="None")):
                    rank = shifted(rank, 1)
                case Index(value=value) if self.of(value, before) == SCALAR:
                    rank = shifted(rank, -1)
                case Index(value=value) if self._source.code(value) != "...":
                    return UNKNOWN
                case Slice():
                    pass
        return rank

    def _of_name(self, name: str, before: tuple[int, int]) -> Rank:
        start, rank = (0, 0), self._used_as(name)
        for loop in find(self._function.body, For):
            numbers = (
                loop.target.elements[0].value if isinstance(loop.target, Tuple) else loop.target
            )
            if called(loop.iter) in ("range", "enumerate") and dotted(numbers) == name:
                return SCALAR
        for line in find(self._function.body, Assign):
            at = self._source.start(line)
            if not start < at < before:
                continue
            for target in line.targets:
                match target.target, line.value:
                    case Name(value=other), value if other == name:
                        start, rank = at, self.of(value, at)
                    case Tuple(elements=parts), value:
                        if re.fullmatch(rf"{name}\.(shape|size\(\))", self._source.code(value)):
                            start, rank = at, ("", len(parts))
                        if name in [dotted(part.value) for part in parts]:
                            start, rank = at, self.of(value, at)
        return (name, 0) if rank == UNKNOWN else rank

    def _used_as(self, name: str) -> Rank:
        """Return the rank that the uses of a variable show: of numbers that are read one by one, of
        a mask's rows, or of sizes that something is made with.
        """
        code = self._source.code(self._function)
        if re.search(_NUMBERS.format(name), code):
            return ("", 1)
        masks = re.findall(rf"(\w+) = \(?{name} == \w+\)?$", code, re.MULTILINE)
        if any(f"[{mask}]" in code for mask in masks):
            return ("", 1)
        made = "".join(re.findall(r"(?:zeros|ones|empty|full)\(.*", code))
        sizes = re.findall(rf"\b{name}\.(?:size\(|shape\[)(\d)", made)
        return ("", 1 + int(max(sizes))) if sizes and max(sizes) > "0" else UNKNOWN

    def _of_call(self, call: Call, before: tuple[int, int]) -> Rank:
        source, name = self._source, called(call)
        sizes = [arg.value for arg in call.args if not arg.keyword]
        if any(arg.star for arg in call.args):
            return UNKNOWN
        if _SIZED.match(source.code(call.func)) and sizes:
            match sizes[0]:
                case Tuple(elements=parts):
                    return ("", len(parts))
                case Attribute(value=base, attr=Name("shape")):
                    return self.of(base, before)
            return ("", len(sizes))
        path = source.dotted_name(call)
        if name in ("Parameter", "Buffer", "register_buffer") and sizes:
            return self.of(sizes[0], before)
        is_vector = path in ("torch.arange", "torch.randperm")
        if is_vector or (path == "torch.unique" and "dim=" not in source.code(call)):
            return ("", 1)
        made = source.bound_to(call.func) if isinstance(call.func, Attribute) else []
        layers = [source.dotted_name(value) for value in made if value is not None]
        if layers and len(layers) == len(made):
            is_known = all(layer in ROWWISE_LAYERS for layer in layers) and len(sizes) == 1
            more = int(layers[0].endswith("Embedding"))
            return shifted(self.of(sizes[0], before), more) if is_known else UNKNOWN
        given = source.receiver(call)
        if given is None or dotted(call.func) == f"self.{name}":
            return UNKNOWN
        rank, rest = self.of(given, before), source.given_to(call)
        if name in _REDUCING and not rest:
            return SCALAR
        is_kept = any(keyword_of(arg) == "keepdim" for arg in rest)
        if name in _SAME or (name in _REDUCING and is_kept):
            return rank
        if name == "flatten" and (not rest or source.code(rest[0].value) == "1"):
            return ("", 1 + len(rest))
        by = -1 if name in _REDUCING else _MORE.get(name)
        return shifted(rank, by) if by is not None else UNKNOWN
