"""``graphdoctor bundle``: a zip of a recording, ready to attach to a PyTorch issue."""

from __future__ import annotations

import shlex
from pathlib import Path

from graphdoctor.commands.named import NamedRun, place_named
from graphdoctor.commands.options import Given, LogArgument, ProcessOptions, with_options
from graphdoctor.commands.output import check_writable
from graphdoctor.commands.running import project_settings
from graphdoctor.commands.terminal import say
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.spec import option
from graphdoctor.trace.folder import open_folder
from graphdoctor.views.formats import write_file
from graphdoctor.wording import bytes_text, ranks_text

_ATTACHMENT_BYTES = 25 * 2**20
"""The largest zip that GitHub takes as an attachment."""


@with_options(without=("python",))
def bundle(
    process: ProcessOptions,
    flags: Given,
    recording: LogArgument = None,
    output: Path = option(Path("bundle.zip"), "Write the zip to this file.", flag="--output -o"),
    force: bool = option(False, "Overwrite the file that -o names."),
    redact: bool = option(
        False, "Leave out logs, source, paths, values and the program's own names."
    ),
    with_environment: bool = option(
        False, "Include the values of environment variables that torch guards."
    ),
    is_tried: bool = option(
        True,
        "Run reproduce.py if you made the recording here; issue.md says whether it behaves the"
        " same.",
        flag="--try/--no-try",
    ),
    is_run: bool = option(
        False,
        "Run reproduce.py of any recording, after showing the interpreter and the code.",
        flag="--run",
    ),
) -> None:
    """Put a recording into a zip file to attach to a PyTorch issue.

    The zip has a draft of the issue, the diagnosis as JSON and as a page, the environment, the
    recording, and a script that makes the same calls if the recording allows one. With --redact it
    has neither the recording nor the script.

    Examples:
        graphdoctor bundle: the last recording, in bundle.zip
        graphdoctor bundle --redact -o issue.zip: without your code
    """
    from graphdoctor.commands.terminal import Progress
    from graphdoctor.studies.bundle.bundle import Bundle, zipped

    excluded = {
        "--redact and --with-environment": redact and with_environment,
        "--redact and --run": redact and is_run,
        "--no-try and --run": is_run and not is_tried,
    }
    if given := [flag_pair for flag_pair, are_given in excluded.items() if are_given]:
        raise GraphDoctorError(f"{given[0]} exclude each other.", hint="Give one of them.")
    if not is_tried:
        flags.refuse(("timeout",), without="--try")
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
        made = Bundle(
            place.path,
            place.root or Path.cwd(),
            progress.show_phase,
            is_redacted=redact,
            has_environment=with_environment,
            is_tried=is_tried,
            show=progress.say if is_run else None,
            timeout_s=process.timeout,
        )
        made.collect()
    content = zipped(made.files)
    write_file(content, output)
    if process.quiet:
        return
    say(f"Wrote {output} ({bytes_text(len(content))})")
    if made.attempt is not None:
        say(f"reproduce.py: {made.attempt.words}")
        if made.attempt.is_refused:
            say(f"hint: bundle --run shows its code and runs it with {made.interpreter}.")
    for note in made.notes:
        say(f"left out: {note}")
    if len(content) > _ATTACHMENT_BYTES:
        say(f"GitHub accepts attachments of up to {bytes_text(_ATTACHMENT_BYTES)}.")


def _refuse_several_ranks(place: NamedRun) -> None:
    """A bundle has one diagnosis, and counts are never added up over ranks."""
    ranks = open_folder(place.path).ranks
    if len(ranks) < 2:
        return
    logs = (
        str(log.location)
        for rank in ranks
        for process in rank.folder.processes or ()
        for log in process.logs
    )
    log = next((log for log in logs if log != str(place.path)), None)
    raise GraphDoctorError(
        f"{place.path} has {ranks_text([rank.rank for rank in ranks])}, and a bundle holds one"
        " rank.",
        hint=log and f"Name the log of one rank: {shlex.join(['graphdoctor', 'bundle', log])}",
    )
