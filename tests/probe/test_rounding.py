"""When a value of a variant differs from eager mode's by rounding only."""

import pytest

torch = pytest.importorskip("torch")

from graphdoctor.probe.replay.comparing import Rounding, compared, distance
from graphdoctor.probe.replay.results import Results
from graphdoctor.probe.replay.shaking import Shaken
from tests.each import for_each

INF = float("inf")
NAN = float("nan")
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
    assert judged(off(8e-7) * 1e-7, off(1e-7) * 1e-7, precise=tiny) == "same"


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


def test_a_value_that_cancels_may_move_as_far_as_eager_mode_does_with_other_last_digits():
    cancelled, eager = PRECISE * 1e-15, off(0.5) * 1e-3
    for mine, verdict in ((3e-3, "same"), (9e-3, "wrong")):
        value = off(0.5) * mine
        assert judged(value, eager, precise=cancelled) == "doubtful"
        runs = (off(0.5) * -1e-3, off(0.5) * 2e-3)
        assert judged(value, eager, *runs, precise=cancelled, is_shaken=True) == verdict
    zero = torch.zeros_like(PRECISE)
    assert judged(off(0.4), off(0.0), off(1e-6), precise=zero, is_shaken=True) == "wrong"


@pytest.mark.parametrize(
    ("error", "is_shaken", "verdict"),
    [(1.5e-5, False, "doubtful"), (1.5e-5, True, "same"), (1e-3, True, "wrong")],
)
def test_a_value_that_is_0_but_for_rounding_is_judged_by_other_last_digits(
    error: float, is_shaken: bool, verdict: str
) -> None:
    # The gradient of a bias before a batch norm, beside one of a common size.
    precise, eager, mine, moved = (
        of(*values)
        for values in (
            (PRECISE, PRECISE * 1e-16),
            (off(1e-7), off(0.0) * 1e-7),
            (off(1e-7), off(0.0) * error),
            (off(1e-7), off(0.0) * 1e-5),
        )
    )
    others = [moved] if is_shaken else []
    rounding = Rounding(precise, eager, others, judged="variant", is_shaken=is_shaken)
    differences = compared(mine, eager, rounding).differences
    found = "doubtful" if differences and differences[0].may_be_rounding else "wrong"
    assert (found if differences else "same") == verdict


def test_many_spacings_are_rounding_only_if_last_digits_move_eager_mode_as_far():
    assert judged(off(2e-5), off(1e-7)) == "doubtful"
    assert judged(off(2e-5), off(1e-7), off(3e-6), is_shaken=True) == "wrong"
    assert judged(off(2e-5), off(1e-7), off(1.2e-5), is_shaken=True) == "same"


def test_in_float64_eager_mode_is_its_own_reference():
    exact = PRECISE
    assert judged(exact * (1 + 1e-12), exact) == "doubtful"
    assert judged(exact * (1 + 1e-12), exact, exact * (1 + 1e-14), is_shaken=True) == "wrong"
    assert judged(exact * (1 + 1e-12), exact, exact * (1 + 1e-12), is_shaken=True) == "same"
    none = PRECISE * 1e-18
    assert judged(none * 5, none, none * -3, precise=none, is_shaken=True) == "same"


def test_a_run_that_is_not_finite_measures_nothing():
    infinite = off(0.0)
    infinite[3] = INF
    assert judged(off(2e-5), off(1e-7), infinite, is_shaken=True) == "wrong"
    assert judged(infinite, off(0.5), precise=PRECISE) == "wrong"


@for_each(
    "others, verdict",
    [((), "doubtful"), ((2e-4,), "same"), ((2e-6,), "doubtful"), ((2e-6, 2e-4), "same")],
)
def test_without_float64_eager_mode_s_own_changes_are_the_measure(others, verdict):
    eager = off(0.0)
    shaken = [off(other) for other in others]
    assert judged(off(3e-4), eager, *shaken, precise=None, is_shaken=bool(others)) == verdict
    wrong = judged(off(0.5), eager, *shaken, precise=None, is_shaken=bool(others))
    assert wrong == ("wrong" if others else "doubtful")


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


def test_operations_add_and_compute_with_other_last_digits():
    x = torch.randn(64, 64) + 0.1
    with Shaken(1):
        total, product, sine = x.sum(), x @ x, x.sin()
    for shaken, plain in ((total, x.sum()), (product, x @ x), (sine, x.sin())):
        assert 0 < distance(shaken, plain) < 1e-3 * plain.abs().max()
    assert distance(sine, x.sin()) <= 2**-23


def test_sums_drift_by_as_much_as_they_add() -> None:
    few, many = torch.rand(16) + 0.1, torch.rand(4096) + 0.1
    half = many.bfloat16()
    with Shaken(1):
        sums = few.sum(), many.sum(), half.sum()
    drifts = [distance(sums[0], few.sum()), distance(sums[1], many.sum())]
    assert drifts[0] < 12 * 2**-23 * few.sum()
    assert 256 * 2**-23 * many.sum() < drifts[1] < 1e-4 * many.sum()
    # Half precision is added up in float32.
    assert distance(sums[2], half.sum()) <= 2**-7 * half.sum()


def test_a_batch_norm_keeps_its_running_statistics() -> None:
    x = torch.randn(4, 8, 5, 5)
    plain, shaken = torch.nn.BatchNorm2d(8), torch.nn.BatchNorm2d(8)
    plain(x)
    with Shaken(1):
        shaken(x)
    assert plain.running_mean is not None and shaken.running_mean is not None
    assert 0 < distance(shaken.running_mean, plain.running_mean) < 1e-5
    assert shaken.running_var is not None and (shaken.running_var != 1).all()


def test_what_only_moves_or_chooses_numbers_keeps_them():
    x = torch.randn(8, 8) + 0.1
    with Shaken(1):
        chosen = [x.relu(), x.amax(0), x.clamp(-1, 1), torch.where(x > 0, x, 2.0), x.T.contiguous()]
        counts = (x > 0).float().sum()
        view = x[1]
    plain = [x.relu(), x.amax(0), x.clamp(-1, 1), torch.where(x > 0, x, 2.0), x.T.contiguous()]
    assert all(map(torch.equal, chosen, plain))
    assert view.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert counts == counts.round()
