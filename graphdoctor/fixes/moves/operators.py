"""Operators that torch doesn't trace, or not well: NumPy's functions, ``one_hot``, ``bincount``,
``repeat_interleave``, ``sorted``, ``deepcopy``; each has a row that says what does the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from libcst import (
    Arg,
    Assign,
    AssignTarget,
    Attribute,
    BaseExpression,
    BaseNumber,
    BaseParenthesizableWhitespace,
    BaseString,
    BinaryOperation,
    Call,
    Comma,
    Comparison,
    ComparisonTarget,
    CSTNode,
    Dict,
    DictComp,
    DictElement,
    Element,
    Expr,
    Float,
    FunctionDef,
    Index,
    Integer,
    List,
    ListComp,
    Name,
    Param,
    ParenthesizedWhitespace,
    SimpleString,
    SimpleWhitespace,
    Subscript,
    Tuple,
    parse_expression,
    parse_module,
)

from graphdoctor.fixes.recipe import Edit, Place, recipe
from graphdoctor.fixes.source.expressions import is_literal_number
from graphdoctor.fixes.source.nodes import (
    assigned,
    bare,
    below_new,
    by_name,
    calls_in,
    expression,
    index_of,
    keyword_argument,
    keyword_of,
    method_call,
    name_set,
    refuse_comment,
    torch_call,
)
from graphdoctor.fixes.source.torch_names import words
from graphdoctor.fixes.source.tree import (
    Change,
    DeclinedError,
    SourceFile,
    decline_if,
    dotted,
    known,
    last_name,
    need,
    only,
)

_ARGUMENTS = "its arguments aren't supported"
_NUMPY = {
    "interp": ("x xp fp", "_interp({x}, {xp}, {fp})"),
    "select": ("condlist choicelist | default", ""),
    "digitize": ("x bins", "np.searchsorted({bins}, {x}, side='right')"),
    "ediff1d": ("ary", "np.diff(np.ravel({ary}))"),
    "nanmax": ("a | axis", "np.nan_to_num({a}, nan=-np.inf, posinf=np.inf, neginf=-np.inf).max()"),
    "nanmin": ("a | axis", "np.nan_to_num({a}, nan=np.inf, posinf=np.inf, neginf=-np.inf).min()"),
    "trapezoid": ("y | x dx axis", "torch.trapezoid({y})"),
    "trapz": ("y | x dx axis", "torch.trapezoid({y})"),
    "isin": ("element test_elements", "torch.isin({element}, {test_elements})"),
    "nanmean": ("a | axis", "torch.nanmean({a})"),
    "nansum": ("a | axis", "torch.nansum({a})"),
    "nanmedian": ("a | axis", "torch.nanquantile({a}, 0.5)"),
    "nanquantile": ("a q | axis", "torch.nanquantile({a}, {q})"),
    "nanpercentile": ("a q | axis", "torch.nanquantile({a}, {q} / 100)"),
}
"""NumPy functions that torch 2.13 doesn't trace: arguments that are needed | supported, and what
does the same; arguments that are supported come last, by keyword."""

_ARRAYS = ("a", "x", "y", "element", "test_elements")
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

_CLASSES = words("""
    num_classes n_classes nb_classes classes num_class n_class num_labels n_labels num_categories
    n_categories num_experts n_experts vocab_size num_embeddings num_tokens
""")
"""Common names for the number of classes."""


@recipe("GD109")
def numpy_to_torch(place: Place) -> Edit:
    """``torch.from_numpy(np.nanmean(x.numpy(), axis=0))`` becomes ``torch.nanmean(x, dim=0)``,
    ``np.digitize(x, bins)`` an ``np.searchsorted``, which torch traces, and ``np.interp`` a call to
    a new function.

    Unsafe: for lists and numbers, dtypes may differ, and the last bits always may.
    """
    source = place.source
    call = place.pointed_call(
        lambda node: source.dotted_name(node).startswith("numpy."), "a call to a NumPy function"
    )
    name, code = source.dotted_name(call).removeprefix("numpy."), source.code(call.func)
    decline_if(name not in _NUMPY, f"there is no known torch version of `{code}`")
    refuse_comment(call)
    parameters, template = _NUMPY[name]
    needed = parameters.partition("|")[0].split()
    given = by_name(call.args, parameters.replace("|", "").split(), _ARGUMENTS)
    # None is the default.
    given = {key: value for key, value in given.items() if dotted(value) != "None"}
    has_axes = isinstance(given.get("axis"), Tuple) and "nanquantile" in template
    decline_if(
        has_axes or not given.keys() >= set(needed) or {"x", "dx"} <= given.keys(), _ARGUMENTS
    )
    module = source.code(call.func.value) if isinstance(call.func, Attribute) else "numpy"
    if name == "interp":
        decline_if(isinstance(given["x"], BaseNumber), "it interpolates a single number")
        title = f"Use `_interp`, which uses torch operations, in place of `{code}`"
        return place.edit(title, _with_interp(source, call, expression(template, **given)))
    if name == "select":
        return place.edit(
            f"Use `{module}.where` in place of `{code}`", (call, _selected(module, given))
        )
    is_torch = template.startswith("torch.")
    is_number = "{q}" not in template or isinstance(given["q"], Integer | Float)
    decline_if(not is_number, "its quantile isn't a literal number")
    if is_torch:
        given = {key: _tensor(value) if key in _ARRAYS else value for key, value in given.items()}
    new = need(expression(template.replace("np.", f"{module}."), **given), Call)
    for key in [key for key in given if key not in needed]:
        new = with_argument(new, "dim" if is_torch and key == "axis" else key, given[key])
    head = source.code(new.func).partition("(")[0]
    outer = source.parent(source.parent(call))
    takers = ("torch.from_numpy", "torch.as_tensor", "torch.tensor")
    is_taken = (
        isinstance(outer, Call) and source.dotted_name(outer) in takers and len(outer.args) == 1
    )
    change: Change = (outer if is_torch and is_taken else call, new)
    if is_torch and not is_taken:
        change = (call, method_call(new, "numpy"))
    return place.edit(f"Use `{head}` in place of `{code}`", change)


def _selected(module: str, given: dict[str, BaseExpression]) -> BaseExpression:
    """Write ``np.where(a, x, np.where(b, y, default))``."""
    unclear = "its conditions aren't a literal list"
    conditions, choices = (
        need(given[name], List, unclear).elements for name in ("condlist", "choicelist")
    )
    is_plain = all(isinstance(element, Element) for element in (*conditions, *choices))
    decline_if(not conditions or not is_plain or len(conditions) != len(choices), unclear)
    result = given.get("default", Integer("0"))
    template = f"{module}.where({{condition}}, {{choice}}, {{rest}})"
    for condition, choice in reversed(list(zip(conditions, choices, strict=True))):
        result = expression(template, condition=condition.value, choice=choice.value, rest=result)
    return result


def _tensor(array: BaseExpression) -> BaseExpression:
    """Return ``x`` for ``x.numpy()``, and ``torch.as_tensor(…)`` for everything else."""
    match array:
        case Call(func=Attribute(value=tensor, attr=Name("numpy")), args=[]):
            return tensor
    return expression("torch.as_tensor({array})", array=array)


def _with_interp(source: SourceFile, call: Call, new: BaseExpression) -> Change:
    text = _INTERP.replace("    ", source.tree.default_indent)
    function = need(parse_module(text, config=source.tree.config_for_parsing).body[0], FunctionDef)
    functions = [
        source.code(line).strip() for line in source.tree.body if isinstance(line, FunctionDef)
    ]
    if source.code(function).strip() in functions:
        return call, new
    decline_if(source.free_name("_interp") != "_interp", "the name `_interp` is already used")
    return below_new(source, call, new, function)


def with_argument(call: Call, name: str, value: BaseExpression) -> Call:
    """Add an argument to a call, on a line of its own if the others are."""
    if not call.args:
        return call.with_changes(args=[keyword_argument(name, value.deep_clone())])
    *rest, last = call.args
    start, comma = call.whitespace_before_args, last.comma
    has_comma = isinstance(comma, Comma)
    end = comma.whitespace_after if isinstance(comma, Comma) else last.whitespace_after_arg
    lines = start if isinstance(start, ParenthesizedWhitespace) else end
    between: BaseParenthesizableWhitespace = SimpleWhitespace(" ")
    if isinstance(lines, ParenthesizedWhitespace):
        # The brackets have lines of their own, so the argument gets one too.
        between = ParenthesizedWhitespace(indent=lines.indent, last_line=lines.last_line)
    if isinstance(end, ParenthesizedWhitespace):
        between = need(between, ParenthesizedWhitespace).with_changes(first_line=end.first_line)
        end = ParenthesizedWhitespace(indent=end.indent, last_line=end.last_line)
    after = Comma(whitespace_after=between)
    before = last.with_changes(comma=after, whitespace_after_arg=SimpleWhitespace(""))
    added = keyword_argument(name, value)
    if has_comma:
        added = added.with_changes(comma=Comma(whitespace_after=end))
    else:
        added = added.with_changes(whitespace_after_arg=end)
    return call.with_changes(args=[*rest, before, added]).deep_clone()


@recipe("GD104", "GD103")
def one_hot_classes(place: Place) -> Edit:
    """``F.one_hot(labels)`` becomes ``F.one_hot(labels, num_classes=self.num_classes)``.

    Unsafe: without the number, the width of the result depends on the largest label of the call;
    with it, the width is always the number of classes.
    """
    source = place.source
    call = place.pointed_call(
        lambda node: bool(node.args) and source.dotted_name(node) == "torch.nn.functional.one_hot",
        "a call to `one_hot`",
    )
    given = by_name(call.args, ("tensor", "num_classes"), "its arguments are unpacked")
    classes = given.get("num_classes")
    is_open = classes is None or source.code(classes).replace(" ", "") == "-1"
    decline_if(not is_open, "it already has a number of classes")
    spelled = {name for base in _CLASSES for name in (base, base.upper())}
    names = {name for name in spelled if source.is_in_scope(call, name)}
    names |= {f"self.{name}" for name in source.own_attributes(call) & _CLASSES}
    names -= name_set(call)
    decline_if(len(names) > 1, "several numbers of classes are in scope")
    decline_if(not names, "no number of classes is in scope")
    number = parse_expression(name := names.pop())
    with_number = with_argument(call, "num_classes", number)
    change: Change = (call, with_number) if classes is None else (classes, number)
    return place.edit(f"Pass `num_classes={name}` to `one_hot`", change)


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


@recipe("GD123")
def sort_in_graph(place: Place) -> Edit:
    """``sorted([a, b])`` becomes ``list(torch.stack([a, b]).sort().values)``.

    Unsafe: the tensors must be zero-dim and have one dtype and device, NaN sorts to the end, and
    equal values share gradients differently.
    """
    source = place.source
    pointed = (
        [place.expression] if place.expression is not None else calls_in(place.small_statement)
    )
    sorts: list[Call] = []
    for node in pointed:
        match node:
            case Call(func=Name("sorted") | Attribute(value=Name(), attr=Name("sort"))):
                sorts.append(node)
    call = only(sorts, "the line doesn't call `sorted` or `sort` exactly once", "another_line")
    title = "Sort the tensors in the graph"
    if isinstance(call.func, Attribute):
        line = need(source.parent(call), Expr, "what it sorts isn't a variable")
        new = expression("list({values})", values=_sorted(source, call.func.value, call.args))
        whole = assigned(expression("{x}[:]", x=call.func.value), new).body[0]
        return place.edit(title, (line, whole.with_changes(semicolon=line.semicolon)))
    is_plain = call.args and call.args[0].keyword is None and not call.args[0].star
    decline_if(not is_plain, "it doesn't say what it sorts")
    values = _sorted(source, call.args[0].value, call.args[1:])
    # In `low, high = sorted(x)` and `sorted(x)[0]`, the type of the container doesn't matter.
    user = source.parent(call)
    is_apart = index_of(user) is not None
    if isinstance(user, Assign):
        is_apart = all(isinstance(target.target, Tuple | List) for target in user.targets)
    new = values if is_apart else expression("list({values})", values=values)
    return place.edit(title, (call, new))


def _sorted(source: SourceFile, listed: BaseExpression, options: Sequence[Arg]) -> BaseExpression:
    is_list = isinstance(listed, List | Tuple | ListComp | Name)
    decline_if(not is_list, "what it sorts isn't a list")
    is_empty = isinstance(listed, List | Tuple) and not listed.elements
    decline_if(is_empty, "what it sorts is empty")
    descending = ""
    for option in options:
        decline_if(keyword_of(option) != "reverse", "it sorts by a key")
        descending = f"descending={source.code(option.value)}"
    return expression(f"torch.stack({{listed}}).sort({descending}).values", listed=listed)


_NOT_A_TENSOR = "what is copied may not be a tensor"
_EACH = {
    "dict": "{name: value.detach().clone() for name, value in {copied}.items()}",
    "list": "[value.detach().clone() for value in {copied}]",
    "tuple": "tuple(value.detach().clone() for value in {copied})",
}


@recipe("GD108")
def clone_instead_of_deepcopy(place: Place) -> Edit:
    """``copy.deepcopy(t)`` becomes ``t.detach().clone()``; for a dict or list, a clone of each
    tensor in it.

    Safe for a tensor that is visibly detached. For others, ``deepcopy`` of a leaf returns a leaf
    that requires a gradient, which a detached clone doesn't; and objects that a container shares
    are no longer shared.
    """
    source = place.source

    def copied_by(node: CSTNode) -> BaseExpression | None:
        match node:
            case Call(args=[Arg(value=value, star="", keyword=None)]):
                return value if source.dotted_name(node) == "copy.deepcopy" else None
        return None

    call = place.pointed_call(copied_by, "a call to `copy.deepcopy`")
    copied = known(copied_by(call))
    refuse_comment(call, copied)
    title = f"Clone `{source.shortened(copied)}` in place of `deepcopy`"
    is_safe = source.method_name(copied) == "detach"
    return place.edit(title, (call, _clones(source, copied)), is_safe=is_safe)


def _clones(source: SourceFile, copied: BaseExpression) -> BaseExpression:
    match copied:
        case List() | Tuple() | Dict():
            elements = []
            for element in copied.elements:
                if not isinstance(element, Element | DictElement):
                    raise DeclinedError("the container unpacks other containers")
                is_kept = isinstance(element.value, BaseNumber | BaseString)
                value = element.value if is_kept else _clones(source, element.value)
                elements.append(element.with_changes(value=value))
            return copied.with_changes(elements=elements)
        case Attribute() | Name() if kind := _kind(source, copied):
            return expression(_EACH[kind], copied=copied)
        case Attribute() | Name():
            pass
        case _:
            is_tensor = source.is_tensor(copied) or isinstance(copied, Subscript)
            decline_if(not is_tensor, _NOT_A_TENSOR)
    is_detached = source.method_name(copied) == "detach"
    return method_call(copied, *([] if is_detached else ["detach"]), "clone")


def _kind(source: SourceFile, copied: Attribute | Name) -> str:
    """Return ``dict``, ``list`` or ``tuple``, or an empty string for a tensor."""
    parameter = source.parameter(copied)
    if parameter is not None:
        return _annotated(parameter)
    values, code = source.bound_to(copied), source.code(copied)
    is_unknown = isinstance(copied, Attribute) and not values
    decline_if(is_unknown, f"nothing in the file says what `{code}` is")
    kinds = {_kind_of(source, value) for value in values if value is not None} or {""}
    decline_if(len(kinds) > 1, f"`{code}` is set to values of different kinds")
    return kinds.pop()


def _kind_of(source: SourceFile, value: BaseExpression) -> str:
    match value:
        case Dict(elements=elements) | List(elements=elements) | Tuple(elements=elements):
            parts = [part.value for part in elements if isinstance(part, Element | DictElement)]
            is_whole = bool(parts) and len(parts) == len(elements)
        case DictComp(value=part) | ListComp(elt=part):
            parts, is_whole = [part], True
        case _:
            decline_if(not source.is_tensor(value), _NOT_A_TENSOR)
            return ""
    is_all = is_whole and all(map(source.is_tensor, parts))
    decline_if(not is_all, "not everything in the container is a tensor")
    return type(value).__name__.lower().removesuffix("comp")


def _annotated(parameter: Param) -> str:
    """Return what a parameter's annotation says; one without is taken to be a tensor."""
    annotation = parameter.annotation.annotation if parameter.annotation is not None else None
    match annotation:
        case Subscript(value=Name(value=name), slice=parts) if name.lower() in _EACH:
            inner = [part.slice.value for part in parts if isinstance(part.slice, Index)]
            if [last_name(part) for part in inner if dotted(part)][-1:] == ["Tensor"]:
                return name.lower()
    is_other = annotation is not None and last_name(annotation) != "Tensor"
    decline_if(is_other, f"`{parameter.name.value}` may not be a tensor")
    return ""


_MAKERS = words(
    """
    arange empty eye full linspace logspace ones scalar_tensor tensor zeros tril_indices
    triu_indices
""",
    "torch.",
)
"""Functions that make a tensor of the same values on any device; random numbers differ between
devices."""


@recipe("GD504")
def create_on_device(place: Place) -> Edit:
    """Gives what makes a tensor the device that it is moved to, or that of what it is computed
    with.

    ``torch.arange(n).to(x.device)`` becomes ``torch.arange(n, device=x.device)``, and ``x *
    torch.tensor(2.0)`` becomes ``x * torch.full((), 2.0, device=x.device)``: ``torch.tensor``
    copies from the CPU, wherever it goes. A round trip, ``(x.cpu() + 1).cuda()``, stays on the GPU.
    Unsafe: devices round differently.
    """
    skip = place.finding.cuda_graph_skip
    is_other = skip is not None and skip.kind != "cpu_device"
    decline_if(is_other, "edits only move tensors from the CPU to the GPU")
    for change, title in _moves(place.source, place.small_statement):
        return place.edit(title, change)
    raise DeclinedError("the line doesn't say which device its tensors belong on")


def _moves(source: SourceFile, statement: CSTNode) -> Iterator[tuple[Change, str]]:
    calls = calls_in(statement)
    makers = [
        call
        for call in calls
        if source.dotted_name(call) in _MAKERS
        and not any(argument.star or keyword_of(argument) == "device" for argument in call.args)
    ]
    moves = [(call, target) for call in calls if (target := _moved_to(call)) is not None]
    for call, target in moves:
        if isinstance(call.func, Attribute) and call.func.value in makers:
            yield _made_on(source, call, call.func.value, target)
    for call in makers:
        if (tensor := _computed_with(source, call)) is not None:
            yield _made_on(source, call, call, Attribute(tensor.deep_clone(), Name("device")))
    for call, _ in moves:
        yield from _round_trip(source, call)
    for target in _moves_of_its_value(source, statement):
        root = target.value if isinstance(target, Attribute) else target
        # A device that is named later can be named here if it is a text, or that of a parameter.
        is_known = isinstance(root, SimpleString) or source.parameter(root) is not None
        yield from (_made_on(source, call, call, target) for call in makers if is_known)
        yield from _round_trip(source, statement)


def _moved_to(call: CSTNode) -> BaseExpression | None:
    """Return the device that ``t.to(x.device)``, ``t.to("cuda")`` or ``t.cuda()`` moves a tensor
    to; None for other calls.
    """
    match call:
        case Call(func=Attribute(attr=Name("cuda")), args=[]):
            return SimpleString('"cuda"')
        case Call(
            func=Attribute(attr=Name("to")),
            args=[Arg(keyword=None | Name("device"), star="", value=to)],
        ):
            text = str(to.evaluated_value) if isinstance(to, SimpleString) else ""
            is_device = last_name(to) == "device" or text.partition(":")[0] == "cuda"
            return to if is_device else None
    return None


def _made_on(
    source: SourceFile, old: Call, made: CSTNode, device: BaseExpression
) -> tuple[Change, str]:
    call = need(made, Call)
    where = keyword_argument("device", device.deep_clone())
    title = f"Make `{source.code(call)}` on the device where it is used"
    copy = call.deep_clone()
    if source.dotted_name(call) != "torch.tensor":
        return (old, copy.with_changes(args=[*copy.args, where])), title
    # `torch.full` in place of `torch.tensor` of a number, which is made on the CPU and copied.
    first = call.args[0].value if call.args and call.args[0].keyword is None else None
    decline_if(
        not is_literal_number(first),
        "its values come from Python, so they are copied to the GPU in any case",
    )
    func = need(copy.func, Attribute, "`torch.tensor` has another name in the file")
    args = [Arg(Tuple([])), *copy.args, where]
    return (old, Call(func.with_changes(attr=Name("full")), args)), title


def _computed_with(source: SourceFile, call: Call) -> BaseExpression | None:
    parent = source.parent(call)
    sides: list[BaseExpression] = []
    match source.parent(parent) if isinstance(parent, ComparisonTarget) else parent:
        case BinaryOperation(left=left, right=right):
            sides = [left, right]
        case Comparison(left=left, comparisons=comparisons):
            sides = [left, *(comparison.comparator for comparison in comparisons)]
    names = (side for side in sides if isinstance(side, Name))
    return next((name for name in names if source.is_tensor(name) or source.parameter(name)), None)


def _moves_of_its_value(source: SourceFile, statement: CSTNode) -> Iterator[BaseExpression]:
    match statement:
        case Assign(targets=[AssignTarget(target=Name() as name)]) if source.is_local(name):
            methods = [source.parent(read) for read in source.reads(name)]
            calls = [source.parent(method) for method in methods if isinstance(method, Attribute)]
            yield from filter(None, map(_moved_to, calls))


def _round_trip(source: SourceFile, back: CSTNode) -> Iterator[tuple[Change, str]]:
    for node in calls_in(back):
        match node:
            case Call(func=Attribute(value=value, attr=Name("cpu")), args=[]):
                is_away = True
            case Call(
                func=Attribute(value=value, attr=Name("to")), args=[Arg(value=SimpleString() as to)]
            ):
                is_away = to.evaluated_value == "cpu"
            case _:
                continue
        if is_away and node is not back:
            yield (node, value.deep_clone()), f"Keep `{source.code(value)}` on the GPU"
