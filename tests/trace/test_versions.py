"""Logs of older torch, what each torch writes, and what ``fullgraph=True`` refused, in torch's own
records."""

import json
import re
from pathlib import Path

import pytest

from graphdoctor.rules.catalog import RULES
from graphdoctor.rules.diagnosis.diagnose import diagnose
from graphdoctor.trace.reader import read_recording
from tests.conftest import RECORDED_LOGS
from tests.each import for_each
from tests.recorded import log_content
from tests.recordings.make import with_new_sums


@for_each("version, is_old", [("2.6.0+cu124", True), (None, True), ("2.11.0", False)])
def test_log_of_torch_before_2_11_is_read_and_reported(version, is_old, tmp_path_factory):
    text = log("2.13.0")
    if version is None:
        text = text[text.index("V", 1) :]  # the first record
    path = tmp_path_factory.mktemp("old") / "a.log"
    path.write_text(with_new_sums(text.replace("2.13.0+cpu", str(version))))

    recording = read_recording(path)

    assert len(recording.compiles) == 3
    assert [gap.kind for gap in recording.gaps if gap.kind == "old_log"] == ["old_log"] * is_old


VERSIONS = sorted(folder.parent.name for folder in RECORDED_LOGS.glob("*/refused.bare"))
DEMO = Path("/home/user/demo")
LINE = 6
DEFINITION = 11
"""Of the ``if``, and of the function that was to be compiled."""


def finding(path):
    findings = diagnose(read_recording(path), RULES, root=DEMO, version="0").findings
    (refused,) = (finding_ for finding_ in findings if "raised" in finding_.break_effects)
    return refused


def log(version):
    return log_content(f"{version}/refused.bare").decode()


def without_user_stack(text):
    return re.sub(r"\n\tfrom user code:\n(?:\t.*\n)*?\t\n", "\n\t\n", text)


@pytest.mark.parametrize("version", VERSIONS)
def test_without_the_stack_metrics_or_the_function_have_the_line(tmp_path, version):
    text = without_user_stack(log(version))
    (tmp_path / "a.log").write_text(with_new_sums(text))

    refused = finding(tmp_path / "a.log")

    assert (refused.location.file, refused.location.line) == ("refused.py", LINE)
    words = json.dumps([refused.message, *(fix.title for fix in refused.fixes)])
    assert "``" not in words
    assert "if `" not in words

    # Never the function's caller.
    name = '"fail_user_frame_lineno": '
    (tmp_path / "a.log").write_text(with_new_sums(text.replace(f"{name}{LINE}", f"{name}null")))
    assert finding(tmp_path / "a.log").location.line == DEFINITION
