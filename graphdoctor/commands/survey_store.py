"""A survey on disk: one folder, to which each piece is added as it comes.

    survey.json      what it is: name, variants, options
    rows.jsonl       a line for each piece that was finished, the last one of a piece counts
    pages/           a page for each piece

A process that is killed loses the pieces that were running, and nothing else: a line is written
whole, or is the last one and is dropped.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import orjson

from graphdoctor.commands.survey_piece import PieceResult
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.base import InvalidFactError
from graphdoctor.facts.reading import read_fact
from graphdoctor.facts.survey import SurveyReport, SurveyRow
from graphdoctor.rules.gate.documents import BOM, file_content, parsed_json, read_document
from graphdoctor.studies.survey.merge import merge_surveys
from graphdoctor.studies.survey.parquet import KEY, MAGIC, read_parquet
from graphdoctor.studies.survey.summary import summarize
from graphdoctor.version import __version__

if TYPE_CHECKING:
    from graphdoctor.commands.settings import Settings

SURVEY_FILE = "survey.json"
ROWS_FILE = "rows.jsonl"
_PAGES = "pages"
_LOCK = "survey.lock"


class SurveyStore:
    """The folder of one survey, which only this process writes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._count = 0
        with self._writing():
            self._lock = (folder / _LOCK).open("wb")
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise GraphDoctorError(
                    f"Another survey is running in {folder}.",
                    hint="Wait until it ends, or stop it.",
                ) from error
            (folder / _PAGES).mkdir(exist_ok=True)
            self._rows = _opened(folder / ROWS_FILE)

    def describe(self, content: Mapping[str, Any]) -> None:
        """Keep what the survey is."""
        with self._writing():
            temporary = self.folder / f".{SURVEY_FILE}"
            temporary.write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2))
            temporary.replace(self.folder / SURVEY_FILE)

    def add(self, result: PieceResult) -> None:
        """Keep what came of a piece."""
        line = {
            "row": result.row,
            "plan": result.plan,
            "files": dict(result.files),
            "limits": result.limits,
        }
        with self._writing():
            if result.page is not None and result.row.report is not None:
                (self.folder / result.row.report).write_text(result.page, encoding="utf-8")
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
            kept = (
                f" {self._count} finished pieces of this run are kept; --resume continues."
                if self._count
                else ""
            )
            raise GraphDoctorError(
                f"{self.folder} can't be written: {error.strerror}.{kept}",
                hint="--recordings DIR puts surveys into another folder.",
            ) from error


def _opened(path: Path) -> IO[bytes]:
    """The file of rows, to be added to; half a line at its end is cut off."""
    stream = path.open("a+b")
    stream.seek(0)
    stream.truncate(stream.read().rfind(b"\n") + 1)
    return stream


def kept_rows(folder: Path) -> dict[tuple[str, str], PieceResult]:
    """The rows of a survey, by name and variant."""
    found: dict[tuple[str, str], PieceResult] = {}
    try:
        lines = (folder / ROWS_FILE).read_bytes().splitlines()
    except OSError:
        return found
    for line in lines:
        # A line of another version, or half a line, is a piece that is missing.
        with contextlib.suppress(orjson.JSONDecodeError, InvalidFactError, KeyError, TypeError):
            value = orjson.loads(line)
            row = read_fact(SurveyRow, value["row"])
            found[row.key] = PieceResult(row, value["plan"], value["files"], tuple(value["limits"]))
    return found


def described(folder: Path) -> dict[str, Any]:
    """What a survey is, as ``SurveyStore.describe`` kept it."""
    try:
        found = orjson.loads((folder / SURVEY_FILE).read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise GraphDoctorError(
            f"{folder} isn't a survey.", hint="graphdoctor survey makes one."
        ) from error
    return dict(found)


def report_of(folder: Path) -> SurveyReport:
    """What a survey found, as far as it got."""
    content, kept = described(folder), kept_rows(folder)
    keys, made = [(name, variant) for name, variant in content.pop("pieces")], content.pop("made")
    rows = tuple(kept[key].row for key in keys if key in kept)
    names = [one["name"] for one in content["variants"]]
    content |= {"graphdoctor_version": __version__, "rows": (), "planned": len(keys)}
    content["summary"] = summarize(rows, names, seconds=content["seconds"], made=made)
    return read_fact(SurveyReport, content).replace(rows=rows)


def last_survey(settings: Settings) -> Path:
    """The folder of the last survey."""
    found = [path for path in settings.store.surveys() if (path / SURVEY_FILE).is_file()]
    if not found:
        raise GraphDoctorError(
            "There is no survey here.", hint="Run graphdoctor survey 'models/*.py' first."
        )
    return found[0]


_PARQUET = ".parquet"
_TAIL_BYTES = 4 + len(MAGIC)
_FIELDS = {"variants", "rows", "planned"}
"""What tells a survey's document from others."""
_HOW = "graphdoctor survey -o survey.parquet writes one."


def is_survey(path: Path) -> bool:
    """Whether something on this machine is meant to be a survey: by its ending, its first bytes or
    its fields.
    """
    if path.is_dir():
        # A folder of logs may hold tables of its owner's.
        return _is_store(path) or any(map(_is_own, _shards(path)))
    if path.suffix.lower() == _PARQUET:
        return True
    try:
        with path.open("rb") as stream:
            if stream.read(len(MAGIC)) == MAGIC:
                return True
        return path.suffix.lower() == ".json" and _is_document(
            orjson.loads(path.read_bytes().removeprefix(BOM))
        )
    except (OSError, orjson.JSONDecodeError):
        return False


def read_survey(path: Path) -> SurveyReport:
    """Read a survey."""
    if path.is_dir():
        if _is_store(path):
            return report_of(path)
        found = _shards(path)
        if not found:
            raise GraphDoctorError(
                f"There is no survey in {path}: it has no Parquet files.", hint=_HOW
            )
        return merge_surveys([_read_file(each) for each in found])
    return _read_file(path)


def _is_store(folder: Path) -> bool:
    return (folder / SURVEY_FILE).is_file()


def _shards(folder: Path) -> list[Path]:
    """In the folder or one below, where a CI system puts what its jobs uploaded."""
    return sorted((*folder.glob(f"*{_PARQUET}"), *folder.glob(f"*/*{_PARQUET}")))


def _is_own(path: Path) -> bool:
    """Whether a Parquet file has our metadata, which is in its footer as it is; the footer's length
    comes last.
    """
    try:
        with path.open("rb") as stream:
            stream.seek(-_TAIL_BYTES, os.SEEK_END)
            tail = stream.read()
            length = int.from_bytes(tail[: -len(MAGIC)], "little")
            stream.seek(-min(length + _TAIL_BYTES, path.stat().st_size), os.SEEK_END)
            return tail.endswith(MAGIC) and KEY in stream.read(length)
    except OSError:
        return False


def _read_file(path: Path) -> SurveyReport:
    name, content = (
        str(path),
        file_content(path, missing=f"There is no survey at {path}.", hint=_HOW),
    )
    if not content:
        raise GraphDoctorError(f"{name} is empty.", hint=_HOW)
    if not content.startswith(MAGIC) and path.suffix.lower() == _PARQUET:
        raise GraphDoctorError(f"{name} isn't a Parquet file.", hint=_HOW)
    document = (
        read_parquet(content, name)
        if content.startswith(MAGIC)
        else parsed_json(content, name, hint=_HOW)
    )
    return read_document(SurveyReport, document, name, what="a survey", has=_FIELDS, hint=_HOW)


def _is_document(document: Any) -> bool:  # noqa: ANN401 - of any JSON
    return isinstance(document, dict) and document.keys() >= _FIELDS
