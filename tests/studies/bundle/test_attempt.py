"""Whether a script's run shows what the recording shows, on recordings built by hand."""

from pathlib import Path

from graphdoctor.facts.recording import Call, CallError
from graphdoctor.facts.run import ProbeExit
from graphdoctor.studies.bundle.script import compared
from tests.each import for_each
from tests.factories import entry, record, recording

FOLDER = Path("/run")
FINISHED = ProbeExit(status=0, reason="finished")


def run(*prints, file="/run/reproduce.py", **facts):
    breaks = tuple(
        record(entry(5 + line, f'print("{text}")', file=file)) for line, text in enumerate(prints)
    )
    return recording(breaks=breaks).replace(**{"exit": FINISHED, **facts})


def failing(name):
    return ProbeExit(
        status=1, reason="error", message=f"The program failed: {name}: x", error_type=name
    )


def failing_call(name):
    return (
        Call(
            index=1,
            outcome="error",
            error=CallError(type=name, message="x", traceback="", from_compiler=True),
        ),
    )


def test_breaks_are_the_same_in_any_file():
    found = compared(run("a", "b", file="/project/model.py"), run("a", "b"), FOLDER)
    assert (found.is_same, "does what was recorded" in found.words) == (True, True)


def test_a_missing_break_and_another_one_are_named():
    found = compared(run("a", "b"), run("a", "c"), FOLDER)
    assert found.is_same is False
    assert found.words.count("print(") == 4


@for_each(
    "before, after, is_same, words",
    [
        ({"exit": failing("ValueError")}, {"exit": failing("ValueError")}, True, ""),
        ({"calls": failing_call("a.b.Unsupported")}, {"exit": failing("Unsupported")}, True, ""),
        (
            {"calls": failing_call("Error")},
            {"exit": failing("ValueError")},
            False,
            "error: Error recorded, ValueError now",
        ),
        ({"exit": failing("ValueError")}, {}, False, "error: ValueError recorded, none now"),
        ({}, {"exit": failing("ValueError")}, False, "error: none recorded, ValueError now"),
        ({}, {}, True, ""),
    ],
)
def test_a_failure_is_compared_by_the_type_of_its_exception(before, after, is_same, words):
    found = compared(run(**before), run(**after), FOLDER)
    assert (found.is_same, words in found.words) == (is_same, True)


def test_a_run_that_was_stopped_is_not_the_same():
    stopped = ProbeExit(status=-9, reason="timeout", message="Stopped after 60 s.")
    found = compared(run("a"), run("a", exit=stopped), FOLDER)
    assert (found.is_same, "Stopped after 60 s." in found.words) == (False, True)


def test_project_files_that_the_script_needs_are_named():
    after = run("a")
    outside = tuple(found.replace(file="/project/layers.py") for found in after.frames)
    within = tuple(found.replace(file="/run/reproduce.py") for found in after.frames)
    assert outside
    words = [
        compared(run("a"), run("a", frames=frames), FOLDER).words for frames in (outside, within)
    ]
    assert ["layers.py" in text for text in words] == [True, False]
