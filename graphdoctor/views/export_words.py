"""An export in words, which its views share.

Comes in: parts of an ``ExportReport``. Goes out: phrases.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from graphdoctor.facts.wording import counted
from graphdoctor.views.words import base_name, changes

if TYPE_CHECKING:
    from graphdoctor.facts.bench import Correctness
    from graphdoctor.facts.export import DynamicShapes, ExportBlocker, ExportDim, ExportReport, ExportWay
    from graphdoctor.facts.trials import ResultKind
    from graphdoctor.views.words import Tone

_KINDS = {
    "user_input": "argument",
    "parameter": "parameter",
    "buffer": "buffer",
    "constant_tensor": "constant tensor",
    "custom_obj": "object",
    "token": "token",
}
"""torch's kinds of inputs (``torch/export/graph_signature.py``, 2.13) in words."""

_UNWRITTEN: dict[ResultKind, str] = {
    "stdout": "The program doesn't print what eager mode prints.",
    "logs": "The program doesn't log or warn as eager mode does.",
}
_MAX_NAMES = 4

FIRST_ONLY = "torch stops at the first thing that it can't export; more may come after it."


def tone(report: ExportReport) -> Tone:
    """How good the answer is."""
    if report.best is None:
        return "warning" if any(way.is_cured for way in report.ways) else "bad"
    return "good"


def title_parts(report: ExportReport) -> list[str]:
    """What was exported, and where."""
    target, environment = report.target, report.environment
    device = environment.device_name or "CPU"
    return [target.text or "a program", f"torch {environment.torch}", device, *changes(target)]


def flag(*, is_strict: bool) -> str:
    """A way as torch.export's argument."""
    return f"strict={is_strict}"


def way_text(way: ExportWay) -> str:
    """What came of one way, without what blocks it."""
    match way.status:
        case "failed":
            return f"fails: {way.reason}"
        case "blocked":
            cured = "; exports with the verified fixes" if way.is_cured else ""
            return f"refused{cured}" if way.blockers else f"refused: {way.reason}"
        case "different":
            said = f"exports, but computes something else: {way.reason}"
        case "unknown":
            said = f"exports; whether it is right is unknown: {way.reason}"
        case _:
            said = "exports" + correctness_text(way.correctness)
    return f"{said}. {made_text(way)}"


def made_text(way: ExportWay) -> str:
    """The program that torch made, in numbers."""
    kinds = Counter(_KINDS.get(one.kind, one.kind.replace("_", " ")) for one in way.inputs)
    inputs = ", ".join(counted(number, kind) for kind, number in kinds.items()) or "no inputs"
    seconds = "" if way.seconds is None else f", in {way.seconds:.1f} s"
    return f"{counted(way.op_count or 0, 'operation')}; {inputs}{seconds}."


def correctness_text(correctness: Correctness | None) -> str:
    """How equal results are, as the end of a sentence."""
    if correctness is None:
        return ""
    if correctness.is_bitwise_equal:
        return ", and computes the same as eager mode, bit by bit"
    return ", and computes the same as eager mode, up to rounding"


def blocked_groups(report: ExportReport) -> list[list[ExportWay]]:
    """The ways that torch refuses; those for the same reasons together, the one of which torch says most last."""
    blocked = [way for way in report.ways if way.blockers]
    if len(blocked) > 1 and len({_reasons(way) for way in blocked}) == 1:
        return [blocked]
    return [[way] for way in blocked]


def _reasons(way: ExportWay) -> tuple[object, ...]:
    """What blocks a way, and which fixes were tried with what result."""
    return tuple(
        (
            blocker.finding.code,
            blocker.finding.location.file,
            blocker.finding.location.line,
            tuple((fix.title, fix.verdict) for fix in blocker.tried),
        )
        for blocker in way.blockers
    )


def cured_groups(report: ExportReport) -> list[list[ExportWay]]:
    """The ways that export with verified fixes, those with the same fixes together."""
    found: dict[tuple[str, tuple[str, ...]], list[ExportWay]] = {}
    for way in report.ways:
        if way.is_cured:
            found.setdefault((way.diff, way.settings), []).append(way)
    return list(found.values())


def blocker_heading(blocker: ExportBlocker, group: Sequence[ExportWay]) -> str:
    """Which ways stop at a blocker, and when."""
    flags = " and ".join(flag(is_strict=way.is_strict) for way in group)
    verb = "stops" if len(group) == 1 else "stop"
    return f"With the fix before, {flags} {verb} here" if blocker.is_behind else f"{flags} {verb} here"


def left_out_texts(way: ExportWay, report: ExportReport) -> list[str]:
    """What the program leaves out that eager mode does, a sentence each."""
    texts = [text for kind, text in _UNWRITTEN.items() if kind in way.unwritten]
    if way.lost:
        names = ", ".join(f"`{name}`" for name in way.lost[:_MAX_NAMES])
        more = f" and {len(way.lost) - _MAX_NAMES} more" if len(way.lost) > _MAX_NAMES else ""
        texts.append(f"The program doesn't update {names}{more}: of what modules keep, it changes only buffers.")
        if report.calls_made == 1:
            texts.append("One call doesn't show whether later results depend on that; --calls 2 does.")
    return texts


def dim_name(dim: ExportDim) -> str:
    """A dim as Python."""
    return f"{dim.source}.shape[{dim.dim}]"


def dim_text(dim: ExportDim, dynamic: DynamicShapes) -> str:
    """What became of a dim."""
    if not dim.is_dynamic:
        where = ""
        if dim.location is not None:
            where = f" by {base_name(dim.location.file)}:{dim.location.line}"
            where += f" `{dim.location.text}`" if dim.location.text else ""
        made = f", made a constant{where}" if where or not dim.reason else ""
        return f"always {dim.size}{made}" + (f": {dim.reason}" if dim.reason else "")
    limits = f"{dim.low or 0} to {dim.high}" if dim.high is not None else f"{dim.low or 0} or more"
    equal = [
        dim_name(other)
        for other in dynamic.dims
        if dim_name(other) != dim_name(dim) and other.is_dynamic and other.expression == dim.expression
    ]
    said = f"dynamic, {limits}"
    said += f", equal to {equal[0]}" if equal else ""
    if not equal and dim.expression is not None and not dim.expression.isidentifier():
        said += f", {dim.expression}"
    tried = f"; run with {' and '.join(map(str, dim.other_sizes))}" if dim.other_sizes else ""
    return f"{said} (exported with {dim.size}{tried})"


def dynamic_text(dynamic: DynamicShapes) -> str:
    """Whether the program is right with other sizes."""
    match dynamic.status:
        case "exported" if dynamic.line is None:
            return f"No size stays dynamic: {dynamic.reason}."
        case "exported":
            return f"With other sizes, the program works{correctness_text(dynamic.correctness)}."
        case "blocked":
            return f"With dynamic sizes, torch.export refuses: {dynamic.reason}"
        case "different":
            return f"With other sizes, the program doesn't do what eager mode does: {dynamic.reason}."
        case _:
            return f"Whether the program is right with other sizes is unknown: {dynamic.reason}."


def calls_text(report: ExportReport) -> str | None:
    """Which calls weren't compared; None if all were."""
    if not report.calls_other:
        return None
    numbers = ", ".join(map(str, report.calls_other))
    return (
        f"Calls with other arguments than the first one weren't made: {numbers}. An exported program takes the "
        "arguments that it was exported with, in other sizes at most."
    )


def static_text(report: ExportReport) -> str | None:
    """That the program takes no other sizes, where nobody asked; None where it was asked or there is no program."""
    if report.dynamic is not None or to_paste(report) is None:
        return None
    return "The program takes the sizes that it was exported with. --dynamic tries which can stay dynamic."


def to_paste(report: ExportReport) -> str | None:
    """The line that makes the best program; None if there is none."""
    dynamic = report.dynamic
    if dynamic is not None and dynamic.line is not None and dynamic.status in ("exported", "unknown"):
        return "\n".join((*_settings(report, is_strict=dynamic.is_strict), dynamic.line))
    working = [way for way in report.ways if way.status in ("exported", "unknown")]
    working += [way for way in report.ways if way.is_cured]
    chosen = [way for way in working if report.best is None or way.is_strict == (report.best == "strict")]
    if not chosen or chosen[0].line is None:
        return None
    return "\n".join((*_settings(report, is_strict=chosen[0].is_strict), chosen[0].line))


def _settings(report: ExportReport, *, is_strict: bool) -> tuple[str, ...]:
    """Lines that a way needs before it."""
    return next((way.settings for way in report.ways if way.is_strict == is_strict), ())
