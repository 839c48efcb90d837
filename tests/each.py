"""Cases of one test: under one id, or some of them at night."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pytest

Test = Callable[..., None]
_WITH_ID = type(pytest.param())


def for_each(names: str, cases: Iterable[Any]) -> Callable[[Test], Test]:
    """As ``pytest.mark.parametrize``, with one id: for cases that take no time and leave nothing
    behind."""
    given = [name.strip() for name in names.split(",")]
    listed = [
        case.values if isinstance(case, _WITH_ID) else (case,) if len(given) == 1 else tuple(case)
        for case in cases
    ]

    def made(test: Test) -> Test:
        def whole(*bound: Any, **rest: Any) -> None:
            failed = []
            for case in listed:
                try:
                    test(*bound, **rest, **dict(zip(given, case, strict=True)))
                except Exception as error:  # noqa: BLE001 - every case runs
                    failed.append(f"{case!r}\n    {type(error).__name__}: {error}")
            assert not failed, "\n".join(failed)

        signature = inspect.signature(test)
        left = [one for name, one in signature.parameters.items() if name not in given]
        whole.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        whole.__name__, whole.__doc__, whole.__module__ = (
            test.__name__,
            test.__doc__,
            test.__module__,
        )
        return whole

    return made


def at_night(*values: Any) -> Any:
    """Parameters that wait for the night, because their neighbors state the same behavior."""
    return pytest.param(*values, marks=pytest.mark.nightly)


def few_of_each_kind(names: Iterable[str], *, by_day: int) -> list[Any]:
    """Parameters of which all but the first of each kind wait for the night.

    A name's kind is what is before its colon.
    """
    kinds = Counter[str]()
    parameters = []
    for name in names:
        kinds.update([kind := name.partition(":")[0]])
        parameters.append(at_night(name) if kinds[kind] > by_day else name)
    return parameters
