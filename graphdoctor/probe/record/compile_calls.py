"""What the program asks ``torch.compile`` for, and what it calls the objects that it compiles.

Around a module of torch's own class torch compiles a wrapper, ``inner`` in
``torch/_dynamo/external_utils.py`` (``wrap_inline``, 2.11 to 2.15), whose values are ``fn`` and
``args``.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any

import torch

from ...facts.recording import CompileCall
from ..torch_private import torch_api
from .describe import value_text
from .sources import parsed


def compiled_root(frame: FrameType, call: CompileCall) -> Root:
    """The object that a call of ``torch.compile`` is about."""
    model = frame.f_locals["model"]
    expression = compiled_expression(call.file, call.line)
    return Root(getattr(model, "__self__", model), expression, call.file, call.line, call.function)


def compile_call(frame: FrameType) -> CompileCall:
    """Describe a call of ``torch.compile``."""
    given = frame.f_locals
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(torch.compile).parameters.items()
    }
    # torch.compile sets these two when both are left out.
    defaults |= {"mode": "default", "backend": "inductor"}
    arguments = {
        name: value.__qualname__
        if isinstance(value := given[name], (type, FunctionType))
        else value_text(value)
        for name, default in defaults.items()
        if name != "model" and given.get(name) is not None and given[name] != default
    }
    # graphdoctor's: a test's compile() calls torch.compile for it.
    passed_on_by = (
        str(torch_api.torch_root()),
        str(Path(__file__).resolve().parents[2] / "_")[:-1],
    )
    caller: FrameType = frame
    while caller.f_code.co_filename.startswith(passed_on_by) and caller.f_back is not None:
        caller = caller.f_back
    return CompileCall(
        file=caller.f_code.co_filename,
        line=caller.f_lineno,
        function=caller.f_code.co_name,
        compiled=compiled_name(given["model"]),
        arguments=arguments,
    )


def compiled_name(model: Any) -> str:
    """What to call something that is compiled: the qualified name of a function, or of a module's
    class.
    """
    # Module.compile hands over the module's bound method.
    owner = getattr(model, "__self__", model)
    if isinstance(owner, torch.nn.Module):
        return type(owner).__qualname__
    return str(getattr(model, "__qualname__", type(model).__qualname__))


_WRAPPER = ("_dynamo/external_utils.py", "inner")
_MODEL = "model"
_MAX_EXPRESSION = 60


@dataclass(frozen=True)
class Root:
    """A compiled object, as the program has it; ``function`` is the one that the line is in."""

    value: object
    expression: str
    file: str
    line: int
    function: str


class Roots:
    """The objects that were handed to torch.compile."""

    def __init__(self) -> None:
        self._known: dict[int, Root] = {}

    def add(self, root: Root) -> None:
        """Remember one; it lives as long as this, so that no other object gets its id."""
        self._known[id(root.value)] = root

    def of(self, values: Mapping[str, Any]) -> Root | None:
        """The object that a wrapper's frame calls, or None if it isn't known."""
        called = values.get("fn")
        return self._known.get(id(called)) or self._known.get(id(getattr(called, "__self__", None)))


def is_wrapper(file: str, function: str) -> bool:
    """Whether a frame is torch's own, around a module of the program."""
    return function == _WRAPPER[1] and file.replace("\\", "/").endswith(_WRAPPER[0])


def argument_names(called: Any, count: int) -> list[str]:
    """What a callable itself calls its positional arguments: ``x``, or ``inputs[0]`` of
    ``*inputs``.
    """
    try:
        parameters = list(inspect.signature(getattr(called, "forward", called)).parameters.values())
    except (TypeError, ValueError):
        return []
    names: list[str] = []
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}[{index}]" for index in range(count - len(names))]
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
    return names[:count]


def compiled_expression(file: str, line: int) -> str:
    """What is compiled by the call of ``compile`` at a line, as it's written there; ``model`` if
    that isn't clear.
    """
    calls = [
        node
        for node in ast.walk(parsed(file))
        if isinstance(node, ast.Call)
        and node.lineno <= line <= (node.end_lineno or node.lineno)
        and (
            node.func.attr
            if isinstance(node.func, ast.Attribute)
            else getattr(node.func, "id", None)
        )
        == "compile"
    ]
    found = {text for call in calls if (text := _compiled_by(call)) is not None}
    return found.pop() if len(found) == 1 else _MODEL


def _compiled_by(call: ast.Call) -> str | None:
    named = next((keyword.value for keyword in call.keywords if keyword.arg == "model"), None)
    value = call.args[0] if call.args else named
    if value is None and isinstance(call.func, ast.Attribute):  # module.compile()
        value = call.func.value
    text = None if value is None else ast.unparse(value)
    return text if text is not None and len(text) <= _MAX_EXPRESSION else None


def target_root(value: object, name: str, kind: str, file: str | None) -> Root | None:
    """The target of a run, where its file makes it; None if that can't be found."""
    if file is None:
        return None
    for node in parsed(file).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        is_definition = isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name
        if is_definition or any(
            isinstance(target, ast.Name) and target.id == name for target in targets
        ):
            return Root(
                value,
                name if kind in ("module", "function") else _MODEL,
                file,
                node.lineno,
                "<module>",
            )
    return None


def block_root(target: Root, path: str, module: object) -> Root:
    """A module of the target's that is compiled by itself, in the target's words."""
    steps = (f"[{part}]" if part.isdigit() else f".{part}" for part in path.split("."))
    return replace(target, value=module, expression=target.expression + "".join(steps))
