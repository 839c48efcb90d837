"""Redacts ``probe.jsonl`` and ``recording.json``. Comes in: their JSON. Goes out: what the tables let through."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, get_args

from graphdoctor.facts.base import InvalidFactError, field_types
from graphdoctor.facts.hints import HintCode
from graphdoctor.facts.kernels import KernelKind, ProfilePhase
from graphdoctor.facts.reading import plain, read_fact
from graphdoctor.facts.recording import GapKind, SwitchKind, TargetInfo
from graphdoctor.facts.run import CallPhase, Phase
from graphdoctor.studies.bundle.redact import public
from graphdoctor.studies.bundle.redact.public import SITE, STDLIB, Public
from graphdoctor.studies.bundle.redact.records import error_table
from graphdoctor.studies.bundle.redact.shapes import Table, let_through, number, one_of, text
from graphdoctor.studies.bundle.redact.targets import redacted_target
from graphdoctor.studies.bundle.redact.vocabulary import LEFT_OUT
from graphdoctor.trace.inductor_runtime import plain_reason

_REASONS = ("finished", "error", "exited", "timeout", "killed", "interrupted")


def redacted_events(events: Iterable[Mapping[str, Any]], shown: Public) -> Iterator[dict[str, Any]]:
    """Redact the probe's events. Kinds without a table are left out.

    Args:
        events: The lines of ``probe.jsonl``.
        shown: Reads values.
    """
    tables = _tables(shown)
    for event in events:
        kind = event.get("event")
        if kind == "target":
            # What it doesn't say is in recording.json.
            yield {key: value for key, value in {**_target(event, shown), "event": kind}.items() if key in event}
        elif kind == "environment":
            environment = let_through(event, tables["environment"])
            roots = {"torch_root": f"{SITE}/torch", "stdlib_root": STDLIB, "site_roots": [SITE]}
            yield {"event": "environment", **environment, **roots}
        elif isinstance(kind, str) and kind in tables:
            yield {"event": kind, **let_through(event, tables[kind])}


def redacted_meta(meta: Mapping[str, Any], shown: Public) -> dict[str, Any]:
    """Redact ``recording.json``.

    Args:
        meta: Its content.
        shown: Reads values.
    """
    ended: Table = {
        "status": number,
        "phase": text(public.phase),
        "reason": one_of(*_REASONS),
        "hint_code": one_of(*get_args(HintCode)),
        "hint_values": public.hint_values,
        "error_type": text(shown.exception),
        "traceback": text(shown.traceback),
        "duration_s": number,
        "peak_memory_bytes": number,
    }
    target = _target(meta.get("target") or {}, shown)
    # What the target turned out to be is in its event.
    names = ("text", "kind", "file", "compile_arguments", "is_regional", "config", "call_options")
    asked = {key: target[key] for key in names}
    return {"format": meta.get("format"), "target": asked, "exit": let_through(meta.get("exit"), ended)}


def _target(fields: Mapping[str, Any], shown: Public) -> dict[str, Any]:
    known = {key: value for key, value in fields.items() if key in field_types(TargetInfo)}
    try:
        return plain(redacted_target(read_fact(TargetInfo, known), shown))
    except InvalidFactError:
        return plain(TargetInfo())


def _tables(shown: Public) -> Mapping[str, Table]:
    error = error_table(shown)
    skip: Table = {"reason": text(_skip_reason), "compile_id": text(public.compile_id)}
    graph_input: Table = {"placeholder": text(public.placeholder), "shape": [number], "bytes": number}
    entry: Table = {
        "compile_id": text(public.compile_id),
        "search_us": number,
        "search_low_us": number,
        "search_high_us": number,
        "check_us": number,
        "check_low_us": number,
        "check_high_us": number,
        "bill": [{"source": text(shown.expression), "check_us": number}],
        "unbilled_count": number,
        "runs": number,
    }
    return {
        "process": {"pid": number},
        "phase": {"phase": text(public.phase), "kind": one_of(*get_args(Phase), *get_args(CallPhase), "variation")},
        "environment": {
            "python": text(public.version),
            "torch": text(public.version),
            "torch_build": text(public.build),
            "platform": text(public.platform),
            "device_name": text(public.device_name),
            "packages": _packages,
        },
        "batch": {"tensors": [{"expression": text(shown.expression), "path": lambda _path: LEFT_OUT}]},
        "compile_switch": {"kind": one_of(*get_args(SwitchKind)), "value": text(public.switch), "call": number},
        "gap": {"kind": one_of(*get_args(GapKind)), "message": lambda _message: LEFT_OUT},
        "config": {"values": _config},
        "settling": {"compiles": [number], "is_over_limit": number},
        "coverage": {
            "graph_ops": number,
            "eager_ops": number,
            "extra_calls": number,
            "extra_compiles": number,
            "eager_op_names": lambda names: _operations(names, shown),
        },
        "steady_call": {"call_us": number, "runs": [{"graph": number, "start_us": number, "end_us": number}]},
        "guard_cost": {
            "call_us": number,
            "call_low_us": number,
            "call_high_us": number,
            "call_count": number,
            "searches_us": number,
            "searches_low_us": number,
            "searches_high_us": number,
            "profiler_us": number,
            "entries": [entry],
            "is_complete": number,
        },
        "lane": {
            "call": number,
            "duration_us": number,
            "is_profiled": number,
            "segments": lambda rows: [_segment(row, shown) for row in rows],
            "hidden": number,
        },
        "kernels": {
            "device": one_of("cpu", "cuda"),
            "call_us": number,
            "unprofiled_us": number,
            "library_us": number,
            "communication_us": number,
            "generated_us": number,
            "copy_us": number,
            "graph_input_copy_us": number,
            "launches": number,
            "graph_launches": number,
            "region_runs": number,
            "region_us": number,
            "outside_us": number,
            "largest": [
                {
                    "name": text(shown.operation),
                    "kind": one_of(*get_args(KernelKind)),
                    "us": number,
                    "count": number,
                }
            ],
        },
        "float32_precision": {"matmul_tf32": number, "convolution_tf32": number, "capabilities": [[number]]},
        "memory": {
            "peak_of": one_of("allocator", "process"),
            "before_bytes": number,
            "peak_bytes": number,
            "saved_bytes": number,
            "eager_saved_bytes": number,
        },
        "cuda_graphs": {
            "has_device": number,
            "captured": number,
            "skipped": [skip],
            "left_out": [skip],
            "partitions": [{"compile_id": text(public.compile_id), "count": number, "recordable": number}],
            "functions": [
                {
                    "compile_id": text(public.compile_id),
                    "phase": one_of(*get_args(ProfilePhase)),
                    "name": text(public.partition),
                    "sizes": number,
                    "recordings": number,
                    "rerecordings": number,
                    "copied": [graph_input],
                    "moved": [graph_input],
                    "mutated": [text(public.placeholder)],
                }
            ],
        },
        "call_failed": {"index": number, **error, "dtype": text(public.dtype), "batch": number},
        "error": {**error, "code": one_of(*get_args(HintCode)), "values": public.hint_values},
        "exited": {"status": number, "traceback": text(shown.traceback)},
        "interrupted": {},
        "finished": {"is_complete": number, "peak_memory_bytes": number},
    }


def _skip_reason(reason: str) -> str:
    return plain_reason(reason) or LEFT_OUT


def _packages(packages: object) -> dict[str, str | None] | None:
    if not isinstance(packages, dict):
        return None
    return {
        name: public.version(str(value)) or LEFT_OUT for name, value in packages.items() if public.package_name(name)
    }


def _config(values: Mapping[str, Any]) -> dict[str, str]:
    return {name: public.printed_value(str(value)) for name, value in values.items() if public.config_name(name)}


def _operations(names: Mapping[str, int], shown: Public) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name, count in names.items():
        operation = shown.operation(name)
        counts[operation] = counts.get(operation, 0) + count
    return counts


def _segment(row: list[Any], shown: Public) -> list[Any]:
    kind, start, end, *rest = row
    head = [one_of("graph", "eager", "guards", "compile")(kind), number(start), number(end)]
    if kind == "eager":
        return [*head, _operations(rest[0], shown), number(rest[1])]
    return [*head, None if rest[0] is None else public.compile_id(str(rest[0])), number(rest[1])]
