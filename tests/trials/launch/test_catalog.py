"""A library's architectures are listed, and written down as targets; whatever happens meanwhile is
a refusal."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import graphdoctor
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.catalog import Program, Refusal
from graphdoctor.probe.wire import program_header
from graphdoctor.trials.launch.catalog import architectures, file_name, write_program
from graphdoctor.trials.launch.child import Setup, probe_command
from graphdoctor.trials.launch.warm import WarmProbes
from tests.conftest import probe_python
from tests.sections import sections


def test_an_unknown_library_is_refused_with_the_nearest():
    with pytest.raises(GraphDoctorError, match="no catalog of 'transformer'") as raised:
        architectures("transformer", Setup(python=sys.executable, timeout_s=None))
    assert raised.value.hint == "Did you mean transformers?"
    with pytest.raises(GraphDoctorError) as raised:
        write_program("zzz", "bert", Path(), Setup(python=sys.executable, timeout_s=None))
    assert raised.value.hint is not None
    assert "transformers" in raised.value.hint


def test_an_interpreter_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(GraphDoctorError, match="can't be started"):
        architectures("transformers", Setup(python=str(tmp_path / "python"), timeout_s=None))


def written(folder: Path, *, version: str = "5.0", by: str = graphdoctor.__version__) -> Path:
    path = folder / file_name("gpt-sw3")
    path.write_text(
        program_header(
            library="transformers", version=version, architecture="gpt-sw3", graphdoctor=by
        )
    )
    return path


def test_a_program_that_is_there_is_taken_as_it_is(tmp_path):
    path = written(tmp_path)
    # No process is started: there is no such interpreter.
    program = write_program(
        "transformers", "gpt-sw3", tmp_path, Setup(python="nowhere"), version="5.0"
    )
    assert program == Program(
        path=str(path),
        library="transformers",
        version="5.0",
        architecture="gpt-sw3",
        parameters=None,
    )


@pytest.mark.parametrize(("version", "by"), [("4.9", graphdoctor.__version__), ("5.0", "0.0.1")])
def test_a_program_of_another_version_is_written_anew(tmp_path, version, by):
    written(tmp_path, version=version, by=by)
    with pytest.raises(GraphDoctorError, match="can't be started"):
        write_program(
            "transformers", "gpt-sw3", tmp_path, Setup(python="nowhere/python"), version="5.0"
        )


def test_a_file_is_named_as_a_module_can_be():
    assert file_name("audio-spectrogram-transformer") == "audio_spectrogram_transformer.py"
    assert file_name("../x") == "___x.py"


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in sections(Path(__file__).with_name("transformers.txt")).items():
        path = tmp_path / "site" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))


@pytest.fixture
def warm() -> Iterator[WarmProbes]:
    probes = WarmProbes(probe_command(probe_python()))
    yield probes
    probes.close()


@pytest.mark.slow
@pytest.mark.usefixtures("fake")
def test_what_goes_wrong_with_an_architecture_is_a_refusal(tmp_path, warm):
    catalog = architectures("transformers", Setup(python=probe_python(), timeout_s=120))
    assert catalog.version == "9.9"
    assert {item.name: item.family for item in catalog.architectures}["fine"] == "vision"

    def asked(name: str, *, timeout_s: float = 120.0) -> Program | Refusal:
        return write_program(
            "transformers",
            name,
            tmp_path / "programs",
            Setup(
                python=probe_python(),
                timeout_s=timeout_s,
                memory_bytes=2**31,
                warm=warm if sys.platform == "linux" else None,
            ),
        )

    program = asked("fine")
    assert isinstance(program, Program)
    assert program.parameters == 2 * 16 + 2
    kinds = {}
    for name in ("eating", "crashing", "leaving", "broken", "huge", "failing"):
        refusal = asked(name)
        assert isinstance(refusal, Refusal)
        kinds[name] = refusal.kind
        assert "graphdoctor" not in (refusal.traceback or "")
    assert kinds == {
        "eating": "out_of_memory",
        "crashing": "crashed",
        "leaving": "crashed",
        "broken": "load_failed",
        "huge": "too_large",
        "failing": "eager_failed",
    }
    hanging = asked("hanging", timeout_s=5)
    assert isinstance(hanging, Refusal)
    assert hanging.kind == "timeout"
    assert "5 s" in hanging.message
    assert [path.name for path in (tmp_path / "programs").iterdir()] == ["fine.py"]


@pytest.mark.slow
def test_a_library_that_is_not_installed_is_refused(tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['transformers'] = None\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(
        GraphDoctorError, match="transformers isn't installed for this interpreter"
    ) as raised:
        architectures("transformers", Setup(python=sys.executable, timeout_s=120))
    assert raised.value.hint == "Install it there: pip install transformers."
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['torch'] = None\n")
    with pytest.raises(GraphDoctorError, match="torch"):
        architectures("transformers", Setup(python=sys.executable, timeout_s=120))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux only")
def test_programs_of_transformers_run_on_their_own(tmp_path, warm):
    pytest.importorskip("transformers", minversion="5")
    names = ("llama", "vit", "wav2vec2")
    for name in names:
        program = write_program(
            "transformers",
            name,
            tmp_path,
            Setup(python=probe_python(), timeout_s=300, memory_bytes=2**32, warm=warm),
        )
        assert isinstance(program, Program), program
        assert program.parameters is not None
        assert program.parameters < 1_000_000
        assert "graphdoctor" not in Path(program.path).read_text().partition("import torch")[2]
    run = (
        "import importlib, torch\n"
        f"for name in {names!r}:\n"
        "    program = importlib.import_module(name)\n"
        "    results = [program.build()(**program.example_inputs()).last_hidden_state for _ in range(2)]\n"
        "    assert torch.equal(*results), name\n"
    )
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    subprocess.run(
        [sys.executable, "-c", run], cwd=tmp_path, env=environment, check=True, timeout=300
    )
