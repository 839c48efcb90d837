"""``one_hot`` without a number of classes: pass it."""

from __future__ import annotations

from typing import ClassVar

import libcst as cst

from graphdoctor.fixes.recipe import Edit, Recipe
from graphdoctor.fixes.syntax.bindings import dotted_name, is_in_scope, own_attributes
from graphdoctor.fixes.syntax.declined import DeclinedError
from graphdoctor.fixes.syntax.place import Place, pointed
from graphdoctor.fixes.syntax.source import SourceFile, walk

_NAMES = frozenset(
    {"num_classes", "n_classes", "nb_classes", "classes", "num_class", "n_class", "num_labels", "n_labels"}
    | {"num_categories", "n_categories", "num_experts", "n_experts", "vocab_size", "num_embeddings", "num_tokens"}
)
"""Common names for the number of classes."""


class OneHotClasses(Recipe):
    """``F.one_hot(labels)`` becomes ``F.one_hot(labels, num_classes=self.num_classes)``.

    Unsafe: without the number, the width of the result depends on the largest label of the call; with it, the width is
    always the number of classes.
    """

    name: ClassVar = "one-hot-classes"
    codes: ClassVar = frozenset({"GD104", "GD103"})

    def edit(self, place: Place) -> Edit:
        """The call with the number of classes.

        Raises:
            DeclinedError: No number of classes is in scope, or more than one.
        """
        source = place.source
        call = pointed(place, lambda node: _is_one_hot(source, node), "a call to `one_hot`")
        assert isinstance(call, cst.Call)  # _is_one_hot says so
        if any(argument.star for argument in call.args):
            raise DeclinedError("its arguments are unpacked")
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
    """The argument that is the number of classes."""
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
    """Names in scope at a call that stand for a number of classes."""
    names = {name for name in _NAMES if is_in_scope(source, call, name)}
    names |= {name.upper() for name in _NAMES if is_in_scope(source, call, name.upper())}
    names |= {f"self.{name}" for name in own_attributes(source, call) if name in _NAMES}
    own = {node.value for node in walk(call) if isinstance(node, cst.Name)}
    return sorted(names - own)
