"""``graphdoctor survey`` on real programs: one list of awkward ones, and what is asked of its
table."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from tests.conftest import clean_environment, run_command

GOOD = """
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x):
        return torch.relu(self.linear(x))


def example_inputs():
    return (torch.randn(4, 8),)
"""
BREAKS = GOOD.replace("        return", "        print(x.shape)\n        return")
HELPER = "def largest(x):\n    return x.abs().max().item()\n"
SHARES = GOOD.replace("import torch\n", "import torch\n\nfrom helper import largest\n", 1).replace(
    "torch.relu(self.linear(x))", "self.linear(x) / largest(x)"
)
EAGER_FAILS = GOOD.replace("torch.randn(4, 8)", "torch.randn(4, 7)")
NO_INPUTS = GOOD.partition("def example_inputs")[0]
EXITS = "import sys\n\nsys.exit(3)\n"
CRASHES = GOOD.replace(
    "        return", "        import ctypes; ctypes.string_at(0)\n        return"
)
HANGS = GOOD.replace("        return", "        import time; time.sleep(1000)\n        return")
HUNGRY = GOOD.replace("        return", "        self.kept = torch.ones(2**31)\n        return")
REFUSED = """
import torch
from torch._dynamo.backends.registry import register_backend


@register_backend
def refuses(gm, inputs):
    raise ValueError("not this one")
""" + GOOD.replace("import torch\n", "", 1)
PROGRAMS = {
    "good": GOOD,
    "breaks": BREAKS,
    "shares_one": SHARES,
    "shares_two": SHARES,
    "helper": HELPER,
    "eager_fails": EAGER_FAILS,
    "no_inputs": NO_INPUTS,
    "exits": EXITS,
    "crashes": CRASHES,
    "hangs": HANGS,
    "hungry": HUNGRY,
    "refused": REFUSED,
}
LIST = """
name = "awkward"
timeout = 200
memory = 3
retries = 0

[[targets]]
glob = "[!h]*.py"
exclude = ["refused.py"]

[[targets]]
target = "no_inputs.py"

[[targets]]
target = "exits.py"

[[targets]]
target = "hungry.py"

[[targets]]
target = "refused.py"
backend = "refuses"

[[targets]]
target = "good.py"
name = "on a missing device"
device = "cuda:7"

[[targets]]
target = "none.py"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("survey")
    for name, text in PROGRAMS.items():
        (found / f"{name}.py").write_text(text)
    (found / "survey.toml").write_text(LIST)
    return found


def _cli(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return run_command(*args, cwd=folder, timeout=400)


@pytest.fixture(scope="module")
def ran(folder: Path) -> subprocess.CompletedProcess[str]:
    return _cli(
        folder,
        "survey",
        "survey.toml",
        "-o",
        "table.json",
        "-o",
        "table.parquet",
        "-o",
        "table.html",
        "--jobs",
        "2",
    )


@pytest.fixture(scope="module")
def table(folder: Path, ran: subprocess.CompletedProcess[str]) -> dict[str, dict[str, Any]]:
    assert ran.returncode == 0, ran.stderr
    return {row["name"]: row for row in json.loads((folder / "table.json").read_text())["rows"]}


@pytest.mark.slow
@pytest.mark.long
def test_page_links_to_the_pages_of_its_pieces(folder: Path, table: dict[str, Any]) -> None:
    links = re.findall(
        r'href="\./(table-files/[^"]+)"', (folder / "table.html").read_text(encoding="utf-8")
    )
    assert len({*links}) == sum(row["report"] is not None for row in table.values()) > 0
    assert all((folder / unquote(link)).is_file() for link in links)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "status", "stage"),
    [
        ("good", "ok", None),
        ("breaks", "ok", None),
        ("shares_one", "ok", None),
        ("eager_fails", "eager_failed", "eager"),
        ("no_inputs.py", "no_inputs", "load"),
        ("exits.py", "load_failed", "load"),
        ("crashes", "crashed", "call"),
        ("hungry.py", "out_of_memory", "call"),
        ("refused.py", "compile_failed", "backend"),
        ("on a missing device", "skipped", "load"),
        ("none.py", "load_failed", "load"),
    ],
)
def test_each_way_to_fail_is_a_row(table, name, status, stage):
    row = table[name]
    assert (row["status"], row["stage"]) == (status, stage), row["error"]
    assert (row["error"] is None) is (status == "ok")


@pytest.mark.slow
def test_a_shared_helper_is_named_once(folder, table):
    causes = json.loads((folder / "table.json").read_text())["summary"]["causes"]
    (shared,) = [cause for cause in causes if cause["function"] == "largest"]
    assert (shared["file"], shared["lines"], shared["targets"]) == (
        "helper.py",
        [2],
        ["shares_one", "shares_two"],
    )


@pytest.mark.slow
def test_each_row_has_a_page_and_a_command(folder, table):
    (kept,) = (folder / ".graphdoctor").glob("*@survey")
    assert "GD101" in (kept / table["breaks"]["report"]).read_text()
    assert table["breaks"]["command"] == "graphdoctor explain breaks.py"
    assert table["none.py"]["report"] is None


@pytest.mark.slow
def test_the_table_can_be_shown_again(folder, ran, table):
    again = _cli(folder, "survey")
    assert (again.returncode, again.stderr) == (0, "")
    assert again.stdout == ran.stdout
    assert _cli(folder, "survey", "table.parquet").stdout == ran.stdout
    assert _cli(folder, "survey", "table.json").stdout == ran.stdout


@pytest.mark.nightly
def test_killed_survey_loses_only_running_pieces(folder):
    command = [
        sys.executable,
        "-m",
        "graphdoctor",
        "survey",
        "good.py",
        "hangs.py",
        "--jobs",
        "1",
        "--no-pages",
    ]
    process = subprocess.Popen(
        command, cwd=folder, env=clean_environment(), stderr=subprocess.PIPE, text=True
    )
    assert process.stderr.readline().startswith("1/2 good.py backend=eager: ok")
    children = _descendants(process.pid)
    process.send_signal(signal.SIGKILL)
    process.wait()
    end = time.monotonic() + 30
    while (left := [pid for pid in children if _is_alive(pid)]) and time.monotonic() < end:
        time.sleep(0.1)
    assert not left
    again = _cli(
        folder,
        "survey",
        "good.py",
        "hangs.py",
        "--resume",
        "--timeout",
        "40",
        "--retries",
        "0",
        "--format",
        "json",
    )
    report = json.loads(again.stdout)
    assert report["kept"] == 1
    assert {row["name"]: row["status"] for row in report["rows"]} == {
        "good.py": "ok",
        "hangs.py": "timeout",
    }


def _descendants(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found += [child, *_descendants(child)]
    return found


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.nightly
def test_bench_and_fix_and_export_fill_their_columns(folder):
    (folder / "logs.py").write_text(
        GOOD.replace("        return", "        print(x)\n        return")
    )
    ran = _cli(
        folder,
        "survey",
        "logs.py",
        "--bench",
        "--fix",
        "--export",
        "--format",
        "json",
        "--no-pages",
        "-q",
    )
    (row,) = json.loads(ran.stdout)["rows"]
    assert (row["status"], row["correct"], row["exports"]) == ("ok", None, True)
    assert row["speedup_low"] <= row["speedup"] <= row["speedup_high"]
    assert row["eager_us"] > 0
    assert row["call_us"] > 0
    assert row["compile_cold_s"] is None
    assert row["compile_warm_s"] > 0
    assert row["coverage"] > 0
    assert row["causes"][0]["fix_verdict"] == "verified"
    assert row["command"] == "graphdoctor bench logs.py --backend inductor"
    assert row["peak_memory_bytes"] > 0
    ran = _cli(
        folder, "survey", "logs.py", "--bench", "--thorough", "--format", "json", "--no-pages", "-q"
    )
    (row,) = json.loads(ran.stdout)["rows"]
    assert (row["status"], row["correct"]) == ("ok", True)
    assert row["compile_cold_s"] > 0
