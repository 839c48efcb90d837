"""Where a finding is, as people read it."""

from __future__ import annotations

from graphdoctor.facts.reading import plain
from graphdoctor.facts.stack import StackEntry
from tests.each import for_each


@for_each(
    "file, package, shown",
    [
        ("model.py", None, "model.py"),
        ("/x/site-packages/lib/ops/core.py", "lib", "lib/ops/core.py"),
        (r"C:\x\site-packages\lib\ops\core.py", "lib", "lib/ops/core.py"),
        ("/home/me/lib/src/lib/core.py", "lib", "lib/core.py"),
        ("/x/site-packages/lib_single.py", "lib", "/x/site-packages/lib_single.py"),
        ("odd\\name.py", None, "odd\\name.py"),
    ],
)
def test_a_package_s_file_is_shown_from_the_package_on(file, package, shown):
    location = StackEntry(file=file, line=1, function="f", package=package)
    assert location.shown_file == shown
    assert "shown_file" not in plain(location)
