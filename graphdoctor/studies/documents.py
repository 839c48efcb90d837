"""The documents of the studies. What shows one is imported when it is used, so importing this module is cheap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphdoctor.views.formats import Document, Format, RenderOptions, document

if TYPE_CHECKING:
    from graphdoctor.facts.cure import CureReport
    from graphdoctor.facts.export import ExportReport
    from graphdoctor.facts.job import Job
    from graphdoctor.facts.survey import SurveyReport
    from graphdoctor.facts.survey_comparison import SurveyComparison
    from graphdoctor.views.parts import View


def _cure(report: CureReport, options: RenderOptions) -> View:
    from graphdoctor.studies.cure.view import cure_view

    return cure_view(report, is_written=options.is_written)


CURE: Document[CureReport] = document("a cure", _cure)
"""``cure``."""


def _export(report: ExportReport, _: RenderOptions) -> View:
    from graphdoctor.studies.export.view import export_view

    return export_view(report)


EXPORT: Document[ExportReport] = document("an export", _export)
"""``export``."""


def _job(job: Job, _: RenderOptions) -> View:
    from graphdoctor.studies.ranks.view import job_view

    return job_view(job)


JOB: Document[Job] = document("a report of several ranks", _job)
"""What the ranks of a job did: ``report`` and ``run`` of several ranks."""


def _survey(report: SurveyReport, options: RenderOptions) -> View:
    from graphdoctor.views.survey import survey_view

    return survey_view(report, pages=options.pages)


def _survey_parquet(report: SurveyReport, _: RenderOptions) -> bytes:
    from graphdoctor.studies.survey.parquet import write_parquet

    return write_parquet(report)


def _survey_csv(report: SurveyReport, _: RenderOptions) -> str:
    from graphdoctor.studies.survey.columns import render_survey_csv

    return render_survey_csv(report)


SURVEY: Document[SurveyReport] = document(
    "a survey",
    _survey,
    Format("csv", _survey_csv, (".csv",)),
    Format("parquet", _survey_parquet, (".parquet",), is_binary=True),
)
"""``survey``."""


def _survey_comparison(comparison: SurveyComparison, _: RenderOptions) -> View:
    from graphdoctor.views.survey_comparison import survey_comparison_view

    return survey_comparison_view(comparison)


SURVEY_COMPARISON: Document[SurveyComparison] = document("a comparison of two surveys", _survey_comparison)
"""``diff`` of two surveys."""
