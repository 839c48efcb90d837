"""What holds for every command: help, output files, colours, exit codes; and that the parent never
imports torch."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

import graphdoctor
from graphdoctor.commands import command_for
from graphdoctor.commands.app import command_of
from graphdoctor.commands.commands import FOR_TOOLS, NAMES, overview
from graphdoctor.rules.catalog import ALL_RULES, PAGES
from tests.conftest import CLEAN_TARGET, RECORDED_LOGS, RunCli, clean_environment, command_line
from tests.each import for_each

TRACES = RECORDED_LOGS / "2.13.0"
VERSIONS = sorted(folder.parent.name for folder in TRACES.parent.glob("*/lowered.bare"))


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A folder such as ``TORCH_TRACE=folder`` leaves, with one log."""
    log = next((TRACES / "print_in_helper.bare").glob("*.log"))
    folder = tmp_path / "trace"
    folder.mkdir()
    (folder / log.name).write_bytes(log.read_bytes())
    return folder


def run_python(code: str, *args: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run code that has ``sys`` and ``main`` (the command line's entry), with the arguments of the
    command."""
    prelude = "import sys\nfrom graphdoctor.commands import main\n"
    return subprocess.run(
        [sys.executable, "-P", "-c", prelude + code, *map(str, args)],
        cwd=cwd,
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


# Help, version, wrong usage.


def test_help_names_every_command(run_here):
    process = run_here("--help", status=0)
    assert process.stderr == ""
    assert all(callable(command_of(name)) for name in NAMES)
    for command in NAMES:
        shown = (
            rf"^ +{command} " if command not in FOR_TOOLS else rf"(?s)For tools: .*\b{command}\b"
        )
        assert re.search(shown, process.stdout, re.MULTILINE)


def test_typer_and_the_quick_way_print_the_same_overview(run_here):
    assert run_here("--no-such", "--help").returncode == 2
    assert run_here("-h").stdout == run_here("--help", "--help").stdout == overview()


def test_the_version_is_the_packages(run_here):
    process = run_here("--version")
    assert (process.returncode, process.stdout) == (0, f"graphdoctor {graphdoctor.__version__}\n")


# Output files.


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_unwritable_folder_is_refused_before_anything_runs(tmp_path, run_here):
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o555)
    process = run_here("explain", "no-such-target.py", "-o", folder / "out.json", status=2)
    assert "isn't writable" in process.stderr


def test_a_report_goes_where_its_output_and_its_format_say(tmp_path, run_here, trace):
    process = run_here("report", trace, "-o", "out.json")
    assert (process.returncode, process.stdout, process.stderr) == (0, "", "Wrote out.json\n")
    assert json.loads((tmp_path / "out.json").read_text())["schema_version"]
    assert run_here("report", trace, "-o", "out.txt", "--quiet").stderr == ""
    assert "breaks the graph" in (tmp_path / "out.txt").read_text()
    # A named format overrules the ending.
    assert run_here("report", trace, "-o", "out.txt", "--format", "json", "--force").returncode == 0
    assert json.loads((tmp_path / "out.txt").read_text())
    gone = run_here("report", trace, "--format", "chrome-trace", status=2)
    assert gone.stderr.startswith("error: chrome-trace left graphdoctor")
    assert {path.name for path in tmp_path.iterdir()} == {"out.json", "out.txt", "trace"}


def test_a_failure_while_writing_keeps_the_old_file(tmp_path, trace):
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "out.json").write_text("old")
    code = (
        "import os\n"
        "def full(*args): raise OSError(28, 'No space left on device')\n"
        "import pathlib; pathlib.Path.replace = full\n"
        "main()\n"
    )
    process = run_python(code, "report", trace, "-o", folder / "out.json", "--force", cwd=tmp_path)
    assert process.returncode == 2
    assert "out.json: No space left on device" in process.stderr
    assert [(path.name, path.read_text()) for path in folder.iterdir()] == [("out.json", "old")]


def test_a_reader_that_has_gone_is_no_error(tmp_path, trace):
    process = subprocess.Popen(
        command_line("report", trace, "-v"),
        cwd=tmp_path,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.close()
    assert process.stderr.read() == b""
    process.wait()


# Colours.


@for_each(
    "arguments, variables, is_coloured",
    [
        ((), {}, False),
        ((), {"FORCE_COLOR": "1"}, True),
        (("--color", "always"), {}, True),
        (("--color", "always"), {"NO_COLOR": "1", "TERM": "dumb"}, True),
        (("--color", "never"), {"FORCE_COLOR": "1"}, False),
        (("-o", "out.txt", "--force"), {"FORCE_COLOR": "1"}, False),
        (("--format", "json", "-o", "out.txt", "--force"), {"FORCE_COLOR": "1"}, False),
    ],
)
def test_colours_off_a_terminal(tmp_path, run_here, trace, arguments, variables, is_coloured):
    process = run_here("report", trace, *arguments, env=clean_environment(**variables), status=0)
    shown = (tmp_path / "out.txt").read_text() if "-o" in arguments else process.stdout
    assert ("\x1b[" in shown) is is_coloured


def test_no_color_takes_the_colours_and_nothing_else(run_here, trace):
    plain = run_here("report", trace)
    process = run_here("report", trace, env=clean_environment(NO_COLOR="1", FORCE_COLOR="1"))
    assert not re.search(r"\x1b\[[\d;]*3\d", process.stdout)
    words = [re.sub(r"\x1b\[[\d;]*m", "", text).split() for text in (process.stdout, plain.stdout)]
    assert words[0] == words[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variables", "is_coloured"), [({}, True), ({"TERM": "dumb"}, False)], ids=str
)
def test_colours_on_a_terminal(tmp_path, trace, variables, is_coloured):
    ours, theirs = pty.openpty()
    environment = clean_environment(**{"TERM": "xterm-256color", **variables})
    process = subprocess.Popen(
        command_line("report", trace), cwd=tmp_path, env=environment, stdout=theirs
    )
    os.close(theirs)
    assert (b"\x1b[" in read_all(ours)) is is_coloured
    assert process.wait() == 0


def read_all(descriptor: int) -> bytes:
    chunks = []
    while select.select([descriptor], [], [], 60)[0]:
        try:
            chunk = os.read(descriptor, 65536)
        except OSError:  # Linux's way to say that the other side is closed
            break
        if not chunk:
            break
        chunks.append(chunk)
    os.close(descriptor)
    return b"".join(chunks)


@pytest.mark.slow
@pytest.mark.parametrize(
    "variables", [{"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "latin-1"}], ids=str
)
def test_a_terminal_may_lack_signs(run_cli, trace, variables):
    shown = run_cli("report", trace, env=clean_environment(**variables), status=0).stdout
    assert "torch 2.13.0" in shown
    assert "?" not in shown
    assert json.loads(
        run_cli("report", trace, "--format", "json", env=clean_environment(**variables)).stdout
    )


# report.


@pytest.mark.parametrize("version", VERSIONS)
def test_stages_of_a_log_from_elsewhere(tmp_path, run_here, version):
    log = TRACES.parent / version / "lowered.bare"
    process = run_here(
        "report",
        log,
        "--stages",
        "--stage",
        "joint",
        "--stage",
        "fusion",
        "--graph",
        "0/0",
        status=0,
    )
    shown = re.findall(
        r"^((?:joint|fusion|forward|backward)(?:, \w+)?): ", process.stdout, re.MULTILINE
    )
    assert shown == ["joint", "fusion, forward", "fusion, backward"]
    assert (
        "kernels: cpp_fused_mul_native_layer_norm_relu_sum_0, extern_kernels.mm" in process.stdout
    )
    assert "torch didn't log which operations went into which kernel" in process.stdout

    assert run_here("report", log, "--stages", "-o", "out.json").returncode == 0
    again = run_here("report", "out.json", "--stages", "--stage", "joint", "--graph", "0/0")
    joint = again.stdout.partition("joint: ")[2].partition("\n\n")[0]
    assert joint
    assert joint in process.stdout
    unknown = run_here("report", log, "--stages", "--graph", "7/0")
    assert (unknown.returncode, "hint: Graphs: 0/0, 0/1." in unknown.stderr) == (2, True)
    assert run_here("report", log, "-o", "without.json").returncode == 0
    assert "was written without stages" in run_here("report", "without.json", "--stages").stderr


@pytest.mark.slow
def test_report_repeats_explain_and_matches_the_schema(tmp_path, run_cli, recorded):
    process = run_cli("report", cwd=recorded)
    assert process.stdout.startswith("clean.py · Net"), process.stderr
    assert "No graph breaks." in process.stdout
    assert "coverage 100%" in process.stdout
    schema = json.loads(run_cli("schema").stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    validate = jsonschema.Draft202012Validator(schema).validate
    document = json.loads(run_cli("report", "--format", "json", cwd=recorded).stdout)
    validate(document)
    with pytest.raises(jsonschema.ValidationError):
        validate({**document, "summary": {}})
    (tmp_path / "file.py").write_text(
        "import torch\ndef f(x): raise ValueError\nexample_inputs = (torch.ones(2),)\n"
    )
    process = run_cli("explain", "file.py", "--format", "json", status=2)
    validate(json.loads(process.stdout))


@pytest.mark.slow
def test_recordings_are_pruned_to_the_configured_number(tmp_path, clean_target, run_cli):
    (tmp_path / "pyproject.toml").write_text("[tool.graphdoctor]\nkeep-recordings = 1\n")
    for _ in range(2):
        assert run_cli("explain", clean_target, "--no-coverage").returncode == 0
    assert len([path for path in (tmp_path / ".graphdoctor").iterdir() if path.is_dir()]) == 1


def test_ignore_says_how_much_it_hides(run_here, trace):
    shown, hidden = (
        json.loads(run_here("report", trace, "--format", "json", *more).stdout)
        for more in ((), ("--ignore", "gd1"))
    )
    assert [finding["code"] for finding in shown["findings"]] == ["GD101"]
    assert hidden["findings"] == []
    assert hidden["summary"] == {**shown["summary"], "hidden_findings": 1}


# rule.


def test_rules_are_explained_by_code_or_prefix(run_here):
    for code in ("GD101", "gd101"):
        process = run_here("rule", code, status=0)
        assert "GD101" in process.stdout
        assert ALL_RULES["GD101"].name in process.stdout
    listed = json.loads(run_here("rule", "--all", "--format", "json").stdout)
    assert [rule["code"] for rule in listed] == list(PAGES)
    rules = json.loads(run_here("rule", "GD2", "--format", "json").stdout)
    assert {rule["code"] for rule in rules} == {
        code for code in ALL_RULES if code.startswith("GD2")
    }


def test_torch_ids_lead_to_the_rules_for_them(run_here):
    assert run_here("rule", "GB0109", status=0).stdout.startswith("GD103 ")
    unclear = run_here("rule", "gb9999", status=0)
    assert unclear.stdout.startswith("GD100 ")
    assert "No rule is for GB9999 alone" in unclear.stderr


# Trouble.


def test_trouble_of_our_own_is_one_line_and_a_log(tmp_path):
    code = (
        "import graphdoctor.commands.settings\n"
        "def boom(*args): raise RuntimeError('kaputt \\x1b[31m')\n"
        "graphdoctor.commands.settings.load_settings = boom\n"
        "main()\n"
    )
    process = run_python(code, "report", cwd=tmp_path)
    assert process.returncode == 2
    assert "error: graphdoctor failed: RuntimeError: kaputt" in process.stderr
    assert "\x1b" not in process.stderr
    assert "Traceback" not in process.stderr
    log = Path(process.stderr.rpartition("with the log ")[2].strip())
    text = log.read_text()
    log.unlink()
    assert "Traceback" in text
    assert f"graphdoctor {graphdoctor.__version__}" in text


@for_each("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_end_with_their_status(tmp_path, number):
    code = (
        "import graphdoctor.commands.settings, signal\n"
        f"def stop(*args): signal.raise_signal({number:d})\n"
        "graphdoctor.commands.settings.load_settings = stop\nmain()\n"
    )
    process = run_python(code, "report", cwd=tmp_path)
    assert (process.returncode, process.stderr) == (128 + number, "Interrupted.\n")


@pytest.mark.slow
def test_the_parent_never_imports_torch(tmp_path, trace, clean_target):
    code = (
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        "heavy = sorted({name.partition('.')[0] for name in sys.modules} & {'torch', 'numpy', 'transformers'})\n"
        "assert not heavy, heavy\n"
    )
    commands = (
        ("--help",),
        ("rule", "--all"),
        ("schema",),
        ("report", trace, "-o", "a.json"),
        ("diff", "a.json", trace),
    )
    for arguments in (*commands, ("explain", clean_target)):
        process = run_python(code, *arguments, cwd=tmp_path)
        assert process.returncode == 0, process.stderr


@pytest.mark.slow
def test_prints_of_the_program_stay_off_standard_output(tmp_path, run_cli):
    (tmp_path / "file.py").write_text(f"print('hello')\n{CLEAN_TARGET}")
    process = run_cli("explain", "file.py", "-o", "out.json", "--quiet")
    assert (process.returncode, process.stdout, process.stderr) == (0, "", "hello\n")
    assert json.loads((tmp_path / "out.json").read_text())["summary"]["calls"] == 1


@pytest.mark.slow
def test_a_file_stands_for_the_command_that_it_needs(tmp_path: Path, run_cli: RunCli) -> None:
    (tmp_path / "train.py").write_text(
        "print('trained')\nimport torch\n\nclass Net(torch.nn.Module):\n    pass\n\n"
        "for _ in range(1):\n    torch.ones(1)\n"
    )
    done = run_cli("train.py", "--epochs", "2", "--input=f32[2]", status=0)
    assert "trained" in done.stdout
    assert "warning: --input goes to train.py" in done.stderr
    assert done.stderr.endswith("Next: graphdoctor explain train.py:Net\n")
    assert "train has no Other" in run_cli("train.py:Other", status=2).stderr


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("train.py", "run"),
        ("train.py --epochs 2", "run"),
        ("train.py --seed 1", "run"),
        ("train.py --input f32[2]", "explain"),
        ("train.py --input=f32[2] --no-coverage -v", "explain"),
        ("train.py --seed 1 --input f32[2]", "run"),
        ("model.py", "explain"),
        ("model.py:Net --epochs 2", "explain"),
        ("package.net:Net", "explain"),
        ("explian", None),
    ],
)
def test_an_option_of_ours_is_not_taken_for_the_scripts(
    line: str, command: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").write_text("import torch\nparse('--seed')\n")
    (tmp_path / "model.py").write_text(CLEAN_TARGET)
    monkeypatch.chdir(tmp_path)
    text, *arguments = line.split()
    assert command_for(text, arguments) == command


@pytest.mark.slow
def test_program_failing_in_eager_shows_only_its_own_error(tmp_path, run_cli):
    program = (
        "import torch\n\n\nclass Net(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.linear = torch.nn.Linear(4, 2)\n\n    def forward(self, x):\n        return self.linear(x)\n\n\n"
        "def example_inputs():\n    return torch.ones(1, 5)\n"
    )
    (tmp_path / "model.py").write_text(program)
    found = run_cli("explain", "model.py", cwd=tmp_path, status=2)
    assert found.stdout == ""
    said = "mat1 and mat2 shapes cannot be multiplied (1x5 and 4x2)"
    error, hint = found.stderr.splitlines()
    assert error.startswith("error: The program failed in call 1, at ")
    assert error.endswith(f"model.py:10: RuntimeError: {said}")
    assert "example_inputs" in hint
