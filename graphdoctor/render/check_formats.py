"""What the gate's answer can be written as, by the name that ``--format`` and ``--output`` take.

Stack entries are named relative to the working directory, as the findings of the report are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from graphdoctor.model.check import CheckReport


def _sarif(report: CheckReport) -> str:
    from graphdoctor.render.sarif import render_sarif

    return render_sarif(report, root=Path.cwd())


def _github(report: CheckReport) -> str:
    from graphdoctor.render.github import render_github

    return render_github(report, root=Path.cwd())


def _junit(report: CheckReport) -> str:
    from graphdoctor.render.junit import render_junit

    return render_junit(report)


def _markdown(report: CheckReport) -> str:
    from graphdoctor.render.markdown import render_check_markdown

    return render_check_markdown(report)


def _json(report: CheckReport) -> str:
    from graphdoctor.render.json import render_json

    return render_json(report)


CHECK_FORMATS: Mapping[str, Callable[[CheckReport], str]] = MappingProxyType(
    {"sarif": _sarif, "github": _github, "junit": _junit, "markdown": _markdown, "json": _json}
)
"""Each renderer gives a whole document; it is imported when it is called."""
