"""A recording or log, wherever it lies, to a ``Result``: a diagnosis, with the picture that some
formats need.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from operator import call
from pathlib import Path
from typing import TYPE_CHECKING

from graphdoctor.errors import GraphDoctorError
from graphdoctor.version import __version__

if TYPE_CHECKING:
    from graphdoctor.executors.executor import Executor
    from graphdoctor.facts.diagnosis import Diagnosis, Result
    from graphdoctor.facts.kernels import KernelShare
    from graphdoctor.facts.picture import GraphStages, Picture
    from graphdoctor.facts.recording import Recording
    from graphdoctor.facts.spec import StageName
    from graphdoctor.rules.diagnosis.selection import Selection
    from graphdoctor.trace.folder import RecordingFolder
    from graphdoctor.trace.storage import Location

_LARGE_BYTES = 64_000_000
"""A page of a log of this size or less has the details of all compiles."""
_MOST_BYTES = 24_000_000
"""Of graphs and code as torch printed them, on a page of a larger one: a few MB when packed."""
_MOST_ROWS = 500
"""Compiles in the tables of a page."""
_MOST_NAMED = 20


@dataclass(frozen=True)
class Needs:
    """Data to read of a recording beyond what every diagnosis holds.

    Args:
        guards: The guards of each compile, which can be most of a log.
        picture: What only pictures of the run show, which is all of a log.
        is_page: The picture is for a page, which has room for the details of so many compiles.
        compile_ids: For a page, the compiles whose details it shows; empty for the most telling.
        stages: Which stages of which graphs; None for none.
    """

    guards: bool = False
    picture: bool = False
    is_page: bool = False
    compile_ids: tuple[str, ...] = ()
    stages: StagesAsked | None = None


@dataclass(frozen=True)
class StagesAsked:
    """Stages of graphs to show.

    Args:
        stages: Which ones; empty for all.
        compile_ids: Of the graphs of which compiles; empty for all.
    """

    stages: tuple[StageName, ...] = ()
    compile_ids: tuple[str, ...] = ()


NOTHING_ELSE = Needs()


def diagnose_recording(
    recording: Location | RecordingFolder,
    selection: Selection | None = None,
    needs: Needs = NOTHING_ELSE,
    *,
    root: Path | None = None,
    eager_kernels: KernelShare | None = None,
    rank: int | None = None,
) -> Result:
    """Read a recording or a trace log, with all that is needed, and say what it means.

    Args:
        recording: An opened recording, or the location of one, of a folder with trace logs, or of a
            log file.
        selection: Which findings to show; None for all.
        needs: What else to read.
        root: Paths under it are shown relative to it; the working directory by default.
        eager_kernels: Kernels of the same call in eager mode, to compare with; None for none.
        rank: Read this rank alone; None for all processes.

    Raises:
        GraphDoctorError: There is no such rank.
    """
    from graphdoctor.facts.diagnosis import Result
    from graphdoctor.trace.folder import RecordingFolder, open_folder
    from graphdoctor.trace.reader import read_folder
    from graphdoctor.trace.sections import Wanted

    root = root or Path.cwd()
    folder = recording if isinstance(recording, RecordingFolder) else open_folder(recording)
    folder = folder.of_rank(rank)
    is_cut = (
        needs.is_page and needs.stages is None and (bool(needs.compile_ids) or _is_large(folder))
    )
    has_picture = (needs.picture or needs.stages is not None) and not is_cut
    facts = read_folder(folder, Wanted(guards=needs.guards, picture=has_picture))
    facts = facts.replace(eager_kernels=eager_kernels)
    diagnosis = diagnosis_of(facts, root=root, selection=selection)
    if needs.stages is not None:
        from graphdoctor.rules.diagnosis.stages import graph_stages

        stages = () if facts.picture is None else graph_stages(facts, facts.picture, root)
        diagnosis = diagnosis.replace(stages=chosen_stages(stages, needs.stages))
    picture = facts.picture
    if needs.is_page:
        shown = _shown(diagnosis, needs.compile_ids)
        if is_cut:
            picture = _details(folder, needs, shown)
        if picture is not None and len(shown) < len(diagnosis.recording.compiles):
            picture = picture.replace(shown=shown)
    return Result(diagnosis, picture)


def diagnosis_of(
    recording: Recording, *, root: Path, selection: Selection | None = None
) -> Diagnosis:
    """Return what a recording that was read means, by all rules; otherwise as ``diagnose``."""
    from graphdoctor.rules.catalog import RULES
    from graphdoctor.rules.diagnosis.diagnose import diagnose

    return diagnose(recording, RULES, root=root, version=__version__, selection=selection)


def _shown(diagnosis: Diagnosis, asked: tuple[str, ...]) -> tuple[str, ...]:
    """Return the compiles that a page has rows for: those asked for, then the most telling.

    Raises:
        GraphDoctorError: There is no such compile.
    """
    shown = most_telling(diagnosis, most=_MOST_ROWS)
    if unknown := set(asked).difference(
        compile_.compile_id for compile_ in diagnosis.recording.compiles
    ):
        raise _unknown("compile", min(unknown), shown)
    return tuple(dict.fromkeys((*asked, *shown)))


def _unknown(what: str, compile_id: str, known: Sequence[str]) -> GraphDoctorError:
    more = ", …" if len(known) > _MOST_NAMED else ""
    hint = (
        f"{what.capitalize()}s: {', '.join(known[:_MOST_NAMED])}{more}."
        if known
        else "Nothing was compiled."
    )
    return GraphDoctorError(f"There is no {what} {compile_id}.", hint=hint)


def _details(folder: RecordingFolder, needs: Needs, shown: tuple[str, ...]) -> Picture | None:
    """Return the picture of a large log: it is read again for the compiles that are shown."""
    from graphdoctor.trace.reader import read_folder
    from graphdoctor.trace.sections import Details, Wanted

    details = Details(
        needs.compile_ids or shown, most_bytes=None if needs.compile_ids else _MOST_BYTES
    )
    return read_folder(folder, Wanted(picture=True, details=details)).picture


def _is_large(folder: RecordingFolder) -> bool:
    sizes = [log.size_bytes for log in folder.logs]
    return sum(size or 0 for size in sizes) > _LARGE_BYTES or None in sizes


def chosen_stages(graphs: tuple[GraphStages, ...], asked: StagesAsked) -> tuple[GraphStages, ...]:
    """Return those of the graphs that are asked for.

    Raises:
        GraphDoctorError: There is no such graph.
    """
    known = [graph.compile_id or "?" for graph in graphs]
    if unknown := set(asked.compile_ids).difference(known):
        raise _unknown("graph", min(unknown), known)
    return tuple(
        graph.replace(
            stages=tuple(
                report
                for report in graph.stages
                if not asked.stages or report.stage in asked.stages
            )
        )
        for graph in graphs
        if not asked.compile_ids or graph.compile_id in asked.compile_ids
    )


def diagnose_on(executor: Executor, pieces: Sequence[partial[Result]]) -> list[Result]:
    """Read and diagnose recordings where an executor does that; each piece is a call of
    ``diagnose_recording``.

    Raises:
        GraphDoctorError: One can't be read.
    """
    from graphdoctor.executors.executor import Failure

    if executor.cluster is None and len(pieces) == 1:
        return [pieces[0]()]
    results: dict[int, Result] = {}
    for index, result in executor.run(call, pieces):
        if not isinstance(result, Failure):
            results[index] = result
        elif executor.cluster is None:
            # As if there had been one process: it may succeed, and raises what is wrong.
            results[index] = pieces[index]()
        else:
            read = pieces[index].args[0]
            where = f"{getattr(read, 'location', read)} couldn't be read on {executor.cluster}"
            raise GraphDoctorError(f"{where}: {result.reason.rstrip('.')}.")
    return [results[index] for index in range(len(pieces))]


_EACH = 3
"""Compiles of one finding that come before others."""


def most_telling(diagnosis: Diagnosis, *, most: int) -> tuple[str, ...]:
    """Return the compiles to look at first.

    The first compile of each finding comes first, then further ones of each, then the first of each
    frame, then all others in order.
    """
    known = {compile_.compile_id for compile_ in diagnosis.recording.compiles}
    wanted = (compile_id for compile_id in _in_turn(diagnosis) if compile_id in known)
    return tuple(islice(dict.fromkeys(wanted), most))


def _in_turn(diagnosis: Diagnosis) -> Iterator[str]:
    for turn in range(_EACH):
        for finding in diagnosis.findings:
            yield from finding.compile_ids[turn : turn + 1]
            yield from finding.effects.graphs[turn : turn + 1]
    for report in diagnosis.frames:
        yield from report.compile_ids[:1]
    yield from (compile_.compile_id for compile_ in diagnosis.recording.compiles)
