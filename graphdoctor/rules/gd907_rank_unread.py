"""GD907: a rank of a job that couldn't be read."""

from __future__ import annotations

from typing import ClassVar

from graphdoctor.rules.diagnosis.rule import GapPage


class RankUnread(GapPage):
    """A rank of the job couldn't be read, so the report is of the others alone.

    ## What it means
    Each rank is read by itself, in a process or on a node of a cluster. This one failed for good: its log can't be
    read, or the process that read it ended, also when it was tried again. The message says which.

    ## Why it matters
    Ranks that agree may differ from the one that is missing.

    ## What to do
    Read that rank alone to see what is wrong with it: `graphdoctor report FOLDER --rank N`. If memory ran out, ask for
    fewer jobs at a time: `--jobs 1`.
    """

    code: ClassVar = "GD907"
    name: ClassVar = "rank-unread"
    severity: ClassVar = "warning"
