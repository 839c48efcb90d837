"""What a survey is asked for, spelled out."""

import sys

import pytest

from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.spec import RunSpec
from graphdoctor.studies.survey.plan import (
    parse_listed,
    parse_listed_variant,
    parse_shard,
    plan_survey,
)
from graphdoctor.studies.survey.survey_list import (
    ListedTargets,
    ListedVariant,
    SurveyList,
    SurveyOptions,
)
from tests.each import for_each

NET = "import torch\n\n\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        return x\n"
READY = NET + "\n\ndef example_inputs():\n    return (torch.ones(2),)\n"


def _plan(tmp_path, targets, *, variants=(), run=None, shard=None, python=None, **options):
    survey = SurveyList(
        name="s",
        targets=tuple(targets),
        variants=tuple(variants),
        run=run or {},
        python=python,
        options=SurveyOptions(**options),
        shard=shard,
    )
    return plan_survey(survey, tmp_path / "programs", lambda _: None)


@pytest.fixture
def models(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b", "deep/c"):
        path = tmp_path / "models" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(READY)
    (tmp_path / "models" / "helper.py").write_text(
        "import torch\n\n\ndef _half(x):\n    return x / 2\n"
    )
    return tmp_path


def test_a_pattern_is_every_file_that_has_a_target(models):
    plan = _plan(models, [parse_listed("models/*.py")])
    assert [piece.name for piece in plan.pieces] == ["models/a", "models/b"]
    assert [piece.spec.target for piece in plan.pieces] == ["models/a.py", "models/b.py"]
    assert plan.notes == (
        "1 of 3 files that match models/*.py have no target with inputs: models/helper.py.",
    )


def test_folders_are_families_where_there_are_several(models):
    plan = _plan(models, [ListedTargets(pattern="models/**/*.py", exclude=("*helper.py",))])
    assert {piece.name: piece.family for piece in plan.pieces} == {
        "models/a": "models",
        "models/b": "models",
        "models/deep/c": "models/deep",
    }
    assert plan.notes == ()


@pytest.mark.parametrize(
    ("pattern", "message", "hint"),
    [
        ("models/*.txt", "No Python file matches 'models/*.txt'.", None),
        ("modles/*.py", "No Python file matches 'modles/*.py'.", "There is no folder modles."),
        (
            "models/h*.py",
            "None of the 1 files that match 'models/h*.py' has a target and inputs.",
            "build()",
        ),
    ],
)
def test_a_pattern_that_finds_nothing_is_refused(models, pattern, message, hint):
    with pytest.raises(GraphDoctorError) as caught:
        _plan(models, [parse_listed(pattern)])
    assert caught.value.message == message
    assert (hint or "") in (caught.value.hint or "")


def test_two_targets_of_one_name_are_refused(models):
    same_name = (ListedTargets(target=f"models/{name}.py", name="net") for name in "ab")
    with pytest.raises(
        GraphDoctorError, match=r"Two targets are named 'net': models/a\.py and models/b\.py"
    ):
        _plan(models, same_name)


def test_variant_overrides_the_target_and_shared_settings_override_it(models):
    entry = ListedTargets(target="models/a.py", run={"calls": 3, "dynamic": False})
    variants = [ListedVariant(run={"dynamic": True}), ListedVariant(name="own")]
    plan = _plan(models, [entry], variants=variants, run={"no_grad": True, "calls": 2})
    one, own = (piece.spec for piece in plan.pieces)
    assert (one.dynamic, one.calls, one.no_grad) == (True, 3, True)
    assert (own.dynamic, own.calls) == (False, 3)
    assert [variant.name for variant in plan.variants] == ["backend=eager dynamic=true", "own"]


def test_mode_and_options_belong_to_a_backend(models):
    run = {"backend": "inductor", "mode": "max-autotune", "options": {"a": 1}}
    variants = [ListedVariant(run={"backend": "eager"}), ListedVariant(run={"dynamic": True})]
    other, same = (
        piece.spec
        for piece in _plan(models, [parse_listed("models/a.py")], variants=variants, run=run).pieces
    )
    assert (other.mode, other.options) == (None, {})
    assert (same.mode, same.options) == ("max-autotune", {"a": 1})


def test_a_variant_with_a_mode_compiles_with_inductor(models):
    variants = [ListedVariant(), ListedVariant(run={"mode": "reduce-overhead"})]
    plan = _plan(models, [parse_listed("models/a.py")], variants=variants)
    assert [piece.spec.backend for piece in plan.pieces] == ["eager", "inductor"]


@for_each(
    "text, run, python",
    [
        ("dynamic=true", {"dynamic": True}, None),
        ("mode=max-autotune dtype=bfloat16", {"mode": "max-autotune", "dtype": "bfloat16"}, None),
        ("batch=8", {"batch": 8}, None),
        ("device=cuda", {"device": "cuda"}, None),
        ("python=/opt/python", {}, "/opt/python"),
    ],
)
def test_a_variant_of_the_command_line_is_read(text, run, python):
    found = parse_listed_variant(text, RunSpec(backend="inductor"))
    assert (found.name, found.run, found.python) == (text, run, python)


VARIANTS = ["", "speed=fast", "batch=none", "batch=0", "dynamic=maybe", "dtype=float31"]
SHARDS = ["", "3", "0/8", "9/8", "3/0", "a/b", "-1/8", "1/2/3"]


def test_other_words_are_no_variant_and_no_shard():
    for text in VARIANTS:
        with pytest.raises(GraphDoctorError):
            parse_listed_variant(text, RunSpec())
    for text in SHARDS:
        with pytest.raises(GraphDoctorError, match="isn't a part of a survey"):
            parse_shard(text)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 9])
def test_shards_are_all_pieces_once(models, count):
    entries = [ListedTargets(target="models/a.py", name=str(number)) for number in range(7)]
    parts = [_plan(models, entries, shard=(number, count)).pieces for number in range(1, count + 1)]
    assert sorted(piece.name for part in parts for piece in part) == [
        str(number) for number in range(7)
    ]
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_what_changes_a_row_changes_its_plan(models):
    entry = parse_listed("models/a.py")

    def digest(**more):
        return _plan(models, [entry], **more).pieces[0].plan

    plain = digest()
    assert digest() == plain
    assert digest(timeout=5.0) == plain
    assert len({plain, digest(bench=True), digest(fix=True), digest(run={"calls": 2})}) == 4


def test_interpreters_torch_is_asked_once_and_may_be_missing(models):
    plan = _plan(models, [parse_listed("models/a.py")], python=sys.executable)
    assert plan.variants[0].torch == _plan(models, [parse_listed("models/a.py")]).variants[0].torch
    with pytest.raises(
        GraphDoctorError, match=r"The interpreter /none can't be started: No such file"
    ):
        _plan(models, [parse_listed("models/a.py")], python="/none")
