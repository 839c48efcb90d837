"""Starts real jobs of several ranks on the loopback, with gloo."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.conftest import clean_environment, run_command

PROGRAMS = Path(__file__).with_name("programs")


def launched(program: str, *arguments: str, ranks: int = 2) -> list[str]:
    """The arguments of ``graphdoctor run`` for a program under ``torch.distributed.run``."""
    rendezvous = ("--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0")
    path = str(PROGRAMS / f"{program}.py")
    return ["-m", "torch.distributed.run", "--nproc-per-node", str(ranks), *rendezvous, path, *arguments]


def job_document(folder: Path, program: str, *arguments: str, ranks: int = 2) -> dict[str, Any]:
    """The JSON document of a job."""
    options = ("run", "--quiet", "--report", "job.json")
    environment = clean_environment(OMP_NUM_THREADS="1")
    command = (*options, *launched(program, *arguments, ranks=ranks))
    done = run_command(*command, cwd=folder, env=environment, timeout=150)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads((folder / "job.json").read_text())
    return document


def found_in(document: dict[str, Any], program: str) -> dict[str, dict[str, Any]]:
    """The findings in a program's file by code."""
    return {
        finding["code"]: finding
        for finding in document["findings"]
        if finding["location"]["file"].endswith(f"/{program}.py")
    }
