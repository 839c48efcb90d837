"""Turns a failed guard into what changed.

Comes in: a recompile reason or the text of a failed guard, split into its parts. Goes out: ``GuardChange``, with
``new`` None if the text has only the expected value. An unknown form keeps torch's own words.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import partial

from graphdoctor.facts import expressions
from graphdoctor.facts.recompiles import ChangeKind, GuardChange
from graphdoctor.trace.guards import forms
from graphdoctor.trace.guards.forms import Form, read_form
from graphdoctor.trace.guards.state import named_changes, short_dtype
from graphdoctor.trace.guards.text import GuardText

_MODULE_ATTRIBUTE = re.compile(r"(?:L\['self'\]|self|L\['fn'\]|fn|L\['args'\]\[0\]|args\[0\])[.\[](?:.*\.)?\w+$")
_ON_SIZES = re.compile(r"\.(?:size|stride|storage_offset)\(\)")
_RELATIONS = ("Eq(", "Ne(", "Mod(")
"""Beginnings of conditions that sympy prints as calls (``torch/fx/experimental/symbolic_shapes.py``, 2.13)."""

expression = partial(expressions.expression, carried=str)
"""A source in the user's words; values passed to a resume function keep torch's names, until the break is known."""


def changes_of(guard: GuardText) -> Iterator[GuardChange]:
    """The change that a failed guard shows, or several changes of process-wide state."""
    form = read_form(guard.expression)
    if isinstance(form, forms.GlobalStateChanged):
        yield from named_changes(form.names)
        return
    change = _change(form, guard.expression)
    yield change.model_copy(
        update={
            "expression": expression(change.expression),
            "guard": guard.expression,
            "hint": change.hint or guard.hint,
        }
    )


def _change(form: Form, text: str) -> GuardChange:
    match form:
        case forms.TensorMismatch():
            return _tensor_mismatch(form)
        case forms.NotATensor(source, found):
            return GuardChange(kind="type", expression=source, old="a tensor", new=_article(found))
        case forms.TypeMismatch(source):
            return GuardChange(kind="type", expression=source)
        case forms.TypeIs(source, class_name):
            return GuardChange(kind="type", expression=source, old=_article(class_name) if class_name else None)
        case forms.ObjectIs(source):
            return GuardChange(kind="identity", expression=source.removesuffix(".__code__"))
        case forms.MissingMember(source):
            return GuardChange(kind="attribute", expression=source)
        case forms.HasAttribute(source, name, is_absent):
            return _presence("attribute", source, name, was_there=not is_absent)
        case forms.Contains(source, key, _, is_absent):
            return _presence("keys", source, key, was_there=not is_absent)
        case forms.Keys(source, keys):
            return GuardChange(kind="keys", expression=source, old=f"with the keys {keys}")
        case forms.KeyAt(source, _, key):
            return GuardChange(kind="keys", expression=source, old=f"with {key}")
        case forms.DictVersion(source):
            return GuardChange(kind="keys", expression=source)
        case forms.Length(source, length):
            return GuardChange(kind="length", expression=f"len({source})", old=length)
        case forms.Empty(source):
            return GuardChange(kind="length", expression=f"len({source})", old="0")
        case forms.IsNan(source, is_nan):
            old, new = ("NaN", None) if is_nan else (None, "NaN")
            return GuardChange(kind=value_kind(source, "0.0", None), expression=source, old=old, new=new)
        case forms.DynamicMarking(source):
            return GuardChange(kind="dynamic_marking", expression=f"the dims marked on {source}")
        case forms.MarkingMismatch(is_marked_now):
            old, new = ("not marked", "marked") if is_marked_now else ("marked", "not marked")
            return GuardChange(kind="dynamic_marking", expression="the dims marked on a tensor", old=old, new=new)
        case forms.DefaultDevice(device):
            return GuardChange(kind="default_device", expression="the default device", old=device)
        case forms.GlobalState() | forms.GlobalStateChanged() | forms.ForwardLevel() | forms.Whole.FUNCTORCH_STATE:
            return GuardChange(kind="global_state", expression="process-wide state of torch")
        case forms.SavedTensorHooks():
            return GuardChange(kind="global_state", expression="saved tensor hooks")
        case forms.Whole.MODE_STACK:
            return GuardChange(kind="function_mode", expression="the active torch function modes")
        case forms.Whole.BACKEND:
            return GuardChange(kind="backend", expression="the backend")
        case forms.Whole.ENTRY_GONE:
            return GuardChange(kind="entry_gone", expression="an object that the compiled code belonged to")
        case forms.NoAliasing(sources) | forms.SameTensor(sources):
            return _same_tensor(sources)
        case forms.Compared():
            return _compared(form, text)
        case forms.TensorMatch() | forms.Other():
            kind: ChangeKind = "relation" if is_relation(text) else "unknown"
            return GuardChange(kind=kind, expression=text)


def _tensor_mismatch(form: forms.TensorMismatch) -> GuardChange:
    """Torch's message about a tensor that doesn't fit."""
    name, old, new = form.source, form.expected, form.actual
    is_parameter = form.advice is not None and "parameter" in form.advice
    kind: ChangeKind
    match form.property:
        case "size":
            kind, member = "size", f"{name}.shape[{form.dim}]"
        case "stride":
            kind, member = "stride", f"{name}.stride({form.dim})"
        case "rank":
            kind, member = "rank", f"{name}.ndim"
        case "device":
            kind, member = "device", f"{name}.device"
        case "dtype":
            kind, member = "dtype", f"{name}.dtype"
            old, new = short_dtype(old), None if new is None else short_dtype(new)
        case "requires_grad":
            kind, member = "requires_grad", f"{name}.requires_grad"
            is_expected = old.rpartition("=")[2] == "1"
            old, new = str(is_expected), str(not is_expected)
        case "dispatch_keys":
            return dispatch_change(name, old, new or "")
    return GuardChange(kind=kind, expression=member, old=old, new=new, is_parameter=is_parameter, hint=form.advice)


def dispatch_change(name: str, old: str, new: str) -> GuardChange:
    """A change of dispatch keys; an inference tensor lacks those of autograd."""
    if ("ADInplaceOrView" in old) != ("ADInplaceOrView" in new):
        words = {True: "a normal tensor", False: "an inference tensor"}
        return GuardChange(
            kind="inference_mode",
            expression=name,
            old=words["ADInplaceOrView" in old],
            new=words["ADInplaceOrView" in new],
        )
    return GuardChange(kind="dispatch_keys", expression=name, old=old, new=new)


def _presence(kind: ChangeKind, source: str, name: str, *, was_there: bool) -> GuardChange:
    old, new = (f"with {name}", f"without {name}")[:: 1 if was_there else -1]
    return GuardChange(kind=kind, expression=source, old=old, new=new)


def _same_tensor(sources: tuple[str, ...]) -> GuardChange:
    words = " and ".join(sources) if len(sources) == 2 else "arguments that are the same tensor"
    return GuardChange(kind="aliasing", expression=words, old="different tensors", new="the same tensor")


def _compared(form: forms.Compared, text: str) -> GuardChange:
    left, operator, right = form.left, form.operator, form.right
    if is_relation(text) or operator not in ("==", "is", "is not", "!="):
        return GuardChange(kind="relation", expression=text)
    if operator == "is" and right != "None":
        return GuardChange(kind="aliasing", expression=f"{left} and {right}", old="the same object", new="two objects")
    if operator in ("is not", "!="):
        return GuardChange(kind="none" if right == "None" else "value", expression=left, new=right)
    return GuardChange(kind=value_kind(left, right, None), expression=left, old=right)


def is_relation(text: str) -> bool:
    """Whether a text is a condition on sizes, which can involve several values."""
    return _ON_SIZES.search(text) is not None or text.startswith(_RELATIONS)


def value_kind(source: str, old: str | None, new: str | None) -> ChangeKind:
    """The kind of a constant that changed, from its text before and after."""
    if source.endswith(".training"):
        return "training"
    values = [_literal(text) for text in (old, new) if text is not None]
    if any(value is None for value in values):
        return "none"
    if any(isinstance(value, bool) for value in values):
        return "flag"
    if all(isinstance(value, (int, float)) for value in values):
        return "module_number" if _is_module_attribute(source) else "number"
    if any(isinstance(value, str) for value in values):
        return "text"
    return "value"


def _is_module_attribute(source: str) -> bool:
    """Whether a source, with or without its scope, is an attribute of the root module or of a submodule."""
    return _MODULE_ATTRIBUTE.match(source) is not None and "__closure__" not in source


def _literal(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return _NO_LITERAL


_NO_LITERAL = object()


def _article(name: str) -> str:
    short = name.rpartition(".")[2]
    return "None" if short == "NoneType" else f"a {short}"
