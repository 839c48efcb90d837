"""When a value of a variant differs from eager mode's by rounding only."""

import pytest

torch = pytest.importorskip("torch")

from graphdoctor.probe.replay.comparing import Rounding, Shaken, compared, distance
from graphdoctor.probe.replay.results import Results
from tests.each import for_each

PRECISE = torch.linspace(1, 2, 50, dtype=torch.float64)


def of(*values):
    result = Results()
    result.add_call(values)
    return result


def off(error, *, at=None):
    """All values, or one, with a relative error."""
    errors = torch.full((50,), error, dtype=torch.float64)
    if at is not None:
        errors = torch.where(torch.arange(50) == at, error, 0.0)
    return (PRECISE * (1 + errors)).float()


def judged(value, eager, *others, precise=PRECISE, is_shaken=False, draws_random=False):
    """``same``, ``doubtful`` or ``wrong``."""
    reference = of(eager)
    reference.draws_random = draws_random
    rounding = Rounding(
        None if precise is None else of(precise),
        reference,
        [of(other) for other in others],
        judged="variant",
        is_shaken=is_shaken,
    )
    differences = compared(of(value), reference, rounding).differences
    return "same" if not differences else "doubtful" if differences[0].may_be_rounding else "wrong"


def test_variant_may_be_twice_eagers_distance_from_float64():
    assert judged(off(-1.9e-3), off(1e-3)) == "same"
    assert judged(off(-2.2e-3), off(1e-3)) == "doubtful"
    assert judged(off(-2.2e-3), off(1e-3), is_shaken=True) == "wrong"
    assert judged(off(0.5), off(1e-3)) == "wrong"


def test_one_element_and_small_gradients_may_be_wrong_too():
    assert judged(off(1e-2, at=7), off(1e-3), is_shaken=True) == "wrong"
    tiny = PRECISE * 1e-7
    assert judged(off(0.0) * 1.5e-7, off(1e-6) * 1e-7, precise=tiny) == "wrong"
    assert judged(off(1e-6) * 1e-7, off(1e-7) * 1e-7, precise=tiny) == "same"


def test_what_eager_mode_makes_of_other_last_digits_is_rounding():
    stepped = off(0.04, at=3)
    assert judged(stepped, off(1e-6), off(2e-6)) == "doubtful"
    assert judged(stepped, off(1e-6), off(2e-6), off(0.04, at=3), is_shaken=True) == "same"
    assert judged(stepped, off(1e-6), off(2e-6), off(0.01), is_shaken=True) == "wrong"


def test_one_element_that_a_step_changes_altogether_stays_in_doubt():
    stepped = off(1.0, at=3)
    assert judged(stepped, off(1e-6)) == "doubtful"
    assert judged(stepped, off(1e-6), off(2e-6), is_shaken=True) == "wrong"
    assert judged(stepped, off(1e-6), off(1.0, at=3), is_shaken=True) == "doubtful"


def test_a_program_that_last_digits_change_altogether_proves_nothing():
    for error, verdict in ((0.9, "doubtful"), (0.15, "same")):
        assert judged(off(error), off(1e-6), off(0.8), is_shaken=True) == verdict


def test_a_number_right_by_chance_is_measured_by_the_rest():
    precise = (PRECISE, PRECISE * 3, torch.tensor(1.5, dtype=torch.float64))
    rest = (off(2e-3), off(2e-3) * 3)
    eager, mine = (of(*rest, torch.tensor(number)) for number in (1.5, 1.503))
    rounding = Rounding(of(*precise), eager, [], judged="variant")
    assert compared(mine, eager, rounding).differences == ()
    changed = Rounding(of(*precise), eager, [], judged="changed")
    assert compared(mine, eager, changed).differences


@for_each(
    "others, verdict",
    [((), "doubtful"), ((2e-4,), "same"), ((2e-6,), "doubtful"), ((2e-6, 2e-4), "same")],
)
def test_without_float64_eager_mode_s_own_changes_are_the_measure(others, verdict):
    eager = off(0.0)
    shaken = [off(other) for other in others]
    assert judged(off(3e-4), eager, *shaken, precise=None, is_shaken=bool(others)) == verdict
    assert judged(off(0.5), eager, *shaken, precise=None, is_shaken=bool(others)) == "wrong"


def test_other_random_numbers_in_float64_are_no_error():
    noisy = off(1e-2)
    assert judged(off(2e-2), noisy) == "same"
    assert judged(off(2e-2), noisy, draws_random=True) == "doubtful"


def test_errors_are_root_mean_squares_against_float64():
    torch.manual_seed(0)
    precise = torch.randn(300, dtype=torch.float64)
    eager = precise.float()
    mine = precise.bfloat16().float()
    zero = torch.zeros(4, dtype=torch.float64)
    reference = of(eager, torch.full((4,), 3e-8), torch.tensor([1, 2]))
    rounding = Rounding(of(precise, zero, torch.tensor([1, 2])), reference, [], judged="variant")
    [error] = rounding.errors(of(mine, torch.full((4,), 9e-8), torch.tensor([1, 2])))
    expected = [
        ((value - precise).square().mean() / precise.square().mean()).sqrt().item()
        for value in (mine, eager)
    ]
    assert error.kind == "outputs"
    assert (error.variant, error.eager) == pytest.approx(expected, rel=1e-12)
    assert rounding.kinds_apart() == ()


def test_what_is_not_finite_has_no_error():
    infinite = PRECISE.clone()
    infinite[3] = float("inf")
    rounding = Rounding(of(infinite), of(infinite.float()), [], judged="variant")
    [error] = rounding.errors(of(infinite.float()))
    assert 0 < error.variant < 1e-7
    assert rounding.errors(of(torch.full((50,), float("nan")))) == ()


INF = float("inf")
NAN = float("nan")


@for_each(
    "value, reference, expected",
    [
        ([1.0, 2.0], [1.0, 2.5], 0.5),
        ([], [], 0.0),
        ([INF, NAN, 1.0], [INF, NAN, 3.0], 2.0),
        ([INF], [-INF], INF),
        ([NAN, 1.0], [1.0, 1.0], INF),
        ([1.0], [NAN], INF),
        ([1.0], [[1.0]], INF),
        ([1 + 2j], [1 + 4j], 2.0),
    ],
)
def test_distance_of_values_is_their_largest_element_distance(value, reference, expected):
    assert distance(torch.tensor(value), torch.tensor(reference)) == expected


SPARSE = torch.eye(3).to_sparse()


@for_each(
    "value, expected_value, is_same",
    [
        (torch.ones(3), torch.ones(3), True),
        (torch.tensor([NAN, 0.0]), torch.tensor([NAN, -0.0]), True),
        (torch.ones(3), torch.ones(3, dtype=torch.float64), False),
        (torch.ones(3), torch.ones(1, 3), False),
        (torch.ones(3), torch.ones(3) + 1e-7, True),
        (torch.ones(3), torch.ones(3) + 1e-3, False),
        (SPARSE, SPARSE.clone(), True),
        (torch.tensor([]), torch.tensor([]), True),
    ],
)
def test_state_is_the_same_as_far_as_assert_close_says(value, expected_value, is_same):
    mine = Results()
    reference = Results()
    mine.values["state"]["buffer"], reference.values["state"]["buffer"] = value, expected_value
    assert (not compared(mine, reference).differences) is is_same


def test_last_digits_change_up_and_down_and_whole_numbers_stay():
    parameter = torch.nn.Parameter(torch.rand(100) + 0.1)
    whole = torch.arange(100.0)
    half = (torch.rand(100) + 0.1).bfloat16()
    before = [value.detach().clone() for value in (parameter, whole, half)]
    Shaken(1).shake([parameter, whole, half, torch.arange(3)])
    changes = [
        (value.detach() / old - 1).double()
        for value, old in zip((parameter, half), before[::2], strict=True)
    ]
    assert changes[0].abs().max() == pytest.approx(8 * 2**-23, rel=0.2)
    assert changes[1].abs().max() == pytest.approx(2**-7, rel=0.5)
    assert all(change.min() < 0 < change.max() for change in changes)
    assert torch.equal(whole, before[1])
    assert parameter.requires_grad
