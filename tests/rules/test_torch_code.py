"""GD125 to GD129: breaks in torch's own code between two lines of the program."""

from __future__ import annotations

from pathlib import Path

from graphdoctor.facts.diagnosis import Finding
from graphdoctor.facts.recording import BreakReason, BreakRecord, Compile, Frame, Graph, TorchMechanism
from graphdoctor.rules.catalog import RULES
from graphdoctor.rules.diagnosis.diagnose import diagnose
from graphdoctor.views.words import sentence
from tests.each import for_each
from tests.factories import compiled, entry, frame, graph, record, recording

DDP_FILE = "/lib/python3.11/site-packages/torch/nn/parallel/distributed.py"
LOGGER = BreakReason(gb_type="Unsupported method call", torch_id="GB0156")
SKIPPED = BreakReason(gb_type="Attempted to call function marked as skipped", torch_id="GB0007")
CALL = entry(20, "loss = model(x).sum()", function="<module>")
ROOT = entry(12, "model = torch.compile(DistributedDataParallel(net))", function="<module>")
INSIDE = entry(1715, "with self._inside_ddp_forward():", file=DDP_FILE, function="_run_ddp_forward", origin="torch")


def wrapper(container: str | None = "Sequential") -> Frame:
    update = {"line": 12, "code_name": "inner", "is_wrapper": True, "container": container}
    return frame(0, function="forward").model_copy(update=update)


def helper() -> Frame:
    update = {"file": "/lib/python3.11/contextlib.py", "origin": "stdlib", "code_name": "helper"}
    return frame(1, function="helper").model_copy(update=update)


def breaks(mechanism: TorchMechanism | None = "ddp_forward") -> tuple[BreakRecord, ...]:
    first = record(ROOT, INSIDE, chain=(LOGGER,))
    second = record(CALL, INSIDE, chain=(SKIPPED,), compile_id="1/0")
    return tuple(one.model_copy(update={"mechanism": mechanism}) for one in (first, second))


def findings(
    *, container: str | None = "Sequential", graphs: tuple[Graph, ...] = (), mechanism: TorchMechanism = "ddp_forward"
) -> list[Finding]:
    compiles: tuple[Compile, ...] = (compiled(stack=(CALL, ROOT)), compiled("1/0", stack=(CALL, INSIDE)))
    facts = recording(frames=(wrapper(container), helper()), compiles=compiles, breaks=breaks(mechanism), graphs=graphs)
    return list(diagnose(facts, RULES, root=Path("/project"), version="0").findings)


def test_all_breaks_in_ddp_are_one_finding_where_the_module_is_compiled() -> None:
    (found,) = [one for one in findings(graphs=(graph("1/0"),), container=None) if one.code == "GD125"]
    assert (found.location.line, found.count, found.severity) == (12, 2, "info")
    assert "DistributedDataParallel(torch.compile(module))" in found.fixes[0].title
    assert "model(x)" not in found.message


def test_nothing_compiled_comes_first_and_names_the_container() -> None:
    first, *_ = findings()
    assert (first.code, first.severity, first.location.line) == ("GD129", "error", 12)
    assert first.message.startswith("nothing was compiled")
    assert "`Sequential.forward`" in first.message


def test_without_the_container_s_class_it_is_only_a_guess() -> None:
    first, *_ = findings(container=None)
    assert first.code == "GD129"
    assert "such as `nn.Sequential`" in first.message


def test_a_container_of_the_program_s_own_modules_is_a_warning() -> None:
    (found,) = [one for one in findings(graphs=(graph("1/0"),)) if one.code == "GD129"]
    assert found.severity == "warning"
    assert "one by one" in found.message


@for_each("mechanism", ["ddp_forward", "fsdp_hook", "module_hook"])
def test_each_wrapper_can_hide_a_container(mechanism: TorchMechanism) -> None:
    assert "GD129" in {found.code for found in findings(mechanism=mechanism)}


def test_a_module_of_the_program_s_own_with_a_graph_is_no_such_finding() -> None:
    assert "GD129" not in {found.code for found in findings(container=None, graphs=(graph("1/0"),))}


def test_the_head_says_that_nothing_was_compiled() -> None:
    facts = recording(frames=(wrapper(), helper()), compiles=(compiled(), compiled("1/0")), breaks=breaks(), graphs=())
    diagnosis = diagnose(
        facts.model_copy(update={"calls": (), "coverage": None}), RULES, root=Path("/project"), version="0"
    )
    assert sentence(diagnosis)[0].startswith("Not compiled")
