"""The documents of the studies. What shows one is imported when it is used, so importing this
module is cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphdoctor.views.formats import Document, Format, document, late

if TYPE_CHECKING:
    from graphdoctor.facts.accuracy import AccuracyReport
    from graphdoctor.facts.bench import CureReport
    from graphdoctor.facts.export import ExportReport
    from graphdoctor.facts.job import Job
    from graphdoctor.facts.survey import SurveyReport
    from graphdoctor.facts.survey_comparison import SurveyComparison


ACCURACY: Document[AccuracyReport] = document(
    "a comparison of results", late("views.accuracy", "accuracy_view")
)
CURE: Document[CureReport] = document("a cure", late("views.cure", "cure_view", "is_written"))
EXPORT: Document[ExportReport] = document("an export", late("studies.export.view", "export_view"))
JOB: Document[Job] = document("a report of several ranks", late("studies.ranks.view", "job_view"))
"""Report on the ranks of a job: ``report`` and ``run`` of several ranks."""
SURVEY: Document[SurveyReport] = document(
    "a survey",
    late("views.survey", "survey_view", "pages"),
    Format("csv", late("studies.survey.table", "render_survey_csv"), (".csv",)),
    Format("parquet", late("studies.survey.table", "write_parquet"), (".parquet",), is_binary=True),
)
SURVEY_COMPARISON: Document[SurveyComparison] = document(
    "a comparison of two surveys", late("views.survey_comparison", "survey_comparison_view")
)
"""``diff`` of two surveys."""
