"""Lint on programs as people write them: all that it reports happens, and it reports most of what
happens."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphdoctor.fixes.lint import lint_files
from tests.fixes.lint.measured import Measured, measure, ordinary_programs


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    return measure(ordinary_programs(), tmp_path_factory.mktemp("ordinary"))


@pytest.mark.slow
def test_torch_breaks_at_each_site(measured: Measured) -> None:
    assert measured.reported - measured.seen == set()


@pytest.mark.slow
def test_most_sites_of_a_run_are_reported(measured: Measured) -> None:
    assert measured.recall >= 0.6, sorted(measured.seen - measured.reported)


def test_what_is_compiled_is_known_of_every_program(tmp_path: Path) -> None:
    for name, text in ordinary_programs().items():
        (tmp_path / name).write_text(text)
        assert lint_files([tmp_path / name], root=tmp_path, version="0").function_count > 0, name
