"""The pytest plugin: the fixture ``graphdoctor``, the marker of the same name, and ``--graphdoctor-report``.

pytest imports this module in every project of an environment that has graphdoctor, so it imports neither torch nor
anything else of graphdoctor's before a test asks for it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from graphdoctor.testing.fixture import TestDoctor

_DOCTOR: pytest.StashKey[TestDoctor] = pytest.StashKey()
_MARKER = (
    "graphdoctor(max_breaks=…, max_recompiles=…, min_coverage=…, own_code=False, config={…}): record what "
    "torch.compile does in the test and fail it beyond these limits; config sets values of torch._dynamo.config for it"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.getgroup("graphdoctor").addoption(
        "--graphdoctor-report",
        metavar="DIR",
        help="write the HTML report of each failing test that recorded torch.compile into this folder",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", _MARKER)


@pytest.fixture
def graphdoctor(request: pytest.FixtureRequest) -> Iterator[TestDoctor]:
    """Compile a model, or record a block, and assert what torch.compile made of it.

    ``rec = graphdoctor.compile(model)`` or ``with graphdoctor.record() as rec:``, then ``rec.assert_no_graph_breaks()``
    and others. Dynamo is reset before and after the test, and torch's config values are put back.
    """
    from graphdoctor.testing.fixture import opened

    item = request.node
    with opened(item) as doctor:
        item.stash[_DOCTOR] = doctor
        try:
            yield doctor
        finally:
            del item.stash[_DOCTOR]


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Record and judge a test that has the marker; write the report of one that fails."""
    doctor = item.stash.get(_DOCTOR, None)
    with contextlib.ExitStack() as closing:
        if doctor is None:
            if item.get_closest_marker("graphdoctor") is None:
                return (yield)
            from graphdoctor.testing.fixture import opened

            doctor = closing.enter_context(opened(item))
        try:
            return (yield from doctor.judged())
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
