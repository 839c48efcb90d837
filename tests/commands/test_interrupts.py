"""Ctrl-C: what was kept, and how to go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import interrupted

pytestmark = pytest.mark.slow

MODEL = """\
import torch


def forward(x):
    print("shape", x.shape)
    return x.sin()


def example_inputs():
    return [(torch.ones(2),), (torch.ones(3),)]
"""
PATCH = """\
--- a/model.py
+++ b/model.py
@@ -5 +4,0 @@
-    print("shape", x.shape)
"""
SLOW = f"import time\n\ntime.sleep(600)\n{MODEL}"
KEPT = "and graphdoctor report {} shows it; the same command begins anew.\n"


@pytest.mark.parametrize(
    "arguments, once",
    [
        (("try", "patch.diff", "model.py"), ".graphdoctor/2*/fixes/*/probe.jsonl"),
        (("recompiles", "model.py", "--what-if"), ".graphdoctor/2*/what-if/*/probe.jsonl"),
    ],
)
def test_the_run_before_the_trials_is_kept(
    tmp_path: Path, arguments: tuple[str, ...], once: str
) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "patch.diff").write_text(PATCH)
    printed, said = interrupted(*arguments, cwd=tmp_path, once=once)
    [folder] = tmp_path.glob(".graphdoctor/2*")
    assert said.endswith(f"Interrupted. The run is kept, {KEPT.format(folder.name)}")
    assert ("2 recompiles from 1 cause." in printed) == (arguments[0] == "recompiles")


def test_a_gate_names_the_targets_that_are_left(tmp_path: Path) -> None:
    for name, text in {"model": MODEL, "slow": SLOW}.items():
        (tmp_path / f"{name}.py").write_text(text)
    done = ".graphdoctor/*model@check/signature"
    _, said = interrupted("check", "model.py", "slow.py", cwd=tmp_path, once=done)
    assert "of 2 targets had run, and nothing was judged. To run only the others, name" in said
    assert said.endswith("slow.py.\n")
