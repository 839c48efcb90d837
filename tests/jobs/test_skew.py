from graphdoctor.studies.ranks.agreement import rows_of
from graphdoctor.studies.ranks.waits import hang_candidates
from tests.job_reports import compiled, job, rank

REDUCE = ("torch.ops._c10d_functional.all_reduce_.default", "torch.ops._c10d_functional.wait_tensor.default")
GATHER = ("torch.ops._c10d_functional.all_gather_into_tensor.default",)


def hangs(*reports):
    return hang_candidates(rows_of(reports), reports)


def test_a_rank_that_recompiles_alone_makes_the_others_wait():
    found = job(rank(0, compiled()), rank(1, compiled(), compiled("0/1", duration_s=2.0, causes=("x: 1 → 2",))))
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


def test_other_collectives_can_hang():
    reports = [rank(0, compiled(collectives=REDUCE)), rank(1, compiled(collectives=GATHER))]
    (found,) = hangs(*reports)
    assert (found.kind, found.waiting, found.missing) == ("schedule", (0,), (1,))
    assert found.collectives == REDUCE[:1]


def test_the_same_collectives_cannot():
    assert hangs(*(rank(number, compiled(collectives=REDUCE)) for number in range(3))) == ()


def test_a_graph_with_collectives_that_one_rank_never_compiles():
    reduce = compiled("1/0", "sync", 40, collectives=REDUCE)
    (found,) = hangs(rank(0, compiled(), reduce), rank(1, compiled()), rank(2, compiled(), reduce))
    assert (found.kind, found.waiting, found.missing) == ("absent", (0, 2), (1,))


def test_a_recompile_of_a_graph_with_collectives_is_not_absent_elsewhere():
    again = compiled("0/1", collectives=REDUCE, causes=("x: 1 → 2",))
    assert hangs(rank(0, compiled(collectives=REDUCE), again), rank(1, compiled(collectives=REDUCE))) == ()


def test_a_rank_that_stops_in_a_compile():
    going = rank(0, compiled(), compiled("1/0", "head", 40))
    stopped = rank(1, compiled(), compiled("1/0", "head", 40, outcome="unfinished"), complete=False)
    (found,) = hangs(going, stopped)
    assert (found.kind, found.function, found.waiting, found.missing) == ("stopped", "head", (0,), (1,))


def test_graphs_that_run_in_another_order():
    graphs = (compiled(), compiled("1/0", "head", 40))
    found = hangs(rank(0, *graphs, executed=("0/0", "1/0")), rank(1, *graphs, executed=("1/0", "0/0")))
    assert [(each.kind, each.compile) for each in found] == [("order", "0/0")]


def test_graphs_that_torch_itself_found_different():
    words = ("rank 0: aten.mul.Tensor", "rank 1: aten.add.Tensor")
    (found,) = hangs(rank(0, compiled(mismatch=words)), rank(1, compiled(mismatch=words)))
    assert (found.kind, found.waiting, found.words) == ("graph", (0, 1), words)


def test_a_rank_whose_end_ends_the_others_in_the_middle_of_a_compile():
    begun = rank(0, compiled(), compiled("1/0", "head", 40, outcome="unfinished"), complete=False)
    (found,) = hangs(begun, rank(1, compiled(), complete=False))
    assert (found.kind, found.function, found.waiting, found.missing) == ("stopped", "head", (0,), (1,))
