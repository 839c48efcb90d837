"""``--own``: an installed package as the user's own code, and nothing else in its folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import RunCli, clean_environment

pytestmark = pytest.mark.slow

SHOP = """\
import torch


def priced(x):
    print("priced", tuple(x.shape))
    return x * 2
"""
OTHER = """\
import torch


def stored(x):
    torch._dynamo.graph_break()
    return x
"""
TARGET = """\
import other_shop
import torch
from my_shop.prices import priced


def order(x):
    return torch.relu(priced(x)) + other_shop.stored(x)


def example_inputs():
    return (torch.randn(4, 8),)
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Two installed packages ; ``my_shop`` is installed under another name."""
    site = tmp_path / "lib" / "site-packages"
    packages = (
        ("my_shop", "prices.py", SHOP, "Fancy.Shop"),
        ("other_shop", "__init__.py", OTHER, "other"),
    )
    for package, file, text, distribution in packages:
        (site / package).mkdir(parents=True)
        (site / package / "__init__.py").touch()
        (site / package / file).write_text(text)
        metadata = site / f"{distribution}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n"
        )
        (metadata / "top_level.txt").write_text(package)
        (metadata / "RECORD").write_text(f"{package}/{file},,\n")
    (tmp_path / "order.py").write_text(TARGET)
    return site


def with_packages(site: Path) -> dict[str, str]:
    return clean_environment() | {"PYTHONPATH": str(site)}


def test_only_the_named_package_is_edited(site: Path, run_cli: RunCli):
    args = ("fix", "order.py", "--no-timing", "--budget", "600", "--unsafe-fixes", "--apply")
    applied = run_cli(*args, "--own", "my_shop", env=with_packages(site), status=0)
    prices = (site / "my_shop" / "prices.py").read_text()
    assert "@torch.library.custom_op(" in prices, applied.stderr
    assert 'print("priced"' in prices
    assert "is_compiling" not in prices
    assert (site / "other_shop" / "__init__.py").read_text() == OTHER
    assert (site.parent.parent / "order.py").read_text() == TARGET


def test_a_package_is_named_as_it_is_installed(site: Path, run_cli: RunCli):
    explained = run_cli(
        "explain", "order.py", "--own", "fancy-shop", "--format", "json", env=with_packages(site)
    )
    document = json.loads(explained.stdout)
    owners = {
        Path(found["location"]["file"]).parent.name: found["location"]
        for found in document["findings"]
    }
    assert owners["my_shop"]["origin"] == "user"
    assert (owners["other_shop"]["origin"], owners["other_shop"]["package"]) == (
        "third_party",
        "other_shop",
    )
    assert document["recording"]["environment"]["own_packages"] == ["my_shop"]


def test_an_unknown_package_is_refused(site: Path, run_cli: RunCli):
    process = run_cli("fix", "order.py", "--own", "my_shpo", env=with_packages(site))
    assert process.returncode == 2
    assert "--own my_shpo: there is no installed package of this name." in process.stderr


def test_a_script_s_own_packages_are_named_too(site: Path, run_cli: RunCli):
    script = site.parent.parent / "script.py"
    script.write_text(
        f"{TARGET}\nimport torch\n\ntorch.compile(order, backend='eager')(torch.randn(4, 8))\n"
    )
    run_cli(
        "run",
        "--own",
        "fancy-shop",
        "--report",
        "run.json",
        "script.py",
        env=with_packages(site),
        status=0,
    )
    document = json.loads((script.parent / "run.json").read_text())
    assert document["recording"]["environment"]["own_packages"] == ["my_shop"]
