"""What a recipe is: a way to edit source so that a finding goes away, or the reason why it doesn't try.

A recipe reads only the concrete syntax tree: it sees no values and imports nothing of the user's. It may be wrong about
what the program means, because each edit is tried on that very program before anyone calls it verified. It must still
be careful: if it isn't sure of an edit, it declines and gives the reason, by ``DeclinedError``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from graphdoctor.fixes.source.place import Place
from graphdoctor.fixes.source.tree import DeclinedError


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


@dataclass(frozen=True)
class Recipe:
    """One way to edit source.

    Args:
        name: Unique, in kebab case.
        codes: Codes of the rules whose findings it may fix.
        edit: Writes the edit for a finding, or declines.
        removes: Whether the finding goes away; if not, it stays and less code runs eagerly because of it.
    """

    name: str
    codes: frozenset[str]
    edit: Callable[[Place], Edit]
    removes: bool = True


def recipe(*codes: str, removes: bool = True) -> Callable[[Callable[[Place], Edit]], Recipe]:
    """Make a recipe of the function that writes its edit; its name is the function's."""

    def made(edit: Callable[[Place], Edit]) -> Recipe:
        return Recipe(edit.__name__.replace("_", "-"), frozenset(codes), edit, removes)

    return made


def first_edit(recipes: Sequence[Recipe], place: Place) -> Edit | tuple[str, ...]:
    """What the first recipe writes that doesn't decline; if all do, their reasons."""
    reasons: list[str] = []
    for one in recipes:
        try:
            return one.edit(place)
        except DeclinedError as error:
            reasons.append(error.reason)
    return tuple(reasons)
