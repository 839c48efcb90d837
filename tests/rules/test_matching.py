"""Which rule names a break, and what it offers, for messages as torch printed them.

``causes.json`` holds one cause a line: the statement that was compiled with the ``eager`` backend,
the files and functions inside it where torch stopped, if deeper, and torch's words. ``torch`` lists
the versions that print these.
"""

from __future__ import annotations

import ast
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graphdoctor.facts.diagnosis import Effects
from graphdoctor.facts.recording import BreakReason, NamedClass
from graphdoctor.facts.stack import Origin
from graphdoctor.rules.calls import DisabledFunction
from graphdoctor.rules.catalog import RULES
from graphdoctor.rules.failures import ExportType
from graphdoctor.rules.toolkit import BreakRule, BreakSite
from graphdoctor.trace.breaks import topic_of
from tests.each import for_each
from tests.factories import FILE, context, entry, record
from tests.rules.said import advice

CAUSES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "causes.json").read_text(encoding="utf-8")
)
PACKAGE_FILE = "/lib/site-packages/package/module.py"


def site_of(cause, origin="user", pointed=None):
    file = FILE if origin == "user" else PACKAGE_FILE
    text = cause.get("line", cause["statement"])
    columns = None
    if pointed is not None:
        start = 8 + 1 + text.index(pointed)
        columns = (start, start + len(pointed))
    line = entry(8, text, file=file, origin=origin, columns=columns)
    inside = [
        entry(1, "", file=path, function=function, origin=owner)
        for owner, path, function in cause.get("inside", ())
    ]
    reason = BreakReason(
        gb_type=cause["gb_type"],
        torch_id=cause.get("torch_id"),
        explanation=cause.get("explanation"),
        context=cause.get("context"),
        hints=tuple(cause.get("hints", ())),
    )
    words = cause.get("words", "")
    told = {"words": words, "topic": topic_of(words, reason)}
    found = record(line, *inside, chain=(reason,)).replace(**told)
    return BreakSite(
        entry=line,
        records=(found,),
        effects=Effects(),
        context=context(8, cause["statement"]).replace(file=file),
    )


def rule_of(site):
    return next(rule for rule in RULES if isinstance(rule, BreakRule) and rule.matches(site))


def named(name, pointed=None, **given):
    return site_of(
        next(cause for cause in CAUSES if cause["name"] == name) | given, pointed=pointed
    )


def branching(statement):
    return named("if", statement=statement, line=statement.splitlines()[0])


def _wrong(cause):
    """What is wrong with what the rules say of a cause."""
    rule, message = rule_of(site_of(cause)), rule_of(site_of(cause)).message(site_of(cause))
    if rule.code != cause["code"]:
        yield f"{rule.code} names it"
    if (
        not message
        or message.strip() != message
        or "\n" in message
        or message.count("`") % 2
        or "None" in message
    ):
        yield f"the message is no plain sentence: {message!r}"
    origins: tuple[Origin, ...] = ("user", "third_party")
    for origin in origins:
        site = site_of(cause, origin)
        for fix in rule_of(site).sourced(rule_of(site).fixes(site)):
            if origin == "third_party" and fix.kind == "code":
                yield f"a package's source is edited: {fix.title}"
            if (
                not fix.title[0].isupper()
                or fix.title.endswith(".")
                or fix.title.count("`") % 2
                or not fix.source
            ):
                yield f"the fix is no sentence with a source: {fix.title!r}"
            if fix.snippet and "…" not in fix.snippet:
                ast.parse(fix.snippet)
            is_setting = fix.kind == "config" and fix.snippet is not None
            if is_setting != (fix.setting is not None) or (
                fix.setting and fix.snippet != fix.setting.code
            ):
                yield f"the setting is not what the fix writes: {fix.title!r}"


def test_each_cause_has_a_rule_with_writable_fixes():
    found = {f"{cause['name']} {cause.get('torch_id')}": list(_wrong(cause)) for cause in CAUSES}
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def _said(cause):
    """What the rules say of a cause in the program's own code, and what else in a package's."""
    site, elsewhere = site_of(cause), site_of(cause, "third_party")
    fixes, others = rule_of(site).fixes(site), rule_of(elsewhere).fixes(elsewhere)
    yield f"{cause['name']} {cause.get('torch_id')}: {rule_of(site).code} {rule_of(site).message(site)}"
    for fix in (*fixes, *(fix for fix in others if fix not in fixes)):
        where = (
            ""
            if fix in fixes and fix in others
            else " (own code)"
            if fix in fixes
            else " (package)"
        )
        yield f"    {fix.kind}{', safe' if fix.is_safe else ''}: {advice(fix)}{where}"
        if fix.snippet is not None:
            yield from (f"        {line}" for line in fix.snippet.splitlines())


def test_what_is_said_of_each_cause(snapshot):
    assert "\n".join(line for cause in CAUSES for line in _said(cause)) == snapshot


def test_a_backward_pass_is_moved_out_only_if_that_pays():
    """A whole step in parts can be faster than its forward pass alone: 2,256 µs against 6,059 µs in
    a trial."""
    site = named("backward")
    assert "outside" not in rule_of(site).message(site)
    assert [advice(fix) for fix in rule_of(site).fixes(site)] == [
        (
            "Let torch trace the backward pass (`torch._dynamo.config.trace_autograd_ops = True`), and detach the loss "
            "right after it, if it is used later"
        ),
        "Let torch trace the backward pass, if nothing uses the loss later",
        "Compile only the forward pass and the loss, and call this outside, if that measures faster",
    ]


def test_torch_s_boilerplate_is_no_advice():
    boilerplate = (
        "Your code may result in an error when running in eager. Please double check that your code doesn't contain a "
        "similar error when actually running eager/uncompiled.",
        "It may be possible to write Dynamo tracing rules for this code. Please report an issue to PyTorch.",
    )
    site = site_of(
        {
            "statement": "y = f(x)",
            "gb_type": "new in some torch",
            "hints": [*boilerplate, "Use `g`"],
        }
    )
    assert rule_of(site).code == "GD100"
    assert [advice(fix) for fix in rule_of(site).fixes(site)] == ["Use `g`"]


def test_every_setting_that_a_fix_names_exists():
    pytest.importorskip("torch")
    import torch._dynamo.config as settings

    found = {
        name
        for cause in CAUSES
        for site in (site_of(cause),)
        for fix in rule_of(site).fixes(site)
        for name in re.findall(r"torch\._dynamo\.config\.(\w+)", fix.snippet or "")
    }
    assert found
    assert [name for name in found if not hasattr(settings, name)] == []


def test_a_call_that_only_holds_the_break_is_never_skipped():
    site = named("fwdhook", pointed="print('h')")
    assert not any("is_compiling" in (fix.snippet or "") for fix in rule_of(site).fixes(site))


@for_each(
    "owner, path, function, code",
    [
        ("stdlib", "/usr/lib/python3.12/copy.py", "deepcopy", "GD108"),
        ("user", r"C:\Users\me\miniconda3\Lib\copy.py", "copy", "GD108"),
        (
            "torch",
            "/lib/site-packages/torch/_dynamo/polyfills/copy.py",
            "reduce_ex_user_defined_object",
            "GD100",
        ),
    ],
)
def test_a_break_in_a_copy_is_known_by_the_function(owner, path, function, code):
    cause = {"statement": "y = again(x)", "gb_type": "Unknown", "inside": [(owner, path, function)]}
    assert rule_of(site_of(cause)).code == code


def test_disabled_target_is_advised_to_remove_disable():
    cause = {"statement": "model = Net()", "gb_type": "x", "torch_id": "GB0098"}
    (fix,) = DisabledFunction().fixes(replace(site_of(cause), is_traced=False))
    assert fix.title == "Remove `torch.compiler.disable` from `Net` if torch can trace it now"
    assert not DisabledFunction().fixes(replace(site_of(cause, "third_party"), is_traced=False))


def test_a_target_is_called_disabled_by_the_name_of_what_is():
    context = "<function Net.forward at 0x7efe0fb913a0>"
    cause = {"statement": "def build():", "gb_type": "x", "torch_id": "GB0098", "context": context}
    said = DisabledFunction().message(site_of(cause))
    assert said == "`Net.forward` is under `torch.compiler.disable`, so it runs eagerly"


def test_what_a_cached_property_locks_is_read_and_not_called():
    cause = {
        "statement": "y = x * self.mask",
        "inside": [("stdlib", "/lib/functools.py", "__get__")],
        "gb_type": "Unsupported context manager",
        "context": "Attempted SETUP_WITH/BEFORE_WITH/LOAD_SPECIAL on UserDefinedObjectVariable(RLock)",
    }
    site = site_of(cause, pointed="self.mask")
    assert rule_of(site).message(site) == "torch can't enter a `RLock` in `self.mask`"
    assert [advice(fix) for fix in rule_of(site).fixes(site)] == [
        "Read `self.mask` outside the compiled function"
    ]


def test_what_the_program_needs_is_not_skipped_while_compiling():
    """A step of an optimizer that is skipped trains nothing, and says nothing."""
    sites = [
        (cause["name"], site_of(cause)) for cause in CAUSES if cause["code"] in ("GD105", "GD112")
    ]
    skipping = [
        (name, fix.condition)
        for name, site in sites
        for fix in rule_of(site).fixes(site)
        if fix.title.startswith("Skip")
    ]
    assert len(skipping) >= 6
    assert {condition for _, condition in skipping} == {"if nothing needs what it does"}
    assert not [name for name, _ in skipping if name.startswith(("sched", "optstep"))]


def test_words_and_advice_fit_the_call():
    site = named("token")
    titles = [fix.title for fix in rule_of(site).fixes(site)]
    assert titles[0].startswith("Call `secrets.token_hex` before")
    assert not [title for title in titles if "nonstrict_trace" in title]
    for name, what in (("reqgrad made", "makes a tensor that requires"), ("reqgrad", "changes")):
        site = named(name)
        assert what in rule_of(site).message(site)
    for name in ("scheduled Adam", "scheduled own", "backward function", "sched"):
        site = named(name)
        titles = [fix.title for fix in rule_of(site).fixes(site)]
        assert titles == ["Compile only the forward pass and the loss, and call this outside"]


@for_each(
    "statement, computed",
    [
        ("if BIAS.sum() > 0:\n    y = y + 1", "bool(BIAS.sum() > 0)"),
        ("if BIAS.any():\n    y = y + 1", "bool(BIAS.any())"),
        ("if BIAS.any() and BIAS.sum():\n    y = y + 1", "bool(BIAS.any() and BIAS.sum())"),
        ("if not BIAS.any():\n    y = y + 1", "bool(not BIAS.any())"),
    ],
)
def test_a_condition_is_passed_in_as_a_truth_value(statement, computed):
    """A tensor that is passed in breaks at the same line."""
    site = branching(statement)
    site = replace(site, context=site.context.replace(module_names=("BIAS",)))
    titles = [fix.title for fix in rule_of(site).fixes(site)]
    assert titles[0] == (
        f"Compute `{computed}` before calling the compiled function, and pass that in"
    )


def test_a_setting_is_not_said_twice_of_one_break():
    """With the loss detached after it, and alone, each for another program."""
    detached, alone, _ = rule_of(site := named("backward")).fixes(site)
    assert {"later" in (fix.condition or "") for fix in (detached, alone)} == {True}
    assert detached.condition != alone.condition
    alone, *_ = rule_of(site := named("autograd grad")).fixes(site)
    assert alone.setting is not None
    assert alone.condition is None


@for_each(
    "classes, is_of_numpy, is_other",
    [
        ([("numpy", "ndarray")], True, False),
        ([("numpy", "float32")], True, False),
        ([("numpy.ma", "MaskedArray")], True, False),
        ([("numpy.ma.core", "MaskedArray")], True, False),
        ([("model", "Batch")], False, True),
        ([("numpydoc", "ndarray")], False, True),
        ([("numpy", "ndarray"), ("model", "Batch")], True, True),
        ([], False, True),
    ],
)
def test_an_export_takes_tensors_for_arrays(classes, is_of_numpy, is_other):
    classes = tuple(NamedClass(name=name, module=module) for module, name in classes)
    site = branching("return x")
    (found,) = site.records
    site = replace(site, records=(found.replace(topic="export_type", classes=classes),))
    titles = [fix.title for fix in ExportType().fixes(site)]
    wanted = "Pass and return tensors in place of NumPy's arrays: `torch.as_tensor` makes one"
    assert (titles[:1] == [wanted]) == is_of_numpy
    assert any("register_pytree_node" in title for title in titles) == is_other


def test_no_edit_of_a_line_is_looked_for_where_its_call_moves():
    for statement, kind in (("x = next(batches)", "call"), ("for x in batches: y = y + x", "code")):
        line = statement.partition(": ")[0]
        cause = next(one for one in CAUSES if one["code"] == "GD121")
        site = site_of(cause | {"statement": statement, "line": line, "inside": ()})
        assert [fix.kind for fix in rule_of(site).fixes(site)] == [kind]
