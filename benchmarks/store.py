"""The store against JSON lines, SQLite alone and Inspect's `.eval`: 10,000 attempts of 20 steps.

    python -m benchmarks.store [--quick] [--attempts N] [--peer-python PATH]

Each store runs in a process of its own on the same attempts. Times to open, aggregate and search are medians with the
page cache warm. Inspect gets 1,000 attempts at the most, because its costs grow faster than its logs.
"""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from assay.records import (
    AttemptEnded,
    AttemptStarted,
    Body,
    Observation,
    Step,
    StepAdded,
    ToolCall,
    Verdict,
    VerdictAdded,
    canonical_bytes,
)
from assay.store import RunStore, query, seal, search
from benchmarks._measure import Meter, cost_of, median_of, own_process
from benchmarks._report import Report, Target, options

STEPS, TASKS, PEER_LIMIT = 20, 100, 1_000
WHOLE = 10_000
NEEDLE = "needle-in-the-haystack"
RATE = "SELECT task, avg((outcome = 'pass')::INT) FROM trajectories GROUP BY task ORDER BY task"
WORDS = ["".join(random.Random(n).choices("abcdefghijklmnopqrstuvwxyz_./", k=3 + n % 9)) for n in range(4000)]
KEYS = {
    "commit CPU s": "commit_cpu_s",
    "commit wall s": "commit_wall_s",
    "MB": "megabytes",
    "open one ms": "open_ms",
    "pass rate ms": "rate_ms",
    "search ms": "search_ms",
    "peak MiB": "peak_mib",
}
"""Column to result. A live run's first search is measured: no later one finds more prepared for it."""


def attempt_bodies(number: int) -> list[Body]:
    """About 22 kB of events: 20 steps with a command and its output. One in 500 holds the needle."""
    rng = random.Random(number)
    task, at = f"task-{number % TASKS:03d}", float(number)
    bodies: list[Body] = [AttemptStarted("b", f"{task}.a.{number}", task, "d", "a", "m", number, number, at=at)]
    for index in range(STEPS):
        output = " ".join(rng.choices(WORDS, k=85))
        if index == 7 and number % 500 == 3:
            output += f" {NEEDLE}"
        command = json.dumps({"command": " ".join(rng.choices(WORDS, k=6))})
        call = ToolCall(f"c{index}", "shell", command, json.loads(command))
        seen = Observation(output, f"c{index}", rng.randrange(2))
        bodies.append(StepAdded(Step(index, "agent", " ".join(rng.choices(WORDS, k=12)), None, (call,), (seen,))))
    status = "pass" if rng.random() < 0.4 else "fail"
    bodies.append(VerdictAdded(Verdict("tests", "outcome", status, float(status == "pass"), "counted")))
    bodies.append(AttemptEnded("done", metrics={"wall_s": 2.0}, at=at + 2))
    return bodies


def attempts(count: int, meter: Meter) -> Iterator[tuple[str, list[Body]]]:
    """Attempts made outside of the measured time, measured while they are stored."""
    for start in range(0, count, 100):
        some = [(f"c{n:06d}.0", attempt_bodies(n)) for n in range(start, min(start + 100, count))]
        with meter.running():
            yield from some


def assay_live(folder: str, count: int, *, per_step: bool = False) -> dict[str, Any]:
    root, meter = Path(folder), Meter()
    with RunStore.create(root, "b", {}) as store:
        for chain, bodies in attempts(count, meter):
            for chunk in [[b] for b in bodies] if per_step else [bodies]:
                store.append(chain, chunk)
    with RunStore.open(root, "b") as store:
        one = reading(lambda: store.trajectory(f"c{count // 2:06d}.0"))
        rate = reading(lambda: rate_of((r.task, r.outcome) for r in store.attempts()))
    found = {"open_ms": one, "rate_ms": rate} | costs(meter, root)
    if not per_step:
        found["search_ms"] = reading(lambda: search(root, NEEDLE), 1)
        assert len(search(root, NEEDLE, limit=10_000)) == expected_hits(count)
    return found


def assay_live_per_step(folder: str, count: int) -> dict[str, Any]:
    return assay_live(folder, count, per_step=True)


def assay_sealed(folder: str, count: int) -> dict[str, Any]:
    """Seals what `assay_live` has left in the folder."""
    root = Path(folder)
    sealing = cost_of(lambda: seal(root, "b"))

    def fresh() -> None:
        with RunStore.open(root, "b") as store:
            store.trajectory(f"c{count // 2:06d}.0")

    assert len(query(root, RATE).rows) == min(TASKS, count)
    assert len(search(root, NEEDLE, limit=10_000)) == expected_hits(count)
    return {
        "commit_cpu_s": sealing.cpu_s,
        "commit_wall_s": sealing.wall_s,
        "megabytes": size_of(root),
        "open_ms": reading(fresh),
        "rate_ms": reading(lambda: query(root, RATE)),
        "search_ms": reading(lambda: search(root, NEEDLE)),
    }


class Line(msgspec.Struct):
    """What an aggregation over JSON lines has to decode."""

    task: str
    outcome: str


def json_lines(folder: str, count: int) -> dict[str, Any]:
    path, meter, offsets = Path(folder) / "attempts.jsonl", Meter(), dict[str, tuple[int, int]]()
    with path.open("wb") as file:
        for chain, bodies in attempts(count, meter):
            started, verdict = bodies[0], bodies[-2]
            assert isinstance(started, AttemptStarted)
            assert isinstance(verdict, VerdictAdded)
            line = {"chain": chain, "task": started.task, "outcome": verdict.verdict.status, "events": bodies}
            raw = msgspec.json.encode(line)
            offsets[chain] = (file.tell(), len(raw))
            file.write(raw + b"\n")
            file.flush()
        file.flush()
    decoder = msgspec.json.Decoder(Line)

    def one() -> None:
        with path.open("rb") as lines:
            start, length = offsets[f"c{count // 2:06d}.0"]
            lines.seek(start)
            msgspec.json.decode(lines.read(length))

    def rate() -> None:
        with path.open("rb") as lines:
            rate_of((found.task, found.outcome) for found in map(decoder.decode, lines))

    def text() -> int:
        with path.open("rb") as lines:
            return sum(NEEDLE.encode() in line for line in lines)

    assert text() == expected_hits(count)
    return {"open_ms": reading(one), "rate_ms": reading(rate), "search_ms": reading(text)} | costs(meter, Path(folder))


def sqlite_alone(folder: str, count: int) -> dict[str, Any]:
    meter, connection = Meter(), sqlite3.connect(Path(folder) / "plain.sqlite", isolation_level=None)
    connection.executescript(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
        "CREATE TABLE attempts (chain TEXT PRIMARY KEY, task TEXT, outcome TEXT);"
        "CREATE TABLE events (chain TEXT, idx INTEGER, body BLOB, PRIMARY KEY (chain, idx));"
    )
    for chain, bodies in attempts(count, meter):
        started, verdict = bodies[0], bodies[-2]
        assert isinstance(started, AttemptStarted)
        assert isinstance(verdict, VerdictAdded)
        connection.execute("BEGIN")
        connection.execute("INSERT INTO attempts VALUES (?, ?, ?)", (chain, started.task, verdict.verdict.status))
        rows = [(chain, index, canonical_bytes(body)) for index, body in enumerate(bodies)]
        connection.executemany("INSERT INTO events VALUES (?, ?, ?)", rows)
        connection.execute("COMMIT")
    run: Callable[..., list[Any]] = lambda *given: connection.execute(*given).fetchall()  # noqa: E731
    chain = f"c{count // 2:06d}.0"
    one = "SELECT body FROM events WHERE chain = ? ORDER BY idx"
    text = "SELECT chain, idx FROM events WHERE instr(body, ?)"
    assert len(run(text, (NEEDLE.encode(),))) == expected_hits(count)
    found = {
        "open_ms": reading(lambda: [msgspec.json.decode(b) for (b,) in run(one, (chain,))]),
        "rate_ms": reading(lambda: run("SELECT task, avg(outcome = 'pass') FROM attempts GROUP BY task")),
        "search_ms": reading(lambda: run(text, (NEEDLE.encode(),))),
    } | costs(meter, Path(folder))
    connection.close()
    return found


PEER = """
import json, os, resource, sys, time
from inspect_ai.log import EvalConfig, EvalDataset, EvalLog, EvalSample, EvalSpec, read_eval_log, read_eval_log_sample
from inspect_ai.log import write_eval_log
from inspect_ai.model import ChatMessageAssistant, ChatMessageTool
from inspect_ai.scorer import Score
from inspect_ai.tool import ToolCall
source, path, needle = sys.argv[1:]
samples = []
for line in open(source, encoding="utf-8"):
    row = json.loads(line)
    messages = []
    for step in (e["step"] for e in row["events"] if e["type"] == "step"):
        call, seen = step["tool_calls"][0], step["observations"][0]
        calls = [ToolCall(id=call["id"], function="shell", arguments=call["parsed"])]
        messages.append(ChatMessageAssistant(content=step["message"], tool_calls=calls))
        messages.append(ChatMessageTool(content=seen["content"], tool_call_id=call["id"]))
    score = {"tests": Score(value="C" if row["outcome"] == "pass" else "I")}
    meta = {"task": row["task"]}
    one = EvalSample(id=row["chain"], epoch=1, input="x", target="y", messages=messages, scores=score, metadata=meta)
    samples.append(one)
spec = EvalSpec(created="2026-01-01T00:00:00+00:00", task="t", dataset=EvalDataset(), model="m/m", config=EvalConfig())
log = EvalLog(status="success", eval=spec, samples=samples)
def timed(act, repeats=3):
    costs = []
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        act()
        costs.append((time.perf_counter() - wall, time.process_time() - cpu))
    return sorted(costs)[len(costs) // 2]
write = timed(lambda: write_eval_log(log, path), 1)
middle = samples[len(samples) // 2].id
one = timed(lambda: read_eval_log_sample(path, id=middle, epoch=1))
def rate():
    for s in read_eval_log(path).samples:
        s.metadata["task"], s.scores["tests"].value
def text():
    return sum(needle in m.text for s in read_eval_log(path).samples for m in s.messages)
assert text() == -(-(len(samples) - 3) // 500)
out = {"commit_cpu_s": write[1], "commit_wall_s": write[0], "megabytes": os.path.getsize(path) / 1e6}
out |= {"open_ms": one[0] * 1e3, "rate_ms": timed(rate, 1)[0] * 1e3, "search_ms": timed(text, 1)[0] * 1e3}
print(json.dumps(out | {"peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
"""


def inspect_log(python: str, folder: Path, count: int) -> dict[str, Any] | None:
    """Inspect's `.eval` of the attempts that `json_lines` has left in the folder; None where it is not there."""
    some = folder / "some.jsonl"
    with (folder / "attempts.jsonl").open(encoding="utf-8") as lines:
        some.write_text("".join(line for line, _ in zip(lines, range(count), strict=False)), encoding="utf-8")
    argv = [python, "-c", PEER, str(some), str(folder / "log.eval"), NEEDLE]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"not measured: Inspect: {python} cannot run it:\n{done.stderr[-800:]}")
        return None
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def expected_hits(count: int) -> int:
    return len(range(3, count, 500))


def rate_of(pairs: Iterator[tuple[str, str | None]]) -> dict[str, float]:
    all_of, passed = Counter[str](), Counter[str]()
    for task, outcome in pairs:
        all_of[task] += 1
        passed[task] += outcome == "pass"
    return {task: passed[task] / n for task, n in all_of.items()}


def reading(act: Callable[[], object], repeats: int = 5) -> float:
    return median_of(act, repeats).wall_s * 1e3


def size_of(folder: Path) -> float:
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file()) / 1e6


def costs(meter: Meter, folder: Path) -> dict[str, Any]:
    return {"commit_cpu_s": meter.cpu_s, "commit_wall_s": meter.wall_s, "megabytes": size_of(folder)}


def measure(count: int, peer: str | None) -> dict[str, dict[str, Any] | None]:
    found: dict[str, dict[str, Any] | None] = {}
    with tempfile.TemporaryDirectory(prefix="assay-bench-") as scratch:

        def stage(name: str, act: Callable[..., dict[str, Any]], folder: str, size: int = count) -> None:
            (Path(scratch) / folder).mkdir(exist_ok=True)
            result, peak = own_process(act, str(Path(scratch) / folder), size)
            found[name] = result | {"peak_mib": peak}

        stage("Assay live, a commit each attempt", assay_live, "assay")
        stage("Assay live, a commit each event", assay_live_per_step, "assay-steps")
        stage("Assay sealed (commit: sealing)", assay_sealed, "assay")
        stage("JSON lines, offset index", json_lines, "lines")
        stage("SQLite alone, a commit each attempt", sqlite_alone, "sqlite")
        size = min(count, PEER_LIMIT)
        name = f"Inspect .eval, {size:,} attempts only"
        found[name] = inspect_log(peer, Path(scratch) / "lines", size) if peer else None
    return found


def peer_of(given: list[str]) -> str | None:
    """The Python that has Inspect: named so, or not named."""
    named = [value.rpartition("=") for value in given]
    return next((path for name, _, path in reversed(named) if name in ("", "inspect", "inspect_ai")), None)


def main(words: Sequence[str] | None = None) -> None:
    """Measures and reports."""
    parser = options("store", __doc__ or "")
    parser.add_argument("--attempts", type=int, default=WHOLE, metavar="N")
    given = parser.parse_args(words)
    count, peer = 500 if given.quick else given.attempts, peer_of(given.peer_python)
    found = measure(count, peer)
    rows = [{"store": name, **result} for name, result in found.items() if result is not None]
    missing = {
        name: "see above" if peer else "no Python that has it was named" for name in found if found[name] is None
    }
    first_search_ms = rows[0]["search_ms"] if count == WHOLE else None
    targets = [Target(f"the first search of a live run of {WHOLE:,} attempts", "ms", 1000.0, first_search_ms)]
    how = f"{count:,} attempts of {STEPS} steps; a live run's first search is measured, of the others a later one"
    Report("store", how, rows, targets, missing).finish(("store", *KEYS.values()), given.into)


if __name__ == "__main__":
    main()
