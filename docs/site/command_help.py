"""A command's name -> what its ``--help-all`` prints; asked of the command line itself, so the
pages can't go stale.
"""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout, suppress
from unittest import mock

from graphdoctor.commands import main


def help_text(*command: str) -> str:
    """What ``graphdoctor COMMAND --help-all`` prints; without a command, the whole program's.

    Args:
        command: The command's name, or nothing.
    """
    printed = io.StringIO()
    with (
        mock.patch("sys.argv", ["graphdoctor", *command, "--help-all" if command else "--help"]),
        mock.patch.dict("os.environ", {"NO_COLOR": "1", "COLUMNS": "80", "TERM": "dumb"}),
        redirect_stdout(printed),
        suppress(SystemExit),
    ):
        main()
    return "\n".join(line.rstrip() for line in printed.getvalue().strip().splitlines())


def command_names() -> list[str]:
    """Every command, in the order of ``graphdoctor --help``, and last those that it only names, for
    tools.
    """
    listed, _, rest = help_text().partition("\nOptions:\n")
    _, _, for_tools = rest.partition("For tools: ")
    return re.findall(r"^  ([a-z]+) {2,}", listed, re.MULTILINE) + re.findall("[a-z]+", for_tools)


def options_of(*command: str) -> frozenset[str]:
    """The options that a command's help names, such as ``--input`` and ``-o``."""
    return frozenset(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", help_text(*command)))
