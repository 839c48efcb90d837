"""Everything commands print besides results goes through one module, which makes it safe for a
terminal."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import graphdoctor.commands
from graphdoctor.commands.terminal import complain, say, warn
from tests.each import for_each
from tests.views.hostile import CODE_POINTS, EVIL

MODULES = sorted(Path(graphdoctor.commands.__file__).parent.glob("*.py"))


@pytest.mark.parametrize(
    "print_hostile", [lambda: say(EVIL), lambda: warn(EVIL), lambda: complain(EVIL, EVIL)]
)
def test_a_message_cannot_control_the_terminal(print_hostile, capsys) -> None:
    print_hostile()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "�" in captured.err
    assert not set(map(chr, CODE_POINTS)) & set(captured.err)


@for_each("module", MODULES)
def test_only_the_terminal_module_prints(module: Path) -> None:
    calls = [node for node in ast.walk(ast.parse(module.read_text())) if isinstance(node, ast.Call)]
    prints = [
        call.lineno for call in calls if isinstance(call.func, ast.Name) and call.func.id == "print"
    ]
    assert module.stem == "terminal" or not prints
