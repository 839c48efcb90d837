"""Classifies files by owner (the user, a package, the standard library, torch), and says what
torch's wrappers hold.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from graphdoctor.facts.recording import Environment
from graphdoctor.facts.stack import Origin, StackEntry, resumed

PlaceReader = Callable[[str, int, str], StackEntry | None]
"""Makes a stack entry from a file, which can lack its first letters, a line and a function; None if
unknown."""

_SITE = re.compile(r"[/\\](?:site|dist)-packages[/\\]([^/\\]+)")
_STDLIB = re.compile(r"[/\\]lib(?:64)?[/\\]python3\.\d+[/\\]|[/\\]Python3\d+[/\\]Lib[/\\]")
_PROBE = re.compile(r"[/\\]graphdoctor[/\\](?:catalog|probe)[/\\](?:\w+[/\\])*\w+\.py$")
_TORCH_FILE = re.compile(r"^(.*[/\\]torch)[/\\]_dynamo[/\\]\w+\.py$")
_TORCH_PACKAGES = frozenset({"torch", "torchgen", "functorch"})


class Origins:
    """Classifies files by the folders of one environment, or by the usual layout if those are
    unknown.
    """

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self.torch_root = environment.torch_root
        self._known: dict[str, tuple[Origin, str | None]] = {}

    def learn_from(self, file: str) -> None:
        """Derive torch's folder from one of Dynamo's files, for logs without an environment
        record.
        """
        if self.torch_root is None and (match := _TORCH_FILE.match(file)):
            self.torch_root = match[1]
            self._known.clear()

    def of(self, file: str) -> tuple[Origin, str | None]:
        """A file's owner, and its top-level package if it belongs to an installed one."""
        if file not in self._known:
            self._known[file] = self._classify(file)
        return self._known[file]

    def named(self, file: str) -> dict[str, str | None]:
        """Origin and package of a file, as fields of a fact."""
        return dict(zip(("origin", "package"), self.of(file), strict=True))

    def _classify(self, file: str) -> tuple[Origin, str | None]:
        # <eval_with_key> is code that FX generates; <frozen os> and <string> (dataclasses,
        # namedtuples) are Python's.
        if file.startswith("<eval_with_key>"):
            return "torch", "torch"
        if file.startswith("<frozen ") or file in ("<string>", "<unknown>"):
            return "stdlib", None
        environment = self._environment
        if _is_below(file, self.torch_root):
            return "torch", "torch"
        for root in environment.site_roots:
            if _is_below(file, root):
                return self._of_package(re.split(r"[/\\]", file[len(root) :].lstrip("/\\"))[0])
        if match := _SITE.search(file):
            return self._of_package(match[1])
        is_stdlib = _is_below(file, environment.stdlib_root) or _STDLIB.search(file)
        return "stdlib" if is_stdlib else "user", None

    def _of_package(self, name: str) -> tuple[Origin, str | None]:
        name = name.removesuffix(".py")
        if name in _TORCH_PACKAGES:
            return "torch", name
        return ("user", None) if name in self._environment.own_packages else ("third_party", name)


def _is_below(file: str, root: str | None) -> bool:
    return bool(root) and file.startswith((f"{root}/", f"{root}\\"))


def is_probe(file: str) -> bool:
    """Return whether a file is part of graphdoctor's own probe, which no report shows."""
    return _PROBE.search(file) is not None


def without_probe(stack: Iterable[StackEntry]) -> tuple[StackEntry, ...]:
    """The stack after the probe's innermost entry: the entries above it aren't the user's."""
    entries = tuple(stack)
    probes = (at for at, entry in enumerate(entries, start=1) if is_probe(entry.file))
    return entries[max(probes, default=0) :]


def collapse_resumes(stack: Iterable[StackEntry]) -> tuple[StackEntry, ...]:
    """The stack with a function and its resume functions merged into one entry, at the line reached
    last.
    """
    kept = []
    for entry in stack:
        function, line = resumed(entry.function)
        if line is None:
            kept.append(entry)
            continue
        while kept and kept[-1].origin == "torch" and _leads_to(kept, entry, function):
            kept.pop()
        if kept and (kept[-1].file, kept[-1].function) == (entry.file, function):
            kept.pop()
        kept.append(entry.replace(function=function))
    return tuple(kept)


def _leads_to(kept: list[StackEntry], entry: StackEntry, function: str) -> bool:
    """Return whether only torch's wrappers are between the function and its resume function."""
    below = next((item for item in reversed(kept) if item.origin != "torch"), None)
    return below is not None and (below.file, below.function) == (entry.file, function)


_CALLED = re.compile(r"(?<![\w.])fn(?=[.\[]|$)")
_POSITION = re.compile(r"(?<![\w.])args\[(\d+)\]")
_KEYWORD = re.compile(r"(?<![\w.])kwargs\['(\w+)'\]")
_ARGUMENT_SOURCE = re.compile(r"L\['args'\]\[(\d+)\]")
_CALLED_SOURCE = re.compile(r"L\['fn'\]")
_NAMES = re.compile(r"\w+(\.\w+)*")
_NAME = re.compile(r"(\w+)((?:\[\d+\])?)")


@dataclass(frozen=True)
class Wrapped:
    """The one module's ``forward`` that a decorator's function stands for.

    ``arguments``: what it calls the function's ``*args``; None if the function has none, or no
    ``**kwargs``.
    """

    qualname: str
    arguments: tuple[str, ...] | None
    place: StackEntry | None = None

    def named(self, text: str) -> str:
        """An expression about the function's values in the program's own names."""
        return text if self.arguments is None else _with_names(text, self.arguments)


def _with_names(text: str, arguments: Sequence[str]) -> str:
    names = dict(enumerate(arguments))
    return _KEYWORD.sub(
        r"\1", _POSITION.sub(lambda match: names.get(int(match[1]), match[0]), text)
    )


@dataclass(frozen=True)
class Root:
    """torch's wrapper around a module of its own class, as the program has it.

    A frame of the wrapper has the values ``fn``, ``args`` and ``kwargs``: ``fn[1].training`` is
    ``model[1].training``. ``arguments``: what its ``forward`` calls the positional arguments.
    ``container``: the class of torch's own that the module inside it has its ``forward`` from.
    """

    expression: str
    class_name: str
    arguments: tuple[str, ...]
    place: StackEntry
    container: str | None = None

    def named(self, text: str) -> str:
        """An expression about the wrapper's values in the program's own names."""
        return _with_names(_CALLED.sub(lambda _found: self.expression, text), self.arguments)

    def named_source(self, source: str) -> str:
        """Torch's source as it would be without the wrapper: an argument of ``forward``, or a part
        of the module.
        """
        head, dot, rest = self.expression.partition(".")
        if _NAMES.fullmatch(self.expression):
            source = _CALLED_SOURCE.sub(lambda _found: f"L['{head}']{dot}{rest}", source)
        return _ARGUMENT_SOURCE.sub(self._source, source)

    def _source(self, match: re.Match[str]) -> str:
        index = int(match[1])
        name = _NAME.fullmatch(self.arguments[index]) if index < len(self.arguments) else None
        return match[0] if name is None else f"L['{name[1]}']{name[2]}"
