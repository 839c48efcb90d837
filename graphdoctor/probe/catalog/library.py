"""What a library's module says to the search."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any, NamedTuple, Protocol

from ..wire import ArchitectureRecord


class ModelText(NamedTuple):
    """One way to build an architecture, as source.

    Args:
        imports: Statements such as ``from transformers import LlamaModel``; ``import torch`` is there already.
        subject: What the library wants to know again when it is asked for inputs.
    """

    imports: tuple[str, ...]
    body: str
    notes: tuple[str, ...] = ()
    subject: Any = None


class InputsText(NamedTuple):
    """Inputs that a model might take, as source.

    Args:
        body: Statements of ``example_inputs()``, which returns a dict of keyword arguments, or a tuple of positional
            ones; torch's seed is set before them.
    """

    body: str
    notes: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()


class Library(Protocol):
    """A library with a catalog."""

    most_parameters: int
    """A model with more is too large for a survey."""

    def version(self) -> str:
        """The installed version."""

    def architectures(self) -> list[ArchitectureRecord]:
        """All architectures, in the library's order; builds none."""

    def models(self, name: str) -> Iterator[ModelText]:
        """Ways to build an architecture, the smallest first.

        Raises:
            Exception: Its classes can't be imported, or have no default configuration.
        """

    def inputs(self, text: ModelText, model: Any) -> Generator[InputsText, BaseException, None]:  # noqa: ANN401
        """Inputs to try with a model that was built, the best first.

        Yields:
            Inputs; gets the exception that the model raised with them.
        """
