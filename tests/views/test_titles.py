"""The first line of each report says in which dtype and with which batch size the program ran."""

from __future__ import annotations

from typing import Any

from graphdoctor.views import words
from tests.each import for_each
from tests.factories import recording
from tests.studies.bench.cure_reports import cured
from tests.studies.bench.reports import mobilenet
from tests.studies.export.reports import exported
from tests.studies.profile.reports import profiled


def changed(report: Any) -> Any:
    options = {**report.target.call_options, "dtype": "bfloat16", "batch": 8}
    return report.replace(target=report.target.replace(call_options=options))


@for_each(
    "title_parts, report",
    [
        (words.title_parts, recording()),
        (words.run_title, mobilenet()),
        (words.run_title, profiled()),
        (lambda report: list(words.run_title(report)), exported()),
        (lambda report: list(words.run_title(report)), cured()),
    ],
)
def test_a_dtype_and_a_batch_size_are_in_the_title(title_parts: Any, report: Any) -> None:
    assert [*title_parts(changed(report))] == [*title_parts(report), "bfloat16", "batch 8"]
