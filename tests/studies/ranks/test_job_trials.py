"""What a trial of a job shows: verdicts, losses, times."""

from graphdoctor.facts.counts import Steps
from graphdoctor.facts.fixes import Fix
from graphdoctor.facts.recording import Environment
from graphdoctor.facts.run import Setting
from graphdoctor.rules.distributed import finding_of_job
from graphdoctor.studies.ranks.trials import Remedy, Rerun, judged, remedies_of
from tests.each import for_each
from tests.studies.ranks.reports import SIZES, compiled, found, job, rank

SETTING = Setting(name="torch._dynamo.config.optimize_ddp", value=False)
REMEDY = Remedy("setting", "Compile it in one graph", ("GD130",), SETTING)


def ran(*codes, losses=(1.0, 0.5), step_us=100.0):
    """A job of two ranks with these findings."""
    steps = Steps(count=9, intervals_us=(step_us,) * 8, losses=losses)
    findings = tuple(found(code, fingerprint=code) for code in codes)
    ranks = (rank(number, compiled(), findings=findings, steps=steps) for number in (0, 1))
    return job(*ranks).replace(exit=job(rank(0)).exit.replace(status=0))


def verdict(now, *, status=0, before=None, after=None):
    before = before or ran("GD130")
    return judged(REMEDY, Rerun(status, now), before, after or before)


@for_each(
    "now, around, status, said",
    [
        (ran("GD130"), {}, 0, "no effect"),
        (ran("GD202"), {}, 0, "makes it worse"),
        (ran(losses=(1.0, 0.6)), {}, 0, "changes results"),
        (ran(losses=(1.0, 0.500001)), {}, 0, "verified"),
        # Two runs of the untouched script have other losses, or another number of them.
        (ran(), {"before": ran("GD130"), "after": ran("GD130", losses=())}, 0, "unproven"),
        (ran(), {"before": ran("GD130"), "after": ran("GD130", losses=(7.0, 0.5))}, 0, "unproven"),
        (ran(), {}, 1, "failed"),
        (None, {}, 0, "failed"),
    ],
)
def test_verdict_goes_by_gone_findings_and_losses(now, around, status, said):
    assert verdict(now, status=status, **around).verdict == said


def test_a_trial_says_what_is_gone_and_how_losses_differ():
    trial = verdict(ran())
    assert (trial.verdict, trial.gone) == ("verified", ("GD130",))
    assert (trial.loss_count, trial.loss_difference) == (4, 0.0)


def test_step_is_faster_only_beyond_untouched_variation():
    steady = verdict(ran(step_us=50), after=ran("GD130", step_us=104))
    assert steady.speedup == (2.0, 2.08)
    assert steady.notable < 2
    noisy = verdict(ran(step_us=90), after=ran("GD130", step_us=150))
    assert noisy.notable > noisy.speedup[0]


def test_each_setting_is_tried_once_and_output_droppers_never():
    fixes = (
        Fix(title="One graph", kind="config", setting=SETTING),
        Fix(
            title="Log less",
            kind="config",
            setting=Setting(name="torch._dynamo.config.ignore_logging_functions", member="print"),
        ),
    )
    findings = tuple(found(code, fingerprint=code, fixes=fixes) for code in ("GD130", "GD403"))
    remedies = remedies_of(job(*(rank(number, compiled(), findings=findings) for number in (0, 1))))
    assert [(one.setting, one.codes) for one in remedies] == [(SETTING, ("GD130", "GD403"))]


@for_each(
    "first, again, build, titles",
    [
        (
            {},
            {"is_dynamic": True},
            None,
            ("Mark the sizes that differ", "Give all ranks the same sizes"),
        ),
        ({}, {}, None, ("Make the same calls on every rank",)),
        (
            SIZES,
            None,
            "CUDA 12.8",
            ("Mark the sizes that differ", "Let the ranks agree", "Give all ranks"),
        ),
        (SIZES, None, "CPU", ("Mark the sizes that differ", "Give all ranks")),
        (SIZES | {"operations": "another stage"}, None, None, None),
    ],
)
def test_dynamic_sizes_are_suggested_where_sizes_and_numbers_differ_alone(
    first, again, build, titles
):
    more = (
        () if again is None else (compiled("0/1", causes=("x: 1 → 2",), changed=("x",), **again),)
    )
    reports = [rank(0, compiled()), rank(1, compiled(**first), *more)]
    found = finding_of_job(
        job(*(one.replace(environment=Environment(torch_build=build)) for one in reports))
    )
    said = None if found is None else [fix.title for fix in found.fixes]
    assert said == titles or all(
        one.startswith(title) for one, title in zip(said, titles, strict=True)
    )
