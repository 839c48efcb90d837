"""The commands by name, in groups, and the help that names them all; nothing is imported for it.

A command's module is imported when the command runs, so that ``graphdoctor --help`` takes little more than Python's
own start.
"""

from __future__ import annotations

import os
import textwrap

ABOUT = "See what torch.compile did to your model, why, and what to change."

COMMANDS: dict[str, dict[str, str]] = {
    "Look": {
        "explain": "Compile a model, call it, and report its graphs and graph breaks.",
        "run": "Run a script as python would, and report what torch.compile did.",
        "recompiles": "Report what made torch recompile: what changed, where, the cost.",
        "guards": "Show each compile's guards and what checking them costs.",
        "bench": "Measure what torch.compile is worth, beside eager mode.",
        "profile": "Report where the time of a compiled call goes.",
        "export": "Find out whether torch.export takes a model, and what blocks it.",
        "survey": "Compile many targets in several ways, and report them in one table.",
        "report": "Show a recording again without running anything.",
        "diff": "Compare two runs: new and gone findings, graphs, coverage, time.",
    },
    "Cure": {
        "fix": "Try fixes by running the target with each, and show which work.",
        "cure": "Search for the fastest correct way to run a target.",
    },
    "Keep": {
        "check": "Run the configured targets and fail on what isn't allowed.",
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
    "unpack": "Write each artifact of a trace log to a file of its own.",
    "schema": "Print the JSON Schema of what --format json writes.",
}
"""Commands that ``--help`` only names."""

EXAMPLES: dict[str, dict[str, str]] = {
    "explain": {
        "graphdoctor explain model.py": "where the graph breaks",
        "graphdoctor explain model.py --try -o report.html": "try fixes, write a page",
    },
    "run": {
        "graphdoctor run train.py --epochs 2": "with the script's options",
        "graphdoctor run --report report.html train.py": "write a page too",
    },
    "recompiles": {
        "graphdoctor recompiles model.py": "which values made torch recompile",
        "graphdoctor recompiles model.py --what-if": "which cause matters most",
    },
    "guards": {
        "graphdoctor guards model.py": "what torch checks, and the time it takes",
        "graphdoctor guards -v": "the last recording, guard by guard",
    },
    "bench": {
        "graphdoctor bench model.py": "did it pay, and from which call on",
        "graphdoctor bench model.py --all -o bench.html": "every mode, as a page",
    },
    "profile": {
        "graphdoctor profile model.py": "by line and by kernel",
        "graphdoctor profile model.py -o profile.html": "as a page, with the generated code",
    },
    "export": {
        "graphdoctor export model.py": "strict or not, and what is in the way",
        "graphdoctor export model.py --dynamic --try": "sizes, and fixes",
    },
    "survey": {
        "graphdoctor survey '*.py' -o table.csv": "every file that has a target",
        "graphdoctor survey model.py --bench -o t.html": "timed beside eager mode",
    },
    "report": {
        "graphdoctor report": "the last recording again",
        "graphdoctor report -o report.html": "as a page",
    },
    "diff": {
        "graphdoctor diff before.json": "against the last recording",
        "graphdoctor diff before.json after.json -o diff.html": "as a page",
    },
    "fix": {
        "graphdoctor fix model.py": "try fixes, write nothing",
        "graphdoctor fix model.py --unsafe-fixes --apply": "write those that work",
    },
    "cure": {
        "graphdoctor cure model.py": "what is fastest, and what must change for it",
        "graphdoctor cure model.py --budget 600 --apply": "ten minutes; write the edits",
    },
    "check": {
        "graphdoctor check": "every target in pyproject.toml",
        "graphdoctor check model.py --max-breaks 0": "one target, one limit",
    },
    "baseline": {
        "graphdoctor baseline": "allow what is there now",
        "graphdoctor baseline --update": "after something was fixed",
    },
    "init": {
        "graphdoctor init --stdout": "only print the section",
        "graphdoctor init --measure": "with limits that hold now",
    },
    "lint": {
        "graphdoctor lint .": "every Python file here",
        "graphdoctor lint model.py --select GD101": "one file, one rule",
    },
    "unpack": {
        "graphdoctor unpack": "of the last recording, to unpacked/",
        "graphdoctor unpack logs artifacts": "of a folder that TORCH_TRACE wrote",
    },
    "bundle": {
        "graphdoctor bundle": "the last recording, in bundle.zip",
        "graphdoctor bundle --redact -o issue.zip": "without your code",
    },
    "rule": {
        "graphdoctor rule GD101": "one rule",
        "graphdoctor rule --all": "every rule",
    },
    "schema": {
        "graphdoctor schema": "of what explain and others write",
        "graphdoctor schema check": "of what check writes",
    },
}
"""For each command, command lines that run as they stand beside a ``model.py``, each with what it is for."""

NAMES: tuple[str, ...] = tuple(name for group in (*COMMANDS.values(), FOR_TOOLS) for name in group)

_LAST_LINE = f"graphdoctor COMMAND --help explains one command. For tools: {', '.join(FOR_TOOLS)}."
_WIDTH = 12
_WIDEST = 80
_NARROWEST = 40


def overview(width: int = _WIDEST) -> str:
    """The text of ``graphdoctor --help``."""
    width = max(width, _NARROWEST)
    shown = {
        "graphdoctor explain model.py": "its graphs, and why they break",
        "graphdoctor fix model.py --apply": "try fixes, write those that work",
        "graphdoctor recompiles model.py --what-if": "which cause matters most",
    }
    lines = ["Usage: graphdoctor [OPTIONS] COMMAND [ARGS]...", "", *_folded(ABOUT, 2, width)]
    lines += ["", "Examples:", *example_lines(shown, width)]
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


def example_lines(examples: dict[str, str], width: int) -> list[str]:
    """Command lines with what each is for: beside it where all of them fit, otherwise above it."""
    longest = max(map(len, examples))
    beside = [f"  {command:<{longest}}  # {purpose}" for command, purpose in examples.items()]
    if max(map(len, beside)) <= width:
        return beside
    return [line for command, purpose in examples.items() for line in (f"  # {purpose}", f"  {command}")]


def columns() -> int:
    """Columns of the terminal that standard output goes to, at most 80, which is also what a file gets."""
    asked = os.environ.get("COLUMNS", "")
    if asked.isdigit() and int(asked):
        return min(int(asked), _WIDEST)
    try:
        return min(os.get_terminal_size(1).columns or _WIDEST, _WIDEST)
    except OSError:
        return _WIDEST


def _folded(text: str, indent: int, width: int, *, label: str = "") -> list[str]:
    """A text in lines that fit, indented; the label stands before the first."""
    before = f"{label:<{indent}}"
    return textwrap.wrap(text, width, initial_indent=before, subsequent_indent=" " * indent, break_long_words=False)
