"""Tensors that the program's own code computes, set to others just after it assigns them.

What is drawn, or made of attributes, no argument changes: ``keep = torch.rand(n) < self.p``. It's
set in the untouched program and in an edited one alike, at the assignment that both have.
"""

from __future__ import annotations

import ast
import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NamedTuple

import torch
from torch import Tensor

from .looking import Looker

_MAX_NUMBERS = 2**12
_EVERY_SECOND = "1 in every second row"
_COPIED = (ast.Name, ast.Attribute, ast.Subscript, ast.Constant)
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
    function: str
    text: str
    name: str
    lines: range


class Assigned(Looker[_Site]):
    """Notes what is assigned in calls, and sets some of it."""

    def __init__(self) -> None:
        super().__init__()
        self.is_needed = False
        """There is something to do."""
        self.is_forced = False
        """Something was set in the last calls."""
        self._values: dict[Place, list[Tensor]] = {}
        self._chosen: Place | None = None
        self._pattern = ""
        self._waiting: dict[FrameType, _Site] = {}

    @contextmanager
    def noting(self) -> Iterator[dict[Place, list[Tensor]]]:
        """Note small tensors that are assigned meanwhile, in their order."""
        self._values, self.is_needed = {}, True
        try:
            yield self._values
        finally:
            self.is_needed = False

    @contextmanager
    def forcing(self, place: Place, pattern: str) -> Iterator[None]:
        """Set what is assigned at a place meanwhile."""
        self._chosen, self._pattern, self.is_needed, self.is_forced = place, pattern, True, False
        try:
            yield
        finally:
            self._chosen, self.is_needed = None, False
            self._waiting.clear()

    def find(self, tree: ast.Module) -> Iterator[tuple[int, _Site]]:
        """See ``Looker``."""
        functions = (ast.FunctionDef, ast.AsyncFunctionDef)
        # A line is of the innermost function, which comes last.
        sites: dict[int, _Site] = {}
        for function in (node for node in ast.walk(tree) if isinstance(node, functions)):
            for node in ast.walk(function):
                match node:
                    case ast.Assign(targets=[ast.Name(id=name)], value=value):
                        if not isinstance(value, _COPIED):
                            lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
                            site = _Site(function.name, ast.unparse(node), name, lines)
                            sites[node.lineno] = site
        yield from sites.items()

    def look(self, frame: FrameType) -> None:
        """Look at what the line before gave."""
        site = self._waiting.get(frame)
        if site is not None and frame.f_lineno not in site.lines:
            del self._waiting[frame]
            self._settle(frame, site)
        for site in self.sites(frame):
            if site.function == frame.f_code.co_name:
                self._waiting[frame] = site

    def _settle(self, frame: FrameType, site: _Site) -> None:
        value = frame.f_locals.get(site.name)
        if not isinstance(value, Tensor) or value.numel() > _MAX_NUMBERS:
            return
        place = Place(frame.f_code.co_filename, site.function, site.text)
        if place == self._chosen:
            self.is_forced = True
            frame.f_locals[site.name] = _set(value, self._pattern)
            # Before Python 3.13, `f_locals` is a copy.
            ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))
        elif self._chosen is None:
            self._values.setdefault(place, []).append(value.detach().clone())


def _set(value: Tensor, pattern: str) -> Tensor:
    if pattern == _EVERY_SECOND:
        rows = torch.arange(len(value) if value.ndim else 1, device=value.device) % 2 == 0
        shape = (-1, *[1] * (value.ndim - 1)) if value.ndim else ()
        return rows.view(shape).expand_as(value).to(value.dtype)
    return torch.full_like(value, float(pattern.removeprefix("all ")), requires_grad=False)
