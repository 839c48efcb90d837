"""Names the first operation of a graph whose inputs agree with eager mode's and whose result, or
the gradient through it, doesn't.

While the calls are made, each graph is run by eager kernels too, on copies of its inputs and with
the same random numbers; the first call of a graph with other results is kept. After the calls, the
beginnings of that graph are compiled by the same backend, each returning what the rest of the graph
uses, and compared with eager mode. Half of what is left is ruled out each time. torch's accuracy
minifier (``torch/_dynamo/repro/after_dynamo.py``, 2.13) removes operations while the graph's own
outputs are wrong, which leaves a small graph, not the operation.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from ...facts.base import Fields
from ...facts.located import Compared, Located, NotLocated, Pass, TensorAt
from ...facts.trials import Difference, ResultKind
from ..record.errors import raised_text
from ..record.streams import silence
from ..target.snapshot import RandomState
from ..torch_private.torch_graphs import (
    Backend,
    ambient_modes,
    compiled_graph,
    generated_code,
    replace_compiled_graphs,
)
from .comparing import differing_values
from .runs import Inputs, Judged, Runs, modes_set
from .subgraphs import (
    CutGraph,
    Item,
    Part,
    function_text,
    inputs_text,
    item_name,
    line_of,
    lines_of,
    operation_name,
    raising,
    tensors_text,
)

_MAX_COMPILES = 32
_MAX_TOGETHER = 8
"""A wrong run of more operations says too little about a single line."""
_MAX_TRIED = 3
"""Places to cut the graph at, if its beginnings up to one don't compile."""

_Run = Callable[..., Any]


@dataclass
class _Graph:
    compile_id: str
    backend: Backend
    module: GraphModule
    names: Sequence[str]
    changed: frozenset[str] | None = None


@dataclass(frozen=True)
class _Case:
    """A call of a graph that gives something else."""

    graph: _Graph
    call: int
    inputs: Inputs
    judged: Judged

    @property
    def is_certain(self) -> bool:
        return not all(difference.may_be_rounding for difference in self.judged.differences)


class Locating:
    """Compares each graph from now on, until ``close``; ``call`` is the number of the program's
    call, and ``what`` is known to differ.
    """

    def __init__(self, limit_s: float, what: Compared = "values") -> None:
        self._deadline, self._what = perf_counter() + limit_s, what
        self.call = 0
        self._case: _Case | None = None
        self._raising: Located | None = None
        self._reason: NotLocated = "no_graph_differs"
        """What is to be said if no graph differs: the first trouble."""
        self.close = replace_compiled_graphs(self._around)

    def _around(self, backend: Backend, gm: GraphModule, compile_id: str) -> Callable[[_Run], _Run]:
        module = GraphModule(gm, copy.deepcopy(gm.graph))
        names = [node.name for node in gm.graph.find_nodes(op="placeholder")]
        graph = _Graph(compile_id, backend, module, names)

        def replaced(compiled: _Run) -> _Run:
            def run(*arguments: Any) -> Any:
                is_found = self._case is not None and self._case.is_certain
                if not is_found and self._raising is None:
                    self._check(graph, compiled, arguments)
                return compiled(*arguments)

            return run

        return replaced

    def _check(self, graph: _Graph, compiled: _Run, arguments: Sequence[Any]) -> None:
        """Compare a call of a graph before the program makes it."""
        if perf_counter() > self._deadline:
            self._trouble("stopped")
            return
        values = dict(zip(graph.names, arguments, strict=True))
        inputs = Inputs.now(values, ambient_modes())
        try:
            if self._what == "exceptions":
                self._raising = self._raised(graph, inputs, compiled)
                return
            runs = Runs(graph.module, inputs, graph.changed, are_forms=self._what == "forms")
            judged = runs.judged(compiled)
            if (judged.differences or runs.is_shaken) and not runs.is_repeatable():
                self._trouble("not_repeatable")
            elif not judged.differences:
                if judged.mine.omitted_from is not None:
                    self._trouble("failed")
            else:
                case = _Case(graph, self.call, inputs.kept(), judged)
                if self._case is None or case.is_certain:
                    self._case = case
            graph.changed = runs.changed
        except Exception:  # noqa: BLE001 - whatever an operation raises; the program goes on
            self._trouble("failed")
        finally:
            inputs.random.restore()

    def _raised(self, graph: _Graph, inputs: Inputs, compiled: _Run) -> Located | None:
        """Name the operation that raises in eager mode what the compiled graph doesn't."""
        runs = Runs(graph.module, inputs, graph.changed)
        with RandomState(), modes_set(inputs.modes):
            inputs.random.restore()
            if (at := raising(graph.module, runs.arguments()[0])) is None:
                return None
            node, tensors, error = at
            inputs.random.restore()
            try:
                compiled(*runs.arguments()[0])
            except Exception as other:  # noqa: BLE001 - whatever compiled code raises
                if raised_text(other) == raised_text(error):
                    return None
        count = sum(it.op.startswith("call_") for it in graph.module.graph.nodes)
        return Located(
            compile_id=graph.compile_id,
            call=self.call,
            direction="forward",
            operation=operation_name(node, graph.module),
            location=line_of(node),
            inputs=tensors,
            is_alone=count == 1,
            node_count=count,
            compile_count=0,
        )

    def _trouble(self, reason: NotLocated) -> None:
        if self._reason == "no_graph_differs":
            self._reason = reason

    def found(self) -> Fields:
        """Search the graph that differed; returns fields of ``Replay``."""
        self.close()
        if self._raising is not None:
            return {"located": self._raising}
        if self._case is None:
            return {"not_located": self._reason}
        search = _Search(self._case, self._deadline, are_forms=self._what == "forms")
        with silence(), RandomState():
            try:
                return {"located": search.located()}
            except _NotLocatedError as error:
                lines = lines_of(error.among)
                return {"not_located": error.reason, "not_located_lines": lines}


class _NotLocatedError(Exception):
    def __init__(self, reason: NotLocated, among: Sequence[Node]) -> None:
        super().__init__(reason)
        self.reason, self.among = reason, among


@dataclass(frozen=True)
class _Wrong:
    """Some operations that are wrong when they are compiled together, or the whole graph."""

    part: Part
    inputs: Inputs
    judged: Judged
    codes: Mapping[str, str]

    @property
    def direction(self) -> Pass:
        is_backward = all(it.kind == "gradients" for it in self.judged.differences)
        return "backward" if is_backward else "forward"

    def names(self, node: Node) -> set[str]:
        """Name the results that an operation's value is in."""
        outputs = enumerate(self.part.outputs)
        return {f"call 1, output[{at}]" for at, (it, _) in outputs if it is node}

    def differing(self, kind: ResultKind) -> list[Difference]:
        """List the results of a kind that differ."""
        judged = self.judged
        if judged.rounding is None:
            return []
        return differing_values(kind, judged.mine, judged.eager, judged.rounding)


class _Search:
    """The search in one graph."""

    def __init__(self, case: _Case, deadline: float, *, are_forms: bool) -> None:
        self._case, self._deadline, self._are_forms = case, deadline, are_forms
        self._compile_count = 0
        self._has_failed = False
        """A part didn't compile, or didn't run."""
        self._among: Sequence[Node] = ()
        self._runs = Runs(case.graph.module, case.inputs, case.graph.changed)
        with RandomState(), modes_set(case.inputs.modes):
            case.inputs.random.restore()
            self._graph = CutGraph(case.graph.module, self._runs.arguments()[0])
        operations = self._graph.operations
        (output,) = case.graph.module.graph.find_nodes(op="output")
        returned: Any = output.args[0]
        returned = list(returned) if isinstance(returned, tuple | list) else [returned]
        part = Part(case.graph.module, operations, (), [(node, ()) for node in returned])
        self._whole = _Wrong(part, case.inputs, case.judged, {})
        self._wrong = {(0, len(operations)): self._whole}

    def located(self) -> Located:
        """Name the operation.

        Raises:
            _NotLocatedError: None can be named.
        """
        graph = self._graph
        operations = graph.operations
        self._among = operations
        computing = [index for index in range(len(operations)) if graph.computes(index)]
        begin, end = self._first_wrong(computing)
        index = self._suspect(begin, end)
        wrong, others = self._smallest(index, end)
        node = operations[index]
        element = _element_of(node, wrong)
        first = next((it for it in others if it not in graph.views), None)
        is_value = wrong.direction == "forward" and not self._are_forms
        if first is not None and is_value:
            # Given what eager mode makes of it, the rest is right.
            others = [it for it in (*others, node) if it is not first]
            node = first
        return Located(
            compile_id=self._case.graph.compile_id,
            call=self._case.call,
            direction=wrong.direction,
            operation=operation_name(node, graph.module),
            location=line_of(node),
            inputs=inputs_text(node, graph.kinds),
            output=", ".join(tensors_text(graph.kinds[node])) or None,
            **element,
            is_alone=not others,
            together_with=tuple(operation_name(it, graph.module) for it in others),
            node_count=len(computing),
            compile_count=self._compile_count,
            code=wrong.codes.get(wrong.direction),
            program=function_text(wrong.part.module, [*wrong.inputs.values.values()]),
        )

    # Which operation.

    def _first_wrong(self, computing: Sequence[int]) -> tuple[int, int]:
        """Find two places to cut at, next to each other: the graph is right up to the first and
        wrong up to the second.
        """
        graph = self._graph
        whole = len(graph.operations)
        inside = (index + 1 for index in computing[:-1] if graph.is_cut(index + 1))
        cuts = [0, *inside, whole]
        right, wrong = 0, len(cuts) - 1
        while wrong - right > 1:
            self._among = graph.operations[cuts[right] : cuts[wrong]]
            middle = (right + wrong) // 2
            between = sorted(range(right + 1, wrong), key=lambda it: abs(it - middle))
            for at in between[:_MAX_TRIED]:
                verdict = self._is_wrong(0, cuts[at])
                if verdict is not None:
                    right, wrong = (right, at) if verdict else (at, wrong)
                    break
            else:
                raise self._failure()
        self._among = graph.operations[cuts[right] : cuts[wrong]]
        return cuts[right], cuts[wrong]

    def _suspect(self, begin: int, end: int) -> int:
        """Choose the operation between two cuts whose value is wrong; where the graph can't be cut
        between several, all their values are looked at.
        """
        graph = self._graph
        suspects = [index for index in range(begin, end) if graph.computes(index)]
        is_only = len(suspects) == 1
        if self._whole.direction == "backward":
            if not is_only:
                raise self._failure()
            return suspects[0]
        if not is_only:
            nodes = [graph.operations[index] for index in suspects]
            if not self._is_wrong(0, end, [*graph.live(end), *nodes]):
                raise self._failure()
        wrong = self._wrong[0, end]
        differing = {it.where for it in wrong.differing("outputs")}
        for index in suspects:
            if differing & wrong.names(graph.operations[index]):
                return index
        # What an operation changes in place may be wrong alone, or what shares memory with it.
        changing = [it for it in suspects if graph.operations[it] in graph.changing]
        if len(changing) == 1:
            return changing[0]
        # If anything else is, cutting the graph before the operation made that right.
        if not is_only or differing:
            raise self._failure("only_whole")
        return suspects[0]

    def _smallest(self, index: int, end: int) -> tuple[_Wrong, Sequence[Node]]:
        """Find the shortest run of operations that ends in one, and is wrong when it is compiled;
        returns it, and the other operations in it.
        """
        graph = self._graph
        after = next(it for it in range(index + 1, end + 1) if it == end or graph.is_cut(it))
        begins = [it for it in range(index, 0, -1) if graph.computes(it) and graph.is_cut(it)]
        begins.append(0)
        node = graph.operations[index]
        is_inside = after > index + 1 or not graph.is_cut(index)
        if is_inside and self._is_wrong(index, index + 1, [node], seen_until=after):
            return self._wrong[index, index + 1], ()
        outputs = [*graph.live(after), node]
        # The last one needn't be compiled: up to there, the graph was wrong.
        right, wrong = -1, 0
        while wrong < len(begins) - 1 and not self._is_wrong(begins[wrong], after, outputs):
            right, wrong = wrong, min(2 * wrong + 1, len(begins) - 1)
        while wrong - right > 1:
            middle = (right + wrong) // 2
            if self._is_wrong(begins[middle], after, outputs):
                wrong = middle
            else:
                right = middle
        begin = begins[wrong]
        self._among = graph.operations[begin:after]
        run = [it for it in range(begin, after) if graph.computes(it)]
        if len(run) > _MAX_TOGETHER:
            raise self._failure("only_whole")
        smallest = self._wrong.get((begin, after)) or self._wrong[0, end]
        return smallest, [graph.operations[it] for it in run if it != index]

    def _failure(self, reason: NotLocated | None = None) -> _NotLocatedError:
        return _NotLocatedError(
            reason or ("failed" if self._has_failed else "only_whole"), self._among
        )

    # Compiling.

    def _is_wrong(
        self,
        begin: int,
        end: int,
        outputs: Sequence[Node] | None = None,
        *,
        seen_until: int | None = None,
    ) -> bool | None:
        """Compile some operations and compare; None if that can't be done.

        ``seen_until``: where the graph can be cut next, if it can't be before them. Their inputs
        are taken from there, and the modes are theirs.

        Raises:
            _NotLocatedError: The time is up.
        """
        if perf_counter() > self._deadline or self._compile_count >= _MAX_COMPILES:
            raise self._failure("stopped")
        self._compile_count += 1
        graph = self._graph
        if outputs is not None:
            inside = set(graph.operations[begin:end])
            outputs = [node for node in dict.fromkeys(outputs) if node in inside]
        try:
            part = graph.part(begin, end, outputs)
            inputs = self._inputs(begin, part, seen_until)
            runs = Runs(part.module, inputs, are_forms=self._are_forms)
            with generated_code() as codes:
                judged = runs.judged(self._compiled(part, runs))
        except Exception:  # noqa: BLE001 - whatever a backend raises
            self._has_failed = True
            return None
        if self._whole.direction == "forward":
            kept = [it for it in judged.differences if it.kind != "gradients"]
            judged = judged._replace(differences=kept)
        if judged.differences:
            self._wrong[begin, end] = _Wrong(part, inputs, judged, dict(codes))
        return bool(judged.differences)

    def _compiled(self, part: Part, runs: Runs) -> _Run:
        # The first run of eager mode says what may be shared.
        _ = runs.eager
        with RandomState(), modes_set(runs.inputs.modes):
            arguments, _ = runs.arguments()
            return compiled_graph(self._case.graph.backend, copy.deepcopy(part.module), arguments)

    def _inputs(self, begin: int, part: Part, seen_until: int | None) -> Inputs:
        """Compute eagerly what goes into a part."""
        graph, given = self._graph, self._case.inputs
        nodes = graph.module.graph.find_nodes(op="placeholder")
        arguments, _ = self._runs.arguments()
        values: dict[Item, Any] = {
            (node, ()): it for node, it in zip(nodes, arguments, strict=True)
        }
        random = given.random
        if begin:
            made = dict.fromkeys(node for node, _ in part.inputs if node.op != "placeholder")
            before = graph.part(0, seen_until or begin, list(made))
            with RandomState(), modes_set(given.modes):
                random.restore()
                returned = before.module(*(values[item] for item in before.inputs))
                random = RandomState()
            values |= zip(before.outputs, returned, strict=True)
        named = {item_name(item): values[item] for item in part.inputs}
        modes = given.modes
        if seen_until is not None and begin:
            modes = graph.modes[graph.operations[begin - 1]]
        return Inputs.now(named, modes)._replace(random=random).kept()


def _element_of(node: Node, wrong: _Wrong) -> Fields:
    """Describe where an operation's result differs most."""
    kind: ResultKind = "gradients"
    differing = wrong.differing(kind)
    if wrong.direction == "forward":
        kind, names = "outputs", wrong.names(node)
        differing = [it for it in wrong.differing(kind) if it.where in names]
        if not differing:
            kind, differing = "state", wrong.differing("state")
    if not differing:
        return {}
    worst = max(differing, key=lambda it: math.inf if it.largest is None else it.largest)
    return {"largest": worst.largest, "element": _element(worst, wrong.judged)}


def _element(difference: Difference, judged: Judged) -> TensorAt | None:
    """Find where two tensors differ most; None if they aren't alike, or not finite there."""
    if difference.largest is None:
        return None  # JSON has no such numbers
    mine, eager, precise = (
        None if of is None else of.values[difference.kind].get(difference.where)
        for of in (judged.mine, judged.eager, judged.precise)
    )
    if not isinstance(mine, Tensor) or not isinstance(eager, Tensor) or mine.is_complex():
        return None
    at = int((mine.double() - eager.double()).abs().nan_to_num(nan=0.0).argmax())
    exact = None
    if isinstance(precise, Tensor) and precise.shape == eager.shape:
        exact = float(precise.flatten()[at])
    place = torch.unravel_index(torch.tensor(at, device="cpu"), mine.shape)
    return TensorAt(
        index=tuple(map(int, place)),
        compiled=float(mine.flatten()[at]),
        eager=float(eager.flatten()[at]),
        exact=exact if exact is None or math.isfinite(exact) else None,
        spacings=difference.spacings,
    )
