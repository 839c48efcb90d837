"""Code that only saves time: early outs and shortcuts, without which the rest gives the same."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst
from libcst import matchers

from graphdoctor.fixes.recipe import Edit, Place, recipe
from graphdoctor.fixes.source.names import Names
from graphdoctor.fixes.source.nodes import (
    after_lines,
    called,
    lines_of,
    name_set,
    refuse_lost_comments,
    set_names,
)
from graphdoctor.fixes.source.tree import Change, DeclinedError, SourceFile, decline_if, need, walk

_LEAVING = matchers.SimpleStatementLine(
    [matchers.Return() | matchers.Break() | matchers.Continue()]
)


@recipe("GD102", "GD103", "GD119")
def drop_early_out(place: Place) -> Edit:
    """Removes ``if mask.all(): return x``, ``if mask.sum() == 0: break`` and their like.

    Also with the line above it, if that only reads the value that it asks about. Unsafe: it's right
    only if the rest gives the same, which trials show on inputs that take the branch; without any,
    it isn't verified.
    """
    source = place.source
    choice, before = _leaving(place)
    decline_if(
        choice.orelse is not None or isinstance(source.parent(choice), cst.If),
        "the `if` has another branch",
    )
    body = lines_of(choice.body)
    decline_if(
        len(body) != 1 or not matchers.matches(body[0], _LEAVING),
        "the branch does more than leave early",
    )
    # Which lines an input reaches is known, not which parts of one.
    decline_if(
        isinstance(choice.body, cst.SimpleStatementSuite),
        "the branch is on the line of its condition",
    )
    block = need(source.parent(choice), cst.IndentedBlock, "the `if` is on a line of its own")
    is_last = block.body[-1] is choice
    is_break = any(isinstance(node, cst.Break) for node in walk(body[0]))
    decline_if(
        is_last and (not is_break or block.body[0] is choice), "nothing comes after the `if`"
    )
    what = source.shortened(body[0])
    title = f"Drop the early out `if {source.shortened(choice.test)}: {what}`"
    changes = _removed(block, [*before, choice])
    return place.edit(title, *changes, reached=(source.position(body[0]).start.line,))


def _leaving(place: Place) -> tuple[cst.If, Sequence[cst.BaseStatement]]:
    """The ``if``, and the line before it that only makes what it asks about."""
    unclear = "no early `return`, `break` or `continue` depends on the value"
    if isinstance(place.statement, cst.If):
        return place.statement, ()
    line = need(place.statement, cst.SimpleStatementLine, unclear, "elsewhere")
    block = need(place.source.parent(line), cst.IndentedBlock, unclear, "elsewhere")
    at = block.body.index(line) + 1
    choice = need(block.body[at] if at < len(block.body) else None, cst.If, unclear, "elsewhere")
    names = set_names(line)
    decline_if(
        len(line.body) != 1 or not names or not names <= name_set(choice.test), unclear, "elsewhere"
    )
    known = Names(place.source, place.scope)
    return choice, [line] if all(
        known.is_only_in(name, [line, choice.test]) for name in names
    ) else []


def _removed(block: cst.IndentedBlock, lines: Sequence[cst.BaseStatement]) -> list[Change]:
    """Changes that remove lines with the comments above them, which are about them; blank lines
    stay.
    """
    if block.body[-1] is lines[-1]:
        return [(line, []) for line in lines]
    following = block.body[block.body.index(lines[-1]) + 1]
    blank = [line for line in getattr(lines[0], "leading_lines", ()) if line.comment is None]
    if not hasattr(following, "leading_lines"):
        raise DeclinedError("what follows isn't a line of its own")
    return [*((line, []) for line in lines), (following, after_lines(following, blank))]


@recipe("GD102")
def drop_shortcuts(place: Place) -> Edit:
    """Keeps the ``else`` of ``if mask.all(): … elif not mask.any(): … else: …``, which works for
    every mask.

    Comments in and above the other branches go with them. Unsafe: it's right only if the ``else``
    gives the same, which trials show on inputs that take each of the other branches; without any,
    it isn't verified.
    """
    source = place.source
    choice = need(place.tested, cst.If, "it isn't an `if` with an `else`")
    shortcuts, last = [choice], choice.orelse
    while isinstance(last, cst.If):
        shortcuts.append(last)
        last = last.orelse
    general = need(last, cst.Else, "no `else` works for every mask")
    names = name_set(general.body)
    for shortcut in shortcuts:
        masks = _asked_whole(source, shortcut.test)
        decline_if(
            not masks or not masks <= names,
            "the conditions don't ask about a whole mask that the `else` uses",
        )
        decline_if(
            isinstance(shortcut.body, cst.SimpleStatementSuite),
            "a branch is on the line of its condition",
        )
    title = f"Keep only the `else` of `if {source.shortened(choice.test)}: …`"
    reached = tuple(
        source.position(lines_of(shortcut.body)[0]).start.line for shortcut in shortcuts
    )
    if isinstance(source.parent(choice), cst.If):
        return place.edit(title, (choice, general.deep_clone()), reached=reached)
    first, *rest = [line.deep_clone() for line in lines_of(general.body)]
    header = general.body.header.comment if isinstance(general.body, cst.IndentedBlock) else None
    above = [
        *choice.leading_lines,
        *general.leading_lines,
        *([cst.EmptyLine(comment=header)] if header else []),
    ]
    lines = [after_lines(first, above), *rest]
    refuse_lost_comments([general], lines)
    return place.edit(title, (choice, lines), reached=reached)


def _asked_whole(source: SourceFile, test: cst.BaseExpression) -> frozenset[str]:
    """The names in ``mask.all()`` and ``not mask.any()``; none for another condition."""
    word = "all"
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        word, test = "any", test.expression
    tensor = source.receiver(test)
    if (
        tensor is None
        or not isinstance(test, cst.Call)
        or called(test) != word
        or source.given_to(test)
    ):
        return frozenset()
    return frozenset(name_set(tensor))
