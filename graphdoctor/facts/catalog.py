"""A catalog: a library's architectures, and a program of each."""

from __future__ import annotations

from typing import Literal

from .base import Fact

RefusalKind = Literal[
    "load_failed", "eager_failed", "no_inputs", "too_large", "timeout", "out_of_memory", "crashed"
]
"""Reason why an architecture has no program. ``load_failed``: no configuration could be built;
``eager_failed``: a model was built, and failed with all inputs; ``no_inputs``: nothing says what it
takes; ``too_large``: no configuration is small enough; the others: how the process ended that
looked for one."""


class Architecture(Fact):
    """One architecture of a library."""

    name: str
    """Name in the library, such as ``llama``."""
    family: str
    """The group that it belongs to, such as ``text`` or ``vision``."""


class Catalog(Fact):
    """Architectures of a library as it is installed for one interpreter."""

    library: str
    """The name it is installed under."""
    version: str
    architectures: tuple[Architecture, ...]
    """In the library's order."""


class Program(Fact):
    """A target: a file with ``build()`` and ``example_inputs()``, which ran in eager mode when it
    was written.
    """

    path: str
    library: str
    """Name of the library."""
    version: str
    architecture: str
    parameters: int | None
    """Number of values that its model learns; None for a program that was there already."""


class Refusal(Fact):
    """There is no program of an architecture."""

    kind: RefusalKind
    """Reason, for programs."""
    message: str
    """Reason, one sentence."""
    traceback: str | None = None
    """Of the exception, as Python prints it; None if there was none."""
