"""A profile of a real program, beside what torch itself says of the same program."""

import json
import re
from collections import Counter

import pytest

from graphdoctor.facts.picture import kernel_sources
from graphdoctor.facts.profile import ProfileResult
from graphdoctor.probe.wire import TRACE_FOLDER
from graphdoctor.studies.profile.report import profile_report
from graphdoctor.trace.grammar import LogDamage, read_records
from graphdoctor.trace.logs import find_logs
from graphdoctor.trace.reader import read_recording
from graphdoctor.trials.launch.request import Measured
from graphdoctor.views.formats import PROFILE, RenderOptions
from graphdoctor.views.html.profile import codes_of
from graphdoctor.views.profile_words import kernel_name
from tests.conftest import clean_environment, run_script
from tests.factories import diagnosed
from tests.recorded import recorded as record_program

pytestmark = pytest.mark.slow

PROGRAM = """\
import torch


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(48, 96)
        self.norm = torch.nn.LayerNorm(96)
        self.down = torch.nn.Linear(96, 48)

    def forward(self, x):
        y = torch.nn.functional.gelu(self.up(x))
        y = self.norm(y) * 2
        return x + self.down(y)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.Sequential(Block(), Block())

    def forward(self, x):
        x = self.blocks(x)
        torch._dynamo.graph_break()
        return x.softmax(-1)


def example_inputs():
    return torch.randn(32, 48)
"""
LINES = {12, 13, 14, 25}
"""Those that compute something."""

INDEPENDENT = """\
import collections, json, torch
import torch._inductor.config
import model

torch._inductor.config.cpp.enable_kernel_profile = True
torch._inductor.config.force_disable_caches = True
net, x = model.Net(), model.example_inputs()
compiled = torch.compile(net)


def call():
    compiled(x).sum().backward()


call(), call()
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
    call()
graphs = [event for event in profiler.events() if event.name.startswith("## Call CompiledFxGraph")]


print(json.dumps(collections.Counter(child.name for graph in graphs for child in graph.cpu_children)))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("profile")
    (folder / "caches").mkdir()
    measured = Measured(kernels=True, memory=True, profile=str(folder / "caches"))
    record_program(folder, PROGRAM, measured, name="Net", backend="inductor", backward=True)
    return folder


@pytest.fixture(scope="module")
def recorded(folder):
    return read_recording(folder / "recording")


@pytest.fixture(scope="module")
def report(recorded, folder):
    return profile_report(recorded, diagnosed(recorded, root=folder), version="0")


def stacks_of_torch(folder):
    """For each call of a kernel, the lines that torch's own record of the forward graphs names."""
    found = {}
    name = "inductor_provenance_tracking_kernel_stack_traces"
    for log in find_logs(folder / "recording" / TRACE_FOLDER):
        with log.open() as lines:
            for record_ in read_records(lines, lambda kind: kind == name, LogDamage()):
                for kernel, stacks in json.loads(record_.payload or "{}").items():
                    own = found.setdefault(kernel.rpartition(":")[0], set())
                    for stack in stacks:
                        innermost = re.findall(r'File "[^"]*model\.py", line (\d+)', stack)
                        own.update(map(int, innermost[-1:]))
    return found


def test_the_lines_of_each_kernel_are_those_that_torch_names(report, folder):
    torchs = stacks_of_torch(folder)
    compiled = [kernel for kernel in report.kernels if kernel.graph is not None]
    assert len(compiled) > 5
    for kernel in compiled:
        name = re.sub(r"^graph_\d+_", "", kernel.name)
        assert {line.line for line in kernel.lines} <= torchs[name], name
    by_name = {}
    for kernel in compiled:
        by_name.setdefault(re.sub(r"^graph_\d+_", "", kernel.name), set()).update(
            line.line for line in kernel.lines
        )
    # torch names lines of views too, which take no time.
    assert sum(map(len, by_name.values())) >= 0.7 * sum(len(torchs[name]) for name in by_name)


@pytest.fixture(scope="module")
def independent(folder):
    """What a script of one's own prints."""
    script = folder / "independent.py"
    script.write_text(INDEPENDENT)
    return run_script(script, cwd=folder, env=clean_environment()).stdout.splitlines()


def test_kernels_run_as_often_as_torchs_profiler_says(report, independent):
    counted = Counter(json.loads(independent[-1]))
    ours = Counter()
    for kernel in report.kernels:
        if kernel.graph is not None:
            ours[kernel.name.replace("extern_kernels.", "aten::")] += kernel.calls
    assert ours
    assert {name: counted[name] for name in ours} == dict(ours)


def test_all_time_of_kernels_is_somebodys(report):
    assert report.kernels_us == pytest.approx(sum(kernel.time_us for kernel in report.kernels))
    in_lines = sum(line.forward_us + line.backward_us for line in report.lines)
    assert in_lines + (report.unattributed_us or 0) == pytest.approx(report.kernels_us)
    assert report.unattributed_us == pytest.approx(
        sum(kernel.time_us for kernel in report.kernels if not kernel.lines)
    )


def test_the_page_has_each_line_and_each_kernels_code(folder):
    recorded = read_recording(folder / "recording", picture=True)
    shown = profile_report(recorded, diagnosed(recorded, root=folder), version="0")
    texts = dict(enumerate(PROGRAM.splitlines(), start=1))
    assert {line.line: line.text for line in shown.lines} == {
        number: texts[number].strip() for number in LINES
    }
    codes = codes_of(shown.kernels, recorded.picture.generated)
    generated = [
        number
        for number, kernel in enumerate(shown.kernels)
        if kernel.kind in ("pointwise", "reduction")
    ]
    assert generated
    for number in generated:
        languages = [code.language for code, users in codes.items() if number in users]
        assert languages == ["C++"], shown.kernels[number].name
    page = PROFILE.named("html").render(
        ProfileResult(shown, recorded.picture), RenderOptions(root=folder)
    )
    assert isinstance(page, str)
    for kernel in shown.kernels:
        assert kernel_name(kernel) in page


def test_as_many_values_are_stored_as_each_kernel_has_buffers_to_write(folder):
    recorded = read_recording(folder / "recording", picture=True)
    written = {
        name: len(re.findall(r"(?<!const )float\* (?:in_out_ptr|out_ptr)\d", text))
        for generated in recorded.picture.generated
        for name, (_, text) in kernel_sources(generated.code)
    }
    stored = {
        kernel.name: sum(graph.operations[number].is_stored for number in kernel.operations)
        for graph in recorded.profiled.graphs
        for kernel in graph.kernels
        if kernel.name in written
    }
    assert len(stored) > 5
    assert stored == {name: written[name] for name in stored}


def test_shares_are_parts_of_what_the_device_reaches(report):
    device = report.calibration
    assert device.copy_gb_per_s > 0
    assert device.matmul_tflops_per_s.keys() == {"float32"}
    products = [kernel for kernel in report.kernels if kernel.flops]
    assert {kernel.dtype for kernel in products} == {"float32"}
    for kernel in report.kernels:
        reached = None if kernel.bytes is None else kernel.bytes / kernel.time_us / 1e3
        assert kernel.gb_per_s == (None if reached is None else pytest.approx(reached))
        if device.is_steady and reached is not None:
            assert kernel.bandwidth_share == pytest.approx(reached / device.copy_gb_per_s)
        if device.is_steady and kernel.tflops_per_s is not None:
            assert kernel.compute_share == pytest.approx(
                kernel.tflops_per_s / device.matmul_tflops_per_s["float32"]
            )
    # Two blocks, each with two products in the forward pass; both gradients but that of the input
    # in the backward.
    product = 2 * 32 * 48 * 96
    assert sum(kernel.flops or 0 for kernel in products) == product * (4 + 7)
    shares = [value for name, value in report.regime.evidence.items() if name.endswith("_share")]
    assert sum(shares) <= 1.001
