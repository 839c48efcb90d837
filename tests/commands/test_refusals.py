"""What the command line refuses, before anything runs: each ends with 2, in words; ``refusals.txt``
has them all."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from graphdoctor.facts.reading import json_of
from graphdoctor.studies.survey.table import write_parquet
from tests.conftest import REPOSITORY, RunCli
from tests.factories import diagnosed
from tests.studies.ranks.reports import compiled, job, rank
from tests.studies.survey.reports import report, row

REFUSALS = Path(__file__).with_name("refusals.txt")
_COMMAND = re.compile(r"^\$ graphdoctor (.*)\n(?:(?!\$ |# )(?:.*\S.*)?\n(?!# ))*", re.MULTILINE)
RECORDINGS = REPOSITORY / "tests" / "recordings"
PROJECT = '[[tool.graphdoctor.targets]]\nname = "encoder"\ntarget = "model.py"\n'
MODEL = "open('ran', 'w')\n"
CONTENT: dict[str, str | bytes] = {
    "model.py": MODEL,
    "project/model.py": MODEL,
    "project/pyproject.toml": PROJECT,
    "project/old.json": '{"graphdoctor_baseline": "9.0", "targets": {}}',
    "project/conflict.json": "<<<<<<< HEAD\n{}\n=======\n{}\n>>>>>>> pr\n",
    "exists.json": "kept",
    "text.log": b"\x89PNG\r\n\x00\xff" * 100,
    "empty.log": "",
    "cut.json": '{"schema_version": "1.0", "findings"',
    "list.json": "[1]",
    "other.json": '{"schema_version": "7.1"}',
    "whole.json": json_of(diagnosed()),
    "page.html": "<!doctype html><html></html>",
    "survey.json": json_of(report()),
    "survey.parquet": write_parquet(report()),
    "pieces.parquet": write_parquet(report([row("other")])),
    "cut.parquet": write_parquet(report())[:-100],
    "text.parquet": "name\nbert\n",
    "package/net.py": "def build():\n    return torch.sin, torch.ones(2)\n",
    "program/__main__.py": MODEL,
    "two-words.py": MODEL,
    "notes.ipynb": "{}",
    "open.py": "def f(x:\n    return x\n",
    "outside.py": "return 1\n",
    "tabs.py": "def f(x):\n\ty = x\n        return y\n",
    "null.py": b"x = \0\n",
    "utf16.py": "import torch".encode("utf-16-le"),
    "latin.py": "# d\xe9j\xe0\n".encode("latin-1"),
    "later.py": "import torch\n\nx = 'd\xe9j\xe0'\n".encode("latin-1"),
    "ascii.py": "# coding: ascii\nx = '\xe9'\n".encode("latin-1"),
    "klingon.py": "# coding: klingon\n",
}
LINKS = {"loop.py": "pool.py", "pool.py": "loop.py", "gone.py": "nowhere.py"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with files of every kind, a log and a recording."""
    for name in ("folder.json", "empty", "job", "project", "package", "program"):
        (tmp_path / name).mkdir()
    for name, content in CONTENT.items():
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    for name, place in LINKS.items():
        (tmp_path / name).symlink_to(place)
    pyarrow.parquet.write_table(pyarrow.table({"name": ["a"]}), tmp_path / "foreign.parquet")
    (tmp_path / "job.json").write_text(json_of(job(rank(0, compiled()), rank(1, compiled()))))
    (tmp_path / "item").symlink_to(RECORDINGS / "2.13.0" / "item")
    for name in ("later", "torn"):
        shutil.copytree(RECORDINGS / "2.13.0" / "item", tmp_path / name)
    meta = tmp_path / "later" / "recording.json"
    meta.write_text(meta.read_text().replace('"target": {', '"target": {"mood": "sunny", '))
    (log,) = (tmp_path / "torn" / "trace").glob("*.log")
    log.unlink()
    log.symlink_to("gone")
    (log,) = (RECORDINGS / "2.13.0" / "print_in_helper.bare").glob("*.log")
    for number in range(3):
        shutil.copy(log, tmp_path / "job" / f"dedicated_log_torch_trace_rank_{number}_abc.log")
    return tmp_path


def contents(folder: Path) -> dict[Path, bytes | None]:
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def test_what_is_refused_is_refused_in_words_and_nothing_runs(
    folder: Path, run_here: RunCli, request: pytest.FixtureRequest
) -> None:
    before = contents(folder)
    wrong = []

    def refused(line: re.Match[str]) -> str:
        words = shlex.split(line[1])
        cwd = folder / "project" if words[0] in ("check", "baseline") else folder
        found = run_here(*words, cwd=cwd)
        if (found.returncode, found.stdout, "Traceback" in found.stderr) != (2, "", False):
            wrong.append(line[1])
        said = found.stderr.replace(str(folder), "…")
        said = "".join(
            f"{part}\n"
            for part in said.splitlines()
            if part and not part.startswith(("Usage: ", "Try '"))
        )
        return f"$ graphdoctor {line[1]}\n{said}"

    expected = REFUSALS.read_text(encoding="utf-8")
    told = _COMMAND.sub(refused, expected)
    if request.config.option.update_snapshots:
        REFUSALS.write_text(told, encoding="utf-8")
        expected = told
    assert wrong == []
    assert told == expected
    assert contents(folder) == before
