"""The gate's configuration: targets, what is wrong with one by its name, and where the project
is."""

from __future__ import annotations

import pytest

from graphdoctor.commands.settings import GateTarget, load_project, load_settings
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.spec import RunSpec


def project(folder, text):
    (folder / "pyproject.toml").write_text(text)
    return load_project(folder, {})


def test_targets_have_what_explain_has_flags_for(tmp_path):
    text = """
[[tool.graphdoctor.targets]]
name = "encoder"
target = "models/encoder.py:build()"
inputs = ["f32[8,128]", "flag=bool:true"]
calls = 3
backend = "inductor"
options = { "triton.cudagraphs" = true }
config = { "torch._dynamo.config.cache_size_limit" = 4 }
no-grad = true
dtype = "bf16"
batch = 8
timeout = 60
max-breaks = 0
min-coverage = 1
fail-on = "error"
ignore = []

[[tool.graphdoctor.targets]]
target = "package.module:net"
"""
    found = project(tmp_path, text).targets
    assert found == (
        GateTarget(
            RunSpec(
                target="models/encoder.py:build()",
                inputs=("f32[8,128]", "flag=bool:true"),
                calls=3,
                backend="inductor",
                options={"triton.cudagraphs": True},
                config={"torch._dynamo.config.cache_size_limit": 4},
                no_grad=True,
                dtype="bfloat16",
                batch=8,
            ),
            name="encoder",
            timeout=60.0,
            max_breaks=0,
            min_coverage=1.0,
            fail_on="error",
            ignore=(),
        ),
        GateTarget(RunSpec(target="package.module:net"), name="package.module:net"),
    )


@pytest.mark.parametrize(
    ("lines", "message", "hint"),
    [
        ("bakend = 'eager'", "target 'm': unknown setting 'bakend'", "Did you mean backend?"),
        ("folder = 'x'", "target 'm': unknown setting 'folder'", None),
        ("calls = 0", "target 'm': calls must be a whole number of at least 1, not 0", None),
        ("calls = true", "target 'm': calls must be a whole number of at least 1, not True", None),
        (
            "max-breaks = -1",
            "target 'm': max-breaks must be a whole number of at least 0, not -1",
            None,
        ),
        ("min-coverage = 95", "target 'm': min-coverage must be a share from 0 to 1, not 95", None),
        (
            "min-coverage = nan",
            "target 'm': min-coverage must be a share from 0 to 1, not nan",
            None,
        ),
        ("inputs = 'f32[2]'", "target 'm': inputs must be a list of strings, not 'f32", None),
        ("options = ['a=1']", "target 'm': options must be a table of strings, numbers", None),
        ("config = { when = 2026-01-01 }", "target 'm': config must be a table", None),
        ("train = 'yes'", "target 'm': train must be true or false, not 'yes'", None),
        ("fail-on = 'warnings'", "target 'm': unknown fail-on 'warnings'", "Did you mean warning?"),
        ("dtype = 'bfloat61'", "target 'm': unknown dtype 'bfloat61'", "Did you mean bfloat16?"),
        ("dtype = 'i64'", "target 'm': unknown dtype 'i64'", "Did you mean f64?"),
        (
            "dtype = 'xyz'",
            "target 'm': unknown dtype 'xyz'",
            "The dtypes are float32, float64, float16, bfloat16",
        ),
        ("dtype = 16", "target 'm': dtype must be a non-empty string, not 16", None),
        ("batch = 0", "target 'm': batch must be a whole number of at least 1, not 0", None),
        ("batch = '8'", "target 'm': batch must be a whole number of at least 1, not '8'", None),
        ("backend = ''", "target 'm': backend must be a non-empty string, not ''", None),
    ],
)
def test_what_is_wrong_is_named_with_the_target(tmp_path, lines, message, hint):
    with pytest.raises(GraphDoctorError, match=message) as caught:
        project(tmp_path, f"[[tool.graphdoctor.targets]]\nname = 'm'\ntarget = 'm.py'\n{lines}\n")
    assert str(tmp_path) in caught.value.message
    assert hint is None or hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[tool.graphdoctor.targets]]\nname = 'm'\n", "target 'm': target is missing"),
        (
            "[[tool.graphdoctor.targets]]\ntarget = 3\n",
            "target 1: target must be a non-empty string, not 3",
        ),
        ("[[tool.graphdoctor.targets]]\ntarget = 'a.py'\n" * 2, "two targets are named 'a.py'"),
        ("[tool.graphdoctor]\ntargets = ['a.py']\n", "targets must be a list of tables"),
        ("[tool.graphdoctor.targets]\ntarget = 'a.py'\n", "targets must be a list of tables"),
        ("[tool.graphdoctor]\ntarget = 'a.py'\n", "unknown setting 'target'"),
        ("[tool.graphdoctor]\nfail-on = 'fatal'\n", "unknown fail-on 'fatal'"),
        ("[tool.graphdoctor]\nbaseline = 3\n", "baseline must be a non-empty string, not 3"),
        ("[tool.graphdoctor]\nper-path-ignores = ['a']\n", "per-path-ignores must be a table"),
        (
            "[tool.graphdoctor.per-path-ignores]\n'a/**' = 'GD1'\n",
            "per-path-ignores 'a/\\*\\*' must be a list of strings, not 'GD1'",
        ),
        ("[tool.graphdoctor\n", "can't be read"),
    ],
)
def test_a_project_that_cannot_be_read_says_why(tmp_path, text, message):
    with pytest.raises(GraphDoctorError, match=message):
        project(tmp_path, text)


def test_project_is_found_from_a_subfolder_with_its_paths(tmp_path):
    project(
        tmp_path,
        "[tool.graphdoctor]\nbaseline = 'ci/known.json'\n[tool.graphdoctor.per-path-ignores]\n'a/**' = ['GD1']\n",
    )
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    found = load_project(inner, {})
    assert (found.root, found.baseline) == (tmp_path, tmp_path / "ci" / "known.json")
    assert found.settings.per_path_ignores == (("a/**", ("GD1",)),)
    assert (
        load_project(inner, {"GRAPHDOCTOR_BASELINE": "here.json"}).baseline == inner / "here.json"
    )
    assert load_project(inner, {"GRAPHDOCTOR_FAIL_ON": "never"}).settings.fail_on == "never"


def test_without_a_pyproject_the_folder_itself_is_the_project(tmp_path):
    found = load_project(tmp_path, {})
    if found.pyproject is None:  # nobody has one above the temporary folder
        assert (found.root, found.baseline) == (tmp_path, tmp_path / "graphdoctor-baseline.json")


def test_other_commands_do_not_mind_a_wrong_target(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[[tool.graphdoctor.targets]]\nnam = 1\n")
    assert load_settings(tmp_path, {}).fail_on == "warning"
