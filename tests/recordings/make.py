"""Makes the recordings beside it: one folder a torch version and program.

    python make.py PYTHON [PYTHON …]

``PYTHON`` is an interpreter whose environment has the torch to record. Each program is recorded
with graphdoctor (``NAME/``), some with ``TORCH_TRACE`` alone too (``NAME.bare/``). One is compiled
by Inductor, with an empty cache and with what that left (``lowered.bare/``,
``lowered_again.bare/``), one breaks and is refused (``refused.bare/``), one is exported and
compiled ahead of time (``exported.bare/``); of their records those that nobody reads, most of the
log, are left out. One with symbolic sizes is compiled (``lowered_sizes.bare/``) and one is exported
as far as it can be (``lowered_export.bare/``), both with ``TORCH_DTRACE``; their events are left
out. Paths, process ids and the system's name are replaced by neutral ones; the sums that torch
writes of payloads are made anew. Nothing else changes.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
PROGRAMS = REPOSITORY / "tests" / "truth" / "programs.txt"
NAMES = ("print_in_helper", "break_in_try", "item")
BARE = ("print_in_helper", "break_in_try")
_HEADER = re.compile(r"^([VDIWEC]\d{4} [\d:.]+) \d+ (\S+\]) (\{.*)$")
_ASK = """
import sys, sysconfig, torch
paths = sysconfig.get_paths()
for text in torch.__version__.split("+")[0], paths["purelib"], paths["stdlib"], sys.prefix, sys.base_prefix:
    print(text)
"""
_BARE = """
import importlib.util, sys, torch
spec = importlib.util.spec_from_file_location("program", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
compiled = torch.compile(module.build(), backend="eager")
for args in module.example_inputs():
    compiled(*args)
"""


_LOWERED = """
import torch

weight = torch.ones(8, 8, requires_grad=True)


def forward(x):
    return torch.nn.functional.layer_norm(torch.relu(x @ weight) * 2, (8,)).sum()


compiled = torch.compile(forward)
compiled(torch.ones(8, 8)).backward()
with torch.no_grad():
    compiled(torch.ones(8, 8))
"""
_REFUSED = """
import torch


def helper(x):
    if x.sum() > 0:
        return x
    return x + 1


def refused(x):
    y = torch.relu(x)
    return helper(y)


def printing(x):
    y = torch.relu(x)
    print("relu")
    return y.cos() * 2


def main():
    torch.compile(printing)(torch.ones(8))
    compiled = torch.compile(
        refused,
        fullgraph=True,
    )
    try:
        compiled(torch.ones(8))
    except Exception as error:
        print(type(error).__name__)


main()
"""
_EXPORTED = """
import tempfile

import torch


class Net(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) * x.shape[0]


rows = torch.export.Dim("rows", min=2, max=64)
program = torch.export.export(Net(), (torch.ones(3, 4),), dynamic_shapes={"x": {0: rows}})
with tempfile.TemporaryDirectory() as folder:
    torch._inductor.aoti_compile_and_package(program, package_path=folder + "/net.pt2")
"""
_KEPT = (
    *(
        "str",
        "torch_version",
        "dynamo_start",
        "dynamo_output_graph",
        "dynamo_cpp_guards_str",
        "compilation_metrics",
    ),
    *(
        "recompile_reasons",
        "aot_joint_graph",
        "aot_forward_graph",
        "aot_backward_graph",
        "aot_inference_graph",
    ),
    *("inductor_post_grad_graph", "inductor_output_code"),
)
_KEPT_ALONE = (
    *_KEPT,
    *(
        "dynamo_graph_break_reason",
        "dynamo_error",
        "dynamo_guards",
        "fx_graph_runnable",
        "exported_program",
    ),
    *("create_symbol", "guard_added", "guard_added_fast", "missing_fake_kernel", "aoti_compile_fx"),
)
_SIZED = """
import torch
from torch._dynamo import config

config.capture_dynamic_output_shape_ops = True


@torch.compile(dynamic=True)
def forward(x):
    return x.nonzero().sum() + x.shape[0]


forward(torch.ones(3))
"""
_DRAFTED = """
import torch
from torch.export._draft_export import draft_export


class Net(torch.nn.Module):
    def forward(self, x, n):
        n = n.item()
        if n > 2:
            x = x + 1
        return torch.ops.demo.twice(x)


with torch.library._scoped_library("demo", "FRAGMENT") as library:
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CPU")
    draft_export(Net(), (torch.ones(4), torch.tensor(3)))
"""
_NOT_KEPT = ("chromium_event", "expression_created")


class Alone(NamedTuple):
    """A program that is recorded without graphdoctor.

    Args:
        source: Its text.
        names: Its recordings, made one after the other with the same cache.
        kinds: Kinds of records that are kept; all if empty.
        left_out: Kinds of records that aren't.
        variable: What names torch's folder for its log.
    """

    source: str
    names: tuple[str, ...]
    kinds: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    variable: str = "TORCH_TRACE"


_ALONE = (
    Alone(_REFUSED, ("refused",), _KEPT_ALONE),
    Alone(_EXPORTED, ("exported",), _KEPT_ALONE),
    Alone(_LOWERED, ("lowered", "lowered_again"), _KEPT),
    Alone(_SIZED, ("lowered_sizes",), left_out=_NOT_KEPT, variable="TORCH_DTRACE"),
    Alone(_DRAFTED, ("lowered_export",), left_out=_NOT_KEPT, variable="TORCH_DTRACE"),
)


def main(pythons: list[str]) -> None:
    for python in pythons:
        version, roots = asked(python)
        for program in _ALONE:
            with tempfile.TemporaryDirectory() as temporary:
                record_alone(python, version, program, Path(temporary), roots)
        for name in NAMES:
            with tempfile.TemporaryDirectory() as temporary:
                record(python, version, name, Path(temporary), roots)


def asked(python: str) -> tuple[str, list[str]]:
    """The version of an interpreter's torch, and the folders of its environment."""
    version, *roots = subprocess.check_output([python, "-c", _ASK], text=True).split()
    return version, roots


def record(python: str, version: str, name: str, temporary: Path, roots: list[str]) -> None:
    """Record one program with one torch, with graphdoctor and without."""
    demo = temporary / "demo"
    demo.mkdir()
    (source,) = re.findall(rf"^## {name}\n\n(.*?\n)(?=\n## |\Z)", PROGRAMS.read_text(), re.M | re.S)
    (demo / f"{name}.py").write_text(source)
    (demo / "bare.py").write_text(_BARE)
    environment = clean_environment() | {"PYTHONPATH": str(REPOSITORY)}
    explain = [
        sys.executable,
        "-m",
        "graphdoctor",
        "explain",
        f"{name}.py",
        "--python",
        python,
        "-q",
    ]
    subprocess.run(explain, cwd=demo, env=environment, check=True, stdout=subprocess.DEVNULL)
    environment["TORCH_TRACE"] = str(temporary / "bare")
    del environment["PYTHONPATH"]
    subprocess.run(
        [python, "bare.py", f"{name}.py"],
        cwd=demo,
        env=environment,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    (ours,) = (folder for folder in (demo / ".graphdoctor").iterdir() if folder.is_dir())

    replacements = {str(ours): "/home/user/demo/.graphdoctor/recording"} | neutral_paths(
        demo, temporary, roots
    )
    save(ours, HERE / version / name, replacements)
    if name in BARE:
        save(temporary / "bare", HERE / version / f"{name}.bare", replacements)


def record_alone(
    python: str, version: str, program: Alone, temporary: Path, roots: list[str]
) -> None:
    """Record one program with torch's own log alone."""
    demo, name = temporary / "demo", program.names[0]
    demo.mkdir()
    (demo / f"{name}.py").write_text(program.source)
    for name_now in program.names:
        environment = clean_environment() | {
            "TORCHINDUCTOR_CACHE_DIR": str(temporary / "cache"),
            program.variable: str(temporary / name_now),
        }
        command = [python, f"{name}.py"]
        nowhere = subprocess.DEVNULL
        subprocess.run(
            command, cwd=demo, env=environment, check=True, stdout=nowhere, stderr=nowhere
        )
        replacements = neutral_paths(demo, temporary, roots)
        save(
            temporary / name_now,
            HERE / version / f"{name_now}.bare",
            replacements,
            program.kinds,
            program.left_out,
        )


def clean_environment() -> dict[str, str]:
    """This process's environment without what torch and graphdoctor read of it."""
    return {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("TORCH", "GRAPHDOCTOR"))
    }


def neutral_paths(demo: Path, temporary: Path, roots: list[str]) -> dict[str, str]:
    """What is replaced, the longest paths first."""
    purelib, stdlib, prefix, base_prefix = roots
    return {
        str(demo): "/home/user/demo",
        str(temporary): "/home/user",
        str(REPOSITORY): "/home/user/graphdoctor",
        purelib: "/home/user/venv/lib/python3.11/site-packages",
        prefix: "/home/user/venv",
        stdlib: "/usr/lib/python3.11",
        base_prefix: "/usr",
        f"{platform.platform(terse=True)} {platform.machine()}": "Linux x86_64",
        str(Path.home()) + "/": "/home/user/",
    }


def save(
    source: Path,
    folder: Path,
    replacements: dict[str, str],
    kinds: tuple[str, ...] = (),
    left_out: tuple[str, ...] = (),
) -> None:
    """Copy a recording with every text of the machine replaced.

    Args:
        source: The recording.
        folder: The copy.
        replacements: What is replaced by what.
        kinds: Kinds of records that are kept; all if empty.
        left_out: Kinds of records that aren't.
    """
    shutil.rmtree(folder, ignore_errors=True)
    for file in sorted(source.rglob("*")):
        if file.is_file() and file.stat().st_size:
            name = re.sub(
                r"(dedicated_log_torch_trace_).*", r"\1recorded.log", str(file.relative_to(source))
            )
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            text = file.read_text(encoding="utf-8")
            for old, new in replacements.items():
                text = text.replace(old, new)
            if name.endswith(".log"):
                text = with_new_sums(text, kinds, left_out)
            (folder / name).write_text(text, encoding="utf-8")


def with_new_sums(log: str, kinds: tuple[str, ...] = (), left_out: tuple[str, ...] = ()) -> str:
    """The log with process ids replaced and ``has_payload`` made anew, without records that aren't
    kept."""
    records: list[tuple[str, list[str]]] = []
    for line in log.split("\n"):
        if line.startswith("\t"):
            records[-1][1].append(line)
        else:
            records.append((line, []))
    lines = []
    for line, payload in records:
        match = _HEADER.match(line)
        if match is None:
            lines += [line, *payload]
            continue
        value = json.loads(match[3])
        own = {*value, value.get("artifact", {}).get("name")}
        if (kinds and not own & {*kinds}) or own & {*left_out}:
            continue
        if "has_payload" in value:
            whole = "\n".join(part[1:] for part in payload)
            value["has_payload"] = hashlib.md5(whole.encode()).hexdigest()
        lines += [f"{match[1]} 4242 {match[2]} {json.dumps(value)}", *payload]
    return "\n".join(lines)


if __name__ == "__main__":
    main(sys.argv[1:])
