"""Redacts facts, such as a diagnosis and its picture, by the types of their fields.

Numbers, flags and literals stay. Text stays only if its type is marked as one that may be shown (``facts/shared.py``)
and the reader of that kind lets it through, so a new field is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from graphdoctor.facts.base import Fact, field_types, shared_kinds
from graphdoctor.facts.diagnosis import Finding
from graphdoctor.facts.fixes import Treatment
from graphdoctor.facts.picture import GeneratedCode, SourceText, StageNode
from graphdoctor.facts.recompiles import GuardChange
from graphdoctor.facts.recording import BreakReason, GraphNode, TargetInfo
from graphdoctor.facts.run import ProbeExit
from graphdoctor.facts.trials import WhatIf
from graphdoctor.facts.variations import Variation
from graphdoctor.probe.wire import INPUTS_FROM_OPTIONS, INPUTS_NOT_NEEDED
from graphdoctor.rules.catalog import ALL_RULES
from graphdoctor.studies.bundle.redact import public
from graphdoctor.studies.bundle.redact.public import Public
from graphdoctor.studies.bundle.redact.vocabulary import LEFT_OUT

Reader = Callable[[str], str | None]
_Model = TypeVar("_Model", bound=Fact)

_LEFT_OUT_WHOLE = (WhatIf, Treatment, Variation, SourceText, GeneratedCode)
"""Facts that mostly hold source or values."""
_PUBLIC_CHANGES = frozenset(
    {"training", "grad_mode", "inference_mode", "default_dtype", "requires_grad", "dtype", "size", "rank", "stride"}
)
"""Kinds of changes whose old and new values are sizes, dtypes or torch modes."""
_CHANGED_MODES = frozenset({"train mode", "eval mode", "on", "off", "True", "False"})
_COMPILE_MODES = frozenset({"default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"})
_ORIGINS = frozenset(
    {None, INPUTS_FROM_OPTIONS, INPUTS_NOT_NEEDED, "example_inputs()", "get_inputs()", "example_inputs", "get_inputs"}
    | {"example_input_array", "dummy_inputs"}
)


class Facts:
    """Redacts facts; ``shown`` reads values."""

    def __init__(self, shown: Public) -> None:
        self._shown = shown
        self._special: Mapping[type[Fact], Callable[[Any], dict[str, object]]] = {
            TargetInfo: self._target,
            ProbeExit: lambda ended: {"hint_values": public.hint_values(ended.hint_values)},
            GuardChange: _change,
            Finding: self._finding,
            BreakReason: self._reason,
            GraphNode: lambda node: {**self._node(node), "args": "", "kwargs": ""},
            StageNode: self._node,
        }

    def redacted(self, value: _Model) -> _Model:
        """The fact."""
        kinds, changed = shared_kinds(type(value)).items(), dict[str, object]()
        readers = {name: getattr(self._shown, kind, None) or getattr(public, kind) for name, kind in kinds}
        for name, kind in field_types(type(value)).items():
            changed[name] = self._value(getattr(value, name), kind, readers.get(name))
        if (file := getattr(value, "file", None)) is not None:
            changed |= self._in_file(value, file)
        for special_kind, special in self._special.items():
            if isinstance(value, special_kind):
                changed |= special(value)
        return value.model_copy(update=changed)

    def _value(self, value: object, kind: object, reader: Reader | None) -> Any:  # noqa: ANN401 - as many types as fields
        if value is None or isinstance(value, (bool, int, float)) or get_origin(kind) is Literal:
            return value
        if get_origin(kind) in (Union, UnionType):
            return self._of_union(value, get_args(kind), reader)
        if isinstance(value, str):
            return LEFT_OUT if reader is None else reader(value) or LEFT_OUT
        if isinstance(value, Fact):
            return self.redacted(value)
        if isinstance(value, dict):
            return {} if reader is None else _of_dict(value, reader)
        if isinstance(value, tuple):
            inner = get_args(kind)[0]
            is_kept = reader is not None or inner is not str
            kept = (item for item in value if is_kept and not isinstance(item, _LEFT_OUT_WHOLE))
            return tuple(self._value(item, inner, reader) for item in kept)
        raise TypeError(f"no way to redact a {type(value).__name__}")

    def _of_union(self, value: object, kinds: tuple[object, ...], reader: Reader | None) -> object:
        if isinstance(value, _LEFT_OUT_WHOLE):
            return None
        if any(get_origin(kind) is Literal and value in get_args(kind) for kind in kinds):
            return value
        if isinstance(value, str):
            read = None if reader is None else reader(value)
            return read if read is not None or type(None) in kinds else LEFT_OUT
        is_tuple = isinstance(value, tuple)
        kind = next(kind for kind in kinds if kind is not type(None) and is_tuple == (get_origin(kind) is tuple))
        items = self._value(value, kind, reader)
        # None rather than empty: empty would mean that there was nothing.
        return None if is_tuple and value and not items and type(None) in kinds else items

    def _in_file(self, value: object, file: str) -> dict[str, object]:
        """What a fact names in its file stays if everybody can read it."""
        shown: dict[str, object] = {"file": self._shown.file(file)}
        for name in ("function", "qualname", "code_name"):
            if (text := getattr(value, name, None)) is not None:
                shown[name] = self._shown.function(text, file)
        if (package := getattr(value, "package", None)) is not None:
            shown["package"] = self._shown.package(package)
        return shown

    def _target(self, target: TargetInfo) -> dict[str, object]:
        """Its text consists of the pseudonyms of its file and its name; the seed isn't among the options."""
        names = (target.file and self._shown.file(target.file), target.name and self._shown.name(target.name))
        options: dict[str, object] = {}
        for name in ("calls", "backward", "train", "no_grad", "device", "dtype", "batch"):
            value = target.call_options.get(name)
            if isinstance(value, str):
                options[name] = public.dtype(value) if name == "dtype" else public.device(value)
            elif value is None or isinstance(value, (bool, int)):
                options[name] = value
        return {
            "text": ":".join(filter(None, names)) or None,
            "inputs_from": target.inputs_from if target.inputs_from in _ORIGINS else "a function in the program",
            "compile_arguments": _compile_arguments(target.compile_arguments),
            "config": {
                public.config_name(name) or LEFT_OUT: public.printed_value(repr(value))
                for name, value in target.config.items()
            },
            "call_options": options,
        }

    def _finding(self, finding: Finding) -> dict[str, object]:
        rule = ALL_RULES.get(finding.code)
        # A message quotes the line; the rule's title says the same without it.
        kept, ids = self._shown.breaks.kept, [finding.torch_id] if finding.torch_id else []
        return {
            "rule": rule.name if rule else LEFT_OUT,
            "message": rule.title() if rule else LEFT_OUT,
            # For a recompile it's a guard, with values and a line of source.
            "torch_reason": kept(finding.torch_reason, ids) if finding.torch_reason and ids else None,
            "hints": tuple(kept(hint, ids) for hint in finding.hints),
            "fixes": (),
        }

    def _reason(self, reason: BreakReason) -> dict[str, object]:
        kept, ids = self._shown.breaks.kept, [reason.torch_id] if reason.torch_id else []
        return {
            "explanation": reason.explanation and kept(reason.explanation, ids),
            "hints": tuple(kept(hint, ids) for hint in reason.hints),
        }

    def _node(self, node: GraphNode | StageNode) -> dict[str, object]:
        is_operation = node.opcode in ("call_function", "call_method")
        return {"target": self._shown.operation(node.target) if is_operation else self._shown.name(node.target)}


def _of_dict(value: dict[Any, Any], reader: Reader) -> dict[str, object]:
    """Counts by name, or texts by name. A text whose name is left out is dropped; such counts are added up."""
    shown: dict[str, object] = {}
    for key, item in value.items():
        name = reader(str(key))
        if isinstance(item, int):
            before = shown.get(name or LEFT_OUT)
            shown[name or LEFT_OUT] = item + (before if isinstance(before, int) else 0)
        elif name is not None:
            shown[name] = public.config_value(name, str(item)) or LEFT_OUT
    return shown


def _change(change: GuardChange) -> dict[str, object]:
    def shown(value: str | None) -> str | None:
        if value is None or (change.kind in _PUBLIC_CHANGES and (value in _CHANGED_MODES or value.isdecimal())):
            return value
        return public.dtype(value) if change.kind in _PUBLIC_CHANGES else LEFT_OUT

    return {"old": shown(change.old), "previous": shown(change.previous), "new": shown(change.new)}


def _compile_arguments(arguments: Mapping[str, object]) -> dict[str, object]:
    shown: dict[str, object] = {}
    for name in ("backend", "mode", "dynamic", "fullgraph", "options"):
        match name, arguments.get(name):
            case "backend", str(backend):
                shown[name] = public.backend(backend)
            case "mode", str(mode):
                shown[name] = mode if mode in _COMPILE_MODES else LEFT_OUT
            case "options", dict(options):
                shown[name] = {LEFT_OUT: LEFT_OUT} if options else {}
            case _, bool() | None as value:
                shown[name] = value
    return shown
