"""The pytest plugin: the ``graphdoctor`` fixture, the marker of the same name, and
``--graphdoctor-report``.

pytest imports this module for every project in an environment with graphdoctor, so it doesn't
import torch or the rest of graphdoctor until a test needs it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from graphdoctor.api.testing.fixture import TestDoctor

_DOCTOR: pytest.StashKey[TestDoctor] = pytest.StashKey()
_MARKER = (
    "graphdoctor(max_breaks=…, max_recompiles=…, min_coverage=…, own_code=False, config={…}):"
    " record what torch.compile does in the test and fail the test if it exceeds a limit; config"
    " sets torch._dynamo.config values"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.getgroup("graphdoctor").addoption(
        "--graphdoctor-report",
        metavar="DIR",
        help=(
            "write an HTML report to this folder for each failing test that recorded torch.compile"
        ),
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", _MARKER)


@pytest.fixture
def graphdoctor(request: pytest.FixtureRequest) -> Iterator[TestDoctor]:
    """Compile a model, or record a block, and assert what torch.compile did.

    Use ``rec = graphdoctor.compile(model)`` or ``with graphdoctor.record() as rec:``, then
    assertions such as ``rec.assert_no_graph_breaks()``. Dynamo is reset before and after the test,
    and torch's config is restored.
    """
    from graphdoctor.api.testing.fixture import opened

    item = request.node
    with opened(item) as doctor:
        item.stash[_DOCTOR] = doctor
        try:
            yield doctor
        finally:
            del item.stash[_DOCTOR]


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Record and check a test with the marker, and write the report of one that fails."""
    doctor = item.stash.get(_DOCTOR, None)
    with contextlib.ExitStack() as closing:
        if doctor is None:
            if item.get_closest_marker("graphdoctor") is None:
                return (yield)
            from graphdoctor.api.testing.fixture import opened

            doctor = closing.enter_context(opened(item))
        try:
            return (yield from doctor.checked())
        except (pytest.skip.Exception, pytest.xfail.Exception):
            raise
        except (Exception, pytest.fail.Exception):
            _save_report(item, doctor)
            raise


def _save_report(item: pytest.Item, doctor: TestDoctor) -> None:
    folder = item.config.getoption("--graphdoctor-report")
    if folder is None:
        return
    file = doctor.save_report(Path(item.config.invocation_params.dir, folder))
    if file is not None:
        item.add_report_section("call", "graphdoctor", f"Wrote {file}")
