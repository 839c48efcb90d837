"""Runs programs of this folder one after the other in the same ranks: starting them takes most of a
job's time."""

import runpy
import sys
from pathlib import Path

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
for name in sys.argv[1:]:
    torch._dynamo.reset()
    runpy.run_path(str(Path(__file__).with_name(f"{name}.py")))
    dist.barrier()  # a rank that leaves while another still sends would end it
dist.destroy_process_group()
