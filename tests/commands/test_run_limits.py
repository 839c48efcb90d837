"""``graphdoctor run`` with limits, and with ``--watch``."""

from __future__ import annotations

import pytest

from tests.conftest import run_command

pytestmark = pytest.mark.slow

SCRIPT = """\
import sys
import torch


def tag(x, name):
    print("a break")
    return x * len(name)


tagged = torch.compile(tag, backend="eager")
for count in range(1, int(sys.argv[1]) + 1):
    tagged(torch.ones(2), "a" * count)
sys.exit(int(sys.argv[2]))
"""


@pytest.fixture
def script(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    return tmp_path


@pytest.mark.parametrize(
    ("limits", "calls", "status", "lines"),
    [
        (["--max-recompiles", "1"], 2, 0, []),
        (["--max-recompiles", "1"], 3, 1, ["expected at most 1 recompile, found 2"]),
        (["--max-breaks", "0"], 1, 1, ["expected no graph break, found 1", "train.py:6 GD101 "]),
        (["--max-compile-seconds", "0.001"], 1, 1, ["expected at most 0.001 s of compiling"]),
        (["--no-limit-hit"], 3, 0, []),
        (["--no-limit-hit"], 12, 1, ["expected no function over torch's recompile limit, found 1"]),
    ],
)
def test_a_limit_decides_the_status_of_a_script_that_succeeds(script, limits, calls, status, lines):
    ran = run_command("run", "-q", *limits, "train.py", str(calls), "0", cwd=script)
    assert ran.returncode == status, ran.stderr
    assert ("expected" in ran.stderr) == bool(status)
    for line in lines:
        assert line in ran.stderr


def test_the_scripts_own_failure_wins(script):
    ran = run_command("run", "-q", "--max-breaks", "0", "train.py", "1", "7", cwd=script)
    assert ran.returncode == 7
    assert "expected" not in ran.stderr


def test_what_compiled_nothing_holds_no_limit(script):
    ran = run_command("run", "-q", "--max-breaks", "0", "train.py", "0", "0", cwd=script)
    assert ran.returncode == 1
    assert "expected no graph break, found that nothing was compiled" in ran.stderr


def test_a_line_for_each_compile_as_it_happens(script):
    ran = run_command("run", "-q", "--watch", "train.py", "2", "0", cwd=script)
    told = [line for line in ran.stderr.splitlines() if line.startswith("graphdoctor: ")]
    assert [line.split()[1] for line in told[:-1]] == ["compiled", "compiled", "recompiled"]
    # The part after the break depends on the name.
    assert told[2].endswith("name: 'a' → 'aa'")
    assert told[-1].startswith("graphdoctor: 3 compiles, 1 recompile among them, 1 graph break")
