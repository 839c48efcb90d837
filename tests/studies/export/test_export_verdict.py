"""What is said of exports: the way to take, and the answer."""

from graphdoctor.facts.export import ExportWay
from graphdoctor.studies.export.export import best_of
from graphdoctor.studies.export.view import answer, blocked_groups, left_out_texts, to_paste
from tests.studies.export.reports import exported, made, refused


def test_the_way_to_take_and_the_answer(snapshot):
    wrong = {"status": "different", "reason": "call 1, output differs by 1.5"}
    unknown = {"status": "unknown", "reason": "outputs differ from run to run in eager mode too"}
    failed = ExportWay(is_strict=True, status="failed", reason="the process was killed by SIGABRT")
    strict, loose = refused(), refused(is_strict=False)
    reports = {
        "both work": (made(), made(is_strict=True)),
        "non-strict works": (made(), strict),
        "strict works": (loose, made(is_strict=True)),
        "non-strict computes something else": (made(**wrong), made(is_strict=True)),
        "both compute something else": (made(**wrong), made(is_strict=True, **wrong)),
        "what is right comes before what is unknown": (made(**unknown), made(is_strict=True)),
        "non-strict may be right": (made(**unknown), strict),
        "none works": (loose, strict),
        "one fails": (loose, failed),
    }
    assert {
        name: (best_of(ways), answer(ways, best_of(ways))) for name, ways in reports.items()
    } == snapshot


def test_ways_that_stop_for_the_same_reasons_are_shown_once():
    report = exported(refused(is_strict=False), refused(), best=None)
    assert [len(group) for group in blocked_groups(report)] == [2]


def test_what_to_paste_is_what_was_run():
    assert to_paste(exported(made(), made(is_strict=True))) == made().line
    assert to_paste(exported(refused(is_strict=False), refused(), best=None)) is None


def test_what_a_program_leaves_out_is_said():
    assert left_out_texts(made(), exported(made(), refused(), calls_made=2)) == [
        "Prints are lost in the exported program.",
        "Updates of `calls` are lost in the exported program: it updates only buffers.",
    ]
    many = made(lost=("a", "b", "c", "d", "e", "f"), unwritten=())
    assert left_out_texts(many, exported(many, refused())) == [
        "Updates of `a`, `b`, `c`, `d` and 2 more are lost in the exported program: it updates only buffers.",
        "Later results may depend on that: check with --calls 2.",
    ]
