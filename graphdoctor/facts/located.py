"""The fact that names the operation with which compiled code goes wrong, found in the child."""

from __future__ import annotations

from typing import Literal

from .base import Fact
from .stack import StackEntry

Pass = Literal["forward", "backward"]

Compared = Literal["values", "forms", "exceptions"]
"""What of a graph is compared: values; strides, aliasing and the like; or what it raises."""

NotLocated = Literal["no_graph_differs", "stopped", "only_whole", "not_repeatable", "failed"]
"""Why no operation is named though results differ. ``no_graph_differs``: each graph is right;
``stopped``: the time was up; ``only_whole``: no smaller part of the graph is wrong alone;
``not_repeatable``: the graph gives something else each time; ``failed``: a graph couldn't be
compared, or parts of it don't compile."""


class TensorAt(Fact):
    """The element of a tensor that differs most."""

    index: tuple[int, ...]
    """Its index; empty for a tensor without dims."""
    compiled: float
    eager: float
    exact: float | None = None
    """The value in float64; None if the program doesn't run so."""
    spacings: float | None = None
    """How far apart the two are, in units of the spacing of the dtype's numbers at ``eager``; None
    for NaN and infinity."""


class Located(Fact):
    """The first operation of a graph whose inputs agree and whose result doesn't, or that raises in
    eager mode what it doesn't raise in compiled code.
    """

    compile_id: str
    """Compile of the graph, such as ``0/1``."""
    call: int
    """The first call, from 1, in which the graph gives something else."""
    direction: Pass
    """Whether its result or the gradient through it differs."""
    operation: str
    """The operation as the graph names it, such as ``torch.nn.functional.gelu``."""
    location: StackEntry | None
    """The line of the user's source that it comes from, for a gradient the forward line; None if
    the graph doesn't say."""
    inputs: tuple[str, ...] = ()
    """Its tensors, such as ``f32[8, 128]``."""
    output: str | None = None
    """Its result, in the same form; None if it isn't a tensor."""
    largest: float | None = None
    """The largest absolute difference; None if shapes or dtypes differ, or one isn't finite."""
    element: TensorAt | None = None
    """Where that is; None if it isn't one element."""
    is_alone: bool
    """True if it was found to be wrong when it is compiled alone, too, on the same inputs."""
    together_with: tuple[str, ...] = ()
    """Operations with which it has to be compiled to be wrong, the earliest first; empty if
    ``is_alone``."""
    node_count: int
    """Operations of the graph."""
    compile_count: int
    """Compiles that finding it took."""
    program: str | None = None
    """The smallest graph that is wrong, as Python: ``program``, and ``inputs`` of random numbers;
    None if it needs more than torch."""
    code: str | None = None
    """What the backend generated for the smallest graph that is wrong; None if it isn't known."""
