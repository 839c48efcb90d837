"""Programs as people write them, and worse: whatever recipes care about, in every spelling that
Python takes."""

from __future__ import annotations

import codecs
from dataclasses import dataclass

from hypothesis import strategies as st

SIMPLE = (
    "pass",
    "print(x)",
    "print ( x,y ,sep = '' )",
    "print(f'{x.sum():.3f} {x!r} {{}} WORD')",
    "print(x) if verbose else None",
    "print((y := x + 1))",
    "logger.info('WORD %s', x)",
    "log.isEnabledFor(10)",
    "logging.getLogger(__name__).warning('WORD')",
    "warnings.warn('WORD')",
    "y = x.sum().item()",
    "y=float(x.max())*2",
    "n = int(x[0]) + int( y )",
    "total += x.item() * 2",
    "y = x.item() if x.numel() == 1 else x.mean().item()",
    "y = x.tolist()[0]",
    "y = bool(x.any())",
    "x[mask] = 0.0",
    "x[x > 0] = y",
    "x[x > 0] += 1",
    "y = x[mask]",
    "idx = torch.nonzero(mask)",
    "a, = mask.nonzero(as_tuple=True)",
    "h = F.one_hot(idx)",
    "h = torch.nn.functional.one_hot(x.long(), )",
    "z = copy.deepcopy(x)",
    "z = deepcopy(self.layer)(x)",
    "torch._dynamo.graph_break()",
    "torch._dynamo.graph_break(msg='WORD')",
    "assert x.sum() > 0",
    "assert x.sum() > 0, f'WORD {x}'",
    "assert (y := x.sum()) > 0 and not x.isnan().any()",
    "raise ValueError('WORD')",
    "raise ValueError from None",
    "return",
    "return x",
    "return x if x.sum() > 0 else -x",
    "return (x if x.sum() > 0 else y if y else -x)",
    "self.step = 0",
    "self.step += 1",
    "self.a = self.b = x",
    "global counter; counter = 1",
    "y = x.numpy() + 1",
    "y = np.exp(x.detach().cpu().numpy())",
    "t = time.time()",
    "t = time.perf_counter() - t0; r = random.random()",
    "y = torch.tensor(scale)",
    "y = x.view(n, -1)",
    "y = x.t().contiguous().view(-1)",
    "loss.backward()",
    "y: int = 3",
    "y: 'torch.Tensor | None'",
    "a, *b = x.shape",
    "y = lambda q: print(q)",
    "y = [f(q) for q in x if q.sum() > 0]",
    "y = {**k, 'WORD': x.item()}",
    "y = x.sum() > 0 and x or -x",
    "y = x if x.sum() > 0 else -x",
    "while_ = not x",
    "self.hook = x.register_hook(print)",
    "torch.manual_seed(0)",
    "break_ = torch.where(x > 0, x, y)",
    "yield x",
    "import os",
    "del y",
)
"""Statements of one line. ``WORD`` becomes a word that the file's encoding has and ASCII has
not."""

LONG = (
    "print(\n    x,  # which\n    y,\n)",
    "y = x + \\\n    1",
    "y = '''\nWORD\n  # no comment\n'''",
    "y = (\n    x.sum()\n    # why\n    .item()\n)",
    "x[\n    mask\n] = 0",
    "assert x.sum() > 0, (\n    'a'\n    'b'  # two\n)",
    "if x.sum() > 0:\n    y = x\nelse:\n    y = -x",
    "if x.sum() > 0:  # why\n    y = x\n    z = 1\n# or\nelse:  # not\n    y = -x\n    z = 2",
    "if x.sum() > 0:\n    return x\nreturn -x",
    "if x.sum() > 0:\n    return x  # yes\nelse:\n    return -x",
    "if x.min() < 0:\n    raise ValueError(f'WORD {x}')",
    "if x.sum() > 0:\n    x = x * 2",
    "if x.sum() > 0: x = x * 2",
    "if x.sum() > 0: x = x * 2; y = 3;  # both",
    "if verbose: print(x)",
    "if verbose or x.any(): print(x)  # says",
    "if not verbose : pass\nelif y: print(x)\nelse: print(y)",
    "for i in range(3): print(i)",
    "while x.sum() > 0: x = x - 1",
    "with torch.no_grad(): y = x.item()",
    "with torch.inference_mode():\n    y = self.layer(x)",
    "with self.lock:  # mine\n    self.n += 1\n    y = x + self.n\n    # end\nz = y * 2",
    "with self.lock, torch.no_grad(): self.n += 1; y = x.item()",
    "def inner(y): return y.item()",
    "@torch.compiler.disable\ndef inner(y, *, z: float = 1.0) -> 'x':\n    print(y)\n    return y",
    "@torch.no_grad()\n@decorate(\n    1,  # one\n)\ndef inner(y): print(y)",
    "class Local: a = print(1)",
    "match x:\n    case [a, b] if a: print(a)\n    case {'k': v}:\n        v = x.item()\n    case _: pass",
    "for i, (a, b) in enumerate(x):\n    y = a.item()\n    if y: break\nelse:\n    y = 0",
    "for e in self.layers:\n    x = e(x)\n    print(x.mean())\n    if x.sum() > 0:\n        continue",
    "try:\n    y = x.item()\nexcept (A, B) as e:\n    print(e)\nelse:\n    pass\nfinally:\n    print('WORD')",
)
"""Statements of several lines."""

BLOCKS = (
    ("if x.sum() > 0:",),
    ("if x.sum() > 0:", "else:"),
    ("if(x.any()):", "elif y is None :", "else :"),
    ("for i in range( 3 ):",),
    ("while not x.any():", "else:"),
    ("with torch.no_grad():",),
    ("with open(p) as f, torch.autocast('cpu'):",),
    ("try:", "except Exception:"),
    ("try:", "finally:"),
    ("def inner(self, y=lambda: 0):",),
    ("async def inner():",),
)
"""Headers whose bodies are drawn."""

FUNCTIONS = (
    "def forward(x, mask, *, verbose=False):",
    "async def forward(x: torch.Tensor, mask=None) -> torch.Tensor:  # types",
    "@torch.compile\ndef forward(x):",
    "@decorate(lambda x: x.item())\n# between\n@torch.no_grad()\ndef forward(x,\n        mask,  # which\n        ):",
    "@torch.inference_mode()\ndef forward(x, /, y=(1,\n2)) :",
)
METHODS = (
    "def forward(self, x):",
    "@torch.compiler.disable(recursive=False)\ndef forward(self, x):",
    "@staticmethod\ndef forward(x):",
    "@property\ndef forward(self):",
)
ALONE = (
    "f = lambda x: (print(x), x.item())[1]",
    "def f(x): print(x); return x.item()",
    "def f(x): return x if x.sum() > 0 else -x  # short",
    "class Empty: step = 0",
    "if __name__ == '__main__': print(forward(1))",
    "x = 1",
)
"""Statements of a module that are what they are."""

IMPORTS = (
    "import torch",
    "import torch.nn as nn",
    "import torch as t",
    "from torch import nn  # layers",
    "from torch import (\n    nn,\n    Tensor,\n)",
    "import os; import copy",
    "try:\n    import numpy as np\nexcept ImportError:\n    np = None",
    "import logging, warnings",
)


@dataclass(frozen=True)
class Spelling:
    """A way to write a file.

    Args:
        encoding: Its encoding.
        word: Letters that it has.
        head: Its first bytes.
    """

    encoding: str
    word: str
    head: bytes = b""


SPELLINGS = (
    Spelling("utf-8", "ワé"),
    Spelling("utf-8", "ワé", b"#!/usr/bin/env python\n# -*- coding: utf-8 -*-\n"),
    Spelling("utf-8", "ワé", codecs.BOM_UTF8),
    Spelling("utf-8", "ワé", codecs.BOM_UTF8 + b"# vim: set fileencoding=utf-8 :\n"),
    Spelling("latin-1", "éß", b"# -*- coding: latin-1 -*-\n"),
    Spelling("cp1252", "€é", b"# Words.\n# coding=cp1252\n"),
    # The second byte of this letter is a backslash.
    Spelling("shift_jis", "ソ", b"# coding: shift_jis\n"),
    Spelling("ascii", "e", b"# coding: ascii\n"),
)


def _indented(lines: list[str]) -> list[str]:
    return [f"\t{line}" if line else line for line in lines]


@st.composite
def _statement(draw: st.DrawFn, depth: int) -> list[str]:
    kind = draw(st.integers(0, 7))
    if kind <= 2:
        lines = [draw(st.sampled_from(SIMPLE))]
    elif kind == 3:
        joined = draw(st.sampled_from(["; ", ";", " ;  "])).join(
            draw(st.lists(st.sampled_from(SIMPLE), min_size=1, max_size=3))
        )
        lines = [joined + draw(st.sampled_from(["", ";", " ; "]))]
    elif kind <= 6 or depth == 0:
        lines = draw(st.sampled_from(LONG)).replace("    ", "\t").split("\n")
    else:
        lines = []
        for header in draw(st.sampled_from(BLOCKS)):
            lines += [header, *_indented(draw(_body(depth - 1)))]
    above = draw(st.sampled_from(["", "", "", "# Why WORD.", "\n", "\n# Words.\n"]))
    behind = draw(st.sampled_from(["", "", "", "  # here", "# WORD", "  ", " #: x"]))
    return [*(above.split("\n") if above else []), *lines[:-1], lines[-1] + behind]


@st.composite
def _body(draw: st.DrawFn, depth: int) -> list[str]:
    body = draw(st.lists(_statement(depth), min_size=1, max_size=4))
    words = draw(st.sampled_from([[], [], ['"""Words."""'], ["# first"]]))
    return [
        *words,
        *(line for lines in body for line in lines),
        *draw(st.sampled_from([[], [], ["# last"], [""]])),
    ]


@st.composite
def _top(draw: st.DrawFn) -> list[str]:
    kind = draw(st.integers(0, 5))
    if kind == 0:
        return [draw(st.sampled_from(ALONE))]
    if kind == 1:
        return draw(_statement(1))
    if kind <= 3:
        header = draw(st.sampled_from(FUNCTIONS)).split("\n")
        return [*header, *_indented(draw(_body(2)))]
    header = draw(st.sampled_from(METHODS)).split("\n")
    method = [*header, *_indented(draw(_body(2)))]
    return [
        draw(st.sampled_from(["class Net(nn.Module):", "@dataclass\nclass Net:  # net"])),
        *_indented(method),
    ]


@st.composite
def programs(draw: st.DrawFn) -> bytes:
    """Files that Python parses."""
    spelling = draw(st.sampled_from(SPELLINGS))
    lines = draw(st.sampled_from([[], [], ['"""Words."""', ""], ["# Words.", ""], ["'WORD'"]]))[:]
    lines += draw(st.sampled_from([[], [], ["from __future__ import annotations"]]))
    lines += draw(st.lists(st.sampled_from(IMPORTS), max_size=2, unique=True))
    for top in draw(st.lists(_top(), min_size=1, max_size=3)):
        lines += [*draw(st.sampled_from([[], ["", ""], ["\x0c"], ["# Above.", ""]])), *top]
    lines += draw(st.sampled_from([[], [], ["# End."], ["", ""], ["import time"]]))
    text = "\n".join(lines).replace("WORD", spelling.word)
    text = text.replace("\t", draw(st.sampled_from(["    ", "    ", "\t", "  "])))
    text += draw(st.sampled_from(["\n", "\n", ""]))
    content = spelling.head + text.encode(spelling.encoding)
    # Not CR alone: libcst does not write it back, and then SourceFile says so.
    newline = draw(st.sampled_from([b"\n", b"\n", b"\n", b"\r\n", b"\r\n", b"mixed"]))
    if newline == b"mixed":
        parts = content.split(b"\n")
        return parts[0] + b"".join(
            (b"\n", b"\r\n", b"\r\n")[n % 3] + part for n, part in enumerate(parts[1:])
        )
    return content.replace(b"\n", newline)
