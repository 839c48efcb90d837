"""Finds what to compile, from the request's file or module and name to a callable, and makes its
calls.

Raises ``TargetError`` with a message for people; exceptions of the user's own code pass through.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from ...facts.base import Fields
from ...wording import did_you_mean, near_names
from ..record.errors import RequestError, TargetError, first_line
from ..torch_private.torch_api import original_callable, tensors_in
from ..wire import (
    INPUT_ATTRIBUTES,
    INPUT_FUNCTIONS,
    INPUTS_FROM_OPTIONS,
    INPUTS_NOT_NEEDED,
    CallItems,
)
from .fitting import beside, proposed

Call = tuple[tuple[Any, ...], Fields]
"""Positional and keyword arguments of one call."""

_FACTORY = "build"
_MODEL = "model"


@dataclass(frozen=True)
class Target:
    """What to compile; ``kind`` is ``module``, ``module class``, ``function`` or ``factory``.

    ``call``: the arguments that a factory returned with it. What is compiled already is compiled
    again with the arguments asked for here.
    """

    function: Callable[..., Any]
    name: str
    kind: str
    module: ModuleType | None
    call: Call | None

    @property
    def file(self) -> str | None:
        """The file that defines it: its module's file, or that of its code where there is none, as
        in a notebook.
        """
        file = getattr(self.module, "__file__", None)
        called = plain_function(self.function)
        return file if file is not None or called is None else called.__code__.co_filename


@dataclass(frozen=True)
class Calls:
    """The calls to make."""

    rounds: Callable[[], Iterator[Call]]
    origin: str


def signature_of(function: Any) -> inspect.Signature | None:
    """Return the parameters of a call of a function, a class or a module; None if Python can't
    tell.
    """
    try:
        return inspect.signature(function.forward if isinstance(function, Module) else function)
    except (TypeError, ValueError):
        return None


def parameters_of(function: Any) -> Fields:
    """Describe the parameters of that call: fields of ``TargetInfo``."""
    signature = signature_of(function)
    called = plain_function(function)
    first = 0
    if called is not None and called.__code__.co_flags & inspect.CO_VARARGS:
        first = called.__code__.co_argcount - isinstance(function, Module | MethodType)
    parameters = None if signature is None else list(signature.parameters)
    return {"parameters": parameters, "args_from": first}


def plain_function(function: Any) -> FunctionType | None:
    """Return the Python function that runs when a target is called, such as a module's ``forward``,
    or None.
    """
    called = type(function).forward if isinstance(function, Module) else function
    while isinstance(called, MethodType | partial):
        called = called.__func__ if isinstance(called, MethodType) else called.func
    return called if isinstance(called, FunctionType) else None


# The target.


def import_target(file: str | None, module: str | None) -> ModuleType:
    """Import the target's module as Python would when it runs the file, or imports the module if
    that is None.

    Its folder, or the folder of its outermost package, is first on ``sys.path`` then.
    """
    if file is None:
        sys.path.insert(0, str(Path.cwd()))
        return _import_module(module or "")
    path = Path(file).resolve()
    parts = [path.stem]
    root = path.parent
    while (root / "__init__.py").is_file() and root != root.parent:
        parts.insert(0, root.name)
        root = root.parent
    sys.path.insert(0, str(root))
    if len(parts) > 1:
        return importlib.import_module(".".join(parts).removesuffix(".__init__"))
    # A file with the name of a module that is loaded already (types.py) must not replace it.
    name = parts[0] if parts[0] not in sys.modules else f"{parts[0]}__target"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise TargetError(f"{file} isn't a Python file", "Name a file that ends in .py.")
    loaded = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def _import_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # A missing module that the target imports is the program's own error.
        missing = error.name or ""
        if missing != name and not name.startswith(f"{missing}."):
            raise
        parent, _, last = missing.rpartition(".")
        folders = getattr(sys.modules[parent], "__path__", []) if parent else [str(Path.cwd())]
        names = [module.name for module in pkgutil.iter_modules(folders)]
        near = [f"{parent}.{other}".lstrip(".") for other in near_names(last, names)]
        # A file without a folder is written as a module is.
        file = f"file {name}, and no " if missing != name and not parent else ""
        holder = "it" if file else missing
        raise TargetError(
            f"There is no {file}module {missing}",
            did_you_mean(near, f"Run graphdoctor in the folder that holds {holder}."),
        ) from None


def find_target(module: ModuleType, name: str | None, *, is_call: bool) -> Target:
    """Find the thing to compile, ``TargetError`` if nothing fits or too much does; ``is_call``:
    ``name`` is a factory.

    Without a name, which may have dots, it is the first that exists of ``build()``, ``model``, the
    only module class that can be made without arguments, the only function.
    """
    if name is None:
        name = _default_name(module)
    value: Any = module
    for part in name.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            near = near_names(name, (it for it in vars(module) if not it.startswith("__")))
            hint = did_you_mean(near, _what_is_there(module))
            raise TargetError(f"{module.__name__} has no {name}", hint) from None
    if is_call or (name == _FACTORY and inspect.isroutine(value)):
        return _from_factory(module, name, value)
    if isinstance(value, type) and issubclass(value, Module):
        if not _binds(value):
            raise _needs_arguments(name, value)
        return Target(value(), name, "module class", module, None)
    if isinstance(value, type):
        raise TargetError(f"{name} is a class, but not a torch.nn.Module", _what_is_there(module))
    if not callable(value):
        what = f"{name} is of type {type(value).__name__}"
        raise TargetError(f"{what}: neither a torch module nor a function", _what_is_there(module))
    is_module = isinstance(value, Module)
    if not is_module:
        refuse_unfinished(name, value)
    kind = "module" if is_module else "function"
    return Target(original_callable(value), name, kind, module, None)


def _default_name(module: ModuleType) -> str:
    if inspect.isroutine(getattr(module, _FACTORY, None)):
        return _FACTORY
    if isinstance(getattr(module, _MODEL, None), Module):
        return _MODEL
    classes, functions = _defined_names(module)
    ready = [name for name in classes if _binds(getattr(module, name))]
    if len(ready) == 1:
        return ready[0]
    if not ready and len(functions) == 1:
        return functions[0]
    if len(classes) == 1 and not functions:
        raise _needs_arguments(classes[0], getattr(module, classes[0]))
    what = "more than one thing" if ready or functions or classes else "nothing"
    message = f"{module.__name__} holds {what} that could be the target"
    raise TargetError(message, _what_is_there(module))


def _defined_names(module: ModuleType) -> tuple[list[str], list[str]]:
    """Return the module classes and the functions that a module defines."""
    classes = []
    functions = []
    for name, value in vars(module).items():
        if name.startswith("_") or not isinstance(value, type | FunctionType):
            continue
        # A function under @torch.compile belongs to the module it was written in, as
        # functools.wraps keeps it.
        if value.__module__ != module.__name__:
            continue
        if isinstance(value, FunctionType):
            functions += [name] * (name not in (*INPUT_FUNCTIONS, "main"))
        elif issubclass(value, Module):
            classes.append(name)
    return classes, functions


def _what_is_there(module: ModuleType) -> str:
    classes, functions = _defined_names(module)
    instances = [name for name, value in vars(module).items() if isinstance(value, Module)]
    kinds = {"module": instances, "class": classes, "function": functions}
    things = [f"{name} ({kind})" for kind, names in kinds.items() for name in names]
    if not things:
        return f"Define {_FACTORY}() or {_MODEL} there, or name a torch module or a function."
    return "Name one of: " + ", ".join(things) + f"; or define {_FACTORY}() or {_MODEL}."


def _needs_arguments(name: str, module_class: type) -> TargetError:
    return TargetError(
        f"{name} can't be made without arguments: {name}{_signature_text(module_class)}",
        f"Add a function that makes one:\n    def {_FACTORY}():\n        return {name}(...)",
    )


def refuse_unfinished(name: str, function: Any) -> None:
    """Refuse a coroutine or generator function: calling it runs none of its lines."""
    is_coroutine = inspect.iscoroutinefunction(function)
    if is_coroutine or inspect.isgeneratorfunction(function):
        kind = "coroutine" if is_coroutine else "generator"
        message = f"{name} is a {kind} function: calling it runs nothing"
        raise TargetError(message, "Name a function that uses its results.")


def _from_factory(module: ModuleType, name: str, factory: Any) -> Target:
    if not callable(factory):
        kind = type(factory).__name__
        raise TargetError(f"{name} is of type {kind}, so {name}() can't be called")
    call: Call | None = None
    made = function = factory()
    match made if isinstance(made, tuple) else ():
        case (function, tuple() | list() as args):
            call = (tuple(args), {})
        case (function, Mapping() as kwargs):
            call = ((), dict(kwargs))
        case (function, tuple() | list() as args, Mapping() as kwargs):
            call = (tuple(args), dict(kwargs))
        case (function, Tensor() as tensor):
            call = ((tensor,), {})
        case _ if isinstance(made, tuple):
            neither = "neither (callable, args) nor (callable, args, kwargs)"
            message = f"{name}() returned a tuple of {len(made)} that is {neither}"
            raise TargetError(message, "args is a tuple, kwargs a dict.")
    if not callable(function):
        kind = type(function).__name__
        raise TargetError(
            f"{name}() returned an object of type {kind}, which can't be called",
            "A factory returns a callable, (callable, args) or (callable, args, kwargs).",
        )
    return Target(original_callable(function), name, "factory", module, call)


def _binds(function: Any, /, *args: Any, **kwargs: Any) -> bool:
    """Return whether something can be called with these arguments, as far as Python can tell."""
    try:
        return bool((signature := signature_of(function)) and signature.bind(*args, **kwargs))
    except TypeError:
        return False


def _signature_text(function: Callable[..., Any]) -> str:
    return str(signature_of(function) or "(…)")


# Its calls.


def find_calls(target: Target, asked: Call | None) -> Calls:
    """Find the calls to make; ``TargetError`` if there are none, or they have an unusable form.

    The first that exists of those asked for, the factory's own, ``example_inputs()`` or
    ``get_inputs()`` beside the target, the model's ``example_input_array`` or ``dummy_inputs``,
    tensors beside the target that are named as its parameters.
    """
    if (single := asked or target.call) is not None:
        origin = f"{target.name}()" if asked is None else INPUTS_FROM_OPTIONS
        return Calls(lambda: iter((single,)), origin)
    functions = [(target.module, name) for name in INPUT_FUNCTIONS]
    for holder, name in (*functions, *((target.function, name) for name in INPUT_ATTRIBUTES)):
        value = getattr(holder, name, None)
        if value is None:
            continue
        is_function = name in INPUT_FUNCTIONS and callable(value)
        if is_function and not _binds(value):
            raise TargetError(
                f"{name}{_signature_text(value)} can't be called without arguments",
                "It must take none, and return the arguments of the calls.",
            )
        origin = f"{name}()" if is_function else name
        rounds = partial(_calls_of, value, target, origin, is_function=is_function)
        return Calls(rounds, origin)
    if _binds(target.function):
        return Calls(lambda: iter((((), {}),)), INPUTS_NOT_NEEDED)
    signature = signature_of(target.function)
    if values := beside(target.module, signature):
        return Calls(lambda: iter((((*values.values(),), {}),)), ", ".join(values))
    arguments = proposed(target.function, signature)
    raise RequestError(
        "no_inputs",
        callable=f"{target.name}{_signature_text(target.function)}",
        looked_for=[*(f"{name}()" for name in INPUT_FUNCTIONS), *INPUT_ATTRIBUTES],
        inputs=[given for given, _ in arguments],
        expressions=[expression for _, expression in arguments],
    )


def _calls_of(value: Any, target: Target, origin: str, *, is_function: bool) -> Iterator[Call]:
    """Yield the calls that a value of ``example_inputs()`` or the like stands for.

    A tuple is positional arguments, a dict keyword arguments, ``(tuple, dict)`` both; a list or an
    iterator of these is several calls. A tensor is the only argument, and so are a batch, a named
    tuple, a dict whose keys aren't parameters, and a list of anything else.
    """
    value = value() if is_function else value
    both = "A tuple is positional arguments, a dict keyword arguments"
    if (single := _one_call(value, target)) is not None:
        yield single
        return
    if not isinstance(value, Iterable) or isinstance(value, str):
        kind = type(value).__name__
        message = f"{origin} gave an object of type {kind}, which can't be arguments"
        raise TargetError(message, f"{both}, a list or generator of these several calls.")
    function = target.function
    if isinstance(value, list):
        are_tensors = len(value) > 1 and all(isinstance(item, Tensor) for item in value)
        if are_tensors and not _binds(function, None) and _binds(function, *value):
            # Exactly as many as the signature takes.
            yield tuple(value), {}
            return
        if any(_one_call(item, target) is None for item in value):
            yield (value,), {}
            return
    number = 0
    for number, item in enumerate(value, start=1):
        if (call := _one_call(item, target)) is None:
            kind = type(item).__name__
            message = f"{origin}: call {number} is of type {kind}, which can't be arguments"
            raise TargetError(message, f"{both}, (tuple, dict) both.")
        yield call
    if not number:
        raise TargetError(f"{origin} gave no calls: it is empty")


def _one_call(value: Any, target: Target) -> Call | None:
    function = target.function
    match value:
        case Tensor():
            return (value,), {}
        case Mapping() if (
            signature_of(function) is None
            or _binds(function, **value)
            or not _binds(function, value)
        ):
            return (), dict(value)
        case Mapping():
            return (value,), {}
        case tuple() if hasattr(value, "_fields") and _binds(function, value):
            return (value,), {}
        case (tuple() as args, dict() as kwargs) if isinstance(value, tuple):
            return args, kwargs
        case tuple():
            return value, {}
    is_batch = type(value).__module__ != "builtins" and callable(getattr(value, "to", None))
    is_object = dataclasses.is_dataclass(value) and not isinstance(value, Iterable)
    return ((value,), {}) if is_batch or is_object else None


# One call, made as the user asked for it, and the samples or tokens that it works on.


def forward(function: Any, call: Call, *, no_grad: bool) -> Any:
    """Make a call; returns what it returned."""
    args, kwargs = call
    with torch.no_grad() if no_grad else nullcontext():
        output = function(*args, **kwargs)
        # A generator runs only when its items are consumed.
        return list(output) if isinstance(output, GeneratorType) else output


def backward(output: object) -> None:
    """Run backward from the sum of the floating-point tensors in an output that need a gradient, if
    any does.
    """
    leaves = [it for it in tensors_in(output) if it.requires_grad and it.is_floating_point()]
    if not leaves:
        raise RequestError("no_gradient")
    sum(leaf.sum() for leaf in leaves).backward()  # type: ignore[union-attr]


def forget_gradients(function: Any) -> None:
    """Remove the gradients of a module's parameters: each call's are its own."""
    if isinstance(function, Module):
        function.zero_grad()


def set_up(text: str) -> None:
    """Run the lines that a person would write before torch.compile; ``TargetError`` if they
    raise.
    """
    try:
        exec(compile(text, "<setup>", "exec"), {"torch": torch})
    except Exception as error:
        reason = f"{type(error).__name__}: {first_line(error)}"
        raise TargetError(f"`{text}` can't be set: {reason}") from error


def items_in(call: Call, output: object) -> CallItems | None:
    """Find the size of the batch dim: the first dim of all tensors that are passed, and of what is
    returned.

    One tensor alone doesn't show which of its dims is the batch, unless the output has the same
    first size. Integers in two dims are tokens, if the output has both sizes. None where no batch
    dim can be found, as among the equal dims of a square matrix.
    """
    passed = _with_dims(call)
    returned = [tensor for tensor in _with_dims(output) if tensor.is_floating_point()]
    sizes = {tensor.shape[0] for tensor in passed}
    if len(sizes) != 1 or (len(passed) == 1 and not returned):
        return None
    (size,) = sizes
    if returned and all(tensor.shape[0] != size for tensor in returned):
        return None
    ids = next((it for it in passed if it.dtype is torch.int64 and it.ndim == 2), None)
    if ids is not None and any(it.ndim > 2 and it.shape[:2] == ids.shape for it in returned):
        return CallItems(count=ids.numel(), unit="tokens")
    if any(size in tensor.shape[1:] for tensor in passed):
        return None
    return CallItems(count=size, unit="samples")


def lacks_batch(output: object, size: int) -> bool:
    """Return whether a call's result has sizes, none of which is a multiple of the batch size."""
    sizes = [extent for tensor in _with_dims(output) for extent in tensor.shape]
    return bool(sizes) and not any(extent and extent % size == 0 for extent in sizes)


def _with_dims(values: object) -> list[Tensor]:
    return [tensor for tensor in tensors_in(values) if tensor.ndim]
