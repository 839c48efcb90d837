"""The text of the program's files, given once, within bounds."""

import linecache
import os
from importlib.util import find_spec
from pathlib import Path

import torch

from graphdoctor.probe.record import files
from graphdoctor.probe.record.changed_files import ChangedFiles
from graphdoctor.probe.record.files import ProgramFiles, is_user_file

SITE = Path(torch.__file__).parent.parent


def taken(*files):
    texts = ProgramFiles(str(Path(str(files[0])).parent / "target.py"))
    for file in files:
        texts.want(str(file))
    return {
        record["file"]: record["text"]
        for name, record in texts.take()
        if name == "graphdoctor_file"
    }


def test_a_file_is_given_once(tmp_path):
    path = tmp_path / "model.py"
    path.write_text("x = 1\n")
    texts = ProgramFiles(str(path))
    texts.want(str(path))
    texts.want(str(path))
    assert list(texts.take()) == [("graphdoctor_file", {"file": str(path), "text": "x = 1\n"})]
    texts.want(str(path))
    assert list(texts.take()) == []


def test_the_text_is_what_was_read_first(tmp_path):
    path = tmp_path / "model.py"
    path.write_text("x = 1\n")
    linecache.getline(str(path), 1)
    path.unlink()
    assert taken(path) == {str(path): "x = 1\n"}


def test_a_cell_is_known_by_its_lines_alone(monkeypatch):
    name = "<ipython-input-1-0123456789ab>"
    monkeypatch.setitem(linecache.cache, name, (9, None, ["def f():\n", "    ...\n"], name))
    assert taken(name) == {name: "def f():\n    ...\n"}


def test_encodings_and_line_ends_are_read_as_in_python(tmp_path):
    path = tmp_path / "latin.py"
    path.write_bytes("# coding: latin-1\r\ngröße = 'é'\r\n\f\r\nlast = 1".encode("latin-1"))
    assert taken(path) == {str(path): "# coding: latin-1\ngröße = 'é'\n\f\nlast = 1\n"}


def test_what_cannot_be_read_has_no_text(tmp_path):
    for content in (b"# coding: utf-8\n'\xff'\n", b"# coding: nothing\n", b""):
        path = tmp_path / "broken.py"
        path.write_bytes(content)
        linecache.checkcache()
        assert taken(path, tmp_path / "gone.py", tmp_path) == dict.fromkeys(
            (str(path), str(tmp_path / "gone.py"), str(tmp_path))
        )


def test_a_loader_that_raises_costs_its_file_alone(tmp_path, monkeypatch):
    (tmp_path / "fine.py").write_text("x = 1\n")

    def getlines(file):
        if file == "archive.py":
            raise RuntimeError("no source")
        return ["x = 1\n"]

    monkeypatch.setattr(linecache, "getlines", getlines)
    assert taken("archive.py", "fine.py") == {"archive.py": None, "fine.py": "x = 1\n"}


def test_a_file_and_all_files_together_have_a_bound(tmp_path, monkeypatch):
    for bound in ("_MAX_FILE_BYTES", "_MAX_BYTES"):
        monkeypatch.setattr(files, bound, 10)
        texts = {"large": "#" * 10, "umlauts": "#üüüüü", "fits": "#" * 6}
        for name, text in texts.items():
            (tmp_path / f"{name}.py").write_text(text + "\n", encoding="utf-8")
        kept = {
            Path(file).stem: text
            for file, text in taken(*(tmp_path / f"{name}.py" for name in texts)).items()
        }
        assert kept == {"large": None, "umlauts": None, "fits": "######\n"}
    for number in range(2):
        (tmp_path / f"{number}.py").write_text("######\n")
    assert [*taken(tmp_path / "0.py", tmp_path / "1.py").values()] == ["######\n", None]


def test_files_of_torch_python_and_the_probe_are_not_kept():
    left_out = [
        torch.nn.functional.__file__,
        os.__file__,
        "<frozen os>",
        "<string>",
        "<eval_with_key>.3",
        files.__file__,
    ]
    assert taken(*left_out) == {}
    assert is_user_file(str(SITE / "torchvision" / "models" / "resnet.py"))
    assert is_user_file(str(find_spec("pytest").origin))
    assert not is_user_file(str(SITE / "torch" / "nn" / "functional.py"))


def _written_in(file, code, **names):
    """Run a function as a file has it."""
    exec(compile(code, file, "exec"), names)
    return names["write"]


def test_folders_of_a_package_are_changed_by_who_calls_it(tmp_path):
    made = _written_in(
        "/lib/site-packages/filelock/_util.py", "def write(path): mkdir(path)", mkdir=os.mkdir
    )
    compiler = _written_in(
        "/lib/torch/_inductor/codecache.py", "def write(path): made(path)", made=made
    )
    program = _written_in("/home/model.py", "def write(path): call(path)", call=made)
    lines = []
    with ChangedFiles().noted(lines):
        compiler(tmp_path / "locks")
        program(tmp_path / "results")
    assert lines == [f"os.mkdir {tmp_path / 'results'}"]
