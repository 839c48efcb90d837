"""The texts of a bundle: the draft of an issue, the README, the environment."""

from __future__ import annotations

from graphdoctor.facts.recording import Call, CallError, Environment
from graphdoctor.studies.bundle.attempt import Attempt
from graphdoctor.studies.bundle.reproduce import Script
from graphdoctor.studies.bundle.texts import environment_text, fenced, issue_text, readme_text, versions_text
from tests.gate.diagnoses import with_prints

KNOWN = Environment(python="3.11.7", torch="2.13.0+cpu", platform="Linux-6.1-x86_64", packages={"numpy": "2.1.0"})
SCRIPT = Script("import torch\n")


def test_the_versions_are_those_that_were_recorded_and_others_say_so() -> None:
    known = versions_text(KNOWN)
    assert "PyTorch version: 2.13.0+cpu\n" in known
    assert "First CUDA device: none\n" in known
    assert known.index("[pip3] numpy==2.1.0") < known.index("[pip3] torch==2.13.0+cpu")
    unknown = versions_text(Environment())
    assert unknown.count("not recorded") == 6
    assert "[pip3] not recorded" in unknown


def test_the_environment_has_the_config_that_differs_from_the_defaults() -> None:
    name = "torch._dynamo.config.recompile_limit"
    assert f"{name} = 2\n" in environment_text(KNOWN, {name: "2"}, graphdoctor="1.2.3")
    assert "differ from the defaults:\n(none)\n" in environment_text(KNOWN, {}, graphdoctor="1.2.3")
    unknown = environment_text(KNOWN, None, graphdoctor="1.2.3")
    assert "differ from the defaults:\nnot recorded\n\nRecorded with graphdoctor 1.2.3." in unknown


def test_the_issue_has_each_finding_its_place_and_torchs_words() -> None:
    diagnosis = with_prints((5, "a"), (6, "b"))
    text = issue_text(diagnosis, SCRIPT, Attempt(True, "On its own, it has the same 2 graph breaks."))
    first, second = diagnosis.findings
    for number, finding in enumerate((first, second), start=1):
        assert f"**{number}. GD101 {finding.rule}**" in text
        assert f"`model.py:{finding.location.line} in Net.forward`" in text
    assert "([GB0059](https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0059.html))" in text
    assert "2 break sites" in text
    assert "On its own, it has the same 2 graph breaks." in text
    assert "```python\nimport torch\n```" in text


def test_the_issue_says_why_there_is_no_script_and_how_a_call_failed() -> None:
    error = CallError(type="ValueError", message="x", traceback="Traceback: x\n", from_compiler=False)
    failed = with_prints(calls=(Call(index=1, outcome="error", error=error),))
    text = issue_text(failed, Script(None, reason="the log was not recorded by graphdoctor explain"), None)
    assert "### Error logs\n\n```\nTraceback: x\n```\n" in text
    assert "There is no script: the log was not recorded by graphdoctor explain.\n" in text


def test_only_the_first_findings_are_in_the_issue_and_the_rest_are_counted() -> None:
    text = issue_text(with_prints(*((line, f"text {line}") for line in range(5, 18))), SCRIPT, None)
    assert "**10. " in text
    assert "**11. " not in text
    assert "3 more findings in `diagnosis.json` and `report.html`." in text


def test_a_long_script_is_named_and_not_quoted() -> None:
    text = issue_text(with_prints(), Script("x = 1\n" * 200, {"helper.py": ""}), None)
    assert "`reproduce.py` in the attached zip, with `modules/helper.py`.\n" in text
    assert "x = 1" not in text


def test_nothing_in_a_finding_becomes_markup_and_no_fence_ends_early() -> None:
    diagnosis = with_prints((5, "a"))
    (finding,) = diagnosis.findings
    marked = finding.model_copy(update={"message": "see #12 by @someone <b>, `a_b`"})
    text = issue_text(diagnosis.model_copy(update={"findings": (marked,)}), SCRIPT, None)
    (shown,) = (line for line in text.splitlines() if line.startswith("**1. "))
    assert not any(markup in shown for markup in ("#12", " @someone", "<b>"))
    assert "`a_b`" in shown
    assert list(fenced("```\ncode\n```", "python")) == ["````python", "```\ncode\n```", "````"]


def test_the_readme_lists_what_is_in_the_bundle_and_what_was_left_out() -> None:
    names = ["issue.md", "reproduce.py", "recording/trace/a.log"]
    text = readme_text("model.py:Net", names, ["`big.log`: too large (300 MiB)."], is_redacted=False)
    assert "model.py:Net, recorded by graphdoctor." in text
    for name in ("reproduce.py", "recording/trace/"):
        assert f"| `{name}` |" in text
    assert "## Left out\n\n- `big.log`: too large (300 MiB).\n" in text
    redacted = readme_text("a run", ["issue.md"], [], is_redacted=True)
    for part, where in (
        ("--redact", redacted),
        ("## Redacted", redacted),
        ("reproduce.py` | makes", text),
        ("## Left out", text),
    ):
        assert [part in each for each in (text, redacted)] == [where is text, where is redacted]
