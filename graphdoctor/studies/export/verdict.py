"""Says whether a program can be exported, and how.

Comes in: the ways that were tried. Goes out: the way to take, and the answer in words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from graphdoctor.facts.export import ExportWay
from graphdoctor.facts.wording import shortened

Best = Literal["strict", "non-strict"]

_REASON = 160
"""Characters of a reason in the answer, which stands in full below it."""


def best_of(ways: Sequence[ExportWay]) -> Best | None:
    """The way to take: the first that is right, else one whose results aren't known; None if there is none.

    Args:
        ways: Non-strict, torch's default, first.
    """
    for status in ("exported", "unknown"):
        for way in ways:
            if way.status == status:
                return name_of(way)
    return None


def name_of(way: ExportWay) -> Best:
    """What a way is called."""
    return "strict" if way.is_strict else "non-strict"


def answer(ways: Sequence[ExportWay], best: Best | None) -> str:
    """The answer, in one or two sentences."""
    if best is None:
        if all(way.status == "different" for way in ways):
            reasons = dict.fromkeys(_short(way.reason) for way in ways)
            return f"torch.export makes a program, but it computes something else: {'; '.join(reasons)}."
        troubles = [_trouble(way) for way in ways]
        places = [_place(way) for way in ways]
        said = f"strict or not, it stops at {places[0]}" if _is_one(places) else "; ".join(troubles)
        return f"torch.export doesn't take this program: {said}.{_cured(ways)}"
    chosen = next(way for way in ways if name_of(way) == best)
    others = [way for way in ways if way is not chosen]
    right = "and it computes what eager mode does"
    if chosen.status == "unknown":
        right = f"but whether it computes what eager mode does is unknown: {_short(chosen.reason)}"
    if all(way.status == chosen.status for way in others):
        return f"torch.export takes this program, strict or not, {right}."
    said = "; ".join(_trouble(way) for way in others)
    return (
        f"torch.export takes this program with {_flag(chosen)}, {right}. {said[:1].upper()}{said[1:]}.{_cured(others)}"
    )


def _flag(way: ExportWay) -> str:
    return f"`strict={way.is_strict}`"


def _trouble(way: ExportWay) -> str:
    flag = _flag(way)
    match way.status:
        case "exported":
            return f"{flag} works too"
        case "unknown":
            return f"with {flag}, whether it is right is unknown: {_short(way.reason)}"
        case "different":
            return f"with {flag}, the program computes something else: {_short(way.reason)}"
        case "failed":
            return f"{flag} fails: {_short(way.reason)}"
    if not way.blockers:
        return f"{flag} is refused: {_short(way.reason)}"
    return f"{flag} stops at {_place(way)}"


def _place(way: ExportWay) -> str | None:
    """Where torch stops; None if it doesn't, or says nothing."""
    if way.status != "blocked" or not way.blockers:
        return None
    location = way.blockers[0].finding.location
    return f"{location.shown_file}:{location.line}"


def _is_one(places: Sequence[str | None]) -> bool:
    return None not in places and len(set(places)) == 1


def _cured(ways: Sequence[ExportWay]) -> str:
    cured = [_flag(way) for way in ways if way.is_cured]
    if not cured:
        return ""
    return f" With the verified fixes, {' and '.join(cured)} {'works' if len(cured) == 1 else 'work'}."


def _short(reason: str | None) -> str:
    return shortened(reason or "torch doesn't say why", _REASON).rstrip(".")
