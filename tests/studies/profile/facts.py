"""Hand-built facts of a profiled call."""

from graphdoctor.facts.profiled import (
    InductorGraph,
    InductorKernel,
    InductorOperation,
    InductorRun,
    KernelRun,
    Profiled,
    ProfiledCall,
)
from graphdoctor.trace.inductor import matched_runs
from tests.factories import entry


def operation(name, line=1, **more):
    """A node that computes 100 float32 elements."""
    given = {
        "operation": f"aten.{name}.default",
        "target": f"aten.{name}.default",
        "is_view": False,
        "bytes": 400,
        "elements": 100,
        "is_stored": False,
        "stack": () if line is None else (entry(line),),
    }
    return InductorOperation(**{"name": name} | given | more)


def code(name, *operations, **more):
    """A call in generated code."""
    kind = "library" if "." in name else "pointwise"
    return InductorKernel(
        **{"name": name, "kind": kind, "operations": operations, "bytes": 800, "flops": None} | more
    )


def graph(kernels, operations=(), **more):
    """A graph for which code was generated."""
    given = {"graph": 0, "phase": "forward", "compile_id": "0/0"}
    return InductorGraph(
        **given | {"kernels": tuple(kernels), "operations": tuple(operations)} | more
    )


def ran(name, us=10.0, operation=None, **more):
    """A run of a kernel in the first run of a graph; a library's if an operation launched it."""
    kind = "generated" if name.startswith(("triton_", "graph_")) else "library"
    given = {"kind": kind, "phase": "forward", "operation": operation, "run": 0}
    return KernelRun(**{"name": name, "us": us} | given | more)


def profiled(kernels, *graphs, runs=None):
    """A call of 100 µs; by default each graph ran once."""
    made = (
        [InductorRun(graph=each.graph, phase=each.phase, us=90.0) for each in graphs]
        if runs is None
        else runs
    )
    call = ProfiledCall(
        device="cuda", times_us=(100.0, 101.0), runs=tuple(made), kernels=tuple(kernels)
    )
    return Profiled(call=call, graphs=graphs, matched=tuple(matched_runs(call, graphs)))


def names_of(found):
    """Each matched run's name, its call in the code, and its time."""
    return [
        (
            found.call.kernels[each.run].name,
            pair[1].name if (pair := found.code_of(each)) else None,
            each.us,
        )
        for each in found.matched
    ]
