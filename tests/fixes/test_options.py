"""What can be tried for a finding: edits of the user's own files, config lines, changes of the
call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graphdoctor.facts.diagnosis import Finding
from graphdoctor.facts.fixes import Fix
from graphdoctor.facts.kernels import CudaGraphFunction, CudaGraphs, CudaGraphSkip
from graphdoctor.facts.reading import read_fact
from graphdoctor.facts.recording import GraphInput, Recording
from graphdoctor.facts.run import Setting
from graphdoctor.facts.stack import StackEntry
from graphdoctor.fixes.options import Sources, options_for, with_declined
from graphdoctor.fixes.patch import Candidate, Options
from graphdoctor.fixes.recipe import Edit, Recipe
from graphdoctor.rules.diagnosis.selection import Selection
from graphdoctor.trials.judge import Observed
from graphdoctor.trials.program import Program
from tests.factories import (
    change,
    compiled,
    diagnosed,
    entry,
    frame,
    recompiled,
    record,
    recording,
    said_of,
)

TEXT = """\
import torch


class Net(torch.nn.Module):
    def forward(self, x):
        print("x")
        return x.sin()
"""
LINE = 6
IN_TORCH: Any = {"origin": "torch", "package": "torch"}


def seen(facts: Recording, root: Path) -> Observed:
    return Observed(facts, diagnosed(facts, root=root))


def options(
    root: Path, *stack: StackEntry, facts: Recording | None = None, program: Program | None = None
) -> list[Options]:
    known = facts or recording(breaks=(record(*stack),))
    return options_for(seen(known, root), Sources(program or Program(), root, {}), Selection())


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.py"
    path.write_text(TEXT)
    return path


def test_edit_is_of_the_file_the_program_loaded(model):
    [found] = options(model.parent, entry(LINE, file=str(model)))
    [proposal] = [proposal for proposal in found.fixes if proposal.edits and proposal.drops_output]
    assert not proposal.is_safe
    assert proposal.targets == (found.finding.fingerprint,)
    [edit] = proposal.edits
    assert (edit.path, edit.before) == (model, TEXT.encode())
    assert b"is_compiling" in edit.after
    edited = Program({model: b"# one line more\n" + TEXT.encode()})
    [found] = options(model.parent, entry(LINE + 1, file=str(model)), program=edited)
    [edit] = [edit for proposal in found.fixes if proposal.drops_output for edit in proposal.edits]
    assert edit.before == edited.content[model]
    assert edit.after.startswith(b"# one line more\n")


def test_untouched_bytes_are_kept_from_the_first_reading(model):
    originals: dict[Path, bytes] = {}
    facts = recording(breaks=(record(entry(LINE, file=str(model))),))
    found = options_for(
        seen(facts, model.parent), Sources(Program(), model.parent, originals), Selection()
    )
    model.write_text("changed")
    again = options_for(
        seen(facts, model.parent), Sources(Program(), model.parent, originals), Selection()
    )
    assert originals == {model: TEXT.encode()}
    assert [fix.edits for fix in again[0].fixes] == [fix.edits for fix in found[0].fixes]
    assert any(proposal.edits for proposal in again[0].fixes)


def test_edit_the_encoding_cannot_hold_is_declined(model, monkeypatch):
    recipe = Recipe(
        "any", frozenset({"GD101"}), lambda _place: Edit("→", "→".encode("latin-1"), is_safe=True)
    )
    monkeypatch.setattr("graphdoctor.fixes.options.recipes_for", lambda _code: (recipe,))
    model.write_bytes(b"# -*- coding: latin-1 -*-\n" + TEXT.encode("latin-1"))
    [found] = options(model.parent, entry(LINE + 1, file=str(model)))
    assert found.declined[0] == "model.py is encoded in iso-8859-1, which can't encode the edit"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (TEXT, None),
        (TEXT.replace('print("x")', 'y = print("x")'), "its result is used"),
        (TEXT.replace("print", "pass; print"), "model.py changed since the run"),
        (TEXT + "x = (\n", "model.py can't be parsed"),
    ],
)
def test_missing_edit_has_a_reason_before_any_trial(model, text, reason):
    line = 'y = print("x")' if "y = " in text else 'print("x")'
    facts = recording(breaks=(record(entry(LINE, line, file=str(model))),))
    model.write_text(text)
    found = with_declined(
        seen(facts, model.parent).diagnosis, model.parent, model.parent
    ).recording.declined
    assert list(found.reasons.values()) == ([reason] if reason else [])


def recompiling(*changes: Any, count: int = 1, limit: bool = False) -> Any:
    outcome: Any = "limit" if limit else "compiled"
    again = [recompiled(f"0/{number}", *changes, call=number + 1) for number in range(1, count + 1)]
    if limit:
        again.append(recompiled(f"0/{count + 1}", *changes, call=count + 2, outcome=outcome))
    facts = recording(frames=(frame(),), compiles=(compiled(), *again))
    return facts.replace(target=facts.target.replace(parameters=("x", "scale")))


def test_remedy_depends_on_changed_values_and_not_on_words(tmp_path):
    facts = seen(
        recompiling(change("number", "scale", "1.0", "2.0", source="L['scale']")), tmp_path
    )
    [finding] = facts.diagnosis.findings

    def proposals(**update: object) -> tuple[Fix, ...]:
        diagnosis = facts.diagnosis.replace(findings=(finding.replace(**update),))
        [found] = options_for(
            replace(facts, diagnosis=diagnosis), Sources(Program(), tmp_path, {}), Selection()
        )
        return found.fixes

    assert [one.title for one in proposals(message="")] == ["Pass `scale` as a tensor"]
    assert proposals(changes=()) == ()


def test_eager_caller_of_the_compiled_function_is_not_traced(model):
    """A script compiles a function and calls it: a break there is in the outermost function that
    torch traces."""
    main = entry(3, function="<module>", qualname="<module>", file=str(model))
    wrapper = entry(
        1166, file="/x/torch/_dynamo/eval_frame.py", function="compile_wrapper", **IN_TORCH
    )
    broken = entry(LINE, file=str(model))
    title = "Let torch break inside the called function, without breaking its callers"
    for stack, is_called in (
        ((main, broken), True),
        ((main, wrapper, broken), False),
        ((broken,), False),
    ):
        [found] = options(model.parent, *stack)
        assert (title in [fix.title for fix in found.fixes]) == is_called
    [found] = options(model.parent, main, wrapper, main, broken)
    assert title in [fix.title for fix in found.fixes]


def test_nothing_is_offered_for_other_findings(tmp_path):
    def as_other(finding: Finding) -> Finding:
        return finding.replace(code="GD301")

    facts = seen(recording(breaks=(record(entry(3)),)), tmp_path)
    findings = tuple(map(as_other, facts.diagnosis.findings))
    other = replace(facts, diagnosis=facts.diagnosis.replace(findings=findings))
    assert options_for(other, Sources(Program(), tmp_path, {}), Selection()) == []


def not_recorded(
    skip: CudaGraphSkip, *, is_part: bool = False, mutated: tuple[str, ...] = ()
) -> Recording:
    """A run in which torch skips a CUDA graph, or leaves an operation out, of a function of x, seen
    and scale."""
    function = CudaGraphFunction(
        compile_id="0/0",
        phase="forward",
        name="f",
        sizes=1,
        recordings=0,
        rerecordings=0,
        copied=(),
        mutated=mutated,
    )
    skips = {"left_out": (skip,)} if is_part else {"skipped": (skip,)}
    inputs = tuple(
        GraphInput(name=name, source=f"L['{name}']", kind="tensor", device=device)
        for name, device in (("x", "cuda:0"), ("scale", "cpu"))
    )
    facts = recording()
    return facts.replace(
        cuda_graphs=CudaGraphs(captured=0, functions=(function,), **skips),
        target=facts.target.replace(parameters=("x", "seen", "scale")),
        graphs=tuple(each.replace(inputs=inputs) for each in facts.graphs),
    )


def skip_of(kind: str) -> CudaGraphSkip:
    return read_fact(CudaGraphSkip, {"kind": kind, "reason": "torch's words", "compile_id": "0/0"})


Offer = Callable[[Path], list[Options]]
PACKAGE: dict[str, Any] = {
    "function": "apply", "qualname": "Op.apply", "origin": "third_party", "package": "lib",
}  # fmt: skip


def at(
    line: int,
    *above: StackEntry,
    name: str = "model.py",
    text: str | bytes | None = TEXT,
    **more: Any,
) -> Offer:
    """What can be tried for a break at a line of a file."""

    def offered(folder: Path) -> list[Options]:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text is not None:
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return options(
            folder, *above, entry(line, file=name if name[0] in "<" else str(path), **more)
        )

    return offered


def in_package(name: str, **more: Any) -> Offer:
    return at(3, entry(3, "y = net(x)"), name=f"site-packages/{name}", **{**PACKAGE, **more})


def suggesting(*fixes: Fix) -> Offer:
    """What can be tried for a finding whose rule suggests some fixes."""

    def offered(folder: Path) -> list[Options]:
        found = seen(recording(breaks=(record(entry(LINE)),)), folder)
        [finding] = found.diagnosis.findings
        diagnosis = found.diagnosis.replace(findings=(finding.replace(fixes=fixes),))
        return options_for(
            replace(found, diagnosis=diagnosis), Sources(Program(), folder, {}), Selection()
        )

    return offered


def setting(name: str, **values: Any) -> Fix:
    return Fix(
        title=f"Set {name.rpartition('.')[2]}", kind="config", setting=Setting(name=name, **values)
    )


def of(facts: Recording) -> Offer:
    return lambda folder: options(folder, facts=facts)


def numbers(*names: str) -> Recording:
    """A run that is compiled again for numbers that are arguments."""
    facts = recompiling(
        *(change("number", name, "1.0", "2.0", source=f"L['{name}']") for name in names)
    )
    return facts.replace(target=facts.target.replace(parameters=names))


CALLER = entry(3, "y = body(x)")
TORCH = entry(9, file="/x/torch/nn/modules/module.py", **IN_TORCH)
DYNAMO, INDUCTOR = "torch._dynamo.config", "torch._inductor.config"
SCALE = change("number", "scale", "1.0", "2.0", source="L['scale']")
PRINTED = change("number", "print", "1.0", "2.0", source="L['scale']")
OFFERS: dict[str, Offer] = {
    "a file that changed since the run": at(LINE, text=TEXT.replace('print("x")', "pass")),
    **{
        f"lines that end where Python says, {character!r} {ending!r}": at(
            LINE + 1, text=TEXT.replace("import torch\n", f"import torch\n{character}\n", 1).replace("\n", ending)
        )
        for character in ("\f", "# \x0b \x1c \x85 \u2028") for ending in ("\n", "\r\n")
    },
    "a file that is gone": at(LINE, text=None),
    "bytecode": at(LINE, name="model.pyc", text=b""),
    "what is no Python": at(LINE, text=b"def broken(:\n"),
    "no file": at(LINE, name="<string>", text=None),
    "a line of a package": at(LINE, name="site-packages/lib/core.py", **PACKAGE),
    "a line of Python itself": lambda folder: options(folder, entry(3, file="/usr/lib/copy.py", origin="stdlib")),
    "a function of a package": in_package("lib/__init__.py", qualname="apply"),
    # Config lines.
    "plain values": suggesting(
        setting(f"{DYNAMO}.capture_scalar_outputs", value=True), setting(f"{DYNAMO}.recompile_limit", value=16),
        setting(f"{INDUCTOR}.triton.cudagraphs", value=False),
    ),
    "members of settings": suggesting(
        setting(f"{DYNAMO}.reorderable_logging_functions", member="print"),
        setting(f"{DYNAMO}.ignore_logging_functions", member="logging.Logger.info", imports=("logging",)),
    ),
    "lines for people are never run": suggesting(
        *(
            Fix(title="Set it", kind="config", snippet=snippet)
            for snippet in (
                f"{DYNAMO}.capture_scalar_outputs = True", "model = torch.compile(model, dynamic=True)",
                "TORCH_LOGS=recompiles python train.py", "import os; os.remove('x')",
            )
        )
    ),
    "equal proposals are one": suggesting(*[setting(f"{DYNAMO}.capture_scalar_outputs", value=True)] * 2),
    # What keeps every line comes first, and what keeps the break last.
    "a function with callers": at(LINE, CALLER),
    "a function without": at(LINE),
    "a function that torch alone calls": at(LINE, TORCH),
    # Recompiles.
    "a break that names the value of a recompile": lambda folder: options(
        folder, facts=recompiling(PRINTED).replace(breaks=(record(entry(LINE)),))
    ),
    "a size and a number": of(recompiling(change(), SCALE)),
    "many values": of(numbers("a", "b", "c", "d", "e")),
    "a limit that was hit": of(recompiling(SCALE, count=8, limit=True)),
    # What a function writes to a copy, the caller of it doesn't see.
    "an input that a CUDA graph writes to": of(
        not_recorded(skip_of("mutation"), mutated=("L['seen']", "L['self'].cache"))
    ),
    "an argument on the CPU": of(not_recorded(skip_of("cpu_device"), is_part=True)),
    "a graph that torch could split": of(not_recorded(skip_of("incompatible_op"))),
    "a graph with dynamic sizes": of(not_recorded(skip_of("dynamic_shapes"))),
    "no GPU": of(not_recorded(skip_of("no_device"))),
    "a graph on the CPU": of(not_recorded(skip_of("cpu_graph"))),
}  # fmt: skip


def test_what_can_be_tried_and_why_no_edit_is_made(snapshot, tmp_path):
    told = []
    for number, (name, offer) in enumerate(OFFERS.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        told.append(f"{name}:")
        for found in offer(folder):
            told += [
                f"  {found.finding.code}",
                *(f"    declined: {reason}" for reason in found.declined),
            ]
            told += [line for one in found.fixes for line in lines_of(one)]
        told = [line.replace(str(folder), "…") for line in told]
    assert told == snapshot


def lines_of(found: Candidate) -> list[str]:
    traits = {
        "safe": found.is_safe,
        "drops output": found.drops_output,
        "keeps the break": found.contains,
    }
    place = found.place.where if found.place else None
    return [
        f"    {', '.join([found.title, found.kind, *(name for name, value in traits.items() if value)])}",
        f"      {found.snippet!r} {place} {said_of(found.change)}",
        *(f"      edits {edit.path}" for edit in found.edits),
    ]
