"""What graphdoctor says of programs under several torches, against what each torch logs of them
without it.

    python -m benchmarks.torches PYTHON [PYTHON ...] [--program NAME ...] [--json FILE]

``PYTHON`` is an interpreter with torch and numpy; graphdoctor isn't installed there. By default the
programs are those of ``fix`` and the sample models, but for those that need other packages. Of
each, the lines of breaks and the counts are compared; the exit status is 1 if any differ.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conftest import REPOSITORY, clean_environment, command_line
from tests.truth.compare import BareRunner, Site, counts_of, sites_of

FOLDERS = (REPOSITORY / "tests" / "fixes" / "programs", REPOSITORY / "sample_models")
_OTHER_PACKAGES = re.compile(
    r"^ *(?:from|import) (?:tqdm|transformers|torch_geometric|torchvision)\b", re.MULTILINE
)
_COUNTS = ("graphs", "compiles", "recompiles")


@dataclass(frozen=True)
class Compared:
    """One program under one torch.

    ``sites``: lines of breaks as torch printed them. ``differing``: what differs, torch's before
    ours.
    """

    program: str
    torch: str
    sites: tuple[int, ...]
    counts: dict[str, int]
    differing: dict[str, tuple[Any, Any]]

    @property
    def text(self) -> str:
        """Breaks, graphs, compiles, recompiles; marked if anything differs."""
        numbers = (len(self.sites), *(self.counts[name] for name in _COUNTS))
        return " ".join(map(str, numbers)) + (" !" if self.differing else "")


def programs(names: Sequence[str] = ()) -> list[Path]:
    """The programs with these names, or all that need only torch and numpy."""
    found = [path for folder in FOLDERS for path in sorted(folder.glob("*.py"))]
    if names:
        return [path for path in found if path.stem in names]
    return [path for path in found if not _OTHER_PACKAGES.search(path.read_text(encoding="utf-8"))]


def compared(python: str, paths: Sequence[Path]) -> Iterator[Compared]:
    """The programs under the torch of an interpreter."""
    version = "import torch; print(torch.__version__)"
    torch = subprocess.run(
        [python, "-c", version], capture_output=True, text=True, check=True
    ).stdout.strip()
    runner = BareRunner(clean_environment(), python)
    try:
        for path in paths:
            with tempfile.TemporaryDirectory() as folder:
                yield _compared(runner, python, path, torch, Path(folder))
    finally:
        runner.close()


def _compared(runner: BareRunner, python: str, path: Path, torch: str, folder: Path) -> Compared:
    (folder / "bare").mkdir()
    bare = runner.run(path, folder / "bare")
    ended = subprocess.run(
        command_line(
            "explain", path, "--python", python, "--no-coverage", "-q", "--format", "json"
        ),
        cwd=folder,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    document = json.loads(ended.stdout) if ended.stdout else None
    theirs: dict[str, Any] = {**bare.counts, "sites": _told(bare.sites), "error": bare.error}
    if document is None:
        ours: dict[str, Any] = dict.fromkeys(theirs, ended.stderr.strip().splitlines()[-1])
    else:
        ours = {
            **counts_of(document),
            "sites": _told(sites_of(document, folder)),
            "error": _error_of(document),
        }
    return Compared(
        path.stem,
        torch,
        tuple(sorted(line for file, line in bare.sites if file == str(path))),
        bare.counts,
        {name: (theirs[name], ours[name]) for name in theirs if theirs[name] != ours[name]},
    )


def _told(sites: set[Site]) -> list[str]:
    return sorted(f"{Path(file).name}:{line}" for file, line in sites)


def _error_of(document: dict[str, Any]) -> str | None:
    errors = [call["error"]["type"] for call in document["recording"]["calls"] if call["error"]]
    return errors[-1].rpartition(".")[2] if errors else None


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.torches", description=__doc__.splitlines()[0]
    )
    parser.add_argument("pythons", nargs="+", metavar="PYTHON")
    parser.add_argument("--program", action="append", default=[], metavar="NAME", help="repeatable")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write all that differs to a file"
    )
    options = parser.parse_args()
    paths, rows = programs(options.program), list[Compared]()
    for python in options.pythons:
        for row in compared(python, paths):
            rows.append(row)
            print(
                f"{row.torch} {row.program}: {row.text} {row.differing or ''}",
                file=sys.stderr,
                flush=True,
            )
    torches = list(dict.fromkeys(row.torch for row in rows))
    print(
        "Graph breaks, graphs, compiles and recompiles as torch logs them; ! where graphdoctor"
        " differs.\n"
    )
    print("| program | " + " | ".join(torches) + " |\n|---|" + "---|" * len(torches))
    for path in paths:
        print(
            f"| {path.stem} | "
            + " | ".join(row.text for row in rows if row.program == path.stem)
            + " |"
        )
    for torch in torches:
        of_torch = [row for row in rows if row.torch == torch]
        print(
            f"\ntorch {torch}: {sum(not row.differing for row in of_torch)} of {len(of_torch)}"
            " programs agree"
        )
    if options.json:
        options.json.write_text(json.dumps([vars(row) for row in rows], indent=1), encoding="utf-8")
    sys.exit(any(row.differing for row in rows))


if __name__ == "__main__":
    main()
