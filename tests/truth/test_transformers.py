"""Models of transformers with random weights against what torch logs of them."""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import RunCli
from tests.sections import written
from tests.truth.compare import HERE, Bare, BareRunner, counts_of, sites_of

if (
    importlib.util.find_spec("transformers") is None
):  # importing it here would cost every worker seconds
    pytest.skip(
        "transformers is not installed (it comes with the dev extra)", allow_module_level=True
    )

MODELS = HERE / "models.txt"
pytestmark = pytest.mark.slow

Both = Callable[..., tuple[dict[str, Any], Bare]]


@pytest.fixture
def both(
    bare_runner: BareRunner, explain_json: Callable[..., dict[str, Any]], tmp_path: Path
) -> Both:
    """Run a model with and without graphdoctor; the counts are compared here, since they must
    always agree."""

    def run(
        name: str, *, backend: str = "eager", backward: bool = False
    ) -> tuple[dict[str, Any], Bare]:
        program = written(MODELS, name, tmp_path)
        folder = tmp_path / "bare"
        folder.mkdir()
        bare = bare_runner.run(program, folder, backend=backend, backward=backward)
        options = ["--backend", backend, *(["--backward"] if backward else [])]
        document = explain_json(program, *options, imported="packages")
        assert (sites_of(document, tmp_path), counts_of(document)) == (bare.sites, bare.counts)
        assert bare.error is None
        assert document["recording"]["calls"][-1]["outcome"] == "ok"
        return document, bare

    return run


@pytest.mark.parametrize(
    ("name", "backend"),
    [("gpt2", "inductor"), ("bert", "aot_eager"), ("t5", "eager"), ("granite", "eager")],
)
def test_a_model_without_breaks_is_one_graph(both: Both, name: str, backend: str) -> None:
    if backend == "inductor" and not shutil.which("c++"):
        pytest.skip("inductor needs a C++ compiler on a CPU")
    document, bare = both(name, backend=backend)

    assert (bare.sites, bare.graphs) == (set(), 1)
    assert document["summary"]["coverage"] == 1.0
    assert document["findings"] == []


def test_longformer_breaks_in_its_own_file(both: Both, run_cli: RunCli) -> None:
    document, bare = both("longformer")

    breaks = [finding for finding in document["findings"] if finding["break_effects"]]
    lines = {finding["location"]["text"] for finding in breaks}
    assert any("logger." in line for line in lines), lines
    assert any(".item()" in line for line in lines), lines
    for finding in breaks:
        assert Path(finding["location"]["file"]).name == "modeling_longformer.py"
        assert finding["location"]["package"] == "transformers"
        assert finding["location"]["origin"] == "third_party"
    assert bare.sites

    # The same recording without what lies in a package.
    own = json.loads(run_cli("report", "--own-code", "--format", "json").stdout)
    assert own["findings"] == []
    assert own["summary"]["hidden_findings"] == len(document["findings"]) > 0
    assert own["summary"]["break_sites"] == document["summary"]["break_sites"]


def test_longformer_in_training_counts_the_forward_alone(both: Both) -> None:
    document, _ = both("longformer", backward=True, backend="aot_eager")

    assert 0 < document["summary"]["coverage"] < 1
