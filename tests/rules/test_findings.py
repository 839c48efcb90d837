"""What rules find in hand-built facts: profiles, guards, recompiles, breaks in torch's own code,
errors."""

from __future__ import annotations

from graphdoctor.facts.expressions import expression
from graphdoctor.facts.guards import GuardNode, Guards, GuardSet, SubtreeCost
from graphdoctor.facts.recording import (
    BreakReason,
    Call,
    CallError,
    CaptureGap,
    CompileCall,
    Enclosing,
    FailedCompile,
    GraphNode,
    RepeatedBlocks,
    TargetInfo,
    TorchMechanism,
)
from graphdoctor.facts.run import ProbeExit
from graphdoctor.views.words import verdict
from tests.each import for_each
from tests.factories import (
    FILE,
    change,
    compiled,
    context,
    diagnosed,
    entry,
    frame,
    graph,
    recompiled,
    record,
    recording,
)
from tests.rules.said import findings, said
from tests.rules.test_kernel_rules import recorded, share
from tests.studies.profile import facts
from tests.studies.profile.facts import code, operation, ran


def none_in(cases, *prefixes):
    return not any(finding for case in cases for finding in findings(case, *prefixes))


# Kernels of a profile.


def profiled(runs, *graphs):
    return recorded(profiled=facts.profiled(runs, *graphs))


CONVOLUTION = operation("convolution", 3)
MUL64 = operation("mul", 3, dtype="float64", input_dtypes=("float64",))


def copying(us, *operations):
    """A kernel of some operations, then a library's of the first."""
    kernels = [
        code("triton_poi_fused_0", *range(len(operations))),
        code("extern_kernels.convolution", 0),
    ]
    runs = [ran("triton_poi_fused_0", us), ran("conv", 50.0, "aten::convolution")]
    return profiled(runs, facts.graph(kernels, operations))


def cast(line, target="bfloat16", **more):
    given = {
        "target": "prims.convert_element_type.default",
        "input_dtypes": ("float32",),
        "dtype": target,
    }
    return operation("_to_copy", line, **given | more)


def casting(*operations, us=50.0):
    """One kernel of all of them."""
    kernel = code("triton_poi_fused_0", *range(len(operations)))
    return profiled([ran("triton_poi_fused_0", us)], facts.graph([kernel], operations))


def two_casts(size, *others):
    """A kernel that moves 3 MB, and another one."""
    second = range(1, 2 + len(others))
    kernels = [
        code("triton_poi_fused_0", 0, bytes=3_000_000),
        code("triton_poi_fused_1", *second, bytes=size),
    ]
    runs = [ran("triton_poi_fused_0", 30.0), ran("triton_poi_fused_1", 20.0)]
    return profiled(runs, facts.graph(kernels, [cast(3), cast(4), *others]))


def library_calls(*, is_profiled):
    kernels = [code("extern_kernels.mm", 0), code("extern_kernels.mm", 1)]
    runs = [ran("gemm", 20.0, "aten::mm"), ran("gemm", 74.0, "aten::mm")]
    known = facts.profiled(runs, facts.graph(kernels, [operation("mm", 3), operation("mm", 9)]))
    calls = share(library_us=94.0, generated_us=3.0, region_us=3.0)
    return recorded(calls, profiled=known if is_profiled else None)


def test_kernels_of_a_profile(snapshot):
    clones = facts.graph(
        [code("triton_poi_fused_clone_0", 0), code("triton_poi_fused_clone_1", 1)],
        [operation("clone", 3), operation("clone", 7)],
    )
    runs = [ran("triton_poi_fused_clone_0", 4.0), ran("triton_poi_fused_clone_1", 8.0)]
    cases = {
        "copies that a library needs": copying(20.0, CONVOLUTION),
        "copies of the program's own": profiled(runs, clones),
        "kernels that only cast": two_casts(None, operation("relu", 4)),
        "casts that move an unknown amount": two_casts(None),
        "a cast beside something small": casting(
            cast(3, elements=1000), operation("relu", 4, elements=100)
        ),
        "float64 that was float32": casting(cast(3, "float64"), MUL64, us=40.0),
        "library calls with a profile": library_calls(is_profiled=True),
        "library calls without one": library_calls(is_profiled=False),
    }
    assert said(cases, "GD5") == snapshot
    nothing = (
        copying(20.0, CONVOLUTION, operation("relu", 4)),
        copying(4.0, CONVOLUTION),
        # Writing to an argument.
        profiled([ran("triton_poi_fused_copy_0", 50.0)],
                 facts.graph([code("triton_poi_fused_copy_0", 0)], [operation("copy_", 3)])),
        casting(cast(3, elements=1000), operation("relu", 4, elements=1000)),
        casting(cast(3, elements=1000), operation("relu", 4, elements=None)),
        casting(cast(3, "float64"), operation("mul", 3, dtype="float64"), us=4.0),
        # A program that computes in float64 throughout wants it.
        casting(operation("mul", 3, dtype="float64"), us=40.0),
        recorded(share()),
    )  # fmt: skip
    assert none_in(nothing, "GD5")


# Guards.


ONE_COMPILE = (compiled(),)


def guarded(*sets, compiles=ONE_COMPILE, **values):
    return recording(compiles=compiles).replace(guards=Guards(sets=sets, **values))


def guard_set(count=1, *, internal=False, **values):
    node = GuardNode(
        kind="TYPE_MATCH", source="L['self']._modules['fc']", expression="self.fc", expected="a Linear",
        path="self.fc", is_module_internal=internal, depth=3, guard="",
    )  # fmt: skip
    return GuardSet(
        compile_id="0/0",
        guard_count=count,
        kinds={"TYPE_MATCH": count},
        nodes=(node,) * count,
        **values,
    )


def test_guards(snapshot):
    bill = tuple(
        SubtreeCost(path=path, guard_count=1, check_us=us)
        for path, us in (("self", 9.0), ("self.fc", 8.0))
    )
    costly = {"check_us": 10.0, "runs_per_call": 1}
    cases = {
        "a large share": guarded(
            guard_set(share=0.4, bill=bill, **costly), call_us=25.0, share=0.4
        ),
        "with warm caches alone": guarded(
            guard_set(warm_share=0.4, **costly), call_us=25.0, warm_share=0.4
        ),
        "of modules": guarded(guard_set(1200, internal=True, share=0.5, check_us=1.0), share=0.5),
        "a thousand on modules": guarded(guard_set(1000, internal=True)),
    }
    assert said(cases, "GD3") == snapshot
    nothing = (
        # A call over its limit runs no compiled code.
        guarded(guard_set(runs_per_call=0), call_us=25.0, searches_us=10.0, share=0.4),
        guarded(guard_set(share=0.05), share=0.05),
        guarded(guard_set()),
        recording(compiles=(compiled(),)),
        guarded(guard_set(999, internal=True)),
        guarded(guard_set(2000)),
    )
    assert none_in(nothing, "GD3")


OF_MODULE = {"source": "L['self']._modules['fc']"}


@for_each(
    "changes, internal, values",
    [
        ([], True, True),
        ([change("dtype", "x.dtype", "torch.float32", "torch.float64")], True, True),
        ([change("number", "n", "2", "3")], True, False),
        ([change("size")], True, False),
        ([change("grad_mode", "grad mode", source=None)], True, False),
        ([change("flag", "flag"), change("stride", "x.stride()")], True, False),
        ([change("length", "len(table)", "3", "4")], True, False),
        ([change("relation", "x.shape[0] == y.shape[0]", source=None)], True, False),
        ([change("module_number", "self.step", source="L['self'].step")], False, False),
        ([change("training", "self.fc.training", **OF_MODULE)], False, False),
        ([change("identity", "self.fc", **OF_MODULE)], False, False),
        ([change("dtype", "self.fc.weight.dtype").replace(is_parameter=True)], False, False),
        ([change("flag", "model.flag", source="G['model'].flag")], False, False),
        ([change("unknown", "a guard that torch did not name", source=None)], False, False),
    ],
)
def test_no_guard_is_dropped_that_the_run_saw_fail(changes, internal, values):
    for expected, is_internal in ((internal, True), (values, False)):
        again = [recompiled("0/1", *changes)] if changes else []
        of = guard_set(1200, internal=is_internal, share=0.5, check_us=1.0)
        facts = guarded(of, compiles=(compiled(), *again), share=0.5)
        for found in findings(facts, "GD301", "GD302"):
            unguarded = [fix.unguarded for fix in found.fixes]
            assert unguarded[0] is None, "unsafe advice comes last"
            assert any(unguarded) == expected, found.code


@for_each("torch, is_advised", [("2.13.0+cpu", True), ("2.14.1", False), (None, False)])
def test_advice_to_upgrade_is_for_releases_before(torch, is_advised):
    line = entry(14, "random.shuffle(order)", columns=(9, 30))
    reason = BreakReason(
        gb_type="Attempted to call function marked as skipped",
        torch_id="GB0007",
        explanation="",
        hints=(),
        context="module: random, qualname: shuffle, skip reason: <missing reason>",
    )
    facts = recording(breaks=(record(line, chain=(reason,)),))
    environment = facts.environment.replace(torch=torch)
    (found,) = findings(facts.replace(environment=environment), "GD105")
    titles = [fix.title for fix in found.fixes]
    assert ("Upgrade torch: from 2.14 on, it traces `random.shuffle`" in titles) == is_advised


# Recompiles.


@for_each(
    "arguments, calls, kind, is_blamed",
    [
        ({"dynamic": False}, [], "size", True),
        ({}, [{"dynamic": "False"}], "size", True),
        ({}, [{"dynamic": "False"}, {"dynamic": "False", "backend": "'eager'"}], "size", True),
        # What a call without it compiled recompiles for reasons of its own.
        ({}, [{"dynamic": "False"}, {}], "size", False),
        ({"dynamic": True}, [{"dynamic": "True"}], "size", False),
        ({}, [], "size", False),
        ({"dynamic": False}, [], "rank", False),
    ],
)
def test_dynamic_false_is_named_where_it_is_the_cause(arguments, calls, kind, is_blamed):
    facts = recompiled_for(change(kind))
    made = [
        CompileCall(file=FILE, line=9, function="main", compiled="f", arguments=given)
        for given in calls
    ]
    target = facts.target.replace(compile_arguments=arguments)
    [found] = findings(facts.replace(target=target, compile_calls=tuple(made)), "GD202")
    titles = [fix.title for fix in found.fixes]
    assert ("dynamic=False" in found.message) == is_blamed
    assert titles[0].startswith("Compile without dynamic=False") == is_blamed
    assert not any("dynamic=True" in f"{fix.title}{fix.snippet}" for fix in found.fixes)


@for_each(
    "name, value, is_suggested",
    [
        ("torch._dynamo.config.allow_unspec_int_on_nn_module", True, False),
        ("torch.compiler.config.allow_unspec_int_on_nn_module", True, False),
        ("torch._dynamo.config.allow_unspec_int_on_nn_module", False, True),
        ("torch._dynamo.config.capture_scalar_outputs", True, True),
    ],
)
def test_a_setting_that_cannot_help_is_not_suggested(name, value, is_suggested):
    facts = recompiled_for(change("module_number", "self.step", source="L['self'].step"))
    target = facts.target.replace(config={name: value})
    # torch names what a program set by the module that has it.
    of_program = {name.replace("torch.compiler.", "torch._dynamo."): repr(value)}
    for known in (facts.replace(target=target), facts.replace(config=of_program)):
        [found] = findings(known, "GD205")
        assert any(fix.setting is not None for fix in found.fixes) == is_suggested
    ids = change("module_number", "self.id", "0", "1", source="L['self'].id")
    [found] = findings(recompiled_for(ids), "GD205")
    assert all(fix.setting is None for fix in found.fixes)


PARAMETER = change(
    "size", "w.shape[0]", "8", "16", source="L['self']._modules['conv']._parameters['weight']"
).replace(is_parameter=True)
READ = change("number", "x.item()", "1", "2", source="L['___stack0']")


@for_each(
    "changed, name, value",
    [
        (READ, "capture_scalar_outputs", "True"),
        (READ.replace(expression="float(x)"), "capture_scalar_outputs", "True"),
        (PARAMETER, "force_parameter_static_shapes", "False"),
    ],
)
def test_what_the_program_set_is_not_suggested(changed, name, value):
    facts = recompiled_for(changed)
    dotted = f"torch._dynamo.config.{name}"
    for config, is_suggested in (({}, True), ({dotted: value}, False), (None, True)):
        (found,) = findings(facts.replace(config=config), "GD203", "GD206")
        settings = [fix.setting.name for fix in found.fixes if fix.setting is not None]
        assert (dotted in settings) == is_suggested


@for_each(
    "changed, name, value, is_named",
    [
        (change(), "automatic_dynamic_shapes", False, True),
        (change("number", "n", "2", "3"), "automatic_dynamic_shapes", False, True),
        (change("number", "n", "2", "3"), "specialize_int", True, True),
        (change("number", "n", "2.5", "3.5"), "specialize_float", True, True),
        (change("number", "n", "2.5", "3.5"), "specialize_int", True, False),
        (change(), "specialize_int", True, False),
        (change("number", "n", "2", "3"), "specialize_float", True, False),
        (change("rank"), "automatic_dynamic_shapes", False, False),
    ],
)
def test_a_setting_that_keeps_values_constant_is_named(changed, name, value, is_named):
    facts, dotted = recompiled_for(changed), f"torch._dynamo.config.{name}"
    of_run = facts.replace(target=facts.target.replace(config={dotted: value}))
    for known in (facts.replace(config={dotted: repr(value)}), of_run):
        (found,) = findings(known, "GD202", "GD203")
        lines = [fix.snippet for fix in found.fixes]
        assert (lines == [f"{dotted} = {not value}"]) == is_named
        assert found.fixes
    (found,) = findings(facts, "GD202", "GD203")
    assert not any(name in (fix.snippet or "") for fix in found.fixes)


@for_each(
    "old, new, line, is_named",
    [
        ("2", "3", "y = x + n", True),
        ("2.5", "3.5", "y = x + n", True),
        ("-1", "7", "y = x * n", True),
        # What torch compiles for each value, dynamic or not.
        ("0", "1", "y = x + n", False),
        ("1", "4", "y = x + n", False),
        ("2", "3", "y = x + table[n]", False),
    ],
)
def test_dynamic_false_keeps_numbers_constant(old, new, line, is_named):
    changed = change("number", "n", old, new, source="L['n']")
    facts = recompiled_for(changed.replace(guard_location=entry(12, line)))
    for arguments in ({"dynamic": False}, {}):
        target = facts.target.replace(compile_arguments=arguments)
        (found,) = findings(facts.replace(target=target), "GD203")
        says = found.fixes[0].title.startswith("Compile without dynamic=False")
        assert says == (is_named and bool(arguments))


def test_dynamic_false_is_named_for_a_number_that_begins_at_1():
    steps = [("1", "2"), ("2", "3"), ("3", "4")]
    changes = [change("number", "n", *step, source="L['n']") for step in steps]
    again = (recompiled(f"0/{number}", step) for number, step in enumerate(changes, 1))
    facts = recording(compiles=(compiled(), *again))
    target = facts.target.replace(compile_arguments={"dynamic": False})
    (found,) = findings(facts.replace(target=target), "GD203")
    assert found.fixes[0].title.startswith("Compile without dynamic=False")


def resized(*steps, source="L['x']"):
    """Recompiles for a size, each named by the entry that it is compared with."""
    again = []
    for number, (nearest, old, new) in enumerate(steps, 1):
        made = recompiled(f"0/{number}", change("size", "x.shape[0]", old, new, source=source))
        again.append(made.replace(cause=made.cause.replace(nearest=nearest)))
    return recording(compiles=(compiled("0/0"), *again))


@for_each(
    "steps, is_static",
    [
        ([("0/0", "5", "3"), ("0/1", "3", "7")], True),
        ([("0/0", "5", "3"), ("0/0", "5", "7"), ("0/1", "3", "9")], True),
        ([("0/0", "5", "3")], False),
        # The entry for a second size isn't what refused the third.
        ([("0/0", "5", "3"), ("0/0", "5", "7")], False),
        # Sizes 0 and 1 are compiled by themselves.
        ([("0/0", "5", "1"), ("0/1", "1", "7")], False),
        ([("0/0", "5", "1"), ("0/0", "5", "7")], False),
    ],
)
def test_a_size_that_stays_static_is_not_marked(steps, is_static):
    """torch makes a dim dynamic at its second size, unless the program keeps it static: then
    neither a mark nor a setting does."""
    for source in ("L['x']", "L['batch']['x']"):
        (found,) = findings(resized(*steps, source=source), "GD202")
        titles = [fix.title for fix in found.fixes]
        wanted = ["Remove what keeps `x.shape[0]` static, such as torch._dynamo.mark_static"]
        assert (titles == wanted) == is_static, titles


@for_each(
    "source, value",
    [
        ("L['x']", "L['x']"),
        ("L['batch']['ids']", "L['batch']['ids']"),
        ("L['parts'][0]", "L['parts'][0]"),
        # The source as torch names it, whatever the caller calls it.
        ("L['kwargs']['x']", "L['kwargs']['x']"),
    ],
)
def test_sources_are_named_by_the_line_that_sets_them(source, value):
    """One line does for all findings that need it."""
    changed = change("size", "x.shape[0]", source=source)
    facts = recording(compiles=(compiled("0/0"), recompiled("0/1", changed)))
    called = frame().replace(resumes_at=3)
    (found,) = findings(facts.replace(frames=(called,)), "GD202")
    (fix,) = found.fixes
    assert fix.snippet == f'torch.compiler.config.dynamic_sources = "{value}"'
    assert (fix.kind, fix.is_safe, fix.setting) == ("config", True, None)
    assert fix.title.startswith("Name ")


@for_each(
    "steps, is_advised",
    [([("0/0", "16", "10")], True), ([("0/0", "10", "16")], False),
     ([("0/0", "16", "10"), ("0/0", "16", "9")], False), ([("0/0", "16", None)], False)],
)  # fmt: skip
def test_a_smaller_last_batch_can_be_left_out(steps, is_advised):
    (found,) = findings(resized(*steps).replace(target=TargetInfo(kind="script")), "GD202")
    assert any("drop_last=True" in fix.title for fix in found.fixes) == is_advised


GRAD = change("grad_mode", "grad mode", "on", "off", source=None)
EVAL = change("training", "net[1].training", "True", "False", source="L['self']")
FLOAT = change("dtype", "x.dtype", "f32", "f64")


@for_each(
    "changes, is_partial",
    [
        ([GRAD], False),
        ([GRAD, EVAL], True),
        ([FLOAT, change("device", "x.device", "cpu", "cuda:0")], True),
        ([FLOAT, change("dtype", "y.dtype", "f32", "f64", source="L['y']")], False),
    ],
)
def test_modes_that_change_together_are_kept_together(changes, is_partial):
    """Each alone leaves the recompile to the others."""
    facts = recording(compiles=(compiled("0/0"), recompiled("0/1", *changes)))
    (found,) = findings(facts, "GD212")
    _, same = (fix.title for fix in found.fixes)
    assert (", and " in same) == is_partial


@for_each(
    "source, nearest, line",
    [
        ("L['scale']", "0/0", "scale = torch.tensor(scale)"),
        # An earlier call passed None, or nothing.
        ("L['scale']", "0/2", None),
        ("L['options']['gain']", "0/0", None),
        ("L['options']['gain']", "0/2", None),
        ("L['gains'][1]", "0/0", None),
        ("L['gains'][1]", "0/1", None),
    ],
)
def test_a_number_is_replaced_only_where_each_call_has_it(source, nearest, line):
    name = expression(source)
    facts = recompiled_for(change("number", name, "2.0", "3.0", source=source, line=None))
    parameters = ("scale", "options", "gains")
    facts = facts.replace(target=facts.target.replace(parameters=parameters))
    first, again = facts.compiles
    again = again.replace(cause=again.cause.replace(nearest=nearest))
    (found,) = findings(facts.replace(compiles=(first, again)), "GD203")
    (fix,) = found.fixes
    assert fix.snippet == line


LIMIT = "torch._dynamo.config.recompile_limit"


@for_each(
    "config, arguments, line",
    [
        (None, {}, "torch.compiler.config.recompile_limit = 64"),
        ({}, {"dynamic": "False"}, "torch.compiler.config.recompile_limit = 64"),
        ({LIMIT: "16"}, {}, "torch.compiler.config.recompile_limit = 64"),
        ({LIMIT: "64"}, {}, "torch.compiler.config.recompile_limit = 128"),
        ({LIMIT: "70"}, {}, "torch.compiler.config.recompile_limit = 140"),
        # A call's own limit holds for it, whatever the setting.
        ({}, {"recompile_limit": "2"}, "recompile_limit=64"),
        ({LIMIT: "70"}, {"recompile_limit": "100"}, "recompile_limit=200"),
        ({}, {"recompile_limit": "LIMIT"}, "recompile_limit=64"),
    ],
)
def test_the_limit_is_raised_above_the_one_in_force(config, arguments, line):
    over = recompiled("0/1", change(), outcome="limit")
    made = CompileCall(file=FILE, line=9, function="main", compiled="f", arguments=arguments)
    facts = recording(compiles=(compiled(), over)).replace(config=config, compile_calls=(made,))
    (found,) = findings(facts, "GD201")
    assert found.fixes[-1].snippet == line


IN_LOOP = (
    entry(24, "x = layer(x)", function="run", qualname="Net.run"),
    entry(12, "y = self.conv(x)"),
)
WIDTH = change("module_number", "self.width", "8", "16", source="L['self'].width")
INPUT = change("size", "x.shape[1]", "8", "16")
WEIGHT = change(
    "size",
    "self.conv.weight.shape[0]",
    "8",
    "16",
    source="L['self']._modules['conv']._parameters['weight']",
).replace(is_parameter=True)


def instances(*changes, times=2, is_regional=False):
    again = (
        recompiled(f"0/{number}", *changes, call=1, stack=IN_LOOP) for number in range(1, times + 1)
    )
    found = recording(compiles=(compiled(stack=IN_LOOP), *again))
    return found.replace(target=found.target.replace(is_regional=is_regional))


def recompiled_for(changed):
    return recording(compiles=(compiled("0/0"), recompiled("0/1", changed)), frames=(frame(),))


def filled(source, line, old, new):
    """A container whose length changed, guarded on at a line."""
    changed = change(
        "length", f"len({source[3:].replace(chr(39) + ']', '', 1)})", old, new, source=source
    )
    return recompiled_for(changed.replace(guard_location=entry(12, line)))


def test_recompiles(snapshot):
    cases = {
        "layers of other widths": instances(INPUT, WEIGHT, WIDTH),
        "numbers alone": instances(WIDTH),
        "where each layer is compiled by itself": instances(WIDTH, is_regional=True),
        **{
            f"a condition on {what}": recompiled_for(change("relation", condition, None, None))
            for what, condition in (
                ("a size", "(x.shape[0] % 2) == 0"),
                ("a number", "(1.0 + ((-1)*self.p)) == 0.9"),
            )
        },
    }
    assert said(cases, "GD207", "GD211") == snapshot
    # A number that changes beside an input may be a counter, and one recompile is no pattern.
    assert none_in((instances(INPUT, WIDTH), instances(INPUT, WEIGHT, times=1)), "GD211")


SEEN = "L['self'].seen"


def test_a_container_grows_where_its_own_line_adds_to_it():
    grows = [
        (SEEN, "self.seen.append(x.sum())", "0", "1"),
        (SEEN, "self.seen += [x.sum()]", "0", "1"),
        (SEEN, "self.seen.extend(parts)", "0", "3"),
        (SEEN, 'self.seen[f"k{len(self.seen)}"] = x', "0", "1"),
        ("L['self'].meter.seen", "self.seen.append(value)", "7", "8"),
        ("G['LOG']", "LOG.append(y)", "0", "1"),
        # An argument or a variable of the enclosing function, of which torch's source says no more.
        ("L['seen']", "seen.append(y)", "0", "1"),
        # Under another name, and through a bound method.
        ("L['self'].logs['loss']", "log.append(loss)", "0", "1"),
        ("L['self'].logs['loss']", 'self.logs["loss"].append(loss)', "0", "1"),
        ("G['log'].__self__", "log(loss)", "0", "1"),
    ]
    changes = [
        (SEEN, "self.unseen.append(x)", "0", "1"),
        (SEEN, "if self.seen[0] == x:", "0", "1"),
        (SEEN, "return x + len(self.seen)", "0", "1"),
        (SEEN, "return x + self.seen.pop()", "6", "5"),
        (SEEN, "self.seen.append(x)", "6", "0"),
        (SEEN, "self.seen.append(x)", None, "1"),
        # Another list was passed.
        ("L['seen']", "seen.append(y)", "0", "4"),
        # Another list grows here.
        (SEEN, "out.append(len(self.seen))", "0", "1"),
        (SEEN, "out.append(self.seen[-1])", "0", "1"),
        ("G['log'].__self__", "out.append(log)", "0", "1"),
    ]
    for wanted, cases in (("GD218", grows), ("GD215", changes)):
        assert [[one.code for one in findings(filled(*case))] for case in cases] == [
            [wanted]
        ] * len(cases)


def test_what_only_a_person_can_write_says_so():
    (grows,) = findings(filled(SEEN, "self.seen.append(x.sum())", "0", "1"))
    assert [[reason.kind for reason in fix.reasons] for fix in grows.fixes] == [["declined"]] * 2


def test_sizes_0_and_1_are_not_dynamic():
    """Sizes 3, 2, 1 and 0: making the dim dynamic saves one recompile, not two."""
    steps = [("3", "2"), ("1", "0")]
    again = (
        recompiled(f"0/{n}", change("size", "x.shape[0]", *step)) for n, step in enumerate(steps, 1)
    )
    first, second = findings(recording(compiles=(compiled(), *again)), "GD2")
    assert (first.code, first.count, second.code, second.count) == ("GD202", 1, "GD207", 1)
    assert "is 0 or 1, and torch compiles separate code" in second.message


def test_a_dim_is_not_marked_where_another_keeps_the_recompile():
    """A batch of 1 is compiled by itself, whatever is marked of the width that changes with it."""
    sizes = [("x.shape[0]", "1", "2"), ("x.shape[1]", "32", "48")]
    again = recompiled("0/1", *(change("size", *size) for size in sizes))
    (found,) = findings(recording(compiles=(compiled(), again)), "GD2")
    assert found.code == "GD202"
    (fix,) = found.fixes
    assert fix.title.startswith("Move the compiles to a warm-up with each of these sizes")


@for_each(
    "expression, tensor",
    [
        ("2 <= x.stride(1)", "x"),
        ("2 <= batch['x'].stride(1)", "batch['x']"),
        ("x.stride(0) == x.shape[1]", "x"),
        ("(4*x.stride(1)) == x.stride(0)", "x"),
        ("x.stride(0) == y.stride(0)", "x"),
        ("(x.stride(0) % 8) == 0", "x"),
    ],
)
def test_strides_are_no_branch_of_the_program(expression, tensor):
    """Strides of 0 and 1 are compiled by themselves, as sizes are; no line chose that."""
    source = f"L{expression[5:].rpartition('.')[0]}" if "batch" in expression else "L['x']"
    changed = change("relation", expression, "x.stride(1) = 4", "x.stride(1) = 0", source=source)
    (found,) = findings(recompiled_for(changed))
    assert (found.code, len(found.fixes)) == ("GD213", 1)
    assert found.fixes[0].title == f"Make `{tensor}` contiguous before the call"
    assert f"the strides of `{tensor}` changed: x.stride(1) = 4 → x.stride(1) = 0" in found.message


@for_each("kind", ["text", "number", "length", "type", "keys", "value"])
def test_nobody_can_change_what_pythons_own_functions_get(kind):
    changed = change(kind, "args", "a", "b", source="L['args']")
    library = frame().replace(origin="stdlib", file="/lib/python3.11/dataclasses.py")
    facts = recording(compiles=(compiled(), recompiled("0/1", changed)), frames=(library,))
    (found,) = findings(facts, "GD2")
    assert [fix.title.partition(":")[0] for fix in found.fixes] == [
        "Fix the graph break where Python calls it first"
    ]
    assert found.is_consequence


@for_each("kind", ["keys", "length", "type", "attribute", "aliasing"])
def test_what_torchs_own_code_fills_is_warmed_up(kind):
    """The first step of an optimizer makes its state."""
    changed = change(kind, "self.state[w]", "none", "'exp_avg'", source="L['self'].state")
    step = frame(function="step").replace(origin="torch", file="/torch/optim/adam.py")
    facts = recording(compiles=(compiled(), recompiled("0/1", changed)), frames=(step,))
    (found,) = findings(facts, "GD2")
    assert [fix.title.partition(" of ")[0] for fix in found.fixes] == [
        "Move the compiles to a warm-up"
    ]


def of_rank(compile_, rank, frame_id=None):
    """The compile as the reader names that of another rank."""
    number = 10 * rank if frame_id is None else frame_id
    update = {
        "compile_id": f"rank{rank}:{compile_.compile_id}",
        "process": f"rank{rank}",
        "frame_id": number,
    }
    return compile_.replace(**update)


def ranks(*compiles, other=None):
    second = (other or frame(10)).replace(process="rank1")
    return recording(frames=(frame(), second), compiles=compiles)


def test_ranks(snapshot):
    elsewhere = frame(11, function="other").replace(line=99)
    cases = {
        "a rank that compiles more often": ranks(
            compiled(), of_rank(compiled(), 1), of_rank(recompiled("0/1", change()), 1)
        ),
        "a rank that compiles for another text": ranks(
            compiled(),
            of_rank(compiled(), 1),
            of_rank(recompiled("0/1", change("text", "mode")), 1),
        ),
        "ranks that compiled other functions": ranks(
            compiled(), of_rank(compiled(), 1, 11), other=elsewhere
        ),
    }
    assert said(cases, "GD209") == snapshot
    child = compiled().replace(compile_id="p2:0/0", process="p2", frame_id=10)
    alike = ranks(compiled(), of_rank(compiled(), 1))
    processes = ranks(compiled(), child, child.replace(compile_id="p2:0/1"))
    assert none_in((alike, processes), "GD209")


# Modules that repeat.

LAYERS = tuple(f"layers.{index}" for index in range(4))


def blocks(*paths, **values):
    known = {"class_name": "Layer", "kinds": 1, "compiled_as": "module", "container": "layers"}
    return RepeatedBlocks(paths=paths or LAYERS, **known | values)


def graph_of(ops, *, index=0, root="L['self']", **differing):
    """A graph with so many operations in each module, None for what is in no module; fields that
    differ by layer."""
    paths = [path for path, count in ops.items() for _ in range(count)]
    made = [
        {
            "name": f"sin_{n}",
            "opcode": "call_method",
            "target": "sin",
            "args": "",
            "kwargs": "",
            "module": None,
        }
        | {"module": None if path is None else f"{root}.{path}".removesuffix(".")}
        | {name: text.format(layer=n // 40, number=n) for name, text in differing.items()}
        for n, path in enumerate(paths)
    ]
    nodes = tuple(GraphNode(**each) for each in made)
    return graph(f"0/{index}", index=index).replace(nodes=nodes, op_count=len(nodes))


ONE_KIND = (blocks(),)


def repeating(*graphs, known=ONE_KIND, **target):
    arguments = {"backend": "eager", "mode": None, "fullgraph": False, "options": {}}
    given = {
        "name": "Net",
        "kind": "module class",
        "class_name": "Net",
        "compile_arguments": arguments,
        "blocks": known,
    }
    compiles = tuple(compiled(found.compile_id) for found in graphs)
    found = recording(graphs=graphs, compiles=compiles, frames=(frame(),))
    return found.replace(target=TargetInfo(text="model.py", **given | target))


def even(count, *, rest=0, paths=LAYERS):
    return {**{f"{path}.linear": count for path in paths}, None: rest}


def test_modules_that_repeat(snapshot):
    others = tuple(f"decoder.{index}" for index in range(3))
    both = (
        blocks(),
        blocks(*others, class_name="make.<locals>.Other", container=None, compiled_as="forward"),
    )
    nested = blocks("0.1.0", "0.1.1", "0.1.2", container="0.1")
    arguments = {
        "backend": "inductor",
        "mode": "max-autotune",
        "dynamic": True,
        "fullgraph": False,
        "options": {},
    }
    cases = {
        "layers that make up a graph": repeating(graph_of(even(40, rest=10))),
        "of several kinds": repeating(graph_of(even(60)), known=(blocks(kinds=2),)),
        "with other names of what goes in": repeating(graph_of(even(40), args="sin_{number}, 2")),
        "of an encoder and a decoder": repeating(
            graph_of({**even(40), **even(40, paths=others)}), known=both
        ),
        "a list in a list, with the run's arguments": repeating(
            graph_of({f"0.1.{index}": 60 for index in range(3)}, root="L['model']"),
            known=(nested,),
            compile_arguments=arguments,
        ),
    }
    assert said(cases, "GD401") == snapshot
    little = (
        even(30),
        even(40, rest=200),
        {"layers.0": 400},
        {"layersX.0": 100, "layers.01": 300},
        {},
    )
    nothing = (
        *(repeating(graph_of(ops)) for ops in little),
        repeating(*(graph_of({f"layers.{index}": 200}, index=index) for index in range(4))),
        repeating(graph_of(even(40)), is_regional=True),
        *(
            repeating(graph_of(even(40)), known=known)
            for known in (None, (), (blocks(kinds=4),), (blocks(kinds=2),))
        ),
        # Layers that differ in a number, a size or an operation.
        repeating(graph_of(even(40), args="sin_9, {layer}")),
        repeating(graph_of(even(40), value="f32[{layer}]")),
        repeating(graph_of(even(40), target="sin{layer}")),
    )
    assert none_in(nothing, "GD401")


# Breaks.

DDP_FILE = "/lib/python3.11/site-packages/torch/nn/parallel/distributed.py"
LOGGER = BreakReason(gb_type="Unsupported method call", torch_id="GB0156")
SKIPPED = BreakReason(gb_type="Attempted to call function marked as skipped", torch_id="GB0007")
CALL = entry(20, "loss = model(x).sum()", function="<module>")
ROOT = entry(12, "model = torch.compile(DistributedDataParallel(net))", function="<module>")
INSIDE = entry(
    1715,
    "with self._inside_ddp_forward():",
    file=DDP_FILE,
    function="_run_ddp_forward",
    origin="torch",
)


WRAPPER = frame(0, function="forward").replace(
    line=12, code_name="inner", is_wrapper=True, container="Sequential"
)


def in_torch(mechanism="ddp_forward", container="Sequential", **values):
    """Breaks in torch's own code around a module; without a graph."""
    helper = {"file": "/lib/python3.11/contextlib.py", "origin": "stdlib", "code_name": "helper"}
    records = (
        record(ROOT, INSIDE, chain=(LOGGER,)),
        record(CALL, INSIDE, chain=(SKIPPED,), compile_id="1/0"),
    )
    known = {
        "frames": (WRAPPER.replace(container=container),
                   frame(1, function="helper").replace(**helper)),
        "compiles": (compiled(stack=(CALL, ROOT)), compiled("1/0", stack=(CALL, INSIDE))),
        "breaks": tuple(one.replace(mechanism=mechanism) for one in records),
        "graphs": (),
    }  # fmt: skip
    return recording(**known | values)


def test_breaks_in_torch_s_own_code(snapshot):
    mechanisms: tuple[TorchMechanism, ...] = ("ddp_forward", "fsdp_hook", "module_hook")
    cases = {
        **{f"{mechanism} around a container": in_torch(mechanism) for mechanism in mechanisms},
        "without the container's class": in_torch(container=None),
        "a container of the program's own modules": in_torch(graphs=(graph("1/0"),)),
        "a container that torch compiles by itself": in_torch(
            "module_hook",
            graphs=(graph("1/0"),),
            frames=(WRAPPER, frame(1).replace(qualname="Sequential.forward")),
        ),
        "a compiled function that calls DDP": recording(
            breaks=(
                record(entry(16, "y = ddp(x * 2)"), INSIDE, chain=(LOGGER,)).replace(
                    mechanism="ddp_forward"
                ),
            )
        ),
        "a module of the program's own": in_torch(container=None, graphs=(graph("1/0"),)),
    }
    assert said(cases) == snapshot
    alone = in_torch().replace(calls=(), coverage=None)
    assert verdict(diagnosed(alone))[0].startswith("Not compiled")


def skipped_in_package(*blocks):
    place = {
        "file": "/site-packages/slowlib/core.py",
        "function": "forward",
        "qualname": "Smoother.forward",
    }
    inside = entry(11, "open(p)", **place, origin="third_party", package="slowlib")
    reason = BreakReason(gb_type="graph break in loop", torch_id="GB7000", explanation="Why.")
    broken = record(entry(16, "x = block(x)"), inside, effect="frame_skipped", chain=(reason,))
    source = context(16, "x = block(x)", *blocks).replace(function_line=13)
    return recording(breaks=(broken,), sources=(source,))


def test_a_break_in_a_package_that_skips_a_function(snapshot):
    loop = Enclosing(kind="for", line=15, text="for block in self.blocks:")
    assert (
        said({"alone": skipped_in_package(), "in a loop": skipped_in_package(loop)}, "GD111")
        == snapshot
    )


def test_break_skipping_a_resume_keeps_earlier_graphs():
    broken = record(entry(16, "x = block(x)"), effect="frame_skipped", compile_id="1/0")
    frames = (frame(), frame(1, resumes_at=15))
    compiles = (compiled(), compiled("1/0", outcome="skipped"))
    found = {
        one.code: one
        for one in findings(recording(breaks=(broken,), frames=frames, compiles=compiles))
    }
    assert found["GD111"].message.startswith("the rest of `Net.forward` is not compiled")
    assert (found["GD111"].effects.skipped_frames, found["GD111"].effects.rest_eager_frames) == (
        (),
        ("Net.forward",),
    )


def skipped_in(*blocks, types=(), is_called=False):
    """What GD111 advises for a break in blocks, on their line or in a function that the line
    calls."""
    call = "y = inner(y)"
    inside = (entry(3, 'print("in")', function="inner", qualname="inner"),) if is_called else ()
    names = ("Failed to trace builtin operator", *types)
    reasons = tuple(BreakReason(gb_type=name) for name in names)
    broken = record(entry(16, call), *inside, effect="frame_skipped", chain=reasons)
    source = context(16, call, *blocks)
    found = recording(breaks=(broken,), sources=(source,))
    return [fix.title for one in findings(found, "GD111") for fix in one.fixes]


def block(kind, line, text):
    return Enclosing(kind=kind, line=line, text=text)


def test_line_moves_out_of_blocks_torch_cannot_resume_in():
    under, loops = (("Graph break under GenericContextWrappingVariable",), ("graph break in loop",))
    outer, inner = (block("with", line, "with lock:") for line in (12, 14))
    grad = block("with", 13, "with torch.no_grad():")
    tried, loop = block("try", 15, "try:"), block("for", 15, "for i in (1, 2):")
    both = "Move this line out of the `with` on line 12 and the `with` on line 14"
    body = "Move the body of the `for` on line 15 into a function, so that torch compiles that"
    assert skipped_in(inner, grad, types=under) == ["Move this line out of the `with` on line 14"]
    assert skipped_in(inner, grad, outer, types=under) == [both]
    assert skipped_in(tried) == ["Move this line out of the `try` on line 15"]
    assert skipped_in(tried, is_called=True) == [
        "Move the call `y = inner(y)` out of the `try` on line 15"
    ]
    assert skipped_in(loop, types=loops) == [body]
    # The body is a call already.
    assert skipped_in(loop, types=loops, is_called=True) == []
    # What a loop goes over is evaluated before it, in the loop around.
    begun = block("for", 16, "for i in x.tolist():")
    assert skipped_in(begun, loop, types=loops) == [body]
    assert "line 16" in skipped_in(begun, types=loops)[0]


# Errors.

HINT = "\n\nSet TORCHDYNAMO_VERBOSE=1 for the internal stack trace (please do this especially if you're reporting a bug)"
LOWERING = "InductorError: LoweringException: "


TORCH_FILE = "/env/lib/python3.12/site-packages/torch/_inductor/cudagraph_trees.py"


def overwritten(made, *, is_gradient=False):
    """What Python prints where a result of a CUDA graph is read too late (torch 2.11)."""
    what, cure = "tensor", "To prevent overwriting, clone the tensor outside of torch.compile()"
    if is_gradient:
        what, cure = "gradient tensor", "This can happen with torch.compile(mode='reduce-overhead')"
    return (
        'Traceback (most recent call last):\n  File "/app/model.py", line 30, in forward\n    return old + y\n'
        f'  File "{TORCH_FILE}", line 9, in run\n    copy(x)\n'
        f"RuntimeError: Error: accessing {what} output of CUDAGraphs that has been overwritten by a"
        f" subsequent run. Stack trace: {made}. {cure}"
    )


MADE = 'File "/app/model.py", line 20, in forward\n    y = inner(x)\n  File "/app/model.py", line 12, in inner\n    return x @ x'


@for_each(
    "made, is_gradient, is_script, places, advice",
    [
        (MADE, False, False, [12], "Clone the result"),
        (MADE, False, True, [12], "Clone the result"),
        ("[Could not find stack trace]", False, False, [], "Clone the result"),
        (MADE, True, False, [12], "Set gradients to None"),
    ],
)
def test_an_overwritten_result_is_named_where_it_is_read(
    made, is_gradient, is_script, places, advice
):
    text = overwritten(made, is_gradient=is_gradient)
    if is_script:
        ended = ProbeExit(status=1, reason="error", traceback=text)
        facts = recording().replace(exit=ended)
    else:
        message = text[text.index("Error: acc") :]
        error = CallError(type="RuntimeError", message=message, traceback=text, eager="ok")
        facts = recording().replace(calls=(Call(index=2, outcome="error", error=error),))
    (found,) = findings(facts, "GD5", "GD9")
    assert (found.code, found.location.line) == ("GD513", 30)
    assert [place.line for place in found.related] == places
    assert found.fixes[0].title.startswith(advice)


def failed_backend(seen, failure="unused"):
    """What the backend raised as we saw it, or as torch words it in a log that graphdoctor didn't
    record."""
    known = {"failure": FailedCompile(type="BackendCompilerFailed", message=failure)}
    broken = compiled(outcome="failed", stack=(entry(10, "def forward(self, x):"),)).replace(
        **known
    )
    return recording(compiles=(broken,), graphs=() if seen is None else (graph(error=seen),))


def failed_tracing(kind="TorchRuntimeError", *, is_foreign=True, line=5):
    chain = (BreakReason(gb_type="RuntimeError when making fake tensor call"),)
    stack = () if line is None else (entry(line),)
    failure = FailedCompile(type=kind, message="words", chain=chain, stack=stack)
    failed = compiled("0/0").replace(outcome="failed", failure=failure)
    gap = CaptureGap(
        code="GD904", kind="foreign_log", message="This log was not recorded by graphdoctor."
    )
    known = {"gaps": (gap,) if is_foreign else (), "calls": ()}
    return recording(compiles=(failed,), frames=(frame(0),)).replace(**known)


def failed_call(eager, **options):
    error = CallError(type="ValueError", message="words", traceback="", eager=eager)
    target = recording().target.replace(call_options=options)
    return recording().replace(calls=(Call(index=1, outcome="error", error=error),), target=target)


def test_errors(snapshot):
    key = "KeyError: 'x'\n  target: aten.foo.default"
    below = "AssertionError: \n  target: aten.foo.default\n  args[0]: T"
    cases = {
        "seen, with a second line": failed_backend("ValueError: no\nmore"),
        "seen, with its text below": failed_backend("RuntimeError: \n\nno room\n  at all"),
        "seen, without a text": failed_backend("AssertionError: "),
        "seen, with a long text": failed_backend(f"ValueError: {'no ' * 500}\nsecond line"),
        "of the program's own": failed_backend("ValueError: no").replace(
            graphs=(graph(error="ValueError: no").replace(backend="mine"),)
        ),
        "in torch's words": failed_backend(None, f"backend='inductor' raised:\n{LOWERING}{key}{HINT}"),
        "in torch's words, its text below": failed_backend(None, f"backend='x' raised:\n{LOWERING}{below}{HINT}"),
        "in torch's words, without a text": failed_backend(None, f"backend='bad' raised:\nAssertionError: {HINT}"),
        "unknown": failed_backend(None, ""),
        "while tracing, in a log of others": failed_tracing(),
        "a call with another batch size": failed_call("ValueError", batch=8),
        "a call with another dtype and batch size": failed_call("ValueError", dtype="float16", batch=8),
        "a call that works in eager mode": failed_call("ok", batch=8),
        "a call with its own": failed_call("ValueError", dtype=None, batch=None),
    }  # fmt: skip
    assert said(cases, "GD501", "GD901") == snapshot
    told_by_others = (
        failed_tracing("Unsupported"),
        failed_tracing("BackendCompilerFailed"),
        failed_tracing(is_foreign=False),
        failed_tracing(line=None),
    )
    assert none_in(told_by_others, "GD901")
    # The pipe of a command that was killed broke, and its program with it.
    error = CallError(
        type="BrokenPipeError", message="Broken pipe", traceback="", eager="BrokenPipeError"
    )
    cut = recording(
        calls=(Call(index=1, inputs="", outcome="error", error=error),),
        ended=ProbeExit(status=None),
    )
    unknown = [
        cut.replace(exit=ProbeExit(status=None, reason=reason)) for reason in ("lost", "running")
    ]
    assert none_in((cut, *unknown), "GD901")
    assert not none_in((cut.replace(exit=ProbeExit(status=0, reason="finished")),), "GD901")


@for_each(
    "line, is_packing",
    [
        ("packed = pack_padded_sequence(h, lengths)", True),
        ("packed = rnn_utils.pack_sequence(rows)", True),
        ("y, _ = self.rnn(pack_sequence(rows))", True),
        ("h, _ = pad_packed_sequence(h)", False),
        ("rows = pad_sequence(rows)", False),
        ("print(h)", False),
    ],
)
def test_a_recurrent_module_beside_packed_sequences_is_not_just_allowed(line, is_packing):
    recurrent = BreakReason(
        gb_type="Attempted to wrap RNN, GRU, or LSTM",
        torch_id="GB0014",
        explanation="Dynamo does not support RNN, GRU, or LSTM.",
        context="LSTM(16, 16)",
        hints=(),
    )
    facts = recording(
        breaks=(
            record(entry(20, line)),
            record(entry(21, "h, _ = self.rnn(x)"), chain=(recurrent,)),
        )
    )
    (finding,) = [each for each in diagnosed(facts).findings if each.code == "GD116"]
    assert (finding.fixes[0].setting is None) == is_packing
    assert ("a padded tensor" in finding.fixes[0].title) == is_packing
