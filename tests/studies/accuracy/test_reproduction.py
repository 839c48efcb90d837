"""A graph as a program of its own is shown only if it was wrong when it ran alone."""

import sys
from pathlib import Path

import pytest

from graphdoctor.facts.located import Located
from graphdoctor.studies.accuracy.reproduction import reproduction

RIGHT = "def program(x):\n    return (x * 2,)\n\n\ninputs = [torch.randn((2, 3))]"
# Eager mode and compiled code differ on purpose, in every torch.
ASKS = RIGHT.replace("x * 2", "x * (3 if torch.compiler.is_compiling() else 2)")


def located(program: str | None, direction: str = "forward") -> Located:
    return Located(
        compile_id="0/0",
        call=1,
        direction=direction,
        operation="torch.mul",
        location=None,
        is_alone=True,
        node_count=1,
        compile_count=1,
        program=program,
    )


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_only_a_program_that_is_wrong_alone_is_shown(tmp_path: Path, direction: str) -> None:
    gradient = ".requires_grad_()]" if direction == "backward" else "]"
    programs = (text.replace(")]", f"){gradient}") for text in (ASKS, RIGHT))
    shown = [
        reproduction(located(text, direction), "aot_eager", sys.executable, tmp_path)
        for text in programs
    ]
    assert shown[1] is None
    assert shown[0] is not None and 'backend="aot_eager"' in shown[0]


def test_a_backend_of_the_users_and_a_graph_without_text_have_none(tmp_path: Path) -> None:
    assert reproduction(located(ASKS), "mine", sys.executable, tmp_path) is None
    assert reproduction(located(None), "inductor", sys.executable, tmp_path) is None
    assert reproduction(None, "inductor", sys.executable, tmp_path) is None
