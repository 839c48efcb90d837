"""Surveys made by hand."""

from graphdoctor.facts.survey import SurveyCause, SurveyReport, SurveyRow, SurveyVariant
from graphdoctor.studies.survey.summary import summarize

STARTED = "2026-11-23T01:20:00Z"


def cause(**more):
    """``.item()`` in a helper that many models share."""
    given = {
        "code": "GD101",
        "rule": "tensor-item",
        "severity": "warning",
        "message": "`.item()` needs the value of a tensor, so torch splits the graph.",
        "file": "transformers/masking.py",
        "line": 41,
        "function": "make_mask",
        "text": "size = lengths.max().item()",
        "package": "transformers",
        "fix": "Keep the value in a tensor",
        "fix_verdict": "not tried",
        "fingerprint": "f1",
    }
    return SurveyCause(**given | more)


def export_stop(**more):
    """An output that ``torch.export`` doesn't know."""
    given = {
        "code": "GD601",
        "rule": "export-type",
        "severity": "error",
        "message": "torch.export can't take `DynamicCache` apart",
        "file": "transformers/models/bert.py",
        "line": 70,
        "function": "BertModel.forward",
        "text": "return Output(hidden, cache)",
        "fix": "Register the class",
    }
    return cause(**given | more)


def row(name="bert", variant="default", **more):
    """A target that compiles and is faster."""
    given = {
        "name": name,
        "target": f"models/{name}.py",
        "family": "text",
        "variant": variant,
        "status": "ok",
        "torch": "2.13.0+cpu",
        "python": "3.11.7",
        "device": "cpu",
        "host": "node-1",
        "calls": 2,
        "break_sites": 0,
        "skipped_frames": 0,
        "recompiles": 0,
        "frames_over_limit": 0,
        "graphs": 1,
        "coverage": 1.0,
        "compile_s": 1.5,
        "compile_cold_s": 8.0,
        "compile_warm_s": 2.0,
        "call_us": 1000.0,
        "eager_us": 1500.0,
        "speedup": 1.5,
        "speedup_low": 1.45,
        "speedup_high": 1.55,
        "is_noisy": False,
        "noise": 1.01,
        "peak_memory_bytes": 300_000_000,
        "correct": True,
        "seconds": 21.0,
        "started": STARTED,
        "fingerprint": f"{name}-{variant}",
        "command": f"graphdoctor explain models/{name}.py --backend inductor",
        "report": f"pieces/{name}/{variant}.html",
    }
    return SurveyRow(**given | more)


def failed(name, status, **more):
    """A row without numbers."""
    unknown = dict.fromkeys(
        [
            *(
                "calls",
                "break_sites",
                "skipped_frames",
                "recompiles",
                "frames_over_limit",
                "graphs",
                "coverage",
            ),
            *(
                "compile_s",
                "compile_cold_s",
                "compile_warm_s",
                "call_us",
                "eager_us",
                "speedup",
                "speedup_low",
            ),
            *("speedup_high", "is_noisy", "noise", "peak_memory_bytes", "correct", "report"),
        ]
    )
    return row(name, **{**unknown, "status": status, **more})


def report(rows=None, **more):
    """Two ways to compile five models of two families."""
    rows = tuple(_rows() if rows is None else rows)
    variants = (
        SurveyVariant(name="default", settings={"backend": "inductor"}, torch="2.13.0+cpu"),
        SurveyVariant(
            name="dynamic", settings={"backend": "inductor", "dynamic": True}, torch="2.13.0+cpu"
        ),
    )
    given = {
        "graphdoctor_version": "0.2.0",
        "name": "nightly",
        "started": STARTED,
        "seconds": 260.0,
        "options": {"bench": True, "timeout_s": 600.0},
        "engine": "2 processes",
        "variants": variants,
        "rows": rows,
        "planned": len(rows),
        "summary": summarize(rows, [each.name for each in variants], seconds=260.0, made=len(rows)),
    }
    return SurveyReport(**given | more)


def _rows():
    broken = {"break_sites": 1, "graphs": 3, "coverage": 0.62, "causes": (cause(),)}
    raised = {
        "stage": "inductor",
        "error": "an operator isn't supported",
        "error_type": "torch._inductor.exc.InductorError",
    }
    return (
        row("bert"),
        row("bert", "dynamic", speedup=1.3, speedup_low=1.28, speedup_high=1.33, call_us=1154.0),
        row("gpt2", **broken, speedup=0.9, speedup_low=0.88, speedup_high=0.93, call_us=1667.0),
        row(
            "gpt2",
            "dynamic",
            **broken,
            speedup=0.91,
            speedup_low=0.85,
            speedup_high=1.02,
            is_noisy=True,
        ),
        row(
            "t5",
            **{
                **broken,
                "causes": (cause(line=44, fix_verdict="verified", eager_frames=1, call_us=120.0),),
            },
            speedup=1.1,
            speedup_low=1.05,
            speedup_high=1.2,
        ),
        failed(
            "t5",
            "compile_failed",
            variant="dynamic",
            **raised,
            traceback="Traceback …\nInductorError: an operator",
        ),
        row(
            "vit",
            family="vision",
            speedup=2.1,
            speedup_low=2.0,
            speedup_high=2.2,
            compile_cold_s=20.0,
        ),
        failed(
            "vit",
            "timeout",
            variant="dynamic",
            family="vision",
            stage="bench",
            error="It was stopped after 600 s.",
        ),
        failed(
            "clip",
            "no_inputs",
            family="vision",
            stage="prepare",
            error="No inputs were found for CLIPModel.",
        ),
        row("clip", "dynamic", family="vision", status="ok", attempts=2, earlier=("crashed",)),
    )
