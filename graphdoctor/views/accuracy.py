"""Shows whether compiled code computes what eager mode does, where it first differs, and what cures
it.

Comes in: an ``AccuracyReport``. Goes out: a view.
"""

from __future__ import annotations

from collections.abc import Iterator

from graphdoctor.facts.accuracy import (
    AccuracyReport,
    AccuracyVerdict,
    ComparedKind,
    Cure,
    StaleValue,
)
from graphdoctor.facts.bench import Stages
from graphdoctor.facts.located import Located, NotLocated, TensorAt
from graphdoctor.facts.recording import TracingBranch
from graphdoctor.facts.stack import StackEntry
from graphdoctor.facts.trials import FORMS
from graphdoctor.views.next_step import after_accuracy
from graphdoctor.views.parts import (
    Block,
    Cell,
    Code,
    Inline,
    Note,
    Place,
    Row,
    Rows,
    Section,
    Span,
    Table,
    Tone,
    Verdict,
    View,
    joined,
)
from graphdoctor.views.reasons import difference_text
from graphdoctor.views.words import INTERRUPTED, study_view, unknown_section
from graphdoctor.wording import counted, join_texts, kind_text, listed

_TONES: dict[AccuracyVerdict, Tone] = {
    "same bits": "good",
    "rounding": "good",
    "different": "bad",
    "unknown": "warning",
}
_NOT_LOCATED: dict[NotLocated, str] = {
    "no_graph_differs": (
        "each graph computes what its operations do, so the difference arises outside of them"
    ),
    "stopped": "the time was up; --budget SECONDS gives more",
    "only_whole": "the graph is wrong only as a whole: each of its parts, compiled alone, is right",
    "not_repeatable": "the graph gives something else in each run",
    "failed": "its parts can't be compiled on their own",
}
_MOST_CODE = 40
_MOST_LINES = 4


def accuracy_view(report: AccuracyReport) -> View:
    """Return the report as a tree."""
    return study_view(report, "accuracy", _parts(report), after_accuracy(report))


def accuracy_text(report: AccuracyReport) -> str:
    """Return the answer."""
    calls = counted(report.call_count, "call")
    if report.verdict == "same bits":
        return f"Same bits: results of {calls} are eager mode's bit by bit.{_strides(report)}"
    if report.verdict == "rounding":
        drawn = ", with eager mode's random numbers" if report.is_drawn_as_eager else ""
        rounded = [kind_text(item.kind) for item in report.kinds if item.verdict == "rounding"]
        return f"Only rounding differs{drawn}: {listed(rounded)} of {calls}.{_strides(report)}"
    if report.verdict == "unknown":
        if report.reason is None and not report.graphs:
            return "Nothing to compare: torch made no graph, so all results are eager mode's own."
        why = report.reason or "they weren't compared"
        return f"Nobody can say whether results are right: {why}."
    is_form = all(item.kind in FORMS for item in report.differences) and report.differences
    lead = "Values agree, their form doesn't" if is_form else "Different"
    return f"{lead}: {'; '.join(_different(report))}."


def _strides(report: AccuracyReport) -> str:
    """Say how strides differ that don't count."""
    if report.strides is None:
        return ""
    differing = difference_text(report.strides)
    return f" Strides differ, which doesn't count without --strides: {differing}."


def _different(report: AccuracyReport) -> Iterator[str]:
    worst = report.differences[0] if report.differences else None
    yield difference_text(worst) if worst is not None else report.reason or "results differ"
    if report.stale is not None:
        yield _stale_text(report.stale)
    elif report.is_branch_explained:
        yield "the program asks whether it is compiled, and takes another branch"
    elif (located := report.located) is not None:
        gradient = "the gradient of " if located.direction == "backward" else ""
        yield f"first at {gradient}{located.operation}{_at(located.location)}"
    elif report.stages is not None and report.stages.first is not None:
        yield f"the first wrong stage is {report.stages.first}"


def _at(place: StackEntry | None) -> str:
    return "" if place is None else f", {place.file}:{place.line}"


def _stale_text(stale: StaleValue) -> str:
    value = stale.expression or "a value that no guard checks"
    change = f" ({stale.before} → {stale.after})" if stale.before and stale.after else ""
    graph = f"graph {stale.compile_id}" if stale.compile_id else "a graph"
    return f"call {stale.call} reuses {graph} though {value} changed{change}"


def _parts(report: AccuracyReport) -> Iterator[Block]:
    if report.is_interrupted:
        yield Note(INTERRUPTED, "warning")
    yield Verdict(report.text, _TONES[report.verdict])
    correctness = report.correctness
    if correctness is not None and correctness.note:
        yield Note(f"{correctness.note[0].upper()}{correctness.note[1:]}.", "dim")
    if report.break_sites and report.graphs and report.verdict != "different":
        breaks = counted(report.break_sites, "line")
        yield Note(
            f"{breaks} of the program {'breaks' if report.break_sites == 1 else 'break'} graphs:"
            " what runs eagerly there is eager mode's own.",
            "dim",
        )
    yield Section("What was compared", _compared(report), "Compared")
    rows = (Row(kind_text(item.kind), Span(difference_text(item))) for item in report.differences)
    yield Section("What differs", Rows(rows, "difference"))
    if report.stale is not None:
        yield Section("The graph is stale", _stale(report.stale), "Stale")
    yield Section("Where it first differs", _located(report), "Where")
    yield Section("What cures it", Rows(map(_cure, report.cures), "change"), "Cures")
    yield Section(
        "Code that takes another way when compiled",
        _branches(report),
        "Branches",
        show="always" if report.verdict == "different" else "long",
    )
    yield unknown_section(report.gaps)


def _compared(report: AccuracyReport) -> Table:
    rows = (
        (
            kind_text(item.kind),
            Cell(_verdict_text(item), tone=_TONES[item.verdict]),
            f"{item.count:,}",
            _distance(item.variant),
            _distance(item.eager),
        )
        for item in report.kinds
    )
    return Table(
        ("kind", "verdict", "#values", "#compiled to float64", "#eager to float64"), rows, "kind"
    )


def _verdict_text(item: ComparedKind) -> str:
    has_bits = item.kind in ("outputs", "gradients", "state")
    return item.verdict if has_bits or item.verdict != "same bits" else "same"


def _distance(distance: float | None) -> str:
    return "" if distance is None else f"{distance:.1e}"


def _stale(stale: StaleValue) -> Iterator[Block]:
    yield f"{_stale_text(stale)[0].upper()}{_stale_text(stale)[1:]}: no guard checks it."
    yield Note(f"Compiled anew for call {stale.call}, results are eager mode's.")
    if stale.location is not None:
        yield Note(("It is read at ", _place(stale.location)))


def _located(report: AccuracyReport) -> Iterator[Block]:
    located, stages = report.located, report.stages
    rows: list[Row] = []
    if located is not None:
        rows += _operation(located)
    elif report.not_located is not None:
        rows.append(Row("operation", f"unknown: {_NOT_LOCATED[report.not_located]}"))
        if lines := report.not_located_lines:
            rows.append(Row("among", Note(joined([_place(line) for line in lines[:_MOST_LINES]]))))
    if stages is not None:
        rows += _stages(stages)
    if rows:
        yield Rows(rows)
    if report.reproduction is not None:
        yield Section("As a program of its own", Code(report.reproduction), show="long")
    if located is not None and located.code:
        yield Section("Generated code", Code(located.code, most=_MOST_CODE), show="long")


def _operation(located: Located) -> Iterator[Row]:
    gradient = "gradient of " if located.direction == "backward" else ""
    yield Row("operation", Note((gradient, Span(located.operation, "code"))))
    if located.location is not None:
        yield Row("line", Note(_place(located.location)))
    result = join_texts(" → ", ", ".join(located.inputs), located.output)
    if result:
        yield Row("tensors", Span(result))
    if located.element is not None:
        yield Row("element", Span(_element(located.element)))
    elif located.largest is not None:
        yield Row("difference", f"{located.largest:.3g} at most")
    if located.together_with:
        names = listed(located.together_with, most=4)
        yield Row("only with", Span(f"{names}; compiled alone, {located.operation} is right"))
    graph = f"graph {located.compile_id} of {counted(located.node_count, 'operation')}"
    compiles = counted(located.compile_count, "compile")
    yield Row("found in", f"{graph}, call {located.call}, by {compiles} of parts of it")


def _element(element: TensorAt) -> str:
    at = f"[{', '.join(map(str, element.index))}]: " if element.index else ""
    exact = "" if element.exact is None else f", exactly {element.exact:.9g}"
    apart = "" if element.spacings is None else f" ({element.spacings:,.3g} spacings apart)"
    return f"{at}compiled {element.compiled:.9g}, eager {element.eager:.9g}{exact}{apart}"


def _stages(stages: Stages) -> Iterator[Row]:
    steps = [f"{result.name} {result.outcome}" for result in stages.results if not result.without]
    if steps:
        yield Row("stages", Span(" → ".join(steps)))
    if stages.part is not None:
        yield Row("right without", Span(stages.part))
    if stages.note is not None:
        yield Row("note", Span(stages.note))


def _place(place: StackEntry) -> Inline:
    return (Place(place.file, place.line), Span(f" {place.text}" if place.text else "", "code"))


def _cure(cure: Cure) -> Row:
    if not cure.is_right:
        reason = join_texts(": ", f"{cure.name}: still different", cure.reason)
        return Row(cure.kind, Note(Span(reason), "dim"))
    if cure.kind == "torch":
        return Row(cure.kind, Note(f"{cure.name}: the difference is gone", "good"))
    lines = [*cure.lines]
    if cure.arguments:
        arguments = ", ".join(f"{name}={value!r}" for name, value in cure.arguments.items())
        lines.append(f"model = torch.compile(model, {arguments})")
    text = f"Results agree without {cure.name}."
    return Row(cure.kind, (Note(text, "good"), Code("\n".join(lines))))


def _branches(report: AccuracyReport) -> Iterator[Block]:
    if report.is_branch_explained is not None:
        gone = "agree" if report.is_branch_explained else "still differ"
        yield f"If eager mode takes the compiled branches, results {gone}."
    rows = (
        Row(Place(item.location.file, item.location.line), Note(_branch(item)))
        for item in report.branches
    )
    yield Rows(rows, "line", 10)


def _branch(branch: TracingBranch) -> Inline:
    ways = (
        ""
        if branch.compiled is None or branch.eager is None
        else f" is {branch.eager} in eager mode, {branch.compiled} when compiled"
    )
    return (Span(branch.text, "code"), Span(ways))
