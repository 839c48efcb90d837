"""A tensor's value read into Python and computed with: keep the tensor."""

from __future__ import annotations

from typing import ClassVar

from graphdoctor.fixes.recipe import Edit, Recipe
from graphdoctor.fixes.syntax.place import Place
from graphdoctor.fixes.syntax.scalar_reads import ScalarRead


class KeepTensor(Recipe):
    """``y / y.max().item()`` becomes ``y / y.max().detach()``.

    ``detach()`` keeps gradients as they are, because a number has none; it is left out if no gradient can flow. Safe
    only for a maximum, a mean and the like of the same tensor that the number is combined with, so that the dtype stays
    the same.
    """

    name: ClassVar = "keep-tensor"
    codes: ClassVar = frozenset({"GD103"})

    def edit(self, place: Place) -> Edit:
        """The tensor in place of the number.

        Raises:
            DeclinedError: Something may need a Python number.
        """
        read = ScalarRead.at(place)
        kept = "a detached tensor" if read.needs_detach else "the tensor"
        return Edit(
            title=f"Keep {kept} in place of the number that `{read.words}` reads",
            content=read.replaced(is_detached=True),
            is_safe=read.is_same,
        )
