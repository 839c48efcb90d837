"""Questions whether torch.compile is at work: who asks while Dynamo traces, and the answers that
compiled code gets, 2.11 to 2.15.

Dynamo answers each of ``tracing_state_functions`` itself, by a handler of
``TorchInGraphFunctionVariable`` (``torch/_dynamo/variables/torch.py``, 2.11 to 2.15).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dis import Positions
from functools import cache
from importlib import import_module
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import torch

from .torch_api import Function, Undo, put_in_place, survived

_PUBLIC = {
    "torch._jit_internal.is_scripting": "torch.jit.is_scripting",
    "torch.jit._trace.is_tracing": "torch.jit.is_tracing",
}
"""Names that programs write, by those of where the functions are defined."""


class TracedFrame(NamedTuple):
    """A frame that Dynamo traces, and the expression that it is at."""

    code: CodeType
    module: str
    """``__name__`` of its globals."""
    positions: Positions | None

    @property
    def is_torch(self) -> bool:
        """Return whether its code is torch's own."""
        return _is_torch(self.module)


Asked = Callable[[str, object, list[TracedFrame]], None]
"""Called with the name of a question, its answer in compiled code, and the frames, the asking one
first."""


def watch_questions(callback: Asked) -> Undo:
    """Call back at each question that Dynamo answers while it traces code that isn't torch's own.

    In eager mode each answer is False, or None.
    """
    module = import_module("torch._dynamo.variables.torch")
    kind = module.TorchInGraphFunctionVariable
    handlers_of_torch = kind._get_handlers

    def looked_on(function: Any, handler: Function) -> Function:
        name = f"{function.__module__}.{function.__name__}"
        name = _PUBLIC.get(name, name)

        def look(answer: Any, tx: Any) -> None:
            frames = list(_frames(tx))
            if not frames[0].is_torch:
                callback(name, answer.as_python_constant(), frames)

        def handle(variable: Any, tx: Any, *args: Any, **kwargs: Any) -> Any:
            answer = handler(variable, tx, *args, **kwargs)
            survived(look, answer, tx)
            return answer

        return handle

    @cache
    def handlers() -> dict[Any, Function]:
        # Torch makes them when it first needs one, since they need all of Dynamo.
        of_torch = handlers_of_torch()
        asked = {it: looked_on(it, of_torch[it]) for it in module.tracing_state_functions()}
        return {**of_torch, **asked}

    return put_in_place(kind, "_get_handlers", staticmethod(handlers))


def _frames(tx: Any) -> Iterator[TracedFrame]:
    while tx is not None:
        name = str(tx.f_globals.get("__name__"))
        yield TracedFrame(tx.f_code, name, tx.current_instruction.positions)
        tx = getattr(tx, "parent", None)


def _is_torch(module: str) -> bool:
    return module.partition(".")[0] == "torch"


_TRUE_IN_COMPILED: dict[str, tuple[str, ...]] = {
    "torch.compiler": ("is_compiling", "is_dynamo_compiling"),
    "torch._utils": ("is_compiling",),
    "torch._dynamo.external_utils": ("is_compiling",),
}
if torch.__version__.startswith("2.11."):
    # Later ones are False unless torch.export traces (2.13). Delete it with 2.11.
    _TRUE_IN_COMPILED["torch.compiler"] += ("is_exporting",)


@contextmanager
def answered_as_compiled() -> Iterator[None]:
    """Answer code that isn't torch's own as if Dynamo traced it; torch itself goes on as it is.

    The functions' code is replaced, so that a program that imported one by its name asks it too.
    """
    with ExitStack() as ends:
        for module, names in _TRUE_IN_COMPILED.items():
            for name in names:
                ends.callback(_answer_true(getattr(import_module(module), name)))
        yield


def _answer_true(function: FunctionType) -> Undo:
    before = function.__code__, function.__defaults__
    original = FunctionType(function.__code__, function.__globals__)

    def answer() -> Any:
        asking = sys._getframe(2).f_globals.get("__name__")
        return original() if _is_torch(str(asking)) else True

    def undo() -> None:
        function.__code__, function.__defaults__ = before

    function.__code__ = (lambda answer: answer()).__code__
    function.__defaults__ = (answer,)
    return undo
