"""A tensor's value read into Python and computed with: keep the tensor."""

from __future__ import annotations

from typing import ClassVar

from graphdoctor.fixes.recipe import Edit, Recipe
from graphdoctor.fixes.syntax.place import Place
from graphdoctor.fixes.syntax.scalar_reads import ScalarRead


class KeepTensor(Recipe):
    """``y / y.max().item()`` becomes ``y / y.max().detach()``.

    ``detach()`` keeps gradients as they are, for a number has none; it is left out where none can flow. Safe only for
    a maximum, a mean and the like of the very tensor that the number is computed with, where the dtype cannot change.
    """

    name: ClassVar = "keep-tensor"
    codes: ClassVar = frozenset({"GD103"})

    def edit(self, place: Place) -> Edit:
        """The tensor in place of the number.

        Raises:
            DeclinedError: A Python number is needed, or nobody can tell.
        """
        read = ScalarRead.at(place)
        written = "a tensor" if read.needs_detach else "the tensor"
        return Edit(
            title=f"Keep {written} in place of the number that `{read.words}` reads",
            content=read.replaced(is_detached=True),
            is_safe=read.is_same,
        )
