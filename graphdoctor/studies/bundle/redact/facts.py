"""Redacts a diagnosis and its picture.

Walks a model by the types of its fields. Numbers, flags and literals stay. Text stays only if its type is marked as one
that may be shown (``model/shared.py``) and the reader of that kind lets it through, so a new field is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from graphdoctor.facts.base import Fact, field_types, shared_kinds
from graphdoctor.facts.diagnosis import Diagnosis, Finding, Location
from graphdoctor.facts.fixes import Treatment
from graphdoctor.facts.picture import GeneratedCode, Picture, SourceText, StageNode
from graphdoctor.facts.recompiles import GuardChange
from graphdoctor.facts.recording import BreakReason, CompileCall, Frame, GraphNode, TargetInfo
from graphdoctor.facts.run import ProbeExit
from graphdoctor.facts.stack import StackEntry
from graphdoctor.facts.trials import WhatIf
from graphdoctor.facts.variations import Variation
from graphdoctor.facts.watch import WatchedFunction
from graphdoctor.rules.catalog import ALL_RULES
from graphdoctor.studies.bundle.redact import public
from graphdoctor.studies.bundle.redact.public import Public
from graphdoctor.studies.bundle.redact.targets import redacted_target
from graphdoctor.studies.bundle.redact.vocabulary import LEFT_OUT

Reader = Callable[[str], str | None]
_Model = TypeVar("_Model", bound=Fact)

_LEFT_OUT_WHOLE = (WhatIf, Treatment, Variation, SourceText, GeneratedCode)
"""Models that mostly hold source or values."""
_PUBLIC_CHANGES = frozenset(
    {"training", "grad_mode", "inference_mode", "default_dtype", "requires_grad", "dtype", "size", "rank", "stride"}
)
"""Kinds of changes whose old and new values are sizes, dtypes or torch modes."""
_MODES = frozenset({"train mode", "eval mode", "on", "off", "True", "False"})


class Facts:
    """Redacts models.

    Args:
        shown: Reads values.
    """

    def __init__(self, shown: Public) -> None:
        self._shown = shown
        self._whole: Mapping[type[Fact], Callable[[Any], dict[str, object]]] = {
            ProbeExit: self._exit,
            StackEntry: self._entry,
            Location: self._location,
            Frame: self._frame,
            CompileCall: self._compile_call,
            WatchedFunction: self._watched,
            GuardChange: self._change,
            Finding: self._finding,
            BreakReason: self._reason,
            GraphNode: self._node,
            StageNode: self._node,
        }

    def diagnosis(self, value: Diagnosis) -> Diagnosis:
        """The diagnosis."""
        return self._model(value)

    def picture(self, value: Picture) -> Picture:
        """The picture."""
        return self._model(value)

    def _model(self, value: _Model) -> _Model:
        if isinstance(value, TargetInfo):
            return redacted_target(value, self._shown)  # type: ignore[return-value]
        changed: dict[str, object] = {}
        for name, kind in field_types(type(value)).items():
            changed[name] = self._value(getattr(value, name), kind, self._reader(type(value), name))
        for whole_kind, whole in self._whole.items():
            if isinstance(value, whole_kind):
                changed |= whole(value)
        return value.model_copy(update=changed)

    def _reader(self, model: type[Fact], name: str) -> Reader | None:
        kind = shared_kinds(model).get(name)
        return getattr(self._shown, kind, None) or getattr(public, kind) if kind else None

    def _value(self, value: object, kind: object, reader: Reader | None) -> Any:  # noqa: ANN401 - as many types as fields
        if value is None or isinstance(value, (bool, int, float)) or get_origin(kind) is Literal:
            return value
        if get_origin(kind) in (Union, UnionType):
            return self._of_union(value, get_args(kind), reader)
        if isinstance(value, str):
            return LEFT_OUT if reader is None else reader(value) or LEFT_OUT
        if isinstance(value, Fact):
            return self._model(value)
        if isinstance(value, dict):
            return {} if reader is None else self._of_dict(value, reader)
        if isinstance(value, tuple):
            return tuple(self._items(value, get_args(kind)[0], reader))
        raise TypeError(f"no way to redact a {type(value).__name__}")

    def _items(self, value: tuple[object, ...], kind: object, reader: Reader | None) -> list[object]:
        is_kept = reader is not None or kind is not str
        return [self._value(item, kind, reader) for item in value if is_kept and not isinstance(item, _LEFT_OUT_WHOLE)]

    def _of_union(self, value: object, kinds: tuple[object, ...], reader: Reader | None) -> object:
        if isinstance(value, _LEFT_OUT_WHOLE):
            return None
        if any(get_origin(kind) is Literal and value in get_args(kind) for kind in kinds):
            return value
        if isinstance(value, str):
            read = None if reader is None else reader(value)
            return read if read is not None or type(None) in kinds else LEFT_OUT
        kind = next(
            kind for kind in kinds if kind is not type(None) and isinstance(value, tuple) == (get_origin(kind) is tuple)
        )
        items = self._value(value, kind, reader)
        # None rather than empty: empty would mean that there was nothing.
        return None if isinstance(value, tuple) and value and not items and type(None) in kinds else items

    def _of_dict(self, value: dict[Any, Any], reader: Reader) -> dict[str, object]:
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

    @staticmethod
    def _exit(ended: ProbeExit) -> dict[str, object]:
        return {"hint_values": public.hint_values(ended.hint_values)}

    def _entry(self, entry: StackEntry) -> dict[str, object]:
        shown = self._shown
        return {
            "file": shown.file(entry.file),
            "function": shown.function(entry.function, entry.file),
            "qualname": entry.qualname and shown.function(entry.qualname, entry.file),
            "package": entry.package and shown.package(entry.package),
        }

    def _location(self, location: Location) -> dict[str, object]:
        shown = self._shown
        return {
            "file": shown.file(location.file),
            "function": shown.function(location.function, location.file),
            "package": location.package and shown.package(location.package),
        }

    def _frame(self, frame: Frame) -> dict[str, object]:
        shown = self._shown
        return {
            "file": shown.file(frame.file),
            "function": shown.function(frame.function, frame.file),
            "qualname": frame.qualname and shown.function(frame.qualname, frame.file),
            "package": frame.package and shown.package(frame.package),
            "code_name": shown.function(frame.code_name, frame.file),
        }

    def _compile_call(self, call: CompileCall) -> dict[str, object]:
        return {"file": self._shown.file(call.file), "function": self._shown.function(call.function, call.file)}

    def _watched(self, found: WatchedFunction) -> dict[str, object]:
        return {"file": found.file and self._shown.file(found.file)}

    def _change(self, change: GuardChange) -> dict[str, object]:
        values = {"old": change.old, "previous": change.previous, "new": change.new}
        if change.kind not in _PUBLIC_CHANGES:
            return {name: value and LEFT_OUT for name, value in values.items()}
        return {name: self._changed(value) for name, value in values.items()}

    @staticmethod
    def _changed(value: str | None) -> str | None:
        if value is None or value in _MODES or value.isdecimal():
            return value
        return public.dtype(value)

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
        target = self._shown.operation(node.target) if is_operation else self._shown.name(node.target)
        empty = {"args": "", "kwargs": ""} if isinstance(node, GraphNode) else {}
        return {"target": target, "file": node.file and self._shown.file(node.file), **empty}
