"""GD902: a trace log that is cut, damaged or in an unknown layout."""

from __future__ import annotations

from typing import ClassVar

from graphdoctor.rules.diagnosis.rule import GapPage


class IncompleteLog(GapPage):
    """Part of the trace log is missing or can't be read.

    ## What it means
    The process ended while torch was writing or compiling, another program changed the log, a compressed log or a
    connection ends too early, the program itself took torch's trace logger apart, or this torch version writes
    records that graphdoctor can't read yet. The records that could be read are in the report.

    A log without its beginning was rotated, or copied while it was written (`tail -f`). It shows: it begins in the
    middle of a record, uses file names that it doesn't define, ends compiles that it doesn't start, or has `0/1`
    without `0/0`. The log of a process that was forked after its parent had compiled something looks the same.

    ## Why it matters
    Every count can be too low, and findings can be missing. `graphdoctor check` therefore reports such a target as
    crashed.

    ## What to do
    If the run was killed or timed out, record it again with more time (`--timeout`) or fewer calls. If the log was
    copied, copy it again after the process has ended. If it was rotated, put the parts together in one file, the oldest
    first. If a backend, or anything else that torch runs while it compiles,
    changes the logger `torch.__trace`, leave that out. If none of this applies, the torch version is probably newer
    than this graphdoctor: upgrade graphdoctor, or report the problem with `graphdoctor bundle`.
    """

    code: ClassVar = "GD902"
    name: ClassVar = "incomplete-log"
    severity: ClassVar = "warning"
