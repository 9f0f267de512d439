"""Writes measured tables into pages of `docs`: `python -m benchmarks._document`. No number there is typed.

The numbers are those of `benchmarks/results/*.json`; a test holds the pages to them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks._measure import RESULTS, markdown_table

__all__ = ["PAGES", "with_tables"]

_DOCS = Path(__file__).parent.parent / "docs"
PAGES = (_DOCS / "benchmarks.md", _DOCS / "statistics.md")
_BLOCK = re.compile(r"(<!-- measured: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


class Table(NamedTuple):
    """Rows of one result: heading to key, and which rows."""

    result: str
    columns: dict[str, str]
    rows: Callable[[dict[str, Any]], bool] = lambda _: True


TABLES = {
    "overhead": Table(
        "overhead",
        {
            "": "contender",
            "version": "version",
            "attempts": "attempts",
            "CPU ms a turn": "cpu_ms_per_turn",
            "times the limit": "times_bare",
            "times ours": "times_ours",
            "peak MiB": "peak_mib",
            "bytes an attempt": "bytes_per_attempt",
        },
    ),
    "sandbox": Table(
        "sandbox",
        {
            "": "what",
            "at once": "at_once",
            "open CPU": "open_cpu_ms",
            "exec CPU": "exec_cpu_ms",
            "close CPU": "close_cpu_ms",
            "open + first exec + close p50": "whole_p50_ms",
            "open p50": "open_p50_ms",
            "exec p50": "exec_p50_ms",
            "close p50": "close_p50_ms",
        },
        lambda row: not row["what"].startswith(("fork", "copy")),
    ),
    "forks": Table(
        "sandbox",
        {
            "": "what",
            "at once": "at_once",
            "snapshot CPU": "snapshot_cpu_ms",
            "snapshot p50": "snapshot_p50_ms",
            "fork (or copy) CPU": "open_cpu_ms",
            "close CPU": "close_cpu_ms",
            "fork (or copy) p50": "open_p50_ms",
            "fork + first exec + close p50": "whole_p50_ms",
        },
        lambda row: row["what"].startswith(("fork", "copy")),
    ),
    "attempt": Table(
        "attempt",
        {
            "": "what",
            "at once": "at_once",
            "CPU ms": "cpu_ms",
            "beyond the script": "cpu_ms_beyond_script",
            "of it our process": "host_cpu_ms",
            "wall ms": "wall_ms",
            "attempts a second": "attempts_per_s",
        },
    ),
    "gateway": Table(
        "gateway",
        {
            "": "contender",
            "answers": "mode",
            "at once": "at_once",
            "calls": "calls",
            "errors": "errors",
            "calls a second": "calls_per_s",
            "added p50 ms": "added_p50_ms",
            "added p99 ms": "added_p99_ms",
            "CPU us a call": "cpu_us_per_call",
            "times the pass-through": "times_passthrough",
            "peak MiB": "peak_mib",
        },
    ),
    "separation": Table(
        "separation",
        {
            "": "what",
            "tests": "tests",
            "judged from outside": "outside",
            "pairs": "pairs",
            "CPU ms": "cpu_ms",
            "in process": "plain_cpu_ms",
            "times in process": "times_plain",
            "times one run": "times_one_run",
            "its p95": "p95_times_one_run",
            "bytes more an attempt": "bytes_added",
        },
    ),
    "analysis": Table(
        "analysis",
        {"part": "part", "what": "what", "measured": "measured", "": "unit"},
    ),
    "viewer": Table(
        "viewer",
        {
            "": "what",
            "run opens, first": "open_first_ms",
            "again": "open_ms",
            "filter": "filter_ms",
            "attempt opens, first": "long_first_ms",
            "again ": "long_ms",
            "its last step": "long_end_ms",
            "MB loaded for it": "long_loaded_mb",
            "MiB held by the page": "long_heap_mib",
            "failures": "failures_ms",
            "task": "task_ms",
            "overlay": "overlay_ms",
            "search": "search_ms",
            "server's peak MiB": "server_mib",
        },
    ),
    "coverage": Table(
        "coverage",
        {
            "interval": "interval",
            "tasks x attempts": "design",
            "rate": "rate",
            "correlation": "icc",
            "holds the truth, %": "coverage_percent",
            "the naive one, %": "naive_percent",
            "median width": "width",
        },
    ),
    "credit": Table(
        "credit",
        {
            "": "method",
            "CPU s": "cpu_s",
            "times a copy": "times_copy",
            "peak MiB beside the batch": "peak_mib",
            "MiB left": "left_mib",
        },
    ),
    "trainer": Table(
        "trainer",
        {
            "": "what",
            "parameters": "parameters",
            "tokens": "tokens",
            "tokens a CPU second": "tokens_per_cpu_s",
            "tokens a second": "tokens_per_s",
            "CPU s": "cpu_s",
            "peak MiB": "peak_mib",
        },
    ),
    "allocation": Table(
        "allocation",
        {
            "": "part",
            "what": "what",
            "policy": "policy",
            "attempts in mixed groups, %": "mixed_percent",
            "signal an attempt": "signal",
            "times uniform": "times",
            "from": "low",
            "to": "high",
            "turns an attempt": "turns",
        },
        lambda row: row["part"] != "early stop",
    ),
    "browser": Table(
        "browser",
        {"": "what", "measured": "count", "ours": "ours", "theirs": "theirs", "ours / theirs": "ratio"},
    ),
    "early-stop": Table("allocation", {"what": "what", "came to": "note"}, lambda row: row["part"] == "early stop"),
    "worlds": Table(
        "worlds",
        {
            "": "what",
            "measured": "count",
            "a second": "per_s",
            "CPU us": "cpu_us",
            "name of the state us": "state_us",
            "fork us": "fork_us",
            "snapshot us": "snapshot_us",
            "recording adds, CPU us": "record_us",
            "wall us": "wall_us",
        },
    ),
    "commands": Table(
        "commands",
        {
            "": "what",
            "size": "size",
            "CPU s": "cpu_s",
            "beside the run": "beside_first",
            "beside the earlier version": "beside_before",
            "tasks with other findings": "unequal_findings",
            "thousand turns of the reference loop": "thousand_reference_turns",
        },
    ),
    "large_run": Table(
        "large_run", {"": "command", "run": "run", "CPU s": "cpu_s", "before": "before_cpu_s", "times": "ratio"}
    ),
    "long_attempt": Table(
        "long_attempt",
        {
            "": "agent",
            "steps": "steps",
            "CPU ms a step": "cpu_ms_per_step",
            "times the reference": "times_reference",
            "without comparing": "rest_reference",
            "resident MiB": "resident_mib",
            "KiB a step": "kib_per_step",
            "its own list, of that": "own_kib",
        },
    ),
    "services": Table(
        "services",
        {"": "what", "CPU us": "cpu_us", "bare SQL us": "bare_us", "times": "times_bare", "a second": "per_s"},
    ),
    "service_transports": Table(
        "service_transports", {"": "what", "calls": "count", "CPU us": "cpu_us", "of it transport": "transport_us"}
    ),
    "place": Table(
        "place",
        {
            "": "what",
            "place": "place",
            "size": "size",
            "a second": "per_s",
            "client CPU us": "client_cpu_us",
            "wall s": "wall_s",
            "times": "ratio",
        },
    ),
    "nodes": Table(
        "nodes",
        {
            "": "what",
            "place": "place",
            "attempts": "attempts",
            "CPU us a turn": "cpu_us_a_turn",
            "times": "ratio",
            "at most": "worst_ratio",
            "command CPU ms": "command_cpu_ms",
        },
    ),
    "cluster": Table(
        "cluster",
        {
            "": "what",
            "attempts": "attempts",
            "differing": "differing",
            "superseded": "superseded",
            "commands": "coordinators",
            "granted again s": "granted_again_s",
            "wall s": "wall_s",
            "CPU us a turn": "cpu_us_a_turn",
            "times": "ratio",
            "command CPU ms": "command_cpu_ms",
            "MiB": "pss_mib",
        },
    ),
    "store": Table(
        "store",
        {
            "": "store",
            "commit CPU s": "commit_cpu_s",
            "commit wall s": "commit_wall_s",
            "MB": "megabytes",
            "open one ms": "open_ms",
            "pass rate ms": "rate_ms",
            "search ms": "search_ms",
            "peak MiB": "peak_mib",
        },
    ),
}


def with_tables(page: str, results: Path = RESULTS.parent) -> str:
    """The page with every block between its marks made anew."""
    return _BLOCK.sub(lambda found: f"{found[1]}{_block(found[2], results)}\n{found[3]}", page)


def _block(name: str, results: Path) -> str:
    if name == "targets":
        return "\n".join(_targets(results))
    if name == "machine":
        return "\n".join(_machines(results))
    table = TABLES[name]
    if not (results / f"{table.result}.json").is_file():
        return f"- Not measured: `python -m benchmarks.{table.result}`"
    data = json.loads((results / f"{table.result}.json").read_text(encoding="utf-8"))
    kept = [row for row in _rows(data) if table.rows(row)]
    cells = [[row.get(key, "") for key in table.columns.values()] for row in kept]
    parts = [markdown_table(list(table.columns), cells)] if cells else []
    missing = [f"- Not measured: {what}: {why}" for what, why in data.get("not_measured", {}).items()]
    return "\n\n".join([*parts, *(["\n".join(missing)] if missing else [])])


def _rows(data: dict[str, Any]) -> list[dict[str, Any]]:
    if "rows" in data:
        return list(data["rows"])
    return [{"store": name, **(found or {})} for name, found in data["stores"].items() if found is not None]


def _targets(results: Path) -> Iterator[str]:
    rows = []
    for path in sorted(results.glob("*.json")):
        for target in json.loads(path.read_text(encoding="utf-8")).get("targets", []):
            unit = target["unit"]
            rows.append([target["what"], f"{target['at_most']:g} {unit}", target["measured"], target["verdict"]])
    yield markdown_table(["promise", "at most", "measured", ""], rows)


def _machines(results: Path) -> Iterator[str]:
    found = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(results.glob("*.json"))}
    commits = sorted({str(data.get("commit")) for data in found.values()})
    if len(commits) == 1 and commits != ["None"]:
        yield f"One run on commit `{commits[0][:12]}`:\n"
    for name, data in found.items():
        facts = data["machine"]
        yield (
            f"- `{name}`: {facts['when'][:16].replace('T', ' ')} UTC, {facts['cores']} x {facts['cpu']}, "
            f"{facts['system'].split('-')[0]}, Python {facts['python']}, load {facts['load']:.1f} at the end"
        )


if __name__ == "__main__":
    for written in PAGES:
        written.write_text(with_tables(written.read_text(encoding="utf-8")), encoding="utf-8")
