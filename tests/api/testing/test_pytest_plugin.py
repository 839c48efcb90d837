"""The pytest plugin, by test suites that use it."""

from __future__ import annotations

import re
import tempfile
import tomllib
from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")

from graphdoctor import Explainer
from graphdoctor.api.testing import fixture  # noqa: F401 - an inner pytest forgets what it has imported itself
from graphdoctor.facts.recording import CaptureGap
from graphdoctor.rules.gate import expectations
from tests.api import state  # noqa: F401
from tests.conftest import REPOSITORY
from tests.factories import with_facts

pytest_plugins = ["pytester"]

pytestmark = pytest.mark.slow

HEADER = """\
import pytest
import torch


def whole(x):
    return x.sin() + 1


def broken(x):
    y = x.sin()
    torch._dynamo.graph_break()
    return y + 1


X = torch.ones(3)
"""
Run = Callable[..., pytest.RunResult]


@pytest.fixture(scope="module", autouse=True)
def torch_is_warm():
    """An inner pytest takes out of sys.modules what was imported in it, and torch is not to be
    imported twice."""
    Explainer(lanes=True).explain(torch.nn.ReLU(), torch.ones(3))


@pytest.fixture
def suite(pytester, monkeypatch):
    """Run test functions, written behind the header, in this process."""
    # Whether or not the entry point is installed here.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    # Others make recordings at the same time.
    monkeypatch.setattr(tempfile, "tempdir", str(pytester.mkdir("temporary")))

    def run(body: str, *args: str) -> pytest.RunResult:
        pytester.makepyfile(HEADER + body)
        return pytester.runpytest_inprocess(
            "-p", "graphdoctor.pytest_plugin", "--strict-markers", *args
        )

    return run


def text_of(result: pytest.RunResult, test: str) -> str:
    """What a failing test shows."""
    sections = re.split(
        r"^_{3,} (?:ERROR at \w+ of )?(\S+) _{3,}$", result.stdout.str(), flags=re.MULTILINE
    )
    shown = dict(zip(sections[1::2], sections[2::2], strict=True))
    return re.split(r"\n(?:-{5,} Captured|={5,} short)", shown[test])[0].strip()


def test_the_failure_is_the_diagnosis(suite):
    result = suite(
        """
def test_it(graphdoctor):
    rec = graphdoctor.compile(broken, backend="eager")
    assert torch.equal(rec(X), broken(X))
    rec.assert_no_graph_breaks(own_code=True)
    raise AssertionError("is not reached")
"""
    )
    result.assert_outcomes(failed=1)
    first, second, *rest = text_of(result, "test_it").splitlines()
    assert first == "expected no graph break in your own code, found 1"
    line = HEADER.count("\n") + 5
    assert (
        second
        == f"  test_the_failure_is_the_diagnosis.py:{line}: rec.assert_no_graph_breaks(own_code=True)"
    )
    text = "\n".join(rest)
    assert "GD107" in text
    assert "--> test_the_failure_is_the_diagnosis.py:11:5 in broken" in text
    path = " ".join(text.partition(" path ")[2].split())
    name = "test_the_failure_is_the_diagnosis.py"
    assert path.startswith(f"test_it {name}:{line - 1} → broken {name}:11")
    assert "Remove the call" in text
    assert "_dynamo/" not in text
    assert "recordings.py" not in text
    assert "torch.__trace" not in result.stdout.str()
    assert "test_pytest_plugin.py" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_what_holds_passes(suite):
    result = suite(
        """
def judged(rec):
    rec.assert_no_graph_breaks()
    rec.assert_fullgraph()
    rec.assert_max_recompiles(0)
    rec.assert_no_recompiles()
    assert rec.diagnosis.summary.graphs == 1
    assert "1 graph" in str(rec.report())
    called = [call.function for call in rec.diagnosis.recording.compile_calls]
    assert called == ["test_compile"] or not hasattr(rec, "compiled")

def test_compile(graphdoctor):
    rec = graphdoctor.compile(whole, backend="eager")
    rec(X)
    judged(rec)
    rec.assert_coverage(1)

def test_record(graphdoctor):
    with graphdoctor.record() as rec:
        torch.compile(whole, backend="eager")(X)
    judged(rec)

def test_a_warm_program_recompiles_nothing(graphdoctor):
    compiled = torch.compile(whole, backend="eager")
    compiled(X)
    with graphdoctor.record() as rec:
        compiled(X)
    rec.assert_max_recompiles(0)

def test_two_recordings_in_turn(graphdoctor):
    for function, breaks in ((whole, 0), (broken, 1)):
        rec = graphdoctor.compile(function, backend="eager")
        rec(X)
        assert rec.diagnosis.summary.break_sites == breaks

@pytest.mark.graphdoctor(max_breaks=1, max_recompiles=0)
def test_marked():
    torch.compile(broken, backend="eager")(X)

@pytest.mark.graphdoctor(min_coverage=1)
def test_marked_coverage(graphdoctor):
    graphdoctor.compile(whole, backend="eager")(X)

@pytest.mark.graphdoctor(config={"capture_scalar_outputs": True})
def test_config(graphdoctor):
    assert torch._dynamo.config.capture_scalar_outputs
    rec = graphdoctor.compile(lambda x: x + x.sum().item(), backend="eager")
    rec(X)
    rec.assert_fullgraph()
"""
    )
    result.assert_outcomes(passed=7)


def test_each_expectation_can_fail(suite):
    result = suite(
        """
def skipped(x):
    for _ in range(2):
        torch._dynamo.graph_break()
    return x.sin()

def number(x, n):
    return x + n

def test_fullgraph(graphdoctor):
    rec = graphdoctor.compile(skipped, backend="eager")
    rec(X)
    rec.assert_fullgraph()

def test_recompiles(graphdoctor):
    rec = graphdoctor.compile(number, backend="eager")
    for n in (True, 2.5, 3):
        rec(X, n)
    rec.assert_max_recompiles(1)

def test_over_the_limit(graphdoctor):
    with torch._dynamo.config.patch(recompile_limit=1):
        rec = graphdoctor.compile(whole, backend="eager", dynamic=False)
        rec(torch.ones(2))
        rec(torch.ones(5))
    rec.assert_max_recompiles(5)

def test_coverage(graphdoctor):
    rec = graphdoctor.compile(skipped, backend="eager")
    rec(X)
    rec.assert_coverage(0.95)

@pytest.mark.graphdoctor(max_breaks=0, own_code=True)
def test_marked_breaks():
    torch.compile(broken, backend="eager")(X)

@pytest.mark.graphdoctor(max_recompiles=0)
def test_marked_recompiles():
    f = torch.compile(whole, backend="eager")
    f(X), f(torch.ones(3, 3))

@pytest.mark.graphdoctor(min_coverage=0.5)
def test_marked_coverage(graphdoctor):
    graphdoctor.compile(skipped, backend="eager")(X)
"""
    )
    result.assert_outcomes(failed=7)
    first = {
        test: text_of(result, f"test_{test}").splitlines()[0]
        for test in ("fullgraph", "recompiles", "coverage")
    }
    assert first["fullgraph"].startswith(
        "expected one graph for each compile and nothing eager, found 1 graph break, 1 s"
    )
    assert first["recompiles"] == "expected at most 1 recompile, found 2"
    assert first["coverage"] == "expected coverage of at least 0.95, found 0 (0 of 1 operations)"
    assert "1 function over torch's recompile limit" in text_of(result, "test_over_the_limit")
    marked = text_of(result, "test_marked_breaks")
    assert "found 1\n  @pytest.mark.graphdoctor(max_breaks=0, own_code=True)\n" in marked
    assert "Traceback" not in marked
    assert "recompiled once" in text_of(result, "test_marked_recompiles")
    assert "expected coverage of at least 0.5" in text_of(result, "test_marked_coverage")


def test_what_cannot_be_told_fails_by_name(suite):
    result = suite(
        """
def test_nothing_compiled(graphdoctor):
    rec = graphdoctor.compile(whole, backend="eager")
    whole(X)
    rec.assert_no_graph_breaks()

def test_never_called(graphdoctor):
    rec = graphdoctor.compile(whole, backend="eager")
    rec.compiled(X)
    rec.assert_coverage(0.5)

def test_block_coverage(graphdoctor):
    with graphdoctor.record() as rec:
        torch.compile(whole, backend="eager")(X)
    rec.assert_coverage(0.5)

def test_call_behind_an_assertion(graphdoctor):
    rec = graphdoctor.compile(whole, backend="eager")
    rec(X)
    rec.assert_fullgraph()
    rec(X)

def test_within_the_block(graphdoctor):
    with graphdoctor.record() as rec:
        rec.assert_fullgraph()

def test_failed_block(graphdoctor):
    with pytest.raises(KeyError), graphdoctor.record() as rec:
        torch.compile(whole, backend="eager")(X)
        raise KeyError("lost")
    rec.assert_fullgraph()

def test_nested_blocks(graphdoctor):
    with graphdoctor.record(), graphdoctor.record():
        pass

def test_record_while_compiled(graphdoctor):
    rec = graphdoctor.compile(whole, backend="eager")
    graphdoctor.record()

@pytest.mark.graphdoctor(max_breaks=0)
def test_marker_and_assertion(graphdoctor):
    rec = graphdoctor.compile(whole, backend="eager")
    rec(X)
    rec.assert_fullgraph()

@pytest.mark.graphdoctor(max_breaks=0)
def test_marked_nothing_compiled():
    pass

@pytest.mark.graphdoctor(min_coverage=0.5)
def test_marked_coverage():
    torch.compile(whole, backend="eager")(X)

@pytest.mark.graphdoctor(max_brakes=0)
def test_wrong_name():
    pass

@pytest.mark.graphdoctor(min_coverage=95)
def test_wrong_share():
    pass

@pytest.mark.graphdoctor
def test_empty_marker():
    pass

@pytest.mark.graphdoctor(config={"recompile_limits": 3})
def test_wrong_config():
    pass
"""
    )
    said = {
        "nothing_compiled": "found that nothing was compiled",
        "never_called": "what graphdoctor.compile returned was never called",
        "block_coverage": "Coverage isn't measured for a block",
        "call_behind_an_assertion": "The recording has ended, so this call wouldn't count.",
        "within_the_block": "until the block has ended",
        "failed_block": "found a recording that ended early",
        "nested_blocks": "is already running in this process",
        "record_while_compiled": "This test is already being recorded by graphdoctor.compile",
        "marker_and_assertion": "@pytest.mark.graphdoctor(max_breaks=0) checks this test when it ends",
        "marked_nothing_compiled": "found that nothing was compiled",
        "marked_coverage": "coverage is unknown because there is no call to repeat",
        "wrong_name": "has no argument max_brakes.\nDid you mean max_breaks?",
        "wrong_share": "Coverage must be a share from 0 to 1, not 95.\nWrite 95% as 0.95.",
        "empty_marker": "has no arguments",
        "wrong_config": "torch has no 'torch._dynamo.config.recompile_limits'.\nDid you mean",
    }
    result.assert_outcomes(failed=len(said))
    for test, words in said.items():
        shown = text_of(result, f"test_{test}")
        assert words in shown, shown
        assert "Traceback" not in shown
    assert ".py:" in text_of(result, "test_call_behind_an_assertion").splitlines()[1]
    assert text_of(result, "test_call_behind_an_assertion").splitlines()[1].endswith(": rec(X)")


def test_nothing_is_left_behind(suite, pytester):
    result = suite(
        """
import os
from collections import Counter
from tests.api import state

PROBE_OBJECTS = ("TraceListener", "TraceFile", "RecompileRecorder")
before = {}
strangers = []
alive = Counter()
outer = torch.compile(whole, backend="eager")

def test_0_warm(graphdoctor):
    rec = graphdoctor.compile(broken, backend="eager")
    rec(X)
    rec.assert_coverage(0)

def test_1_before():
    os.environ["PYTEST_CURRENT_TEST"] = "any"
    torch.compiler.reset()
    before.update(state.process_state())
    # Other tests of this process.
    strangers.extend(state.foreign_objects())
    alive.update(state.living(*PROBE_OBJECTS))

def test_2_changes_config_and_fails(graphdoctor):
    torch._dynamo.config.recompile_limit = 3
    torch._inductor.config.max_autotune = True
    rec = graphdoctor.compile(broken, backend="eager")
    rec(X)
    raise ValueError("midway")

def test_3_skips(graphdoctor):
    graphdoctor.compile(whole, backend="eager")(X)
    pytest.skip("midway")

@pytest.mark.graphdoctor(max_breaks=0, config={"capture_scalar_outputs": True})
def test_4_marked_fails():
    torch.compile(broken, backend="eager")(X)

@pytest.mark.graphdoctor(max_breaks=0)
def test_5_marked_skips():
    torch.compile(broken, backend="eager")(X)
    pytest.skip("midway")

@pytest.mark.parametrize("n", [2, 3])
def test_6_compiles_in_its_own_dynamo(graphdoctor, n):
    # As in the tests before: with their caches it would compile nothing, or again.
    with graphdoctor.record() as rec:
        outer(torch.ones(n))
    rec.assert_max_recompiles(0)
    rec.assert_no_recompiles()
    assert rec.diagnosis.summary.graphs == 1

def test_7_after():
    os.environ["PYTEST_CURRENT_TEST"] = "any"
    after = state.process_state()
    assert {name: after[name] for name in before if before[name] != after[name]} == {}, before["folders"]
    assert state.foreign_objects() == strangers
    assert Counter(state.living(*PROBE_OBJECTS)) - alive == Counter()
"""
    )
    result.assert_outcomes(passed=5, failed=2, skipped=2)


def test_async_tests_and_fixtures_that_compile(suite, pytester):
    pytester.makeconftest(
        """
import asyncio, inspect, pytest

@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    if inspect.iscoroutinefunction(pyfuncitem.obj):
        names = pyfuncitem._fixtureinfo.argnames
        asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
        return True
"""
    )
    result = suite(
        """
import asyncio

@pytest.fixture
def rec(graphdoctor):
    return graphdoctor.compile(broken, backend="eager")

def test_fixture(rec):
    rec(X)
    rec.assert_no_graph_breaks()

def test_asks(request):
    rec = request.getfixturevalue("graphdoctor").compile(broken, backend="eager")
    rec(X)
    rec.assert_no_graph_breaks()

async def test_async(graphdoctor):
    rec = graphdoctor.compile(broken, backend="eager")
    await asyncio.sleep(0)
    rec(X)
    await asyncio.sleep(0)
    rec.assert_fullgraph()

@pytest.mark.graphdoctor(max_breaks=0)
async def test_marked():
    await asyncio.sleep(0)
    torch.compile(broken, backend="eager")(X)
"""
    )
    result.assert_outcomes(failed=4)
    for name in ("test_fixture", "test_asks", "test_async", "test_marked"):
        text = text_of(result, name)
        assert "GD107" in text
        assert f"path  {name} test_async_tests" in text
        assert "asyncio" not in text.partition("GD107")[2]


def test_reports_of_failing_tests(suite, pytester):
    result = suite(
        """
@pytest.mark.parametrize("name", ["a/../b", "a .. b", "ü"])
def test_it(graphdoctor, name):
    rec = graphdoctor.compile(broken, backend="eager")
    rec(X)
    assert name == "ü"

@pytest.mark.graphdoctor(max_breaks=1)
def test_holds():
    torch.compile(broken, backend="eager")(X)

def test_records_nothing(graphdoctor):
    raise ValueError
""",
        "--graphdoctor-report=out/reports",
    )
    result.assert_outcomes(failed=3, passed=2)
    pages = sorted((pytester.path / "out/reports").iterdir())
    assert len(pages) == 2
    for page in pages:
        assert re.fullmatch(r"[\w.-]+-[0-9a-f]{8}\.html", page.name)
        assert "graph_break" in page.read_text()
        assert f"Wrote {page}" in result.stdout.str()


def test_the_marker_is_described(suite):
    assert "@pytest.mark.graphdoctor(max_breaks=" in suite("", "--markers").stdout.str()


def test_a_gap_that_hides_breaks_is_no_pass():
    diagnosis = Explainer().explain(torch.nn.ReLU(), torch.ones(3)).diagnosis
    assert expectations.breaks(diagnosis, limit=0, own_code=False) is None
    gaps = (CaptureGap(code="GD900", kind="unrecorded_compile", message="Words for people."),)
    for broken in (
        expectations.breaks(with_facts(diagnosis, gaps=gaps), limit=0, own_code=False),
        expectations.fullgraph(with_facts(diagnosis, gaps=gaps)),
    ):
        assert broken is not None
        assert broken.found == "a recording with missing records"


# In a process of its own.


@pytest.fixture
def installed(pytester, monkeypatch):
    """A folder on the path that declares what pyproject.toml does."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    folder = pytester.mkdir("installed")
    metadata = folder / "graphdoctor-0.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: graphdoctor\nVersion: 0.0\n")
    declared = "\n".join(
        f"{name} = {value}" for name, value in project["entry-points"]["pytest11"].items()
    )
    (metadata / "entry_points.txt").write_text(f"[pytest11]\n{declared}\n")
    monkeypatch.setenv("PYTHONPATH", f"{folder}:{REPOSITORY}")
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", raising=False)
    return folder


@pytest.mark.usefixtures("installed")
def test_who_does_not_use_it_pays_nothing(pytester):
    pytester.makeconftest(
        """
import sys

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")

sys.meta_path.insert(0, NoTorch())
"""
    )
    pytester.makepyfile(
        """
import sys

def test_modules():
    loaded = {name for name in sys.modules if name.partition(".")[0] in ("torch", "pydantic", "rich", "graphdoctor")}
    assert loaded == {"graphdoctor", "graphdoctor.pytest_plugin", "graphdoctor.version"}

def test_without_torch(graphdoctor):
    pass
"""
    )
    result = pytester.runpytest_subprocess("--strict-markers")
    result.assert_outcomes(passed=1, errors=1)
    assert text_of(result, "test_without_torch").startswith("torch isn't installed here")

    blocked = pytester.runpytest_subprocess("-p", "no:graphdoctor", "-k", "without")
    blocked.assert_outcomes(errors=1)
    assert "fixture 'graphdoctor' not found" in blocked.stdout.str()


@pytest.mark.nightly
@pytest.mark.usefixtures("installed")
def test_under_xdist(pytester):
    pytest.importorskip("xdist")
    pytester.makepyfile(
        HEADER
        + """
@pytest.mark.parametrize("n", range(4))
def test_it(graphdoctor, n):
    rec = graphdoctor.compile(broken if n % 2 else whole, backend="eager")
    rec(X)
    rec.assert_fullgraph()

@pytest.mark.graphdoctor(max_breaks=0)
def test_marked():
    torch.compile(broken, backend="eager")(X)
"""
    )
    result = pytester.runpytest_subprocess("-n", "2")
    result.assert_outcomes(passed=2, failed=3)
    assert "GD107" in result.stdout.str()
