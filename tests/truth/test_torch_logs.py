"""What graphdoctor says of a program against what torch itself logs of it in a run of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.truth.compare import HERE, BareRunner, Site, counts_of, marked_lines, sites_of

PROGRAMS = HERE / "programs"


@dataclass(frozen=True)
class Case:
    """How a program is run, and where torch's own words are known to fall short.

    Args:
        program: Its name in ``programs/``.
        backend: Backend of both runs.
        fullgraph: ``fullgraph=True`` in both.
        torch_lacks: Marked lines that torch's printed stacks leave out, although the exception's
            stack has them.
        torch_names: A line of torch's own, where torch says it broke; the site is the line that
            makes the object.
        limit_messages: Recompiles that torch announces before it finds the limit hit.
    """

    program: str
    backend: str = "eager"
    fullgraph: bool = False
    torch_names: str | None = None
    declined: int = 0

    @property
    def path(self) -> Path:
        return PROGRAMS / f"{self.program}.py"

    @property
    def target(self) -> str:
        has_build = "\ndef build():" in self.path.read_text()
        return str(self.path) if has_build else f"{self.path}:region"


SPECIAL = {
    "backend_raises": Case("backend_raises", backend="raising"),
    # torch's metrics claim guarded code for a frame that the backend declined, as for one without
    # any operation.
    "backend_skips": Case("backend_skips", backend="declining", declined=1),
    # The root is a class of torch's, so is the frame's code; no line of the user's is on any stack.
    "torch_class_root": Case("torch_class_root", torch_names="torch/_dynamo/external_utils.py"),
}
CASES = [SPECIAL.get(path.stem, Case(path.stem)) for path in sorted(PROGRAMS.glob("*.py"))]
CASES.append(Case("explicit_graph_break", fullgraph=True))


def expected_sites(case: Case, bare: Any) -> set[Site]:
    """What torch printed; for a line of torch's own around a class of torch's own, the line that
    makes the object."""
    if case.torch_names is None:
        return bare.sites
    assert not bare.sites
    assert bare.break_headers
    assert all(file.endswith(case.torch_names) for file, _ in bare.break_headers)
    lines = case.path.read_text().splitlines()
    return {
        (str(case.path), number)
        for number, line in enumerate(lines, start=1)
        if line.startswith("def build")
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: case.program + ("-fullgraph" if case.fullgraph else "")
)
def test_sites_and_counts_are_torchs_own(
    case: Case, bare_runner: BareRunner, explain_json: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    bare_folder = tmp_path / "bare"
    bare_folder.mkdir()
    bare = bare_runner.run(case.path, bare_folder, backend=case.backend, fullgraph=case.fullgraph)

    options = ["--backend", case.backend, *(["--fullgraph"] if case.fullgraph else [])]
    document = explain_json(case.target, *options)

    summary = document["summary"]
    found = sites_of(document, tmp_path)
    raised = {
        (str(tmp_path / finding["location"]["file"]), finding["location"]["line"])
        for finding in document["findings"]
        if finding["break_effects"] == ["raised"]
    }
    # torch prints no break for one that it raises; the program marks the line.
    assert found - raised == expected_sites(case, bare)
    if case.torch_names is None:
        assert found == marked_lines(case.path)
    counts = bare.counts
    counts["skipped_frames"] += case.declined
    assert counts_of(document) == counts
    # By the findings, and by torch's hook for new bytecode.
    assert (summary["break_sites"], summary["compiles"]) == (len(found), bare.codes)
    again = [
        one
        for one in document["recording"]["compiles"]
        if one["is_recompile"] and one["outcome"] == "compiled"
    ]
    assert len(again) == bare.recompiles
    assert (document["recording"]["calls"][-1]["outcome"] == "error") is (bare.error is not None)
