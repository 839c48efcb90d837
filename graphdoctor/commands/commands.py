"""The commands by name, in groups, and the help that names them all; nothing is imported for it.

A command's module is imported when the command runs, so that ``graphdoctor --help`` takes little
more than Python's own start.
"""

from __future__ import annotations

import os
import textwrap

ABOUT = "See what torch.compile did to your model, why, and what to change."

COMMANDS: dict[str, dict[str, str]] = {
    "Diagnose": {
        "explain": "Compile a model, call it, and report its graphs and graph breaks.",
        "run": "Run a script as python would, and report what torch.compile did.",
        "recompiles": "Report what made torch recompile: what changed, where, the cost.",
        "guards": "Show each compile's guards and what checking them costs.",
        "accuracy": "Compare results with eager mode, and find the operation that differs.",
        "bench": "Measure the speedup over eager mode.",
        "profile": "Report where the time of a compiled call goes.",
        "export": "Find out whether torch.export takes a model, and what blocks it.",
        "survey": "Compile many targets in several ways, and report them in one table.",
        "report": "Show a recording again without running anything.",
        "diff": "Compare two runs: new and gone findings, graphs, coverage, time.",
        "list": "List the recordings that are kept here, the newest first.",
        "keep": "Name a recording, so that it stays and every command finds it by that name.",
    },
    "Fix": {
        "fix": "Try fixes by running the target with each, and show which work.",
        "try": "Try a patch that somebody wrote, as fixes are tried, and say whether it holds.",
        "cure": "Search for the fastest correct way to run a target.",
    },
    "In CI": {
        "check": "Run the configured targets and fail on new findings or exceeded budgets.",
        "baseline": "Run the configured targets and allow the findings they have.",
        "init": "Find targets in the project's source and add a config section.",
        "lint": "Find certain graph breaks in source without running it.",
    },
    "Share and look up": {
        "bundle": "Put a recording into a zip file to attach to a PyTorch issue.",
        "rule": "Explain a rule: what it finds, why it costs, what to write.",
    },
}
"""The first sentence of each command's help, by name, in groups, as ``--help`` shows them."""

FOR_TOOLS: dict[str, str] = {
    "schema": "Print the JSON Schema of what --format json writes.",
    "lsp": "Serve findings to editors (Language Server Protocol).",
    "mcp": "Serve these commands to coding agents (Model Context Protocol).",
}
"""Commands that ``--help`` only names."""

NAMES: tuple[str, ...] = tuple(name for group in (*COMMANDS.values(), FOR_TOOLS) for name in group)

MODULES = {
    **dict.fromkeys(("check", "baseline"), "gate"),
    **dict.fromkeys(("list", "keep"), "recordings"),
    **dict.fromkeys(("lsp", "mcp"), "serving"),
    **dict.fromkeys(("rule", "schema"), "reference"),
}
"""Modules of commands that aren't called as these."""

_LAST_LINE = f"graphdoctor COMMAND --help explains one command. For tools: {', '.join(FOR_TOOLS)}."
_WIDTH = 12
_WIDEST = 80
_NARROWEST = 40


def overview(width: int = _WIDEST) -> str:
    """Return the text of ``graphdoctor --help``."""
    width = max(width, _NARROWEST)
    shown = {
        "graphdoctor explain model.py": "its graphs, and why they break",
        "graphdoctor fix model.py --apply": "try fixes, write those that work",
        "graphdoctor recompiles model.py --what-if": "which cause matters most",
    }
    lines = ["Usage: graphdoctor [OPTIONS] COMMAND [ARGS]...", "", *_folded(ABOUT, 2, width)]
    lines += ["", "Examples:"]
    for command, purpose in shown.items():
        lines += [f"  {command}", *_folded(purpose, 6, width)]
    for heading, commands in COMMANDS.items():
        lines += ["", f"{heading}:"]
        for name, summary in commands.items():
            lines += _folded(summary, _WIDTH + 2, width, label=f"  {name}")
    lines += ["", "Options:"]
    for name, text in (
        ("--version", "Show the version and exit."),
        ("--install-completion", "Install completion for the current shell."),
        ("--show-completion", "Show completion for the current shell."),
        ("-h, --help", "Show this message and exit."),
    ):
        lines += _folded(text, 24, width, label=f"  {name}")
    lines += ["", *_folded(_LAST_LINE, 0, width)]
    return "\n".join(lines) + "\n"


def columns() -> int:
    """Columns of the terminal that standard output goes to, at most 80, which is also what a file
    gets.
    """
    asked = os.environ.get("COLUMNS", "")
    if asked.isdigit() and int(asked):
        return min(int(asked), _WIDEST)
    try:
        return min(os.get_terminal_size(1).columns or _WIDEST, _WIDEST)
    except OSError:
        return _WIDEST


def _folded(text: str, indent: int, width: int, *, label: str = "") -> list[str]:
    """Return a text in lines that fit, indented; the label stands before the first."""
    before = f"{label:<{indent}}"
    return textwrap.wrap(
        text, width, initial_indent=before, subsequent_indent=" " * indent, break_long_words=False
    )
