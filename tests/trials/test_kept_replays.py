"""Which replays of an earlier command run again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphdoctor.facts.spec import RunSpec
from graphdoctor.trials.launch.child import Setup
from graphdoctor.trials.launch.request import Request
from graphdoctor.trials.program import Program
from graphdoctor.trials.replays import Replays
from tests.conftest import probe_python

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("limit_s, count", [(4.0, 0), (40.0, 1)])
def test_what_took_too_long_runs_again_only_with_more_time(tmp_path, limit_s, count):
    model = tmp_path / "model.py"
    model.write_text("import time\n\ntime.sleep(8)\n\ndef model(x):\n    return x\n")
    request = Request.of(RunSpec(target=f"{model}:model", calls=["(torch.ones(2),)"]))
    setup = Setup(python=str(probe_python()), timeout_s=4.0)
    with Replays(request, tmp_path / "replays", setup) as replays:
        assert replays.replay(Program(), "long").exit.reason == "timeout"
    setup = replace(setup, timeout_s=limit_s)
    with Replays(request, tmp_path / "replays", setup, kept={"long"}) as replays:
        ended = replays.replay(Program(), "long").exit
        assert (replays.count, ended.reason == "timeout") == (count, count == 0)
