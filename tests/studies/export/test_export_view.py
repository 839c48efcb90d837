"""An export as people read it."""

import pytest

from graphdoctor.studies.export.view import export_view
from tests.studies.export.reports import blocked
from tests.views.outputs import on_terminal


@pytest.mark.parametrize("is_verbose", [False, True])
def test_an_export_on_a_terminal(snapshot, is_verbose):
    assert on_terminal(export_view(blocked()), width=80, is_verbose=is_verbose) == snapshot
