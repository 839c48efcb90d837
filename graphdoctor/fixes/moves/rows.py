"""Computes all rows where a mask chose some: what is written for the chosen ones is taken with
``torch.where``, and random numbers are drawn for each row.

Each edit needs the others: what draws for all rows doesn't fit what computes some.
"""

from __future__ import annotations

from libcst import (
    Arg,
    Assign,
    AssignTarget,
    BaseExpression,
    Call,
    Comparison,
    CSTNode,
    CSTTransformer,
    Element,
    Else,
    If,
    IfExp,
    IndentedBlock,
    List,
    Name,
    Subscript,
    Tuple,
    parse_expression,
)

from graphdoctor.fixes.moves.drop import asked_whole, in_general, orelses
from graphdoctor.fixes.recipe import Edit, Place, recipe
from graphdoctor.fixes.source.nodes import called, calls_in, index_of, lines_of, name_set, where
from graphdoctor.fixes.source.torch_names import draws_random
from graphdoctor.fixes.source.tree import SourceFile, decline_if, known, names_in, need, only


@recipe("GD102", "GD104")
def all_rows(place: Place) -> Edit:
    """``if m.all(): y = f(x) elif … else: y = y.index_put((m,), f(x[m]))`` becomes ``y =
    torch.where(m, f(x), y)``; ``y[m] = f(x[m])`` as well.

    Unsafe: it's right only if each row is computed by itself, which masks of each kind show, and
    random numbers are drawn for all rows.
    """
    source, choice = place.source, _choice_of(place)
    *shortcuts, general = [choice, *orelses(choice)]
    general = need(general, Else, "no branch is for every mask", "another_line")
    unclear = "the conditions don't ask about one whole mask"
    masks = [asked_whole(source, need(shortcut, If).test) for shortcut in shortcuts]
    mask = only(list(set[str]().union(*masks)), unclear)
    decline_if(not all(masks), unclear)
    dense = _AllRows(mask)
    lines = lines_of(need(general.body.visit(dense), IndentedBlock, unclear))
    uses = [name for line in lines for name in names_in(line) if name.value == mask]
    decline_if(not dense.count, "no rows are written")
    decline_if(len(uses) != dense.count, f"`{mask}` is used for more than to choose rows")
    title = f"Compute all rows, and choose those of `{mask}` with `torch.where`"
    bodies = [choice.body, *(branch.body for branch in orelses(choice))]
    reached = tuple(source.start(lines_of(body)[0])[0] for body in bodies)
    changed = in_general(choice, general, lines)
    return place.edit(title, (choice, changed), is_joint=True, redraws=True, reached=reached)


@recipe("GD103")
def draw_for_all_rows(place: Place) -> Edit:
    """``torch.rand(int(m.sum()), 3)`` becomes ``torch.rand(m.shape[0], 3)``, also where the shape
    is passed on.

    Unsafe: other random numbers are drawn, and it's right only where all rows are computed.
    """
    source = place.source
    counts = [call for call in calls_in(place.statement) if _counted_mask(source, call)]
    counts = [call for call in counts if not any(_is_in(source, call, other) for other in counts)]
    count = only(counts, "no rows of a mask are counted", "elsewhere")
    around = source.parent(count)
    is_size = isinstance(around, Element) and isinstance(source.parent(around), Tuple | List)
    drawing = source.parent(around) if isinstance(around, Arg) else None
    is_drawn = isinstance(drawing, Call) and draws_random(called(drawing))
    decline_if(not (is_size or is_drawn), "the count isn't a size")
    mask = known(_counted_mask(source, count))
    title = f"Draw for all rows of `{mask}`"
    size = parse_expression(f"{mask}.shape[0]")
    return place.edit(title, (count, size), is_joint=True, redraws=True)


def _choice_of(place: Place) -> If:
    """Return the outermost ``if`` around a line that asks about a whole mask."""
    source = place.source
    around = [place.statement, *source.parents(place.statement)]
    asking = [node for node in around if isinstance(node, If) and asked_whole(source, node.test)]
    nothing = "no branch asks about a whole mask"
    choice = need(asking[-1] if asking else None, If, nothing, "another_line")
    while isinstance(outer := source.parent(choice), If):
        choice = outer
    return choice


def _counted_mask(source: SourceFile, node: CSTNode) -> str | None:
    """Return ``m`` for ``m.sum()``, ``m.sum().item()`` and ``int(m.sum())``."""
    match node:
        case Call(args=[Arg(value=inner)]) if source.dotted_name(node) == "builtins.int":
            return _counted_mask(source, inner)
        case Call(args=[]) if source.method_name(node) == "item":
            return _counted_mask(source, known(source.receiver(node)))
        case Call(args=[]) if source.method_name(node) in ("sum", "count_nonzero"):
            mask = source.receiver(node)
            values = source.set_values(mask) if isinstance(mask, Name) else []
            if isinstance(mask, Name) and values:
                return mask.value if all(isinstance(it, Comparison) for it in values) else None
    return None


def _is_in(source: SourceFile, node: CSTNode, outer: CSTNode) -> bool:
    return any(parent is outer for parent in source.parents(node))


class _AllRows(CSTTransformer):
    """Rewrites lines so that they compute all rows."""

    def __init__(self, mask: str) -> None:
        super().__init__()
        self._mask = mask
        self.count = 0
        """How often rows are chosen."""

    def _is_chosen(self, index: BaseExpression | None) -> bool:
        return isinstance(index, Name) and index.value == self._mask

    def _written(self, value: BaseExpression, tensor: BaseExpression) -> BaseExpression:
        like = value if isinstance(value, Name) else tensor
        is_named = isinstance(like, Name) and self._mask not in name_set(value, tensor)
        decline_if(not is_named, "what the rows are written to has no name")
        self.count += 1
        name = need(like, Name).value
        rows = f"{self._mask}.to({name}.device).view(-1, *[1] * ({name}.dim() - 1))"
        return where(parse_expression(rows), value, tensor)

    def leave_Subscript(  # noqa: N802 - libcst's name
        self, original_node: Subscript, updated_node: Subscript
    ) -> BaseExpression:
        """``x[m]`` becomes ``x``."""
        is_chosen = self._is_chosen(index_of(original_node))
        return updated_node.value if is_chosen else updated_node

    def leave_IfExp(  # noqa: N802 - libcst's name
        self, original_node: IfExp, updated_node: IfExp
    ) -> BaseExpression:
        """``t if t is None else t[m]`` becomes ``t``."""
        is_same = updated_node.body.deep_equals(updated_node.orelse)
        is_old = original_node.body.deep_equals(original_node.orelse)
        return updated_node.body if is_same and not is_old else updated_node

    def leave_Call(  # noqa: N802 - libcst's name
        self, original_node: Call, updated_node: Call
    ) -> BaseExpression:
        """``y.index_put((m,), z)`` becomes ``torch.where(m, z, y)``."""
        match updated_node.args:
            case [Arg(value=Tuple(elements=[Element(value=index)])), Arg(value=value)]:
                tensor = getattr(updated_node.func, "value", None)
                is_put = called(original_node) == "index_put" and self._is_chosen(index)
                if is_put and isinstance(tensor, BaseExpression):
                    return self._written(value, tensor)
        return updated_node

    def leave_Assign(  # noqa: N802 - libcst's name
        self, original_node: Assign, updated_node: Assign
    ) -> Assign:
        """``y[m] = z`` becomes ``y = torch.where(m, z, y)``."""
        match original_node.targets, updated_node.targets:
            case (
                [AssignTarget(target=Subscript() as target)],
                [AssignTarget(target=Name() as name)],
            ) if self._is_chosen(index_of(target)):
                return updated_node.with_changes(value=self._written(updated_node.value, name))
        return updated_node
