"""The command line: options, a call, a view, the exit code. One file for each command.

A command imports what it needs when it runs, so that ``graphdoctor --help`` stays quick.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import time

from graphdoctor.commands.terminal import EXIT_INTERRUPTED, prepare_streams, reported

_GARBAGE = (100_000, 20, 20)
"""How seldom Python looks for cycles. Facts have none, and a large log is millions of them: looking
as often as by default takes a third of the time that a page does."""

_ENDING = (signal.SIGTERM, signal.SIGHUP)
_REPEAT_S = 1.0
"""A signal that comes again sooner is the same one: ``timeout`` sends it to the process and to its
group."""


def main() -> None:
    """Run the command line and exit with its status.

    Signals that end a process are reported as Ctrl-C is, and the status says which it was.
    """
    received: list[tuple[int, float]] = []

    def interrupt(number: int, _frame: object) -> None:
        is_repeated = bool(received) and time.monotonic() - received[-1][1] < _REPEAT_S
        received.append((number, time.monotonic()))
        if not is_repeated:
            raise KeyboardInterrupt

    for number in _ENDING:
        # What nohup ignores stays ignored.
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, interrupt)
    gc.set_threshold(*_GARBAGE)
    prepare_streams()
    try:
        _run_and_report(sys.argv[1:])
    except SystemExit as end:
        if end.code == EXIT_INTERRUPTED and received:
            end.code = 128 + received[0][0]
        raise


def _run_and_report(arguments: list[str]) -> None:
    try:
        try:
            _run(arguments)
        finally:
            # While an error can still be reported.
            sys.stdout.flush()
    except SystemExit:
        raise
    except BaseException as error:  # noqa: BLE001 - trouble of our own too: one line and the path of a log
        sys.exit(reported(error))


def _run(arguments: list[str]) -> None:
    from graphdoctor.commands.commands import NAMES, columns, overview

    if arguments in (["--help"], ["-h"]):
        sys.stdout.write(overview(columns()))
        return
    from graphdoctor.commands.app import application

    if arguments and arguments[0] not in NAMES and not arguments[0].startswith("-"):
        command = command_for(arguments[0], arguments[1:])
        if command is not None:
            arguments.insert(0, command)
            sys.argv.insert(1, command)
    first = next((argument for argument in arguments if not argument.startswith("-")), None)
    # A name that is none, and completion in a shell, need to know them all.
    is_one = first in NAMES and "_GRAPHDOCTOR_COMPLETE" not in os.environ
    application([first] if is_one and first else NAMES)()


def command_for(text: str, arguments: list[str]) -> str | None:
    """Return the command for a file that stands in a command's place: ``run`` for a script, unless
    all options are those of ``explain``; None for what is no file.
    """
    from pathlib import Path

    from graphdoctor.trials.launch.discover import is_script

    place, colon, name = text.rpartition(":")
    if text.endswith(".py") and is_script(Path(text)):
        from graphdoctor.commands.app import misplaced_options

        ours, others = misplaced_options(text, arguments, "explain")
        return "explain" if ours and not others else "run"
    is_target = colon and name.removesuffix("()").replace(".", "_").isidentifier()
    is_file = os.sep in text or text.endswith((".py", ".ipynb")) or os.path.lexists(text)
    return "explain" if (place and is_target) or is_file else None


def main_lint() -> None:
    """``graphdoctor-lint``: the same as ``graphdoctor lint``."""
    sys.argv.insert(1, "lint")
    main()
