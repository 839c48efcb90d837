"""Tensors that the program's own code computes, set to others just after it assigns them.

What is drawn, or made of attributes, no argument changes: ``keep = torch.rand(n) < self.p``. It's
set in the untouched program and in an edited one alike, at the assignment that both have.
"""

from __future__ import annotations

import ast
import ctypes
import linecache
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import NamedTuple

import torch
from torch import Tensor

_MAX_NUMBERS = 2**12
_EVERY_SECOND = "1 in every second row"
PATTERNS = (_EVERY_SECOND, "all 0", "all 1")
"""What a tensor is set to; besides, any number, as text."""


class Place(NamedTuple):
    """An assignment to a name, by its text."""

    file: str
    function: str
    text: str

    def words(self, pattern: str) -> str:
        """Say what is set."""
        return f"`{self.text.partition(' = ')[0]}` in `{self.function}` is {pattern}"


class _Site(NamedTuple):
    place: Place
    name: str
    lines: range


class Assigned:
    """Notes what is assigned in calls, and sets some of it."""

    def __init__(self) -> None:
        self.values: dict[Place, list[Tensor]] = {}
        """What was assigned in the last calls, in their order."""
        self.forced: frozenset[Place] = frozenset()
        """Where something was set in them."""
        self._pattern, self._chosen, self._is_noting = "", frozenset[Place](), False
        self._sites: dict[str, dict[tuple[str, int], _Site]] = {}
        self._waiting: dict[FrameType, _Site] = {}

    @property
    def is_needed(self) -> bool:
        """Check whether there is something to do."""
        return self._is_noting or bool(self._chosen)

    @contextmanager
    def noting(self) -> Iterator[dict[Place, list[Tensor]]]:
        """Note small tensors that are assigned meanwhile."""
        self.values, self._is_noting = {}, True
        try:
            yield self.values
        finally:
            self._is_noting = False

    @contextmanager
    def forcing(self, places: Iterable[Place], pattern: str) -> Iterator[None]:
        """Set what is assigned at some places meanwhile."""
        self._chosen, self._pattern, self.forced = frozenset(places), pattern, frozenset()
        try:
            yield
        finally:
            self._chosen = frozenset()
            self._waiting.clear()

    def has_sites(self, code: CodeType) -> bool:
        """Return whether lines of a function are worth looking at."""
        file = code.co_filename
        if file not in self._sites:
            self._sites[file] = _sites_in(file)
        sites = self._sites[file].values()
        is_any = self._is_noting
        return any(
            site.place.function == code.co_name and (is_any or site.place in self._chosen)
            for site in sites
        )

    def look(self, frame: FrameType) -> None:
        """Look at what the line before gave."""
        code = frame.f_code
        site = self._waiting.get(frame)
        if site is not None and frame.f_lineno not in site.lines:
            del self._waiting[frame]
            self._settle(frame, site)
        if site := self._sites[code.co_filename].get((code.co_name, frame.f_lineno)):
            self._waiting[frame] = site

    def _settle(self, frame: FrameType, site: _Site) -> None:
        value = frame.f_locals.get(site.name)
        if not isinstance(value, Tensor) or value.numel() > _MAX_NUMBERS:
            return
        if site.place in self._chosen:
            self.forced |= {site.place}
            frame.f_locals[site.name] = _set(value, self._pattern)
            # Before Python 3.13, `f_locals` is a copy.
            ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))
        elif self._is_noting:
            self.values.setdefault(site.place, []).append(value.detach().clone())


def _set(value: Tensor, pattern: str) -> Tensor:
    if pattern == _EVERY_SECOND:
        rows = torch.arange(len(value) if value.ndim else 1, device=value.device) % 2 == 0
        shape = (-1, *[1] * (value.ndim - 1)) if value.ndim else ()
        return rows.view(shape).expand_as(value).to(value.dtype)
    return torch.full_like(value, float(pattern.removeprefix("all ")), requires_grad=False)


def _sites_in(file: str) -> dict[tuple[str, int], _Site]:
    sites: dict[tuple[str, int], _Site] = {}
    try:
        # Not from disk: an edited program's text isn't there.
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):
        return sites
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    for function in (node for node in ast.walk(tree) if isinstance(node, functions)):
        for node in ast.walk(function):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    if isinstance(value, (ast.Name, ast.Attribute, ast.Subscript, ast.Constant)):
                        continue
                    place = Place(file, function.name, ast.unparse(node))
                    lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
                    sites[function.name, node.lineno] = _Site(place, name, lines)
    return sites
