"""Runs of a program, with graphdoctor and without."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import clean_environment
from tests.truth.compare import BareRunner


@pytest.fixture(scope="session")
def bare_runner() -> Iterator[BareRunner]:
    """A process that has imported torch, from which each bare run is forked."""
    runner = BareRunner(clean_environment())
    yield runner
    runner.close()
