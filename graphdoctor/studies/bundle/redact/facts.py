"""Redacts facts, such as a diagnosis and its picture, by the types of their fields.

Numbers, flags and literals stay. Text stays only if its type is marked as one that may be shown (``facts/shared.py``)
and the reader of that kind lets it through, so a new field is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from graphdoctor.facts.base import Fact, field_types, shared_kinds
from graphdoctor.facts.diagnosis import Finding
from graphdoctor.facts.fixes import Treatment
from graphdoctor.facts.picture import GeneratedCode, SourceText, StageNode
from graphdoctor.facts.recompiles import GuardChange
from graphdoctor.facts.recording import BreakReason, Environment, GraphNode, TargetInfo
from graphdoctor.facts.run import ProbeExit
from graphdoctor.facts.trials import WhatIf
from graphdoctor.facts.variations import Variation
from graphdoctor.probe.wire import INPUTS_FROM_OPTIONS, INPUTS_NOT_NEEDED
from graphdoctor.rules.catalog import ALL_RULES
from graphdoctor.studies.bundle.redact import public
from graphdoctor.studies.bundle.redact.public import Public, Reader
from graphdoctor.studies.bundle.redact.vocabulary import LEFT_OUT

_Model = TypeVar("_Model", bound=Fact)

_LEFT_OUT_WHOLE = (WhatIf, Treatment, Variation, SourceText, GeneratedCode)
"""Facts that mostly hold source or values."""
_PUBLIC_CHANGES = frozenset(
    {"training", "grad_mode", "inference_mode", "default_dtype", "requires_grad", "dtype", "size", "rank", "stride"}
)
"""Kinds of changes whose old and new values are sizes, dtypes or torch modes."""
_CHANGED_MODES = frozenset({"train mode", "eval mode", "on", "off", "True", "False"})
_ORIGINS = frozenset(
    {None, INPUTS_FROM_OPTIONS, INPUTS_NOT_NEEDED, "example_inputs()", "get_inputs()", "example_inputs", "get_inputs"}
    | {"example_input_array", "dummy_inputs"}
)
_CALL_OPTIONS = ("calls", "backward", "train", "no_grad", "device", "dtype", "batch")
"""All but the seed."""


class Facts:
    """Redacts facts of one recording; a name has the same pseudonym in all of them.

    ``root`` is the folder that a diagnosis' paths are relative to.
    """

    def __init__(self, environment: Environment, root: Path) -> None:
        self.shown = Public(environment, root)
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
        kinds, changed = shared_kinds(type(value)), dict[str, object]()
        for name, kind in field_types(type(value)).items():
            of_text = kinds.get(name, "")
            reader = getattr(self.shown, of_text, None) or getattr(public, of_text, None)
            changed[name] = self._value(getattr(value, name), kind, reader)
        if (file := getattr(value, "file", None)) is not None:
            changed |= self._in_file(value, file)
        for special_kind, special in self._special.items():
            if isinstance(value, special_kind):
                changed |= special(value)
        return value.model_copy(update=changed)

    def _value(self, value: object, kind: object, reader: Reader | None) -> Any:  # noqa: ANN401 - as many types as fields
        kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
        if value is None or isinstance(value, (bool, int, float)):
            return value
        if isinstance(value, str):
            if any(get_origin(one) is Literal and value in get_args(one) for one in kinds):
                return value
            read = None if reader is None else reader(value)
            return LEFT_OUT if read is None and NoneType not in kinds else read
        if isinstance(value, Fact):
            return None if isinstance(value, _LEFT_OUT_WHOLE) else self.redacted(value)
        if isinstance(value, dict):
            return {} if reader is None else _of_dict(value, reader)
        inner = next(get_args(one)[0] for one in kinds if get_origin(one) is tuple)
        is_kept = reader is not None or inner is not str
        kept = [item for item in value if is_kept and not isinstance(item, _LEFT_OUT_WHOLE)]  # type: ignore[attr-defined]
        if value and not kept and NoneType in kinds:
            return None  # empty would mean that there was nothing
        return tuple(self._value(item, inner, reader) for item in kept)

    def _in_file(self, value: object, file: str) -> dict[str, object]:
        """What a fact names in its file stays if everybody can read it."""
        shown: dict[str, object] = {"file": self.shown.file(file)}
        for name in ("function", "qualname", "code_name"):
            if (text := getattr(value, name, None)) is not None:
                shown[name] = self.shown.function(text, file)
        if (package := getattr(value, "package", None)) is not None:
            shown["package"] = self.shown.package(package)
        return shown

    def _target(self, target: TargetInfo) -> dict[str, object]:
        """Its text consists of the pseudonyms of its file and its name."""
        names = (target.file and self.shown.file(target.file), target.name and self.shown.name(target.name))
        config = {public.config_name(name) or LEFT_OUT: repr(value) for name, value in target.config.items()}
        return {
            "text": ":".join(filter(None, names)) or None,
            "inputs_from": target.inputs_from if target.inputs_from in _ORIGINS else "a function in the program",
            "compile_arguments": {
                name: public.option(name, target.compile_arguments.get(name))
                for name in ("backend", "mode", "dynamic", "fullgraph", "options")
            },
            "config": {name: public.printed_value(value) for name, value in config.items()},
            "call_options": {name: public.option(name, target.call_options.get(name)) for name in _CALL_OPTIONS},
        }

    def _finding(self, finding: Finding) -> dict[str, object]:
        rule, kept, torch_id = ALL_RULES.get(finding.code), self.shown.breaks.kept, finding.torch_id
        return {
            "rule": rule.name if rule else LEFT_OUT,
            # A message quotes the line; the rule's title says the same without it.
            "message": rule.title() if rule else LEFT_OUT,
            # For a recompile it's a guard, with values and a line of source.
            "torch_reason": kept(finding.torch_reason, torch_id) if finding.torch_reason and torch_id else None,
            "hints": tuple(kept(hint, torch_id) for hint in finding.hints),
            "fixes": (),
        }

    def _reason(self, reason: BreakReason) -> dict[str, object]:
        kept = self.shown.breaks.kept
        return {
            "explanation": reason.explanation and kept(reason.explanation, reason.torch_id),
            "hints": tuple(kept(hint, reason.torch_id) for hint in reason.hints),
        }

    def _node(self, node: GraphNode | StageNode) -> dict[str, object]:
        is_operation = node.opcode in ("call_function", "call_method")
        return {"target": self.shown.operation(node.target) if is_operation else self.shown.name(node.target)}


def _of_dict(value: dict[Any, Any], reader: Reader) -> dict[str, object]:
    """Counts by name, or texts by name. A text whose name is left out is dropped; such counts are added up."""
    shown: dict[str, Any] = {}
    for key, item in value.items():
        name = reader(str(key))
        if isinstance(item, int):
            shown[name or LEFT_OUT] = shown.get(name or LEFT_OUT, 0) + item
        elif name is not None:
            shown[name] = public.config_value(name, str(item)) or LEFT_OUT
    return shown


def _change(change: GuardChange) -> dict[str, object]:
    def shown(value: str | None) -> str | None:
        if value is None or (change.kind in _PUBLIC_CHANGES and (value in _CHANGED_MODES or value.isdecimal())):
            return value
        return public.dtype(value) if change.kind in _PUBLIC_CHANGES else LEFT_OUT

    return {"old": shown(change.old), "previous": shown(change.previous), "new": shown(change.new)}
