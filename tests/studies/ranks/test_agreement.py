from itertools import permutations

from graphdoctor.facts.reading import json_of
from graphdoctor.studies.ranks.agreement import with_texts
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
        ("estimates", {"estimates": "others"}),
    ],
)
def test_the_first_thing_that_differs_is_named(what, values):
    found = job(rank(0, compiled()), rank(1, compiled(**values)), rank(2, compiled()))
    assert found.agreement[0].agree is False
    assert found.first_divergence.what == what
    assert found.first_divergence.ranks == (1,)
    assert [value.ranks for value in found.first_divergence.values] == [(0, 2), (1,)]


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
    found = job(rank(0, *layers), rank(1, *layers[:2]))
    assert [(row.compile, row.agree) for row in found.agreement] == [
        ("0/0", True),
        ("1/0", True),
        ("2/0", False),
    ]


def test_the_order_in_which_ranks_come_does_not_matter():
    reports = (
        rank(0, compiled()),
        rank(1, compiled(guards="others")),
        rank(2, compiled("1/0", "f")),
    )
    assert len({json_of(job(*order)) for order in permutations(reports)}) == 1


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
        rank(0, compiled(cache="hit", collectives=None, estimates=None)),
        rank(1, compiled(cache="miss", collectives=reduce, estimates="estimates")),
    )
    assert found.agreement[0].differs_in == ("cache",)
    assert found.agreement[0].groups[0].collectives == reduce
    assert found.hangs == ()


def test_only_agreeing_ranks_are_good_news():
    graphs = (compiled(), compiled("1/0", "head", 40))
    hanging = job(
        rank(0, *graphs, executed=("0/0", "1/0")), rank(1, *graphs, executed=("1/0", "0/0"))
    )
    assert hanging.first_divergence is None
    assert verdict(hanging) == (
        "Ranks agree on what Dynamo made, but they can wait for each other forever.",
        "bad",
    )
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
