"""What can be tried for a graph that torch doesn't record as a CUDA graph: changes of the call.

Comes in: what torch said of it, and the inputs of the graphs. Goes out: remedies. Edits come from recipes, and settings
from the finding's own fixes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from graphdoctor.facts.expressions import argument_source, expression, is_attribute
from graphdoctor.facts.kernels import CudaGraphSkip
from graphdoctor.facts.recording import Recording
from graphdoctor.facts.trials import Remedy
from graphdoctor.facts.wording import names
from graphdoctor.fixes.remedies import Candidate
from graphdoctor.trials.program import RunChange


def cuda_graph_remedies(skip: CudaGraphSkip, recording: Recording) -> Iterator[Candidate]:
    """Changes of the call with which torch may record a CUDA graph, best first.

    Args:
        skip: What it didn't record.
        recording: The run.
    """
    if skip.kind == "mutation":
        yield from _for_mutation(recording)
    elif skip.kind == "cpu_device":
        yield from _for_cpu_tensors(recording)
    elif skip.kind == "dynamic_shapes":
        yield _candidate(
            "dynamic=False", "Compile without dynamic shapes", "dynamic=False", (), RunChange(dynamic=False)
        )


def _for_mutation(recording: Recording) -> Iterator[Candidate]:
    """Inputs that the graph writes to, at an address that never changes: then it need not work on a copy."""
    graphs = recording.cuda_graphs
    functions = (graphs.functions or ()) if graphs is not None else ()
    sources = _arguments((source for function in functions for source in function.mutated), recording)
    if not sources:
        return
    written = [expression(source) for source in sources]
    marks = [f"torch._dynamo.mark_static_address({name})" for name in written]
    pronoun, tensors = ("it", "a tensor") if len(written) == 1 else ("them", "tensors")
    title = f"Mark {names(written)} as static, and pass the same {tensors.removeprefix('a ')} in each call"
    yield _candidate("mark_static_address", title, "\n".join(marks), written, RunChange(static=sources))
    title = f"Write {names(written)} into {tensors} that you keep, and pass {pronoun} in each call"
    copies = [f"{name} = {name}.clone()" for name in written]
    yield _candidate(
        "buffer", title, "\n".join([*copies, *marks]), written, RunChange(buffers=sources), keeps_results=False
    )


def _for_cpu_tensors(recording: Recording) -> Iterator[Candidate]:
    """Arguments on the CPU, of graphs that have others on a GPU."""
    found: list[str] = []
    for graph in recording.graphs:
        tensors = [each for each in graph.inputs or () if each.kind == "tensor" and each.device is not None]
        if any(str(each.device).startswith("cuda") for each in tensors):
            found += [each.source for each in tensors if each.device == "cpu" and each.source is not None]
    sources = _arguments(found, recording)
    if sources:
        moved = [expression(source) for source in sources]
        code = "\n".join(f'{name} = {name}.to("cuda")' for name in moved)
        title = f"Move {names(moved)} to the GPU before the call"
        yield _candidate("on the GPU", title, code, moved, RunChange(on_device=sources))


def _arguments(sources: Iterable[str], recording: Recording) -> tuple[str, ...]:
    """Those that are arguments of the target, or items of one, by the names of its own parameters."""
    parameters = recording.target.parameters or ()
    found = (argument_source(source, parameters) for source in sources)
    return tuple(dict.fromkeys(source for source in found if source is not None and not is_attribute(source)))


def _candidate(
    name: str, title: str, code: str, addresses: Iterable[str], change: RunChange, *, keeps_results: bool = True
) -> Candidate:
    remedy = Remedy(
        name=name, title=title, snippet=code, kind="call", addresses=tuple(addresses), keeps_results=keeps_results
    )
    return Candidate((remedy,), change)
