"""Rows of a survey that didn't pass, those with the same error together.

Comes in: rows. Goes out: one ``Failure`` for each distinct error. Errors are the same if they differ only in numbers
and in words that hold the target's own name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphdoctor.facts.wording import shortened

if TYPE_CHECKING:
    from graphdoctor.facts.survey import SurveyRow, SurveyStage, SurveyStatus

_NUMBER = re.compile(r"\d+|0x[0-9a-fA-F]+|\d*\.?\d+e[+-]?\d+")
_LEAST_NAME = 3
"""Characters of a name that is looked for within words: shorter ones are in other words by chance."""
_MOST_CHARACTERS = 2_000
"""Of an error; no two of this length that begin alike are told apart."""
_OTHER = "…"


@dataclass(frozen=True)
class Failure:
    """Rows that failed in the same place with the same error.

    Args:
        stage: What failed; None if unknown.
        error: What they say, in one line, with a sign where they differ; None if they say nothing.
    """

    status: SurveyStatus
    stage: SurveyStage | None
    error: str | None
    rows: tuple[SurveyRow, ...]

    @property
    def targets(self) -> tuple[str, ...]:
        """Names of their targets."""
        return tuple(dict.fromkeys(row.name for row in self.rows))

    @property
    def variants(self) -> tuple[str, ...]:
        """Names of their variants."""
        return tuple(dict.fromkeys(row.variant for row in self.rows))


def failures(rows: Iterable[SurveyRow]) -> list[Failure]:
    """What didn't pass: first what says something about torch.compile, those of most targets first."""
    groups: dict[tuple[object, ...], list[tuple[SurveyRow, list[str]]]] = {}
    for row in rows:
        if row.is_passed:
            continue
        parts = _parts(failure_text(row) or "", _own_name(row))
        key = row.status, row.stage, row.error_type, tuple(_pattern(parts, _own_name(row)))
        groups.setdefault(key, []).append((row, parts))
    found = [_failure(together) for together in groups.values()]
    return sorted(found, key=lambda failure: (not failure.rows[0].is_judged, -len(failure.targets)))


def failure_text(row: SurveyRow) -> str | None:
    """Why a row doesn't pass, in one line with the name of the exception's type; None if it does, or says nothing."""
    kind = None if row.error_type is None else row.error_type.rpartition(".")[2]
    if row.is_passed or row.error is None or not row.error.strip():
        return None if row.is_passed else kind
    text = shortened(row.error, _MOST_CHARACTERS)
    return text if kind is None or kind in text else f"{kind}: {text}"


def _own_name(row: SurveyRow) -> str:
    """What errors call the target: the last part of its name."""
    return re.split(r"[/:]", row.name)[-1]


def _parts(text: str, name: str) -> list[str]:
    """The target's name, words, and what is between them."""
    return re.findall(rf"(?<!\w){re.escape(name)}(?!\w)|\w+|\W" if name else r"\w+|\W", text)


def _pattern(parts: Sequence[str], name: str) -> Iterator[str]:
    """What errors of other targets must share with it."""
    letters = _letters(name)
    for part in parts:
        is_own = part == name or (len(letters) >= _LEAST_NAME and letters in _letters(part))
        yield _OTHER if is_own or _NUMBER.fullmatch(part) else part


def _letters(text: str) -> str:
    return re.sub(r"[\W_]", "", text).casefold()


def _failure(together: Sequence[tuple[SurveyRow, list[str]]]) -> Failure:
    first = together[0][0]
    columns = zip(*(parts for _, parts in together), strict=True)
    error = "".join(column[0] if len(set(column)) == 1 else _OTHER for column in columns)
    return Failure(first.status, first.stage, error or None, tuple(row for row, _ in together))
