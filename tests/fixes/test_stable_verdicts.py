"""The same trial gives the same verdict each time, though kernels round differently in each run."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphdoctor.facts.run import Setting
from graphdoctor.facts.spec import RunSpec
from graphdoctor.fixes.patch import Candidate, with_fixes
from graphdoctor.fixes.trials import Check, Trials, UserBackend
from graphdoctor.fixes.verdicts import Judgment
from graphdoctor.trials.launch.child import Setup
from graphdoctor.trials.launch.request import Request
from graphdoctor.trials.program import Program, RunChange
from graphdoctor.trials.replays import Replays
from graphdoctor.views.reasons import reasons_text
from tests.conftest import probe_python
from tests.factories import in_words
from tests.sections import texts_beside

pytestmark = pytest.mark.slow

(PROGRAM,) = texts_beside(__file__)
REPETITIONS = 3
SETTING = Setting(name="torch._dynamo.config.reorderable_logging_functions", member="print")


def judged(folder: Path) -> tuple[Judgment, Check, Trials]:
    """The verdicts of one treatment, from the runs of the untouched program to the trial and to
    Inductor's kernels."""
    (folder / "model.py").write_text(PROGRAM)
    request = Request.of(RunSpec(target=f"{folder}/model.py:Loss", backend="inductor"))
    replays = Replays(request, folder / "fixes", Setup(python=str(probe_python())))
    # What is compiled is the same each time, and stays for the next: only how it rounds isn't.
    ours, replays._compiled = replays._compiled, folder.parent / "compiled"
    try:
        trials = Trials(replays, folder, jobs=1, backend="inductor", setup=Setup())
        recorded = trials.observe(replays.replay(Program(), "recorded", backend="eager"))
        state = trials.run_untouched(
            recorded, {found.fingerprint for found in recorded.diagnosis.findings}
        )
        assert state is not None
        assert trials.trial_backend == "eager"
        [finding] = [found for found in state.observed.diagnosis.findings if found.code == "GD101"]
        change = RunChange(settings=(SETTING,))
        proposal = Candidate(
            "Print later", "config", is_safe=True, targets=(finding.fingerprint,), change=change
        )
        [trial] = trials.run_each(state, [[proposal]])
        check = UserBackend(trials).check(with_fixes(Program(), [proposal]), drops_output=False)
        return trials.judge(finding, proposal, trial), check, trials
    finally:
        replays._compiled = ours
        replays.close()


@pytest.mark.nightly
def test_language_model_with_gradients_gets_a_stable_verdict(tmp_path):
    found = []
    for number in range(REPETITIONS):
        folder = tmp_path / str(number)
        folder.mkdir()
        judgment, check, trials = judged(folder)
        assert trials.rounding is not None, (
            "without kernels that round differently, this shows nothing"
        )
        found.append(
            (
                judgment.verdict,
                reasons_text(judgment.reasons),
                check.verdict,
                trials.reference.unstable,
                in_words(trials.notes),
            )
        )
    assert found == [("verified", None, "verified", frozenset(), [])] * REPETITIONS
