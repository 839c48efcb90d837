"""What torch itself says of a run, read without any of graphdoctor's parsers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
_BARE = HERE / "bare.py"
_ENTRY = re.compile(r'  File "(.+)", line (\d+), in ')
_BREAK_AT = re.compile(r"Graph break .*in user code at (.+):(\d+)$")
_LOG_LINE = re.compile(r"^[VDIWEC]\d{4} [\d:.]+ \d+ \S+:\d+\] (?:\[[\d/_!]+\] )?\[__(\w+)\] ?(.*)$")
_LIMIT = re.compile(r"torch\._dynamo hit config\.recompile_limit.*\n.*\]    function: '(.+)'")
_TRACE_HEADER = re.compile(r"^[VDIWEC]\d{4} [\d:.]+ \d+ \S+\] (\{.*)$")

Site = tuple[str, int]


def is_reported(file: str) -> bool:
    """The file is neither torch's nor the standard library's, nor the script that makes the
    calls."""
    if file == str(_BARE) or file.startswith("<") or "/site-packages/torch/" in file:
        return False
    # Every interpreter has packages of its own.
    return "/site-packages/" in file or not file.startswith(sysconfig.get_path("stdlib"))


@dataclass(frozen=True)
class Metrics:
    """One of torch's ``compilation_metrics`` records.

    Args:
        frame: File, first line and name of the code; None for a frame over its recompile limit.
        got_code: It has guarded code. torch says so of a frame dropped for having no operation too;
            that has no count of guards.
        is_recompile: It names a reason to recompile.
        failure: Type of what ended it.
    """

    frame: tuple[str, int, str] | None
    got_code: bool
    is_recompile: bool
    failure: str | None


@dataclass(frozen=True)
class Bare:
    """What torch says of a run without graphdoctor.

    Args:
        log: What ``TORCH_LOGS=graph_breaks,recompiles`` printed.
        trace: The structured trace's records, JSON and payload.
        graphs: Graphs that the backend was handed.
        codes: Frames that got code, counted by torch's hook for new bytecode.
        error: Type of what the last call raised.
        cause: Type of what it stands for, which torch's metrics name, if that is an internal error
            of Dynamo.
        counters: ``torch._dynamo.utils.counters``.
    """

    log: str
    trace: tuple[tuple[dict[str, Any], str], ...]
    graphs: int
    codes: int
    error: str | None
    cause: str | None
    counters: dict[str, dict[str, int]]

    @cached_property
    def sites(self) -> set[Site]:
        """The innermost reported line of each user stack in the printed log."""
        sites: set[Site] = set()
        innermost: Site | None = None
        in_stack = False
        for kind, text in self._log_lines("graph_breaks"):
            if kind != "graph_breaks" or text.startswith(("Graph break", "Traceback (most recent")):
                in_stack = False
            if text.startswith(
                ("User code traceback:", "The graph break occurred in the following user code:")
            ):
                in_stack, innermost = True, None
            elif in_stack and (entry := _ENTRY.match(text)) and is_reported(entry[1]):
                if innermost is not None:
                    sites.discard(innermost)
                innermost = (entry[1], int(entry[2]))
                sites.add(innermost)
        return sites

    @cached_property
    def break_headers(self) -> set[Site]:
        """File and line that the first line of each printed break names, wherever it lies."""
        found = (_BREAK_AT.match(text) for _, text in self._log_lines("graph_breaks"))
        return {(match[1], int(match[2])) for match in found if match}

    @property
    def over_limit(self) -> set[str]:
        """Functions that torch warned of."""
        return set(_LIMIT.findall(self.log))

    @property
    def break_records(self) -> int:
        """Graph-break records of the trace."""
        return sum(
            value.get("artifact", {}).get("name") == "dynamo_graph_break_reason"
            for value, _ in self.trace
        )

    @cached_property
    def metrics(self) -> list[Metrics]:
        """Of the forward compiles; AOTAutograd's late backward compile reports under the forward's
        id."""
        values = (
            json.loads(payload) if payload else value["compilation_metrics"]
            for value, payload in self.trace
            if "compilation_metrics" in value
        )
        return [
            Metrics(
                frame=(v["co_filename"], v["co_firstlineno"], v["co_name"])
                if v.get("co_name")
                else None,
                got_code=bool(v["has_guarded_code"]) and v.get("guard_count") is not None,
                is_recompile=bool(v.get("recompile_reason")),
                failure=v.get("fail_type") if not v["has_guarded_code"] else None,
            )
            for v in values
            if v.get("is_forward") is not False
        ]

    @property
    def compiles(self) -> int:
        return sum(metrics.got_code for metrics in self.metrics)

    @property
    def recompiles(self) -> int:
        return sum(metrics.got_code and metrics.is_recompile for metrics in self.metrics)

    @property
    def skipped_frames(self) -> set[tuple[str, int, str]]:
        """Frames that torch gave up in silence: a failure that was not raised to the caller."""
        return {
            metrics.frame
            for metrics in self.metrics
            if metrics.frame and metrics.failure and metrics.failure not in (self.error, self.cause)
        }

    @property
    def counts(self) -> dict[str, int]:
        """What ``counts_of`` has of a document."""
        return {
            "break_records": self.break_records,
            "graphs": self.graphs,
            "compiles": self.compiles,
            "recompiles": self.recompiles,
            "frames_over_limit": len(self.over_limit),
            "skipped_frames": len(self.skipped_frames),
        }

    def _log_lines(self, kind: str) -> list[tuple[str, str]]:
        matches = (_LOG_LINE.match(line) for line in self.log.splitlines())
        return [(match[1], match[2]) for match in matches if match and match[1] == kind]


def read_trace(folder: Path) -> tuple[tuple[dict[str, Any], str], ...]:
    """Every record of a folder's logs; here nothing is damaged, so nothing is forgiven."""
    records: list[tuple[dict[str, Any], list[str]]] = []
    for log in sorted(folder.glob("*.log")):
        for line in log.read_text(encoding="utf-8").split("\n"):
            if match := _TRACE_HEADER.match(line):
                records.append((json.loads(match[1]), []))
            elif line.startswith("\t"):
                records[-1][1].append(line[1:])
            else:
                assert not line, line
    return tuple((value, "\n".join(payload)) for value, payload in records)


class BareRunner:
    """Makes bare runs in forks of one process that has imported torch."""

    def __init__(self, environment: dict[str, str], python: str = sys.executable) -> None:
        self._process = subprocess.Popen(
            [python, str(_BARE)],
            env=environment | {"TORCH_LOGS": "graph_breaks,recompiles", "TORCH_TRACE": os.devnull},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(
        self,
        program: Path,
        folder: Path,
        *,
        backend: str = "eager",
        fullgraph: bool = False,
        backward: bool = False,
    ) -> Bare:
        """Run a program and read what torch said.

        Args:
            program: A file with ``build()`` or a function ``region``, and ``example_inputs()``.
            folder: An empty folder for the logs.
            backend: Name of the backend.
            fullgraph: As in ``torch.compile``.
            backward: Sum the floating outputs of each call and run backward.
        """
        job = {"program": str(program), "folder": str(folder), "backend": backend}
        job |= {"fullgraph": fullgraph, "backward": backward}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        status = self._process.stdout.readline().strip()
        log = (folder / "stderr.txt").read_text(encoding="utf-8")
        assert status == "0", log
        return Bare(
            log=log,
            trace=read_trace(folder / "trace"),
            **json.loads((folder / "counted.json").read_text(encoding="utf-8")),
        )

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)


def sites_of(document: dict[str, Any], root: Path) -> set[Site]:
    """Distinct lines of a document's graph-break findings; its paths are relative to where it was
    made."""
    return {
        (str(root / finding["location"]["file"]), finding["location"]["line"])
        for finding in document["findings"]
        if finding["break_effects"]
    }


def counts_of(document: dict[str, Any]) -> dict[str, int]:
    """What a document counts that torch says, too."""
    names = (
        "break_records",
        "graphs",
        "compiles",
        "recompiles",
        "frames_over_limit",
        "skipped_frames",
    )
    return {name: document["summary"][name] for name in names}


def marked_lines(program: Path) -> set[Site]:
    """Lines that the program itself marks."""
    lines = program.read_text(encoding="utf-8").splitlines()
    return {
        (str(program), number)
        for number, line in enumerate(lines, 1)
        if line.endswith("# breaks here")
    }
