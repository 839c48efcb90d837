"""The words for what ended a run, in the names that options have where the person gave them.

Comes in: a ``HintCode`` of the probe's with its values, and a surface: the command line,
``pyproject.toml`` or the Python API. Goes out: a message and a hint. Imports no model at run time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphdoctor.facts.spec import RunSpec, options_of
from graphdoctor.wording import did_you_mean, during

if TYPE_CHECKING:
    from graphdoctor.facts.run import HintCode, HintValue, ProbeExit


Values = Mapping[str, "HintValue"]
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

    names: Mapping[str, str]
    separator: str
    write: Callable[[object], str]
    setting: Callable[[str, object], str]
    inputs_hint: Callable[[Sequence[str]], str]

    def given(self, option: str, value: object) -> str:
        """Return an option with its value, such as ``--device cuda``."""
        return f"{self.names[option]}{self.separator}{self.write(value)}"


_EXAMPLE = "f32[8,128]"
_MAX_TENSORS = 6
"""Tensors that are listed."""

_FLAGS = {name: told.flags(name).partition("/")[0] for name, told in options_of(RunSpec).items()}
_OWN_NAMES = {name: name for name in (*_FLAGS, "timeout", "python")}

COMMAND_LINE = Surface(
    names={**_FLAGS, "timeout": "--timeout", "python": "--python"},
    separator=" ",
    write=str,
    setting=lambda name, value: f"--config {name}={value!r}",
    inputs_hint=lambda inputs: (
        "Pass --input, such as " + " ".join(f"--input '{text}'" for text in inputs)
    ),
)
CONFIGURATION = Surface(
    names=_OWN_NAMES,
    separator=" = ",
    write=json.dumps,
    setting=lambda name, value: f"config = {{ {json.dumps(name)} = {json.dumps(value)} }}",
    inputs_hint=lambda inputs: f"Give the target inputs = {json.dumps(inputs)} in pyproject.toml",
)
PYTHON = Surface(
    names=_OWN_NAMES,
    separator="=",
    write=repr,
    setting=lambda name, value: f"{name} = {value!r}",
    inputs_hint=lambda _: "Pass the arguments of the call",
)

_WORDS: dict[HintCode, tuple[str, str]] = {
    "no_inputs": (
        (
            "There are no inputs for {callable}: none were given, and the program has none of"
            " {looked_for}."
        ),
        (
            "{inputs_hint}, or add two lines to the file:\n"
            "    def example_inputs():\n        return ({expressions},)"
        ),
    ),
    "unusable_input": ("{name[inputs]} {input} can't be made: {error}", "Make it smaller."),
    "unusable_device": ("{given[device]} can't be used here: {error}", "Try {cpu}."),
    "unusable_dtype": ("{given[dtype]}: {device} can't compute in it: {error}", "Try {float32}."),
    "no_batch": (
        "{given[batch]}: {tensors}.",
        "{inputs_hint}, or make the inputs with this size and leave {name[batch]} out.",
    ),
    "unusable_batch": (
        "{given[batch]}: {tensor} can't have this size: {error}",
        "Make it smaller.",
    ),
    "changed_call": (
        "{failed}",
        "The call was made with {asked} in place of its own. Does it work without?",
    ),
    "mode_and_options": (
        "torch.compile takes either {name[mode]} or {name[options]}.",
        "Leave one of them out.",
    ),
    "ignored_mode": (
        "The backend {backend} ignores {name[mode]} and {name[options]}.",
        "Leave out {name[backend]}: inductor is the default with these.",
    ),
    "refused_compile_arguments": (
        "torch.compile doesn't take these arguments: {error}",
        "See {name[backend]}, {name[mode]} and {name[options]}.",
    ),
    "unknown_package": ("{given[own]}: there is no installed package of this name.", "{nearest}"),
    "unknown_argument": ("{owner} has no {argument} {unknown!r}.", "{nearest}"),
    "unknown_config": ("{name[config]}: torch has no {unknown!r}.", "{nearest}"),
    "config_type": (
        "{setting}: it takes {type}, and is {default!r} by default.",
        "Write {default_setting}.",
    ),
    "no_gradient": (
        "{name[backward]}: no floating-point output requires a gradient.",
        "Leave {name[backward]} out, or let an input or a parameter require a gradient.",
    ),
    "no_blocks": ("{name[regional]}: {blocks}", "{leave}eave {name[regional]} out."),
    "timeout": (
        "Stopped after {timeout_s:g} s{when}{at}.",
        "Raise {name[timeout]}, or make the call smaller.",
    ),
    "script_timeout": (
        "Stopped after {timeout_s:g} s{at}.",
        "Raise {name[timeout]}, or leave it out.",
    ),
    "no_torch": (
        "{python} can't import torch: {error}",
        "Install torch>=2.11 there, or set {name[python]} to an interpreter that has it.",
    ),
    "unusable_python": (
        "{python} couldn't run the probe: it ended with status {status}.",
        "Set {name[python]} to the path of a Python 3.11 or newer that has torch.",
    ),
}
"""Message and hint of each code, with its values, the options' names, and what ``_derived`` makes
of them."""


def words(code: HintCode, values: Values, surface: Surface) -> Words:
    """Return what a code says on a surface.

    Args:
        code: What happened.
        values: Those that ``_WORDS`` and ``_derived`` read for the code.
        surface: Where the person gave the options.

    Returns:
        The message, a whole sentence, and what to do next.
    """
    fields_ = {**values, **_derived(values, surface)}
    message, hint = _WORDS[code]
    return message.format_map(fields_), hint.format_map(fields_)


def _derived(values: Values, surface: Surface) -> dict[str, object]:
    options = {
        name: surface.given(name, values[name])
        for name in ("device", "dtype", "batch", "own")
        if name in values
    }
    inputs, expressions = (
        proposal if isinstance(proposal := values.get(name), list) and proposal else [example]
        for name, example in (("inputs", _EXAMPLE), ("expressions", "torch.randn(8, 128)"))
    )
    texts: dict[str, object] = {
        "name": surface.names,
        "unknown": values.get("name"),
        "given": options,
        "asked": " and ".join(
            options[name] for name in ("dtype", "batch") if values.get(name) is not None
        ),
        "inputs_hint": surface.inputs_hint(inputs),
        "expressions": ", ".join(expressions),
        "cpu": surface.given("device", "cpu"),
        "float32": surface.given("dtype", "float32"),
        "device": values.get("device") or "this device",
        "at": f", at {values['place']}" if values.get("place") else "",
        "when": during(None if values.get("phase") is None else str(values["phase"])),
        **{name: _sentence(values[name]) for name in ("error", "failed") if name in values},
    }
    if isinstance(looked_for := values.get("looked_for"), list):
        texts["looked_for"] = ", ".join(looked_for)
    if "tensors" in values:
        texts["tensors"] = _without_batch(values["tensors"])
    if "near" in values:
        texts |= _unknown(values, surface)
    if "default" in values:
        name = str(values["name"])
        texts["setting"] = surface.setting(name, values["value"])
        texts["default_setting"] = surface.setting(name, values["default"])
    if "is_module" in values:
        texts["blocks"] = f"{values['target']} isn't a module, so it has no modules that repeat."
        texts["leave"] = "Name the module as the target, or l"
        if values["is_module"]:
            texts["leave"] = "L"
            texts["blocks"] = (
                f"no class of modules repeats in {values['target']}: none has {values['fewest']}"
                " instances with the same parameters and submodules."
            )
    return texts


def _without_batch(tensors: HintValue) -> str:
    if not isinstance(tensors, list) or not tensors:
        return "the call has no tensor with a batch dim"
    shown = [*tensors[:_MAX_TENSORS], *(["…"] if len(tensors) > _MAX_TENSORS else [])]
    return f"it isn't clear which size is the batch in {', '.join(shown)}"


def _unknown(values: Values, surface: Surface) -> dict[str, object]:
    near, known_names, argument = values["near"], values.get("known"), values.get("argument")
    otherwise = "torch._inductor.list_options() lists them all."
    if "own" in values:
        otherwise = "pip list has the names of those that are installed."
    elif argument is None:
        otherwise = (
            f"Write it as {surface.setting('torch._dynamo.config.capture_scalar_outputs', True)}."
        )
    elif isinstance(known_names, list) and known_names:
        otherwise = f"Known ones: {', '.join(known_names)}."
    owner = {"backend": "torch", "option": "inductor"}.get(str(argument), "torch.compile")
    return {
        "owner": owner,
        "nearest": did_you_mean(near if isinstance(near, list) else [], otherwise),
    }


def _sentence(text: object) -> str:
    """Return text of torch's or the program's, ended by one period."""
    return f"{str(text).rstrip('.')}." if not str(text).endswith("…") else str(text)


def worded_exit(exit_: ProbeExit, surface: Surface) -> ProbeExit:
    """Word how a run ended for a surface; unchanged where the words are the same everywhere."""
    if exit_.hint_code is None:
        return exit_
    message, hint = words(exit_.hint_code, exit_.hint_values, surface)
    return exit_.replace(message=message, hint=hint)
