"""Two diagnoses side by side as one self-contained HTML file."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from graphdoctor.facts import wording
from graphdoctor.facts.base import field_types
from graphdoctor.facts.comparison import CountPair, DiagnosisComparison, SharePair, Side, TimePair
from graphdoctor.views import words
from graphdoctor.views.html.document import write_document


def render_comparison_page(comparison: DiagnosisComparison, *, has_source: bool = True) -> str:
    """The page.

    Args:
        comparison: What to show.
        has_source: Show lines of code.

    Returns:
        A whole HTML document.
    """
    if not has_source:
        from graphdoctor.views.html.sourceless import without_source

        comparison = without_source(comparison)
    context = {
        "comparison": comparison,
        "verdict": words.comparison_verdict(comparison),
        "has_source": has_source,
        "rows": list(_rows(comparison)),
        "made": list(_made(comparison)),
    }
    return write_document("comparison.html.j2", context, blobs={}, scripts=())


def _rows(comparison: DiagnosisComparison) -> Iterator[dict[str, str]]:
    for name in field_types(type(comparison.numbers)):
        pair = getattr(comparison.numbers, name)
        label, shown = _LABELS.get(name, (name.replace("_", " "), str))
        if pair.before is None and pair.after is None:
            continue
        yield {
            "label": label,
            "before": words.UNKNOWN if pair.before is None else shown(pair.before),
            "after": words.UNKNOWN if pair.after is None else shown(pair.after),
            "change": _change(pair),
        }


_LABELS: dict[str, tuple[str, Callable[[float], str]]] = {
    "coverage": ("coverage", wording.percent),
    "compile_time_s": ("compile time", lambda seconds: f"{seconds:.2f} s"),
    "steady_call_us": ("steady call", wording.duration),
    "frames_over_limit": ("frames over the recompile limit", str),
}


def _change(pair: CountPair | SharePair | TimePair) -> str:
    if pair.before is None or pair.after is None:
        return ""
    if isinstance(pair, TimePair):
        return words.speed_change(pair)
    if pair.before == pair.after:
        return "same"
    if isinstance(pair, SharePair):
        points = 100 * (pair.after - pair.before)
        return f"{points:+.0f} points" if abs(points) >= 1 else f"{points:+.2g} points"
    return f"{pair.after - pair.before:+d}"


def _made(comparison: DiagnosisComparison) -> Iterator[tuple[str, str, str]]:
    described: dict[str, Callable[[Side], object]] = {
        "target": lambda side: side.target.text or "trace log",
        "class": lambda side: side.target.class_name,
        "torch": lambda side: side.environment.torch,
        "Python": lambda side: side.environment.python,
        "platform": lambda side: side.environment.platform,
        "device": lambda side: side.environment.device_name,
        "torch.compile": lambda side: _options(side.target.compile_arguments),
        "regional": lambda side: ", ".join(side.target.regions),
        "calls": lambda side: _options(side.target.call_options),
        "config": lambda side: _options(side.target.config),
        "graphdoctor": lambda side: side.graphdoctor_version,
    }
    for label, of in described.items():
        before, after = of(comparison.before), of(comparison.after)
        if before or after:
            yield label, str(before or ""), str(after or "")


def _options(values: dict[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items() if value not in (None, False, {}))
