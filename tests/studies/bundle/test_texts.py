"""The texts of a bundle: the draft of an issue, the README, the environment."""

from graphdoctor.facts.recording import Call, CallError, Environment
from graphdoctor.studies.bundle.bundle import environment_text, issue_text
from graphdoctor.studies.bundle.script import Attempt, Script, rendered
from tests.rules.gate.diagnoses import with_prints

KNOWN = Environment(
    python="3.11.7", torch="2.13.0+cpu", platform="Linux-6.1-x86_64", packages={"numpy": "2.1.0"}
)
SCRIPT = Script("import torch\n")


def test_the_environment_says_what_was_not_recorded(snapshot):
    config = {"torch._dynamo.config.recompile_limit": "2"}
    found = (
        environment_text(*known, graphdoctor="1.2.3")
        for known in ((KNOWN, config), (KNOWN, {}), (Environment(), None))
    )
    assert "\n---\n".join(found) == snapshot


def test_an_issue_has_findings_and_the_script_or_its_reason(snapshot):
    error = CallError(
        type="ValueError", message="x", traceback="Traceback: x\n", from_compiler=False
    )
    failed = with_prints(calls=(Call(index=1, outcome="error", error=error),))
    found = (
        issue_text(
            with_prints((5, "a")), SCRIPT, Attempt(True, "On its own, it has the same graph break.")
        ),
        issue_text(
            failed, Script(None, reason="the log was not recorded by graphdoctor explain"), None
        ),
    )
    assert "\n---\n".join(found) == snapshot


def test_nothing_in_a_finding_becomes_markup():
    diagnosis = with_prints((5, "a"))
    (finding,) = diagnosis.findings
    marked = finding.replace(message="see #12 by @someone <b>, `a_b`")
    text = issue_text(diagnosis.replace(findings=(marked,)), SCRIPT, None)
    (shown,) = (line for line in text.splitlines() if line.startswith("**1. "))
    assert not any(markup in shown for markup in ("#12", " @someone", "<b>"))
    assert "`a_b`" in shown


def test_the_readme_lists_content_and_what_was_left_out(snapshot):
    logs = "recording/trace/"
    whole = rendered(
        "README.md.jinja",
        title="model.py:Net",
        names=["issue.md", "reproduce.py", f"{logs}a.log"],
        notes=["`big.log`: too large (300 MiB)."],
        logs=logs,
        is_redacted=False,
    )
    redacted = rendered(
        "README.md.jinja", title="a run", names=["issue.md"], notes=[], logs=logs, is_redacted=True
    )
    assert f"{whole}\n---\n{redacted}" == snapshot
