"""Kinds of text that may leave the machine in a bundle; a field whose type isn't one of these is
private.

A type here is marked with what its text is. What reads that kind (``bundle``) lets through what is
public of it.
"""

from __future__ import annotations

from typing import Annotated

BackendName = Annotated[str, "backend"]
Build = Annotated[str, "build"]
CompileId = Annotated[str, "compile_id"]
ConfigName = Annotated[str, "config_name"]
Described = Annotated[str, "described"]
DeviceName = Annotated[str, "device_name"]
DeviceText = Annotated[str, "device"]
DtypeName = Annotated[str, "dtype"]
EventName = Annotated[str, "event_name"]
ExceptionType = Annotated[str, "exception"]
Expression = Annotated[str, "expression"]
File = Annotated[str, "file"]
Fingerprint = Annotated[str, "fingerprint"]
GbType = Annotated[str, "gb_type"]
GuardKindName = Annotated[str, "guard_kind"]
HintName = Annotated[str, "hint_name"]
InputsFrom = Annotated[str, "inputs_from"]
FROM_CALLER: InputsFrom = "the caller"
"""Of what the API is given: no command has a name for that."""
ModulePath = Annotated[str, "module_path"]
Name = Annotated[str, "name"]
Opcode = Annotated[str, "opcode"]
OperationName = Annotated[str, "operation"]
OptionName = Annotated[str, "option_name"]
OutcomeText = Annotated[str, "outcome"]
PackageName = Annotated[str, "package_name"]
PhaseText = Annotated[str, "phase"]
Place = Annotated[str, "place"]
Platform = Annotated[str, "platform"]
ProcessName = Annotated[str, "process"]
RecordKind = Annotated[str, "record_kind"]
RuleCode = Annotated[str, "rule_code"]
ShapeText = Annotated[str, "shape"]
SizeText = Annotated[str, "size"]
SwitchText = Annotated[str, "switch"]
TorchId = Annotated[str, "torch_id"]
Traceback = Annotated[str, "traceback"]
ValuesText = Annotated[str, "values"]
Version = Annotated[str, "version"]
