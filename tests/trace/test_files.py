"""Source files out of a recording: from the records alone, whatever the disk holds."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import orjson
import pytest

from graphdoctor.facts.picture import SourceText
from graphdoctor.facts.recording import Environment
from graphdoctor.trace.grammar import Record
from graphdoctor.trace.origin import Origins
from graphdoctor.trace.picture import Files
from graphdoctor.trace.reader import read_recording
from tests.conftest import CLEAN_TARGET, run_command
from tests.recorded import log_content

ORIGINS = Origins(Environment(site_roots=("/env/lib/python3.11/site-packages",)))


def file_record(file: str, text: str | None) -> Record:
    payload = orjson.dumps({"file": file, "text": text}).decode()
    return Record("graphdoctor_file", is_artifact=True, value={}, metadata={}, payload=payload)


def test_a_named_package_is_the_users_own():
    site = "/env/lib/python3.11/site-packages"
    origins = Origins(Environment(site_roots=(site,), own_packages=("shop", "torch")))
    assert origins.of(f"{site}/shop/prices.py") == ("user", None)
    assert origins.of(f"{site}/shop.py") == ("user", None)
    assert origins.of(f"{site}/shop_extra/prices.py") == ("third_party", "shop_extra")
    assert origins.of(f"{site}/torch/nn/modules/linear.py") == ("torch", "torch")


def kept(folder: Path) -> dict[str, str | None]:
    picture = read_recording(folder, picture=True).picture
    assert picture is not None
    return {Path(found.file).name: found.text for found in picture.files}


def test_a_file_has_its_owner():
    files = Files()
    package = "/env/lib/python3.11/site-packages/transformers/generic.py"
    files.add(file_record("/project/model.py", "x = 1\n"))
    files.add(file_record(package, None))
    assert files.finish(ORIGINS) == (
        SourceText(file="/project/model.py", text="x = 1\n"),
        SourceText(file=package, text=None, origin="third_party", package="transformers"),
    )


def test_a_file_that_one_process_had_no_room_for_is_taken_from_another(tmp_path):
    for rank, text in enumerate(("x = 1\n", None)):
        payload = orjson.dumps({"file": "/project/model.py", "text": text})
        header = {
            "artifact": {"name": "graphdoctor_file"},
            "has_payload": hashlib.md5(payload).hexdigest(),
        }
        record = (
            b"V1121 04:00:00.000000 4242 x.py:1] "
            + orjson.dumps(header)
            + b"\n\t"
            + payload
            + b"\n"
        )
        path = tmp_path / f"dedicated_log_torch_trace_rank_{rank}_a.log"
        path.write_bytes(log_content("2.13.0/item") + record)
    assert kept(tmp_path) == {"model.py": "x = 1\n"}


@pytest.mark.slow
def test_a_recording_has_the_file_of_the_compiled_function(recorded, tmp_path):
    shutil.copytree(recorded / ".graphdoctor", tmp_path / "moved")
    (folder,) = (path for path in (tmp_path / "moved").iterdir() if path.is_dir())
    assert kept(folder) == {"clean.py": CLEAN_TARGET}


SCRIPT = """\
import os
from pathlib import Path
import torch
from helper import relu

def half(x):
    return relu(x) / 2

torch.compile(half, backend="eager")(torch.ones(2))
Path("helper.py").unlink()
Path(__file__).write_text("changed = 1\\n")
os.kill(os.getpid(), 9)
"""
HELPER = "import torch\n\nlayer = torch.nn.Sequential(torch.nn.ReLU())\n\ndef relu(x):\n    return layer(x)\n"


@pytest.mark.slow
def test_files_of_a_killed_script_are_as_they_were_when_it_compiled(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "helper.py").write_text(HELPER)
    run_command("run", "script.py", cwd=tmp_path)
    (folder,) = (path for path in (tmp_path / ".graphdoctor").iterdir() if path.is_dir())
    # The helper is inlined: nodes of the graph point to it, from behind lines of torch's own.
    assert kept(folder) == {"script.py": SCRIPT, "helper.py": HELPER}
