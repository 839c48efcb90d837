"""The documents of the studies. What shows one is imported when it is used, so importing this
module is cheap.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from graphdoctor.views.formats import Document, Format, RenderOptions, document

if TYPE_CHECKING:
    from graphdoctor.facts.bench import CureReport
    from graphdoctor.facts.export import ExportReport
    from graphdoctor.facts.job import Job
    from graphdoctor.facts.survey import SurveyReport
    from graphdoctor.facts.survey_comparison import SurveyComparison


def _from(module: str, name: str, *asked: str) -> Callable[[Any, RenderOptions], Any]:
    """A function of a module below ours, which takes the content and what is asked of it."""

    def shown(content: Any, options: RenderOptions) -> Any:  # noqa: ANN401
        function = getattr(import_module(f"graphdoctor.{module}"), name)
        return function(content, **{option: getattr(options, option) for option in asked})

    return shown


CURE: Document[CureReport] = document("a cure", _from("views.cure", "cure_view", "is_written"))
EXPORT: Document[ExportReport] = document("an export", _from("studies.export.view", "export_view"))
JOB: Document[Job] = document("a report of several ranks", _from("studies.ranks.view", "job_view"))
"""Report on the ranks of a job: ``report`` and ``run`` of several ranks."""
SURVEY: Document[SurveyReport] = document(
    "a survey",
    _from("views.survey", "survey_view", "pages"),
    Format("csv", _from("studies.survey.table", "render_survey_csv"), (".csv",)),
    Format(
        "parquet", _from("studies.survey.table", "write_parquet"), (".parquet",), is_binary=True
    ),
)
SURVEY_COMPARISON: Document[SurveyComparison] = document(
    "a comparison of two surveys", _from("views.survey_comparison", "survey_comparison_view")
)
"""``diff`` of two surveys."""
