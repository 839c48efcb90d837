"""A folder of its own for what Inductor compiles, or only for what it generates."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import clean_environment, run_script

SCRIPT = """\
import os
import sys

import torch

from graphdoctor.probe.torch_private.torch_config import compile_into

compile_into(sys.argv[1], shares_checks=sys.argv[2] == "shared")
torch.compile(torch.sin)(torch.ones(3))
assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == sys.argv[1]
"""


@pytest.mark.slow
def test_kernels_and_vector_checks_are_compiled_where_asked(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    for checks in ("shared", "own"):
        # A forked Python has checked already.
        command = [sys.executable, script, tmp_path / checks, checks]
        subprocess.run(command, cwd=tmp_path, env=clean_environment(), check=True)
        compiled = [path.read_text() for path in (tmp_path / checks).rglob("*.cpp")]
        assert any("sin" in text for text in compiled)
        assert any("__avx_chk_kernel" in text for text in compiled) == (checks == "own")


ANEW = """\
import os
import sys
from pathlib import Path

import torch

from graphdoctor.probe.torch_private.torch_config import generate_anew

os.environ["TORCHINDUCTOR_CACHE_DIR"] = sys.argv[1]
generate_anew(sys.argv[2])
from torch._dynamo.utils import counters
from torch._inductor.codecache import LocalCache
from torch._inductor.graph import GraphLowering

codegen, generated = GraphLowering.codegen, []
GraphLowering.codegen = lambda graph: generated.append(graph) or codegen(graph)
torch.compile(torch.sin)(torch.ones(3))
assert len(generated) == 1, counters
assert counters["aot_autograd"]["autograd_cache_miss"] == 1, counters
LocalCache().set_value("an operation", value=1.0)
"""


@pytest.mark.slow
def test_code_is_generated_each_time_and_compiled_once(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(ANEW)
    compiled: list[dict[Path, int]] = []
    for number in ("first", "second"):
        run_script(
            script, tmp_path / "caches", tmp_path / number, cwd=tmp_path, env=clean_environment()
        )
        compiled.append(
            {path: path.stat().st_mtime_ns for path in (tmp_path / "caches").rglob("*.so")}
        )
        assert {path.name for path in (tmp_path / number).iterdir()} == {
            "autograd",
            "graphs",
            "times",
        }
    assert compiled[0] == compiled[1] != {}
    assert not {path.name for path in (tmp_path / "caches").iterdir()} & {
        "aotautograd",
        "fxgraph",
        "cache",
    }
