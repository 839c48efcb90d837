"""A bench in a browser: what it shows is what was measured, for everyone, on every screen."""

from __future__ import annotations

from graphdoctor.facts.bench import EAGER, BenchReport
from graphdoctor.views.formats import BENCH
from tests.studies.bench.reports import (
    attention,
    calls,
    eager,
    ended,
    mobilenet,
    report,
    troubled,
    variant,
)
from tests.views.hostile import spoiled
from tests.views.outputs import page_of, section_of, text_of


def everything() -> BenchReport:
    """A bench with a variant of every kind."""
    shown = mobilenet()
    others = [one for each in (mobilenet(), attention(), troubled()) for one in each.variants[1:]]
    variants = (
        shown.variants[0],
        *(one.replace(name=f"{n} {one.name}") for n, one in enumerate(others)),
    )
    return shown.replace(variants=variants, gaps=troubled().gaps)


def test_a_bar_ends_at_its_number_and_a_wrong_variant_is_no_gain():
    page = page_of(BENCH, troubled())
    assert '<rect class="wrong"' in page
    shown = report(eager(), variant(median_us=1.0, eager_us=2.0))
    # The drawing is a fifth wider than the largest ratio.
    assert 'class="faster" x="0" y="5" width="83.33%"' in page_of(BENCH, shown)


def test_the_page_shows_where_the_time_of_a_call_goes():
    section = section_of(page_of(BENCH, mobilenet()), "kernels")
    assert '<span class="library" style="width:58.172%"></span>' in section
    assert "library kernels 2.10 ms (58%)" in section
    assert 'id="kernels"' not in page_of(BENCH, attention())


def test_drawings_survive_odd_numbers():
    wide = variant(median_us=1.0, spread=0.999999)
    for shown in (
        report(eager(), variant(cold_s=0.0)),
        report(eager(), wide),
        report(
            eager(call_us=None, speedup=None),
            variant(call_us=None, speedup=None, judgement="unknown"),
        ),
        report(ended(EAGER, "failed", "x"), best=None, noise=None, environment=None),
        report(eager(call_us=calls(0.0)), variant()),
        *(spoiled(BenchReport, number) for number in range(4)),
    ):
        assert "nan" not in text_of(page_of(BENCH, shown))


def test_without_source_no_line_is_in_the_page():
    page = page_of(BENCH, attention(), has_source=False)
    assert "w = q @ k.mT / d" not in page
    assert "q, k, v" not in page
    assert "--no-source left out the lines of code." in page
