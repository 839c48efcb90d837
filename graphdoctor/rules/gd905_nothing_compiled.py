"""GD905: a program in which torch compiled nothing."""

from __future__ import annotations

from typing import ClassVar

from graphdoctor.rules.diagnosis.rule import GapPage


class NothingCompiled(GapPage):
    """torch compiled nothing.

    ## What it means
    The script or block ran, but torch started no compile. The message says what is known: torch was not imported,
    `torch.compile` was not called, its result was not called, it was disabled, or everything had been compiled before.

    A trace log that graphdoctor didn't record can be one of `torch.export` or AOTInductor, which write to it without
    compiling through Dynamo. The message says what such a log has.

    ## Why it matters
    A report without findings doesn't mean that the program compiles well here: there was nothing to look at.

    ## What to do
    Make sure that the program calls what `torch.compile` returned, and that neither `TORCH_COMPILE_DISABLE` nor
    `torch.compiler.set_stance("force_eager")` is in effect. In a block, `graphdoctor.record(reset=True)` compiles
    everything again. What an export's log has is in `graphdoctor unpack LOG DIR`, and `graphdoctor export TARGET`
    finds out whether a target can be exported.
    """

    code: ClassVar = "GD905"
    name: ClassVar = "nothing-compiled"
    severity: ClassVar = "warning"
