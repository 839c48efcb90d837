"""What a recipe is: a way to edit source so that a finding goes away, or the reason why it doesn't try.

A recipe reads only the concrete syntax tree: it sees no values and imports nothing of the user's. It may be wrong about
what the program means, because each edit is tried on that very program before anyone calls it verified. It must still
be careful: if it isn't sure of an edit, it declines and gives the reason.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from graphdoctor.fixes.syntax.declined import DeclinedError
from graphdoctor.fixes.syntax.place import Place


@dataclass(frozen=True)
class Edit:
    """What a recipe would write.

    Args:
        title: One imperative sentence without a full stop, worded for the line.
        content: The bytes of the whole edited file.
        is_safe: Whether results stay the same for every input, so that nobody has to review the edit.
        drops_output: Whether the compiled program prints or logs less than before.
    """

    title: str
    content: bytes
    is_safe: bool
    drops_output: bool = False


class Recipe(ABC):
    """One way to edit source."""

    name: ClassVar[str]
    """Unique, in kebab case; the module and the class have the same name: ``guard-output``."""
    codes: ClassVar[frozenset[str]]
    """Codes of the rules whose findings it may fix."""
    removes: ClassVar[bool] = True
    """Whether the finding goes away; if not, it stays and less code runs eagerly because of it."""

    @abstractmethod
    def edit(self, place: Place) -> Edit:
        """The edit for a finding.

        Args:
            place: Where the finding is.

        Raises:
            DeclinedError: The recipe doesn't apply, or can't be sure.
        """


def first_edit(recipes: Sequence[Recipe], place: Place) -> Edit | tuple[str, ...]:
    """What the first recipe writes that doesn't decline; if all do, their reasons."""
    reasons: list[str] = []
    for recipe in recipes:
        try:
            return recipe.edit(place)
        except DeclinedError as error:
            reasons.append(error.reason)
    return tuple(reasons)
