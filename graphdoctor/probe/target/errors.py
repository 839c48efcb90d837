"""Why a target or a request is refused. Needs no torch, which may be what is missing."""

from __future__ import annotations

from ...facts.hints import HintCode, HintValue


class TargetError(Exception):
    """The target can't be used as asked."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class RequestError(TargetError):
    """What the person asked for can't be done; the parent words it, in the names that the options have there."""

    def __init__(self, code: HintCode, **values: HintValue) -> None:
        super().__init__(f"{code}: {values}")
        self.code = code
        self.values = values
