"""An odd value costs one record, never the report."""

import pytest
from hypothesis import HealthCheck, given, settings

from tests.trace.mutated_logs import mutated_logs, read_and_show


@pytest.mark.slow
@settings(
    max_examples=500,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(log=mutated_logs())
def test_whatever_a_log_has_in_it_there_is_a_report(tmp_path, log):
    read_and_show(log, tmp_path / "a.log")
