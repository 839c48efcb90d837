"""Reads ``@pytest.mark.graphdoctor(…)``. Comes in: pytest's marker. Goes out: its arguments,
checked.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Any

import pytest
from pydantic import ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass

from graphdoctor.errors import GraphDoctorError
from graphdoctor.wording import nearest

_LIMITS = ("max_breaks", "max_recompiles", "min_coverage")
_NAMES = (*_LIMITS, "own_code", "config")

Limit = Annotated[int, Field(ge=0)]


@dataclass(frozen=True, kw_only=True, config=ConfigDict(strict=True))
class MarkerArguments:
    """What a marker asks of its test.

    Args:
        max_breaks: The most lines that may break a graph; None for no limit.
        max_recompiles: The most recompiles; None for no limit.
        min_coverage: The lowest coverage, a share from 0 to 1; None for no limit.
        own_code: Don't count breaks in installed packages.
        config: Values of ``torch._dynamo.config`` for the test.
    """

    max_breaks: Limit | None = None
    max_recompiles: Limit | None = None
    min_coverage: int | float | None = None
    own_code: bool = False
    config: dict[str, Any] = field(default_factory=dict)

    @property
    def has_limits(self) -> bool:
        """Whether the test is recorded and checked."""
        return any(getattr(self, name) is not None for name in _LIMITS)

    def __str__(self) -> str:
        # A limit of 0 is given, and False == 0.
        values = {
            name: value
            for name in _NAMES
            if (value := getattr(self, name)) not in (None, {}) and value is not False
        }
        arguments = ", ".join(f"{name}={value!r}" for name, value in values.items())
        return f"@pytest.mark.graphdoctor({arguments})"


def arguments_of(marker: pytest.Mark | None) -> MarkerArguments:
    """Read a marker.

    Raises:
        GraphDoctorError: An argument is unknown or has the wrong type, or there is none at all.
    """
    if marker is None:
        return MarkerArguments()
    if marker.args:
        raise _wrong("takes keyword arguments only", hint=f"They are {', '.join(_NAMES)}.")
    for name in marker.kwargs:
        if name not in _NAMES:
            raise _wrong(f"has no argument {name}", hint=nearest(name, _NAMES, most=2))
    try:
        arguments = MarkerArguments(**marker.kwargs)
    except ValidationError as error:
        wrong = error.errors()[0]
        raise _wrong(f"can't take {wrong['loc'][0]}={wrong['input']!r}: {wrong['msg']}") from None
    if arguments.min_coverage is not None:
        check_share(arguments.min_coverage)
    if arguments.own_code and arguments.max_breaks is None:
        raise _wrong(
            "has own_code without max_breaks, so it has no effect", hint="Add max_breaks=0."
        )
    if not arguments.has_limits and not arguments.config:
        raise _wrong("has no arguments", hint="Add a limit, such as max_breaks=0, or config.")
    return arguments


def check_share(value: object) -> None:
    """Refuse what isn't a number from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise GraphDoctorError(
            f"Coverage must be a share from 0 to 1, not {value!r}.", hint="Write 95% as 0.95."
        )


def _wrong(what: str, *, hint: str | None = None) -> GraphDoctorError:
    return GraphDoctorError(f"@pytest.mark.graphdoctor {what}.", hint=hint)
