"""A profile in a browser: each line with its time and its kernels, each kernel with its code, for
everyone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from graphdoctor.facts.picture import Autotuned, GeneratedCode, Picture, SourceText
from graphdoctor.facts.profile import ProfileReport, ProfileResult
from graphdoctor.views.formats import PROFILE
from graphdoctor.views.html.profile import codes_of, flame
from tests.each import for_each
from tests.studies.profile.reports import FILE, kernel, profiled, trained
from tests.views.outputs import in_file, page_of, text_of

ROOT = Path("/project")
MODEL = """\
import torch

# A comment that nobody needs here.
# And another one.
# And a third one.
# And a fourth one.


class Net(torch.nn.Module):
    def forward(self, x):
        # secret plan
        y = self.a(x)
        y = gelu(y)
        return y * 2
"""
CODE = """# AOT ID: ['0_forward']
triton_poi_fused_gelu_mul_0 = async_compile.triton('triton_poi_fused_gelu_mul_0', '''
import triton

@triton.jit
def triton_poi_fused_gelu_mul_0(in_ptr0, out_ptr0, xnumel, XBLOCK: tl.constexpr):
    tl.store(out_ptr0, tl.load(in_ptr0) * 2.0)
''', device_str='cuda')

cpp_fused_sum_1 = async_compile.cpp_pybinding(['const float*'], r'''
#include <torch/csrc/inductor/cpp_prefix.h>
extern "C" void kernel(const float* in_ptr0) {}
''')

def call(args):
    buf0 = empty_strided_cuda((128, 256), (256, 1), torch.float32)
    extern_kernels.addmm(arg1, arg0, reinterpret_tensor(arg2, (256, 256), (1, 256), 0), out=buf0)
    triton_poi_fused_gelu_mul_0.run(buf0, 32768, stream=stream0)
"""
PICTURE = Picture(
    files=(SourceText(file=FILE, text=MODEL),),
    autotuned=(
        Autotuned(
            operation="mm",
            compile_id="0/0",
            choices=20,
            triton_choices=19,
            best="triton_mm_12",
            best_us=12.3,
            best_settings="BLOCK_K=64, BLOCK_M=128, num_warps=8",
        ),
    ),
    generated=(
        GeneratedCode(compile_id="0/0", stage="forward", code=CODE),
        GeneratedCode(compile_id="0/1", stage="forward", code=CODE.replace("* 2.0", "* 3.0")),
    ),
)


def everything() -> ProfileReport:
    """Lines of two files, kernels of every kind, and all that stands below them."""
    first, second = profiled(), trained()
    moved = [
        line.replace(kernels=tuple(number + len(first.kernels) for number in line.kernels))
        for line in second.lines
    ]
    parts = [part.replace(kernel=part.kernel + len(first.kernels)) for part in second.parts]
    return second.replace(
        kernels=(*first.kernels, *second.kernels),
        lines=(*first.lines, *moved),
        parts=(*first.parts, *parts),
    )


@for_each("made", [profiled, trained])
def test_the_answer_comes_before_all_lines_and_kernels(made):
    shown = made()
    text = text_of(page_of(PROFILE, ProfileResult(shown, None)).partition("<main")[2])
    assert text.index(shown.regime.text) < 100
    for line in shown.lines:
        assert line.text in text
    for each in shown.kernels:
        assert each.name[:20] in text


def test_a_page_without_source_has_none():
    page = page_of(PROFILE, ProfileResult(profiled(), PICTURE), has_source=False)
    for secret in ("secret plan", "gelu(y)", "tl.store"):
        assert secret not in page
    assert "model.py" in page
    assert "--no-source left out" in page


def test_each_kernel_has_the_code_of_its_own_graph():
    (code,) = codes_of(profiled().kernels[1:2], PICTURE.generated)
    assert code.language == "Python"
    assert "tl.load(in_ptr0) * 2.0" in code.text
    assert code.where == "Python in the forward graph of compile 0/0"
    library = codes_of([kernel("extern_kernels.addmm", 1.0, kind="library")], PICTURE.generated)
    assert [each.text for each in library] == [
        "extern_kernels.addmm(arg1, arg0, reinterpret_tensor(arg2, (256, 256), (1, 256), 0), out=buf0)"
    ]
    cpp = codes_of([kernel("graph_0_cpp_fused_sum_1", 1.0)], PICTURE.generated)
    assert [each.language for each in cpp] == ["C++"]
    backward = kernel("cpp_fused_sum_1", 1.0, phase="backward")
    for unknown in (
        backward,
        kernel("cpp_fused_sum_1", 1.0, compile_id=None),
        kernel("triton_other_7", 1.0),
    ):
        assert codes_of([unknown], PICTURE.generated) == {}


def test_shared_code_is_shown_once_and_cut():
    long = CODE.replace("import triton\n", "import triton\n" + "x = 1\n" * 1000)
    generated = [GeneratedCode(compile_id="0/0", stage="forward", code=long)]
    codes = codes_of(
        [kernel("triton_poi_fused_gelu_mul_0", us, 13) for us in (2.0, 1.0)], generated
    )
    assert [*codes.values()] == [[0, 1]]
    assert next(iter(codes)).where.endswith(", 605 more lines cut")


def test_the_drawing_adds_up_at_every_level():
    root = flame(trained().parts, [("x", 8.0)])
    assert root.us == pytest.approx(476.0)
    waiting = [root]
    while waiting:
        node = waiting.pop()
        assert not node.inner or sum(each.us for each in node.inner) == pytest.approx(node.us)
        waiting += node.inner
    assert [each.label for each in root.inner] == ["transformer.h", "x"]


@pytest.mark.slow
def test_a_kernel_leads_to_its_code_and_a_module_to_a_closer_view(visit, tmp_path):
    page = visit(in_file(tmp_path, page_of(PROFILE, ProfileResult(everything(), PICTURE))))
    page.locator("a[href='#code-0']").first.click()
    expect(page.locator("#code-0 pre")).to_contain_text("extern_kernels.addmm(a")
    expect(page.locator("#code-0 pre")).to_be_visible()
    module = page.get_by_role("button", name=re.compile(r"^transformer\.h")).first
    wide = module.evaluate("one => one.getBoundingClientRect().width")
    module.click()
    assert module.evaluate("one => one.getBoundingClientRect().width") > wide
    page.get_by_role("button", name="Show all of it").click()
    assert module.evaluate("one => one.getBoundingClientRect().width") == pytest.approx(wide, abs=1)
