"""Where numbers are in a drawing: in order, within it, on the side of 1 that they are on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphdoctor.views.html.document import environment
from graphdoctor.views.html.plots import Axis, Line, Plot

NUMBERS = st.floats(1e-3, 1e9)


@given(NUMBERS, NUMBERS, NUMBERS, NUMBERS, st.booleans())
def test_places_keep_the_order_of_numbers_and_stay_within(low, high, one, other, is_log):
    axis = Axis(low, low + high, is_log=is_log)
    places = [axis.place(value) for value in sorted((one, other))]
    assert 0 <= places[0] <= places[1] <= 100
    assert axis.place(low) == 0
    assert axis.place(low + high) == pytest.approx(100)


@given(NUMBERS, st.floats(1.01, 1e6), st.booleans())
def test_ticks_are_few_and_on_the_axis(low, factor, is_log):
    axis = Axis(low, low * factor, is_log=is_log)
    ticks = axis.ticks()
    assert len(ticks) <= 12
    assert all(axis.low <= tick <= axis.high for tick in ticks)
    assert ticks == sorted(set(ticks))


def test_ticks_are_round():
    assert Axis(0, 27_000).ticks() == [0, 10_000, 20_000]
    assert Axis(250, 480_000, is_log=True).ticks() == [1000, 10_000, 100_000]
    assert Axis(20, 90, is_log=True).ticks() == [20, 50]


PLOTS = environment().get_template("plots.html.j2").module


def test_a_bar_ends_at_its_number():
    drawn = PLOTS.bar(Axis(0.0, 4.0), "faster", 2.0, (1.0, 3.0))
    assert 'class="faster" x="0" y="5" width="50.00%"' in drawn
    assert 'class="at-one" x1="25.00%" x2="25.00%"' in drawn
    assert 'x1="25.00%" x2="75.00%" y1="12" y2="12"' in drawn
    assert 'aria-hidden="true"' in drawn
    drawn = PLOTS.bar(Axis(0.0, 4.0), "same", 2.0, (1.0, 9.0))
    assert 'x1="25.00%" x2="100.00%" y1="12" y2="12"' in drawn
    assert drawn.count('y1="8" y2="16"') == 1


def drawing(*lines: Line) -> str:
    x, y = (
        Axis(0.0, 10.0, name=name, text=lambda _: "<five>", named=(5,)) for name in ("x & y", "y")
    )
    return str(PLOTS.lines(Plot(x, y, lines, dots=[(5, 5, "hue1")])))


def test_what_is_written_in_a_drawing_is_escaped():
    drawn = drawing(Line(((0, 0), (10, 5)), "hue0", label='"><script>'))
    assert "<script>" not in drawn
    assert "&lt;five&gt;" in drawn
    assert "x &amp; y" in drawn
    assert '<polyline class="curve hue0" points="0.00,100.00 100.00,50.00"/>' in drawn
    assert '<span class="dot hue1" style="left:50.00%;top:50.00%"></span>' in drawn
