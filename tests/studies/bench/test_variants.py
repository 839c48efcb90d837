"""Ways to run a program, as the user writes them."""

import pytest

from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.recording import RepeatedBlocks
from graphdoctor.facts.spec import RunSpec
from graphdoctor.studies.bench.cure import compile_lines
from graphdoctor.studies.bench.variants import variants_of
from tests.each import for_each

BASE = RunSpec(target="model.py", backend="inductor")


def names(*texts, base=BASE, is_all=False):
    return [variant.name for variant in variants_of(texts, base, is_all=is_all)]


def test_eager_mode_and_the_users_own_come_first():
    assert names() == ["eager", "default"]
    own = RunSpec(
        target="model.py",
        backend="inductor",
        mode="reduce-overhead",
        dynamic=True,
        options={"a.b": 1},
    )
    assert names(base=own) == ["eager", "mode=reduce-overhead dynamic=true option.a.b=1"]


def test_a_variant_changes_what_it_names_and_nothing_else():
    base = RunSpec(
        target="model.py", backend="inductor", dynamic=False, config={"cache_size_limit": 3}
    )
    *_, variant = variants_of(
        ["mode=max-autotune, config.assume_static_by_default=false regional"], base, is_all=False
    )
    spec = variant.spec(base)
    assert (spec.mode, spec.dynamic, spec.backend, spec.regional) == (
        "max-autotune",
        False,
        "inductor",
        True,
    )
    assert spec.config == {"cache_size_limit": 3, "assume_static_by_default": False}
    assert variant.arguments(base) == {
        "mode": "max-autotune",
        "dynamic": False,
        "assume_static_by_default": False,
    }


def test_another_backend_takes_no_mode_along():
    base = RunSpec(target="model.py", backend="inductor", mode="max-autotune")
    *_, variant = variants_of(["backend=aot_eager"], base, is_all=False)
    assert (variant.spec(base).backend, variant.spec(base).mode) == ("aot_eager", None)


def test_commas_and_spaces_separate_except_within_a_value():
    *_, variant = variants_of(["option.sizes=[1,2],mode=default  dynamic=None"], BASE, is_all=False)
    assert variant.spec(BASE).options == {"sizes": [1, 2]}
    assert (variant.spec(BASE).mode, variant.spec(BASE).dynamic) == ("default", None)


def test_the_same_way_twice_is_measured_once():
    assert names("default", "dynamic=true", "dynamic=True") == ["eager", "default", "dynamic=true"]


def test_all_has_every_mode_once():
    assert names(is_all=True) == [
        "eager",
        "default",
        "mode=reduce-overhead",
        "mode=max-autotune-no-cudagraphs",
        "mode=max-autotune",
        "backend=cudagraphs",
    ]
    own = RunSpec(target="model.py", backend="inductor", mode="reduce-overhead")
    assert names(base=own, is_all=True).count("mode=reduce-overhead") == 1


def test_all_has_regional_compilation_where_blocks_repeat():
    found = variants_of([], BASE, is_all=True, has_blocks=True)
    (regional,) = (variant for variant in found if variant.name == "regional")
    assert regional.spec(BASE).regional
    assert regional.arguments(BASE) == {}


@for_each(
    "text, words",
    [
        ("", "isn't name=value"),
        ("reduce-overhead", "isn't name=value"),
        ("modes=max-autotune", "unknown setting 'modes'"),
        ("dynamic=yes", "dynamic must be true, false or None"),
        ("fullgraph=None", "fullgraph must be true or false"),
        ("regional=3", "regional must be true or false"),
        ("mode=3", "mode must be a non-empty string"),
        ("=3", "isn't name=value"),
        ("mode=\udcff", "isn't name=value"),
    ],
)
def test_what_can_t_be_read_is_refused_by_name(text, words):
    with pytest.raises(GraphDoctorError, match=words):
        variants_of([text], BASE, is_all=False)


@for_each(
    "regional, lines",
    [
        (True, ("for block in model.layers:", "    block.compile(mode='max-autotune')")),
        (False, ("model = torch.compile(model, mode='max-autotune')",)),
    ],
)
def test_lines_that_compile_a_model_name_what_repeats(regional, lines):
    paths = ("layers.0", "layers.1", "layers.2")
    layers = RepeatedBlocks(
        class_name="Layer", paths=paths, kinds=1, compiled_as="module", container="layers"
    )
    changes = {"mode": "max-autotune", "regional": regional}
    assert (
        compile_lines(changes, RunSpec(target="model.py", backend="inductor"), (layers,)) == lines
    )
