"""Calls whose result has a size that depends on values: say how many there are."""

from __future__ import annotations

import libcst as cst
from libcst.helpers import parse_template_expression

from graphdoctor.fixes.recipe import Edit, recipe
from graphdoctor.fixes.source.names import (
    Names,
    dotted_name,
    has_comment,
    is_in_scope,
    method_name,
    own_attributes,
    receiver,
    shortened,
)
from graphdoctor.fixes.source.place import Place, pointed
from graphdoctor.fixes.source.tree import DeclinedError, SourceFile, decline_if, walk

_NAMES = frozenset(
    {"num_classes", "n_classes", "nb_classes", "classes", "num_class", "n_class", "num_labels", "n_labels"}
    | {"num_categories", "n_categories", "num_experts", "n_experts", "vocab_size", "num_embeddings", "num_tokens"}
)
"""Common names for the number of classes."""


@recipe("GD104", "GD103")
def one_hot_classes(place: Place) -> Edit:
    """``F.one_hot(labels)`` becomes ``F.one_hot(labels, num_classes=self.num_classes)``.

    Unsafe: without the number, the width of the result depends on the largest label of the call; with it, the width is
    always the number of classes.
    """
    source = place.source
    call = pointed(place, lambda node: _is_one_hot(source, node), "a call to `one_hot`")
    assert isinstance(call, cst.Call)  # _is_one_hot says so
    decline_if(any(argument.star for argument in call.args), "its arguments are unpacked")
    given = _given(call)
    if given is not None and source.code(given.value).replace(" ", "") != "-1":
        raise DeclinedError("it already has a number of classes")
    names = _classes(source, call)
    if len(names) != 1:
        raise DeclinedError(f"{'several numbers of classes are' if names else 'no number of classes is'} in scope")
    number = cst.parse_expression(names[0])
    if given is not None:
        content = source.replaced((given.value, number))
    else:
        content = source.replaced((call, _with_classes(call, number)))
    return Edit(title=f"Pass `num_classes={names[0]}` to `one_hot`", content=content, is_safe=False)


def _is_one_hot(source: SourceFile, node: cst.BaseExpression) -> bool:
    return (
        isinstance(node, cst.Call)
        and bool(node.args)
        and dotted_name(source, node.func) == "torch.nn.functional.one_hot"
    )


def _given(call: cst.Call) -> cst.Arg | None:
    named = [argument for argument in call.args if argument.keyword and argument.keyword.value == "num_classes"]
    positional = [argument for argument in call.args if argument.keyword is None]
    return named[0] if named else positional[1] if len(positional) > 1 else None


def _with_classes(call: cst.Call, number: cst.BaseExpression) -> cst.Call:
    """The call with one more argument; what followed the last one, such as a comma or a newline, still comes last."""
    copy = call.deep_clone()
    added = cst.Arg(
        number,
        keyword=cst.Name("num_classes"),
        equal=cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")),
    )
    last, start = copy.args[-1], copy.whitespace_before_args
    has_comma = isinstance(last.comma, cst.Comma)
    trailing = last.comma.whitespace_after if isinstance(last.comma, cst.Comma) else last.whitespace_after_arg
    between: cst.BaseParenthesizableWhitespace = cst.SimpleWhitespace(" ")
    if isinstance(trailing, cst.ParenthesizedWhitespace):
        # The bracket has its own line, so the argument gets one too.
        if isinstance(start, cst.ParenthesizedWhitespace):
            between = trailing.with_changes(indent=start.indent, last_line=start.last_line)
        trailing = cst.ParenthesizedWhitespace(indent=trailing.indent, last_line=trailing.last_line)
    elif isinstance(start, cst.ParenthesizedWhitespace):
        between = cst.ParenthesizedWhitespace(indent=start.indent, last_line=start.last_line)
    before = last.with_changes(comma=cst.Comma(whitespace_after=between), whitespace_after_arg=cst.SimpleWhitespace(""))
    added = (
        added.with_changes(comma=cst.Comma(whitespace_after=trailing))
        if has_comma
        else added.with_changes(whitespace_after_arg=trailing)
    )
    return copy.with_changes(args=[*copy.args[:-1], before, added])


def _classes(source: SourceFile, call: cst.Call) -> list[str]:
    names = {name for name in _NAMES if is_in_scope(source, call, name)}
    names |= {name.upper() for name in _NAMES if is_in_scope(source, call, name.upper())}
    names |= {f"self.{name}" for name in own_attributes(source, call) if name in _NAMES}
    own = {node.value for node in walk(call) if isinstance(node, cst.Name)}
    return sorted(names - own)


@recipe("GD104")
def bincount_to_scatter(place: Place) -> Edit:
    """``torch.bincount(x, minlength=n)`` becomes ``x.new_zeros(n).scatter_add(0, x, torch.ones_like(x))``.

    With weights, their zeros and themselves take the place of the counts and ones. Unsafe: a value of ``minlength`` or
    more makes ``bincount`` return more counts, and ``scatter_add`` fail.
    """
    source = place.source
    call = pointed(place, lambda node: method_name(source, node) == "bincount", "a call to `bincount`")
    assert isinstance(call, cst.Call)  # method_name() says so
    decline_if(has_comment(call), "a comment inside it would be lost")
    counted, weights, length = _arguments(source, call)
    before: list[cst.SimpleStatementLine] = []
    if not isinstance(counted, cst.Name):
        function = source.function_of(call)
        if function is None:
            raise DeclinedError("the call isn't in a function")
        name = cst.Name(Names(source, function).fresh("index"))
        value = counted.with_changes(lpar=(), rpar=()).deep_clone()
        before = [cst.SimpleStatementLine([cst.Assign([cst.AssignTarget(name)], value)])]
        counted = name
    if weights is None:
        new = _filled("{index}.new_zeros({length}).scatter_add(0, {index}, torch.ones_like({index}))", counted, length)
    elif isinstance(weights, cst.Name):
        new = _filled(
            f"{weights.value}.new_zeros({{length}}).scatter_add(0, {{index}}, {weights.value})", counted, length
        )
    else:
        raise DeclinedError("the weights aren't a name")
    return Edit(
        title=f"Count into `{shortened(source, length)}` places with `scatter_add` in place of `bincount`",
        content=_replaced(source, call, new, before),
        is_safe=False,
    )


def _filled(template: str, index: cst.Name, length: cst.BaseExpression) -> cst.BaseExpression:
    return parse_template_expression(template, index=index, length=length).deep_clone()


def _arguments(
    source: SourceFile, call: cst.Call
) -> tuple[cst.BaseExpression, cst.BaseExpression | None, cst.BaseExpression]:
    """What is counted, the weights if there are any, and how many places there are."""
    counted = receiver(source, call)
    given = call.args[1:] if dotted_name(source, call.func) else call.args
    found: dict[str, cst.BaseExpression] = {}
    for name, argument in zip(("weights", "minlength", ""), given, strict=False):
        decline_if(argument.star, "its arguments aren't supported")
        found[argument.keyword.value if argument.keyword is not None else name] = argument.value
    length, weights = found.pop("minlength", None), found.pop("weights", None)
    if counted is None or found:
        raise DeclinedError("its arguments aren't supported")
    if length is None:
        raise DeclinedError("`bincount` has no `minlength`, so nothing shows how many counts there are")
    is_weighted = weights is not None and not (isinstance(weights, cst.Name) and weights.value == "None")
    return counted, weights if is_weighted else None, length


def _replaced(
    source: SourceFile, call: cst.Call, new: cst.BaseExpression, before: list[cst.SimpleStatementLine]
) -> bytes:
    if not before:
        return source.replaced((call, new), imports=("torch",))
    line = next(node for node in source.parents(call) if isinstance(node, cst.BaseStatement))
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
        raise DeclinedError("the call has no statement of its own")
    first = before[0].with_changes(leading_lines=[empty.deep_clone() for empty in line.leading_lines])
    changed = line.with_changes(leading_lines=()).deep_replace(call, new)
    assert isinstance(changed, cst.SimpleStatementLine)
    return source.replaced((line, cst.FlattenSentinel([first, changed])), imports=("torch",))
