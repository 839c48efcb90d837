"""A tensor's value read into Python and computed with: keep the tensor, with its gradient."""

from __future__ import annotations

from typing import ClassVar

from graphdoctor.fixes.recipe import Edit, Recipe
from graphdoctor.fixes.syntax.declined import DeclinedError
from graphdoctor.fixes.syntax.place import Place
from graphdoctor.fixes.syntax.scalar_reads import ScalarRead


class DropItem(Recipe):
    """``y / y.max().item()`` becomes ``y / y.max()``, so that gradients flow through the value."""

    name: ClassVar = "drop-item"
    codes: ClassVar = frozenset({"GD103"})

    def edit(self, place: Place) -> Edit:
        """The tensor in place of the number, with its gradient.

        Raises:
            DeclinedError: Something may need a Python number, or no gradient can flow.
        """
        read = ScalarRead.at(place)
        if not read.needs_detach:
            raise DeclinedError("no gradient can flow through the value")
        return Edit(
            title=f"Keep the tensor that `{read.words}` reads, and let gradients flow through it",
            content=read.replaced(is_detached=False),
            is_safe=False,
        )
