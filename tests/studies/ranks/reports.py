"""Reports of ranks and jobs, made by hand."""

from dataclasses import MISSING

from graphdoctor.facts.counts import Counts
from graphdoctor.facts.diagnosis import Finding
from graphdoctor.facts.evidence import CompileMark
from graphdoctor.facts.fixes import Fix
from graphdoctor.facts.job import RankCompile, RankReport
from graphdoctor.facts.recording import Environment, TargetInfo
from graphdoctor.facts.run import ProbeExit
from graphdoctor.facts.stack import StackEntry
from graphdoctor.studies.ranks.job import job_of

NO_COUNTS = {
    name: 0 for name, field in Counts.__dataclass_fields__.items() if field.default is MISSING
}


def compiled(compile_id="0/0", function="Net.forward", line=10, **values):
    """A compile; values are those of the compile or of its mark."""
    marked = {
        name: values.pop(name) for name in list(values) if name in CompileMark.__dataclass_fields__
    }
    mark = {"operations": "ops", "graph": "graph", "guards": "guards", "collectives": ()} | marked
    return RankCompile(
        **{
            "compile_id": compile_id,
            "function": function,
            "location": StackEntry(file="net.py", line=line, function=function),
            "code": ("net.py", function, line, values.get("resumes_at")),
            "outcome": "compiled",
            "duration_s": 1.0,
            "backend_s": 0.25,
            "mark": CompileMark(compile_id=compile_id, **mark),
        }
        | values
    )


def rank(number, *compiles, **values):
    """The report of a rank with these compiles."""
    durations = [found.duration_s for found in compiles]
    summary = Counts(
        **NO_COUNTS
        | {
            "compiles": len(compiles),
            "graphs": len(compiles),
            "recompiles": sum(bool(found.causes) for found in compiles),
            "coverage": None,
            "compile_time_s": None if None in durations else sum(filter(None, durations)),
        }
    )
    return RankReport(
        **{
            "rank": number,
            "process": 100 + number,
            "summary": summary,
            "complete": True,
            "environment": Environment(torch="2.13.0"),
            "compiles": compiles,
            "findings": (),
            "gaps": (),
        }
        | values
    )


def found(code="GD202", line=12, **values):
    """A finding with a suggestion."""
    fix = Fix(
        title="Mark the dim as dynamic before the first call",
        kind="call",
        snippet="torch._dynamo.mark_dynamic(x, 0)",
    )
    return Finding(
        **{
            "code": code,
            "rule": "recompiled-size",
            "severity": "warning",
            "message": "`forward` recompiled once because `x.shape[0]` changed: 8 → 9",
            "location": StackEntry(
                file="net.py", line=line, function="Net.forward", text="return self.head(x)"
            ),
            "count": 1,
            "fingerprint": f"{code}-{line}",
            "fixes": (fix,),
        }
        | values
    )


SIZES = {"graph": "other", "guards": "other"}
"""Marks of a compile with other sizes."""


def uneven(count, *, others, causes=1):
    """A job in which some ranks recompile for another size, and one compile after that has other
    sizes there.

    Args:
        count: How many ranks.
        others: The ranks that differ.
        causes: How many times they recompile.
    """
    reports = []
    for number in range(count):
        is_other = number in others
        again = [
            compiled(f"0/{n}", causes=(f"x.shape[0]: {7 + n} → {8 + n}",))
            for n in range(1, causes + 1)
        ]
        last = compiled(
            "1/0",
            "loss",
            40,
            duration_s=2.0 + is_other * number / 10,
            **(SIZES if is_other else {}),
        )
        compiles = (compiled(), *(again if is_other else ()), last)
        reports.append(rank(number, *compiles, findings=(found(),) if is_other else ()))
    return job(*reports, recording="logs")


def job(*reports, **values):
    """The job of these ranks."""
    return job_of(
        reports,
        **{
            "target": TargetInfo(text="train.py", kind="script"),
            "ended": ProbeExit(status=0),
            "world_size": None,
            "version": "0",
        }
        | values,
    )
