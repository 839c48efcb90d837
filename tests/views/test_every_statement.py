"""Every statement of a document is in all of its outputs: terminal, Markdown and HTML.

To add a document, add its view of a report that says much to ``VIEWS``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

from graphdoctor.facts.guards import Guards
from graphdoctor.studies.export.view import export_view
from graphdoctor.studies.ranks.view import job_view
from graphdoctor.views.accuracy import accuracy_view
from graphdoctor.views.bench import bench_view
from graphdoctor.views.check import check_view
from graphdoctor.views.comparison import comparison_view
from graphdoctor.views.cure import cure_view
from graphdoctor.views.fixes import fixes_view
from graphdoctor.views.guards import guards_view
from graphdoctor.views.html.document import render_view_page
from graphdoctor.views.markdown_text import render_view_markdown
from graphdoctor.views.parts import View
from graphdoctor.views.profile import profile_view
from graphdoctor.views.recompiles import recompiles_view
from graphdoctor.views.report import report_view
from graphdoctor.views.survey import survey_view
from graphdoctor.views.survey_comparison import survey_comparison_view
from tests.each import for_each
from tests.factories import diagnosed, recording, with_facts
from tests.studies.accuracy.reports import stale, wrong
from tests.studies.bench.cure_reports import cured
from tests.studies.bench.reports import mobilenet, troubled
from tests.studies.export.reports import blocked
from tests.studies.profile.reports import trained
from tests.studies.survey.comparisons import changed
from tests.views.check_reports import failed_report
from tests.views.outputs import on_terminal, statements
from tests.views.test_comparison import both
from tests.views.test_fixes import every_verdict, treated
from tests.views.test_guards import LAYERS
from tests.views.test_job import two
from tests.views.test_recompiles import changing
from tests.views.test_stages import staged
from tests.views.test_stages import trained as stages
from tests.views.test_stages import view_of as stages_view
from tests.views.test_survey import SURVEYS

VIEWS: dict[str, Callable[[], View]] = {
    "check": lambda: check_view(failed_report()),
    "comparison": lambda: comparison_view(both()),
    "report": lambda: report_view(treated(*every_verdict())),
    "recompiles": lambda: recompiles_view(diagnosed(changing())),
    "guards": lambda: guards_view(
        with_facts(diagnosed(recording()), guards=Guards(sets=(LAYERS,)))
    ),
    "stages": lambda: stages_view(staged(*stages())),
    "fixes": lambda: fixes_view(treated(*every_verdict())),
    "bench": lambda: bench_view(mobilenet()),
    "bench with trouble": lambda: bench_view(troubled()),
    "accuracy": lambda: accuracy_view(wrong()),
    "accuracy of a stale graph": lambda: accuracy_view(stale()),
    "cure": lambda: cure_view(cured()),
    "export": lambda: export_view(blocked()),
    "profile": lambda: profile_view(trained(), None, root=Path("/work")),
    "ranks": lambda: job_view(two()),
    "survey": lambda: survey_view(SURVEYS["many"]()),
    "survey of four variants": lambda: survey_view(SURVEYS["four"]()),
    "comparison of surveys": lambda: survey_comparison_view(changed()),
}


class _Text(HTMLParser):
    """The text of a page, without its scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text = ""
        self._is_hidden = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._is_hidden = tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._is_hidden = False

    def handle_data(self, data: str) -> None:
        self.text += "" if self._is_hidden else data


def terminal(view: View) -> str:
    return on_terminal(view, width=5000, is_verbose=True)


def markdown(view: View) -> str:
    text = re.sub(r"<details><summary>|</?code>", "", render_view_markdown(view))
    return (
        re.sub(r"\\([\\`*_\[\]~$!])", r"\1", text)
        .replace("**", "")
        .replace("&#8203;", "")
        .replace("&#124;", "|")
    )


def html(view: View) -> str:
    return _Text(render_view_page(view)).text


def letters(text: str) -> str:
    """Text without spaces, marks of code, and what Markdown and HTML escape."""
    for escaped, letter in (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")):
        text = text.replace(escaped, letter)
    return re.sub(r"[\s`]+", "", text)


@pytest.mark.slow
@for_each("name", VIEWS)
@for_each("backend", [terminal, markdown, html])
def test_every_statement_is_in_every_output(backend: Callable[[View], str], name: str) -> None:
    view = VIEWS[name]()
    said = [
        text
        for text in (*view.title, *statements(view.parts, is_page=backend is html))
        if text.strip()
    ]
    shown = letters(backend(view))
    assert len(said) > 10
    missing = [text for text in said if letters(text) not in shown]
    # A diff in two columns has no signs before its lines, and names a file once.
    if backend is html:
        missing = [
            text for text in missing if not text.startswith(("--- ", "+++ ", "@@ ", "-", "+", " "))
        ]
    assert missing == []
