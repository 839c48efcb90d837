"""Reads a report that an earlier command left in its recording, or wrote as JSON."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, TypeVar

from graphdoctor.errors import GraphDoctorError

if TYPE_CHECKING:
    from graphdoctor.commands.work.named import Place
    from graphdoctor.facts.base import Fact

_Report = TypeVar("_Report", bound="Fact")


def kept_report(place: Place, kind: type[_Report], *, file: str, command: str, has: Collection[str]) -> _Report:
    """What an earlier command found.

    Args:
        place: Its recording, or the JSON document that it wrote.
        kind: The model.
        file: What it is called in a recording.
        command: The command, which is what the report is called, too.
        has: Fields that tell it from other documents.

    Raises:
        GraphDoctorError: There is none there, or it can't be read.
    """
    from graphdoctor.facts.base import InvalidFactError
    from graphdoctor.facts.diagnosis import SCHEMA_VERSION
    from graphdoctor.rules.gate.parsing import check_schema, parsed_json

    hint = f"graphdoctor {command} model.py makes one."
    path = place.path / file if place.kind == "folder" else place.path
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise GraphDoctorError(f"{place.path} holds no {command}.", hint=hint) from None
    except OSError as error:
        raise GraphDoctorError(f"{path} can't be read: {error.strerror}.") from error
    document = parsed_json(content, str(path), hint=hint)
    if not isinstance(document, dict) or not {"schema_version", *has} <= document.keys():
        raise GraphDoctorError(f"{path} isn't a {command}.", hint=hint)
    check_schema(str(document["schema_version"]), str(path), reads=SCHEMA_VERSION, hint="Run it again.")
    try:
        return kind.model_validate(document, skips_unknown=True)
    except InvalidFactError as error:
        raise GraphDoctorError(f"{path} isn't a valid {command}: {error}.", hint="Run it again.") from error
