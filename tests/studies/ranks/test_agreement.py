from graphdoctor.studies.ranks.agreement import hang_candidates, rows_of, with_texts
from graphdoctor.studies.ranks.view import verdict
from tests.each import for_each
from tests.studies.ranks.reports import compiled, job, rank
from tests.studies.ranks.reports import found as finding


@for_each(
    "what, values",
    [
        ("outcome", {"outcome": "skipped"}),
        ("operations", {"operations": "others", "graph": "another"}),
        ("sizes", {"graph": "another"}),
        ("collectives", {"collectives": ("all_reduce",)}),
        ("causes", {"causes": ("x: 1 → 3",), "changed": ("number x",)}),
        ("guards", {"guards": "others"}),
    ],
)
def test_the_first_thing_that_differs_is_named(what, values):
    found = job(rank(0, compiled()), rank(1, compiled(**values)), rank(2, compiled()))
    divergence = found.first_divergence
    assert (found.agreement[0].agree, divergence.what, divergence.ranks) == (False, what, (1,))
    assert [value.ranks for value in divergence.values] == [(0, 2), (1,)]


def test_resume_function_is_no_frame_of_the_whole_function():
    found = job(
        rank(0, compiled(), compiled("1/0", resumes_at=14)),
        rank(1, compiled(), compiled("1/0", occurrence=1)),
    )
    rows = [
        (row.compile, row.resumes_at, [group.compile_id for group in row.groups])
        for row in found.agreement
    ]
    assert rows == [
        ("0/0", None, ["0/0"]),
        ("1/0", None, [None, "1/0"]),
        ("1/0", 14, ["1/0", None]),
    ]
    assert found.first_divergence.resumes_at is None


def test_each_group_says_in_what_it_differs_from_most():
    found = job(
        *(rank(number, compiled()) for number in range(3)),
        rank(3, compiled(guards="others")),
        rank(4, compiled(graph="another", guards="others")),
        rank(5),
    )
    differences = {group.ranks: group.differs_in for group in found.agreement[0].groups}
    assert differences == {
        (0, 1, 2): (),
        (3,): ("guards",),
        (4,): ("sizes", "guards"),
        (5,): ("presence",),
    }


def test_what_a_cache_answered_is_no_disagreement():
    found = job(rank(0, compiled(cache="miss")), rank(1, compiled(cache="hit")))
    assert found.agreement[0].agree
    assert found.agreement[0].differs_in == ("cache",)
    assert [(group.ranks, group.cache) for group in found.agreement[0].caches] == [
        ((0,), "miss"),
        ((1,), "hit"),
    ]
    assert found.first_divergence is None


def test_extra_function_on_one_rank_shifts_no_other():
    others = (compiled(), compiled("1/0", "Net.head", 30))
    more = (compiled(), compiled("1/0", "Net.extra", 20), compiled("2/0", "Net.head", 30))
    found = job(rank(0, *others), rank(1, *more))
    assert [(row.function, row.agree) for row in found.agreement] == [
        ("Net.forward", True),
        ("Net.extra", False),
        ("Net.head", True),
    ]
    assert found.first_divergence.what == "presence"
    assert [value.value for value in found.first_divergence.values] == ["-", "compiled"]


def test_recompile_of_one_rank_is_named_with_its_cause():
    again = compiled("0/1", causes=("x.shape[0]: 8 → 9",))
    found = job(rank(0, compiled()), rank(1, compiled(), again), rank(2, compiled()))
    assert found.first_divergence.compile == "0/1"
    values = {value.ranks: value.value for value in found.first_divergence.values}
    assert values == {(0, 2): "-", (1,): "x.shape[0]: 8 → 9"}


def test_several_instances_of_one_function_stay_apart():
    layers = [compiled(f"{number}/0", "Block.forward", occurrence=number) for number in range(3)]
    agreement = job(rank(0, *layers), rank(1, *layers[:2])).agreement
    assert [row.agree for row in agreement] == [True, True, False]


def test_one_code_that_ranks_know_under_other_names_is_one_row():
    code = ("net.py", "<lambda>", 22, None)
    again = compiled("0/1", "main.<lambda>", 21, code=code, causes=("t.shape[1]: 128 → 192",))
    found = job(
        rank(0, compiled("0/0", "main", 21, code=code)),
        rank(1, compiled("0/0", "main.<lambda>", 22, code=code), again),
    )
    assert [(row.compile, row.agree) for row in found.agreement] == [("0/0", True), ("0/1", False)]
    assert [value.value for value in found.first_divergence.values] == ["-", again.causes[0]]


def test_ranks_without_a_log_are_named():
    assert job(rank(0), rank(3)).absent == (1, 2)
    assert job(rank(0), rank(1), world_size=4).absent == (2, 3)


def test_texts_take_the_place_of_digests():
    found = job(rank(0, compiled()), rank(1, compiled(graph="another"))).first_divergence
    texts = [f'def forward(self, L_x_: "f32[{size}, 16]"):\n    y = L_x_ + 1' for size in (8, 9)]
    assert [value.value for value in with_texts(found, texts).values] == [
        "L_x_: f32[8, 16]",
        "L_x_: f32[9, 16]",
    ]
    # One goes on where the other ends.
    found = job(rank(0, compiled()), rank(1, compiled(guards="another"))).first_divergence
    assert [value.value for value in with_texts(found, ["a\nb", "a"]).values] == ["b", "-"]


def test_ranks_whose_data_has_other_sizes_agree_on_the_cause():
    found = job(
        *(
            rank(
                number,
                compiled(),
                compiled("0/1", causes=(f"x.shape[0]: 8 → {size}",), changed=("size x.shape[0]",)),
            )
            for number, size in ((0, 9), (1, 12))
        )
    )
    assert all(row.agree for row in found.agreement)


def test_what_the_log_does_not_tell_is_no_difference():
    # torch doesn't write the schedule of a graph that it found in a cache.
    reduce = ("all_reduce",)
    found = job(
        rank(0, compiled(cache="hit", collectives=None)),
        rank(1, compiled(cache="miss", collectives=reduce)),
    )
    assert found.agreement[0].differs_in == ("cache",)
    assert found.agreement[0].groups[0].collectives == reduce
    assert found.hangs == ()


def test_only_agreeing_ranks_are_good_news():
    for world_size in (None, 3):
        # One that couldn't be read is neither agreed with nor without a log.
        found = job(rank(0, compiled()), rank(1, compiled()), world_size=world_size, unread=(2,))
        assert (found.unread, found.absent) == ((2,), ())
        assert verdict(found) == (
            "Ranks agree as far as their logs go, but rank 2 couldn't be read.",
            "warning",
        )
    wrong = [rank(number, compiled(), findings=(finding("GD202"),)) for number in (0, 1)]
    assert verdict(job(*wrong))[1] == "warning"
    assert verdict(job(rank(0, compiled()), rank(1, compiled())))[1] == "good"


# Who waits for whom.


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


@for_each(
    "cache, slow, why",
    [
        ("hit", {"duration_s": 9.0, "cache": "miss"}, "cache"),
        (None, {"duration_s": 9.0, "backend_s": 8.0}, "backend"),
        (None, {"duration_s": 9.0, "backend_s": 0.25}, "dynamo"),
        (None, {"duration_s": 9.0, "backend_s": None}, "unknown"),
        (None, {"duration_s": 1.05}, None),
    ],
)
def test_a_notably_slower_rank_is_the_straggler(cache, slow, why):
    quick = [rank(number, compiled(cache=cache)) for number in (0, 2)]
    straggler = job(*quick, rank(1, compiled(**slow))).skew.straggler
    assert (straggler and (straggler.rank, straggler.why)) == (why and (1, why))


def test_unknown_times_stay_unknown():
    found = job(rank(0, compiled()), rank(1, compiled(duration_s=None)))
    assert (found.skew.compile_s, found.skew.job_s) == (None, None)
    assert [each.waits_s for each in found.ranks] == [None, None]


HEAD = compiled("1/0", "head", 40)
SYNC = compiled("1/0", "sync", 40, collectives=REDUCE)
AGAIN = compiled("0/1", collectives=REDUCE, causes=("x: 1 → 2",))
UNFINISHED = compiled("1/0", "head", 40, outcome="unfinished")


@for_each(
    "reports, told",
    [
        (
            (rank(0, compiled(collectives=REDUCE)), rank(1, compiled(collectives=GATHER))),
            [("schedule", "0/0", (0,), (1,), REDUCE[:1])],
        ),
        (tuple(rank(number, compiled(collectives=REDUCE)) for number in range(3)), []),
        # One rank never compiles a graph with collectives.
        (
            (rank(0, compiled(), SYNC), rank(1, compiled()), rank(2, compiled(), SYNC)),
            [("absent", "1/0", (0, 2), (1,), REDUCE[:1])],
        ),
        # A recompile of such a graph is not absent elsewhere.
        ((rank(0, compiled(collectives=REDUCE), AGAIN), rank(1, compiled(collectives=REDUCE))), []),
        (
            (rank(0, compiled(), HEAD), rank(1, compiled(), UNFINISHED, complete=False)),
            [("stopped", "1/0", (0,), (1,), ())],
        ),
        # The rank whose end ends the others in the middle of a compile.
        (
            (rank(0, compiled(), UNFINISHED, complete=False), rank(1, compiled(), complete=False)),
            [("stopped", "1/0", (0,), (1,), ())],
        ),
    ],
)
def test_where_ranks_can_wait_forever(reports, told):
    found = hang_candidates(rows_of(reports), reports)
    assert [
        (one.kind, one.compile, one.waiting, one.missing, one.collectives) for one in found
    ] == told
