"""The command line: parse, call, choose the exit code. One file a command; no logic of its own.

Commands import what they need when they run, so that ``graphdoctor --help`` stays quick.
"""

from __future__ import annotations

import io
import sys

from graphdoctor.errors import GraphDoctorError

__all__ = ["main", "main_lint"]


def main() -> None:
    """Run the command line and exit with its status."""
    from graphdoctor.cli.app import app
    from graphdoctor.cli.terminal import complain

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that has no sign for a character shows another one.
            stream.reconfigure(errors="replace")
    try:
        app()
    except GraphDoctorError as error:
        complain(error.message, error.hint)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read our output has gone: `graphdoctor report | head`.
        sys.stderr.close()
        sys.exit(141)
    except Exception as error:  # noqa: BLE001 - trouble of our own: one line and the path of a log
        from graphdoctor.cli.trouble import tell_trouble

        tell_trouble(error)
        sys.exit(2)


def main_lint() -> None:
    """``graphdoctor-lint``: the same as ``graphdoctor lint``."""
    sys.argv.insert(1, "lint")
    main()
