"""Names of the files in a recording's folder.

Imports nothing: a program that ``graphdoctor run`` records waits for this module at its start.
Everybody else takes the names from ``wire``.
"""

from __future__ import annotations

REQUEST_FILE = "request.json"
CATALOG_REQUEST_FILE = "catalog.json"
"""A request for a library's architectures; ``REQUEST_FILE`` is one for a run."""
META_FILE = "recording.json"
LOCK_FILE = "recording.lock"
"""Locked by every process that makes the recording."""
EVENTS_FILE = "probe.jsonl"
CRASH_FILE = "crash.txt"
WHAT_IF_FILE = "what-if.json"
FIXES_FILE = "fixes.json"
DECLINED_FILE = "declined.json"
ATTACKS_FILE = "attacks.json"
"""What the unmodified program's attack inputs reach, in the folder of its replay."""
ACCURACY_FILE = "accuracy.json"
BENCH_FILE = "bench.json"
CURE_FILE = "cure.json"
PROFILE_FILE = "profile.json"
EXPORT_FILE = "export.json"
KEPT_FILE = "kept.txt"
"""The name that somebody gave a recording."""
READS_FILE = "reads.json"
TRACE_FOLDER = "trace"
OWN_VARIABLE = "_GRAPHDOCTOR_OWN"
"""An environment variable: installed packages that are the user's own, with spaces between them."""
TIMEOUT_VARIABLE = "_GRAPHDOCTOR_TIMEOUT"
"""An environment variable: the seconds after which a script is stopped."""
WATCH_VARIABLE = "GRAPHDOCTOR_WATCH"
"""An environment variable, which people set, too: the sinks of a watch, with commas between them;
``1`` for ``console``."""
