"""A survey on disk: one folder, to which each piece is added as it comes.

    survey.json      what it is: name, variants, options
    rows.jsonl       a line for each piece that was finished, the last one of a piece counts
    pages/           a page for each piece

A process that is killed loses the pieces that were running, and nothing else: a line is written whole, or is the last
one and is dropped.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import orjson

from graphdoctor.commands.work.survey_piece import PieceResult, file_digest
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.base import InvalidFactError
from graphdoctor.facts.reading import read_fact
from graphdoctor.facts.survey import SurveyRow

SURVEY_FILE = "survey.json"
ROWS_FILE = "rows.jsonl"
_PAGES = "pages"
_LOCK = "survey.lock"


@dataclass(frozen=True)
class KeptRow:
    """A row of an earlier run."""

    row: SurveyRow
    plan: str
    files: Mapping[str, str] = field(default_factory=dict)
    limits: tuple[float | None, ...] = ()

    def holds(self, plan: str, limits: tuple[float | None, ...]) -> bool:
        """Whether it is what the piece would give again, as far as that is known."""
        if self.plan != plan or self.row.status == "lost":
            return False
        if self.row.status in ("timeout", "out_of_memory") and self.limits != limits:
            return False
        return all(file_digest(Path(path)) == digest for path, digest in self.files.items())


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
                    f"Another survey is running in {folder}.", hint="Wait until it ends, or stop it."
                ) from error
            (folder / _PAGES).mkdir(exist_ok=True)
            self._rows = _opened(folder / ROWS_FILE)

    def describe(self, content: Mapping[str, Any]) -> None:
        """Keep what the survey is."""
        with self._writing():
            temporary = self.folder / f".{SURVEY_FILE}"
            temporary.write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2))
            temporary.replace(self.folder / SURVEY_FILE)

    def add(self, result: PieceResult, limits: tuple[float | None, ...]) -> None:
        """Keep what came of a piece."""
        line = {"row": result.row, "plan": result.plan, "files": dict(result.files), "limits": limits}
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
            kept = f" {self._count} finished pieces of this run are kept; --resume continues." if self._count else ""
            raise GraphDoctorError(
                f"{self.folder} can't be written: {error.strerror}.{kept}",
                hint="--recordings DIR puts surveys into another folder.",
            ) from error


def _opened(path: Path) -> IO[bytes]:
    """The file of rows, to be added to; half a line at its end is cut off."""
    stream = path.open("a+b")
    stream.seek(0, os.SEEK_END)
    size = stream.tell()
    if size:
        stream.seek(0)
        content = stream.read()
        whole = content.rfind(b"\n") + 1
        if whole < size:
            stream.truncate(whole)
            stream.seek(0, os.SEEK_END)
    return stream


def kept_rows(folder: Path) -> dict[tuple[str, str], KeptRow]:
    """The rows of a survey, by name and variant."""
    found: dict[tuple[str, str], KeptRow] = {}
    try:
        lines = (folder / ROWS_FILE).read_bytes().splitlines()
    except OSError:
        return found
    for line in lines:
        # A line of another version, or half a line, is a piece that is missing.
        with contextlib.suppress(orjson.JSONDecodeError, InvalidFactError, KeyError, TypeError):
            value = orjson.loads(line)
            row = read_fact(SurveyRow, value["row"])
            found[row.key] = KeptRow(row, value["plan"], value["files"], tuple(value["limits"]))
    return found


def described(folder: Path) -> dict[str, Any]:
    """What a survey is, as ``SurveyStore.describe`` kept it."""
    try:
        found = orjson.loads((folder / SURVEY_FILE).read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise GraphDoctorError(f"{folder} isn't a survey.", hint="graphdoctor survey makes one.") from error
    return dict(found)
