"""What rules advise, done by hand on further programs: plain torch compiles these whole, with the
same results."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import pytest

from tests.conftest import REPOSITORY, run_command
from tests.sections import sections

PROGRAMS = sections(Path(__file__).with_suffix(".txt"))
_HEAD = "import torch\n\ndef inputs():\n    return (torch.ones(4),)\n\n"
_CALLS = """
compiled = torch.compile(forward, backend="eager")
given = inputs()
for args in [given] if isinstance(given, tuple) else given:
    try:
        compiled(*args)
    except (AssertionError, TypeError):
        pass
"""


def parts(name):
    """A program, and what follows it: a sign, the words after it, and the lines below."""
    first, *others = re.split(r"^(?=-[-~!?] )", PROGRAMS[name], flags=re.MULTILINE)
    found = [(part[:2], *part[3:].split("\n", 1)) for part in others]
    return first, [(sign, words, code) for sign, words, code in found]


ADVISED = [
    pytest.param(name, code, sign == "--", id=f"{name}: {words}")
    for name in PROGRAMS
    for sign, words, code in parts(name)[1]
    if code.strip()
]


@pytest.fixture(scope="session")
def said(tmp_path_factory):
    """The findings in each program; all run in one process."""
    folder = tmp_path_factory.mktemp("programs")
    files = {f"program_{number}.py": name for number, name in enumerate(PROGRAMS)}
    for file, name in files.items():
        (folder / file).write_text(_HEAD + parts(name)[0] + _CALLS)
    script = REPOSITORY / "tests" / "fixes" / "lint" / "compile_programs.py"
    done = run_command("run", "--quiet", "--report", "all.json", script, *files, cwd=folder)
    assert done.returncode == 0, done.stderr
    found: dict[str, list[Any]] = {name: [] for name in PROGRAMS}
    for finding in json.loads((folder / "all.json").read_text())["findings"]:
        # An optimizer's step is a function of torch, and so is its line.
        places = (finding["location"], *finding["user_stack"])
        for name in {files.get(Path(place["file"]).name) for place in places} - {None}:
            found[name].append(finding)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_advised(name, said):
    code = name.split(maxsplit=1)[0]
    mine = [finding for finding in said[name] if finding["code"] == code]
    titles = [
        ", ".join(filter(None, (fix["title"], fix["condition"])))
        for finding in mine
        for fix in finding["fixes"]
    ]
    texts = {
        "--": titles,
        "-~": titles,
        "-?": [finding["message"] for finding in mine],
        "-!": [
            text
            for finding in said[name]
            for text in (
                finding["message"],
                *(f"{fix['title']} {fix['snippet']}" for fix in finding["fixes"]),
            )
        ],
    }
    for sign, words, _ in parts(name)[1]:
        assert any(words in text for text in texts[sign]) == (sign != "-!"), (
            sign,
            words,
            texts[sign],
        )


@pytest.mark.slow
@pytest.mark.parametrize(("name", "code", "is_whole"), ADVISED)
def test_advice_is_true(name, code, is_whole, tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    from graphdoctor.probe.torch_private.torch_config import config_kept

    def results(text, *, is_compiled):
        module = ModuleType("advised")
        module.__file__ = str(tmp_path / "advised.py")
        Path(module.__file__).write_text(text)
        monkeypatch.setitem(sys.modules, "advised", module)
        torch._dynamo.reset()
        torch.manual_seed(0)
        exec(compile(text, module.__file__, "exec"), module.__dict__)
        given = module.__dict__["inputs"]()
        calls = [given] if isinstance(given, tuple) else given
        function = module.__dict__["forward"]
        if is_compiled:
            arguments = module.__dict__.get("ARGUMENTS", {})
            function = torch.compile(function, backend="eager", fullgraph=is_whole, **arguments)
            if "warm_up" in code:
                module.__dict__["warm_up"](function)
        torch.manual_seed(0)
        with torch._dynamo.config.patch(error_on_recompile=True):
            return [function(*args) for args in calls]

    before = _HEAD + parts(name)[0]
    with config_kept(), mock.patch.dict(os.environ):
        is_raised = name.startswith("GD113")
        was = [torch.ones(4)] if is_raised else results(before, is_compiled=False)
        counters = torch._dynamo.utils.counters
        counters.clear()
        torch.testing.assert_close(results(before + code, is_compiled=True), was)
        assert is_whole or counters["stats"]["unique_graphs"] > 0
