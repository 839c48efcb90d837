"""What the rules on guards make of hand-built facts."""

from __future__ import annotations

from pathlib import Path

from graphdoctor.facts.diagnosis import Finding
from graphdoctor.facts.guards import GuardNode, Guards, GuardSet, SubtreeCost
from graphdoctor.facts.recompiles import GuardChange, RecompileCause
from graphdoctor.facts.recording import Compile
from graphdoctor.rules.catalog import RULES
from graphdoctor.rules.diagnosis.diagnose import diagnose
from tests import factories


def found(guards: Guards | None, compiles: tuple[Compile, ...] = (factories.compiled(),)) -> list[Finding]:
    recording = factories.recording(compiles=compiles).model_copy(update={"guards": guards})
    findings = diagnose(recording, RULES, root=Path("/project"), version="0").findings
    return [finding for finding in findings if finding.code.startswith("GD3")]


def guard_set(count: int = 1, *, internal: bool = False, **values: object) -> GuardSet:
    node = GuardNode(
        kind="TYPE_MATCH",
        source="L['self']._modules['fc']",
        expression="self.fc",
        expected="a Linear",
        path="self.fc",
        is_module_internal=internal,
        depth=3,
        guard="",
    )
    return GuardSet(compile_id="0/0", guard_count=count, kinds={"TYPE_MATCH": count}, nodes=(node,) * count, **values)


def test_a_large_share_is_a_finding_and_names_what_costs() -> None:
    costly = guard_set(
        share=0.4,
        check_us=10.0,
        runs_per_call=1,
        bill=(
            SubtreeCost(path="self", guard_count=1, check_us=9.0),
            SubtreeCost(path="self.fc", guard_count=1, check_us=8.0),
        ),
    )
    (finding,) = found(Guards(sets=(costly,), call_us=25.0, checks_us=10.0, share=0.4))
    assert finding.code == "GD301"
    assert finding.message == "guard checks take 40% of a steady call: mostly `self`"
    assert finding.compile_ids == ("0/0",)


def test_a_share_with_warm_caches_alone_is_a_least_one() -> None:
    costly = guard_set(warm_share=0.4, check_us=10.0, runs_per_call=1)
    (finding,) = found(Guards(sets=(costly,), call_us=25.0, checks_us=10.0, warm_share=0.4))
    assert finding.message == "guard checks take at least 40% of a steady call"


def test_a_call_over_its_limit_that_runs_no_compiled_code_names_no_function() -> None:
    assert found(Guards(sets=(guard_set(runs_per_call=0),), call_us=25.0, searches_us=10.0, share=0.4)) == []


def test_a_small_or_an_unknown_share_is_none() -> None:
    assert found(Guards(sets=(guard_set(share=0.05),), share=0.05)) == []
    assert found(Guards(sets=(guard_set(),))) == []
    assert found(None) == []


def test_unsafe_remedies_say_so() -> None:
    findings = found(Guards(sets=(guard_set(1200, internal=True, share=0.5, check_us=1.0),), share=0.5))
    filters = [fix for finding in findings for fix in finding.fixes if "guard_filter_fn" in (fix.snippet or "")]
    assert filters
    assert all(fix.title.startswith("Unsafe: ") and not fix.is_safe for fix in filters)


def test_a_thousand_guards_on_modules_are_a_finding() -> None:
    (finding,) = found(Guards(sets=(guard_set(1000, internal=True),)))
    assert (finding.code, finding.severity, finding.count) == ("GD302", "info", 1000)
    assert found(Guards(sets=(guard_set(999, internal=True),))) == []
    assert found(Guards(sets=(guard_set(2000),))) == []


def recompiles(count: int) -> tuple[Compile, ...]:
    again = [
        factories.compiled(f"0/{number}", reasons=("changed",)).model_copy(
            update={
                "cause": RecompileCause(
                    nearest=f"0/{number - 1}",
                    entry_count=number,
                    changes=(
                        GuardChange(kind="number", expression="scale", old=str(number - 1), new=str(number)),
                        GuardChange(kind="flag", expression=f"flag{number}"),
                    ),
                    is_exact=True,
                )
            }
        )
        for number in range(1, count + 1)
    ]
    return (factories.compiled(), *again)


def test_a_value_that_differs_at_three_recompiles_is_a_finding() -> None:
    (finding,) = found(Guards(), recompiles(3))
    assert finding.code == "GD303"
    assert finding.message == "`scale` differed in 3 recompiles of `Net.forward`: 0, 1, 2, 3"
    assert finding.compile_ids == ("0/1", "0/2", "0/3")


def test_two_recompiles_are_no_pattern_yet() -> None:
    assert found(Guards(), recompiles(2)) == []
