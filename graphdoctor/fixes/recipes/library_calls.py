"""Calls that torch doesn't trace as they are written: NumPy's functions, ``one_hot``, ``bincount``,
``sorted``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import libcst as cst
from libcst import matchers

from graphdoctor.fixes.recipe import Edit, Place, recipe
from graphdoctor.fixes.source.nodes import (
    after_lines,
    assigned,
    below_new,
    by_name,
    calls_in,
    expression,
    has_comment,
    keyword_argument,
    keyword_of,
    method_call,
    name_set,
)
from graphdoctor.fixes.source.tree import Change, SourceFile, decline_if, dotted, known, need, only

_COMMENT = "a comment inside it would be lost"
_ARGUMENTS = "its arguments aren't supported"
_FUNCTIONS = {
    "interp": ("x xp fp", "_interp({x}, {xp}, {fp})"),
    "select": ("condlist choicelist | default", ""),
    "digitize": ("x bins", "{np}.searchsorted({bins}, {x}, side='right')"),
    "ediff1d": ("ary", "{np}.diff({np}.ravel({ary}))"),
    "nanmax": (
        "a | axis",
        "{np}.nan_to_num({a}, nan=-{np}.inf, posinf={np}.inf, neginf=-{np}.inf).max({axis=})",
    ),
    "nanmin": (
        "a | axis",
        "{np}.nan_to_num({a}, nan={np}.inf, posinf={np}.inf, neginf=-{np}.inf).min({axis=})",
    ),
    "trapezoid": ("y | x dx axis", "torch.trapezoid({y}{, x}{, dx=}{, dim=})"),
    "trapz": ("y | x dx axis", "torch.trapezoid({y}{, x}{, dx=}{, dim=})"),
    "isin": ("element test_elements", "torch.isin({element}, {test_elements})"),
    "nanmean": ("a | axis", "torch.nanmean({a}{, dim=})"),
    "nansum": ("a | axis", "torch.nansum({a}{, dim=})"),
    "nanmedian": ("a | axis", "torch.nanquantile({a}, 0.5{, dim=})"),
    "nanquantile": ("a q | axis", "torch.nanquantile({a}, {q}{, dim=})"),
    "nanpercentile": ("a q | axis", "torch.nanquantile({a}, {q} / 100{, dim=})"),
}
"""NumPy functions that torch 2.13 doesn't trace: arguments that are needed | supported, and what
does the same."""

_ARRAYS = ("a", "x", "y", "element", "test_elements")
_OPTIONAL = {"{, x}": ("x", ", {x}"), "{, dx=}": ("dx", ", dx={dx}"), "{, dim=}": ("axis", ", dim={axis}"),
             "{axis=}": ("axis", "axis={axis}")}  # fmt: skip

_INTERP = '''\
def _interp(x, xp, fp):
    """``np.interp`` with torch operations."""
    x, xp, fp = (torch.as_tensor(given, dtype=torch.float64) for given in (x, xp, fp))
    right = torch.searchsorted(xp, x.contiguous(), right=True).clamp(1, len(xp) - 1)
    left = right - 1
    slope = (fp[right] - fp[left]) / (xp[right] - xp[left])
    inside = fp[left] + slope * (x - xp[left])
    return torch.where(x <= xp[0], fp[0], torch.where(x >= xp[-1], fp[-1], inside)).numpy()
'''
"""NumPy always interpolates in double precision, and so does this."""

_Given = dict[str, cst.BaseExpression]


@recipe("GD109")
def numpy_to_torch(place: Place) -> Edit:
    """``np.interp(x, xp, fp)`` becomes a call to a new function that computes the same with torch.

    Others become one call: ``torch.from_numpy(np.nanmean(x.numpy(), axis=0))`` becomes
    ``torch.nanmean(x, dim=0)``, and ``np.digitize(x, bins)`` becomes an ``np.searchsorted``, which
    torch traces. Unsafe: for lists and numbers, dtypes may differ, and the last bits always may.
    """
    source = place.source
    call = place.pointed_call(
        lambda node: source.dotted_name(node).startswith("numpy."), "a call to a NumPy function"
    )
    name, code = source.dotted_name(call).removeprefix("numpy."), source.code(call.func)
    decline_if(name not in _FUNCTIONS, f"there is no known torch version of `{code}`")
    decline_if(has_comment(call), _COMMENT)
    parameters, template = _FUNCTIONS[name]
    given = _given(call, parameters)
    if name == "interp":
        decline_if(isinstance(given["x"], cst.BaseNumber), "it interpolates a single number")
        title = f"Use `_interp`, which uses torch operations, in place of `{code}`"
        return place.edit(title, _with_interp(source, call, expression(template, **given)))
    module = source.code(call.func.value) if isinstance(call.func, cst.Attribute) else "numpy"
    if template.startswith("torch."):
        result = _in_torch(template, given)
        change = _taken(source, call, result)
    else:
        result = (
            _filled(template.replace("{np}", module), given)
            if template
            else _selected(module, given)
        )
        change = call, result
    head = source.code(result.func if isinstance(result, cst.Call) else result).partition("(")[0]
    return place.edit(f"Use `{head}` in place of `{code}`", change)


def _given(call: cst.Call, parameters: str) -> _Given:
    """Arguments by name; those that are None, the default, are left out."""
    required = parameters.partition("|")[0].split()
    found = by_name(call.args, parameters.replace("|", "").split(), _ARGUMENTS)
    decline_if(not found.keys() >= set(required), _ARGUMENTS)
    return {key: value for key, value in found.items() if dotted(value) != "None"}


def _filled(template: str, given: _Given) -> cst.BaseExpression:
    for mark, (name, text) in _OPTIONAL.items():
        template = template.replace(mark, text if name in given else "")
    return expression(template, **given)


def _selected(module: str, given: _Given) -> cst.BaseExpression:
    """``np.where(a, x, np.where(b, y, default))``."""
    unclear = "its conditions aren't a literal list"
    conditions, choices = (
        need(given.get(name), cst.List, unclear).elements for name in ("condlist", "choicelist")
    )
    is_plain = all(isinstance(element, cst.Element) for element in (*conditions, *choices))
    decline_if(not conditions or not is_plain or len(conditions) != len(choices), unclear)
    result = given.get("default", cst.Integer("0"))
    for condition, choice in reversed(list(zip(conditions, choices, strict=True))):
        template = f"{module}.where({{condition}}, {{choice}}, {{rest}})"
        result = expression(template, condition=condition.value, choice=choice.value, rest=result)
    return result


def _in_torch(template: str, given: _Given) -> cst.BaseExpression:
    has_axes = isinstance(given.get("axis"), cst.Tuple)
    decline_if({"x", "dx"} <= given.keys() or (has_axes and "nanquantile" in template), _ARGUMENTS)
    is_number = "{q}" not in template or isinstance(given.get("q"), cst.Integer | cst.Float)
    decline_if(not is_number, "its quantile isn't a literal number")
    return _filled(
        template, {key: _tensor(value) if key in _ARRAYS else value for key, value in given.items()}
    )


def _tensor(array: cst.BaseExpression) -> cst.BaseExpression:
    """``x`` for ``x.numpy()``, and ``torch.as_tensor(…)`` for everything else."""
    match array:
        case cst.Call(func=cst.Attribute(value=tensor, attr=cst.Name("numpy")), args=[]):
            return tensor
    return expression("torch.as_tensor({array})", array=array)


def _taken(source: SourceFile, call: cst.Call, result: cst.BaseExpression) -> Change:
    argument = source.parent(call)
    match source.parent(argument):
        case cst.Call(args=[given]) as outer if given is argument:
            if source.dotted_name(outer) in ("torch.from_numpy", "torch.as_tensor", "torch.tensor"):
                return outer, result
    return call, method_call(result, "numpy")


def _with_interp(source: SourceFile, call: cst.Call, new: cst.BaseExpression) -> Change:
    text = _INTERP.replace("    ", source.tree.default_indent)
    function = need(
        cst.parse_module(text, config=source.tree.config_for_parsing).body[0], cst.FunctionDef, ""
    )
    functions = [line for line in source.tree.body if isinstance(line, cst.FunctionDef)]
    if any(source.code(line).strip() == source.code(function).strip() for line in functions):
        return call, new
    decline_if(source.free_name("_interp") != "_interp", "the name `_interp` is already used")
    return below_new(source, call, new, function)


_CLASSES = frozenset(
    {
        "num_classes",
        "n_classes",
        "nb_classes",
        "classes",
        "num_class",
        "n_class",
        "num_labels",
        "n_labels",
    }
    | {
        "num_categories",
        "n_categories",
        "num_experts",
        "n_experts",
        "vocab_size",
        "num_embeddings",
        "num_tokens",
    }
)
"""Common names for the number of classes."""


@recipe("GD104", "GD103")
def one_hot_classes(place: Place) -> Edit:
    """``F.one_hot(labels)`` becomes ``F.one_hot(labels, num_classes=self.num_classes)``.

    Unsafe: without the number, the width of the result depends on the largest label of the call;
        with it, the width is
    always the number of classes.
    """
    source = place.source
    call = place.pointed_call(
        lambda node: bool(node.args) and source.dotted_name(node) == "torch.nn.functional.one_hot",
        "a call to `one_hot`",
    )
    decline_if(any(argument.star for argument in call.args), "its arguments are unpacked")
    named = [argument for argument in call.args if keyword_of(argument) == "num_classes"]
    given = [*named, *[argument for argument in call.args if argument.keyword is None][1:]]
    is_open = not given or source.code(given[0].value).replace(" ", "") == "-1"
    decline_if(not is_open, "it already has a number of classes")
    names = {
        name for base in _CLASSES for name in (base, base.upper()) if source.is_in_scope(call, name)
    }
    names |= {f"self.{name}" for name in source.own_attributes(call) & _CLASSES}
    names -= name_set(call)
    decline_if(len(names) > 1, "several numbers of classes are in scope")
    decline_if(not names, "no number of classes is in scope")
    number = cst.parse_expression(name := names.pop())
    change: Change = (
        (given[0].value, number) if given else (call, _with_argument(call, "num_classes", number))
    )
    return place.edit(f"Pass `num_classes={name}` to `one_hot`", change)


def _with_argument(call: cst.Call, name: str, number: cst.BaseExpression) -> cst.Call:
    """The call with one more argument; what followed the last one, such as a comma or a newline,
    still comes last.
    """
    copy = call.deep_clone()
    added = keyword_argument(name, number)
    last, start = copy.args[-1], copy.whitespace_before_args
    has_comma = isinstance(last.comma, cst.Comma)
    trailing = (
        last.comma.whitespace_after
        if isinstance(last.comma, cst.Comma)
        else last.whitespace_after_arg
    )
    between: cst.BaseParenthesizableWhitespace = cst.SimpleWhitespace(" ")
    if isinstance(trailing, cst.ParenthesizedWhitespace):
        # The bracket has its own line, so the argument gets one too.
        if isinstance(start, cst.ParenthesizedWhitespace):
            between = trailing.with_changes(indent=start.indent, last_line=start.last_line)
        trailing = cst.ParenthesizedWhitespace(indent=trailing.indent, last_line=trailing.last_line)
    elif isinstance(start, cst.ParenthesizedWhitespace):
        between = cst.ParenthesizedWhitespace(indent=start.indent, last_line=start.last_line)
    before = last.with_changes(
        comma=cst.Comma(whitespace_after=between), whitespace_after_arg=cst.SimpleWhitespace("")
    )
    if has_comma:
        added = added.with_changes(comma=cst.Comma(whitespace_after=trailing))
    else:
        added = added.with_changes(whitespace_after_arg=trailing)
    return copy.with_changes(args=[*copy.args[:-1], before, added])


_REPEAT = "repeat_interleave"


@recipe("GD104")
def bincount_to_scatter(place: Place) -> Edit:
    """``torch.bincount(x, minlength=n)`` becomes ``x.new_zeros(n).scatter_add(0, x,
    torch.ones_like(x))``.

    With weights, their zeros and themselves take the place of the counts and ones. Unsafe: a value
    of ``minlength`` or more makes ``bincount`` return more counts, and ``scatter_add`` fail.
    Without ``minlength``, a size takes its place that the result had in each call.
    """
    source = place.source
    call = place.nearby_call("bincount")
    decline_if(has_comment(call), _COMMENT)
    given = by_name(source.given_to(call), ("weights", "minlength"), _ARGUMENTS)
    counted = known(source.receiver(call), _ARGUMENTS)
    unknown = "`bincount` has no `minlength`, so nothing shows how many counts there are"
    equal = place.equal_to(call) if "minlength" not in given else None
    length = given.get("minlength") or cst.parse_expression(known(equal, unknown).names[0])
    weights = need(
        given.get("weights", cst.Name("None")), cst.Name, "the weights aren't a name"
    ).value
    index = counted if isinstance(counted, cst.Name) else cst.Name(source.free_name("index"))
    like, ones = (
        ("{index}", "torch.ones_like({index})") if weights == "None" else (weights, weights)
    )
    template = f"{like}.new_zeros({{length}}).scatter_add(0, {{index}}, {ones})"
    new: cst.BaseExpression = expression(template, index=index, length=length)
    change: Change = call, new
    if index is not counted:
        line = next(node for node in source.parents(call) if isinstance(node, cst.BaseStatement))
        own = "the call has no statement of its own"
        only(need(line, cst.SimpleStatementLine, own).body, own)
        first = assigned(index.deep_clone(), counted.with_changes(lpar=(), rpar=()).deep_clone())
        rest = line.with_changes(leading_lines=()).deep_replace(call, new)
        change = (
            line,
            [
                after_lines(first, getattr(line, "leading_lines", ())),
                cast("cst.BaseStatement", rest),
            ],
        )
    title = (
        f"Count into `{source.shortened(length)}` places with `scatter_add` in place of `bincount`"
    )
    return place.edit(title if equal is None else f"{title}{equal.words}", change)


@recipe("GD104", "GD100")
def repeat_to_known_size(place: Place) -> Edit:
    """``x.repeat_interleave(n)`` becomes ``x.repeat_interleave(n, output_size=y.shape[0])``.

    The size is one that the result had in each call. Unsafe: another sum of the repeats makes it
    fail, on a GPU without an error.
    """
    call = place.nearby_call(_REPEAT)
    equal = known(place.equal_to(call), "no size in scope equals that of the result")
    size = cst.parse_expression(equal.names[0])
    title = f"Pass `output_size={equal.names[0]}` to `{_REPEAT}`{equal.words}"
    return place.edit(title, (call, _with_argument(call, "output_size", size)))


_IS_SORT = matchers.Call(
    func=matchers.Name("sorted")
    | matchers.Attribute(attr=matchers.Name("sort"), value=matchers.Name())
)


@recipe("GD123")
def sort_in_graph(place: Place) -> Edit:
    """``sorted([a, b])`` becomes ``list(torch.stack([a, b]).sort().values)``.

    Unsafe: the tensors must be zero-dim and have one dtype and device, NaN sorts to the end, and
        equal values share
    gradients differently.
    """
    source = place.source
    found = [place.expression] if place.expression is not None else calls_in(place.small_statement)
    sorts = [
        call for call in found if isinstance(call, cst.Call) and matchers.matches(call, _IS_SORT)
    ]
    call = only(sorts, "the line doesn't call `sorted` or `sort` exactly once", "another_line")
    title = "Sort the tensors in the graph"
    if isinstance(call.func, cst.Attribute):
        line = need(source.parent(call), cst.Expr, "what it sorts isn't a variable")
        new = expression("list({values})", values=_sorted(source, call.func.value, call.args))
        whole = (
            assigned(expression("{x}[:]", x=call.func.value), new)
            .body[0]
            .with_changes(semicolon=line.semicolon)
        )
        return place.edit(title, (line, whole))
    is_plain = call.args and call.args[0].keyword is None and not call.args[0].star
    decline_if(not is_plain, "it doesn't say what it sorts")
    values = _sorted(source, call.args[0].value, call.args[1:])
    is_apart = _is_taken_apart(source.parent(call))
    return place.edit(
        title, (call, values if is_apart else expression("list({values})", values=values))
    )


def _sorted(
    source: SourceFile, listed: cst.BaseExpression, options: Sequence[cst.Arg]
) -> cst.BaseExpression:
    decline_if(
        not isinstance(listed, cst.List | cst.Tuple | cst.ListComp | cst.Name),
        "what it sorts isn't a list",
    )
    decline_if(
        isinstance(listed, cst.List | cst.Tuple) and not listed.elements, "what it sorts is empty"
    )
    descending = ""
    for option in options:
        decline_if(keyword_of(option) != "reverse", "it sorts by a key")
        descending = f"descending={source.code(option.value)}"
    return expression(f"torch.stack({{listed}}).sort({descending}).values", listed=listed)


def _is_taken_apart(parent: cst.CSTNode) -> bool:
    """``low, high = sorted(x)`` or ``sorted(x)[0]``: the type of the container doesn't matter."""
    match parent:
        case cst.Subscript(slice=[cst.SubscriptElement(slice=cst.Index())]):
            return True
        case cst.Assign(targets=targets):
            return all(isinstance(target.target, cst.Tuple | cst.List) for target in targets)
    return False
