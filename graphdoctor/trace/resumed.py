"""Graph breaks of a torch before 2.6, which has no records of them: by the functions with which it resumed.

Comes in: the compiles of a log. Goes out: a break for each compile after which torch compiled the rest of a function.
A resume function's name has the line of the break in the function itself (``torch/_dynamo/resume_execution.py``), and
the metrics of the compile before it torch's reason (``restart_reasons``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from graphdoctor.trace.breaks import BreakText, PrintedEntry, parse_chain
from graphdoctor.trace.intake import SeenBreak, SeenCompile
from graphdoctor.trace.origin import RESUME_NAME


def resumed_breaks(
    compiles: Iterable[SeenCompile], code_names: Mapping[int, tuple[str, str, int]]
) -> Iterator[SeenBreak]:
    """The breaks after which torch resumed, in the order of the log."""
    before: dict[tuple[str, str], SeenCompile] = {}
    for compile_ in compiles:
        if compile_.frame_id not in code_names:
            continue
        name, file, _ = code_names[compile_.frame_id]
        resume = RESUME_NAME.match(name)
        function = resume[1] if resume else name
        broken = before.pop((file, function), None) if resume else None
        if broken is not None and resume is not None and broken.metrics is not None:
            words = broken.metrics.restart_reasons[-1].strip("'")
            entry = PrintedEntry(file, int(resume[2]), function, None)
            text = BreakText(parse_chain(words), "resumed", None, None, words, (entry,), None)
            yield SeenBreak(broken.compile_id, None, broken.call_index, text)
        if compile_.metrics is not None and compile_.metrics.restart_reasons:
            before[file, function] = compile_
