"""GD903: compiles of several processes, or before and after a reset, in one recording."""

from __future__ import annotations

from typing import ClassVar

from graphdoctor.rules.diagnosis.rule import GapPage


class PrefixedCompileIds(GapPage):
    """Compile ids have a prefix because torch used the same ones more than once.

    ## What it means
    Several processes compiled, or the program called `torch.compiler.reset()`, and each time torch numbered its
    compiles from `0/0` again. graphdoctor tells them apart with a prefix, such as `p2:0/0` or `reset1:0/0`. Ranks of a
    job are not added up: `graphdoctor report` puts them side by side.

    ## Why it matters
    Counts are sums over all processes, and code that is compiled again after a reset is not a recompile.

    ## What to do
    Nothing: this only explains the ids. To look at one process, read its own log with `graphdoctor report`.
    """

    code: ClassVar = "GD903"
    name: ClassVar = "prefixed-compile-ids"
    severity: ClassVar = "info"
