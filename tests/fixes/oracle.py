"""What torch itself says of a program: which of its own lines break the graph. No part of
graphdoctor.

python oracle.py FILE...    # prints JSON: by file its break sites, graphs, warnings, and the error
that ended its calls

Reads what ``TORCH_LOGS=graph_breaks`` logs, of which this holds in torch 2.11 to 2.15: each break
is one record with a user stack, also one inside a loop or ``try`` for which torch skips the frame,
and one that was logged before is named by its line alone. The innermost line that is neither
torch's nor the standard library's is where it broke.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import inspect
import json
import logging
import random
import re
import sys
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import torch
import torch._dynamo
import torch._logging

_ENTRY = re.compile(r'^  File "(.+)", line (\d+), in ', re.MULTILINE)
_STACK_BEGINS = ("User code traceback:", "The graph break occurred in the following user code:")
_STACK_ENDS = re.compile(r"^(?=Graph break|Traceback \(most recent|={10})", re.MULTILINE)
_PATHS = sysconfig.get_paths()
_TORCH = Path(torch.__file__).parent
_PACKAGES = (_PATHS["purelib"], _PATHS["platlib"], str(_TORCH.parent))
_HIDDEN = (f"{_TORCH}/", __file__, "<")


def break_site(message: str) -> tuple[str, int] | None:
    """File and line of the break that a log record is about; None if it has no user stack, as a
    repeated one."""
    for words in _STACK_BEGINS:
        _, separator, stack = message.partition(words)
        if separator:
            entries = _ENTRY.findall(_STACK_ENDS.split(stack)[0])
            reported = [(file, int(line)) for file, line in entries if _is_reported(file)]
            return reported[-1] if reported else None
    return None


def examine(path: Path, *, is_eager: bool = False) -> dict[str, Any]:
    """Compile the target of a program, make its calls, and tell its own break sites, as
    ``FILE:LINE``.

    Args:
        path: The program.
        is_eager: Don't compile it.
    """
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    error = None
    with (
        _logged_breaks() as messages,
        contextlib.redirect_stdout(sys.stderr),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always", UserWarning)
        try:
            _make_calls(path, is_eager=is_eager)
        except Exception as raised:  # noqa: BLE001 - whatever a program raises is the answer
            error = f"{type(raised).__name__}: {raised}"
    sites = {break_site(message) for message in messages} - {None}
    return {
        "sites": [
            f"{path.name}:{line}"
            for line in sorted(line for file, line in sites if Path(file) == path)
        ],
        "graphs": torch._dynamo.utils.counters["stats"]["unique_graphs"],
        "warnings": [str(warning.message) for warning in caught if warning.category is UserWarning],
        "error": error,
    }


def _make_calls(path: Path, *, is_eager: bool) -> None:
    _seed()
    module = _load(path)
    target = target_of(module)
    if not is_eager:
        target = torch.compile(target, backend="eager")
    _seed()
    inputs = module.example_inputs()
    for call in [inputs] if isinstance(inputs, tuple) else inputs:
        is_named = len(call) == 2 and isinstance(call[0], tuple) and isinstance(call[1], dict)
        args, kwargs = call if is_named else (call, {})
        target(*args, **kwargs)


def _seed() -> None:
    random.seed(0)
    torch.manual_seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def target_of(module: ModuleType) -> Any:
    """Return what the module builds, or its ``model``; else its one module class without arguments;
    else its one function.
    """
    if hasattr(module, "build"):
        return module.build()
    if hasattr(module, "model"):
        return module.model
    values = [value for name, value in vars(module).items() if not name.startswith("_")]
    values = [value for value in values if getattr(value, "__module__", None) == module.__name__]
    classes = [
        value for value in values if isinstance(value, type) and issubclass(value, torch.nn.Module)
    ]
    ready = [value for value in classes if _needs_nothing(value)]
    if ready:
        (builder,) = ready
        return builder()
    (function,) = (
        v for v in values if isinstance(v, FunctionType) and v.__name__ != "example_inputs"
    )
    return function


def _needs_nothing(value: type) -> bool:
    try:
        inspect.signature(value).bind()
    except TypeError:
        return False
    return True


@contextlib.contextmanager
def _logged_breaks() -> Iterator[list[str]]:
    messages: list[str] = []
    handler = logging.Handler(logging.DEBUG)
    handler.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
    names = [name for name in logging.root.manager.loggerDict if name.endswith(".__graph_breaks")]
    loggers = [logging.getLogger(name) for name in names]
    assert loggers
    for logger in loggers:
        logger.addHandler(handler)
        logger.propagate = False
    try:
        yield messages
    finally:
        for logger in loggers:
            logger.removeHandler(handler)


def _is_reported(file: str) -> bool:
    if file.startswith(_HIDDEN):
        return False
    return file.startswith(_PACKAGES) or not file.startswith(_PATHS["stdlib"])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--eager", action="store_true", help="make the calls without torch.compile")
    options = parser.parse_args()
    torch.set_warn_always(options.eager)
    torch._logging.set_logs(graph_breaks=True)
    examined = {
        str(file): examine(file.resolve(), is_eager=options.eager) for file in options.files
    }
    print(json.dumps(examined, indent=2))


if __name__ == "__main__":
    main()
