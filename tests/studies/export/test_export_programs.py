"""``graphdoctor export`` on programs: what torch takes, and what blocks it."""

import json

import pytest

from graphdoctor.rules.catalog import ALL_RULES
from tests.conftest import clean_environment, run_command, run_script
from tests.probe.test_wire import recorded_in
from tests.rules.test_documentation import first_block
from tests.studies.export.test_export_reading import finding_of

pytestmark = pytest.mark.slow

CHAIN = """
import numpy
import torch


class Net(torch.nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            x = x * 2
        y = torch.from_numpy(numpy.sin(x.detach().numpy()))
        torch._dynamo.graph_break()
        kept = x[x > 0]
        if kept.shape[0] > 2:
            y = y + 1
        return x + y


def example_inputs():
    return (torch.randn(3, 4),)
"""

STATE = """
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0
        self.register_buffer("n", torch.zeros(1))
        self.position = torch.nn.Parameter(torch.randn(12, 4))

    def forward(self, x, *, scale: int, mask):
        print("shape", x.shape)
        self.calls += 1
        self.n += 1
        return {"a": x * scale * mask["m"] + self.n, "b": (self.position[: x.shape[0]],)}


def example_inputs():
    for size, scale in ((3, 3), (3, 3), (6, 3), (3, 4)):
        yield (torch.ones(size, 4),), {"scale": scale, "mask": {"m": torch.rand(size, 4)}}
"""

FUNCTION = """
import torch

linear = torch.nn.Linear(4, 4)


def forward(x):
    return linear(x)


def example_inputs():
    return (torch.randn(5, 4),)
"""


def export(folder, program, *options):
    """The JSON document."""
    (folder / "model.py").write_text(program)
    done = run_command(
        "export", "model.py", "--format", "json", *options, cwd=folder, timeout=600, status=0
    )
    return json.loads(done.stdout)


def test_what_blocks_is_named_with_other_breaks(tmp_path):
    document = export(tmp_path, CHAIN)
    assert [way["status"] for way in document["ways"]] == ["blocked", "blocked"]
    for way in document["ways"]:
        (blocker,) = way["blockers"]
        assert (blocker["finding"]["code"], blocker["finding"]["location"]["line"]) == ("GD102", 8)
    assert {"GD104", "GD107"} <= {finding["code"] for finding in document["breaks"]}


def test_a_program_that_keeps_state_is_compared_with_eager_mode(tmp_path):
    document = export(tmp_path, STATE)
    assert document["best"] == "non-strict"
    for way in document["ways"]:
        assert way["status"] == "exported"
        assert way["correctness"]["is_bitwise_equal"]
        assert way["lost"] == ["calls"]
        assert way["unwritten"] == ["stdout"]
        kinds = [entry["kind"] for entry in way["inputs"]]
        assert kinds.count("buffer") == kinds.count("parameter") == 1
    # Calls 1 and 2 are alike, 3 has another size, 4 another number.
    assert (document["calls_made"], document["calls_other"]) == (2, [3, 4])
    # What the probe wrote is as declared.
    (folder,) = (tmp_path / ".graphdoctor").glob("*/export")
    events, _ = recorded_in(folder / "strict-true")
    assert events >= {"export", "export_calls", "trial"}
    # What is there to paste makes the program.
    line = document["ways"][0]["line"]
    (tmp_path / "paste.py").write_text(
        "import torch\nfrom model import *\nmodel = Net()\n(x,), rest = next(example_inputs())\n"
        f"scale, mask = rest['scale'], rest['mask']\n{line}\nassert program.graph\n"
    )
    run_script(tmp_path / "paste.py", cwd=tmp_path, env=clean_environment())


def test_a_function_is_wrapped_in_a_module(tmp_path):
    document = export(tmp_path, FUNCTION)
    assert document["is_wrapped"]
    assert document["ways"][0]["line"].startswith(
        "wrapper = torch.nn.Module()\nwrapper.linear = linear\nwrapper.forward = forward\n"
    )


PAGES = """
import json, sys, torch

found = {}
for name, text in json.loads(open("pages.json").read()).items():
    names = {"__name__": name}
    sys.modules[name] = type(sys)(name)
    names = sys.modules[name].__dict__
    exec(text, names)
    module = torch.nn.Module()
    module.forward = names["forward"]
    try:
        torch.export.export(module, names["inputs"](), strict=False)
    except Exception as error:
        found[name] = str(error)
print(json.dumps(found))
"""


def test_the_pages_of_what_only_export_finds_hold(tmp_path):
    rules = {code: ALL_RULES[code] for code in ("GD600", "GD601")}
    pages = {
        f"{code}_{section[:3]}": first_block(rule, section)
        for code, rule in rules.items()
        for section in ("Example", "Use instead")
    }
    (tmp_path / "pages.json").write_text(json.dumps(pages))
    (tmp_path / "pages.py").write_text(PAGES)
    found = json.loads(
        run_script(tmp_path / "pages.py", cwd=tmp_path, env=clean_environment()).stdout
    )
    assert set(found) == {"GD600_Exa", "GD601_Exa"}
    for name, message in found.items():
        assert finding_of(tmp_path, message)[0].code == name[:5]


def test_program_failing_in_eager_is_its_own_error(tmp_path):
    (tmp_path / "model.py").write_text("def forward():\n    raise ValueError('not today')\n")
    done = run_command("export", "model.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "ValueError: not today" in done.stderr
