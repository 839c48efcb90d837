"""Edited text in the place of files, each in a Python of its own; the module is loaded by its path,
without torch."""

import json
import os
import py_compile
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

OVERLAY = REPOSITORY / "graphdoctor" / "probe" / "target" / "overlay.py"
START = """\
import importlib.util, json, sys

def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

overlay = load("overlay", sys.argv[1])
overlay.lay_over(json.loads(sys.argv[2]))
sys.path.insert(0, sys.argv[3])
"""
PLAIN = "def value():\n    return 'disk'\n"
EDITED = "# a line more\ndef value():\n    return 'edited'\n"


def output_of(folder, program, edits, *, env=None):
    """What a program prints as JSON, run with edits laid over files; modules are imported from
    ``folder``."""
    patches = {}
    store = folder.parent / "edited"
    store.mkdir(exist_ok=True)
    for number, (path, content) in enumerate(edits.items()):
        (store / str(number)).write_bytes(content)
        patches[str(path)] = str(store / str(number))
    done = subprocess.run(
        [sys.executable, "-I", "-c", START + program, str(OVERLAY), json.dumps(patches), str(folder)],
        capture_output=True, text=True, encoding="utf-8", check=False, cwd=folder, env={**os.environ, **(env or {})},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "program"
    made.mkdir()
    (made / "mine.py").write_text(PLAIN)
    return made


def test_import_gets_edited_text_and_the_disk_stays(folder):
    path = folder / "mine.py"
    edits = {folder / "mine.py": EDITED.encode()}
    (folder / "other.py").write_text(PLAIN)
    program = "import mine, other\nfound = [mine.value(), mine.__file__, mine.value.__code__.co_filename, other.value()]\n"
    assert output_of(folder, program + "print(json.dumps(found))", edits) == [
        "edited",
        str(path),
        str(path),
        "disk",
    ]
    assert path.read_text() == PLAIN
    for loaded in (
        "load('mine', sys.argv[3] + '/mine.py').value()",
        "__import__('runpy').run_module('mine')['value']()",
    ):
        assert output_of(folder, f"print(json.dumps({loaded}))", edits) == "edited"


def test_inspect_and_tracebacks_show_the_edited_lines(folder):
    program = (
        "import inspect, linecache, traceback, mine\n"
        "linecache.checkcache()\n"
        "shown = [inspect.getsource(mine.value), inspect.getsource(mine), linecache.getline(mine.__file__, 1)]\n"
        "try:\n    mine.value()\nexcept ZeroDivisionError:\n    shown.append(traceback.format_exc())\n"
        "print(json.dumps(shown))"
    )
    edited = "# a line more\n# two\ndef value():\n    return 1 / 0  # here\n"
    *shown, trace = output_of(folder, program, {folder / "mine.py": edited.encode()})
    assert shown == [edited[edited.index("def") :], edited, "# a line more\n"]
    assert "line 4, in value\n    return 1 / 0  # here\n" in trace


@pytest.mark.parametrize("mode", ["TIMESTAMP", "UNCHECKED_HASH"])
def test_compiled_files_are_passed_by_and_none_is_written(folder, mode):
    path = folder / "mine.py"
    cached = py_compile.compile(
        str(path), doraise=True, invalidation_mode=py_compile.PycInvalidationMode[mode]
    )  # fmt: skip
    before = Path(cached).read_bytes()
    program = "import mine\nprint(json.dumps(mine.value()))"
    assert output_of(folder, program, {path: EDITED.encode()}) == "edited"
    assert Path(cached).read_bytes() == before
    Path(cached).unlink()
    assert output_of(folder, program, {path: EDITED.encode()}) == "edited"
    assert not Path(cached).exists()
    # The untouched program afterwards runs what is on disk.
    assert output_of(folder, program, {}) == "disk"


ENCODED = {
    "latin-1": ("# -*- coding: latin-1 -*-\nvalue = 'caf\u00e9'\n".encode("latin-1"), "caf\u00e9"),
    "a byte order mark": (b"\xef\xbb\xbf" + "value = 'caf\u00e9'\n".encode(), "caf\u00e9"),
    "a byte order mark and a cookie": (
        b"\xef\xbb\xbf# coding: utf-8\nvalue = 'caf\xc3\xa9'\n",
        "caf\u00e9",
    ),
    "CRLF": (b"value = '''a\r\nb'''\r\n", "a\nb"),
    "CR": (b"value = 1\rvalue = 2\r", 2),
    "a form feed": (b"one = 1\n\x0c\nvalue = 'page'\n", "page"),
    "tabs": (b"if True:\n\tvalue = 'tab'\n", "tab"),
    "no newline at the end": (b"value = 1", 1),
    "nothing but a value": (b"\n\n\nvalue = 3\n", 3),
}


def test_text_is_read_as_python_reads_files(folder):
    paths = {
        folder / f"case_{number}.py": content
        for number, (content, _) in enumerate(ENCODED.values())
    }
    program = (
        f"import linecache\nfound = [__import__(f'case_{{number}}') for number in range({len(ENCODED)})]\n"
        "print(json.dumps([[each.value, linecache.getlines(each.__file__)] for each in found]))"
    )
    for path, content in paths.items():
        path.write_bytes(content)
    plain = output_of(folder, program, {})
    for path in paths:
        path.write_bytes(b"value = 'disk'\n")
    assert output_of(folder, program, paths) == plain
    assert dict(zip(ENCODED, (value for value, _ in plain), strict=True)) == {
        name: value for name, (_, value) in ENCODED.items()
    }


def test_a_file_behind_a_link_is_known_by_either_name(folder, tmp_path):
    (tmp_path / "linked").symlink_to(folder, target_is_directory=True)
    program = "import inspect, mine\nprint(json.dumps([mine.value(), mine.__file__, inspect.getsource(mine)]))"
    linked = tmp_path / "linked"
    for asked, imported in ((folder, linked), (linked, folder), (linked, linked)):
        output = output_of(imported, program, {asked / "mine.py": EDITED.encode()})
        assert output == ["edited", str(imported / "mine.py"), EDITED]


def test_modules_of_a_package_are_laid_over_one_by_one(folder):
    package = folder / "package" / "inner"
    package.mkdir(parents=True)
    (folder / "package" / "__init__.py").write_text("from .inner import value\n")
    (package / "__init__.py").write_text("from .deep import value\n")
    (package / "deep.py").write_text(PLAIN)
    program = "import package\nprint(json.dumps([package.value(), package.value.__module__, package.inner.__name__]))"
    output = output_of(folder, program, {package / "deep.py": EDITED.encode()})
    assert output == ["edited", "package.inner.deep", "package.inner"]
    init = b"def value():\n    return __package__\n"
    assert output_of(folder, program, {package / "__init__.py": init})[0] == "package.inner"


def test_unparsable_edit_fails_as_the_file_would(folder):
    program = "try:\n    import mine\nexcept SyntaxError as error:\n    print(json.dumps([error.filename, error.lineno]))"
    path = folder / "mine.py"
    assert output_of(folder, program, {path: b"# one\nx = = 1\n"}) == [str(path), 2]


def test_futures_of_the_overlay_are_not_those_of_the_file(folder):
    program = "import mine\nprint(json.dumps(str(mine.f.__annotations__)))"
    assert (
        output_of(folder, program, {folder / "mine.py": b"def f(x: int): ...\n"})
        == "{'x': <class 'int'>}"
    )
