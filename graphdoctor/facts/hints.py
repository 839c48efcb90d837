"""The words for what ended a run, in the names that options have where the person gave them.

Comes in: a ``HintCode`` of ``probe/wire.py`` with its values, and a surface: the command line, ``pyproject.toml`` or
the Python API. Goes out: a message and a hint. Imports no model at run time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from .run import ProbeExit

HintCode = Literal[
    "no_inputs",
    "unusable_input",
    "unusable_device",
    "unusable_dtype",
    "no_batch",
    "unusable_batch",
    "changed_call",
    "mode_and_options",
    "refused_compile_arguments",
    "unknown_argument",
    "unknown_config",
    "config_type",
    "no_gradient",
    "no_blocks",
    "timeout",
    "script_timeout",
    "no_torch",
    "unusable_python",
]
"""What ended a run, where its words name options: ``graphdoctor/facts/hints.py`` has those of each surface."""

HintValue = str | int | float | bool | list[str] | None

HINT_VALUES: dict[HintCode, tuple[str, ...]] = {
    "no_inputs": ("callable", "looked_for"),
    "unusable_input": ("input", "error"),
    "unusable_device": ("device", "error"),
    "unusable_dtype": ("dtype", "device", "error"),
    "no_batch": ("batch", "tensors"),
    "unusable_batch": ("batch", "tensor", "error"),
    "changed_call": ("failed", "dtype", "batch"),
    "mode_and_options": (),
    "refused_compile_arguments": ("error",),
    "unknown_argument": ("argument", "name", "near", "known"),
    "unknown_config": ("name", "near"),
    "config_type": ("name", "value", "type", "default"),
    "no_gradient": (),
    "no_blocks": ("target", "is_module", "fewest"),
    "timeout": ("timeout_s", "phase"),
    "script_timeout": ("timeout_s",),
    "no_torch": ("python", "error"),
    "unusable_python": ("python", "status"),
}
"""The names of the values that come with each code."""

Option = Literal[
    "inputs",
    "device",
    "dtype",
    "batch",
    "backend",
    "mode",
    "options",
    "regional",
    "config",
    "backward",
    "timeout",
    "python",
]
Values = Mapping[str, HintValue]
Words = tuple[str, str | None]
"""Message and hint."""


@dataclass(frozen=True)
class Surface:
    """Where a person gives the options of a run.

    Args:
        names: What each option is called there.
        separator: What stands between an option and its value.
        write: Writes a value as it is written there.
        setting: Writes the setting of one of torch's config values, from its name and value.
        inputs_hint: How to give inputs.
    """

    names: Mapping[Option, str]
    separator: str
    write: Callable[[object], str]
    setting: Callable[[str, object], str]
    inputs_hint: str

    def given(self, option: Option, value: object) -> str:
        """An option with its value, such as ``--device cuda``."""
        return f"{self.names[option]}{self.separator}{self.write(value)}"


_EXAMPLE = "f32[8,128]"
_MAX_TENSORS = 6
"""Tensors that are listed."""

_OPTIONS: tuple[Option, ...] = (
    *("device", "dtype", "batch", "backend", "mode", "config", "backward", "regional", "timeout", "python"),
)

COMMAND_LINE = Surface(
    names={**{name: f"--{name}" for name in _OPTIONS}, "inputs": "--input", "options": "--option"},
    separator=" ",
    write=str,
    setting=lambda name, value: f"--config {name}={value!r}",
    inputs_hint=f"Pass --input, such as --input '{_EXAMPLE}'",
)
CONFIGURATION = Surface(
    names={name: name for name in (*_OPTIONS, "inputs", "options")},
    separator=" = ",
    write=json.dumps,
    setting=lambda name, value: f"config = {{ {json.dumps(name)} = {json.dumps(value)} }}",
    inputs_hint=f'Give the target inputs = ["{_EXAMPLE}"] in pyproject.toml',
)
PYTHON = Surface(
    names={name: name for name in (*_OPTIONS, "inputs", "options")},
    separator="=",
    write=repr,
    setting=lambda name, value: f"{name} = {value!r}",
    inputs_hint="Pass the arguments of the call",
)


def words(code: HintCode, values: Values, surface: Surface) -> Words:
    """What a code says on a surface.

    Args:
        code: What happened.
        values: Those that ``HINT_VALUES`` names for the code.
        surface: Where the person gave the options.

    Returns:
        The message, a whole sentence, and what to do next.
    """
    return _WORDS[code](values, surface)


def worded_exit(exit_: ProbeExit, surface: Surface) -> ProbeExit:
    """How a run ended, in the words of a surface; unchanged where the words are the same on all of them."""
    if exit_.hint_code is None:
        return exit_
    message, hint = words(exit_.hint_code, exit_.hint_values, surface)
    return exit_.model_copy(update={"message": message, "hint": hint})


def did_you_mean(names: Sequence[str], otherwise: str | None = None) -> str | None:
    """A hint with the names that are near to what was written, or another one where none is."""
    return f"Did you mean {' or '.join(names)}?" if names else otherwise


def during(phase: str | None) -> str:
    """When something happened, such as `` in call 2``, to follow a verb.

    Args:
        phase: What the probe was doing; None before it began.
    """
    if phase is None:
        return " before it began"
    return f" in {phase}" if phase.startswith(("call ", "variation ")) else f" while {phase}"


def _no_inputs(values: Values, surface: Surface) -> Words:
    message = (
        f"There are no inputs for {values['callable']}: none were given, and the program has none of {_list(values)}."
    )
    function = "    def example_inputs():\n        return (torch.randn(8, 128),)"
    return message, f"{surface.inputs_hint}, or add two lines to the file:\n{function}"


def _sentence(text: object) -> str:
    """Text of torch's or the program's, ended by one period."""
    return f"{str(text).rstrip('.')}." if not str(text).endswith("…") else str(text)


def _list(values: Values) -> str:
    names = values["looked_for"]
    return ", ".join(names) if isinstance(names, list) else str(names)


def _unusable_input(values: Values, surface: Surface) -> Words:
    message = f"{surface.names['inputs']} {values['input']} can't be made: {_sentence(values['error'])}"
    return message, "Make it smaller."


def _unusable_device(values: Values, surface: Surface) -> Words:
    message = f"{surface.given('device', values['device'])} can't be used here: {_sentence(values['error'])}"
    return message, f"Try {surface.given('device', 'cpu')}."


def _unusable_dtype(values: Values, surface: Surface) -> Words:
    device = values["device"] or "this device"
    message = f"{surface.given('dtype', values['dtype'])}: {device} can't compute in it: {_sentence(values['error'])}"
    return message, f"Try {surface.given('dtype', 'float32')}."


def _no_batch(values: Values, surface: Surface) -> Words:
    asked, tensors = surface.given("batch", values["batch"]), values["tensors"]
    hint = f"{surface.inputs_hint}, or make the inputs with this size and leave {surface.names['batch']} out."
    if not isinstance(tensors, list) or not tensors:
        return f"{asked}: the call has no tensor with a batch dim.", hint
    shown = [*tensors[:_MAX_TENSORS], *(["…"] if len(tensors) > _MAX_TENSORS else [])]
    return f"{asked}: it isn't clear which size is the batch in {', '.join(shown)}.", hint


def _unusable_batch(values: Values, surface: Surface) -> Words:
    asked = surface.given("batch", values["batch"])
    return f"{asked}: {values['tensor']} can't have this size: {_sentence(values['error'])}", "Make it smaller."


def _changed_call(values: Values, surface: Surface) -> Words:
    names: tuple[Option, ...] = ("dtype", "batch")
    asked = " and ".join(surface.given(name, values[name]) for name in names if values[name] is not None)
    hint = f"The call was made with {asked} in place of its own. Does it work without?"
    return _sentence(values["failed"]), hint


def _mode_and_options(_values: Values, surface: Surface) -> Words:
    mode, options = surface.names["mode"], surface.names["options"]
    return f"torch.compile takes either {mode} or {options}.", "Leave one of them out."


def _refused_compile_arguments(values: Values, surface: Surface) -> Words:
    backend, mode, options = (surface.names[name] for name in ("backend", "mode", "options"))
    message = f"torch.compile doesn't take these arguments: {_sentence(values['error'])}"
    return message, f"See {backend}, {mode} and {options}."


def _unknown_argument(values: Values, _surface: Surface) -> Words:
    argument, name, near, known = (values[key] for key in ("argument", "name", "near", "known"))
    who = {"backend": "torch", "mode": "torch.compile", "option": "inductor"}.get(str(argument), "torch.compile")
    message = f"{who} has no {argument} {name!r}."
    if isinstance(near, list) and near:
        return message, did_you_mean(near)
    if isinstance(known, list) and known:
        return message, f"Known ones: {', '.join(known)}."
    return message, "torch._inductor.list_options() lists them all."


def _unknown_config(values: Values, surface: Surface) -> Words:
    message = f"{surface.names['config']}: torch has no {values['name']!r}."
    near = values["near"]
    if isinstance(near, list) and near:
        return message, did_you_mean(near)
    return message, f"Write it as {surface.setting('torch._dynamo.config.capture_scalar_outputs', True)}."


def _config_type(values: Values, surface: Surface) -> Words:
    name, default = str(values["name"]), values["default"]
    given = surface.setting(name, values["value"])
    message = f"{given}: it takes {values['type']}, and is {default!r} by default."
    return message, f"Write {surface.setting(name, default)}."


def _no_gradient(_values: Values, surface: Surface) -> Words:
    backward = surface.names["backward"]
    hint = f"Leave {backward} out, or let an input or a parameter require a gradient."
    return f"{backward}: no floating-point output requires a gradient.", hint


def _no_blocks(values: Values, surface: Surface) -> Words:
    regional, target = surface.names["regional"], values["target"]
    if not values["is_module"]:
        message = f"{regional}: {target} isn't a module, so it has no modules that repeat."
        return message, f"Name the module as the target, or leave {regional} out."
    message = (
        f"{regional}: no class of modules repeats in {target}: none has {values['fewest']} instances with the same "
        "parameters and submodules."
    )
    return message, f"Leave {regional} out."


def _timeout(values: Values, surface: Surface) -> Words:
    phase = values["phase"]
    message = f"Stopped after {values['timeout_s']:g} s{during(None if phase is None else str(phase))}."
    return message, f"Raise {surface.names['timeout']}, or make the call smaller."


def _script_timeout(values: Values, surface: Surface) -> Words:
    return f"Stopped after {values['timeout_s']:g} s.", f"Raise {surface.names['timeout']}, or leave it out."


def _no_torch(values: Values, surface: Surface) -> Words:
    message = f"{values['python']} can't import torch: {_sentence(values['error'])}"
    return message, f"Install torch>=2.11 there, or set {surface.names['python']} to an interpreter that has it."


def _unusable_python(values: Values, surface: Surface) -> Words:
    message = f"{values['python']} couldn't run the probe: it ended with status {values['status']}."
    return message, f"Set {surface.names['python']} to the path of a Python 3.11 or newer that has torch."


_WORDS: dict[HintCode, Callable[[Values, Surface], Words]] = {
    "no_inputs": _no_inputs,
    "unusable_input": _unusable_input,
    "unusable_device": _unusable_device,
    "unusable_dtype": _unusable_dtype,
    "no_batch": _no_batch,
    "unusable_batch": _unusable_batch,
    "changed_call": _changed_call,
    "mode_and_options": _mode_and_options,
    "refused_compile_arguments": _refused_compile_arguments,
    "unknown_argument": _unknown_argument,
    "unknown_config": _unknown_config,
    "config_type": _config_type,
    "no_gradient": _no_gradient,
    "no_blocks": _no_blocks,
    "timeout": _timeout,
    "script_timeout": _script_timeout,
    "no_torch": _no_torch,
    "unusable_python": _unusable_python,
}
