"""Lint on programs as people write them: all that it reports happens, and it reports most of what happens."""

from __future__ import annotations

from pathlib import Path

import pytest

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


def test_programs_are_handed_over_in_every_way() -> None:
    """Of no program in the folder is nothing known: each way to hand something to torch.compile is understood."""
    from graphdoctor.fixes.lint import lint_files

    for path in sorted((Path(__file__).parent / "ordinary").glob("*.py")):
        report = lint_files([path], root=path.parent, version="0")
        assert report.function_count > 0, path.name
