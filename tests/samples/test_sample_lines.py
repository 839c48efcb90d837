"""By default a diagnosis, its guards and its fixes fit on 40 lines of 80 columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphdoctor.facts.spec import RunSpec
from graphdoctor.rules.diagnosed import Needs, diagnose_recording
from graphdoctor.trials.launch.child import Setup, record
from graphdoctor.trials.launch.request import Measured, Request
from graphdoctor.views.guards import guards_view
from graphdoctor.views.report import report_view
from tests.conftest import RECORDED_LOGS, REPOSITORY, probe_python
from tests.samples.test_sample_models import SAMPLES
from tests.views import test_fixes as fixes
from tests.views.outputs import on_terminal

MOST = 40
GPT2 = REPOSITORY / "tests" / "truth" / "models" / "gpt2.py"


def check(recording: Path) -> None:
    diagnosis = diagnose_recording(recording, needs=Needs(guards=True)).diagnosis
    for view in (report_view(diagnosis), guards_view(diagnosis)):
        shown = on_terminal(view)
        assert shown.count("\n") <= MOST, shown
    assert on_terminal(report_view(diagnosis), is_verbose=True).count("\n") > MOST


@pytest.mark.slow
@pytest.mark.parametrize("program", [*SAMPLES, GPT2], ids=lambda path: path.stem)
def test_a_report_fits(program: Path, tmp_path: Path) -> None:
    record(
        Request.of(RunSpec(target=str(program)), Measured(guard_cost=True)),
        tmp_path,
        Setup(probe_python(), timeout_s=300),
    )
    check(tmp_path)


@pytest.mark.parametrize("name", ["2.13.0/item", "2.13.0/print_in_helper", "2.13.0/break_in_try"])
def test_a_kept_report_fits(name: str) -> None:
    check(RECORDED_LOGS / name)


@pytest.mark.parametrize(
    "make", [fixes.every_verdict, fixes.suggested, fixes.skipping, fixes.following, fixes.shared]
)
def test_what_was_tried_fits(make: fixes.Callable) -> None:
    shown = fixes.rendered(*make())
    assert shown.count("\n") <= MOST, shown
