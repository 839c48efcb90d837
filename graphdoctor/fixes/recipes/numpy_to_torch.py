"""NumPy functions that torch doesn't trace: replace them with calls that it traces."""

from __future__ import annotations

import libcst as cst
from libcst.helpers import parse_template_expression

from graphdoctor.fixes.recipe import Edit, recipe
from graphdoctor.fixes.source.names import dotted_name, has_comment
from graphdoctor.fixes.source.place import Place, pointed
from graphdoctor.fixes.source.tree import Change, DeclinedError, SourceFile, decline_if, walk

_PARAMETERS = {
    "interp": ("x", "xp", "fp"),
    "digitize": ("x", "bins"),
    "trapezoid": ("y", "x", "dx", "axis"),
    "trapz": ("y", "x", "dx", "axis"),
    "nanmean": ("a", "axis"),
    "nansum": ("a", "axis"),
    "nanmedian": ("a", "axis"),
    "nanquantile": ("a", "q", "axis"),
    "nanpercentile": ("a", "q", "axis"),
    "nanmax": ("a", "axis"),
    "nanmin": ("a", "axis"),
    "select": ("condlist", "choicelist", "default"),
    "isin": ("element", "test_elements"),
    "ediff1d": ("ary",),
}
"""NumPy functions that torch 2.13 doesn't trace, and the arguments that are supported."""

_REQUIRED = {"interp": 3, "digitize": 2, "nanquantile": 2, "nanpercentile": 2, "select": 2, "isin": 2}

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


@recipe("GD109")
def numpy_to_torch(place: Place) -> Edit:
    """``np.interp(x, xp, fp)`` becomes a call to a new function that computes the same with torch.

    Others become one call: ``torch.from_numpy(np.nanmean(x.numpy(), axis=0))`` becomes ``torch.nanmean(x, dim=0)``, and
    ``np.digitize(x, bins)`` becomes an ``np.searchsorted``, which torch traces. Unsafe: for lists and numbers, dtypes
    may differ, and the last bits always may.
    """
    source = place.source
    call = pointed(place, lambda node: bool(_function(source, node)), "a call to a NumPy function")
    assert isinstance(call, cst.Call)  # _function says so
    name = _function(source, call)
    if name not in _PARAMETERS:
        raise DeclinedError(f"there is no known torch version of `{source.code(call.func)}`")
    decline_if(has_comment(call), "a comment inside it would be lost")
    given = _given(call, name)
    if name == "interp":
        if isinstance(given["x"], cst.BaseNumber):
            raise DeclinedError("it interpolates a single number")
        title, content = "`_interp`, which uses torch operations,", _with_interp(source, call, given)
    elif name in ("digitize", "nanmax", "nanmin", "select", "ediff1d"):
        new, imports = _in_numpy(source, call, name, given)
        title, content = f"`{_head(source, new)}`", source.replaced((call, new), imports=imports)
    else:
        result = _in_torch(name, given)
        whole, new = _taken(source, call, result)
        title, content = f"`{_head(source, result)}`", source.replaced((whole, new), imports=("torch",))
    return Edit(title=f"Use {title} in place of `{source.code(call.func)}`", content=content, is_safe=False)


def _function(source: SourceFile, node: cst.BaseExpression) -> str:
    """``interp`` for a call to ``np.interp``; an empty string for other calls."""
    name = dotted_name(source, node.func) if isinstance(node, cst.Call) else ""
    return name.removeprefix("numpy.") if name.startswith("numpy.") else ""


def _given(call: cst.Call, name: str) -> dict[str, cst.BaseExpression]:
    """Arguments by name; those that are None, the default, are left out."""
    parameters = _PARAMETERS[name]
    found: dict[str, cst.BaseExpression] = {}
    for number, argument in enumerate(call.args):
        key = argument.keyword.value if argument.keyword is not None else "".join(parameters[number : number + 1])
        decline_if(argument.star or key not in parameters or key in found, "its arguments aren't supported")
        found[key] = argument.value
    if len(found) < _REQUIRED.get(name, 1) or not set(parameters[: _REQUIRED.get(name, 1)]) <= set(found):
        raise DeclinedError("its arguments aren't supported")
    return {key: value for key, value in found.items() if not _is_none(value)}


def _in_numpy(
    source: SourceFile, call: cst.Call, name: str, given: dict[str, cst.BaseExpression]
) -> tuple[cst.BaseExpression, tuple[str, ...]]:
    """The same computation with NumPy functions that torch traces, and the modules that it needs."""
    module = source.code(call.func.value) if isinstance(call.func, cst.Attribute) else "numpy"
    imports = () if isinstance(call.func, cst.Attribute) else ("numpy",)
    if name == "digitize":
        return _template(f"{module}.searchsorted({{bins}}, {{x}}, side='right')", given), imports
    if name == "ediff1d":
        return _template(f"{module}.diff({module}.ravel({{ary}}))", given), imports
    if name == "select":
        return _selected(module, given), imports
    worst = "-" if name == "nanmax" else ""
    axis = "axis={axis}" if "axis" in given else ""
    text = (
        f"{module}.nan_to_num({{a}}, nan={worst}{module}.inf, posinf={module}.inf, neginf=-{module}.inf)"
        f".{name.removeprefix('nan')}({axis})"
    )
    return _template(text, given), imports


def _selected(module: str, given: dict[str, cst.BaseExpression]) -> cst.BaseExpression:
    """``np.where(a, x, np.where(b, y, default))``."""
    conditions, choices = given["condlist"], given["choicelist"]
    if not isinstance(conditions, cst.List) or not isinstance(choices, cst.List):
        raise DeclinedError("its conditions aren't a literal list")
    pairs = list(zip(conditions.elements, choices.elements, strict=False))
    is_plain = all(isinstance(element, cst.Element) for pair in pairs for element in pair)
    if not pairs or not is_plain or len(conditions.elements) != len(choices.elements):
        raise DeclinedError("its conditions aren't a literal list")
    result = given.get("default", cst.Integer("0"))
    for condition, choice in reversed(pairs):
        parts = {"condition": condition.value, "choice": choice.value, "rest": result}
        result = _template(f"{module}.where({{condition}}, {{choice}}, {{rest}})", parts)
    return result


def _in_torch(name: str, given: dict[str, cst.BaseExpression]) -> cst.BaseExpression:
    """A tensor with the same values that NumPy would compute."""
    axis = ", dim={axis}" if "axis" in given else ""
    if name in ("trapezoid", "trapz"):
        decline_if("x" in given and "dx" in given, "its arguments aren't supported")
        step = ", {x}" if "x" in given else ", dx={dx}" if "dx" in given else ""
        tensors: dict[str, cst.BaseExpression] = {key: _tensor(given[key]) for key in ("x", "y") if key in given}
        return _template(f"torch.trapezoid({{y}}{step}{axis})", given | tensors)
    if name == "isin":
        return _template("torch.isin({a}, {b})", {"a": _tensor(given["element"]), "b": _tensor(given["test_elements"])})
    given = {**given, "a": _tensor(given["a"])}
    if isinstance(given.get("axis"), cst.Tuple) and name not in ("nanmean", "nansum"):
        raise DeclinedError("its arguments aren't supported")
    if name in ("nanmean", "nansum"):
        return _template(f"torch.{name}({{a}}{axis})", given)
    if name != "nanmedian" and not isinstance(given.get("q"), cst.Integer | cst.Float):
        raise DeclinedError("its quantile isn't a literal number")
    fraction = "0.5" if name == "nanmedian" else "{q}" if name == "nanquantile" else "{q} / 100"
    return _template(f"torch.nanquantile({{a}}, {fraction}{axis})", given)


def _tensor(array: cst.BaseExpression) -> cst.BaseExpression:
    """``x`` for ``x.numpy()``, and ``torch.as_tensor(…)`` for everything else."""
    match array:
        case cst.Call(func=cst.Attribute(value=tensor, attr=cst.Name("numpy")), args=[]):
            return tensor
    return _template("torch.as_tensor({array})", {"array": array})


def _taken(
    source: SourceFile, call: cst.Call, result: cst.BaseExpression
) -> tuple[cst.BaseExpression, cst.BaseExpression]:
    """What to replace, the call or the conversion of its result to a tensor, and the tensor or array to put there."""
    parents = source.parents(call)
    argument, outer = next(parents), next(parents)
    makers = ("torch.from_numpy", "torch.as_tensor", "torch.tensor")
    is_whole = isinstance(argument, cst.Arg) and isinstance(outer, cst.Call) and len(outer.args) == 1
    if is_whole and isinstance(outer, cst.Call) and dotted_name(source, outer.func) in makers:
        return outer, result
    return call, cst.Call(cst.Attribute(result, cst.Name("numpy")))


def _with_interp(source: SourceFile, call: cst.Call, given: dict[str, cst.BaseExpression]) -> bytes:
    """The file with a new function above the statement that interpolates."""
    text = _INTERP.replace("    ", source.tree.default_indent)
    function = cst.parse_module(text, config=source.tree.config_for_parsing).body[0]
    new = _template("_interp({x}, {xp}, {fp})", given)
    taken = [line for line in source.tree.body if isinstance(line, cst.FunctionDef) and line.name.value == "_interp"]
    if any(source.code(line).strip() == source.code(function).strip() for line in taken):
        return source.replaced((call, new), imports=("torch",))
    if taken or any(isinstance(node, cst.Name) and node.value == "_interp" for node in walk(source.tree)):
        raise DeclinedError("the name `_interp` is already used")
    statement = list(source.parents(call))[-2]
    assert isinstance(statement, cst.BaseStatement)  # a line of a module
    blank = [cst.EmptyLine(indent=False), cst.EmptyLine(indent=False)]
    is_first = source.tree.body[0] is statement
    leading = list(getattr(statement, "leading_lines", ()))
    spaces = next((number for number, line in enumerate(leading) if line.comment is not None), len(leading))
    below = statement.deep_replace(call, new).with_changes(leading_lines=[*blank[spaces:], *leading])
    above = function.with_changes(leading_lines=[] if is_first else blank)
    change: Change = (statement, cst.FlattenSentinel([above, below]))
    return source.replaced(change, imports=("torch",))


def _head(source: SourceFile, node: cst.BaseExpression) -> str:
    return source.code(node.func).partition("(")[0] if isinstance(node, cst.Call) else source.code(node)


def _is_none(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Name) and node.value == "None"


def _template(text: str, parts: dict[str, cst.BaseExpression]) -> cst.BaseExpression:
    used = {key: value.deep_clone() for key, value in parts.items() if f"{{{key}}}" in text}
    return parse_template_expression(text, cst.PartialParserConfig(), **used)
