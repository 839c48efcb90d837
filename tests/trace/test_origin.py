"""Who owns a file."""

from __future__ import annotations

from graphdoctor.trace.origin import is_probe
from tests.each import for_each


@for_each(
    "file, expected",
    [
        ("/env/graphdoctor/probe/__main__.py", True),
        ("/env/graphdoctor/probe/steps/workload.py", True),
        ("C:\\env\\graphdoctor\\probe\\record\\backend.py", True),
        ("/home/me/graphdoctor/tools/probe/model.py", False),
        ("/env/graphdoctor/probes/model.py", False),
    ],
)
def test_the_probe_is_known_by_its_path(file: str, *, expected: bool) -> None:
    assert is_probe(file) is expected
