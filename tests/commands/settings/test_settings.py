"""Settings: where they come from, which wins, and what is said about a wrong one."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from graphdoctor.commands.settings import (
    Settings,
    load_settings,
    repository_of,
    ruling_variables,
    unknown_variables,
)
from graphdoctor.errors import GraphDoctorError


def write(folder: Path, text: str) -> Path:
    (folder / "pyproject.toml").write_text(text)
    return folder


def test_without_any_configuration_the_defaults_hold(tmp_path):
    write(tmp_path, "")
    assert load_settings(tmp_path, {}) == Settings()


def test_the_nearest_pyproject_above_counts(tmp_path):
    write(tmp_path, "[tool.graphdoctor]\nkeep-recordings = 3\nselect = ['GD1']\n")
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    assert load_settings(inner, {}) == Settings(keep_recordings=3, select=("GD1",))


def test_the_environment_overrules_the_file(tmp_path):
    write(tmp_path, "[tool.graphdoctor]\nkeep-recordings = 3\nown-code = true\n")
    environment = {
        "GRAPHDOCTOR_KEEP_RECORDINGS": "5",
        "GRAPHDOCTOR_SELECT": "GD1, GD2",
        "OTHER": "x",
    }
    settings = load_settings(tmp_path, environment)
    assert settings == Settings(keep_recordings=5, own_code=True, select=("GD1", "GD2"))


@pytest.mark.parametrize(
    ("text", "value"), [("1", True), ("Yes", True), ("off", False), ("", False)]
)
def test_environment_switch_accepts_usual_spellings(tmp_path, text, value):
    write(tmp_path, "")
    assert load_settings(tmp_path, {"GRAPHDOCTOR_OWN_CODE": text}).own_code is value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tool.graphdoctor]\nkeep_recording = 3", "unknown setting 'keep-recording'"),
        (
            "[tool.graphdoctor]\nkeep-recordings = 0",
            "keep-recordings must be a whole number of at least 1, not 0",
        ),
        ("[tool.graphdoctor]\nkeep-recordings = true", "whole number of at least 1, not True"),
        ("[tool.graphdoctor]\nkeep-recordings = '3'", "whole number of at least 1, not '3'"),
        (
            "[tool.graphdoctor]\ntimeout = nan",
            "timeout must be a positive number of seconds, not nan",
        ),
        (
            "[tool.graphdoctor]\ntimeout = -1",
            "timeout must be a positive number of seconds, not -1",
        ),
        ("[tool.graphdoctor]\nselect = 'GD1'", "select must be a list of strings, not 'GD1'"),
        ("[tool.graphdoctor]\nselect = [1]", "select must be a list of strings"),
        ("[tool.graphdoctor]\nown-code = 'yes'", "own-code must be true or false, not 'yes'"),
        ("tool.graphdoctor = 3", "must be a table"),
        ("[tool.graphdoctor", "can't be read"),
    ],
)
def test_a_wrong_setting_is_named_with_its_file(tmp_path, text, message):
    write(tmp_path, text)
    with pytest.raises(GraphDoctorError, match=message) as caught:
        load_settings(tmp_path, {})
    assert "pyproject.toml" in caught.value.message


def test_a_pyproject_whose_tool_is_no_table_has_no_settings(tmp_path):
    write(tmp_path, "tool = 3")
    assert load_settings(tmp_path, {}) == Settings()


def test_a_pyproject_that_is_not_utf8_is_named(tmp_path):
    (tmp_path / "pyproject.toml").write_bytes(b'x = "\xff"')
    with pytest.raises(GraphDoctorError, match=r"pyproject\.toml can't be read"):
        load_settings(tmp_path, {})


def test_an_unknown_setting_offers_the_nearest_one(tmp_path):
    write(tmp_path, "[tool.graphdoctor]\nkeep-recording = 3")
    with pytest.raises(GraphDoctorError) as caught:
        load_settings(tmp_path, {})
    assert caught.value.hint == "Did you mean keep-recordings?"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("GRAPHDOCTOR_KEEP_RECORDINGS", "many"),
        ("GRAPHDOCTOR_KEEP_RECORDINGS", "0"),
        ("GRAPHDOCTOR_TIMEOUT", "nan"),
        ("GRAPHDOCTOR_TIMEOUT", "soon"),
        ("GRAPHDOCTOR_OWN_CODE", "maybe"),
    ],
)
def test_a_wrong_variable_is_an_error(tmp_path, name, text):
    write(tmp_path, "")
    with pytest.raises(GraphDoctorError):
        load_settings(tmp_path, {name: text})


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("GRAPHDOCTOR_KEEP_RECORDING", " Did you mean GRAPHDOCTOR_KEEP_RECORDINGS?"),
        ("GRAPHDOCTOR_TARGETS", ""),
        ("GRAPHDOCTOR_", ""),
    ],
)
def test_unknown_variable_is_named_and_stops_nothing(tmp_path, name, hint):
    assert load_settings(tmp_path, {name: "1"}) == Settings()
    assert unknown_variables({name: "1", "GRAPHDOCTOR_TIMEOUT": "1"}) == [
        f"graphdoctor doesn't read {name}.{hint}"
    ]


def test_every_setting_has_a_variable():
    assert (
        unknown_variables({f"GRAPHDOCTOR_{field.name.upper()}": "1" for field in fields(Settings)})
        == []
    )


def test_fail_variables_are_named_unless_an_option_overrules_them():
    environment = {
        "GRAPHDOCTOR_FAIL_ON": "never",
        "GRAPHDOCTOR_IGNORE": "GD1",
        "GRAPHDOCTOR_TIMEOUT": "3",
    }
    assert ruling_variables((), environment) == (
        "GRAPHDOCTOR_FAIL_ON=never",
        "GRAPHDOCTOR_IGNORE=GD1",
    )
    assert ruling_variables({"fail_on": "--fail-on"}, environment) == ("GRAPHDOCTOR_IGNORE=GD1",)


def test_a_repository_begins_where_git_is(tmp_path: Path) -> None:
    below = tmp_path / "packages" / "a"
    below.mkdir(parents=True)
    assert repository_of(below) is None
    (tmp_path / ".git").write_text("gitdir: elsewhere\n")
    assert repository_of(below) == tmp_path
