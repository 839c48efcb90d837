"""Which projects changed files reach, and one report of several projects."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphdoctor.commands.gate_targets import merged_report, reached_projects
from graphdoctor.commands.settings import load_project
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.check import CheckReport
from graphdoctor.rules.gate.check import Policy, check_target
from graphdoctor.views.formats import CHECK, Format, RenderOptions
from tests.each import for_each
from tests.rules.gate.diagnoses import with_prints

TARGET = '[[tool.graphdoctor.targets]]\nname = "net"\ntarget = "model.py"\n'


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two packages with targets, the second of which imports a third without."""
    (tmp_path / ".git").mkdir()
    for name, text in (("a", "x = 1\n"), ("b", "import common.shared\n")):
        folder = tmp_path / "packages" / name
        folder.mkdir(parents=True)
        (folder / "pyproject.toml").write_text(TARGET)
        (folder / "model.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def reached(*files: str) -> dict[str, tuple[list[str], tuple[str, ...]]]:
    found = reached_projects(load_project(Path.cwd()), files, None)
    return {
        project.root.name: ([target.name for target in one.targets], one.skipped)
        for project, one in found
    }


RUNS, SKIPPED = (["net"], ()), ([], ("net",))


@pytest.mark.parametrize(
    ("files", "a", "b"),
    [
        (["packages/a/model.py"], RUNS, SKIPPED),
        (["packages/a/model.py", "packages/b/model.py"], RUNS, RUNS),
        (["packages/common/common/shared.py"], SKIPPED, RUNS),
        (["packages/a/weights.json"], RUNS, SKIPPED),
        (["packages/b/pyproject.toml"], SKIPPED, RUNS),
        (["README.md"], RUNS, RUNS),
        ([], SKIPPED, SKIPPED),
    ],
)
@pytest.mark.usefixtures("repository")
def test_files_run_targets_of_their_packages_and_importers(files, a, b) -> None:
    assert reached(*files) == {"a": a, "b": b}


def test_in_a_package_only_its_own_targets_run(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository / "packages" / "a")
    assert reached("model.py") == {"a": RUNS}
    assert reached("model.py", "../b/model.py") == {"a": RUNS, "b": RUNS}


def test_without_any_target_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(GraphDoctorError, match="target"):
        reached("model.py")


def report(root: Path, **facts: object) -> CheckReport:
    target = check_target(
        with_prints((5, "a")), name="net", target="model.py", comments={}, policy=Policy()
    )
    return CheckReport(graphdoctor_version="1", targets=(target,), root=str(root), **facts)


def test_one_report_names_targets_and_files_by_their_projects() -> None:
    root = Path("/repository")
    merged = merged_report(
        [
            report(root / "a", baseline="/repository/a/b.json"),
            report(root / "b", skipped=("other",)),
        ],
        root,
    )
    assert [target.name for target in merged.targets] == ["a: net", "b: net"]
    assert [target.new[0].location.file for target in merged.targets] == [
        "a/model.py",
        "b/model.py",
    ]
    assert (merged.skipped, merged.baseline, merged.root) == (
        ("b: other",),
        "/repository/a/b.json",
        "/repository",
    )
    alone = report(root / "a")
    assert merged_report([alone], root) is alone


@for_each("name", ["sarif", "github"])
def test_paths_for_programs_are_relative_to_the_repository(name: str) -> None:
    shown = CHECK.named(name)
    assert isinstance(shown, Format)
    options = RenderOptions(Path("/elsewhere"))
    inside = shown.render(report(Path("/repository/packages/a"), repository="/repository"), options)
    assert "packages/a/model.py" in inside
    outside = shown.render(report(Path("/project")), options)
    assert "model.py" in outside
    assert "packages" not in outside
