"""Shows what happens in logs while they are being written, until Ctrl-C."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from graphdoctor.commands.options import Color
from graphdoctor.commands.terminal import console_of
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.following import SoFar
from graphdoctor.trace.storage.places import Location
from graphdoctor.trace.storage.remote import Url
from graphdoctor.views.printable import printable

_PAUSE_S = 1.0
_REMOTE_PAUSE_S = 10.0
"""From one look to the next: a store is asked less often."""


def follow(location: Location, color: Color, *, is_on_stdout: bool, is_quiet: bool) -> None:
    """Show what happens until Ctrl-C; on a terminal the counts stay on the last line."""
    from rich.text import Text

    from graphdoctor.trace.follow import Follower
    from graphdoctor.views.progress import seen_text, so_far_text

    console = console_of(color, is_stderr=not is_on_stdout)
    console.quiet = is_quiet
    is_live = console.is_terminal and not console.is_dumb_terminal and not is_quiet
    follower = Follower(location)
    shown: SoFar | None = None
    status = console.status(so_far_text(follower.so_far)) if is_live else contextlib.nullcontext()
    with contextlib.suppress(KeyboardInterrupt), status as line:
        while True:
            try:
                for seen in follower.look():
                    console.print(Text(seen_text(seen, root=Path.cwd())), soft_wrap=True)
            except GraphDoctorError as error:
                if shown is None:
                    raise
                # A store can be out of reach for a while.
                console.print(Text(printable(f"{error.message} Trying again.")), soft_wrap=True)
            if shown != (so_far := follower.so_far):
                shown = so_far
                if line is None:
                    console.print(Text(so_far_text(so_far)), soft_wrap=True)
                else:
                    line.update(Text(so_far_text(so_far)))
            console.file.flush()
            time.sleep(_REMOTE_PAUSE_S if isinstance(location, Url) else _PAUSE_S)
    console.print()
