"""A survey as CSV, one line for each row.

Comes in: a ``SurveyReport``. Goes out: the columns of ``columns.py`` but causes, under their names. What is null
there is an empty cell. No text has a newline or a control character, and none begins as a formula does.
"""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING

from graphdoctor.studies.survey.columns import flat_columns
from graphdoctor.views.printable import printable

if TYPE_CHECKING:
    from graphdoctor.facts.survey import SurveyReport

# Spreadsheets run cells that begin so, after spaces too; some of them read wide characters as the usual ones.
_FORMULA = re.compile(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|\t")


def render_survey_csv(report: SurveyReport) -> str:
    """All rows.

    Returns:
        CSV with a heading and a newline at the end. A text that could be a formula has a ``'`` before it; texts of a
        list have ``; `` between them.
    """
    columns = flat_columns()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(column.name for column in columns)
    writer.writerows([_cell(column.read(row)) for column in columns] for row in report.rows)
    return text.getvalue()


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, tuple):
        value = "; ".join(map(str, value))
    text = printable(str(value))
    return f"'{text}" if _FORMULA.match(text) else text
