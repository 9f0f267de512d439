"""What recording costs: 2,000 scripted ten-turn attempts in process, beside the bare limit and other runners.

Every contender runs the same episode (see `peers/episode.py`) as a program of its own, in rounds one after another, and
measures its own CPU. Other runners need an interpreter that has them:

    python -m benchmarks.overhead
    python -m benchmarks.overhead --peer-python aviary=/path/to/python --peer-python inspect=/path/to/python
    python -m benchmarks.overhead --quick
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks._report import Report, Target, options

PEERS = Path(__file__).parent / "peers"
COLUMNS = (
    "contender",
    "version",
    "attempts",
    "cpu_ms_per_turn",
    "times_bare",
    "times_ours",
    "peak_mib",
    "bytes_per_attempt",
)
HOW = "CPU of the whole process a turn, ten turns an attempt, 8 attempts at once; medians over rounds"


class Contender(NamedTuple):
    """Who runs the episodes."""

    name: str
    script: str
    peer: str | None = None
    """The name that `--peer-python` gives its interpreter; None for ours."""
    arguments: tuple[str, ...] = ()


CONTENDERS = (
    Contender("bare asyncio + JSONL (the limit)", "bare.py"),
    Contender("assay, everything recorded", "ours.py"),
    Contender("Aviary/ldp, no log", "aviary_peer.py", "aviary"),
    Contender("Aviary/ldp, its log", "aviary_peer.py", "aviary", ("log",)),
    Contender("verifiers, traces as JSONL", "verifiers_peer.py", "verifiers"),
    Contender("Inspect AI, .eval log", "inspect_peer.py", "inspect"),
)
LEAST_TIMES = {"Aviary/ldp, its log": 10, "verifiers, traces as JSONL": 10, "Inspect AI, .eval log": 40}
"""How many times our CPU a turn these take at least."""


class Asked(NamedTuple):
    """How much to measure."""

    attempts: int
    peer_attempts: int
    rounds: int
    interpreters: dict[str, str]


def main(arguments: list[str] | None = None) -> Report:
    """Measures, prints, writes."""
    asked, folder = _read(arguments)
    found: dict[str, list[dict[str, Any]]] = {}
    not_measured: dict[str, str] = {}
    for _ in range(asked.rounds):
        for contender in CONTENDERS:
            result = _one(contender, asked)
            if isinstance(result, str):
                not_measured[contender.name] = result
            else:
                found.setdefault(contender.name, []).append(result)
    rows = [_merged(c.name, found[c.name]) for c in CONTENDERS if c.name in found]
    bare, ours = rows[0]["cpu_ms_per_turn"], rows[1]["cpu_ms_per_turn"]
    for row in rows:
        row["times_bare"], row["times_ours"] = row["cpu_ms_per_turn"] / bare, row["cpu_ms_per_turn"] / ours
    grown = rows[1]["held_mib_at_end"] - rows[1]["held_mib_at_quarter"]
    targets = [
        Target("CPU a turn with chain, state digest and store", "ms", 0.22, ours),
        Target("the same beside the bare loop", "times", 37.0, rows[1]["times_bare"]),
        Target("peak memory of 2,000 attempts", "MiB", 42.0, rows[1]["peak_mib"]),
        Target("memory from a quarter of the attempts to all", "MiB", 4.0, grown),
    ]
    cpu_ms = {row["contender"]: row["cpu_ms_per_turn"] for row in rows}
    for name, least in LEAST_TIMES.items():
        ratio = ours / cpu_ms[name] if name in cpu_ms else None
        targets.append(Target(f"CPU a turn beside {name}", "times", 1 / least, ratio))
    report = Report("overhead", HOW, rows, targets, not_measured)
    report.finish(COLUMNS, folder)
    return report


def _one(contender: Contender, asked: Asked) -> dict[str, Any] | str:
    """One contender's numbers, or why there are none."""
    known = asked.interpreters
    python = sys.executable if contender.peer is None else known.get(contender.peer) or known.get("")
    if python is None:
        return f"no interpreter that has it was named (--peer-python {contender.peer}=PATH)"
    attempts = asked.attempts if contender.peer is None else asked.peer_attempts
    with tempfile.TemporaryDirectory(prefix="overhead-") as folder:
        script = str(PEERS / contender.script)
        command = [python, script, str(attempts), "8", folder, *contender.arguments]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=900)
        except (OSError, subprocess.TimeoutExpired) as exc:
            return f"{type(exc).__name__}: {exc}"
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        if contender.peer is None:
            raise SystemExit(f"{contender.name} failed: {done.stderr[-2000:]}")
        return f"exit code {done.returncode}: {last[:300]}"
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def _merged(name: str, rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """The medians of several rounds."""
    row: dict[str, Any] = {"contender": name, "rounds": len(rounds)}
    for key, value in rounds[0].items():
        row[key] = statistics.median(r[key] for r in rounds) if isinstance(value, float) else value
    return row


def _read(arguments: list[str] | None) -> tuple[Asked, Path | None]:
    parser = options("overhead", "What recording costs, beside the bare limit and other runners.")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args(arguments)
    named = (pair.rpartition("=") for pair in given.peer_python)
    interpreters = {name: path for name, _, path in named}
    if given.quick:
        return Asked(40, 20, 1, interpreters), given.into
    return Asked(2000, 200, given.rounds, interpreters), given.into


if __name__ == "__main__":
    main()
