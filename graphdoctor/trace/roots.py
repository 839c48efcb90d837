"""torch's wrapper around a module of its own class, as the program has it.

A frame of the wrapper has the values ``fn``, ``args`` and ``kwargs``: ``fn[1].training`` is ``model[1].training``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from graphdoctor.facts.stack import StackEntry

_CALLED = re.compile(r"(?<![\w.])fn(?=[.\[]|$)")
_POSITION = re.compile(r"(?<![\w.])args\[(\d+)\]")
_KEYWORD = re.compile(r"(?<![\w.])kwargs\['(\w+)'\]")
_ARGUMENT_SOURCE = re.compile(r"L\['args'\]\[(\d+)\]")
_CALLED_SOURCE = re.compile(r"L\['fn'\]")
_NAMES = re.compile(r"\w+(\.\w+)*")
_NAME = re.compile(r"(\w+)((?:\[\d+\])?)")


@dataclass(frozen=True)
class Root:
    """What the wrapper's frame stands for.

    ``arguments``: what its ``forward`` calls the positional arguments.
    ``container``: the class of torch's own that the module inside it has its ``forward`` from.
    """

    expression: str
    class_name: str
    arguments: tuple[str, ...]
    place: StackEntry
    container: str | None = None

    def named(self, text: str) -> str:
        """An expression about the wrapper's values in the program's own names."""
        text = _CALLED.sub(lambda _found: self.expression, text)
        return _KEYWORD.sub(r"\1", _POSITION.sub(self._argument, text))

    def named_source(self, source: str) -> str:
        """Torch's source as it would be without the wrapper: an argument of ``forward``, or a part of the module."""
        head, dot, rest = self.expression.partition(".")
        if _NAMES.fullmatch(self.expression):
            source = _CALLED_SOURCE.sub(lambda _found: f"L['{head}']{dot}{rest}", source)
        return _ARGUMENT_SOURCE.sub(self._source, source)

    def _argument(self, found: re.Match[str]) -> str:
        index = int(found[1])
        return self.arguments[index] if index < len(self.arguments) else found[0]

    def _source(self, found: re.Match[str]) -> str:
        index = int(found[1])
        name = _NAME.fullmatch(self.arguments[index]) if index < len(self.arguments) else None
        return found[0] if name is None else f"L['{name[1]}']{name[2]}"
