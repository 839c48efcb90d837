"""``graphdoctor bundle``: what is in the zip, what is not when it is redacted, and what it says of
bad input."""

import gzip
import html
import json
import shutil
import subprocess
import sys
import zipfile

import pytest

from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.reading import read_fact
from tests.conftest import RECORDED_LOGS, clean_environment, run_command
from tests.studies.bundle.marked import MARK, NUMBER, OTHER_NUMBER, PLACES, texts_of, write_program

RECORDINGS = RECORDED_LOGS / "2.13.0"


@pytest.fixture
def work(tmp_path, recorded):
    """A folder with a recording of its own."""
    shutil.copytree(recorded, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture(scope="module")
def marked(tmp_path_factory):
    """The folder in which a program full of marks was recorded, its last call failing."""
    program, variables = write_program(tmp_path_factory.mktemp("marked"))
    process = run_command(
        "explain",
        program.name,
        "--format",
        "json",
        cwd=program.parent,
        env=clean_environment(**variables),
    )
    assert "qzsecretmessage" in process.stderr
    return program.parent


def names_in(archive):
    with zipfile.ZipFile(archive) as opened:
        return opened.namelist()


@pytest.mark.slow
def test_a_bundle_can_be_read_and_its_script_run(work, run_here):
    process = run_here("bundle", "--no-try", status=0)
    assert process.stdout == ""
    assert process.stderr.startswith("Wrote bundle.zip (")
    (log,) = (work / ".graphdoctor").glob("*/trace/*.log")
    names = names_in(work / "bundle.zip")
    assert f"recording/trace/{log.name}" in names
    assert names[:6] == [
        "README.md",
        "issue.md",
        "diagnosis.json",
        "report.html",
        "environment.txt",
        "reproduce.py",
    ]
    (work / "unzipped").mkdir()
    with zipfile.ZipFile(work / "bundle.zip") as archive:
        archive.extractall(work / "unzipped")
    report = run_here("report", "unzipped/recording", "--format", "json")
    again, written = (
        json.loads(report.stdout),
        json.loads((work / "unzipped" / "diagnosis.json").read_text()),
    )
    assert again["summary"] == written["summary"]
    read_fact(Diagnosis, written)
    assert "It was not run (--no-try)." in (work / "unzipped" / "issue.md").read_text()
    versions = (work / "unzipped" / "environment.txt").read_text()
    assert f"PyTorch version: {written['recording']['environment']['torch']}" in versions
    assert f"[pip3] numpy=={written['recording']['environment']['packages']['numpy']}" in versions
    # The same recording gives the same bytes, in another file unless it's asked for.
    first = (work / "bundle.zip").read_bytes()
    (work / "bundle.zip").write_text("mine")
    refused = run_here("bundle", "--no-try")
    assert (refused.returncode, (work / "bundle.zip").read_text()) == (2, "mine")
    assert "bundle.zip exists" in refused.stderr
    assert run_here("bundle", "--no-try", "--force", "-q").returncode == 0
    assert (work / "bundle.zip").read_bytes() == first
    # The script needs nothing but torch.
    code = "import sys, runpy; runpy.run_path('reproduce.py', run_name='__main__'); print('graphdoctor' in sys.modules)"
    process = subprocess.run(
        [sys.executable, "-c", code],
        cwd=work / "unzipped",
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert process.stdout == "False\n", process.stderr


@pytest.mark.slow
def test_the_script_is_run_and_shows_what_the_recording_shows(marked, tmp_path):
    variables = {
        "HOME": str(marked.parent / "qzsecretuser"),
        "QZSECRETVARIABLE": "qzsecretenvironment",
    }
    output = tmp_path / "bundle.zip"
    process = run_command(
        "bundle", "-o", output, cwd=marked, env=clean_environment(**variables), status=0
    )
    found = texts_of(output)
    assert "On its own, it does what was recorded" in process.stderr
    assert "it does what was recorded" in found["issue.md"]
    assert "modules/qzsecrethomefile.py" in found
    for place, mark in PLACES.items():
        if place != "an environment variable":
            assert any(mark in text for text in found.values()), place


@pytest.mark.slow
def test_nothing_of_the_programs_is_in_a_redacted_bundle(marked, tmp_path):
    output = tmp_path / "bundle.zip"
    run_command("bundle", "--redact", "-o", output, cwd=marked, status=0)
    found = texts_of(output)
    assert {"report.html#data-graphs", "report.html#data-guards"} < set(found)
    assert not [name for name in found if name.startswith(("reproduce", "modules", "recording"))]
    for name, text in found.items():
        for mark in (MARK, NUMBER, OTHER_NUMBER, str(marked).lower()):
            assert mark not in text, f"{mark} in {name}"
    diagnosis = json.loads((zipfile.ZipFile(output)).read("diagnosis.json"))
    assert "GD101" in {finding["code"] for finding in diagnosis["findings"]}
    assert diagnosis["recording"]["calls"][0]["inputs"] == "f32[2, 4], …"


READS_THE_ENVIRONMENT = """\
import os
from os import environ as settings

import torch


@torch.compile(backend="eager")
def sign(x):
    if os.environ["TOKEN"] == "in the source":
        return x.cos()
    return x.relu() if settings["OTHER_TOKEN"].startswith("k") else x.abs()


for token in ("kept-1", "it's \\"two\\"", "kept-3"):
    os.environ.update(TOKEN=token, OTHER_TOKEN=token)
    sign(torch.ones(2))
"""
TOKENS = ("kept-", "it'", "it\\'", "it\\\\'")


@pytest.mark.slow
@pytest.mark.parametrize("packed", [False, True])
def test_values_of_environment_variables_stay_out_unless_asked_for(tmp_path, run_here, packed):
    (tmp_path / "train.py").write_text(READS_THE_ENVIRONMENT)
    run_here("run", "train.py", status=0)
    (place,) = (path for path in (tmp_path / ".graphdoctor").iterdir() if path.is_dir())
    if packed:
        (log,) = (place / "trace").glob("*.log")
        log.write_bytes(gzip.compress(log.read_bytes()))

    process = run_here("bundle", place, "-o", "bundle.zip", status=0)

    assert "left out: The values of 2 environment variables that torch guards" in process.stderr
    found = evidence_in(tmp_path / "bundle.zip")
    assert any(
        '== "in the source"' in text for name, text in found.items() if name.endswith(".log")
    )
    assert not [
        (name, token) for name, text in found.items() for token in TOKENS if f"b'{token}" in text
    ]
    with zipfile.ZipFile(tmp_path / "bundle.zip") as archive:
        archive.extractall(tmp_path / "unzipped")
    again, before = (
        json.loads(run_here("report", folder, "--format", "json").stdout)
        for folder in ("unzipped/recording", place)
    )
    assert again["summary"] == before["summary"]
    assert again["recording"]["gaps"] == before["recording"]["gaps"]
    run_here("bundle", place, "--with-environment", "-o", "with.zip", status=0)
    assert any("b'kept-1'" in text for text in evidence_in(tmp_path / "with.zip").values())


def evidence_in(archive):
    with zipfile.ZipFile(archive) as opened:
        return {name: html.unescape(opened.read(name).decode()) for name in opened.namelist()}


@pytest.mark.slow
def test_the_recording_of_a_killed_run_is_bundled(tmp_path, run_here):
    shutil.copytree(RECORDINGS / "item", tmp_path / "cut")
    log = next((tmp_path / "cut" / "trace").glob("*.log"))
    log.write_bytes(log.read_bytes()[:-20_000])
    (tmp_path / "cut" / "probe.jsonl").write_text('{"event": "process", "pid": 1}\n{"event": "ph')
    for options in ((), ("--redact",)):
        run_here("bundle", "cut", "--no-try", "--force", *options, status=0)
        assert ("recording/probe.jsonl" in names_in(tmp_path / "bundle.zip")) == (not options)


def test_a_torch_trace_folder_is_bundled_without_a_script(tmp_path, run_here):
    shutil.copytree(RECORDINGS / "print_in_helper.bare", tmp_path / "traced")
    process = run_here("bundle", "traced", status=0)
    assert "reproduce.py`: the log was not recorded by graphdoctor explain" in process.stderr
    names = names_in(tmp_path / "bundle.zip")
    assert "reproduce.py" not in names
    assert "recording/trace/dedicated_log_torch_trace_recorded.log" in names


def test_a_too_large_file_is_left_out_and_named(tmp_path, run_here, monkeypatch):
    shutil.copytree(RECORDINGS / "item", tmp_path / "large")
    monkeypatch.setattr("graphdoctor.studies.bundle.bundle.MAX_FILE_BYTES", 50_000)
    process = run_here("bundle", "large", "--no-try")
    assert "dedicated_log_torch_trace_recorded.log`: too large (" in process.stderr
    assert not [name for name in names_in(tmp_path / "bundle.zip") if name.endswith(".log")]
