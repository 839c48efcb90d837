"""The lines of ``reproduce.py`` that create the target, compile it and call it as the probe did.

They follow ``probe/steps/workload.py``, ``probe/target/targets.py`` and ``probe/replay/arguments.py``: change them
together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from graphdoctor.facts.recording import Recording, TargetInfo
from graphdoctor.probe.wire import INPUTS_FROM_OPTIONS, INPUTS_NOT_NEEDED

_DTYPES = {
    "f32": "float32",
    "f64": "float64",
    "f16": "float16",
    "bf16": "bfloat16",
    "i64": "int64",
    "i32": "int32",
    "i16": "int16",
    "i8": "int8",
    "u8": "uint8",
    "bool": "bool",
    "b8": "bool",
    "c64": "complex64",
    "c128": "complex128",
}
_METHODS = {"float32": "float", "float64": "double", "float16": "half", "bfloat16": "bfloat16"}
"""The method that converts a module, by dtype."""

_CALLS = '''\
def _calls(value):
    """A tuple is positional arguments, a dict is keyword arguments, (tuple, dict) is both, a list is several calls."""
    if isinstance(value, torch.Tensor):
        return [((value,), {})]
    if isinstance(value, dict):
        return [((), value)]
    if isinstance(value, tuple):
        is_both = len(value) == 2 and isinstance(value[0], tuple) and isinstance(value[1], dict)
        return [value if is_both else (value, {})]
    return (call for item in value for call in _calls(item))
'''
_GIVEN = '''\
def _given(parts):
    """The arguments that came with the target."""
    args, kwargs = (), {}
    for part in parts:
        if isinstance(part, dict):
            kwargs = part
        else:
            args = (part,) if isinstance(part, torch.Tensor) else tuple(part)
    return args, kwargs
'''
_MODULES = '''\
def _modules(target):
    """The modules that the target uses: itself, or its object and those that its code names."""
    if isinstance(target, torch.nn.Module):
        return [target]
    import inspect

    names = inspect.getclosurevars(inspect.unwrap(getattr(target, "__func__", target)))
    used = (getattr(target, "__self__", None), *names.nonlocals.values(), *names.globals.values())
    return [value for value in used if isinstance(value, torch.nn.Module)]
'''
_CAST = '''\
def _cast(value, dtype, made, depth=0):
    """The value with its floating-point tensors in a dtype; lists, dicts and objects are changed in place."""
    if isinstance(value, torch.nn.Module):
        value.{method}()
    elif isinstance(value, torch.Tensor):
        if value.is_floating_point() and value.dtype is not dtype:
            if id(value) not in made:
                made[id(value)] = value, value.detach().to(dtype).requires_grad_(value.requires_grad)
            return made[id(value)][1]
    elif depth > 7:
        return value
    elif isinstance(value, (list, dict)):
        for key, item in list(value.items() if isinstance(value, dict) else enumerate(value)):
            value[key] = _cast(item, dtype, made, depth + 1)
    elif isinstance(value, tuple):
        items = [_cast(item, dtype, made, depth + 1) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    elif hasattr(value, "__dict__") and not callable(value):
        for name, item in list(vars(value).items()):
            object.__setattr__(value, name, _cast(item, dtype, made, depth + 1))
    return value
'''
_RESIZE = '''\
def _resize(value, path, size):
    """The value with as many rows in the tensor at the end of a path, if it is there."""
    if not path:
        if not isinstance(value, torch.Tensor) or not value.ndim or len(value) in (0, size):
            return value
        rows = torch.cat([value.detach()] * -(-size // len(value)))[:size]
        return rows.requires_grad_(value.requires_grad)
    (kind, key), *rest = path
    try:
        item = getattr(value, key) if kind == "attribute" else value[key]
    except (AttributeError, IndexError, KeyError):
        return value
    item = _resize(item, rest, size)
    if kind == "attribute":
        object.__setattr__(value, key, item)
    elif isinstance(value, (list, dict)):
        value[key] = item
    else:
        items = [item if index == key else other for index, other in enumerate(value)]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return value
'''


def seed_lines(request: Mapping[str, Any]) -> Iterator[str]:
    """Seed random numbers as in the recording, before the target's file runs."""
    seed = request.get("seed") or 0
    yield "import torch"
    yield ""
    yield ""
    yield "def _seed():"
    yield "    import random"
    yield "    import sys"
    yield ""
    yield f"    random.seed({seed})"
    yield f"    torch.manual_seed({seed})"
    yield '    if "numpy" in sys.modules:'
    yield f'        sys.modules["numpy"].random.seed({seed % 2**32})'
    yield ""
    yield ""
    yield "_seed()"


def call_lines(recording: Recording, request: Mapping[str, Any]) -> Iterator[str]:
    """The lines after the target's file.

    Args:
        recording: A recording whose target was created.
        request: What the probe was asked to do.
    """
    origin = recording.target.inputs_from or ""
    is_own = _is_own_call(recording)
    yield ""
    if not is_own and origin not in (INPUTS_FROM_OPTIONS, INPUTS_NOT_NEEDED):
        yield _CALLS
        yield ""
    if is_own:
        yield _GIVEN
        yield ""
    yield from _changing(recording, request)
    yield "def _reproduce():"
    yield from (f"    {line}" if line else "" for line in _body(recording, request, is_own=is_own))
    yield ""
    yield ""
    yield 'if __name__ == "__main__":'
    yield "    _reproduce()"


def _changing(recording: Recording, request: Mapping[str, Any]) -> Iterator[str]:
    """Functions that give the target and the calls another dtype or batch size."""
    if dtype := request.get("dtype"):
        yield from (_MODULES, "", _CAST.replace("{method}", _METHODS[dtype]), "")
    if request.get("batch") is not None:
        yield from (_RESIZE, "", "_BATCHED = [")
        yield from (f"    {found.path},  # {found.expression}" for found in recording.target.batched)
        yield from ("]", "", "")


def _is_own_call(recording: Recording) -> bool:
    """Whether the factory returned the arguments with the target."""
    target = recording.target
    return target.kind == "factory" and target.inputs_from == f"{target.name}()"


def _body(recording: Recording, request: Mapping[str, Any], *, is_own: bool) -> Iterator[str]:
    target, device = recording.target, request.get("device")
    is_made = target.kind in ("factory", "module class")
    yield f"target = {target.name}{'()' if is_made else ''}"
    if target.kind == "factory":
        if is_own:
            yield "given = _given(target[1:])"
        yield "target = target[0] if isinstance(target, tuple) else target"
    if target.kind in ("factory", "module"):
        yield "# Compile the original if the target is already compiled."
        yield 'target = getattr(target, "_orig_mod", target)'
    is_set = device is not None or request.get("train") is not None
    if is_set:
        yield "if isinstance(target, torch.nn.Module):"
        if device is not None:
            yield f"    target.to({device!r})"
        if request.get("train") is not None:
            yield f"    target.train({request['train']})"
    if dtype := request.get("dtype"):
        yield "for module in _modules(target):"
        yield f"    module.{_METHODS[dtype]}()"
        yield "made = {}"
    yield "_seed()"
    made_once, each_round = _rounds(recording, request, is_own=is_own)
    if made_once:
        yield f"calls = {made_once}"
    if request.get("regional"):
        yield from _block_lines(target, ", ".join(_compile_arguments(request)))
    else:
        yield f"compiled = torch.compile({', '.join(['target', *_compile_arguments(request)])})"
    rounds = request.get("calls") or 1
    indent = ""
    if rounds > 1:
        yield f"for _ in range({rounds}):"
        indent = "    "
    yield f"{indent}for args, kwargs in {each_round}:"
    yield from (f"{indent}    {line}" for line in _one_call(request))


def _rounds(recording: Recording, request: Mapping[str, Any], *, is_own: bool) -> tuple[str | None, str]:
    """The expression that is evaluated once before the calls, and the one that gives a round of calls."""
    target = recording.target
    origin = target.inputs_from or ""
    if is_own:
        return None, "[given]"
    if origin == INPUTS_FROM_OPTIONS:
        return f"[{_asked(request.get('inputs') or {})}]", "calls"
    if origin == INPUTS_NOT_NEEDED:
        return None, "[((), {})]"
    value = f"target.{origin}" if origin in ("example_input_array", "dummy_inputs") else origin
    rounds = request.get("calls") or 1
    is_complete = recording.exit.reason == "finished"
    if is_complete and len(recording.calls) == rounds:
        # A list of bare tensors can be the arguments of one call, and here it was.
        return None, f"_calls(tuple(value) if isinstance(value := {value}, list) and len(value) > 1 else value)"
    return None, f"_calls({value})"


def _asked(inputs: Mapping[str, Any]) -> str:
    args = [_input(spec) for spec in inputs.get("args") or ()]
    kwargs = [f"{name!r}: {_input(spec)}" for name, spec in (inputs.get("kwargs") or {}).items()]
    return f"(({''.join(f'{arg}, ' for arg in args).rstrip()}), {{{', '.join(kwargs)}}})"


def _input(spec: Mapping[str, Any]) -> str:
    """An input as the probe's ``make_input`` makes it."""
    if spec["kind"] == "value":
        return repr(spec["value"])
    dtype, shape = _DTYPES[spec["dtype"]], spec["shape"]
    if dtype.startswith(("float", "bfloat", "complex")):
        return f"torch.randn({shape}, dtype=torch.{dtype})"
    return f"torch.randint(0, 2, {shape}).to(torch.{dtype})"


def _compile_arguments(request: Mapping[str, Any]) -> Iterator[str]:
    defaults: dict[str, object] = {"backend": None, "mode": None, "options": {}, "dynamic": None, "fullgraph": False}
    for name, default in defaults.items():
        if (value := request.get(name)) not in (None, default):
            yield f"{name}={value!r}"


def _block_lines(target: TargetInfo, arguments: str) -> Iterator[str]:
    """Compile each block; one that is in several places once."""
    yield "# Compile each of the modules that repeat, and not the whole."
    for found in target.blocks or ():
        paths = ", ".join(map(repr, found.paths))
        if found.compiled_as == "module":
            yield f"for path in [{paths}]:"
            yield f"    target.get_submodule(path).compile({arguments})"
        else:
            yield f"for block in dict.fromkeys(target.get_submodule(path) for path in [{paths}]):"
            yield f"    block.forward = torch.compile({', '.join(filter(None, ['block.forward', arguments]))})"
    yield "compiled = target"


def _one_call(request: Mapping[str, Any]) -> Iterator[str]:
    if dtype := request.get("dtype"):
        yield f"args, kwargs = _cast((args, kwargs), torch.{dtype}, made)"
    if (batch := request.get("batch")) is not None:
        yield "for path in _BATCHED:"
        yield f"    args, kwargs = _resize((args, kwargs), path, {batch})"
    if device := request.get("device"):
        yield f"move = lambda leaf: leaf.to({device!r}) if isinstance(leaf, torch.Tensor) else leaf"
        yield "args, kwargs = torch.utils._pytree.tree_map(move, (args, kwargs))"
    indent = ""
    if request.get("no_grad"):
        yield "with torch.no_grad():"
        indent = "    "
    yield f"{indent}output = compiled(*args, **kwargs)"
    if request.get("backward"):
        yield "leaves = [leaf for leaf in torch.utils._pytree.tree_leaves(output) if isinstance(leaf, torch.Tensor)]"
        yield "sum(leaf.sum() for leaf in leaves if leaf.requires_grad and leaf.is_floating_point()).backward()"
        yield "if isinstance(target, torch.nn.Module):"
        yield "    target.zero_grad()"
