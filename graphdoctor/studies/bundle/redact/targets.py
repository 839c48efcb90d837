"""Redacts the target: what was compiled and how."""

from __future__ import annotations

from collections.abc import Mapping

from graphdoctor.facts.recording import BatchedTensor, RepeatedBlocks, TargetInfo
from graphdoctor.probe.wire import INPUTS_FROM_OPTIONS, INPUTS_NOT_NEEDED
from graphdoctor.studies.bundle.redact import public
from graphdoctor.studies.bundle.redact.public import Public
from graphdoctor.studies.bundle.redact.vocabulary import LEFT_OUT

_MODES = frozenset({"default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"})
_ORIGINS = frozenset(
    {INPUTS_FROM_OPTIONS, INPUTS_NOT_NEEDED, "example_inputs()", "get_inputs()", "example_inputs", "get_inputs"}
    | {"example_input_array", "dummy_inputs"}
)


def redacted_target(target: TargetInfo, shown: Public) -> TargetInfo:
    """Redact the target. Its text consists of the pseudonyms of its file and its name."""
    file = target.file and shown.file(target.file)
    name = target.name and shown.name(target.name)
    return TargetInfo(
        text=":".join(filter(None, (file, name))) or None,
        name=name,
        kind=target.kind,
        class_name=target.class_name and shown.name(target.class_name),
        file=file,
        parameters=None if target.parameters is None else tuple(map(shown.name, target.parameters)),
        inputs_from=target.inputs_from if target.inputs_from in (None, *_ORIGINS) else "a function in the program",
        blocks=None if target.blocks is None else tuple(_blocks(found, shown) for found in target.blocks),
        is_regional=target.is_regional,
        compile_arguments=_compile_arguments(target.compile_arguments),
        config={public.config_name(name) or LEFT_OUT: _plain(value) for name, value in target.config.items()},
        call_options=_call_options(target.call_options),
        batched=tuple(
            BatchedTensor(expression=shown.expression(found.expression), path=LEFT_OUT) for found in target.batched
        ),
    )


def _blocks(found: RepeatedBlocks, shown: Public) -> RepeatedBlocks:
    """Blocks with the pseudonyms of their class and of the names in their paths."""

    def path_of(path: str) -> str:
        return ".".join(part if part.isdigit() else shown.name(part) for part in path.split("."))

    return found.model_copy(
        update={
            "class_name": shown.name(found.class_name),
            "paths": tuple(map(path_of, found.paths)),
            "container": None if found.container is None else path_of(found.container),
        }
    )


def _compile_arguments(arguments: Mapping[str, object]) -> dict[str, object]:
    shown: dict[str, object] = {}
    for name in ("backend", "mode", "dynamic", "fullgraph", "options"):
        match name, arguments.get(name):
            case "backend", str(backend):
                shown[name] = public.backend(backend)
            case "mode", str(mode):
                shown[name] = mode if mode in _MODES else LEFT_OUT
            case "options", dict(options):
                shown[name] = {LEFT_OUT: LEFT_OUT} if options else {}
            case _, bool() | None as value:
                shown[name] = value
    return shown


def _call_options(options: Mapping[str, object]) -> dict[str, object]:
    """All options but the seed."""
    shown: dict[str, object] = {}
    for name in ("calls", "backward", "train", "no_grad", "device", "dtype", "batch"):
        value = options.get(name)
        if isinstance(value, str):
            shown[name] = public.dtype(value) if name == "dtype" else public.device(value)
        elif value is None or isinstance(value, (bool, int)):
            shown[name] = value
    return shown


def _plain(value: object) -> object:
    return public.printed_value(repr(value))
