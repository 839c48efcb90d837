"""What a recording lacks: each gap has a kind, and none tells people which option to use."""

import subprocess
import sys

from graphdoctor.facts.recording import TargetInfo
from graphdoctor.trace.gaps import log_gaps, part_gaps, run_gaps, script_gaps
from graphdoctor.trace.grammar import LogDamage
from graphdoctor.trace.merge import Part
from tests import factories
from tests.conftest import RECORDED_LOGS
from tests.each import for_each

FOLDERS = sorted({log.parent for log in RECORDED_LOGS.rglob("*.log")})
DAMAGE = LogDamage(broken_records=2, altered_payloads=1, bad_bytes=1)
SCRIPT = TargetInfo(kind="script")


def changed(**fields):
    """A recording with one compile, and with other fields."""
    return factories.recording().replace(**({"compiles": (factories.compiled(),)} | fields))


def kinds(gaps):
    return [gap.kind for gap in gaps]


def test_damage_of_the_log():
    assert kinds(log_gaps(LogDamage(), {})) == []
    assert kinds(log_gaps(DAMAGE, {"dynamo_start": 3})) == [
        "log_damage",
        "log_damage",
        "log_damage",
        "unreadable_record",
    ]
    (gap,) = log_gaps(LogDamage(broken_records=1, is_last_broken=True), {})
    assert (gap.kind, gap.message) == (
        "log_cut",
        "Couldn't read 1 record of the trace log; the last one is cut off.",
    )


def test_parts_of_other_processes_and_after_a_reset():
    recording = changed(target=SCRIPT)
    assert kinds(part_gaps([Part(recording)])) == []
    assert kinds(part_gaps([Part(recording), Part(recording, "p2", 1)])) == [
        "several_processes",
        "dynamo_reset",
    ]


@for_each(
    "is_ours, is_unfinished, unfinished, expected",
    [
        (True, False, [], []),
        (False, False, [], ["foreign_log"]),
        (True, True, [], ["coverage"]),
        (True, True, ["0/0"], ["coverage", "unfinished_compile"]),
        (False, True, ["0/0"], ["foreign_log", "unfinished_compile"]),
    ],
)
def test_what_a_process_lacks(*, is_ours, is_unfinished, unfinished, expected):
    for target, is_known in (
        (TargetInfo(), expected),
        (SCRIPT, [kind for kind in expected if kind != "coverage"]),
    ):
        lacking = changed(target=target, coverage=None)
        assert (
            kinds(run_gaps(lacking, unfinished, is_ours=is_ours, is_unfinished=is_unfinished))
            == is_known
        )


@for_each(
    "has_compiles, is_hooked, expected",
    [
        (True, True, ["coverage"]),
        (True, False, ["recorder_not_loaded", "coverage"]),
        (False, True, ["nothing_compiled"]),
        (False, False, ["recorder_not_loaded"]),
    ],
)
def test_what_a_script_lacks(*, has_compiles, is_hooked, expected):
    compiles = (factories.compiled(),) if has_compiles else ()
    assert (
        kinds(script_gaps(changed(target=SCRIPT, compiles=compiles), is_hooked=is_hooked))
        == expected
    )


def test_nothing_is_imported_that_was_not_asked_for():
    code = (
        "import pathlib, sys; from graphdoctor.trace.reader import read_recording; "
        f"read_recording(pathlib.Path({str(FOLDERS[0])!r})); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name for name in done.stdout.split() if name.startswith("graphdoctor.trace.")}
    assert loaded
    for name in ("picture", "stages", "printed_graph", "guards", "causes"):
        assert f"graphdoctor.trace.{name}" not in loaded, name
