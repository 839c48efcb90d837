"""A check's documents for programs."""

from __future__ import annotations

from pathlib import Path

from graphdoctor.facts.check import CheckReport
from graphdoctor.rules.gate.check import Policy, check_target
from graphdoctor.views.formats import CHECK, RenderOptions
from tests.each import for_each
from tests.rules.gate.diagnoses import with_prints


def report(root: Path, **facts: object) -> CheckReport:
    target = check_target(
        with_prints((5, "a")), name="net", target="model.py", comments={}, policy=Policy()
    )
    return CheckReport(graphdoctor_version="1", targets=(target,), root=str(root), **facts)


@for_each("name", ["sarif", "github"])
def test_paths_for_programs_are_relative_to_the_repository(name: str) -> None:
    shown = CHECK.named(name)
    options = RenderOptions(Path("/elsewhere"))
    inside = shown.render(report(Path("/repository/packages/a"), repository="/repository"), options)
    assert "packages/a/model.py" in inside
    outside = shown.render(report(Path("/project")), options)
    assert "model.py" in outside
    assert "packages" not in outside
