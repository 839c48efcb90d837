"""GD904: a trace log that graphdoctor didn't record."""

from __future__ import annotations

from typing import ClassVar

from graphdoctor.rules.diagnosis.rule import GapPage


class ForeignLog(GapPage):
    """graphdoctor didn't record this trace log.

    ## What it means
    The log was written with `TORCH_TRACE`, without graphdoctor's recorder. It has torch's own records: graphs, graph
    breaks, guards and compile times.

    An older torch writes less: what its log lacks is named. Before 2.6, torch didn't write graph breaks: they are
    placed where it resumed, and the lines in called functions are unknown.

    ## Why it matters
    torch doesn't log calls, coverage, steady-state times or columns, so those are unknown. Its stacks can lack lines,
    and a recompile names only the first guard that failed for each cache entry. The qualified names of functions are
    missing too, so fingerprints differ from those of a graphdoctor recording.

    ## What to do
    To find out more, run the program with `graphdoctor run SCRIPT` or `graphdoctor explain TARGET`. If you can't run
    it, compare such a log only with other logs of the same kind.
    """

    code: ClassVar = "GD904"
    name: ClassVar = "foreign-log"
    severity: ClassVar = "info"
