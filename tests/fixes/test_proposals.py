"""Edits that a command proposes: what it is told, what it may do, and what it is refused."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import jsonschema
import pytest

from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.proposals import EditRequest
from graphdoctor.facts.reading import plain
from graphdoctor.fixes.diffs import DiffError
from graphdoctor.fixes.proposals import Proposer, edit_request
from graphdoctor.views.json import schema_text
from tests.factories import diagnosed, entry, record, recording

TEXT = """\
import torch


def helper(x):
    print("x")
    return x.sin()


@torch.no_grad()
def f(x):
    return helper(x) + 1
"""
DIFF = '--- a/model.py\n+++ b/model.py\n@@ -4,3 +4,2 @@\n def helper(x):\n-    print("x")\n     return x.sin()\n'


@pytest.fixture
def model(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    (project / "tests").mkdir(parents=True)
    for name in ("model.py", "other.py", "tests/test_model.py", "../outside.py"):
        (project / name).write_text(TEXT)
    return project / "model.py"


def request_for(model: Path) -> EditRequest:
    stack = (
        entry(11, "return helper(x) + 1", function="f", file=str(model)),
        entry(5, 'print("x")', function="helper", file=str(model)),
    )
    diagnosis = diagnosed(recording(breaks=(record(*stack),)), root=model.parent)
    [finding] = diagnosis.findings
    return edit_request(diagnosis, finding, model.parent, Path.read_bytes, "no edit: because")


def ask(model: Path, script: str, **options: object) -> tuple[bytes, ...]:
    """What a script's answer makes of the files, where ``doc`` is what it is told."""
    path = model.parent.parent / "proposer.py"
    path.write_text(f"import json, os, pathlib, sys, time\ndoc = json.load(sys.stdin)\n{script}\n")
    asked: dict[str, object] = {"timeout_s": 20.0, **options}
    proposer = Proposer(f"{sys.executable} {path}", **asked)  # type: ignore[arg-type]
    changes = proposer.ask(request_for(model), model.parent, {model: TEXT.encode()})
    return tuple(change.after for change in changes)


def test_it_is_told_the_finding_and_the_functions_on_the_way_to_it(model: Path) -> None:
    document = json.loads(json.dumps(plain(request_for(model))))
    jsonschema.validate(document, json.loads(schema_text("proposal")))
    assert [(one["file"], one["name"], one["line"]) for one in document["functions"]] == [
        ("model.py", "f", 9),
        ("model.py", "helper", 4),
    ]
    assert (
        document["functions"][0]["text"] == "@torch.no_grad()\ndef f(x):\n    return helper(x) + 1"
    )
    assert document["functions"][1]["text"] == 'def helper(x):\n    print("x")\n    return x.sin()'
    assert document["finding"]["code"] == "GD101"
    assert "## " in document["advice"]
    assert document["no_edit"] == "no edit: because"


@pytest.mark.parametrize(
    "script",
    [
        f"print({DIFF!r})",
        f"print('Certainly!\\n```diff\\n' + {DIFF!r} + '```\\nThat is all.')",
        """text = pathlib.Path('model.py').read_text().replace('    print("x")\\n', '')
print(json.dumps({'files': {'model.py': text}}))""",
    ],
)
def test_a_diff_or_whole_files_are_an_answer(model: Path, script: str) -> None:
    assert ask(model, script) == (TEXT.replace('    print("x")\n', "").encode(),)
    assert model.read_text() == TEXT


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("print('I would remove the print.')", "it holds no diff"),
        ("", "it holds no diff"),
        ("time.sleep(60)", "it gave no answer within 1 s"),
        ("os.close(1); time.sleep(60)", "it gave no answer within 1 s"),
        ("sys.exit('no key')", "it ended with status 1: no key"),
        ("os.kill(os.getpid(), 9)", "it ended with status -9"),
        ("print('x' * 50_000_000)", "its answer is longer than 1,000,000 characters"),
        ("print(json.dumps({'files': {'model.py': 3}}))", '"files" isn\'t an object of texts'),
        ("print(json.dumps({'files': {'model.py': 'def ('}}))", "model.py isn't Python with it"),
        ("print(json.dumps({'files': {'new.py': ''}}))", "there is no file new.py"),
        ("print(json.dumps({'files': {}}))", "it changes nothing"),
        (f"print({DIFF.replace('model.py', 'other.py')!r})", "it edits other.py, which it wasn't sent"),
        (f"print({DIFF.replace('model.py', 'tests/test_model.py')!r})", "it edits the test tests/test_model.py"),
        (f"print({DIFF.replace('model.py', '../outside.py')!r})", "which is outside of the project"),
    ],
)  # fmt: skip
def test_what_is_refused_changes_nothing(model: Path, script: str, reason: str) -> None:
    began_s = time.monotonic()
    limit = {"timeout_s": 1.0} if "sleep" in script else {}
    with pytest.raises(DiffError) as raised:
        ask(model, script, **limit)
    assert reason in raised.value.reason
    assert time.monotonic() - began_s < 20
    names = {
        str(path.relative_to(model.parent.parent)) for path in model.parent.parent.rglob("*.py")
    }
    texts = {name: (model.parent.parent / name).read_text() for name in names - {"proposer.py"}}
    assert set(texts) == {
        "project/model.py",
        "project/other.py",
        "project/tests/test_model.py",
        "outside.py",
    }
    assert set(texts.values()) == {TEXT}


@pytest.mark.parametrize("deed", ["unlink()", "write_text('')"])
def test_a_file_that_it_changes_itself_is_put_back(model: Path, deed: str) -> None:
    with pytest.raises(
        DiffError, match=r"it changed model.py itself, which was put back as it was"
    ):
        ask(model, f"pathlib.Path({str(model)!r}).{deed}\nprint({DIFF!r})")
    assert model.read_text() == TEXT


def test_it_works_on_copies_as_the_program_has_them(model: Path) -> None:
    proposer = Proposer(
        f"{sys.executable} -c \"import os; os.remove('model.py'); print(open('model.py').read())\""
    )
    with pytest.raises(DiffError, match="it ended with status 1: FileNotFoundError"):
        proposer.ask(request_for(model), model.parent, {model: TEXT.encode()})
    assert model.read_text() == TEXT


@pytest.mark.parametrize("name", ["other.py", "tests/test_model.py", "../outside.py"])
def test_what_is_allowed_may_be_edited(model: Path, name: str) -> None:
    patterns = (name if not name.startswith("..") else str(model.parent.parent / "*.py"),)
    assert ask(model, f"print({DIFF.replace('model.py', name)!r})", allowed=patterns) == (
        TEXT.replace('    print("x")\n', "").encode(),
    )


def test_no_process_of_it_stays(model: Path) -> None:
    mark = model.parent.parent / "pid"
    lines = (
        "child = os.fork()",
        "if not child: os.close(1); time.sleep(60)",
        f"pathlib.Path({str(mark)!r}).write_text(str(child))",
        f"print({DIFF!r})",
    )
    ask(model, "\n".join(lines))
    for _ in range(100):
        try:
            state = Path(f"/proc/{mark.read_text()}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            return
        if state == "Z":
            return
        time.sleep(0.05)
    os.kill(int(mark.read_text()), 9)
    pytest.fail("its child is still there")


def test_a_command_that_is_not_there_is_an_error_before_anything_runs(model: Path) -> None:
    for command, said in (
        ("", "names no command"),
        ("'open", "No closing quotation"),
        ("no-such-thing x", "no command"),
    ):
        with pytest.raises(GraphDoctorError, match=said):
            Proposer(command).check()


def test_a_script_of_this_folder_is_found_from_anywhere(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(model.parent)
    assert Proposer("python model.py --fast").words == ["python", str(model), "--fast"]
