"""Programs as people write them, with several things at once: most of their own break sites end
gone.

The table is in docs/guide/fix-results.md.
"""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.fixes.awkward_results import names, result_of, total

_ROW = re.compile(r"^\| `(?P<name>\w+)` \| (?P<sites>\d+) \| (?P<gone>\d+) \| ", re.MULTILINE)
PAGE = (REPOSITORY / "docs" / "guide" / "fix-results.md").read_text(encoding="utf-8")
ROWS = {row["name"]: (int(row["sites"]), int(row["gone"])) for row in _ROW.finditer(PAGE)}
MEASURED_WITH = "2.13"


def test_the_table_has_every_program() -> None:
    assert sorted(ROWS) == names()


def test_at_least_nine_of_ten_sites_are_gone_as_the_page_says() -> None:
    sites, gone = (sum(numbers) for numbers in zip(*ROWS.values(), strict=True))
    assert total(ROWS.values()) in " ".join(PAGE.split())
    assert gone >= 0.9 * sites


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.long
@pytest.mark.skipif(
    not version("torch").startswith(MEASURED_WITH), reason="another torch breaks at other lines"
)
@pytest.mark.parametrize("name", sorted(ROWS))
def test_a_program_ends_as_its_row_says(tmp_path: Path, name: str) -> None:
    result = result_of(name, tmp_path)
    assert (result.sites, result.gone) == ROWS[name], result.row
    before = result.treatment["before"]
    # Where no fix is kept, it stays as it was.
    after = result.treatment["after"] or before
    assert (after["coverage"] or 0) >= (before["coverage"] or 0)
