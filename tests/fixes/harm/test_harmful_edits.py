"""Edits that do harm, and some that don't, each as a person or a recipe may write it: whatever a
trial says of the first, it never says that they work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from graphdoctor.facts.spec import RunSpec
from graphdoctor.trials.judge import Untouched
from graphdoctor.trials.launch.child import Setup, probe_command
from graphdoctor.trials.launch.request import Request
from graphdoctor.trials.launch.warm import WarmProbes
from graphdoctor.trials.program import Program
from graphdoctor.trials.replays import EAGER, Replays
from graphdoctor.views.reasons import reasons_text
from tests.conftest import probe_python
from tests.each import few_of_each_kind
from tests.sections import sections

pytestmark = pytest.mark.slow

HEAD = """\
import json, logging, math, os, random, warnings
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
"""
EDITS = sections(Path(__file__).with_name("edits.txt"))


@pytest.fixture(scope="module")
def setup() -> Iterator[Setup]:
    warm = WarmProbes(probe_command(str(probe_python())))
    yield Setup(python=str(probe_python()), warm=warm)
    warm.close()


def version(text: str, mark: str) -> str:
    """The program before the edit (``-``) or after it (``+``)."""
    other = {"-": "+", "+": "-"}[mark]
    lines = [line for line in text.splitlines() if not line.startswith(other)]
    return HEAD + "".join(f"{line.removeprefix(mark)}\n" for line in lines)


def judged(folder: Path, setup: Setup, text: str) -> tuple[str, str]:
    """The verdict on an edit's results, and why."""
    model = folder / "model.py"
    model.write_text(version(text, "-"))
    names = [line.partition("(")[0].split()[1] for line in text.splitlines() if line[:4] == "def "]
    target = "build" if "build" in names else "Net" if "class Net" in text else names[0]
    spec = RunSpec(target=f"{model}:{target}", backend=EAGER)
    edited = Program({model: version(text, "+").encode()})
    with Replays(Request.of(spec), folder / "replays", setup) as replays:
        eager = replays.replay(Program(), EAGER, is_eager=True)
        untouched = replays.replay(
            Program(), "untouched", references={EAGER: EAGER}, attacks="untouched"
        )
        references = {EAGER: EAGER, "untouched": "untouched"}
        after = replays.replay(edited, "edited", references=references, attacks="untouched")
        attacked = after.replay and after.replay.attacked
        if attacked and attacked.failure and attacked.failure.is_compiled:
            replays.replay(Program(), "again", attacks="untouched", keeps_compiled=True)
            after = replays.replay(edited, "edited-2", references=references, attacks="untouched")
        for recording in (eager, untouched):
            assert recording.exit.reason == "finished", recording.exit.message
        if after.exit.reason != "finished":
            return "failed", after.exit.message or ""
        assert after.replay is not None
        assert after.replay.attacked is not None or after.replay.compared["eager"].results
        verdict, reasons = Untouched().judge(after)
        return verdict, reasons_text(reasons) or ""


@pytest.mark.parametrize("name", few_of_each_kind(EDITS, by_day=3))
def test_an_edit_works_only_if_it_does_no_harm(tmp_path, monkeypatch, setup, name):
    monkeypatch.chdir(tmp_path)
    verdict, why = judged(tmp_path, setup, EDITS[name])
    if name.startswith("right: "):
        assert verdict == "verified", why
    else:
        assert verdict in ("changes results", "failed"), why
