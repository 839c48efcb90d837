"""Config that is not the default: read without being changed, and nothing of ours in it."""

import subprocess
import sys
import warnings

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch._dynamo")
pytest.importorskip("torch._inductor.config")

from graphdoctor.facts.kernels import Float32Precision
from graphdoctor.probe.torch_private.torch_config import changed_config, float32_precision
from tests.conftest import clean_environment, run_script

DYNAMO = torch._dynamo.config
INDUCTOR = torch._inductor.config


@pytest.fixture(autouse=True)
def untouched():
    """Other tests of this process may have set some; each begins and ends with the defaults that
    torch knows."""
    before = changed_config()
    yield
    assert changed_config() == before


class Odd:
    def __repr__(self):
        return "x" * 500

    def __eq__(self, other):
        raise RuntimeError

    __hash__ = None


def test_changed_settings_are_listed_by_dotted_name():
    with (
        DYNAMO.patch(recompile_limit=5, suppress_errors=False),
        INDUCTOR.patch(
            {
                "triton.cudagraphs": True,
                "post_grad_custom_pre_pass": Odd(),
                "pre_grad_fusion_options": {"a": 1},
            }
        ),
    ):
        changed = changed_config()

    assert changed.pop("torch._inductor.config.post_grad_custom_pre_pass") == "x" * 199 + "…"
    assert changed == {
        "torch._dynamo.config.recompile_limit": "5",
        "torch._inductor.config.triton.cudagraphs": "True",
        "torch._inductor.config.pre_grad_fusion_options": "{'a': 1}",
    }


def test_a_value_changed_in_place_is_listed_once():
    DYNAMO.reorderable_logging_functions.add(print)
    try:
        assert changed_config() == {
            "torch._dynamo.config.reorderable_logging_functions": repr({print})
        }
    finally:
        DYNAMO.reorderable_logging_functions.clear()
    limit = "torch._dynamo.config.recompile_limit"
    alias = next(name for name, entry in DYNAMO._config.items() if entry.alias == limit)
    with DYNAMO.patch({alias: 6}):
        assert changed_config() == {limit: "6"}


def test_the_warning_of_a_deprecated_value_stays_the_programs():
    # 2.11 knows of none.
    deprecated = [
        name
        for name, entry in DYNAMO._config.items()
        if getattr(entry, "deprecated", False) and not getattr(entry, "_deprecation_warned", True)
    ]
    if not deprecated:
        pytest.skip("this torch has none, or it was read before")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        changed_config()
    with pytest.warns(FutureWarning):
        getattr(DYNAMO, deprecated[0])


# What float32 computes with on CUDA, as it is read from a torch with and without a device.


def with_devices(monkeypatch, *capabilities):
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: bool(capabilities))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(capabilities))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capabilities[device])


def test_the_setting_is_read_as_the_program_leaves_it(monkeypatch):
    with_devices(monkeypatch, (9, 0), (7, 5))
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("highest")
        off = float32_precision()
        torch.set_float32_matmul_precision("high")
        on = float32_precision()
    finally:
        torch.set_float32_matmul_precision(before)
    assert off == Float32Precision(
        matmul_tf32=False, convolution_tf32=True, capabilities=((9, 0), (7, 5))
    )
    assert on == off.replace(matmul_tf32=True)


def test_without_cuda_nothing_is_said(monkeypatch):
    with_devices(monkeypatch)
    assert float32_precision() is None
    with_devices(monkeypatch, (9, 4))
    monkeypatch.setattr(torch.version, "cuda", None)
    assert float32_precision() is None


# A folder of its own for what Inductor compiles, or only for what it generates.

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
def test_kernels_and_vector_checks_are_compiled_where_asked(tmp_path):
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
def test_code_is_generated_each_time_and_compiled_once(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(ANEW)
    compiled = []
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
