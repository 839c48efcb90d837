"""Lets torch trace the backward pass of a training step."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from libcst import matchers

from graphdoctor.fixes.entry_file import with_settings
from graphdoctor.fixes.recipe import Edit, Place, recipe
from graphdoctor.fixes.source.nodes import assigned, called, calls_in, expression
from graphdoctor.fixes.source.torch_names import INTEGER_METHODS
from graphdoctor.fixes.source.tree import SourceFile, decline_if, known, need, walk

_WITHOUT_GRADIENT = INTEGER_METHODS | {"detach", "one_hot", "randint"}


@recipe("GD112")
def trace_backward(place: Place) -> Edit:
    """Sets ``trace_autograd_ops``, and detaches the loss, and what it is made of, right after
    ``loss.backward()``.

    torch traces the backward pass then. Where a tensor that was differentiated is returned, or used
    after a later break, it breaks at ``backward()`` all the same: its graph is gone (GB4927, seen
    on 2.13). Without such a use the setting alone does, which is tried by itself. Unsafe: what is
    detached no longer requires a gradient, which whoever gets it may need.
    """
    source, line = (
        place.source,
        need(place.statement, cst.SimpleStatementLine, "the line begins a compound statement"),
    )
    calls = [call for call in calls_in(line) if called(call) == "backward"]
    decline_if(not calls, "the line doesn't call `backward()`", "another_line")
    is_alone = len(line.body) == 1 and matchers.matches(
        line.body[0], matchers.Expr(matchers.Call(args=[]))
    )
    decline_if(not is_alone, "`backward()` has arguments, or shares its line")
    loss = need(
        source.receiver(calls[0]), cst.Name, "`backward()` is called on more than a variable"
    )
    number = source.start(line)[0]
    kept = dict.fromkeys(
        name.value for name in _made_of(source, loss) if _is_read_after(source, name, number)
    )
    decline_if(not kept, "the loss isn't used after it")
    detached = [assigned(name, expression("{name}.detach()", name=cst.Name(name))) for name in kept]
    written = source.replaced((line, [line.deep_clone(), *detached]))
    content = with_settings(written, ["torch._dynamo.config.trace_autograd_ops = True"])
    title = f"Let torch trace the backward pass, and detach `{'`, `'.join(kept)}` after it"
    return Edit(title, known(content, "Python can't parse the file"))


def _made_of(source: SourceFile, loss: cst.Name) -> Iterator[cst.Name]:
    """The loss, and variables of the function that it is computed from."""
    yield loss
    for value in filter(None, source.values(loss)):
        names = [
            node for node in walk(value) if isinstance(node, cst.Name) and source.is_local(node)
        ]
        yield from (
            name for name in names if source.parameter(name) is None and not _is_cut(source, name)
        )


def _is_cut(source: SourceFile, name: cst.Name) -> bool:
    """Whether no gradient goes through what the variable is computed by."""
    calls = (
        called(call) for value in filter(None, source.values(name)) for call in calls_in(value)
    )
    return not _WITHOUT_GRADIENT.isdisjoint(calls)


def _is_read_after(source: SourceFile, name: cst.Name, line: int) -> bool:
    return source.is_local(name) and any(
        source.start(read)[0] > line for read in source.reads(name)
    )
