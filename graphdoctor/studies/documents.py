"""The documents of the studies. What shows one is imported when it is used, so importing this module is cheap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphdoctor.views.formats import Document, RenderOptions, document

if TYPE_CHECKING:
    from graphdoctor.facts.export import ExportReport
    from graphdoctor.facts.job import Job
    from graphdoctor.views.parts import View


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
