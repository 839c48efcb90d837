"""A log whose every name is hostile, under a hostile name, through the command line: the bytes that
a terminal gets."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY, clean_environment, command_line
from tests.views.hostile import CODE_POINTS, CONTROLS, EVIL, FORGED

RECORDINGS = REPOSITORY / "tests" / "recordings" / "2.13.0"
DEMO = "/home/user/demo/"
PACKAGE = "/home/user/venv/lib/python3.11/site-packages/pack"
HEADER = re.compile(r"(V\S+ \S+ \d+ \S+\] )(\{.*)$")
FORBIDDEN = tuple(chr(point).encode() for point in CODE_POINTS)
NAME = "a\x1b[31mb\u202e\u009b\n" + FORGED


def changed(value: Any, change: Callable[[str], str]) -> Any:
    """A JSON value with every text in it changed, but for the names of kinds."""
    if isinstance(value, dict):
        return {
            key: each if key == "encoding" else changed(each, change) for key, each in value.items()
        }
    if isinstance(value, list):
        return [changed(each, change) for each in value]
    return change(value) if isinstance(value, str) else value


def in_headers(text: str) -> str:
    """A name in a record's header, where JSON can hold newlines."""
    return (
        text.replace(DEMO, f"{PACKAGE}{EVIL}/")
        .replace("forward", f"for{EVIL}ward")
        .replace("+cpu", f"+{EVIL}cpu")
    )


def in_payloads(text: str) -> str:
    """A name in a record's payload, whose lines are torch's."""
    evil = CONTROLS.replace("\x00", "")
    return (
        text.replace(DEMO, f"{PACKAGE}{evil}/")
        .replace("`print`", f"`pr{evil}int`")
        .replace("forward", f"for{evil}")
    )


def hostile(source: Path, name: str, log: Path) -> Path:
    """A recording's log with hostile names: files, packages, functions, versions, torch's words."""
    records: list[tuple[str, list[str]]] = []
    for line in source.read_text().split("\n"):
        if line.startswith("\t"):
            records[-1][1].append(line[1:])
        else:
            records.append((line, []))
    lines: list[str] = []
    for header, payload in records:
        found = HEADER.match(header)
        if found is None:
            lines.append(header)
            continue
        record = json.loads(found[2])
        is_artifact = "artifact" in record
        record = {
            key: each if is_artifact else changed(each, in_headers) for key, each in record.items()
        }
        if payload:
            text = "\n".join(payload)
            if is_artifact and record["artifact"]["name"] == "torch_version":
                text = json.dumps(changed(json.loads(text), in_headers))
            text = in_payloads(text)
            record["has_payload"] = hashlib.md5(text.encode()).hexdigest()
            lines += [found[1] + json.dumps(record), *(f"\t{line}" for line in text.split("\n"))]
        else:
            lines.append(found[1] + json.dumps(record))
    log.mkdir()
    (log / name).write_text("\n".join(lines))
    return log


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("logs")
    made = {}
    for program in ("print_in_helper", "lowered"):
        (source,) = (RECORDINGS / f"{program}.bare").glob("*.log")
        made[program] = hostile(source, source.name, folder / f"{NAME}{program}")
    made["ranks"] = folder / f"{NAME}ranks"
    made["ranks"].mkdir()
    for rank in range(2):
        copy = made["ranks"] / f"dedicated_log_torch_trace_rank_{rank}_a.log"
        copy.write_bytes(next(made["lowered"].iterdir()).read_bytes())
    return made


def theirs(shown: bytes) -> list[bytes]:
    """What of it a terminal would obey or take for a finding."""
    begun = [line for line in shown.split(b"\n") if line.startswith(FORGED.encode())]
    return [each for each in FORBIDDEN if each in shown] + begun


def test_terminal_gets_no_control_bytes_of_the_program(logs, tmp_path):
    process = subprocess.run(
        command_line("report", logs["print_in_helper"], "-v", "--color", "never"),
        cwd=tmp_path,
        env=clean_environment(COLUMNS="80"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    assert "�".encode() in process.stdout
    assert theirs(process.stdout + process.stderr) == []
    assert [path for path in tmp_path.rglob("*") if not path.name.isprintable()] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "args"),
    [
        ("print_in_helper", ("report",)),
        ("print_in_helper", ("guards", "-v")),
        ("lowered", ("report", "--stages")),
        ("lowered", ("recompiles", "--own-code")),
        ("lowered", ("recompiles", "-v")),
        ("lowered", ("report", "--format", "json")),
        ("lowered", ("report", "--format", "markdown")),
        ("lowered", ("diff",)),
        ("ranks", ("report",)),
        ("ranks", ("report", "-v")),
        ("ranks", ("report", "--rank", "1")),
        ("nothing", ("report",)),
        ("nothing", ("diff",)),
    ],
)
def test_every_view_of_it_is_safe(logs, tmp_path, run_here, program, args):
    log = logs.get(program, tmp_path / NAME)
    named = [log, log] if args[0] == "diff" else [log]
    done = run_here(args[0], *named, *args[1:], env=clean_environment(COLUMNS="80"))
    assert done.returncode == (2 if program == "nothing" else 0), done.stderr
    shown = done.stdout + done.stderr
    assert "�" in shown or "\\u202e" in shown
    assert theirs(shown.encode()) == []


@pytest.mark.parametrize(
    "args",
    [
        ["check"],
        ["report", f"--{NAME}"],
        [NAME],
        ["rule", NAME],
        ["explain", f"{NAME}.py"],
        ["run", NAME],
    ],
    ids=["setting", "option", "command", "rule", "variable", "script"],
)
def test_what_was_typed_or_set_is_shown_safely(tmp_path, run_here, args):
    (tmp_path / "pyproject.toml").write_text(f"[tool.graphdoctor]\n{json.dumps(NAME)} = 1\n")
    done = run_here(
        *args, env=clean_environment(GRAPHDOCTOR_TIMEOUT=NAME if args[0] == "explain" else None)
    )
    assert done.returncode == 2, args
    assert theirs(done.stderr.encode()) == []
