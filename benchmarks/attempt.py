"""What a whole attempt costs that does nothing: a trivial Harbor task, sandboxed, verified and on record.

Open the sandbox, let the null agent act, seal the state, verify it in a fresh fork by the task's own script, commit,
close. Start-up (the self-test of the sandbox, the tool layer) is not counted: a short run is subtracted from a long
one. The script's own CPU is that of the same script in a bare shell.

    python -m benchmarks.attempt
    python -m benchmarks.attempt --peer-python harbor=/path/to/python
    python -m benchmarks.attempt --quick
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings
from assay.tasks.write import TaskDraft, write_task
from benchmarks._cpu import Groups
from benchmarks._measure import cpu_seconds
from benchmarks._report import Report, Target, options

PEERS = Path(__file__).parent / "peers"
HOW = "null attempts at a task whose script looks for one file; medians over rounds; host, launcher and boxes together"
COLUMNS = (
    *(
        "what",
        "version",
        "at_once",
        "attempts",
        "cpu_ms",
        "script_cpu_ms",
        "cpu_ms_beyond_script",
        "host_cpu_ms",
        "wall_ms",
    ),
    *("attempts_per_s", "kib_on_record"),
)
OURS, SCRIPT = "assay, null attempt", "the test script, bare"
HARBOR = "Harbor, no-op trial in an environment that does nothing"
TEST = """#!/bin/sh
if [ "$(cat {place}/hello.txt 2>/dev/null)" = "Hello, world!" ]; then
    echo 1 > {reward}/reward.txt
else
    echo 0 > {reward}/reward.txt
fi
"""


class Asked(NamedTuple):
    """How much to measure."""

    short: int
    long: int
    at_once: tuple[int, ...]
    rounds: int
    harbor: str | None


class Spent(NamedTuple):
    """What a run took."""

    cpu_ms: float
    host_ms: float
    """CPU of this process alone."""
    wall_ms: float
    bytes: float


def main(arguments: list[str] | None = None) -> Report:
    """Measures, prints, writes."""
    parser = options("attempt", "What a whole attempt costs that does nothing.")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args(arguments)
    named = {name: path for name, _, path in (pair.rpartition("=") for pair in given.peer_python)}
    harbor = named.get("harbor") or named.get("")
    asked = Asked(2, 12, (1,), 1, harbor) if given.quick else Asked(10, 60, (1, 8), given.rounds, harbor)
    with Groups() as groups, tempfile.TemporaryDirectory(prefix="attempt-") as folder:
        rows, not_measured = _measured(asked, groups, Path(folder))
    targets = [
        Target("CPU of an attempt beyond its script, one at a time", "ms", 30.0, rows[0]["cpu_ms_beyond_script"])
    ]
    report = Report("attempt", HOW, rows, targets, not_measured)
    report.finish(COLUMNS, given.into)
    return report


def _measured(asked: Asked, groups: Groups, folder: Path) -> tuple[list[dict[str, Any]], dict[str, str]]:
    not_measured: dict[str, str] = {}
    if not groups.works:
        not_measured["CPU of sandboxes"] = "needs root and a writable control group; what was reaped is counted"
    task, ours, scripts, trials = _task(folder), {}, [], []
    _run(task, 1, 1, groups)  # imports and caches
    for _ in range(asked.rounds):
        for at_once in asked.at_once:
            ours.setdefault(at_once, []).append(_attempts(task, at_once, asked, groups))
        scripts.append(_script(groups, folder, asked.long))
        trial = _harbor(asked, folder)
        if isinstance(trial, str):
            not_measured[HARBOR] = trial
        else:
            trials.append(trial)
    script = statistics.median(scripts)
    rows = [_row(at_once, spent, asked, script) for at_once, spent in ours.items()]
    rows.append({"what": SCRIPT, "at_once": 1, "attempts": asked.long, "cpu_ms": script})
    if trials:
        found = {key: statistics.median(t[key] for t in trials) for key in ("cpu_ms", "wall_ms", "attempts_per_s")}
        rows.append({**trials[0], **found, "what": HARBOR, "host_cpu_ms": found["cpu_ms"]})
    return rows, not_measured


def _row(at_once: int, spent: list[Spent], asked: Asked, script: float) -> dict[str, Any]:
    cpu, host, wall, size = (statistics.median(values) for values in zip(*spent, strict=True))
    return {
        "what": OURS,
        "at_once": at_once,
        "attempts": asked.long - asked.short,
        "cpu_ms": cpu,
        "script_cpu_ms": script,
        "cpu_ms_beyond_script": cpu - script,
        "host_cpu_ms": host,
        "wall_ms": wall,
        "attempts_per_s": 1000 / wall,
        "kib_on_record": size / 1024,
    }


def _task(folder: Path) -> Path:
    test = TEST.format(place="/workspace", reward="/logs/verifier")
    files = {"instruction.md": "Write `Hello, world!` to /workspace/hello.txt.\n", "tests/test.sh": test}
    write_task(folder / "hello", TaskDraft(files=files))
    return folder / "hello"


def _attempts(task: Path, at_once: int, asked: Asked, groups: Groups) -> Spent:
    """What one attempt takes: a long run less a short one."""
    short, long = (_run(task, at_once, count, groups) for count in (asked.short, asked.long))
    more = asked.long - asked.short
    return Spent(*((b - a) / more for a, b in zip(short, long, strict=True)))


def _run(task: Path, at_once: int, attempts: int, groups: Groups) -> Spent:
    name = "attempts"
    groups.enter(name)
    with tempfile.TemporaryDirectory(prefix="attempt-store-") as store:
        config = RunConfig(tasks=(str(task),), agent="null", attempts=attempts, concurrency=at_once, run="null")
        settings, tally = Settings(cache=Settings.from_environment().cache, store=Path(store)), Tally()
        before, host, began = _cpu_ms(groups, name), time.process_time(), time.perf_counter()
        asyncio.run(start_run(config, settings, tally))
        cpu, wall = _cpu_ms(groups, name) - before, (time.perf_counter() - began) * 1000
        host = (time.process_time() - host) * 1000
        if tally.outcomes["fail"] != attempts:
            raise SystemExit(f"doing nothing should have failed {attempts} times: {tally.outcomes}")
        size = sum(f.stat().st_size for f in Path(store).rglob("*") if f.is_file())
    return Spent(cpu, host, wall, size)


def _cpu_ms(groups: Groups, name: str) -> float:
    counted = groups.cpu_ms(name)
    return cpu_seconds() * 1000 if counted is None else counted


def _script(groups: Groups, folder: Path, times: int) -> float:
    """CPU of the script itself."""
    path = folder / "test.sh"
    path.write_text(TEST.format(place=folder, reward=folder), encoding="utf-8")
    groups.enter("script")
    before = _cpu_ms(groups, "script")
    for _ in range(times):
        os.waitpid(os.posix_spawn("/bin/sh", ["/bin/sh", str(path)], {"PATH": "/usr/bin:/bin"}), 0)
    return (_cpu_ms(groups, "script") - before) / times


def _harbor(asked: Asked, folder: Path) -> dict[str, Any] | str:
    """Harbor's own cost a trial, by our program in its interpreter, or why there is none."""
    if asked.harbor is None:
        return "no interpreter that has it was named (--peer-python harbor=PATH)"
    command = [asked.harbor, str(PEERS / "harbor_peer.py"), str(asked.long), str(asked.short), str(folder / "hello")]
    environment = {**os.environ, "HARBOR_TELEMETRY": "off"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment, cwd=folder)
    except (OSError, subprocess.TimeoutExpired) as exc:
        return f"{type(exc).__name__}: {exc}"
    if done.returncode != 0:
        return f"exit code {done.returncode}: {(done.stderr.strip().splitlines() or ['it said nothing'])[-1][:300]}"
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


if __name__ == "__main__":
    main()
