"""Files that the process reads, as Python reports through ``sys.addaudithook``, and mapped ones:
``reads.json``.
"""

from __future__ import annotations

import contextlib
import json
import os
import site
import stat
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path

from ..torch_private import torch_api
from ..wire import ReadsRecord, UnseenReads

_SYSTEM = ("/proc/", "/sys/", "/dev/")
_CACHES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "PYTHONPYCACHEPREFIX")
"""Variables that name folders of files made from others; Inductor sets its own."""

_opened: set[str] = set()
_strange: list[object] = []
_unseen: set[UnseenReads] = set()


def _note(event: str, arguments: tuple[object, ...]) -> None:
    # Dynamo compiles every function that Python calls, but for this one: so nothing written in
    # Python is called here.
    try:
        if event == "open":
            path, _, flags = arguments
            if type(flags) is not int or flags & os.O_ACCMODE == os.O_WRONLY:
                return
            if type(path) is str:
                _opened.add(path if path[:1] == "/" else f"{os.getcwd()}/{path}")  # noqa: PTH109 - not in Python
            elif type(path) is not int:
                _strange.append(path)
        elif event == "socket.connect":
            if type(arguments[1]) is tuple:
                _unseen.add("network")
        elif event in ("os.fork", "os.forkpty"):
            _unseen.add("processes")
    except Exception:  # noqa: BLE001 - what a hook raises would be raised by the program's own call
        _unseen.add("reads")


class Reads:
    """Notes from now on what the process reads."""

    def __init__(self) -> None:
        self._since_ns = time.time_ns()
        self._modules: dict[str, str] = {}
        if torch_api.keep_from_compiling(_note):
            sys.addaudithook(_note)
        else:
            _unseen.add("reads")
        # After it, because importing Dynamo names a folder of caches in the environment.
        self._known, self._environment = set(sys.modules), dict(os.environ)

    def note_imports(self) -> None:
        """Note what has been imported of installed packages until now."""
        if dict(os.environ) == self._environment:
            files = {name: file for name, file in _module_files() if name not in self._known}
            roots = tuple(
                {f"{sysconfig.get_path(name)}{os.sep}" for name in ("purelib", "platlib")}
            )
            self._modules = {name: file for name, file in files.items() if file.startswith(roots)}

    def write(self, path: Path) -> None:
        """Write what was read until now."""
        named = [name for name in _strange if isinstance(name, (str, bytes, os.PathLike))]
        opened = {*_opened, *(os.path.abspath(os.fsdecode(name)) for name in named)}  # noqa: PTH100 - links stay
        caches = tuple(f"{os.environ[name]}/" for name in _CACHES if os.environ.get(name))
        files = {*opened, *(file for _, file in _module_files()), *_mapped_files()}
        folders = list(sys.path)
        with contextlib.suppress(Exception):  # a user without a home
            folders.append(site.getusersitepackages())
        record = ReadsRecord(
            files=sorted(
                file for file in files if not _is_made(file, caches) and self._is_found(file)
            ),
            missing=sorted(
                file for file in opened if not _is_made(file, caches) and not os.path.lexists(file)
            ),
            search_path=list(dict.fromkeys(os.path.abspath(folder) for folder in folders)),  # noqa: PTH100
            prefix=[sys.base_prefix, sys.prefix],
            unseen=sorted(_unseen),
            modules=self._modules,
        )
        path.write_text(json.dumps(record), encoding="utf-8")

    def _is_found(self, file: str) -> bool:
        """Whether it's a file, and was there before this process; what it wrote itself, it didn't
        find.
        """
        try:
            found = Path(file).stat()
        except (OSError, ValueError):
            return False
        return (
            stat.S_ISREG(found.st_mode)
            and max(found.st_mtime_ns, found.st_ctime_ns) < self._since_ns
        )


def _is_made(file: str, caches: tuple[str, ...]) -> bool:
    """Whether it's made from other files, or no file on a disk at all."""
    return file.startswith((*_SYSTEM, *caches)) or (
        file.endswith(".pyc") and "/__pycache__/" in file
    )


def _module_files() -> Iterator[tuple[str, str]]:
    """The names and files of modules, in the order of their imports."""
    for name, module in list(sys.modules.items()):
        with contextlib.suppress(Exception):  # anything can be in there
            file = vars(module).get("__file__")
            if isinstance(file, str):
                yield name, os.path.abspath(file)  # noqa: PTH100 - links stay


def _mapped_files() -> Iterator[str]:
    """Files mapped into memory, such as shared libraries; Linux alone tells."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/maps").read_text(errors="surrogateescape").splitlines():
            fields = line.split(maxsplit=5)
            if len(fields) == 6 and fields[5].startswith("/"):
                yield fields[5]
