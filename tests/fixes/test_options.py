"""What can be tried for a finding: edits of the user's own files, config lines, changes of the call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graphdoctor.facts.diagnosis import Finding, Fix
from graphdoctor.facts.kernels import CudaGraphFunction, CudaGraphs, CudaGraphSkip
from graphdoctor.facts.reading import read_fact
from graphdoctor.facts.recording import GraphInput, Recording
from graphdoctor.facts.run import Setting
from graphdoctor.facts.stack import StackEntry
from graphdoctor.fixes.options import Sources, options_for
from graphdoctor.fixes.patch import Candidate, Options
from graphdoctor.fixes.recipe import Edit, Recipe
from graphdoctor.rules.catalog import RULES
from graphdoctor.rules.diagnosis.diagnose import diagnose
from graphdoctor.rules.diagnosis.selection import Selection
from graphdoctor.trials.judge import Observed
from graphdoctor.trials.program import Program
from tests.factories import change, compiled, entry, frame, recompiled, record, recording

TEXT = """\
import torch


class Net(torch.nn.Module):
    def forward(self, x):
        print("x")
        return x.sin()
"""
LINE = 6
PACKAGE = "/x/site-packages/lib/ops/core.py"


def seen(facts: Recording, root: Path) -> Observed:
    return Observed(facts, diagnose(facts, RULES, root=root, version="0"))


def options(
    root: Path, *stack: StackEntry, facts: Recording | None = None, program: Program | None = None
) -> list[Options]:
    known = facts or recording(breaks=(record(*stack),))
    return options_for(seen(known, root), Sources(program or Program(), root, {}), Selection())


def titles(found: Sequence[Candidate]) -> list[str]:
    return [proposal.title for proposal in found]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.py"
    path.write_text(TEXT)
    return path


def third_party(**values: Any) -> StackEntry:
    known: dict[str, Any] = {
        "file": PACKAGE, "function": "apply", "qualname": "Op.apply", "origin": "third_party", "package": "lib",
    }  # fmt: skip
    return entry(14, **{**known, **values})


def with_fixes(path: Path, *fixes: Fix) -> list[Fix]:
    """The proposals of settings for a finding whose rule suggests some fixes."""
    found = seen(recording(breaks=(record(entry(LINE, file=str(path))),)), path.parent)
    [finding] = found.diagnosis.findings
    finding = finding.model_copy(update={"fixes": fixes})
    diagnosis = found.diagnosis.model_copy(update={"findings": (finding,)})
    [told] = options_for(replace(found, diagnosis=diagnosis), Sources(Program(), path.parent, {}), Selection())
    return [proposal for proposal in told.fixes if proposal.kind == "config"]


# Edits.


def test_an_edit_is_of_the_file_as_the_program_has_it(model: Path) -> None:
    [found] = options(model.parent, entry(LINE, file=str(model)))
    [first] = [proposal for proposal in found.fixes if proposal.edit is not None and proposal.drops_output]
    assert first.is_safe
    assert first.drops_output
    assert first.targets == (found.finding.fingerprint,)
    assert first.edit is not None
    assert (first.edit.path, first.edit.before) == (model, TEXT.encode())
    assert b"is_compiling" in first.edit.after
    edited = Program({model: b"# one line more\n" + TEXT.encode()})
    [found] = options(model.parent, entry(LINE + 1, file=str(model)), program=edited)
    [edit] = [proposal.edit for proposal in found.fixes if proposal.edit is not None and proposal.drops_output]
    assert edit.before == edited.content[model]
    assert edit.after.startswith(b"# one line more\n")


def test_the_untouched_bytes_of_a_file_are_kept_from_the_first_reading(model: Path) -> None:
    originals: dict[Path, bytes] = {}
    facts = recording(breaks=(record(entry(LINE, file=str(model))),))
    found = options_for(seen(facts, model.parent), Sources(Program(), model.parent, originals), Selection())
    model.write_text("changed")
    again = options_for(seen(facts, model.parent), Sources(Program(), model.parent, originals), Selection())
    assert originals == {model: TEXT.encode()}
    assert [fix.edit for fix in again[0].fixes] == [fix.edit for fix in found[0].fixes]
    assert any(proposal.edit is not None for proposal in again[0].fixes)


def test_a_file_that_changed_since_the_run_is_left_alone(model: Path) -> None:
    model.write_text(TEXT.replace('print("x")', "pass"))
    [found] = options(model.parent, entry(LINE, file=str(model)))
    assert not [proposal for proposal in found.fixes if proposal.kind == "code"]
    assert found.declined == ("model.py changed since the run",)


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("character", ["\f", "# \x0b \x1c \x85 \u2028"])
def test_lines_end_where_python_says(model: Path, character: str, ending: str) -> None:
    text = TEXT.replace("import torch\n", f"import torch\n{character}\n", 1)
    model.write_bytes(text.replace("\n", ending).encode())
    [found] = options(model.parent, entry(LINE + 1, file=str(model)))
    assert "model.py changed since the run" not in found.declined
    [edit] = [proposal.edit for proposal in found.fixes if proposal.edit is not None and proposal.drops_output]
    assert b"is_compiling" in edit.after


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("model.py", None, "can't be read"),
        ("model.pyc", b"", "isn't a .py file"),
        ("model.py", b"def broken(:\n", "model.py"),
        ("<string>", None, "isn't a .py file"),
    ],
)
def test_a_file_without_readable_source_is_left_alone(
    tmp_path: Path, name: str, content: bytes | None, words: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    [found] = options(tmp_path, entry(LINE, file=str(tmp_path / name) if name != "<string>" else name))
    assert not [proposal for proposal in found.fixes if proposal.kind == "code"]
    [reason] = found.declined
    assert words in reason


def test_an_edit_that_the_file_s_encoding_cannot_hold_is_declined(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = Recipe("any", frozenset({"GD101"}), lambda _place: Edit("→", "→".encode("latin-1"), is_safe=True))
    monkeypatch.setattr("graphdoctor.fixes.options.recipes_for", lambda _code: (recipe,))
    model.write_bytes(b"# -*- coding: latin-1 -*-\n" + TEXT.encode("latin-1"))
    [found] = options(model.parent, entry(LINE + 1, file=str(model)))
    assert found.declined[0] == "model.py is encoded in iso-8859-1, which can't encode the edit"


# Third-party files.


def test_third_party_lines_are_never_edited(tmp_path: Path) -> None:
    path = tmp_path / "site-packages" / "lib" / "core.py"
    path.parent.mkdir(parents=True)
    path.write_text(TEXT)
    [found] = options(tmp_path, third_party(file=str(path)).model_copy(update={"line": LINE}))
    assert all(proposal.edit is None for proposal in found.fixes)
    assert found.declined == ("the line belongs to lib, whose files aren't edited",)


def test_a_line_of_python_itself_is_never_edited(tmp_path: Path) -> None:
    [found] = options(tmp_path, entry(3, file="/usr/lib/python3.11/copy.py", origin="stdlib"))
    assert all(proposal.edit is None for proposal in found.fixes)
    assert found.declined == ("the line belongs to Python itself, whose files aren't edited",)


def wrappers(found: Options) -> list[Fix]:
    return [proposal for proposal in found.fixes if proposal.title.startswith("Keep `")]


@pytest.mark.parametrize(
    ("file", "qualname", "name"),
    [
        ("lib/ops/core.py", "Op.apply", "lib.ops.core.Op.apply"),
        ("lib/__init__.py", "apply", "lib.apply"),
        ("lib/ops/__init__.py", "Op.apply", "lib.ops.Op.apply"),
    ],
)
def test_a_package_s_function_can_be_kept_outside(tmp_path: Path, file: str, qualname: str, name: str) -> None:
    path = tmp_path / "site-packages" / file
    path.parent.mkdir(parents=True)
    path.write_text("class Op:\n    def apply(self):\n        pass\n\n\ndef apply():\n    pass\n")
    [found] = options(tmp_path, entry(3, "y = net(x)"), third_party(file=str(path), qualname=qualname))
    [wrapper] = wrappers(found)
    module = name.removesuffix(f".{qualname}")
    assert wrapper.snippet == f"import {module}\n{name} = torch.compiler.disable({name})"
    assert wrapper.change.lines == (wrapper.snippet,)
    assert (wrapper.kind, wrapper.contains, wrapper.edit) == ("call", True, None)
    assert found.fixes[-1] == wrapper


@pytest.mark.parametrize("qualname", ["outer.<locals>.inner", "<lambda>", "<listcomp>", "Op.<lambda>"])
def test_what_no_name_leads_to_gets_no_wrapper(tmp_path: Path, qualname: str) -> None:
    [found] = options(tmp_path, third_party(qualname=qualname))
    assert wrappers(found) == []


@pytest.mark.parametrize(
    "text",
    [
        "def outer():\n    def apply():\n        pass\n",
        "class Op:\n    @staticmethod\n    def apply():\n        pass\n",
        "class Op:\n    apply = print\n",
        "not Python",
    ],
)
@pytest.mark.parametrize("qualname", ["outer.apply", "Op.apply"])
def test_what_cannot_be_set_as_an_attribute_gets_no_wrapper(tmp_path: Path, text: str, qualname: str) -> None:
    path = tmp_path / "site-packages" / "lib" / "core.py"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    [found] = options(tmp_path, third_party(file=str(path), qualname=qualname))
    assert wrappers(found) == []


@pytest.mark.parametrize(
    "file", ["/x/site-packages/lib/my-ops.py", "/x/site-packages/lib_single.py", "/x/lib/2020/ops.py"]
)
def test_a_file_that_is_no_module_by_name_gets_no_wrapper(tmp_path: Path, file: str) -> None:
    [found] = options(tmp_path, third_party(file=file))
    assert wrappers(found) == []


def test_the_user_s_own_function_gets_no_wrapper(model: Path) -> None:
    [found] = options(model.parent, entry(LINE, file=str(model)))
    assert wrappers(found) == []


# Config lines.


def with_settings(path: Path, *settings: Setting) -> list[Fix]:
    return with_fixes(
        path,
        *(Fix(title=f"Set {number}", kind="config", setting=setting) for number, setting in enumerate(settings)),
    )


def test_a_plain_value_is_a_config_change(model: Path) -> None:
    found = with_settings(
        model,
        Setting(name="torch._dynamo.config.capture_scalar_outputs", value=True),
        Setting(name="torch._dynamo.config.recompile_limit", value=16),
        Setting(name="torch._inductor.config.triton.cudagraphs", value=False),
    )
    assert [proposal.change.config for proposal in found] == [
        {"torch._dynamo.config.capture_scalar_outputs": True},
        {"torch._dynamo.config.recompile_limit": 16},
        {"torch._inductor.config.triton.cudagraphs": False},
    ]
    assert [proposal.snippet for proposal in found] == [
        "torch.compiler.config.capture_scalar_outputs = True",
        "torch.compiler.config.recompile_limit = 16",
        "torch._inductor.config.triton.cudagraphs = False",
    ]
    assert all(proposal.change.lines == () and not proposal.drops_output for proposal in found)


def test_a_member_of_a_setting_is_added_behind_the_imports_that_it_needs(model: Path) -> None:
    reorderable, ignored = "reorderable_logging_functions", "ignore_logging_functions"
    found = with_settings(
        model,
        Setting(name=f"torch._dynamo.config.{reorderable}", member="print"),
        Setting(name=f"torch._dynamo.config.{ignored}", member="logging.Logger.info", imports=("logging",)),
    )
    assert [proposal.change.lines for proposal in found] == [
        (f"torch.compiler.config.{reorderable}.add(print)",),
        (f"import logging\ntorch._dynamo.config.{ignored}.add(logging.Logger.info)",),
    ]
    assert [proposal.snippet for proposal in found] == [proposal.change.lines[0] for proposal in found]
    assert all(proposal.change.config == {} for proposal in found)
    assert [proposal.drops_output for proposal in found] == [False, True]


@pytest.mark.parametrize(
    "snippet",
    [
        "torch._dynamo.config.capture_scalar_outputs = True",
        "model = torch.compile(model, dynamic=True)",
        "TORCH_LOGS=recompiles python train.py",
        "import os; os.remove('x')",
    ],
)
def test_lines_for_people_are_never_run(model: Path, snippet: str) -> None:
    assert with_fixes(model, Fix(title="Set it", kind="config", snippet=snippet)) == []


def test_equal_proposals_are_one(model: Path) -> None:
    setting = Setting(name="torch._dynamo.config.capture_scalar_outputs", value=True)
    assert titles(with_settings(model, setting, setting)) == ["Set 0"]


# Breaks that stay.


def nested(found: Options) -> list[Fix]:
    return [proposal for proposal in found.fixes if "without breaking its callers" in proposal.title]


def test_a_nested_break_is_offered_where_the_function_has_callers(model: Path) -> None:
    inner = entry(LINE, file=str(model))
    [found] = options(model.parent, entry(3, "y = body(x)", file=str(model)), inner)
    [proposal] = nested(found)
    assert proposal.change.config == {"torch._dynamo.config.nested_graph_breaks": True}
    assert proposal.contains
    assert proposal.kind == "config"
    [found] = options(model.parent, inner)
    assert nested(found) == []


def test_torch_s_own_lines_are_no_callers(model: Path) -> None:
    own = entry(9, file="/x/torch/nn/modules/module.py", origin="torch", package="torch")
    [found] = options(model.parent, own, entry(LINE, file=str(model)))
    assert nested(found) == []


# Recompiles.


def recompiling(*changes: Any, count: int = 1, limit: bool = False) -> Any:
    outcome: Any = "limit" if limit else "compiled"
    again = [recompiled(f"0/{number}", *changes, call=number + 1) for number in range(1, count + 1)]
    if limit:
        again.append(recompiled(f"0/{count + 1}", *changes, call=count + 2, outcome=outcome))
    facts = recording(frames=(frame(),), compiles=(compiled(), *again))
    return facts.model_copy(update={"target": facts.target.model_copy(update={"parameters": ("x", "scale")})})


def test_a_remedy_for_a_recompile_is_none_for_a_break_that_names_the_same_value(model: Path) -> None:
    facts = recompiling(change("number", "print", "1.0", "2.0", source="L['scale']"))
    broken = record(entry(LINE, file=str(model)))
    found = options(model.parent, facts=facts.model_copy(update={"breaks": (broken,)}))
    assert "Pass" not in " ".join(by_code(found)["GD101"])


def by_code(found: list[Options]) -> dict[str, list[str]]:
    return {one.finding.code: [p.title for p in one.fixes] for one in found}


def test_a_remedy_goes_to_the_finding_that_names_its_value(tmp_path: Path) -> None:
    facts = recompiling(change(), change("number", "scale", "1.0", "2.0", source="L['scale']"))
    found = options(tmp_path, facts=facts)
    assert by_code(found) == {
        "GD202": ["Mark the dim as dynamic before the call", "Compile with dynamic shapes"],
        "GD203": ["Pass `scale` as a tensor"],
    }
    number = next(one for one in found if one.finding.code == "GD203").fixes[0]
    assert (number.is_safe, number.kind, number.change.tensors) == (False, "call", ("L['scale']",))
    assert number.snippet == "scale = torch.tensor(scale)"


def test_every_value_of_a_finding_has_its_remedy(tmp_path: Path) -> None:
    names = ("a", "b", "c", "d", "e")
    facts = recompiling(*(change("number", name, "1.0", "2.0", source=f"L['{name}']") for name in names))
    facts = facts.model_copy(update={"target": facts.target.model_copy(update={"parameters": names})})
    [found] = options(tmp_path, facts=facts)
    assert found.finding.code == "GD203"
    assert titles(found.fixes) == [f"Pass `{name}` as a tensor" for name in names]


def test_a_remedy_depends_on_the_changed_values_and_not_on_words(tmp_path: Path) -> None:
    facts = seen(recompiling(change("number", "scale", "1.0", "2.0", source="L['scale']")), tmp_path)
    [finding] = facts.diagnosis.findings

    def proposals(**update: object) -> tuple[Fix, ...]:
        diagnosis = facts.diagnosis.model_copy(update={"findings": (finding.model_copy(update=update),)})
        [found] = options_for(replace(facts, diagnosis=diagnosis), Sources(Program(), tmp_path, {}), Selection())
        return found.fixes

    assert titles(proposals(message="")) == ["Pass `scale` as a tensor"]
    assert proposals(changes=()) == ()


def test_the_limit_is_raised_for_the_finding_about_the_limit_alone(tmp_path: Path) -> None:
    facts = recompiling(change("number", "scale", "1.0", "2.0", source="L['scale']"), count=8, limit=True)
    found = by_code(options(tmp_path, facts=facts))
    assert "Raise the recompile limit" in found["GD201"]
    assert "Raise the recompile limit" not in found["GD203"]


def test_nothing_is_offered_for_other_findings(tmp_path: Path) -> None:
    def as_other(finding: Finding) -> Finding:
        return finding.model_copy(update={"code": "GD301"})

    facts = seen(recording(breaks=(record(entry(3)),)), tmp_path)
    findings = tuple(map(as_other, facts.diagnosis.findings))
    other = replace(facts, diagnosis=facts.diagnosis.model_copy(update={"findings": findings}))
    assert options_for(other, Sources(Program(), tmp_path, {}), Selection()) == []


def test_what_keeps_every_line_comes_first_and_what_keeps_the_break_last(model: Path) -> None:
    inner = entry(LINE, file=str(model))
    [found] = options(model.parent, entry(3, "y = body(x)", file=str(model)), inner)
    removing = [proposal for proposal in found.fixes if not proposal.contains]
    assert [proposal.drops_output for proposal in removing] == [False, True]
    assert "reorderable" in (removing[0].snippet or "")
    assert found.fixes[-1].contains
    contains = [proposal.contains for proposal in found.fixes]
    assert contains == sorted(contains)


def not_recorded(skip: CudaGraphSkip, *, is_part: bool = False, mutated: tuple[str, ...] = ()) -> Recording:
    """A run in which torch skips a CUDA graph, or leaves an operation out, of a function of x, seen and scale."""
    function = CudaGraphFunction(
        compile_id="0/0", phase="forward", name="f", sizes=1, recordings=0, rerecordings=0, copied=(), mutated=mutated
    )
    skips = {"left_out": (skip,)} if is_part else {"skipped": (skip,)}
    inputs = tuple(
        GraphInput(name=name, source=f"L['{name}']", kind="tensor", device=device)
        for name, device in (("x", "cuda:0"), ("scale", "cpu"))
    )
    facts = recording()
    return facts.model_copy(
        update={
            "cuda_graphs": CudaGraphs(captured=0, functions=(function,), **skips),
            "target": facts.target.model_copy(update={"parameters": ("x", "seen", "scale")}),
            "graphs": tuple(each.model_copy(update={"inputs": inputs}) for each in facts.graphs),
        }
    )


def skip_of(kind: str) -> CudaGraphSkip:
    return read_fact(CudaGraphSkip, {"kind": kind, "reason": "torch's words", "compile_id": "0/0"})


def test_an_input_that_a_cuda_graph_writes_to_can_stay_where_it_is(tmp_path):
    (found,) = options(tmp_path, facts=not_recorded(skip_of("mutation"), mutated=("L['seen']", "L['self'].cache")))
    static, buffer = found.fixes
    assert (static.change.static, buffer.change.buffers) == (("L['seen']",), ("L['seen']",))
    assert static.snippet == "torch._dynamo.mark_static_address(seen)"
    assert buffer.snippet == "seen = seen.clone()\ntorch._dynamo.mark_static_address(seen)"
    # What the function writes to a copy, the caller of it doesn't see.
    assert (static.is_safe, buffer.is_safe) == (True, False)
    assert [each.place and each.place.where for each in found.fixes] == ["first_call", "first_call"]


def test_an_argument_on_the_cpu_can_be_moved(tmp_path):
    (found,) = options(tmp_path, facts=not_recorded(skip_of("cpu_device"), is_part=True))
    (moved,) = found.fixes
    assert (moved.change.on_device, moved.snippet) == (("L['scale']",), 'scale = scale.to("cuda")')


def test_a_graph_that_torch_could_split_has_a_setting(tmp_path):
    (found,) = options(tmp_path, facts=not_recorded(skip_of("incompatible_op")))
    (split,) = found.fixes
    assert split.snippet == "torch._inductor.config.graph_partition = True"


def test_a_graph_with_dynamic_sizes_can_be_recorded_for_each_size(tmp_path):
    (found,) = options(tmp_path, facts=not_recorded(skip_of("dynamic_shapes")))
    static, each_size = found.fixes
    assert static.change.dynamic is False
    assert each_size.snippet == "torch._inductor.config.triton.cudagraph_skip_dynamic_graphs = False"


@pytest.mark.parametrize("kind", ["no_device", "cpu_graph"])
def test_without_a_gpu_there_is_no_cuda_graph_to_mend(tmp_path, kind):
    assert options(tmp_path, facts=not_recorded(skip_of(kind))) == []
