"""``graphdoctor unpack``: each artifact of a trace log in a file of its own."""

from __future__ import annotations

from pathlib import Path

from graphdoctor import __version__
from graphdoctor.commands.named import place_named
from graphdoctor.commands.options import LogArgument, ProcessOptions, with_options
from graphdoctor.commands.running import project_settings
from graphdoctor.commands.terminal import say, warn
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.spec import option
from graphdoctor.wording import counted


@with_options(without=("python", "timeout"))
def unpack(
    process: ProcessOptions,
    recording: LogArgument = None,
    folder: Path = option(
        Path("unpacked"), "Write to this folder.", flag="--output -o", metavar="DIR"
    ),
    force: bool = option(False, "Write into a folder that isn't empty, and replace files in it."),
) -> None:
    """Write each artifact of a trace log to a file of its own.

    Each compile gets a folder. index.json says which record became which file, and has what records
    without a text of their own say.

    Examples:
        graphdoctor unpack: of the last recording, to unpacked/
        graphdoctor unpack logs -o artifacts: of a folder that TORCH_TRACE wrote
    """
    from graphdoctor.commands.progress import Progress
    from graphdoctor.trace.unpack import INDEX
    from graphdoctor.trace.unpack import unpack as unpacked

    place = place_named(recording, project_settings(process.recordings))
    if place.kind == "document":
        raise GraphDoctorError(
            f"{place.location} is a JSON document; artifacts are in a trace log.",
            hint="Name the recording itself.",
        )
    with Progress(is_quiet=process.quiet):
        done = unpacked(place.location, folder, version=__version__, is_replacing=force)
    if process.quiet:
        return
    say(f"Wrote {counted(done.files, 'file')} ({done.bytes / 1e6:.1f} MB) to {folder}")
    say(
        f"{folder / INDEX} lists {counted(done.records, 'record')}, {done.without_payload} of them without a file."
    )
    for problem in done.problems:
        warn(problem)
