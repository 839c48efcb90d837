"""Files that the program writes while it runs are found, and named by the classes that hold
their functions."""

import importlib.util
import linecache
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from graphdoctor.probe.record.files import ProgramFiles

pytestmark = pytest.mark.slow

SOURCE = "def step(self, x):\n    return x + 1\n\n\nclass Block:\n    def forward(self, x):\n        return x\n"


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A folder outside the project, which is the working directory."""
    project = tmp_path / "project"
    elsewhere = tmp_path / "elsewhere"
    project.mkdir()
    elsewhere.mkdir()
    monkeypatch.chdir(project)
    return elsewhere


def loaded(path):
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def taken(*files, target=None):
    files_of_program = ProgramFiles(target, has_texts=False)
    for file in files:
        files_of_program.want(str(file))
    return {item["file"]: item["maker"] for _, item in files_of_program.take()}


def test_files_of_the_temporary_folder_are_generated(elsewhere, monkeypatch):
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(elsewhere))
    path = elsewhere / "b.py"
    loaded(path)
    assert set(taken(path)) == {str(path)}
    os.utime(path, (1, 1))
    assert taken(path) == {}
    path.unlink()
    assert set(taken(path)) == {str(path)}


def test_files_of_the_project_and_of_lasting_folders_keep_their_paths(elsewhere, monkeypatch):
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(elsewhere / "tmp"))
    project = Path.cwd() / "build" / "a.py"
    lasting = elsewhere / "b.py"
    project.parent.mkdir()
    for path in (project, lasting):
        loaded(path)
    assert taken(project, lasting) == {}


def test_code_without_a_file_is_generated_unless_python_made_it():
    made = ["<generated-1f>", "<attrs generated init m.Cfg>"]
    pythons = [
        "<string>",
        "<frozen os>",
        "<eval_with_key>.1",
        "<stdin>",
        "<torch_package_0>.model.py",
    ]
    # Nor what is nowhere, and torch's and Python's own files.
    nowhere = ["/build/of/another/machine/model.py", "relative.py"]
    assert [*taken(*made, *pythons, *nowhere, torch.__file__, linecache.__file__)] == made


def test_a_cell_of_a_notebook_is_the_users(monkeypatch):
    monkeypatch.setitem(linecache.cache, "<cell-1>", (1, None, ["x = 1\n"], "<cell-1>"))
    assert set(taken("<cell-1>")) == {"<cell-1>"}
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    assert taken("<cell-1>") == {}


def test_it_is_named_by_the_class_that_has_its_function(elsewhere, monkeypatch):
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(elsewhere))
    module = loaded(elsewhere / "a.py")
    kept = type(
        "Conv",
        (),
        {"__module__": "net", "_hidden": module.step, "propagate": staticmethod(module.step)},
    )
    assert taken(elsewhere / "a.py") == {str(elsewhere / "a.py"): "net.Conv"}
    # Two of one class are named by its attributes too, and what no class has isn't named.
    held = {
        "__module__": "net",
        "edges": loaded(elsewhere / "c.py").step,
        "nodes": loaded(elsewhere / "b.py").step,
    }
    loaded(elsewhere / "d.py")
    kept = kept, type("Two", (), held)
    names = taken(*(elsewhere / f"{name}.py" for name in "bcd")).values()
    assert list(names) == ["net.Two.nodes", "net.Two.edges", None]
    assert kept
