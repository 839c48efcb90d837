"""What a finding costs in another, slower call isn't repeated in a profile whose call takes
less."""

from __future__ import annotations

from graphdoctor.facts.diagnosis import Cost
from graphdoctor.facts.recording import SteadyCall
from graphdoctor.studies.profile.report import profile_report
from tests.each import for_each
from tests.factories import diagnosed, entry, recording
from tests.factories import record as broken_at
from tests.studies.profile.facts import profiled


@for_each("gap_us, is_said", [(60.0, True), (21_000.0, False)])
def test_no_cost_is_more_than_the_call(gap_us: float, is_said: bool) -> None:
    facts = recording(breaks=(broken_at(entry(12, "print(x)")),)).replace(
        profiled=profiled(()), steady_call=SteadyCall(call_us=30_000.0, runs=())
    )
    diagnosis = diagnosed(facts)
    finding = diagnosis.findings[0].replace(
        cost=Cost(call_us=gap_us, call_from="gap", share=0.7, compile_s=2.0)
    )
    (shown,) = profile_report(facts, diagnosis.replace(findings=(finding,)), version="0").findings
    assert shown.cost is not None
    assert (shown.cost.call_us, shown.cost.share) == ((gap_us, 0.7) if is_said else (None, None))
    assert shown.cost.compile_s == 2.0
