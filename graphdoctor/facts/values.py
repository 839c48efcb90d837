"""Reads what people wrote: tables of settings in, values of the types that dataclasses declare out.

A field's annotation and its ``RunOption`` say what it can be: the same for pyproject.toml, a
survey's file, and the environment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, dataclass, fields
from typing import Any

from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.spec import RunOption, RunSpec
from graphdoctor.wording import nearest


def unknown(where: str, what: str, name: str, known: Iterable[str]) -> GraphDoctorError:
    """Return the error for an unknown name, with the nearest known one.

    Args:
        where: What the message begins with: the file and the target.
        what: What the name should refer to, such as ``setting``.
        name: The name as written.
        known: All known names.
    """
    name, names = _hyphened(name), [_hyphened(item) for item in known]
    hint = nearest(name, names, otherwise=f"The {what}s are {', '.join(names)}.")
    return GraphDoctorError(f"{where}unknown {what} {name!r}.", hint=hint)


@dataclass(frozen=True)
class Kind:
    """A type of value that people write.

    Args:
        description: In words, for errors.
        fits: Whether a value is one.
        made: What becomes of it.
        choices: All that it can be, by each way of writing that; None for anything that fits.
        number: The type of a number; None for anything else.
    """

    description: str
    fits: Callable[[Any], bool]
    made: Callable[[Any], Any] = lambda value: value
    choices: Mapping[str, str] | None = None
    number: type[int] | type[float] | None = None

    def read(self, where: str, name: str, value: object) -> Any:  # noqa: ANN401 - of any type
        """Check a value, and convert it.

        Raises:
            GraphDoctorError: It is something else.
        """
        if not self.fits(value):
            raise GraphDoctorError(
                f"{where}{_hyphened(name)} must be {self.description}, not {value!r}."
            )
        if self.choices is None:
            return self.made(value)
        if value not in self.choices:
            raise unknown(where, _hyphened(name), str(value), self.choices)
        return self.choices[str(value)]


class _ByPattern(Kind):
    def read(self, where: str, name: str, value: object) -> Any:  # noqa: ANN401 - as above
        table: Mapping[str, object] = super().read(where, name, value)
        return tuple(
            (pattern, TEXTS.read(where, f"{name} {pattern!r}", texts))
            for pattern, texts in table.items()
        )


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_plain(value: object) -> bool:
    """JSON can hold it."""
    if isinstance(value, (list, tuple)):
        return all(map(is_plain, value))
    if isinstance(value, dict):
        return all(
            isinstance(key, str) and is_utf8(key) and is_plain(item) for key, item in value.items()
        )
    if isinstance(value, str):
        return is_utf8(value)
    return value is None or isinstance(value, (bool, int, float))


def is_utf8(text: str) -> bool:
    """Return whether a text can be written as UTF-8. A command line can hold bytes that aren't
    text: Python keeps them as halves of surrogate pairs.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


TEXT = Kind(
    "a non-empty string",
    lambda value: isinstance(value, str) and bool(value.strip()) and "\0" not in value,
)
TEXTS = Kind(
    "a list of strings",
    lambda value: isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value),
    tuple,
)
SWITCH = Kind("true or false", lambda value: isinstance(value, bool))
SECONDS = Kind(
    "a positive number of seconds",
    lambda value: _is_number(value) and value > 0,
    float,
    number=float,
)
_POSITIVE = Kind("a number above 0", SECONDS.fits, float, number=float)
_SHARE = Kind(
    "a share from 0 to 1", lambda value: _is_number(value) and 0 <= value <= 1, float, number=float
)
TABLE = Kind(
    "a table of strings, numbers, booleans, and lists of these",
    lambda value: isinstance(value, dict) and is_plain(value),
)
STRINGS = Kind(
    "a table of strings",
    lambda value: isinstance(value, dict) and all(isinstance(item, str) for item in value.values()),
)
_BY_PATTERN = _ByPattern(
    'a table such as { "tests/**" = ["GD1"] }', lambda value: isinstance(value, Mapping)
)
_BY_TYPE = {
    "bool": SWITCH,
    "tuple[str, ...]": TEXTS,
    "Mapping[str, object]": TABLE,
    "Mapping[str, str]": STRINGS,
    "tuple[tuple[str, tuple[str, ...]], ...]": _BY_PATTERN,
}


def kinds_of(settings: type) -> dict[str, Kind]:
    """Return what each field of a dataclass can be, by its annotation and ``RunOption``; text by
    default.
    """
    return {field.name: _kind_of(field) for field in fields(settings)}


def _kind_of(field: Field[Any]) -> Kind:
    kind = str(field.type).removesuffix(" | None")
    option: RunOption = field.metadata.get("option") or RunOption(help="")
    if kind == "int":
        least = option.least or 0
        return Kind(
            f"a whole number of at least {least}",
            lambda value: type(value) is int and value >= least,
            number=int,
        )
    if kind == "float":
        return (
            SECONDS if option.metavar == "SECONDS" else _POSITIVE if option.most is None else _SHARE
        )
    if option.choices is not None:
        return Kind(TEXT.description, TEXT.fits, choices=option.choices)
    return _BY_TYPE.get(kind, TEXT)


RUN = kinds_of(RunSpec)
"""Of a run's settings."""


def read_table(
    table: Mapping[str, object], kinds: Mapping[str, Kind], where: str
) -> dict[str, Any]:
    """Read a table's values by the names of fields; in files, names have hyphens.

    Args:
        table: As it was read.
        kinds: What each value can be; nothing else may be in the table.
        where: What an error begins with.

    Raises:
        GraphDoctorError: A key is unknown, or a value is something else.
    """
    values = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name not in kinds:
            raise unknown(where, "setting", key, kinds)
        values[name] = kinds[name].read(where, name, value)
    return values


def tables(value: object, where: str, header: str) -> list[dict[str, object]]:
    """Read a list of tables.

    Raises:
        GraphDoctorError: It is something else.
    """
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        name = header.rpartition(".")[2]
        raise GraphDoctorError(
            f"{where}{name} must be a list of tables.",
            hint=f"Write [[{header}]], and set each one's keys below it.",
        )
    return value


def _hyphened(name: str) -> str:
    return name.replace("_", "-")
