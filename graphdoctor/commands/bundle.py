"""``graphdoctor bundle``: a zip of a recording, ready to attach to a PyTorch issue."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from graphdoctor.commands.named import Place, place_named
from graphdoctor.commands.options import Given, LogArgument, ProcessOptions, with_options
from graphdoctor.commands.output import check_writable
from graphdoctor.commands.running import project_settings
from graphdoctor.commands.terminal import say
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.spec import option
from graphdoctor.facts.wording import bytes_text, ranks_text
from graphdoctor.trace.folder import ranks_at
from graphdoctor.views.file import write_file

if TYPE_CHECKING:
    from graphdoctor.studies.bundle.contents import Bundle

_ATTACHMENT_BYTES = 25 * 2**20
"""The largest zip that GitHub takes as an attachment."""


@with_options(without=("python",))
def bundle(
    process: ProcessOptions,
    given: Given,
    recording: LogArgument = None,
    output: Path = option(Path("bundle.zip"), "Write the zip to this file.", flag="--output -o"),
    force: bool = option(False, "Overwrite the file that -o names."),
    redact: bool = option(False, "Leave out source, paths, values and the program's own names."),
    with_trials: bool = option(
        False, "Include the recordings of the fixes and remedies that were tried."
    ),
    with_environment: bool = option(
        False, "Include the values of environment variables that torch guards."
    ),
    is_tried: bool = option(
        True,
        "Run reproduce.py if you made the recording here, and say in issue.md whether it shows the same.",
        flag="--try/--no-try",
    ),
    is_run: bool = option(
        False,
        "Run reproduce.py of any recording: show the interpreter and the code, then run.",
        flag="--run",
    ),
) -> None:
    """Put a recording into a zip file to attach to a PyTorch issue.

    It holds a draft of the issue, the diagnosis as JSON and as a page, the environment, the
    recording, and a script that makes the same calls, if one can be made from the recording.

    Examples:
        graphdoctor bundle: the last recording, in bundle.zip
        graphdoctor bundle --redact -o issue.zip: without your code
    """
    from graphdoctor.commands.progress import Progress
    from graphdoctor.studies.bundle.contents import Wanted, bundle_of, zipped

    if redact and with_trials:
        raise GraphDoctorError(
            "--redact and --with-trials exclude each other.", hint="Trials hold edited source."
        )
    if redact and with_environment:
        raise GraphDoctorError(
            "--redact and --with-environment exclude each other.", hint="Give one of them."
        )
    if is_run and (redact or not is_tried):
        without = "--redact" if redact else "--no-try"
        raise GraphDoctorError(f"{without} and --run exclude each other.", hint="Give one of them.")
    if not is_tried:
        given.refuse(("timeout",), without="--try")
    settings = project_settings(process.recordings)
    check_writable(output, force=force)
    place = place_named(recording, settings)
    if place.kind == "document":
        raise GraphDoctorError(
            f"{place.path} is a JSON document; a bundle holds a recording.",
            hint="Name the recording itself.",
        )
    _refuse_several_ranks(place)
    with Progress(is_quiet=process.quiet) as progress:
        wanted = Wanted(
            root=place.root or Path.cwd(),
            is_redacted=redact,
            has_trials=with_trials,
            has_environment=with_environment,
            is_tried=is_tried,
            show=progress.say if is_run else None,
            timeout_s=process.timeout,
        )
        made = bundle_of(place.path, wanted, progress.show_phase)
    content = zipped(made.files)
    write_file(content, output)
    if not process.quiet:
        _summarize(made, output, len(content))


def _refuse_several_ranks(place: Place) -> None:
    """A bundle has one diagnosis, and counts are never added up over ranks."""
    ranks = ranks_at(place.path)
    if len(ranks) < 2:
        return
    logs = [
        str(log.location)
        for rank in ranks
        for process in rank.folder.processes or ()
        for log in process.logs
    ]
    one = next((log for log in logs if log != str(place.path)), None)
    raise GraphDoctorError(
        f"{place.path} has {ranks_text([rank.rank for rank in ranks])}, and a bundle holds one rank.",
        hint=None
        if one is None
        else f"Name the log of one: {shlex.join(['graphdoctor', 'bundle', one])}",
    )


def _summarize(made: Bundle, output: Path, size_bytes: int) -> None:
    say(f"Wrote {output} ({bytes_text(size_bytes)})")
    if made.attempt is not None:
        say(f"reproduce.py: {made.attempt.words}")
        if made.attempt.is_refused:
            say(f"hint: bundle --run shows its code and runs it with {made.interpreter}.")
    for note in made.notes:
        say(f"left out: {note}")
    if size_bytes > _ATTACHMENT_BYTES:
        say(f"GitHub accepts attachments of up to {bytes_text(_ATTACHMENT_BYTES)}.")
