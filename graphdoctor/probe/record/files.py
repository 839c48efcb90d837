"""The program's files: their text, kept while it runs, since they may change or vanish before
anyone looks; and all that the process reads, for ``reads.json``.

Goes out: once for each file that records point to, a ``graphdoctor_file`` artifact, and for one
that the program generated, such as torch_geometric's for each layer, a ``graphdoctor_generated``:
named by the class that holds its functions, since its path can be another in every run.
"""

from __future__ import annotations

import json
import linecache
import os
import re
import site
import stat
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import FunctionType

from ..torch_private import torch_api
from ..wire import ReadsRecord, UnseenReads

_MAX_FILE_BYTES = 2**20
_MAX_BYTES = 8 * 2**20
"""Of all texts that one process keeps, in UTF-8."""

_GENERATED = ("<frozen ", "<eval_with_key>", "<string>", "<unknown>")
"""Python's own and FX's generated code. ``linecache`` may have it, as it has cells of IPython,
which are kept."""

_IMPORTED = time.time()
_CELL = re.compile(r"^<ipython-input-\d+-\w+>$|[/\\]ipykernel_\d+[/\\]")
"""What IPython (``core/compilerop.py``, 9) and ipykernel (``compiler.py``, 7) call the cells of a
notebook."""


@cache
def is_user_file(file: str) -> bool:
    """Return whether a file isn't torch's, Python's own or the probe's."""
    stdlib = f"{Path(linecache.__file__).parent}{os.sep}"
    if file.startswith("<") or (file.startswith(stdlib) and "site-packages" not in file):
        return False
    # The separator: torchvision lies beside torch.
    roots = (*torch_api.torch_roots(), Path(__file__).resolve().parent.parent)
    return not file.startswith(tuple(f"{root}{os.sep}" for root in roots))


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
        self._roots = roots - {self._temporary}
        self._started = _process_start()

    def forget(self) -> None:
        """Begin with nothing wanted."""
        self._bytes_left = _MAX_BYTES
        self._seen: set[str] = set()
        self._pending: list[str] = []

    def want(self, file: str) -> None:
        """Have the next ``take`` yield what there is to say of a file."""
        if file not in self._seen:
            self._seen.add(file)
            self._pending.append(file)

    def take(self) -> Iterator[tuple[str, dict[str, str | None]]]:
        """Yield artifacts for the files wanted since the last time, in the order in which they were
        seen.
        """
        pending = self._pending
        self._pending = []
        generated = [file for file in pending if self._is_generated(file)]
        makers = _makers(set(generated)) if generated else {}
        for file in generated:
            yield "graphdoctor_generated", {"file": file, "maker": makers.get(file)}
        for file in pending if self._has_texts else ():
            if is_user_file(file) or (file.startswith("<") and not file.startswith(_GENERATED)):
                yield "graphdoctor_file", {"file": file, "text": self._text(file)}

    def _text(self, file: str) -> str | None:
        text = ""
        # A loader of the program's, asked for its source, may raise anything.
        with suppress(Exception):
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
        is_project = not path.is_absolute() or any(map(path.is_relative_to, self._roots))
        if is_project or not is_user_file(file):
            return False
        # A lasting folder's file has the same path the next time.
        places = (path, path.resolve())
        if not any(place.is_relative_to(self._temporary) for place in places) or _is_cell(file):
            return False
        try:
            status = path.stat()
        except OSError:
            return True  # removed after it was imported
        return min(status.st_mtime, status.st_ctime) >= self._started


def _is_cell(file: str) -> bool:
    """A cell of a notebook: the user wrote it, though not into a file."""
    return file in linecache.cache and ("IPython" in sys.modules or _CELL.search(file) is not None)


def _process_start() -> float:
    """Return when this process began, in seconds since the epoch: a forked one has imported this
    module long before.

    If that's unknown, it's when this module was imported.
    """
    with suppress(OSError, ValueError, IndexError, AttributeError):
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        if ticks:
            booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
            return booted + ticks / os.sysconf("SC_CLK_TCK")
    return _IMPORTED


# Who made a file.


def _makers(files: set[str]) -> dict[str, str]:
    """For each file, the name of a class that holds one of its functions."""
    names: dict[str, list[str]] = {}
    seen = set()
    waiting = [object]
    while waiting:
        kind = waiting.pop()
        if id(kind) not in seen:
            seen.add(id(kind))
            waiting += type.__subclasses__(kind)
            for file, name in _held_by(kind, files):
                names.setdefault(file, []).append(name)
    # The same in each run, whatever the order of imports; a public name says more.
    return {
        file: min(held, key=lambda name: (name.rpartition(".")[2].startswith("_"), name))
        for file, held in names.items()
    }


def _held_by(kind: type, files: set[str]) -> Iterator[tuple[str, str]]:
    attributes = dict(vars(kind))
    held = {name: file for name, it in attributes.items() if (file := _file_of(it)) in files}
    # A class that the generated code defines says nothing about who made it: a function of its body
    # has the class's name; one put into it later hasn't.
    functions = ((name, _function(it)) for name, it in attributes.items())
    defined = (
        function.__qualname__ == f"{kind.__qualname__}.{name}"
        for name, function in functions
        if function is not None and function.__code__.co_filename in files
    )
    if held and not any(defined):
        is_one = len(set(held.values())) == 1
        class_name = f"{kind.__module__}.{kind.__qualname__}"
        for name, file in held.items():
            yield str(file), class_name if is_one else f"{class_name}.{name}"


def _function(value: object) -> FunctionType | None:
    if isinstance(value, staticmethod | classmethod):
        value = value.__func__
    elif isinstance(value, property):
        value = value.fget
    return value if isinstance(value, FunctionType) else None


def _file_of(value: object) -> str | None:
    function = _function(value)
    return None if function is None else function.__code__.co_filename


# Files that the process reads, as Python reports through ``sys.addaudithook``, and mapped ones.

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
        torch_api.keep_from_compiling(_note)
        sys.addaudithook(_note)
        # After it, because importing Dynamo names a folder of caches in the environment.
        self._before, self._environment = set(sys.modules), dict(os.environ)

    def note_imports(self) -> None:
        """Note what has been imported of installed packages until now."""
        if dict(os.environ) == self._environment:
            paths = map(sysconfig.get_path, ("purelib", "platlib"))
            roots = tuple(f"{path}{os.sep}" for path in paths)
            self._modules = {
                name: file
                for name, file in _module_files()
                if name not in self._before and file.startswith(roots)
            }

    def write(self, path: Path) -> None:
        """Write what was read until now."""
        absolute = os.path.abspath  # links stay
        named = [os.fsdecode(n) for n in _strange if isinstance(n, str | bytes | os.PathLike)]
        caches = (f"{os.environ[name]}/" for name in _CACHES if os.environ.get(name))
        not_read = (*_SYSTEM, *caches)

        def is_original(file: str) -> bool:
            is_compiled = file.endswith(".pyc") and "/__pycache__/" in file
            return not is_compiled and not file.startswith(not_read)

        opened = {file for file in (*_opened, *map(absolute, named)) if is_original(file)}
        loaded = (*(file for _, file in _module_files()), *_mapped_files())
        files = {*opened, *filter(is_original, loaded)}
        folders = list(sys.path)
        with suppress(Exception):  # a user without a home
            folders.append(site.getusersitepackages())
        unchanged = []
        for file in sorted(files):
            # Not since this process began.
            with suppress(OSError, ValueError):
                status = Path(file).stat()
                changed_ns = max(status.st_mtime_ns, status.st_ctime_ns)
                if stat.S_ISREG(status.st_mode) and changed_ns < self._since_ns:
                    unchanged.append(file)
        record = ReadsRecord(
            files=unchanged,
            missing=sorted(file for file in opened if not os.path.lexists(file)),
            search_path=list(dict.fromkeys(map(absolute, folders))),
            prefix=[sys.base_prefix, sys.prefix],
            unseen=sorted(_unseen),
            modules=self._modules,
        )
        path.write_text(json.dumps(record), encoding="utf-8")


def _module_files() -> Iterator[tuple[str, str]]:
    """Yield the names and files of modules, in the order of their imports."""
    for name, module in list(sys.modules.items()):
        with suppress(Exception):  # anything can be in there
            file = vars(module).get("__file__")
            if isinstance(file, str):
                yield name, os.path.abspath(file)  # noqa: PTH100 - links stay


def _mapped_files() -> Iterator[str]:
    """Files mapped into memory, such as shared libraries; Linux alone tells."""
    with suppress(OSError):
        for line in Path("/proc/self/maps").read_text(errors="surrogateescape").splitlines():
            fields = line.split(maxsplit=5)
            if len(fields) == 6 and fields[5].startswith("/"):
                yield fields[5]
