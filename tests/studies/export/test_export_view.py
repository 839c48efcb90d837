"""An export as people read it."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from graphdoctor.studies.export.view import export_view
from graphdoctor.views.markdown_text import render_view_markdown
from tests.studies.export.reports import blocked
from tests.views.outputs import on_terminal


@pytest.mark.parametrize(("width", "is_verbose"), [(80, False), (140, True)])
def test_an_export_on_a_terminal(snapshot: SnapshotAssertion, width: int, is_verbose: bool) -> None:
    assert on_terminal(export_view(blocked()), width=width, is_verbose=is_verbose) == snapshot


def test_an_export_in_markdown(snapshot: SnapshotAssertion) -> None:
    assert render_view_markdown(export_view(blocked())) == snapshot
