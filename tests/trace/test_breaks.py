"""torch's printed texts of a break to chain, effect, hints and stack, and which code of torch's own
it is in."""

from graphdoctor.facts.recording import BreakReason
from graphdoctor.facts.stack import StackEntry
from graphdoctor.trace.breaks import break_record, limit_of, mechanism_of, parse_break, parse_chain
from tests.each import for_each

LINK = "\n\n For more details about this graph break, please visit: https://meta-pytorch.github.io/gb/gb{}.html\n"
CAUSE = (
    "Failed to trace builtin operator\n"
    "  Explanation: Dynamo does not know how to trace builtin operator `print`\n    with two lines.\n"
    "  Hint: Avoid it.\n"
    "  Hint: If you are\n    attempting to log, do not.\n"
    "  Hint: Avoid it.\n"
    "\n  Developer debug context: builtin print\n" + LINK.format("0059")
)
LOOP = (
    "graph break in loop\n  Explanation: torch.compile detected a graph break in a for/while loop.\n"
    "  Hint: Move it out.\n\n  Developer debug context: \n" + LINK.format("7000")
)
STACK = (
    'User code traceback:\n  File "/a/b c.py", line 7, in forward\n    x = self.f(x)\n'
    '  File "/a/b c.py", line 3, in f\n    print("x")\n    ^^^^^^^^^^\n\n'
)


def test_a_reason_keeps_each_of_torchs_words_in_its_place():
    (reason,) = parse_chain(CAUSE)

    assert (reason.gb_type, reason.torch_id) == ("Failed to trace builtin operator", "GB0059")
    assert (
        reason.explanation
        == "Dynamo does not know how to trace builtin operator `print`\nwith two lines."
    )
    assert reason.hints == ("Avoid it.", "If you are\nattempting to log, do not.")
    assert reason.context == "builtin print"


@for_each(
    "words, topic",
    [
        (CAUSE, None),
        (
            "Could not guard on data-dependent expression Eq(u0, 1) (unhinted: Eq(u0, 1)).",
            "symbolic_number",
        ),
        (
            "Could not extract specialized integer from data-dependent expression u0.",
            "symbolic_number",
        ),
        ("Dynamo does not support RNN, GRU, or LSTM.", "recurrent_module"),
    ],
)
def test_topic_without_an_id_is_read_from_the_words(words, topic):
    assert parse_break(words).record.topic == topic


def test_the_two_recompile_limits_are_told_apart():
    assert (
        limit_of("Dynamo recompile limit exceeded\n  Limit type: recompile_limit")
        == "recompile_limit"
    )
    assert limit_of("Limit type: accumulated_recompile_limit") == "accumulated_recompile_limit"


def test_the_cause_comes_first_in_a_chain():
    chain = parse_chain(
        CAUSE
        + "\n*** While handling this graph break, another graph break occurred: ***\n\n"
        + LOOP
    )

    assert [reason.torch_id for reason in chain] == ["GB0059", "GB7000"]


@for_each(
    "words, effect, instruction",
    [
        (
            "Encountered graph break when attempting to trace CALL: a function call, e.g. f(x, y):",
            "resumed",
            "CALL",
        ),
        (
            "Encountered graph break that we cannot resume from. Compiling up to it.",
            "rest_eager",
            None,
        ),
        ("Failed to handle graph break gracefully. Skipping the function.", "frame_skipped", None),
        ("Data-dependent jump", "resumed", None),
        ("Something that a later torch prints", "resumed", None),
    ],
)
def test_what_torch_does_about_it(words, effect, instruction):
    parsed = parse_break(
        f"Graph break in user code at /a/b c.py:3\nGraph Break Reason: {words}\n\n{CAUSE}\n{STACK}NoneType: None"
    )

    assert (parsed.record.effect, parsed.record.instruction) == (effect, instruction)
    assert parsed.header == ("/a/b c.py", 3)
    assert parsed.record.chain[0].torch_id == "GB0059"
    assert [(entry.file, entry.line, entry.function, entry.text) for entry in parsed.stack] == [
        ("/a/b c.py", 7, "forward", "x = self.f(x)"),
        ("/a/b c.py", 3, "f", 'print("x")'),
    ]


def test_a_text_of_another_layout_is_kept_whole():
    parsed = parse_break("torch changed its mind\nabout everything")

    assert parsed.record.words == "torch changed its mind\nabout everything"
    assert parsed.record.chain[0].gb_type == "torch changed its mind"
    assert (parsed.stack, parsed.header) == ((), None)


TORCH = "/lib/python3.11/site-packages/torch"


def line(file, text="", origin="torch"):
    return StackEntry(file=file, line=1, function="f", text=text, origin=origin)


def words(gb_type="any", *, context=None, operator=None):
    reason = BreakReason(gb_type=gb_type, context=context)
    return break_record(gb_type, (reason,), "resumed", higher_order_operator=operator)


USER = line("/project/train.py", "y = block(x)", origin="user")
DDP = line(f"{TORCH}/nn/parallel/distributed.py", "with self._inside_ddp_forward():")
MODULE = line(f"{TORCH}/nn/modules/module.py", "return self._call_impl(*args, **kwargs)")
HOOK = line(f"{TORCH}/nn/modules/module.py", "hook_result = hook(self, args, result)")
FSDP = line(
    f"{TORCH}/distributed/fsdp/_fully_shard/_fsdp_common.py", "return torch._dynamo.disable("
)
POLYFILL = line(f"{TORCH}/_dynamo/polyfills/__init__.py")
CONTEXTLIB = line(
    "/lib/python3.11/contextlib.py", "self.gen = func(*args, **kwds)", origin="stdlib"
)


@for_each(
    "path, mechanism",
    [
        ((USER, MODULE, DDP), "ddp_forward"),
        ((USER, line(r"C:\env\Lib\site-packages\torch\nn\parallel\distributed.py")), "ddp_forward"),
        ((USER, DDP, CONTEXTLIB, POLYFILL, CONTEXTLIB), "ddp_forward"),
        ((USER, MODULE, HOOK, FSDP), "fsdp_hook"),
        ((USER, MODULE, HOOK), "module_hook"),
        ((USER, DDP, USER), None),
        ((USER, MODULE), None),
        ((USER, CONTEXTLIB), None),
        ((USER,), None),
        ((), None),
    ],
)
def test_the_innermost_code_of_torch_below_the_program_decides(path, mechanism):
    assert mechanism_of(path, words()) == mechanism


def test_a_side_effect_belongs_to_checkpointing_only_inside_it():
    operator = "torch.utils.checkpoint.checkpoint"
    assert (
        mechanism_of((USER,), words("HOP: Unsafe side effect", operator=operator)) == "checkpoint"
    )
    assert (
        mechanism_of((USER, MODULE), words("HOP: Unsafe side effect", operator=operator))
        == "checkpoint"
    )
    assert mechanism_of((USER,), words("HOP: Unsafe side effect", operator="torch.cond")) is None
    assert (
        mechanism_of((USER,), words("Failed to trace builtin operator", operator=operator)) is None
    )
