"""A process that runs a program as its user would, and times its steady call whenever it is asked."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

from graphdoctor.facts.run import ProbeExit
from graphdoctor.probe.wire import BenchStart, BenchTurn
from graphdoctor.trials.program import Program
from graphdoctor.trials.replays import Replays
from graphdoctor.trials.timing import TURN_S, ServedProbe


class BenchProbe(ServedProbe[ProbeExit]):
    """The process, from its start.

    Args:
        replays: Starts it.
        program: What it runs.
        name: The replay's name.
        is_eager: It runs without torch.compile.
        cache: Inductor's folder on disk.
        spec: Fields of the request's ``spec`` with other values.
        pool: Where to wait until it ends.
    """

    def __init__(
        self,
        replays: Replays,
        program: Program,
        name: str,
        *,
        is_eager: bool,
        cache: Path,
        spec: Mapping[str, object],
        pool: ThreadPoolExecutor,
    ) -> None:
        def start(descriptor: int) -> ProbeExit:
            return replays.serve_bench(program, name, is_eager=is_eager, cache=cache, descriptor=descriptor, spec=spec)

        super().__init__(start, pool)

    def start(self) -> BenchStart | None:
        """Wait until its calls are steady, or never will be; None if it ended before."""
        return cast("BenchStart | None", self.answer())

    def turn(self) -> BenchTurn | None:
        """Time its call for a turn; None if it has ended."""
        return cast("BenchTurn | None", self.ask({"seconds": TURN_S}))
