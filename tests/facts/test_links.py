"""The one place that says where the documentation is published, and what follows from it."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from rich.console import Console

from graphdoctor.facts.command import rule_url
from graphdoctor.rules.catalog import ALL_RULES
from graphdoctor.views.listings import render_rules, rules_json
from graphdoctor.views.sarif import render_sarif
from tests.views.check_reports import failed_report

GD101 = "https://docs.example.org/graphdoctor/rules/GD101/"


@pytest.fixture(
    params=["https://docs.example.org/graphdoctor", "https://docs.example.org/graphdoctor/"]
)
def published(request, monkeypatch):
    monkeypatch.setattr("graphdoctor.facts.command.DOCS_URL", request.param)
    return request.param


def rule_help():
    console = Console(file=StringIO(), width=40)
    render_rules([ALL_RULES["GD101"]], console)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def driver():
    return json.loads(render_sarif(failed_report()))["runs"][0]["tool"]["driver"]


def test_without_a_published_site_nothing_links_to_it():
    assert rule_url("GD101") is None
    assert "https://" not in rule_help()
    assert json.loads(rules_json([ALL_RULES["GD101"]]))[0]["url"] is None
    assert "informationUri" not in driver()
    assert all("helpUri" not in rule for rule in driver()["rules"])


def test_rule_help_ends_with_the_page_in_one_line(published):
    assert GD101 in rule_help().splitlines()
    assert json.loads(rules_json([ALL_RULES["GD101"]]))[0]["url"] == GD101


def test_sarif_links_each_rule_to_its_page(published):
    assert driver()["informationUri"] == published
    uris = {rule["id"]: rule["helpUri"] for rule in driver()["rules"]}
    assert uris["GD101"] == GD101
    assert uris == {code: GD101.replace("GD101", code) for code in uris}
