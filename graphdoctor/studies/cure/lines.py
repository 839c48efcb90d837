"""The lines of a program that compile its model in another way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphdoctor.facts.recording import RepeatedBlocks
from graphdoctor.facts.regions import block_lines
from graphdoctor.facts.spec import RunSpec
from graphdoctor.studies.bench.variants import VariantSpec


def compile_lines(changes: Mapping[str, object], base: RunSpec, blocks: Sequence[RepeatedBlocks]) -> tuple[str, ...]:
    """Lines that compile a model, in place of the user's own call of torch.compile.

    Returns:
        None at all if nothing changed.
    """
    if not changes:
        return ()
    spec = VariantSpec("", changes)
    given = {name: value for name, value in spec.arguments(base).items() if name not in spec.spec(base).config}
    arguments = ", ".join(f"{name}={value!r}" for name, value in given.items())
    if spec.spec(base).regional:
        return block_lines(blocks, given)
    return (f"model = torch.compile(model{', ' if arguments else ''}{arguments})",)
