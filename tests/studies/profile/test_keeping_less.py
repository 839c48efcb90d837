"""Whether keeping less for the backward pass is worth it."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from graphdoctor.facts.fixes import PairedTime
from graphdoctor.facts.profile import MemoryTrial, MemoryUse
from graphdoctor.facts.profiled import ACTIVATION_BUDGET, MeasuredMemory
from graphdoctor.facts.recording import Recording
from graphdoctor.facts.run import Setting
from graphdoctor.facts.spec import RunSpec
from graphdoctor.studies.profile.profile import memory_trial, try_keeping_less
from graphdoctor.trials.judge import Verdict
from graphdoctor.trials.launch.child import Setup
from graphdoctor.trials.launch.request import Request
from tests import factories
from tests.each import for_each

BEFORE = MemoryUse(
    saved=(),
    saved_bytes=1000,
    recomputed={},
    recomputed_count=0,
    peak_bytes=9000,
    peak_of="allocator",
)
BUDGET = Setting(name=ACTIVATION_BUDGET, value=0.5)


def times(ratio: float, low: float | None = None) -> PairedTime:
    ends = {"ratio_low": ratio - 0.01 if low is None else low, "ratio_high": ratio + 0.01}
    return PairedTime(
        backend="inductor", before_us=100.0, after_us=100.0 * ratio, ratio=ratio, turns=8, **ends
    )


def tried(
    saved: int | None,
    ratio: PairedTime | None = None,
    *,
    is_same: bool | None = True,
    reason: str | None = None,
) -> MemoryTrial:
    after = MeasuredMemory(
        peak_of="allocator",
        before_bytes=0,
        peak_bytes=8000,
        saved_bytes=saved,
        eager_saved_bytes=None,
    )
    found = None if saved is None else after
    return memory_trial(BUDGET, BEFORE, found, ratio, is_same=is_same, reason=reason)


@for_each(
    "trial, outcome",
    [
        (tried(500, times(1.1)), "saves"),
        (tried(500, times(0.9)), "saves"),
        (tried(900, times(1.2)), "costly"),
        (tried(900, times(1.2, 0.8)), "unclear"),
        (tried(900, times(1.2, 1.05)), "unclear"),
        (tried(999), "nothing"),
        (tried(1000), "nothing"),
        (tried(500, is_same=False, reason="gradient of x in call 1 differs by 0.3"), "differs"),
        (tried(None, is_same=None, reason="it ran out of memory"), "failed"),
        (tried(500, reason="the call is too short to time"), "failed"),
    ],
)
def test_it_pays_if_it_saves_more_than_it_costs(trial: MemoryTrial, outcome: str) -> None:
    assert trial.outcome == outcome
    assert trial.what == "torch._functorch.config.activation_memory_budget = 0.5"


class FakeReference:
    """Finds the results of some replays wrong."""

    wrong: tuple[str, ...] = ()

    def __init__(self, *_given: object, **_more: object) -> None:
        pass

    def replay(self, *_given: object, **_more: object) -> Recording:
        half = MeasuredMemory(
            peak_of="process", before_bytes=0, peak_bytes=1, saved_bytes=500, eager_saved_bytes=None
        )
        return factories.recording().replace(memory=half)

    def judge(self, _found: object, _program: object, name: str, **_more: object) -> Verdict:
        return Verdict(
            name not in self.wrong,
            None,
            factories.message("x differs by 0.1")[0] if name in self.wrong else None,
        )


@pytest.mark.parametrize(
    ("wrong", "draws_random", "outcome", "is_same"),
    [
        ((), False, "saves", True),
        (("kept-less",), False, "differs", False),
        (("kept-less", "kept-as-before"), False, "saves", None),
        ((), True, "failed", None),
        (("kept-less",), True, "differs", False),
    ],
)
def test_a_setting_is_blamed_only_for_its_own_differences(
    wrong: tuple[str, ...],
    draws_random: bool,
    outcome: str,
    is_same: bool | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(FakeReference, "wrong", wrong)
    monkeypatch.setattr("graphdoctor.studies.profile.profile.Reference", FakeReference)
    monkeypatch.setattr(
        "graphdoctor.studies.profile.profile.Replays", lambda *_given: contextlib.nullcontext()
    )
    monkeypatch.setattr(
        "graphdoctor.studies.profile.profile.time_pair", lambda *_given, **_more: times(1.0)
    )
    (tmp_path / "model.py").write_text("")
    request = Request.of(RunSpec(target=str(tmp_path / "model.py")))
    trial = try_keeping_less(request, tmp_path, BEFORE, BUDGET, Setup(), draws_random=draws_random)
    assert (trial.outcome, trial.is_same) == (outcome, is_same)
    assert (trial.reason is None) == (is_same is True)
