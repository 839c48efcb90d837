"""Cases of one test under one id: all run, and those that fail are listed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any


def each(names: str | tuple[str, ...], cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """As ``pytest.mark.parametrize``, with one id."""
    listed = list(cases)
    given = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)

    def made(test: Callable[..., None]) -> Callable[..., None]:
        def whole(**rest: Any) -> None:
            failed = []
            for case in listed:
                values = (case,) if len(given) == 1 else case
                try:
                    test(**rest, **dict(zip(given, values, strict=True)))
                except Exception as error:  # noqa: BLE001 - every case runs
                    failed.append(f"{case!r}\n    {type(error).__name__}: {error}")
            assert not failed, "\n".join(failed)

        signature = inspect.signature(test)
        parameters = [one for name, one in signature.parameters.items() if name not in given]
        whole.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        whole.__name__, whole.__doc__, whole.__module__ = test.__name__, test.__doc__, test.__module__
        return whole

    return made
