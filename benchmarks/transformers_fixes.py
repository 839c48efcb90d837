"""What ``fix --own transformers`` does to small models of transformers that break on this torch.

``merged/transformers_sites.json`` has the architectures of the compiler team's list and where plain
torch breaks in each, by mode; ``python -m benchmarks.transformers_fixes`` writes it anew.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks import merged_fixes
from benchmarks.overhead import graphdoctor
from benchmarks.rows import Row, Share
from graphdoctor.facts.catalog import Refusal
from graphdoctor.trials.launch.catalog import write_program
from graphdoctor.trials.launch.child import Setup

_TABLE = Path(__file__).resolve().parent / "merged" / "transformers_sites.json"
_MODELS = "transformers_models"
_PACKAGES = ("transformers==5.4.0", "huggingface_hub==1.8.0")
"""Later hubs reject configurations of this release."""

_MODES = ("eval", "train")
_BUDGET_S = 60


def measure(*, is_quick: bool, folder: Path) -> list[Row | Share]:
    """Fix a copy of the package for each model and mode that breaks.

    Args:
        is_quick: One model in one mode.
        folder: Where the environment and copies are made.
    """
    python, package = _environment(folder)
    sites: dict[str, dict[str, list[str]]] = json.loads(_TABLE.read_text())["sites"]
    breaking = [(name, mode) for name in sites for mode in _MODES if sites[name].get(mode)]
    rows: list[Row | Share] = []
    removed, count, is_clean = 0, 0, {name: True for name, _ in breaking}
    for name, mode in breaking[:1] if is_quick else breaking:
        _choose(python, name, mode, folder)
        copied = folder / f"{name}-{mode}" / "site-packages" / "transformers"
        # An edited file replaces the link to it.
        shutil.copytree(package, copied, copy_function=os.link)
        before, given = merged_fixes._sites(python, _MODELS, copied), _digests(python, copied)
        fixed = _fix(python, copied)
        left = merged_fixes._sites(python, _MODELS, copied)
        fixed["changed"] = merged_fixes._changes(package, copied)
        fixed["is_same"] = _digests(python, copied) == given
        details = {key: [json.dumps(value)] for key, value in fixed.items()}
        details["left"] = [", ".join(site) for site in sorted(left)]
        gone = len(before - left) if fixed["is_same"] else 0
        removed, count = removed + gone, count + len(before)
        is_clean[name] &= not left and fixed["is_same"]
        what = f"{name}, {mode}: sites that fix removes"
        rows.append(Share(what, f"{fixed['took_s']} s", gone, len(before), 0.75, details))
    rows.append(Share("sites of transformers that fix removes", "", removed, count, 0.75))
    clean = sum(is_clean.values())
    rows.append(Share("models that end without a break", "", clean, len(is_clean), 0.7))
    return rows


def _environment(folder: Path) -> tuple[Path, Path]:
    """The interpreter of an environment with the release, and the package there."""
    python = merged_fixes._environment(folder / "transformers", *_PACKAGES)
    return python, merged_fixes._package(python, "transformers")


def _choose(python: Path, name: str, mode: str, folder: Path) -> None:
    """Have a model's program written, and name it to ``merged/transformers_models.py``."""
    found = write_program("transformers", name, folder / "programs", Setup(python=str(python)))
    if isinstance(found, Refusal):
        raise RuntimeError(f"{name} can't be built: {found.message}")
    os.environ.update(TRANSFORMERS_PROGRAM=found.path, TRANSFORMERS_MODE=mode)


def _fix(python: Path, copied: Path) -> dict[str, Any]:
    program = shutil.copy(_TABLE.with_name(f"{_MODELS}.py"), copied.parent.parent)
    document = copied.parent.parent / "fix.json"
    options = ("--own", "transformers", "--unsafe-fixes", "--apply", "--force", "--no-timing")
    limits = ("--budget", str(_BUDGET_S), "--python", str(python), "-o", str(document))
    started = time.perf_counter()
    command = [*graphdoctor(), "fix", f"{program}:build()", *options, *limits]
    merged_fixes._run(command, copied.parent, ok=(0, 1))
    took_s = round(time.perf_counter() - started)
    treatment = json.loads(document.read_text())["recording"]["treatment"] or {}
    return {"took_s": took_s, "grades": treatment.get("sites")}


def _digests(python: Path, copied: Path) -> str:
    return merged_fixes._run([python, _TABLE.with_name(f"{_MODELS}.py")], copied.parent)


def write_table() -> None:
    """Write where plain torch breaks in each model of the table."""
    table = json.loads(_TABLE.read_text())
    with tempfile.TemporaryDirectory(prefix="graphdoctor-benchmarks-") as name:
        folder = Path(name)
        python, package = _environment(folder)
        for model in table["sites"]:
            for mode in _MODES:
                _choose(python, model, mode, folder)
                sites = merged_fixes._sites(python, _MODELS, package)
                table["sites"][model][mode] = [", ".join(site) for site in sorted(sites)]
    table["versions"] = [f"torch=={version('torch')}", *_PACKAGES]
    _TABLE.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    write_table()
