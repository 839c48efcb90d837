"""The commands by name, in groups, and the help that names them all; nothing is imported for it.

A command's module is imported when the command runs, so that ``graphdoctor --help`` takes little more than Python's
own start.
"""

from __future__ import annotations

ABOUT = "See what torch.compile did to your model, why, and what to change."

COMMANDS: dict[str, dict[str, str]] = {
    "Look": {
        "explain": "Compile a model, call it, and report its graphs and graph breaks.",
        "run": "Run a script as python would, and report what torch.compile did.",
        "recompiles": "Report what made torch recompile: what changed, where, the cost.",
        "guards": "Show each compile's guards and what checking them costs.",
        "report": "Show a recording again without running anything.",
        "diff": "Compare two runs: new and gone findings, graphs, coverage, time.",
    },
    "Cure": {
        "fix": "Try fixes by running the target with each, and show which work.",
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
        "schema": "Print the JSON Schema of what --format json writes.",
    },
}
"""The first sentence of each command's help, by name, in groups."""

NAMES: tuple[str, ...] = tuple(name for group in COMMANDS.values() for name in group)

_WIDTH = 12


def overview() -> str:
    """The text of ``graphdoctor --help``."""
    lines = [
        "Usage: graphdoctor [OPTIONS] COMMAND [ARGS]...",
        "",
        f"  {ABOUT}",
        "",
        "Examples:",
        "  graphdoctor explain model.py               # its graphs, and why they break",
        "  graphdoctor fix model.py --apply           # try fixes, write those that work",
        "  graphdoctor recompiles model.py --what-if  # which cause matters most",
    ]
    for heading, commands in COMMANDS.items():
        lines += ["", f"{heading}:"]
        for name, summary in commands.items():
            lines.append(f"  {name:<{_WIDTH}}{summary}")
    lines += ["", "Options:"]
    for name, text in (
        ("--version", "Show the version and exit."),
        ("--install-completion", "Install completion for the current shell."),
        ("--show-completion", "Show completion for the current shell."),
        ("-h, --help", "Show this message and exit."),
    ):
        lines.append(f"  {name:<22}{text}")
    lines += ["", "graphdoctor COMMAND --help explains one command."]
    return "\n".join(lines) + "\n"
