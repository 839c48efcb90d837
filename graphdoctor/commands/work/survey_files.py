"""Reads surveys back. Comes in: a Parquet file, a JSON document, or a folder. Goes out: a report."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import orjson

from graphdoctor.commands.work.survey_store import SURVEY_FILE
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.base import InvalidFactError
from graphdoctor.facts.diagnosis import SCHEMA_VERSION
from graphdoctor.facts.reading import read_fact
from graphdoctor.facts.survey import SurveyReport
from graphdoctor.rules.gate.parsing import BOM, check_schema, parsed_json
from graphdoctor.studies.survey.merge import merge_surveys
from graphdoctor.studies.survey.parquet import KEY, MAGIC, read_parquet

_PARQUET = ".parquet"
_TAIL_BYTES = 4 + len(MAGIC)
_FIELDS = {"variants", "rows", "planned"}
"""What tells a survey's document from others."""
_HOW = "graphdoctor survey -o survey.parquet writes one."


def is_survey(path: Path) -> bool:
    """Whether something on this machine is meant to be a survey: by its ending, its first bytes or its fields."""
    if path.is_dir():
        # A folder of logs may hold tables of its owner's.
        return _is_store(path) or any(map(_is_own, _shards(path)))
    if path.suffix.lower() == _PARQUET:
        return True
    try:
        with path.open("rb") as stream:
            if stream.read(len(MAGIC)) == MAGIC:
                return True
        return path.suffix.lower() == ".json" and _is_document(orjson.loads(path.read_bytes().removeprefix(BOM)))
    except (OSError, orjson.JSONDecodeError):
        return False


def read_survey(path: Path) -> SurveyReport:
    """Read a survey.

    Unknown fields are skipped: a later minor version of the schema may have added them.
    """
    if path.is_dir():
        if _is_store(path):
            from graphdoctor.commands.work.survey import report_of

            return report_of(path)
        found = _shards(path)
        if not found:
            raise GraphDoctorError(f"There is no survey in {path}: it has no Parquet files.", hint=_HOW)
        return merge_surveys([_read_file(each) for each in found])
    return _read_file(path)


def _is_store(folder: Path) -> bool:
    return (folder / SURVEY_FILE).is_file()


def _shards(folder: Path) -> list[Path]:
    """In the folder or one below, where a CI system puts what its jobs uploaded."""
    return sorted((*folder.glob(f"*{_PARQUET}"), *folder.glob(f"*/*{_PARQUET}")))


def _is_own(path: Path) -> bool:
    """Whether a Parquet file has our metadata, which is in its footer as it is; the footer's length comes last."""
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
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise GraphDoctorError(f"There is no survey at {path}.", hint=_HOW) from None
    except OSError as error:
        raise GraphDoctorError(f"{path} can't be read: {error.strerror}.") from error
    name = str(path)
    if not content:
        raise GraphDoctorError(f"{name} is empty.", hint=_HOW)
    if content.startswith(MAGIC):
        return _checked(read_parquet(content, name), name)
    if path.suffix.lower() == _PARQUET:
        raise GraphDoctorError(f"{name} isn't a Parquet file.", hint=_HOW)
    return _checked(parsed_json(content, name, hint=_HOW), name)


def _checked(document: object, name: str) -> SurveyReport:
    if not isinstance(document, dict) or not isinstance(document.get("schema_version"), str):
        raise GraphDoctorError(f"{name} isn't a survey.", hint=_HOW)
    hint = "Write it again with this graphdoctor, or read it with the version that wrote it."
    check_schema(document["schema_version"], name, reads=SCHEMA_VERSION, hint=hint)
    if not _is_document(document):
        raise GraphDoctorError(f"{name} isn't a survey.", hint=_HOW)
    try:
        return read_fact(SurveyReport, document, skips_unknown=True)
    except InvalidFactError as error:
        raise GraphDoctorError(
            f"{name} isn't a valid survey (schema version {document['schema_version']}): {error}.",
            hint="It was edited, or a newer graphdoctor wrote it. Write it again.",
        ) from error


def _is_document(document: Any) -> bool:  # noqa: ANN401 - of any JSON
    return isinstance(document, dict) and document.keys() >= _FIELDS
