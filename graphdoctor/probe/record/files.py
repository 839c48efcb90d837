"""The text of the program's files, kept while it runs: they may change or vanish before anyone
looks.

Goes out: once for each file that records point to, a ``graphdoctor_file`` artifact, and for one
that the program generated, such as torch_geometric's for each layer, a ``graphdoctor_generated``:
named by what holds its functions, since its path can be another in every run.
"""

from __future__ import annotations

import contextlib
import gc
import linecache
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import torch

from ..torch_private import torch_api

_MAX_FILE_BYTES = 2**20
_MAX_BYTES = 8 * 2**20
"""Of all texts that one process keeps, in UTF-8."""

_GENERATED = ("<frozen ", "<eval_with_key>", "<string>", "<unknown>")
"""Python's own and FX's generated code. ``linecache`` may know it, as it knows cells of IPython,
which are kept."""


@cache
def is_user_file(file: str) -> bool:
    """Whether a file isn't torch's, Python's own or the probe's."""
    # The separator: torchvision lies beside torch.
    roots = (*torch_api.torch_roots(), Path(__file__).resolve().parent.parent)
    is_stdlib = (
        file.startswith(f"{Path(linecache.__file__).parent}{os.sep}")
        and "site-packages" not in file
    )
    return not is_stdlib and not file.startswith((*(f"{root}{os.sep}" for root in roots), "<"))


_IMPORTED = time.time()
_CELL = re.compile(r"^<ipython-input-\d+-\w+>$|[/\\]ipykernel_\d+[/\\]")
"""What IPython (``core/compilerop.py``, 9) and ipykernel (``compiler.py``, 7) call the cells of a
notebook."""


class ProgramFiles:
    """Texts of the program's files, if ``has_texts``, and which are generated; ``target``'s folder
    is the project's.
    """

    def __init__(self, target: str | None, *, has_texts: bool = True) -> None:
        self._has_texts = has_texts
        self.forget()
        self._temporary = Path(tempfile.gettempdir()).resolve()
        roots = {Path.cwd(), *([] if target is None else [Path(target).resolve().parent])}
        # A temporary folder is nobody's project, even if the program was started there.
        self._roots = tuple(roots - {self._temporary})
        self._started = _process_start()

    def forget(self) -> None:
        """Nothing was wanted so far."""
        self._bytes_left = _MAX_BYTES
        self._seen: set[str] = set()
        self._pending: list[str] = []

    def want(self, file: str) -> None:
        """Have the next ``take`` return what there is to say of a file."""
        if file not in self._seen:
            self._seen.add(file)
            self._pending.append(file)

    def take(self) -> Iterator[tuple[str, dict[str, str | None]]]:
        """Artifacts for the files wanted since the last time, in the order in which they were
        seen.
        """
        pending, self._pending = self._pending, []
        generated = [file for file in pending if self._is_generated(file)]
        makers = _makers(generated) if generated else {}
        for file in generated:
            yield "graphdoctor_generated", {"file": file, "maker": makers.get(file)}
        for file in pending if self._has_texts else ():
            if is_user_file(file) or (file.startswith("<") and not file.startswith(_GENERATED)):
                yield "graphdoctor_file", {"file": file, "text": self._text(file)}

    def _text(self, file: str) -> str | None:
        text = ""
        # A loader of the program's, asked for its source, may raise anything.
        with contextlib.suppress(Exception):
            # As tracebacks and torch read it: cells and edits laid over the import have entries
            # there.
            text = "".join(linecache.getlines(file))
        # From Python 3.13 on, an empty file has one empty line.
        size = 0 if text == "\n" else len(text.encode("utf-8", "replace"))
        if not 0 < size <= min(_MAX_FILE_BYTES, self._bytes_left):
            return None
        self._bytes_left -= size
        return text

    def _is_generated(self, file: str) -> bool:
        if file.startswith("<"):
            is_whole = file.endswith(">") and file not in ("<stdin>", "<console>")
            return is_whole and not file.startswith(_GENERATED) and not _is_cell(file)
        path = Path(file)
        is_project = not path.is_absolute() or any(
            path.is_relative_to(root) for root in self._roots
        )
        if is_project or not is_user_file(file):
            return False
        is_temporary = path.is_relative_to(self._temporary) or path.resolve().is_relative_to(
            self._temporary
        )
        try:
            found = path.stat()
        except OSError:
            # Removed after it was imported; elsewhere it can be in an archive, or a path of another
            # machine.
            return is_temporary and not _is_cell(file)
        # What is imported by name from a folder of packages has the same path the next time.
        is_importable = any(folder and path.is_relative_to(folder) for folder in sys.path)
        return min(found.st_mtime, found.st_ctime) >= self._started and (
            is_temporary or not is_importable
        )


def _is_cell(file: str) -> bool:
    """A cell of a notebook: the user wrote it, though not into a file."""
    return file in linecache.cache and ("IPython" in sys.modules or _CELL.search(file) is not None)


def _process_start() -> float:
    """When this process began, in seconds since the epoch; when this module was imported where that
    is unknown.
    """
    with contextlib.suppress(OSError, ValueError, IndexError, AttributeError):
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        if ticks:
            return (
                time.time()
                - time.clock_gettime(time.CLOCK_BOOTTIME)
                + ticks / os.sysconf("SC_CLK_TCK")
            )
    return _IMPORTED


# Who made it.


def _makers(files: Iterable[str]) -> dict[str, str]:
    """For each file, the name that holds one of its functions: of a class, else of an nn.Module,
    else of a module.
    """
    wanted = set(files)
    found: dict[str, str] = {}
    for holders in (_held_by_classes, _held_by_instances, _held_by_modules):
        names: dict[str, list[str]] = {}
        for file, name in holders(left) if (left := wanted - found.keys()) else ():
            names.setdefault(file, []).append(name)
        # The same in each run, whatever the order of imports; a public name says more.
        found |= {
            file: min(held, key=lambda name: (name.rpartition(".")[2].startswith("_"), name))
            for file, held in names.items()
        }
    return found


def _held_by_classes(files: set[str]) -> Iterator[tuple[str, str]]:
    seen: set[int] = set()
    waiting: list[type] = [object]
    while waiting:
        kind = waiting.pop()
        if id(kind) not in seen:
            seen.add(id(kind))
            yield from _held_as(kind, vars(kind), files)
            waiting += type.__subclasses__(kind)


def _held_by_instances(files: set[str]) -> Iterator[tuple[str, str]]:
    for instance in gc.get_objects():
        if issubclass(type(instance), torch.nn.Module):
            yield from _held_as(type(instance), vars(instance), files)


def _held_as(
    kind: type, attributes: Mapping[str, object], files: set[str]
) -> Iterator[tuple[str, str]]:
    held = [
        (file, name)
        for name, value in list(attributes.items())
        if (file := _code_file(value)) in files
    ]
    # A class that the generated code defines says nothing about who made it.
    if not held or _is_defined_in(kind, files):
        return
    is_one = len({file for file, _ in held}) == 1
    class_name = f"{kind.__module__}.{kind.__qualname__}"
    yield from (
        (str(file), class_name if is_one else f"{class_name}.{name}") for file, name in held
    )


def _held_by_modules(files: set[str]) -> Iterator[tuple[str, str]]:
    for module_name, module in list(sys.modules.items()):
        source = getattr(module, "__file__", None)
        is_program = module_name == "__main__" or (isinstance(source, str) and is_user_file(source))
        if not is_program or source in files or not isinstance(module, ModuleType):
            continue
        for name, value in list(vars(module).items()):
            # Dynamo puts names of its own there, which begin like this.
            for held in () if name.startswith("__") else (value, *_items(value)):
                if (file := _file_of(held)) in files:
                    yield str(file), f"{module_name}.{name}"


def _items(value: object) -> list[Any]:
    with contextlib.suppress(Exception):  # a container of the program's own
        if type(value) in (dict, list, tuple, set):
            return list(value.values() if isinstance(value, dict) else value)  # type: ignore[call-overload]
    return []


def _file_of(value: object) -> str | None:
    if isinstance(value, ModuleType):
        return vars(value).get("__file__")
    held = list(vars(value).values()) if isinstance(value, type) else [value]
    return next((file for each in held if (file := _code_file(each)) is not None), None)


def _code_file(value: object) -> str | None:
    function = _function(value)
    return None if function is None else function.__code__.co_filename


def _function(value: object) -> FunctionType | None:
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    elif isinstance(value, property):
        value = value.fget
    return value if isinstance(value, FunctionType) else None


def _is_defined_in(kind: type, files: set[str]) -> bool:
    """Whether a class was written there: a function of its body has the class's name, one put into
    it later hasn't.
    """
    functions = ((name, _function(value)) for name, value in list(vars(kind).items()))
    return any(
        function.__qualname__ == f"{kind.__qualname__}.{name}"
        for name, function in functions
        if function is not None and function.__code__.co_filename in files
    )
