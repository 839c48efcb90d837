"""What graphdoctor says of a program against what torch itself logs of it in a run of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.sections import sections, written
from tests.truth.compare import HERE, BareRunner, Site, counts_of, marked_lines, sites_of

PROGRAMS = sections(HERE / "programs.txt")


@dataclass(frozen=True)
class Case:
    """How a program is run, and where torch's own words are known to fall short.

    Args:
        program: Its name in ``programs.txt``.
        backend: Backend of both runs.
        fullgraph: ``fullgraph=True`` in both.
        torch_names: A line of torch's own, where torch says it broke; the site is the line that
            makes the object.
    """

    program: str
    backend: str = "eager"
    fullgraph: bool = False
    torch_names: str | None = None
    declined: int = 0


SPECIAL = {
    "backend_raises": Case("backend_raises", backend="raising"),
    # torch's metrics claim guarded code for a frame that the backend declined, as for one without
    # any operation.
    "backend_skips": Case("backend_skips", backend="declining", declined=1),
    # The root is a class of torch's, so is the frame's code; no line of the user's is on any stack.
    "torch_class_root": Case("torch_class_root", torch_names="torch/_dynamo/external_utils.py"),
}
CASES = [SPECIAL.get(name, Case(name)) for name in PROGRAMS]
CASES.append(Case("explicit_graph_break", fullgraph=True))


def expected_sites(case: Case, program: Path, bare: Any) -> set[Site]:
    """What torch printed; for a line of torch's own around a class of torch's own, the line that
    makes the object."""
    if case.torch_names is None:
        return bare.sites
    assert not bare.sites
    assert bare.break_headers
    assert all(file.endswith(case.torch_names) for file, _ in bare.break_headers)
    lines = program.read_text().splitlines()
    return {
        (str(program), number)
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
    program = written(HERE / "programs.txt", case.program, tmp_path)
    bare_folder = tmp_path / "bare"
    bare_folder.mkdir()
    bare = bare_runner.run(program, bare_folder, backend=case.backend, fullgraph=case.fullgraph)

    options = ["--backend", case.backend, *(["--fullgraph"] if case.fullgraph else [])]
    document = explain_json(
        program if "\ndef build():" in PROGRAMS[case.program] else f"{program}:region", *options
    )

    summary = document["summary"]
    found = sites_of(document, tmp_path)
    raised = {
        (str(tmp_path / finding["location"]["file"]), finding["location"]["line"])
        for finding in document["findings"]
        if finding["break_effects"] == ["raised"]
    }
    # torch prints no break for one that it raises; the program marks the line.
    assert found - raised == expected_sites(case, program, bare)
    if case.torch_names is None:
        assert found == marked_lines(program)
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
