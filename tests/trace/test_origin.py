"""Who owns a file, and torch's wrapper around a module of its own class in the program's names."""

import hashlib
import json
from itertools import permutations

from graphdoctor.facts.stack import StackEntry
from graphdoctor.trace.origin import Root, collapse_resumes, is_probe
from graphdoctor.trace.reader import read_recording
from tests.each import for_each

PLACE = StackEntry(file="/work/train.py", line=7, function="main", origin="user")
ROOT = Root("self.net", "Sequential", ("input", "rest[0]"), PLACE)


@for_each(
    "text, named",
    [
        ("fn[1].training", "self.net[1].training"),
        ("fn.scale", "self.net.scale"),
        ("fn", "self.net"),
        ("self.fn.scale", "self.fn.scale"),
        ("fn_1.scale", "fn_1.scale"),
        ("args[0].shape[0]", "input.shape[0]"),
        ("args[1].dtype", "rest[0].dtype"),
        ("args[2].dtype", "args[2].dtype"),
        ("kwargs['mask'].dtype", "mask.dtype"),
        ("self.args[0]", "self.args[0]"),
        ("len(fn[2])", "len(self.net[2])"),
    ],
)
def test_an_expression_is_the_programs_own(text, named):
    assert ROOT.named(text) == named


def test_an_inputs_source_is_that_of_forward():
    assert ROOT.named_source("L['args'][0]") == "L['input']"
    assert ROOT.named_source("L['args'][1].size()[0]") == "L['rest'][0].size()[0]"
    assert ROOT.named_source("L['args'][5]") == "L['args'][5]"
    assert ROOT.named_source("L['fn']._modules['0']") == "L['self'].net._modules['0']"


@for_each(
    "file, expected",
    [
        ("/env/graphdoctor/probe/__main__.py", True),
        ("/env/graphdoctor/probe/steps/workload.py", True),
        ("C:\\env\\graphdoctor\\probe\\record\\backend.py", True),
        ("/home/me/graphdoctor/tools/probe/model.py", False),
        ("/env/graphdoctor/probes/model.py", False),
    ],
)
def test_the_probe_is_known_by_its_path(file, *, expected):
    assert is_probe(file) is expected


def resume(function, line):
    return f"torch_dynamo_resume_in_{function}_at_{line}"


@for_each(
    "stack, merged",
    [
        # Origin's first letter, function, line; t is torch.
        (["u f 1", f"u {resume('f', 1)} 4"], ["u f 4"]),
        (["u f 1", f"u {resume('f', 1)} 4", f"u {resume('f', 4)} 6"], ["u f 6"]),
        (["u f 1", "t _fn 9", "t inner 9", f"u {resume('f', 1)} 4"], ["u f 4"]),
        (["u main 2", "u f 1", "t _fn 9", f"u {resume('f', 1)} 4"], ["u main 2", "u f 4"]),
        # A function of torch's own is merged too, and what is around it stays.
        (["t step 1", f"t {resume('step', 1)} 4"], ["t step 4"]),
        (
            ["u main 2", "t _fn 9", "t step 1", f"t {resume('step', 1)} 4"],
            ["u main 2", "t _fn 9", "t step 4"],
        ),
        # Another function is between them, or nobody called it.
        (["u f 1", "u g 3", f"u {resume('f', 1)} 4"], ["u f 1", "u g 3", "u f 4"]),
        (["u g 3", "t _fn 9", f"u {resume('f', 1)} 4"], ["u g 3", "t _fn 9", "u f 4"]),
        ([f"u {resume('f', 1)} 4"], ["u f 4"]),
        (["u f 1", "u f 2"], ["u f 1", "u f 2"]),
    ],
)
def test_a_function_and_its_resume_functions_are_one_entry(stack, merged):
    def entries(texts):
        for text in texts:
            origin, function, line = text.split()
            owner = "torch" if origin == "t" else "user"
            yield StackEntry(file=f"/{owner}.py", line=int(line), function=function, origin=owner)

    assert collapse_resumes(entries(stack)) == tuple(entries(merged))


def test_functions_that_share_a_line_keep_their_names(tmp_path):
    """Whichever of them was asked for last; their code is the same even where none was."""
    names = {
        "main": "main",
        "<lambda>": "main.<lambda>",
        resume("<lambda>", 3): "main.<lambda>",
        resume("main", 3): "main",
    }
    contexts = [
        {"file": "a.py", "line": 3, "function": function, "qualname": qualname}
        | {"function_line": 3 if "lambda" in function else 1, "statement": ""}
        for function, qualname in names.items()
        if "resume" not in function
    ]
    codes = {"main": (3, None), "<lambda>": (3, None)}
    codes |= {resume(name, 3): (3, 3) for name in codes}
    for number, order in enumerate([*permutations(contexts), ()]):
        records = ['{"str": ["a.py", 0]}']
        for frame, name in enumerate(names):
            start = {"stack": [{"line": 3, "name": name, "filename": 0}]}
            compile_ = {"frame_id": frame, "frame_compile_id": 0}
            records.append(json.dumps({"dynamo_start": start, **compile_}))
        for context in order:
            artifact = {"name": "graphdoctor_sources", "encoding": "json"}
            sum_ = hashlib.md5(payload := json.dumps([context]).encode()).hexdigest()
            value = {"artifact": artifact, "has_payload": sum_}
            records.append(f"{json.dumps(value)}\n\t{payload.decode()}")
        log = tmp_path / f"{number}.log"
        head = "V1122 22:01:20.904000 7 torch/x.py:1] "
        log.write_text("".join(f"{head}{record}\n" for record in records))
        frames = read_recording(log).frames
        assert {frame.code_name: frame.code[2:] for frame in frames} == codes
        assert not order or {frame.code_name: frame.name for frame in frames} == names
