"""What comparing a variant with eager mode means, from hand-built results."""

from graphdoctor.facts.run import ProbeExit
from graphdoctor.facts.trials import Comparison, Difference, Replay, ResultError
from graphdoctor.trials.judge import EAGER_NUMBERS, Reference
from graphdoctor.trials.program import Program
from graphdoctor.views.reasons import reasons_text
from tests.each import for_each
from tests.factories import recording

ERROR = ResultError(kind="outputs", variant=2e-7, eager=1e-7)


def difference(kind="outputs", largest=0.5, **more):
    return Difference(kind=kind, where="call 1, output", largest=largest, **more)


def replayed(
    *differences, kinds=("outputs", "gradients"), is_bitwise_equal=False, note=None, **more
):
    compared = Comparison(
        kinds=tuple(kinds), differences=differences, is_bitwise_equal=is_bitwise_equal, note=note
    )
    replay = Replay(**{"compared": {"eager": compared}, "errors": (ERROR,), **more})
    return recording().replace(replay=replay)


FAILED = recording(
    ended=ProbeExit(
        status=1, reason="error", message="The program failed in call 1: RuntimeError: no."
    )
)


class Scripted:
    """Replays whose recordings are known."""

    def __init__(self, shaken=(), **recordings):
        self.recordings = {
            "eager": replayed(),
            "eager_again": replayed(is_bitwise_equal=True),
            "float64": replayed(),
        }
        self.recordings |= recordings
        self.shaken = list(shaken)
        self.asked = {}

    def replay(self, _program, name, **asked):
        self.asked[name] = asked
        assert (
            _program == Program().changed(EAGER_NUMBERS)
            if name == "variant-eager-numbers"
            else Program()
        )
        if "shaken" in name:
            assert asked["rounding"].others[-1] == name
            return self.shaken.pop(0)
        return self.recordings[name.removeprefix("results-").replace("-", "_")]


def judged(variant, repeated=None, shaken=(), **recordings):
    """The verdict.

    Args:
        variant: The variant's replay.
        repeated: The same with eager mode's random numbers; None if nothing asks for it.
        shaken: Runs of eager mode with other last digits, all of which must be made.
        recordings: Other runs of eager mode than the usual ones.
    """
    replays = Scripted(shaken, **recordings)
    reference = Reference(replays, Program(), on_phase=lambda _text: None)

    if repeated is not None:
        replays.recordings["variant_eager_numbers"] = repeated
    verdict = reference.judge(variant, Program(), "variant")
    assert ("variant-eager-numbers" in replays.asked) == (repeated is not None)
    assert not replays.shaken
    return verdict


def beside_shaken(*differences):
    """A run of eager mode with other last digits, beside which a variant has differences."""
    earlier = Comparison(kinds=("outputs",), differences=differences)
    return replayed(
        compared={"earlier": earlier, "eager": Comparison(kinds=("outputs",), differences=())}
    )


def test_equal_results_are_correct_and_come_with_their_errors():
    verdict = judged(replayed())
    assert (verdict.correct, reasons_text(verdict.reasons)) == (True, None)
    assert (verdict.correctness.errors, verdict.correctness.note) == ((ERROR,), None)
    assert (verdict.correctness.is_bitwise_equal, verdict.correctness.is_eager_repeatable) == (
        False,
        True,
    )


def test_other_results_are_wrong():
    verdict = judged(replayed(difference()))
    assert (verdict.correct, reasons_text(verdict.reasons)) == (
        False,
        "call 1, output differs by 0.5",
    )
    assert (verdict.correctness.where, verdict.correctness.largest) == ("call 1, output", 0.5)


def test_a_difference_that_last_digits_make_is_rounding():
    small = difference("gradients", largest=2e-5, may_be_rounding=True)
    verdict = judged(replayed(small), shaken=[beside_shaken(small), beside_shaken()])
    assert (verdict.correct, reasons_text(verdict.reasons)) == (True, None)
    assert verdict.correctness.note == (
        "eager mode's results change as much if the last digits of its inputs and parameters do"
    )


def test_a_difference_that_no_last_digits_make_is_wrong():
    small = difference("gradients", largest=2e-5, may_be_rounding=True)
    last = difference("gradients", largest=2e-5)
    verdict = judged(replayed(small), shaken=[beside_shaken(last)] * 6)
    assert (verdict.correct, reasons_text(verdict.reasons)) == (
        False,
        "call 1, output differs by 2e-05",
    )


def test_a_difference_that_may_be_rounding_is_not_called_wrong():
    small = difference(largest=2e-5, may_be_rounding=True)
    verdict = judged(replayed(small), float64=FAILED, shaken=[beside_shaken(small)] * 6)
    assert (verdict.correct, reasons_text(verdict.reasons)) == (
        None,
        "call 1, output differs by 2e-05, which may be rounding",
    )
    assert verdict.correctness.note == (
        "the program doesn't run in float64: The program failed in call 1: RuntimeError: no"
    )
    # What is certainly wrong decides, and eager mode isn't run for it.
    assert judged(replayed(small, difference("gradients"))).correct is False


@for_each("kind, correct", [("outputs", None), ("gradients", False)])
def test_what_differs_from_run_to_run_decides_nothing(kind, correct):
    verdict = judged(replayed(difference(kind)), eager_again=replayed(difference("outputs")))
    assert verdict.correct is correct
    if correct is None:
        assert reasons_text(verdict.reasons) == "outputs differ from run to run in eager mode too"


def test_times_that_a_module_keeps_may_differ():
    timer = difference("state", None, change="numbers")
    assert judged(replayed(timer), eager_again=replayed(timer)).correct
    assert judged(replayed(timer)).correct is False


def test_other_random_numbers_are_by_design():
    random = replayed(draws_random=True)
    verdict = judged(replayed(difference(), draws_random=True), replayed(), eager=random)
    assert (verdict.correct, reasons_text(verdict.reasons)) == (True, None)
    assert verdict.correctness.note == (
        "torch.compile draws other random numbers by design; with eager mode's, results agree"
    )
    wrong = judged(replayed(difference()), replayed(difference(largest=0.25)), eager=random)
    assert (wrong.correct, reasons_text(wrong.reasons)) == (False, "call 1, output differs by 0.25")
    failed = judged(replayed(difference()), FAILED, eager=random)
    assert (failed.correct, reasons_text(failed.reasons)) == (
        False,
        "call 1, output differs by 0.5",
    )


def test_too_large_outputs_are_not_called_correct():
    verdict = judged(
        replayed(kinds=("state",), note="from call 1 on, values are too large to compare")
    )
    assert (verdict.correct, reasons_text(verdict.reasons)) == (
        None,
        "its outputs are too large to compare",
    )


@for_each(
    "more, note",
    [
        ({"errors": ()}, "no result is a floating-point number"),
        (
            {"kinds_apart": ("outputs", "state")},
            "in float64, outputs and state are computed in another way",
        ),
    ],
)
def test_what_float64_does_not_say_is_noted(more, note):
    assert judged(replayed(**more)).correctness.note == note
