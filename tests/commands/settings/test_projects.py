"""Which projects a repository has, and where it begins."""

from __future__ import annotations

from pathlib import Path

from graphdoctor.commands.settings import projects_below, repository_of


def project(folder: Path, *, is_configured: bool = True) -> Path:
    folder.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(
        "[tool.graphdoctor]\nown-code = true\n" if is_configured else "[project]\n"
    )
    return folder


def test_a_repository_begins_where_git_is(tmp_path: Path) -> None:
    below = tmp_path / "packages" / "a"
    below.mkdir(parents=True)
    assert repository_of(below) is None
    (tmp_path / ".git").write_text("gitdir: elsewhere\n")
    assert repository_of(below) == tmp_path


def test_configured_projects_are_found_but_not_in_environments(tmp_path: Path) -> None:
    found = [project(tmp_path / "a"), project(tmp_path / "b" / "deep")]
    project(tmp_path / "c", is_configured=False)
    project(tmp_path / ".hidden")
    (project(tmp_path / "env") / "pyvenv.cfg").touch()
    project(tmp_path / "x" / "site-packages" / "installed")
    assert list(projects_below(tmp_path)) == found
