"""GD900: something that was not recorded or not measured."""

from __future__ import annotations

from typing import ClassVar

from graphdoctor.rules.diagnosis.rule import GapPage


class NotMeasured(GapPage):
    """Something was not recorded or not measured.

    ## What it means
    graphdoctor tried to record or measure something and couldn't, and the message says what and why. Examples: the last
    call raised when it was repeated to measure coverage; the run ended early; this version of torch lacks a function
    that the recorder needs; a script called a function only once, so it has no steady call.

    ## Why it matters
    The numbers that depend on it are missing: they are `null` in the JSON document and marked as unknown in other
    reports, never 0. All other numbers and findings are valid.

    ## What to do
    Nothing, if you don't need that number. Otherwise remove the cause that the message names: make calls that can be
    repeated, give the run more time with `--timeout`, or use a torch version that graphdoctor supports.
    """

    code: ClassVar = "GD900"
    name: ClassVar = "not-measured"
    severity: ClassVar = "info"
