"""Chooses one of some values with ``torch.where``: what each way gives, one by one if they are in
displays, and each harmless where another one is taken.
"""

from __future__ import annotations

import ast
import ctypes
from collections.abc import Sequence
from typing import cast

from libcst import (
    Arg,
    Attribute,
    BaseExpression,
    BinaryOperation,
    Call,
    CSTNode,
    Dict,
    DictElement,
    Divide,
    Element,
    List,
    ListComp,
    Module,
    Name,
    SimpleString,
    Slice,
    Subscript,
    Tuple,
    matchers,
    parse_expression,
)

from graphdoctor.fixes.source.expressions import guarded, is_literal_number, refuse_unless_tensor
from graphdoctor.fixes.source.nodes import calls_in, method_call, where
from graphdoctor.fixes.source.torch_names import REDUCED
from graphdoctor.fixes.source.tree import SourceFile, decline_if, dotted, need

Values = Sequence[BaseExpression]


def columns_of(values: Values) -> list[Values]:
    """Return the values to choose from: of several at once, such as ``return a, b``, those at each
    place that differ.
    """
    if len(values) == 1:
        return [values]
    if (rows := rows_of(values)) is not None:
        return [rows]
    parts = [parts_of(value) for value in values]
    if any(keys is None or keys != parts[0][0] for keys, _ in parts):
        return [values]
    columns = zip(*(inner for _, inner in parts), strict=True)
    return [column for column in columns if not _is_same(column)]


def rows_of(values: Values) -> Values | None:
    """Return what is chosen for each ``row`` of ``[f(row) for row in rows]`` or of ``rows`` itself;
    None if it's no such.
    """
    made = [value for value in values if isinstance(value, ListComp)]
    if not made:
        return None
    first = made[0].for_in
    is_plain = isinstance(first.target, Name) and not (
        first.ifs or first.inner_for_in or first.asynchronous
    )
    if not is_plain or any(not comprehension.for_in.deep_equals(first) for comprehension in made):
        return None
    parts = [
        value.elt if isinstance(value, ListComp) else first.target
        for value in values
        if value in made or value.deep_equals(first.iter)
    ]
    return cast("Values", parts) if len(parts) == len(values) else None


def parts_of(value: BaseExpression) -> tuple[tuple[str, ...] | None, Values]:
    """Return what tells displays apart whose parts can be chosen one by one, None for anything
    else; and the parts.
    """
    match value:
        case Tuple(elements=elements) | List(elements=elements):
            parts = [element.value for element in elements if isinstance(element, Element)]
            traits = (type(value).__name__, str(len(parts)))
            return traits if len(parts) == len(elements) else None, parts
        case Dict(elements=elements):
            pairs = [element for element in elements if isinstance(element, DictElement)]
            keys = [pair.key.value for pair in pairs if isinstance(pair.key, SimpleString)]
            is_plain = len(keys) == len(elements)
            return ("Dict", *keys) if is_plain else None, [pair.value for pair in pairs]
    return None, []


def _is_same(values: Values) -> bool:
    return all(value.deep_equals(values[0]) for value in values[1:])


def choose_each(conditions: Values, values: Values, columns: Sequence[Values]) -> BaseExpression:
    """Choose values, one by one if they are in displays and differ."""
    if _is_same(values):
        return values[0].deep_clone()
    if [*columns] == [values]:
        return choose(conditions, values)
    if rows_of(values) is not None:
        whole = next(value for value in values if isinstance(value, ListComp))
        return whole.deep_clone().with_changes(elt=choose(conditions, columns[0]))
    display = values[-1].deep_clone()
    assert isinstance(display, Tuple | List | Dict)  # nothing else has columns
    rows = zip(*(parts_of(value)[1] for value in values), strict=True)
    chosen = [part[0].deep_clone() if _is_same(part) else choose(conditions, part) for part in rows]
    parts = zip(display.elements, chosen, strict=True)
    return display.with_changes(elements=[part.with_changes(value=value) for part, value in parts])


def choose(conditions: Values, values: Values) -> BaseExpression:
    """Choose the value of the first condition that is true, or the last one.

    Numbers that are read from tensors are chosen among these: what leaves is a number still.
    """
    reads = {name for value in values if (name := _read_by(value))}
    if len(reads) == 1 and all(map(_is_numeric, values)):
        [name] = reads
        chosen = choose(conditions, _unread(values))
        return method_call(chosen, name) if name == "item" else Call(Name(name), [Arg(chosen)])
    safe = [needed(value, conditions, at) for at, value in enumerate(values)]
    chosen = safe.pop()
    match values[0], safe:
        case BinaryOperation(right=before), [BinaryOperation(operator=Divide()) as divided]:
            # Divided by 1, it is what it was.
            if divided.left.deep_equals(chosen) and not divided.right.deep_equals(before):
                return divided.deep_clone()
    pairs = list(zip(conditions, safe, strict=True))
    for at, (condition, value) in reversed(list(enumerate(pairs))):
        if at + 1 < len(safe) or not value.deep_equals(chosen):
            chosen = where(condition, value, chosen)
    return chosen


def _read_by(value: BaseExpression) -> str:
    """Return what reads a number from a tensor: ``item``, or a cast; nothing if it isn't read."""
    match value:
        case Call(func=Attribute(attr=Name("item")), args=[]):
            return "item"
        case Call(func=Name("int" | "float" as name), args=[Arg(keyword=None, star="")]):
            return name
    return ""


def _is_numeric(value: BaseExpression) -> bool:
    is_read = is_literal_number(value) or isinstance(value, Name | Attribute)
    return is_read or bool(_read_by(value))


def _unread(values: Values) -> Values:
    """Return tensors in place of ``x.item()``, in float64 beside a number that has more digits than
    a float32.
    """
    numbers = [
        float(ast.literal_eval(Module([]).code_for_node(value)))
        for value in values
        if is_literal_number(value)
    ]
    is_short = all(ctypes.c_float(number).value == number for number in numbers)
    tensors = []
    for value in values:
        match value:
            case Call(func=Attribute(value=tensor), args=[]) | Call(args=[Arg(value=tensor)]):
                tensors.append(tensor if is_short else method_call(tensor, "double"))
            case _:
                tensors.append(value)
    return tensors


def needed(value: BaseExpression, conditions: Values, at: int) -> BaseExpression:
    """Write the value of a branch so that it's harmless where another one is taken."""
    for condition in conditions[at : at + 1]:
        value = guarded(value, condition, is_if=True)
    for condition in reversed(conditions[:at]):
        value = guarded(value, condition, is_if=False)
    return value


def refuse_parts(column: Values, *, is_stored: bool = False) -> None:
    """Decline to choose between values unless all are tensors, and none a part of one, whose size
    is its own.
    """
    for value in column:
        if not (is_stored and dotted(value) in ("True", "False")):
            refuse_unless_tensor(value)
    cuts = [_cut(value) for value in column]
    is_one_size = all(
        cut is not None and cuts[0] is not None and cut.deep_equals(cuts[0]) for cut in cuts
    )
    decline_if(any(cuts) and not is_one_size, "a branch yields a part of a tensor")


def _cut(value: BaseExpression) -> CSTNode | None:
    """Return the slice by which a value is part of a tensor; None if it's whole."""
    match value:
        case Subscript(slice=parts, value=inner):
            slices = [part.slice for part in parts if isinstance(part.slice, Slice)]
            bound = [part for part in slices if part.lower is not None or part.upper is not None]
            return bound[0] if bound else _cut(inner)
        case Attribute(value=inner):
            return _cut(inner)
        case Call(func=Attribute(value=inner, attr=Name(value=name)), args=args):
            return None if name in REDUCED and not args else _cut(inner)
    return None


def numpy_of(tests: Values, source: SourceFile) -> str | None:
    """Return the file's name for NumPy if that made the conditions: outside of torch.compile these
    are its arrays.
    """
    calls = [call for call in calls_in(*tests) if source.dotted_name(call).startswith("numpy.")]
    name = dotted(calls[0].func) if calls else None
    return None if name is None else name.rpartition(".")[0] or None


def in_numpy(chosen: BaseExpression, numpy: str | None) -> BaseExpression:
    """Choose by ``np.where`` if it's NumPy's."""
    if numpy is None:
        return chosen
    old = matchers.Attribute(matchers.Name("torch"), matchers.Name("where"))
    new = Attribute(parse_expression(numpy), Name("where"))
    return need(matchers.replace(chosen, old, new), BaseExpression)
