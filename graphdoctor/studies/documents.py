"""The documents of the studies. What shows one is imported when it is used, so importing this module is cheap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphdoctor.views.formats import BytesFormat, ConsoleFormat, Document, Format, RenderOptions, document

if TYPE_CHECKING:
    from rich.console import Console

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


def _fact_json(report: SurveyReport | SurveyComparison, _: RenderOptions) -> str:
    from graphdoctor.views.json import render_json

    return render_json(report)


def _survey(report: SurveyReport, console: Console, options: RenderOptions) -> None:
    from graphdoctor.views.survey import render_survey

    render_survey(report, console, is_verbose=options.is_verbose)


def _survey_html(report: SurveyReport, options: RenderOptions) -> str:
    from graphdoctor.views.html.survey import render_survey_page

    return render_survey_page(report, pages=options.pages, has_source=options.has_source)


def _survey_markdown(report: SurveyReport, _: RenderOptions) -> str:
    from graphdoctor.views.survey_markdown import render_survey_markdown

    return render_survey_markdown(report)


def _survey_parquet(report: SurveyReport, _: RenderOptions) -> bytes:
    from graphdoctor.studies.survey.parquet import write_parquet

    return write_parquet(report)


def _survey_csv(report: SurveyReport, _: RenderOptions) -> str:
    from graphdoctor.studies.survey.csv_table import render_survey_csv

    return render_survey_csv(report)


SURVEY: Document[SurveyReport] = Document(
    "a survey",
    (
        ConsoleFormat("text", _survey, (".txt", ".text")),
        Format("json", _fact_json, (".json",)),
        Format("html", _survey_html, (".html", ".htm")),
        Format("markdown", _survey_markdown, (".md",)),
        Format("csv", _survey_csv, (".csv",)),
        BytesFormat("parquet", _survey_parquet, (".parquet",)),
    ),
)
"""``survey``."""


def _survey_comparison(comparison: SurveyComparison, console: Console, options: RenderOptions) -> None:
    from graphdoctor.views.survey_comparison import render_survey_comparison

    render_survey_comparison(comparison, console, is_verbose=options.is_verbose)


def _survey_comparison_html(comparison: SurveyComparison, options: RenderOptions) -> str:
    from graphdoctor.views.html.survey_comparison import render_survey_comparison_page

    return render_survey_comparison_page(comparison, has_source=options.has_source)


def _survey_comparison_markdown(comparison: SurveyComparison, _: RenderOptions) -> str:
    from graphdoctor.views.survey_comparison_markdown import render_survey_comparison_markdown

    return render_survey_comparison_markdown(comparison)


SURVEY_COMPARISON: Document[SurveyComparison] = Document(
    "a comparison of two surveys",
    (
        ConsoleFormat("text", _survey_comparison, (".txt", ".text")),
        Format("json", _fact_json, (".json",)),
        Format("html", _survey_comparison_html, (".html", ".htm")),
        Format("markdown", _survey_comparison_markdown, (".md",)),
    ),
)
"""``diff`` of two surveys."""
