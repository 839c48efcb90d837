"""What the gate's answer can be written as, by the name that ``--format`` and ``--output`` take.

Stack entries are named relative to the report's root, as its findings are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphdoctor.model.check import CheckReport


def _root(report: CheckReport) -> Path:
    return Path(report.root) if report.root else Path.cwd()


def _sarif(report: CheckReport) -> str:
    from graphdoctor.render.sarif import render_sarif

    return render_sarif(report, root=_root(report))


def _github(report: CheckReport) -> str:
    from graphdoctor.render.github import render_github

    return render_github(report, root=_root(report))


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
