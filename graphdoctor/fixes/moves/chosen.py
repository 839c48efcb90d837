"""Functions and layers that a tensor chooses from a list: all are called, and the result of the
chosen one is taken.
"""

from __future__ import annotations

from libcst import (
    Assign,
    AssignTarget,
    Call,
    CSTNode,
    IndentedBlock,
    Name,
    SimpleStatementLine,
    Subscript,
)

from graphdoctor.fixes.recipe import Edit, Place, recipe
from graphdoctor.fixes.source.nodes import (
    Names,
    as_operand,
    expression,
    index_of,
    is_repeatable,
    lines_of,
    refuse_comment,
)
from graphdoctor.fixes.source.tree import Change, decline_if, known, need, only


@recipe("GD103")
def call_all(place: Place) -> Edit:
    """``layers[i](x)`` becomes ``torch.stack([layer(x) for layer in layers])[i[None]][0]``, also
    where ``layer = layers[i]`` stands above.

    Unsafe: all are called, so each takes its time, changes its state, draws its numbers, and must
    give a result of the same shape.
    """
    source = place.source
    what = "an item of a list"
    item = need(place.pointed(lambda node: isinstance(node, Subscript), what), Subscript, what)
    index = known(index_of(item), "the index is a slice")
    changes: list[Change] = []
    called: CSTNode = item
    match source.parent(item):
        case Assign(targets=[AssignTarget(target=Name() as name)]) as assign:
            called = only(source.reads(name), "the item is used more than once")
            line = need(source.parent(assign), SimpleStatementLine)
            block = lines_of(need(source.parent(line), IndentedBlock))
            after = block[block.index(line) + 1 :]
            is_next = bool(after) and after[0] in source.parents(called)
            decline_if(not is_next or len(line.body) > 1, "the item isn't used on the next line")
            refuse_comment(line.with_changes(leading_lines=()))
            changes.append((line, []))
            each = name.value
        case _:
            each = Names(source, place.function).fresh("each")
    call = need(source.parent(called), Call, "the item isn't called")
    decline_if(call.func is not called, "the item isn't called")
    args = [argument.value for argument in call.args]
    is_plain = all(map(is_repeatable, (*args, item.value, index)))
    decline_if(not is_plain, "what it is called with is computed on the line")
    chosen = expression(
        "torch.stack([{result} for {each} in {items}])[{at}[None]][0]",
        result=call.with_changes(func=Name(each)),
        each=Name(each),
        items=item.value,
        at=as_operand(index),
    )
    items, at = source.code(item.value), source.code(index)
    title = f"Call each of `{items}`, and take the result that `{at}` chooses"
    return place.edit(title, *changes, (call, chosen))
