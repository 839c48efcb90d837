"""Which targets a file can reach: compared with what Python itself imports, and open wherever that
cannot be told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from graphdoctor.rules.gate.reach import reached_by, select_targets


def tree(root, **files):
    """Write files; ``__`` in a name is a slash."""
    for name, text in files.items():
        path = root / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def package(root, name):
    path = root / name / "__init__.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def names(target, root):
    return {path.relative_to(root.resolve()).as_posix() for path in reached_by(target, root).files}


def test_what_python_imports_is_reached(tmp_path):
    for name in ("net", "net/parts"):
        package(tmp_path / "src", name)
    tree(
        tmp_path,
        src__net__model="from . import layers\nfrom .parts import norm\nfrom net.parts.act import relu\nimport spare\n",
        src__net__layers="import net.later\n",
        src__net__later="import importlib\nimportlib.import_module('net.named')\n",
        src__net__named="",
        src__net__other="",
        src__net__parts__norm="from .. import common\n",
        src__net__parts__act="def relu(): ...\n",
        src__net__common="",
        src__spare__deep="",
        src__spare__unused="",
    )
    program = (
        "import sys; sys.path.insert(0, 'src'); import net.model; "
        "files = [getattr(m, '__file__', None) or '' for m in list(sys.modules.values())]; "
        "print(*(file for file in files if 'src' in file), sep='\\n')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    imported = {
        Path(tmp_path, line).resolve().relative_to(tmp_path.resolve()).as_posix()
        for line in done.stdout.split()
    }
    assert len(imported) == 9
    assert names("src/net/model.py:Net", tmp_path) == imported == names("net.model:Net", tmp_path)


def test_imports_under_conditions_and_in_functions_count(tmp_path):
    tree(
        tmp_path,
        model="try:\n    import fast\nexcept ImportError:\n    import slow\ndef f():\n    from late import y\n",
        fast="",
        slow="",
        late="y = 1\n",
        other="",
    )
    assert names("model.py", tmp_path) == {"model.py", "fast.py", "slow.py", "late.py"}


def test_enclosing_packages_run_and_their_imports_count(tmp_path):
    tree(tmp_path, pack__model="", side="", other="")
    (tmp_path / "pack" / "__init__.py").write_text("import side\n")
    assert names("pack/model.py", tmp_path) == {"pack/__init__.py", "pack/model.py", "side.py"}


@pytest.mark.parametrize(
    "text",
    [
        "import importlib\nimportlib.import_module(name)\n",
        "__import__(name)\n",
        "import importlib\nimportlib.import_module('.x', package='y')\n",
        "import runpy\nrunpy.run_path('other.py')\n",
        "exec(code)\n",
        "import pkgutil\nfor one in pkgutil.iter_modules(path): ...\n",
        "def broken(:\n",
    ],
)
def test_what_cannot_be_told_reaches_everything(text, tmp_path):
    tree(tmp_path, model="import loader\n", loader=text, other="")
    assert reached_by("model.py", tmp_path).reaches(tmp_path / "other.py")


def test_a_target_that_is_not_there_reaches_everything(tmp_path):
    tree(tmp_path, other="")
    assert reached_by("gone.py:Net", tmp_path).reaches(tmp_path / "other.py")
    assert reached_by("gone.module:Net", tmp_path).reaches(tmp_path / "other.py")


def test_package_installed_from_the_repository_is_found_by_name(tmp_path):
    tree(
        tmp_path,
        model="import kernels.fast\n",
        libs__kernels__source__kernels__fast="",
        libs__plots__plots__draw="",
    )
    reach = reached_by("model.py", tmp_path)
    assert reach.reaches(tmp_path / "libs/kernels/source/kernels/fast.py")
    assert not reach.reaches(tmp_path / "libs/plots/plots/draw.py")


def test_targets_are_split_by_the_given_files(tmp_path):
    tree(
        tmp_path,
        one="import common\n",
        two="import common\nimport own\n",
        three="",
        common="",
        own="",
        inputs="",
    )
    targets = {
        "first": ["one.py:Net"],
        "second": ["two.py:Net"],
        "third": ["three.py", "inputs.py:make"],
    }

    def run(*files):
        return select_targets(targets, [Path(file) for file in files], tmp_path)

    assert run("common.py") == ("first", "second")
    assert run("own.py") == ("second",)
    assert run("inputs.py") == ("third",)
    assert run("unrelated file.py") == ()
    assert run() == ()
    assert run("unrelated file.py", "pyproject.toml") == ("first", "second", "third")
