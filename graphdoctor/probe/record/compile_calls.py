"""What the program asks ``torch.compile`` for, from the frame of the call."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any

import torch

from ..torch_private import torch_api
from ..wire import CompileCallArtifact
from .describe import value_text
from .roots import Root, compiled_expression


def compiled_root(frame: FrameType, call: CompileCallArtifact) -> Root:
    """The object that a call of ``torch.compile`` is about."""
    model = frame.f_locals["model"]
    expression = compiled_expression(call["file"], call["line"])
    return Root(getattr(model, "__self__", model), expression, call["file"], call["line"], call["function"])


def compile_call(frame: FrameType) -> CompileCallArtifact:
    """Describe a call of ``torch.compile``."""
    given = frame.f_locals
    defaults = {name: parameter.default for name, parameter in inspect.signature(torch.compile).parameters.items()}
    # torch.compile sets these two when both are left out.
    defaults |= {"mode": "default", "backend": "inductor"}
    arguments = {
        name: _argument_text(given[name])
        for name, default in defaults.items()
        if name != "model" and given.get(name) is not None and given[name] != default
    }
    # graphdoctor's: a test's compile() calls torch.compile for it.
    passed_on_by = (str(torch_api.torch_root()), str(Path(__file__).resolve().parents[2] / "_")[:-1])
    caller: FrameType = frame
    while caller.f_code.co_filename.startswith(passed_on_by) and caller.f_back is not None:
        caller = caller.f_back
    return CompileCallArtifact(
        file=caller.f_code.co_filename,
        line=caller.f_lineno,
        function=caller.f_code.co_name,
        compiled=compiled_name(given["model"]),
        arguments=arguments,
    )


def compiled_name(model: Any) -> str:  # noqa: ANN401
    """What to call something that is compiled: the qualified name of a function, or of a module's class."""
    # Module.compile hands over the module's bound method.
    owner = getattr(model, "__self__", model)
    if isinstance(owner, torch.nn.Module):
        return type(owner).__qualname__
    return str(getattr(model, "__qualname__", type(model).__qualname__))


def _argument_text(value: Any) -> str:  # noqa: ANN401
    if isinstance(value, (type, FunctionType)):
        return value.__qualname__
    return value_text(value)
