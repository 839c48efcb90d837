"""The same trial gives the same verdict each time, though kernels round differently in each run."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from graphdoctor.capture.request import Request
from graphdoctor.fixes.pace import Pace
from graphdoctor.fixes.proposals import Proposal
from graphdoctor.fixes.trials import Trials, with_proposals
from graphdoctor.fixes.user_backend import Check, UserBackend
from graphdoctor.fixes.verdicts import Judgment
from graphdoctor.model.run import Setting
from graphdoctor.model.spec import RunSpec
from graphdoctor.replay.program import Program, RunChange
from graphdoctor.replay.replays import Limits, Replays
from tests.conftest import probe_python

if importlib.util.find_spec("transformers") is None:
    pytest.skip("transformers is not installed (it comes with the dev extra)", allow_module_level=True)

pytestmark = pytest.mark.slow

PROGRAM = """\
import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel


class Loss(nn.Module):
    def __init__(self):
        super().__init__()
        config = GPT2Config(
            n_layer=1, n_head=2, n_embd=32, vocab_size=100, n_positions=32, bos_token_id=0, eos_token_id=0,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False,
        )
        self.model = GPT2LMHeadModel(config)

    def forward(self, tokens):
        logits = self.model(tokens).logits * 100
        loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
        print("loss")
        return loss, logits


def example_inputs():
    return torch.randint(0, 100, (4, 24))
"""
REPETITIONS = 3
SETTING = Setting(name="torch._dynamo.config.reorderable_logging_functions", member="print")


def judged(folder: Path) -> tuple[Judgment, Check, Trials]:
    """The verdicts of one treatment, from the runs of the untouched program to the trial and to Inductor's kernels."""
    (folder / "model.py").write_text(PROGRAM)
    request = Request.of(RunSpec(target=f"{folder}/model.py:Loss", backend="inductor"))
    replays = Replays(request, folder / "fixes", python=str(probe_python()), limits=Limits())
    # What is compiled is the same each time, and stays for the next: only how it rounds isn't.
    ours, replays._compiled = replays._compiled, folder.parent / "compiled"
    try:
        trials = Trials(
            replays, folder, jobs=1, backend="inductor", on_phase=lambda _text: None, pace=Pace(1, lambda _event: None)
        )
        recorded = trials.observe(replays.replay(Program(), "recorded", backend="eager"))
        state = trials.run_untouched(recorded, {found.fingerprint for found in recorded.diagnosis.findings})
        assert state is not None
        assert trials.trial_backend == "eager"
        [finding] = [found for found in state.observed.diagnosis.findings if found.code == "GD101"]
        change = RunChange(settings=(SETTING,))
        proposal = Proposal("Print later", "config", is_safe=True, targets=(finding.fingerprint,), change=change)
        [observed] = trials.run_each([proposal], state, "1")
        check = UserBackend(trials).check(with_proposals(Program(), [proposal]), drops_output=False)
        return trials.judge(finding, proposal, state, observed), check, trials
    finally:
        replays._compiled = ours
        replays.close()


def test_a_gpt2_with_gradients_gets_the_same_verdict_each_time(tmp_path: Path) -> None:
    found = []
    for number in range(REPETITIONS):
        folder = tmp_path / str(number)
        folder.mkdir()
        judgment, check, trials = judged(folder)
        found.append((judgment.verdict, judgment.reason, check.verdict, trials.reference.unstable, trials.notes))
    assert found == [("verified", None, "verified", frozenset(), [])] * REPETITIONS
