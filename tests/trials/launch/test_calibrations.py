"""What profiles measured of a machine's devices is kept for later ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphdoctor.facts.profiled import Calibration
from graphdoctor.trials.launch.calibrations import keep_calibration, kept_calibrations


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "graphdoctor"


def measured(copy_gb_per_s: float = 10.0, **values: object) -> Calibration:
    fields: dict[str, object] = {
        "device_name": "a processor",
        "torch": "2.13.0",
        "threads": 2,
        "precision": "highest",
    }
    return Calibration(
        **fields
        | {"copy_gb_per_s": copy_gb_per_s, "matmul_tflops_per_s": {"float32": 0.1}}
        | values
    )


def test_new_measurement_replaces_the_kept_one():
    keep_calibration(measured())
    keep_calibration(measured(threads=1))
    keep_calibration(measured(12.0))
    assert [
        (calibration.threads, calibration.copy_gb_per_s) for calibration in kept_calibrations()
    ] == [(1, 10.0), (2, 12.0)]


def test_only_the_latest_are_kept():
    for number in range(25):
        keep_calibration(measured(threads=number))
    assert [calibration.threads for calibration in kept_calibrations()] == [*range(5, 25)]


@pytest.mark.parametrize("text", ["", "{}", "[1]", '[{"device_name": "x"}]', "\xff"])
def test_unreadable_file_counts_as_none(folder, text):
    folder.mkdir()
    (folder / "calibrations.json").write_text(text, encoding="latin-1")
    assert kept_calibrations() == ()
    keep_calibration(measured())
    assert len(kept_calibrations()) == 1


def test_nothing_is_kept_where_nothing_can_be_written(folder):
    folder.write_text("a file")
    keep_calibration(measured())
    assert kept_calibrations() == ()
