"""Each rule's Example is found by the rule, and its "Use instead" is not, with the same results in
eager mode."""

from __future__ import annotations

import dataclasses
import json
import re
from importlib.metadata import version
from typing import Any

import pytest

from graphdoctor.rules.catalog import ALL_RULES
from tests.conftest import REPOSITORY, clean_environment, run_command, run_script
from tests.rules.test_documentation import BELOW_DYNAMO, NEEDS_RANKS, OF_EXPORT, first_block

NO_COMMON_RESULT = {
    "GD103", "GD113", "GD114", "GD201", "GD204", "GD206", "GD207", "GD212", "GD402", "GD901",
}  # fmt: skip
"""Rules whose two snippets differ in results by their own words, take other arguments, return
nothing, or raise."""

INSTEAD = {"GD200": "GD215"}
"""What a rule's example is found as: every guard that torch is known to print has a kind, so none
is left for GD200. ``tests/rules/diagnosis/test_recompiles.py`` has a recompile without a guard."""

MEASURED = {"GD301"}
"""Rules whose finding depends on measured times: their snippets are run, what was measured is not
judged."""

ALSO_FINDS = {"GD204": {"GD112"}}
"""``Optimizer.step`` begins with an explicit graph break of torch's own
(``torch/optim/optimizer.py``, 2.13)."""

ALONE = frozenset({"GD200", "GD204", "GD210", "GD211", "GD217", "GD219"})
"""Rules whose snippets need a process or a command of their own: a log of torch alone, an
optimizer, a fresh cache."""

REPEATED = frozenset({"GD217"})
"""Rules about what happens when the last call is repeated, which is done to measure coverage."""

SECTIONS = ("Example", "Use instead")
_OPTIONS = re.compile(r'^ARGUMENTS = |"torch\.[\w.]+": \w+', re.MULTILINE)

RULES = [rule for rule in ALL_RULES.values() if rule.code not in NEEDS_RANKS]
EXPLAINED = [rule for rule in RULES if rule.code not in BELOW_DYNAMO | OF_EXPORT]

NEEDS_TORCH = {"GD121": (2, 13)}
"""Examples that 2.11 breaks on too, but with a message that belongs to another rule (GD109)."""

_CALLS = """
compiled = torch.compile(forward, backend="eager")
given = inputs()
# A list or a generator is several calls; the latter may change state in between.
for args in [given] if isinstance(given, tuple) else given:
    compiled(*args)
"""
_TARGET = """
def build():
    return forward

def example_inputs():
    return inputs()
"""


def document_of(rule, section, folder):
    """What the command that knows the rule's facts says of one of its snippets."""
    code = first_block(rule, section)
    if rule.code == "GD200":
        return diagnosed_bare(code, folder)
    name = "guards" if rule.code.startswith("GD3") else "explain"
    return diagnosed(code, folder, name, is_repeated=rule.code in REPEATED)


def diagnosed_bare(code, folder):
    """The JSON document for a snippet's TORCH_TRACE log, which has torch's text alone."""
    (folder / "snippet.py").write_text(code + _CALLS)
    environment = clean_environment(TORCH_TRACE=str(folder / "trace"))
    run_script(folder / "snippet.py", cwd=folder, env=environment)
    return json.loads(run_command("report", "trace", "--format", "json", cwd=folder).stdout)


def diagnosed(code, folder, name, *, is_repeated=False):
    """The JSON document for a snippet."""
    (folder / "snippet.py").write_text(code + _TARGET)
    config = [
        part
        for name, value in re.findall(r'"(torch\.[\w.]+)": (\w+)', code)
        for part in ("--config", f"{name}={value}")
    ]
    arguments = re.search(r"^ARGUMENTS = (\[.*\])$", code, re.MULTILINE)
    config += json.loads(arguments[1]) if arguments else []
    if name == "explain" and not is_repeated:
        config.append("--no-coverage")
    done = run_command(name, "snippet.py", "--format", "json", *config, cwd=folder)
    assert done.stdout, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def codes(document):
    """The codes of a document's findings."""
    return {finding["code"] for finding in document["findings"]}


def is_plain(rule, section):
    """The snippet needs no options, no command but ``explain``, and raises nothing: many can share
    a process."""
    code = first_block(rule, section)
    return (
        rule.code.startswith(("GD1", "GD2"))
        and rule.code not in ALONE
        and not _OPTIONS.search(code)
    )


@pytest.fixture(scope="session")
def plain(tmp_path_factory):
    """The document for all plain snippets, run in one process: starting one takes most of a
    snippet's time."""
    folder = tmp_path_factory.mktemp("snippets")
    names = []
    for rule in EXPLAINED:
        for section in SECTIONS:
            if is_plain(rule, section):
                names.append(snippet_name(rule, section))
                (folder / names[-1]).write_text(first_block(rule, section) + _CALLS)
    script = REPOSITORY / "tests" / "fixes" / "lint" / "compile_programs.py"
    done = run_command("run", "--quiet", "--report", "all.json", script, *names, cwd=folder)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads((folder / "all.json").read_text())
    return document


def snippet_name(rule, section):
    return f"{rule.code}_{section.split(maxsplit=1)[0].lower()}.py"


def found(rule, section, folder, request):
    """The codes of the findings in a snippet, and whether a graph came of it."""
    if not is_plain(rule, section):
        document = document_of(rule, section, folder)
        assert not document["recording"]["is_partial"] or section == "Example"
        return codes(document), document["summary"]["graphs"] >= 1
    document = request.getfixturevalue("plain")
    name = snippet_name(rule, section)
    here = {
        finding["code"]
        for finding in document["findings"]
        if finding["location"]["file"].endswith(name)
    }
    compiled = [
        one
        for one in document["recording"]["compiles"]
        if one["stack"] and one["stack"][-1]["file"].endswith(name)
    ]
    with_graph = {graph["compile_id"] for graph in document["recording"]["graphs"]}
    return here, any(one["compile_id"] in with_graph for one in compiled)


@pytest.mark.slow
@pytest.mark.parametrize("rule", EXPLAINED, ids=lambda rule: rule.code)
def test_example_is_found(rule, tmp_path, request):
    installed = tuple(int(part) for part in version("torch").split(".")[:2])
    if installed < NEEDS_TORCH.get(rule.code, (2, 11)):
        pytest.skip(f"torch {version('torch')} gives this break another rule's message")
    if rule.code in MEASURED:
        assert document_of(rule, "Example", tmp_path)["recording"]["guards"]["share"] > 0
    else:
        assert INSTEAD.get(rule.code, rule.code) in found(rule, "Example", tmp_path, request)[0]


@pytest.mark.slow
@pytest.mark.parametrize("rule", EXPLAINED, ids=lambda rule: rule.code)
def test_use_instead_is_clean(rule, tmp_path, request):
    here, has_graph = found(rule, "Use instead", tmp_path, request)
    assert here - MEASURED == ALSO_FINDS.get(rule.code, set())
    assert has_graph


@pytest.mark.slow
@pytest.mark.parametrize(
    "rule",
    [rule for rule in RULES if rule.code not in NO_COMMON_RESULT],
    ids=lambda rule: rule.code,
)
def test_use_instead_gives_the_same_results(rule):
    torch = pytest.importorskip("torch")
    from graphdoctor.probe.torch_private.torch_config import changed_config, config_kept

    def results(code):
        names: dict[str, Any] = {}
        precision = torch.get_float32_matmul_precision()
        try:
            # What some snippets set is for their own program, not for the tests after this one.
            with config_kept():
                exec(compile(code, "<snippet>", "exec"), names)
                torch.manual_seed(7)
                inputs = names["inputs"]()
                # A list or a generator is several calls; the latter may change state in between.
                return [
                    _result(names["forward"], args)
                    for args in ([inputs] if isinstance(inputs, tuple) else inputs)
                ]
        finally:
            torch.set_float32_matmul_precision(precision)

    set_before = changed_config()

    was, now = results(first_block(rule, "Example")), results(first_block(rule, "Use instead"))
    for (output_was, grad_was), (output_now, grad_now) in zip(was, now, strict=True):
        torch.testing.assert_close(output_now, output_was)
        assert (grad_was is None) == (grad_now is None)
        if grad_was is not None:
            torch.testing.assert_close(grad_now, grad_was)
    assert changed_config() == set_before


def _result(forward, args):
    output = forward(*args)
    # A dataclass has tensors in its fields.
    outputs = list(vars(output).values()) if dataclasses.is_dataclass(output) else [output]
    differentiable = [each for each in outputs if each.requires_grad]
    if differentiable and args[0].requires_grad:
        sum(each.sum() for each in differentiable).backward()
    return [each.detach() for each in outputs], args[0].grad
