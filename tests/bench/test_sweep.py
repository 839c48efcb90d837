"""Sizes to run a program with, as the user writes them."""

from __future__ import annotations

import pytest

from graphdoctor.errors import GraphDoctorError
from graphdoctor.studies.bench.sweep import parse_sweep


def test_one_size_or_several_that_change_together():
    assert parse_sweep("x.shape[0]=1,8,32").change(8).sizes == (("L['x']", 0, 8),)
    both = parse_sweep("x.shape[1], batch['mask'].shape[0] = 4,2")
    assert both.sizes == (4, 2)
    assert both.change(4).sizes == (("L['x']", 1, 4), ("L['batch']['mask']", 0, 4))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x.shape[0]", "names no size"),
        ("=1,2", "names no size"),
        ("x[0]=1,2", "names no size"),
        ("x.shape[-1]=1", "names no size"),
        ("x.shape[0]=", "whole numbers above 0"),
        ("x.shape[0]=0,1", "whole numbers above 0"),
        ("x.shape[0]=1.5", "whole numbers above 0"),
        ("x.shape[0]=1,one", "whole numbers above 0"),
        ("x.shape[0]=99999999999999999", "whole numbers above 0"),
        ("x.shape[0]=8,8", "twice"),
    ],
)
def test_what_can_t_be_read_is_refused_by_name(text, words):
    with pytest.raises(GraphDoctorError, match=words):
        parse_sweep(text)
