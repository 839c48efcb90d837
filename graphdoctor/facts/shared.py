"""Kinds of text that may leave the machine in a bundle; a field whose type isn't one of these is private.

A type here says what a text is. What reads that kind (``bundle``) lets through what is public of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated


@dataclass(frozen=True)
class Shared:
    """Marks a type of text as one that may be shown to others.

    Args:
        kind: What the text is.
    """

    kind: str


BackendName = Annotated[str, Shared("backend")]
Build = Annotated[str, Shared("build")]
CompileId = Annotated[str, Shared("compile_id")]
ConfigName = Annotated[str, Shared("config_name")]
Described = Annotated[str, Shared("described")]
DeviceName = Annotated[str, Shared("device_name")]
DeviceText = Annotated[str, Shared("device")]
DtypeName = Annotated[str, Shared("dtype")]
EventName = Annotated[str, Shared("event_name")]
ExceptionType = Annotated[str, Shared("exception")]
Expression = Annotated[str, Shared("expression")]
File = Annotated[str, Shared("file")]
Fingerprint = Annotated[str, Shared("fingerprint")]
GbType = Annotated[str, Shared("gb_type")]
GuardKindName = Annotated[str, Shared("guard_kind")]
HintName = Annotated[str, Shared("hint_name")]
InputsFrom = Annotated[str, Shared("inputs_from")]
ModulePath = Annotated[str, Shared("module_path")]
Name = Annotated[str, Shared("name")]
Opcode = Annotated[str, Shared("opcode")]
OperationName = Annotated[str, Shared("operation")]
OptionName = Annotated[str, Shared("option_name")]
OutcomeText = Annotated[str, Shared("outcome")]
PackageName = Annotated[str, Shared("package_name")]
PhaseText = Annotated[str, Shared("phase")]
Place = Annotated[str, Shared("place")]
Platform = Annotated[str, Shared("platform")]
ProcessName = Annotated[str, Shared("process")]
RecordKind = Annotated[str, Shared("record_kind")]
RuleCode = Annotated[str, Shared("rule_code")]
ShapeText = Annotated[str, Shared("shape")]
SizeText = Annotated[str, Shared("size")]
SwitchText = Annotated[str, Shared("switch")]
TorchId = Annotated[str, Shared("torch_id")]
Traceback = Annotated[str, Shared("traceback")]
ValuesText = Annotated[str, Shared("values")]
Version = Annotated[str, Shared("version")]
