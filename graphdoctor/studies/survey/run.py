"""Runs a survey, and keeps it on disk: each row in a folder as soon as its piece has finished.

    survey.json      name, variants, options
    rows.jsonl       a line for each finished piece, the last one of a piece counts
    pages/           a page for each piece

A process that is killed loses the pieces that were running, and nothing else: half a line at the
end is dropped.
"""

from __future__ import annotations

import contextlib
import fcntl
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, cast

import orjson

from graphdoctor.errors import GraphDoctorError
from graphdoctor.executors.executor import Executor, Failure, Outcome, Share
from graphdoctor.facts.base import InvalidFactError, values_of
from graphdoctor.facts.reading import read_fact
from graphdoctor.facts.survey import SurveyReport, SurveyRow, SurveyStatus
from graphdoctor.rules.gate.documents import BOM, file_content, parsed_json, read_document
from graphdoctor.studies.survey.outcome import cut
from graphdoctor.studies.survey.piece import PieceResult, SurveyPiece, run_piece, utc_text
from graphdoctor.studies.survey.plan import Plan, plan_survey
from graphdoctor.studies.survey.summary import merge_surveys, summarize
from graphdoctor.studies.survey.survey_list import SurveyList
from graphdoctor.studies.survey.table import MAGIC, read_parquet
from graphdoctor.trials.launch.store import Store
from graphdoctor.version import __version__

SURVEY_FILE = "survey.json"
ROWS_FILE = "rows.jsonl"
_PARQUET = ".parquet"
_FIELDS = {"variants", "rows", "planned"}
"""Keys of a survey's document, and of no other."""
_HINT = "graphdoctor survey -o survey.parquet writes one."
_RUN_AGAIN: frozenset[SurveyStatus] = frozenset(
    {"wrong", "compile_failed", "eager_failed", "crashed", "timeout", "out_of_memory", "lost"}
)
"""Outcomes that may not happen again; the program and the machine decide the others."""

Key = tuple[str, str]
"""A piece: the names of its target and of its variant."""


class Onlooker(Protocol):
    """Shows how far a survey is."""

    def on_phase(self, phase: str) -> None:
        """Show what happens before pieces run."""

    def planned(self, count: int, kept: int) -> None:
        """Set the totals: pieces planned, and pieces kept from an earlier run."""

    def began(self, key: Key, slot: str | None) -> None:
        """Show that a piece runs; ``slot``: None if it has no resources of its own."""

    def finished(self, row: SurveyRow) -> None:
        """Show a row."""

    def retrying(self, key: Key, status: SurveyStatus) -> None:
        """Show that a piece failed, and will run again."""


@dataclass(frozen=True)
class SurveyRun:
    """A survey that has run, in its folder."""

    report: SurveyReport
    folder: Path
    is_interrupted: bool = False


def run_survey(
    survey: SurveyList,
    store: Store,
    executor: Executor,
    share: Share,
    onlooker: Onlooker,
    *,
    resume: bool = False,
) -> SurveyRun:
    """Run a survey's missing pieces; ``resume``: keep rows of the last survey of this name."""
    plan = plan_survey(survey, store.programs.absolute(), onlooker.on_phase)
    with (
        _folder(survey, store, resume=resume) as path,
        contextlib.closing(SurveyFolder(path)) as folder,
    ):
        is_interrupted = _Run(survey, plan, executor, share, folder, onlooker).run()
        return SurveyRun(report_of(path), path, is_interrupted)


@contextlib.contextmanager
def _folder(survey: SurveyList, store: Store, *, resume: bool) -> Iterator[Path]:
    name = survey.name or ""
    if not resume:
        with contextlib.closing(store.create(name, "@survey")) as made:
            yield made.path
        return
    surveys = (path for path in store.surveys(name) if (path / SURVEY_FILE).is_file())
    # Rows of another shard aren't in this one's table.
    earlier = (path for path in surveys if _content_of(path)["shard"] == survey.shard_text)
    if (last := next(earlier, None)) is None:
        part = "" if survey.shard is None else f"shard {survey.shard_text} of "
        raise GraphDoctorError(
            f"There is no {part}survey {name!r} to resume.", hint="Run it without --resume."
        )
    with contextlib.closing(store.hold(last)):
        yield last


@dataclass
class _Run:
    """One run of a survey."""

    survey: SurveyList
    plan: Plan
    executor: Executor
    share: Share
    folder: SurveyFolder
    onlooker: Onlooker
    made_count: int = 0
    attempts: dict[Key, list[SurveyRow]] = field(default_factory=dict)

    def run(self) -> bool:
        """Run what is missing; return whether somebody interrupted it."""
        results, options = kept_results(self.folder.path), self.survey.options
        pieces = [
            piece
            for piece in self.plan.pieces
            if (result := results.get(piece.key)) is None or not result.is_valid_for(piece)
        ]
        kept_count, retries = len(self.plan.pieces) - len(pieces), options.retries
        retries = 1 if retries is None else retries
        measured = {
            **values_of(options, "bench", "thorough", "export", "fix", "timeout_s"),
            "memory_gib": options.memory,
            "retries": retries,
            **values_of(self.share, "cpus", "gpus"),
        }
        jobs, began = self.executor.jobs, time.monotonic()
        content = {
            "name": self.survey.name,
            "started": utc_text(),
            "kept": kept_count,
            "options": {
                name: value for name, value in measured.items() if value not in (None, False)
            },
            "shard": self.survey.shard_text,
            "engine": self.executor.cluster or ("1 process" if jobs == 1 else f"{jobs} processes"),
            "variants": self.plan.variants,
            "pieces": [piece.key for piece in self.plan.pieces],
            "notes": self.plan.notes,
        }
        self.onlooker.planned(len(self.plan.pieces), kept_count)
        self.folder.describe(content | {"seconds": None, "made": 0})
        try:
            for left in reversed(range(retries + 1)):
                pieces = list(self._run_once(pieces, is_last=left == 0))
        except KeyboardInterrupt:
            return True
        finally:
            ran = {"seconds": time.monotonic() - began, "made": self.made_count}
            with contextlib.suppress(GraphDoctorError):
                self.folder.describe(content | ran)
        return False

    def _run_once(self, pieces: Sequence[SurveyPiece], *, is_last: bool) -> Iterator[SurveyPiece]:
        """Run pieces; yield those to run again."""
        # GPUs are for surveys on CUDA alone, unless the user says otherwise.
        has_gpus = self.survey.options.gpus is not None or any(
            (piece.spec.device or "").startswith("cuda") for piece in pieces
        )
        share = self.share if has_gpus else replace(self.share, gpus=None)

        def begin(index: int, slot: str) -> None:
            self.onlooker.began(pieces[index].key, slot if share.cpus or share.gpus else None)

        outcomes = self.executor.run(run_piece, pieces, share=share, on_begin=begin)
        # Closed at once if a row can't be kept: the workers end then.
        with contextlib.closing(cast("Generator[Outcome[PieceResult]]", outcomes)):
            for index, outcome in outcomes:
                row = self._kept(pieces[index], outcome)
                if row.status in _RUN_AGAIN and not is_last:
                    self.onlooker.retrying(row.key, row.status)
                    yield pieces[index]
                else:
                    self.made_count += 1
                    self.onlooker.finished(row)

    def _kept(self, piece: SurveyPiece, outcome: PieceResult | Failure) -> SurveyRow:
        """Keep a result; return its row with what earlier attempts came to."""
        if isinstance(outcome, Failure):
            reason, trace = outcome.reason, cut(outcome.details)
            error = f"{reason[:1].upper()}{reason[1:]}."
            row = piece.row({}, status="lost", error=error, traceback=trace, seconds=0.0)
            outcome = PieceResult(row, piece.plan)
        row = outcome.row
        earlier = self.attempts.setdefault(row.key, [])
        if earlier:
            row = row.replace(
                attempts=len(earlier) + 1,
                earlier=tuple(attempt.status for attempt in earlier),
                seconds=row.seconds + sum(attempt.seconds for attempt in earlier),
            )
        earlier.append(outcome.row)
        path = Path(piece.spec.target)
        # A node that doesn't share our file system wrote it there.
        with contextlib.suppress(OSError):
            if outcome.program is not None and not path.is_file():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(outcome.program, encoding="utf-8")
        self.folder.add(replace(outcome, row=row))
        return row


# On disk.


class SurveyFolder:
    """The folder of one survey, which only this process writes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._count = 0
        with self._writing():
            self._lock = (path / "survey.lock").open("wb")
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise GraphDoctorError(
                    f"Another survey is running in {path}.", hint="Wait until it ends, or stop it."
                ) from error
            (path / "pages").mkdir(exist_ok=True)
            self._rows = (path / ROWS_FILE).open("a+b")
            self._rows.seek(0)
            # Half a line at its end is cut off.
            self._rows.truncate(self._rows.read().rfind(b"\n") + 1)

    def describe(self, content: Mapping[str, Any]) -> None:
        """Write ``survey.json``."""
        with self._writing():
            temporary = self.path / f".{SURVEY_FILE}"
            temporary.write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2))
            temporary.replace(self.path / SURVEY_FILE)

    def add(self, result: PieceResult) -> None:
        """Keep the result of a piece."""
        line = {**values_of(result, "row", "plan", "limits"), "files": dict(result.files)}
        with self._writing():
            if result.page is not None and result.row.report is not None:
                (self.path / result.row.report).write_text(result.page, encoding="utf-8")
            self._rows.write(orjson.dumps(line) + b"\n")
            self._rows.flush()
        self._count += 1

    def close(self) -> None:
        """Let others write."""
        with contextlib.suppress(OSError):
            self._rows.close()
        self._lock.close()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            kept = f" {self._count} finished pieces of this run are kept; --resume continues."
            raise GraphDoctorError(
                f"{self.path} can't be written: {error.strerror}.{kept if self._count else ''}",
                hint="--recordings DIR puts surveys into another folder.",
            ) from error


def kept_results(folder: Path) -> dict[Key, PieceResult]:
    """Read the results of a survey, by name and variant."""
    results = {}
    lines = []
    with contextlib.suppress(OSError):
        lines = (folder / ROWS_FILE).read_bytes().splitlines()
    for line in lines:
        # A line of another version, or half a line, is a piece that is missing.
        with contextlib.suppress(orjson.JSONDecodeError, InvalidFactError, KeyError, TypeError):
            value = orjson.loads(line)
            row = read_fact(SurveyRow, value["row"])
            limits = tuple(value["limits"])
            results[row.key] = PieceResult(row, value["plan"], value["files"], limits)
    return results


def _content_of(folder: Path) -> dict[str, Any]:
    try:
        return dict(orjson.loads((folder / SURVEY_FILE).read_bytes()))
    except (OSError, orjson.JSONDecodeError) as error:
        raise GraphDoctorError(
            f"{folder} isn't a survey.", hint="graphdoctor survey makes one."
        ) from error


def report_of(folder: Path) -> SurveyReport:
    """Read a survey's report, as far as it got."""
    content, results = _content_of(folder), kept_results(folder)
    keys = [(name, variant) for name, variant in content.pop("pieces")]
    rows = tuple(results[key].row for key in keys if key in results)
    names = [variant["name"] for variant in content["variants"]]
    summary = summarize(rows, names, seconds=content["seconds"], made=content.pop("made"))
    content |= {"graphdoctor_version": __version__, "planned": len(keys), "rows": ()}
    return read_fact(SurveyReport, content | {"summary": summary}).replace(rows=rows)


def last_survey(store: Store) -> Path:
    """Return the folder of the last survey."""
    for path in store.surveys():
        if (path / SURVEY_FILE).is_file():
            return path
    raise GraphDoctorError(
        "There is no survey here.", hint="Run graphdoctor survey 'models/*.py' first."
    )


def is_survey(path: Path) -> bool:
    """Return whether something on this machine is meant to be a survey: by its ending, first bytes
    or fields.
    """
    if path.is_dir():
        return (path / SURVEY_FILE).is_file() or bool(_shards(path))
    if path.suffix.lower() == _PARQUET:
        return True
    with contextlib.suppress(OSError, orjson.JSONDecodeError):
        if path.suffix.lower() == ".json":
            document = orjson.loads(path.read_bytes().removeprefix(BOM))
            return isinstance(document, dict) and document.keys() >= _FIELDS
        with path.open("rb") as stream:
            return stream.read(len(MAGIC)) == MAGIC
    return False


def read_survey(path: Path) -> SurveyReport:
    """Read a survey: its folder, a file, or a folder with files of shards."""
    if not path.is_dir():
        return _read_file(path)
    if (path / SURVEY_FILE).is_file():
        return report_of(path)
    shards = _shards(path)
    if not shards:
        raise GraphDoctorError(
            f"There is no survey in {path}: it has no Parquet files.", hint=_HINT
        )
    return merge_surveys([_read_file(shard) for shard in shards])


def _shards(folder: Path) -> list[Path]:
    """List files in the folder or one below, where a CI system puts what its jobs uploaded."""
    return sorted((*folder.glob(f"*{_PARQUET}"), *folder.glob(f"*/*{_PARQUET}")))


def _read_file(path: Path) -> SurveyReport:
    name = str(path)
    content = file_content(path, missing=f"There is no survey at {path}.", hint=_HINT)
    if not content:
        raise GraphDoctorError(f"{name} is empty.", hint=_HINT)
    if content.startswith(MAGIC):
        document: Any = read_parquet(content, name)
    elif path.suffix.lower() == _PARQUET:
        raise GraphDoctorError(f"{name} isn't a Parquet file.", hint=_HINT)
    else:
        document = parsed_json(content, name, hint=_HINT)
    return read_document(SurveyReport, document, name, what="a survey", has=_FIELDS, hint=_HINT)
