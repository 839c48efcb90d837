"""Operators whose results have no size that torch knows: ``one_hot``, ``bincount``,
``repeat_interleave``; lists of numbers that ``tolist`` reads; ``backward()``.
"""

from __future__ import annotations

from collections.abc import Iterator

from libcst import (
    Attribute,
    BaseExpression,
    Call,
    Comma,
    Integer,
    Name,
    SimpleStatementLine,
    SimpleWhitespace,
    matchers,
    parse_expression,
)

from graphdoctor.fixes.entry_file import with_settings
from graphdoctor.fixes.moves.stay import roots_of
from graphdoctor.fixes.recipe import Edit, Place, recipe
from graphdoctor.fixes.source.nodes import (
    assigned,
    bare,
    by_name,
    called,
    calls_in,
    expression,
    keyword_argument,
    method_call,
    refuse_comment,
    torch_call,
)
from graphdoctor.fixes.source.spread import Spread, traced_from
from graphdoctor.fixes.source.torch_names import INTEGER_METHODS
from graphdoctor.fixes.source.tree import SourceFile, decline_if, dotted, find, known, need

_ARGUMENTS = "its arguments aren't supported"


def with_argument(call: Call, name: str, value: BaseExpression) -> Call:
    """Add an argument to a call that has others."""
    *rest, last = call.args
    after = Comma(whitespace_after=SimpleWhitespace(" "))
    before = last.with_changes(comma=after, whitespace_after_arg=SimpleWhitespace(""))
    return call.with_changes(args=[*rest, before, keyword_argument(name, value)]).deep_clone()


@recipe("GD104")
def bincount_to_scatter(place: Place) -> Edit:
    """``torch.bincount(x, minlength=n)`` becomes ``x.new_zeros(n).scatter_add(0, x,
    torch.ones_like(x))``.

    With weights, their zeros and themselves take the place of the counts and ones; the classes of
    what isn't a name are counted in their one-hot form. Unsafe: a value of ``minlength`` or more
    makes ``bincount`` return more counts, and ``scatter_add`` fail. Without ``minlength``, a size
    takes its place that the result had in each call.
    """
    source = place.source
    call = place.nearby_call("bincount")
    refuse_comment(call)
    given = by_name(source.given_to(call), ("weights", "minlength"), _ARGUMENTS)
    given = {key: value for key, value in given.items() if dotted(value) != "None"}
    counted = known(source.receiver(call), _ARGUMENTS)
    unknown = "`bincount` has no `minlength`, so nothing shows how many counts there are"
    equal = place.equal_to(call) if "minlength" not in given else None
    length = given.get("minlength") or parse_expression(known(equal, unknown).names[0])
    weights = given.get("weights", counted)
    template = "{weights}.new_zeros({length}).scatter_add(0, {index}, {ones})"
    ones = weights if "weights" in given else torch_call("ones_like", [counted])
    if "weights" not in given and not isinstance(counted, Name):
        template = "torch.nn.functional.one_hot({index}, {length}).sum(0)"
    else:
        need(weights, Name, "the weights aren't a name")
    new = expression(template, index=bare(counted), length=length, weights=weights, ones=ones)
    title = f"Count into `{source.shortened(length)}` places in place of `bincount`"
    return place.edit(title if equal is None else f"{title}{equal.words}", (call, new))


@recipe("GD104", "GD100")
def repeat_to_known_size(place: Place) -> Edit:
    """``x.repeat_interleave(n)`` becomes ``x.repeat_interleave(n, output_size=y.shape[0])``.

    The size is one that the result had in each call. Unsafe: another sum of the repeats makes it
    fail, on a GPU without an error.
    """
    call = place.nearby_call("repeat_interleave")
    equal = known(place.equal_to(call), "no size in scope equals that of the result")
    size = parse_expression(equal.names[0])
    title = f"Pass `output_size={equal.names[0]}` to `repeat_interleave`{equal.words}"
    return place.edit(title, (call, with_argument(call, "output_size", size)))


@recipe("GD100")
def device_of_new_tensor(place: Place) -> Edit:
    """``torch.get_default_device()`` becomes ``torch.empty(0).device``, which torch can trace.

    Safe: that's where torch makes a tensor.
    """
    call = place.pointed_call(
        lambda call: place.source.dotted_name(call) == "torch.get_default_device",
        "a call to `torch.get_default_device`",
    )
    title = "Read the device of a new tensor in place of asking for the default"
    made = torch_call("empty", [Integer("0")])
    return place.edit(title, (call, Attribute(made, Name("device"))), is_safe=True)


@recipe("GD103")
def index_listed_tensor(place: Place) -> Edit:
    """``total, count = stats.tolist()`` becomes ``total, count = stats.detach().clone()``.

    Unsafe: items are zero-dim tensors then, and outside of what is compiled each is read again.
    """
    source = place.source
    call = place.pointed_call(
        lambda node: isinstance(node, Call) and called(node) == "tolist" and not node.args,
        "a call to `tolist`",
    )
    tensor = need(call.func, Attribute).value
    spread = Spread(source, traced_from(source, roots_of(place)))
    spread.put(call, method_call(tensor, "detach", "clone"))
    spread.follow(call, (None,))
    title = f"Keep the tensor whose items `{source.shortened(call)}` reads"
    return place.edit(title, *spread.changes())


@recipe("GD112")
def trace_backward(place: Place) -> Edit:
    """Sets ``trace_autograd_ops``, and detaches the loss, and what it is made of, right after
    ``loss.backward()``.

    torch traces the backward pass then. Where a tensor that was differentiated is returned, or used
    after a later break, it breaks at ``backward()`` all the same: its graph is gone (GB4927, seen
    on 2.13). Without such a use the setting alone does, which is tried by itself. Unsafe: what is
    detached no longer requires a gradient, which whoever gets it may need.
    """
    source = place.source
    line = need(place.statement, SimpleStatementLine, "the line begins a compound statement")
    calls = [call for call in calls_in(line) if called(call) == "backward"]
    decline_if(not calls, "the line doesn't call `backward()`", "another_line")
    is_alone = matchers.matches(
        line, matchers.SimpleStatementLine([matchers.Expr(matchers.Call(args=[]))])
    )
    decline_if(not is_alone, "`backward()` has arguments, or shares its line")
    loss = source.receiver(calls[0])
    loss = need(loss, Name, "`backward()` is called on more than a variable")
    number = source.start(line)[0]
    kept = dict.fromkeys(
        name.value
        for name in (loss, *_made_of(source, loss))
        if source.is_local(name)
        and any(source.start(read)[0] > number for read in source.reads(name))
    )
    decline_if(not kept, "the loss isn't used after it")
    detached = [assigned(name, expression("{name}.detach()", name=Name(name))) for name in kept]
    written = source.replaced((line, [line.deep_clone(), *detached]))
    content = with_settings(written, ["torch._dynamo.config.trace_autograd_ops = True"])
    title = f"Let torch trace the backward pass, and detach `{'`, `'.join(kept)}` after it"
    return Edit(title, known(content, "Python can't parse the file"))


_WITHOUT_GRADIENT = INTEGER_METHODS | {"detach", "one_hot", "randint"}


def _made_of(source: SourceFile, loss: Name) -> Iterator[Name]:
    """Iterate over variables of the function that the loss is computed from, and that a gradient
    goes through.
    """
    for value in filter(None, source.values(loss)):
        for name in find(value, Name):
            if source.is_local(name) and source.parameter(name) is None:
                calls = calls_in(*filter(None, source.values(name)))
                if _WITHOUT_GRADIENT.isdisjoint(map(called, calls)):
                    yield name
