"""Source files out of a recording: from the records alone, whatever the disk holds."""

import hashlib
from pathlib import Path

import orjson

from graphdoctor.facts.recording import Environment
from graphdoctor.trace.origin import Origins
from graphdoctor.trace.reader import read_recording
from tests.recorded import log_content


def test_a_named_package_is_the_users_own():
    site = "/env/lib/python3.11/site-packages"
    origins = Origins(Environment(site_roots=(site,), own_packages=("shop", "torch")))
    assert origins.of(f"{site}/shop/prices.py") == ("user", None)
    assert origins.of(f"{site}/shop.py") == ("user", None)
    assert origins.of(f"{site}/shop_extra/prices.py") == ("third_party", "shop_extra")
    assert origins.of(f"{site}/torch/nn/modules/linear.py") == ("torch", "torch")


def kept(folder):
    picture = read_recording(folder, picture=True).picture
    assert picture is not None
    return {Path(file.file).name: file.text for file in picture.files}


def test_file_without_room_in_one_process_comes_from_another(tmp_path):
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
