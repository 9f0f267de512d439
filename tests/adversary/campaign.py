"""Runs a campaign: many assignments in small batches, each batch's rows written before the next begins.

A campaign that was interrupted, by Ctrl-C or by a kill, goes on where it was: rows lie in `OUT.rows.jsonl`, one a line,
beside the result, and are taken from there by key as long as seed and commit are the same.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from .attempts import Assignment, Row, key_of, make_attempts
from .bar import summarize
from .base_tasks import DEPOT, VARIANTS
from .compose import compose
from .library import DEMO, Script

__all__ = ["Campaign", "Summary", "assign", "composed", "make_rows", "run_campaign", "write_result"]

ROOT = Path(__file__).parent.parent.parent
BATCH = 96
Summary = Callable[[Sequence[Row]], dict[str, Any]]
"""Rows to the part of the result that says what they come to."""


class Campaign(NamedTuple):
    """The attempts to make and the file for the result."""

    seed: int
    assignments: tuple[Assignment, ...]
    out: Path


class _Header(msgspec.Struct, frozen=True):
    """First line of the rows' file: rows of another campaign are not taken."""

    seed: int
    commit: str


def composed(seed: int, count: int, first: int = 0) -> tuple[Script, ...]:
    """Returns `count` composed scripts."""
    return tuple(compose(seed, number) for number in range(first, first + count))


def assign(scripts: Iterable[Script], folders: dict[str, Path], demo: Sequence[Path] = ()) -> tuple[Assignment, ...]:
    """Returns every script on every variant that it names; `demo` scripts on each of the tasks handed in."""
    assignments = []
    for script in scripts:
        for variant in script.variants:
            if variant == DEMO:
                assignments += [Assignment(script, f"{DEMO}-{folder.name}", folder) for folder in demo]
            elif variant in (*VARIANTS, DEPOT):
                assignments.append(Assignment(script, variant, folders[variant]))
    return tuple(assignments)


def run_campaign(campaign: Campaign, say: Callable[[str], None], summary: Summary = summarize) -> dict[str, Any]:
    """Makes every attempt that has no row yet, writes the result to `campaign.out` and returns it.

    Raises `KeyboardInterrupt` after the rows of all finished batches are on disk.
    """
    return write_result(campaign, make_rows(campaign, say), summary)


def make_rows(campaign: Campaign, say: Callable[[str], None]) -> list[Row]:
    """Makes every attempt that has no row yet; returns the rows of all assignments, in their order."""
    rows_file = campaign.out.with_suffix(".rows.jsonl")
    campaign.out.parent.mkdir(parents=True, exist_ok=True)
    rows = _resume(rows_file, _Header(campaign.seed, _commit()))
    left = [a for a in campaign.assignments if key_of(a) not in rows]
    say(f"{len(campaign.assignments)} attempts, {len(campaign.assignments) - len(left)} of them already made")
    started = time.monotonic()
    for at in range(0, len(left), BATCH):
        batch = left[at : at + BATCH]
        made = asyncio.run(make_attempts(batch))
        with rows_file.open("ab") as file:
            file.write(b"".join(msgspec.json.encode(row) + b"\n" for row in made))
        rows |= {row.key: row for row in made}
        say(_progress(made, at + len(batch), len(left), time.monotonic() - started))
    return [rows[key_of(a)] for a in campaign.assignments]


def write_result(campaign: Campaign, rows: Sequence[Row], summary: Summary) -> dict[str, Any]:
    """Writes the summary and short rows to `campaign.out`, with commit, seed and date; returns what was written."""
    result = {
        "commit": _commit(),
        "seed": campaign.seed,
        "date": datetime.now(UTC).date().isoformat(),
        **summary(rows),
        "rows": [_compact(row) for row in rows],
    }
    campaign.out.write_text(_with_short_rows(result), encoding="utf-8")
    return result


def _compact(row: Row) -> list[Any]:
    """A row for the committed result: the whole one stays in the rows' file."""
    checks = {name: [check.status, check.separation] for name, check in row.checks.items()}
    return [row.key, row.role, row.outcome, row.integrity, checks, row.cause]


def _with_short_rows(result: dict[str, Any]) -> str:
    """JSON with one line for each row, so that two campaigns can be compared by line."""
    head = json.dumps({**result, "rows": "ROWS"}, indent=1)
    rows = ",\n".join("  " + json.dumps(row) for row in result["rows"])
    return head.replace('"ROWS"', f"[\n{rows}\n ]") + "\n"


def _resume(path: Path, header: _Header) -> dict[str, Row]:
    """Reads the rows of the same campaign; begins the file anew where there are none, or another campaign's."""
    lines = path.read_bytes().splitlines() if path.is_file() else []
    if not lines or lines[0] != msgspec.json.encode(header):
        path.write_bytes(msgspec.json.encode(header) + b"\n")
        return {}
    rows = {}
    for line in lines[1:]:
        try:
            row = msgspec.json.decode(line, type=Row)
        except msgspec.MsgspecError:  # a line that a kill cut short
            continue
        rows[row.key] = row
    return rows


def _progress(made: Sequence[Row], done: int, total: int, elapsed_s: float) -> str:
    passes = [row.key for row in made if not row.deserves_pass and any(c.status == "pass" for c in row.checks.values())]
    eta_s = elapsed_s / done * (total - done)
    return f"{done}/{total}, {eta_s:.0f} s left" + (f", undeserved: {' '.join(passes)}" if passes else "")


def _commit() -> str:
    """The commit of the checkout, with `+` where tracked files differ from it."""
    git = ["git", "-C", str(ROOT)]
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    changed = subprocess.run([*git, "status", "--porcelain", "-uno"], capture_output=True, text=True, check=False)
    return head + ("+" if changed.stdout.strip() else "")
