"""What an agent is told in words; each text is a file in ``texts``, and ``docs/guide/mcp.md`` shows
the skill.
"""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent / "texts"


def skill() -> str:
    """When to call which tool, and how to read what comes out."""
    return skill_file().partition("\n---\n")[2].lstrip()


def skill_file() -> str:
    """Return it as a file that agents read without a server, with its name on top."""
    return (_FOLDER / "SKILL.md").read_text(encoding="utf-8")


def fix_graph_breaks(target: str) -> str:
    """Find the graph breaks of a model, fix them, and prove that results stay the same."""
    return (_FOLDER / "fix_graph_breaks.md").read_text(encoding="utf-8").replace("TARGET", target)


def slow_compile(target: str) -> str:
    """Find out what makes compiling slow, or compiled calls slow, and what to change."""
    return (_FOLDER / "slow_compile.md").read_text(encoding="utf-8").replace("TARGET", target)
