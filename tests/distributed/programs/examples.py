"""Runs the given files one after the other in one process, as a job of one rank."""

import sys
from pathlib import Path

import torch

for name in sys.argv[1:]:
    torch._dynamo.reset()
    kept = torch._dynamo.config.save_config()
    exec(compile(Path(name).read_text(), name, "exec"), {"__name__": "__main__"})
    torch._dynamo.config.load_config(kept)
torch.distributed.destroy_process_group()
