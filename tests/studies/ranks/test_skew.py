from graphdoctor.studies.ranks.agreement import hang_candidates, rows_of
from tests.each import for_each
from tests.studies.ranks.reports import compiled, job, rank

REDUCE = (
    "torch.ops._c10d_functional.all_reduce_.default",
    "torch.ops._c10d_functional.wait_tensor.default",
)
GATHER = ("torch.ops._c10d_functional.all_gather_into_tensor.default",)


def test_a_rank_that_recompiles_alone_makes_the_others_wait():
    found = job(
        rank(0, compiled()),
        rank(1, compiled(), compiled("0/1", duration_s=2.0, causes=("x: 1 → 2",))),
    )
    assert (found.skew.straggler.rank, found.skew.straggler.why) == (1, "alone")
    assert found.skew.straggler.extra_s == 2.0
    assert [each.waits_s for each in found.ranks] == [2.0, 0.0]
    assert found.skew.job_s == 3.0
    assert found.skew.compile_s == (1.0, 3.0)


def test_a_rank_whose_cache_is_empty_is_the_straggler():
    slow = compiled(duration_s=9.0, cache="miss")
    found = job(rank(0, compiled(cache="hit")), rank(1, slow), rank(2, compiled(cache="hit")))
    assert (found.skew.straggler.rank, found.skew.straggler.why) == (1, "cache")


def test_the_part_that_takes_longer_is_named():
    slow = compiled(duration_s=9.0, backend_s=8.0)
    assert job(rank(0, compiled()), rank(1, slow)).skew.straggler.why == "backend"
    slow = compiled(duration_s=9.0, backend_s=0.25)
    assert job(rank(0, compiled()), rank(1, slow)).skew.straggler.why == "dynamo"
    slow = compiled(duration_s=9.0, backend_s=None)
    assert job(rank(0, compiled()), rank(1, slow)).skew.straggler.why == "unknown"


def test_small_differences_make_no_straggler():
    assert job(rank(0, compiled()), rank(1, compiled(duration_s=1.05))).skew.straggler is None


def test_unknown_times_stay_unknown():
    found = job(rank(0, compiled()), rank(1, compiled(duration_s=None)))
    assert found.skew.compile_s is None
    assert found.skew.job_s is None
    assert [each.waits_s for each in found.ranks] == [None, None]


HEAD = compiled("1/0", "head", 40)
SYNC = compiled("1/0", "sync", 40, collectives=REDUCE)
AGAIN = compiled("0/1", collectives=REDUCE, causes=("x: 1 → 2",))
UNFINISHED = compiled("1/0", "head", 40, outcome="unfinished")
WORDS = ("rank 0: aten.mul.Tensor", "rank 1: aten.add.Tensor")


@for_each(
    "reports, told",
    [
        (
            (rank(0, compiled(collectives=REDUCE)), rank(1, compiled(collectives=GATHER))),
            [("schedule", "0/0", (0,), (1,), REDUCE[:1], ())],
        ),
        (tuple(rank(number, compiled(collectives=REDUCE)) for number in range(3)), []),
        # One rank never compiles a graph with collectives.
        (
            (rank(0, compiled(), SYNC), rank(1, compiled()), rank(2, compiled(), SYNC)),
            [("absent", "1/0", (0, 2), (1,), REDUCE[:1], ())],
        ),
        # A recompile of such a graph is not absent elsewhere.
        ((rank(0, compiled(collectives=REDUCE), AGAIN), rank(1, compiled(collectives=REDUCE))), []),
        (
            (rank(0, compiled(), HEAD), rank(1, compiled(), UNFINISHED, complete=False)),
            [("stopped", "1/0", (0,), (1,), (), ())],
        ),
        (
            (
                rank(0, compiled(), HEAD, executed=("0/0", "1/0")),
                rank(1, compiled(), HEAD, executed=("1/0", "0/0")),
            ),
            [("order", "0/0", (0,), (1,), (), ())],
        ),
        # torch itself found them different.
        (
            (rank(0, compiled(mismatch=WORDS)), rank(1, compiled(mismatch=WORDS))),
            [("graph", "0/0", (0, 1), (), (), WORDS)],
        ),
        # The rank whose end ends the others in the middle of a compile.
        (
            (rank(0, compiled(), UNFINISHED, complete=False), rank(1, compiled(), complete=False)),
            [("stopped", "1/0", (0,), (1,), (), ())],
        ),
    ],
)
def test_where_ranks_can_wait_forever(reports, told):
    found = hang_candidates(rows_of(reports), reports)
    assert [
        (one.kind, one.compile, one.waiting, one.missing, one.collectives, one.words)
        for one in found
    ] == told
