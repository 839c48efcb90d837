"""A bench in a browser: what it shows is what was measured, for everyone, on every screen."""

from __future__ import annotations

import re

import pytest

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


def dots(page: str) -> int:
    return page.partition('id="payoff"')[2].count('class="dot')


def test_each_crossing_is_marked_and_said():
    page = page_of(BENCH, mobilenet())
    assert dots(page) == 6
    text = text_of(page)
    assert "compiled from nothing, 33.1 s: meets eager after 10,000 calls, 53 seconds" in text
    assert "after a restart, 8.28 s: meets eager after 2,500 calls" in text
    assert "Both axes are logarithmic" in text
    assert "Both axes are logarithmic" not in page_of(BENCH, report(eager(), variant()))


def test_a_crossing_lies_on_both_lines():
    page = page_of(BENCH, report(eager(1e6), variant(median_us=5e5, eager_us=1e6, cold_s=50.0)))
    plot = page.partition('id="payoff"')[2]
    # 100 calls: 172.8 is the end of the axis, 186.6 that of time.
    (left, top), *_ = re.findall(r'class="dot hue0" style="left:([\d.]+)%;top:([\d.]+)%"', plot)
    assert float(left) == pytest.approx(57.87)
    assert float(top) == pytest.approx(100 - 100 * 100 / 186.6, abs=0.1)


def test_a_variant_that_never_meets_eager_has_no_crossing():
    page = page_of(BENCH, attention())
    assert dots(page) == 0
    assert "never meets eager" in page


def test_a_wrong_variant_has_its_own_bar_and_no_line():
    page = page_of(BENCH, troubled())
    assert '<rect class="wrong"' in page
    assert "wrong results" in page
    assert "curve hue2" not in page


def test_the_page_shows_where_the_time_of_a_call_goes():
    section = section_of(page_of(BENCH, mobilenet()), "kernels")
    assert '<span class="library" style="width:58.172%"></span>' in section
    assert "library kernels 2.10 ms (58%)" in section
    assert "triton_poi_fused_add_relu_0" in section
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
