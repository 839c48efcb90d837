"""Comparisons of surveys made by hand."""

from graphdoctor.studies.survey.comparison import compare_surveys
from tests.studies.survey.reports import cause, failed, report, row

HELPER = cause(
    line=50, fingerprint="f9", text="if mask.any():", code="GD102", rule="data-dependent-branch"
)


def changed(**more):
    """Something of each verdict, under one variant and under two."""
    before = [
        *(
            row(name)
            for name in (
                "bert",
                "gpt2",
                "t5",
                "vit",
                "clip",
                "lost",
                "steady",
                "slow",
                "flaky",
                "busy",
            )
        ),
        row("bert", "dynamic"),
        failed("opt", "compile_failed", stage="dynamo", error="Unsupported: a generator"),
        failed("llama", "compile_failed", stage="inductor", error="out of registers"),
        row("mamba", break_sites=3, coverage=0.5),
        row("removed"),
    ]
    broken = {"break_sites": 1, "graphs": 3, "coverage": 0.62}
    after = [
        failed(
            "bert",
            "compile_failed",
            stage="inductor",
            error="an operator isn't supported: aten.segment_reduce",
            error_type="torch._inductor.exc.InductorError",
            torch="2.14.0",
        ),
        row("gpt2", causes=(HELPER,), **broken),
        row("t5", causes=(HELPER.replace(line=61),), **broken),
        row("vit", compile_cold_s=30.0, peak_memory_bytes=900_000_000),
        row("clip", coverage=None),
        failed("lost", "lost", error="The node 10.0.0.7 left the cluster."),
        row("steady"),
        row("slow", speedup=1.1, speedup_low=1.06, speedup_high=1.14),
        failed("flaky", "crashed", attempts=2, earlier=("ok",), error="It was ended by signal 11."),
        row("busy", speedup=1.1, speedup_low=1.06, speedup_high=1.14, is_noisy=True),
        row("bert", "dynamic", exports=False),
        row("opt"),
        failed("llama", "compile_failed", stage="inductor", error="out of registers"),
        row("mamba"),
        failed("added", "eager_failed", error="a bug of its own"),
    ]
    given = {"version": "0.2.0", "paths": ("last-week.parquet", "this-week.parquet")}
    return compare_surveys(
        report(before),
        report(after, started="2026-11-30T01:20:00Z", options={"bench": True, "timeout_s": 900.0}),
        **given | more,
    )
