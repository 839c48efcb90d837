"""What a catalog has: a library's architectures, and a program of each."""

from __future__ import annotations

from typing import Literal

from .base import Fact

RefusalKind = Literal[
    "load_failed", "eager_failed", "no_inputs", "too_large", "timeout", "out_of_memory", "crashed"
]
"""Why there is no program of an architecture. ``load_failed``: no configuration could be built;
``eager_failed``: a model was built, and failed with all inputs; ``no_inputs``: nothing says what it
takes; ``too_large``: no configuration is small enough; the others: how the process ended that
looked for one."""


class Architecture(Fact):
    """One architecture of a library."""

    name: str
    """What the library calls it, such as ``llama``."""
    family: str
    """The group that it belongs to, such as ``text`` or ``vision``."""


class Catalog(Fact):
    """What a library has, as it is installed for one interpreter."""

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
    """What it was made of."""
    version: str
    architecture: str
    parameters: int | None
    """How many numbers its model learns; None for a program that was there already."""


class Refusal(Fact):
    """There is no program of an architecture."""

    kind: RefusalKind
    """Why, for whoever decides by it."""
    message: str
    """Why, a sentence."""
    traceback: str | None = None
    """Of the exception, as Python prints it; None if there was none."""
