"""Gaps of a recording: a page for each kind of gap, GD900 to GD907."""

from __future__ import annotations

from graphdoctor.rules.toolkit import GapPage


class NotMeasured(GapPage, code="GD900", severity="info"):
    """Something was not recorded or not measured.

    ## What it means
    graphdoctor tried to record or measure something and couldn't, and the message says what and
    why. Examples: the last call raised when it was repeated to measure coverage; the run ended
    early; this version of torch lacks a function that the recorder needs; a script called a
    function only once, so it has no steady call.

    ## Why it matters
    The numbers that depend on it are missing: they are `null` in the JSON document and marked as
    unknown in other reports, never 0. All other numbers and findings are valid.

    ## What to do
    Nothing, if you don't need that number. Otherwise remove the cause that the message names: make
    calls that can be repeated, give the run more time with `--timeout`, or use a torch version that
    graphdoctor supports.
    """


class IncompleteLog(GapPage, code="GD902"):
    """Part of the trace log is missing or can't be read.

    ## What it means
    The process ended while torch was writing or compiling, another program changed the log, a
    compressed log or a connection ends too early, the program itself took torch's trace logger
    apart, or this torch version writes records that graphdoctor can't read yet. The records that
    could be read are in the report.

    A log without its beginning was rotated, or copied while it was written (`tail -f`). It shows:
    it begins in the middle of a record, uses file names that it doesn't define, ends compiles that
    it doesn't start, or has `0/1` without `0/0`. The log of a process that was forked after its
    parent had compiled something looks the same.

    ## Why it matters
    Every count can be too low, and findings can be missing. `graphdoctor check` therefore reports
    such a target as crashed.

    ## What to do
    If the run was killed or timed out, record it again with more time (`--timeout`) or fewer calls.
    If the log was copied, copy it again after the process has ended. If it was rotated, put the
    parts together in one file, the oldest first. If a backend, or anything else that torch runs
    while it compiles, changes the logger `torch.__trace`, leave that out. If none of this applies,
    the torch version is probably newer than this graphdoctor: upgrade graphdoctor, or report the
    problem with `graphdoctor bundle`.
    """


class PrefixedCompileIds(GapPage, code="GD903", severity="info"):
    """Compile ids have a prefix because torch used the same ones more than once.

    ## What it means
    Several processes compiled, or the program called `torch.compiler.reset()`, and each time torch
    numbered its compiles from `0/0` again. graphdoctor tells them apart with a prefix, such as
    `p2:0/0` or `reset1:0/0`. Ranks of a job are not added up: `graphdoctor report` puts them side
    by side.

    ## Why it matters
    Counts are sums over all processes, and code that is compiled again after a reset is not a
    recompile.

    ## What to do
    Nothing: this only explains the ids. To look at one process, read its own log with `graphdoctor
        report`.
    """


class ForeignLog(GapPage, code="GD904", severity="info"):
    """graphdoctor didn't record this trace log.

    ## What it means
    The log was written with `TORCH_TRACE`, without graphdoctor's recorder. It has torch's own
    records: graphs, graph breaks, guards and compile times.

    An older torch writes less: what its log lacks is named. Before 2.6, torch didn't write graph
    breaks: they are placed where it resumed, and the lines in called functions are unknown.

    ## Why it matters
    torch doesn't log calls, coverage, steady-state times or columns, so those are unknown. Its
    stacks can lack lines, and a recompile names only the first guard that failed for each cache
    entry. The qualified names of functions are missing too, so fingerprints differ from those of a
    graphdoctor recording.

    ## What to do
    To find out more, run the program with `graphdoctor run SCRIPT` or `graphdoctor explain TARGET`.
    If you can't run it, compare such a log only with other logs of the same kind.
    """


class NothingCompiled(GapPage, code="GD905"):
    """torch compiled nothing.

    ## What it means
    The script or block ran, but torch started no compile. The message says what is known: torch was
    not imported, `torch.compile` was not called, its result was not called, it was disabled, or
    everything had been compiled before.

    A trace log that graphdoctor didn't record can be one of `torch.export` or AOTInductor, which
    write to it without compiling through Dynamo. The message says what such a log has.

    ## Why it matters
    A report without findings doesn't mean that the program compiles well here: there was nothing to
    look at.

    ## What to do
    Make sure that the program calls what `torch.compile` returned, and that neither
    `TORCH_COMPILE_DISABLE` nor `torch.compiler.set_stance("force_eager")` is in effect. In a block,
    `graphdoctor.record(reset=True)` compiles everything again. What an export's log has is in
    `graphdoctor unpack LOG -o DIR`, and `graphdoctor export TARGET` finds out whether a target can
    be exported.
    """


class RankUnread(GapPage, code="GD907"):
    """A rank of the job couldn't be read, so the report is of the others alone.

    ## What it means
    Each rank is read by itself, in a process or on a node of a cluster. This one failed for good:
    its log can't be read, or the process that read it ended, also when it was tried again. The
    message says which.

    ## Why it matters
    Ranks that agree may differ from the one that is missing.

    ## What to do
    Read that rank alone to see what is wrong with it: `graphdoctor report FOLDER --rank N`. If
    memory ran out, ask for fewer jobs at a time: `--jobs 1`.
    """
