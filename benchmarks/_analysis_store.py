"""The sealed store at 100,000 trajectories of 20 steps: opening one, a pass rate, a search, and bytes a step.

    python -m benchmarks._analysis_store [--scale 0.1] [--folder PATH]

Texts are made up so that they repeat as program output does: words by Zipf's law, and numbers, names and digests that
stand nowhere else. Times are of a process that has imported everything, with the page cache warm: each call opens the
run anew. Bytes a step of other formats are of the first thousand trajectories, written by Assay's own exporters.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from statistics import median
from typing import Any

from assay.records import (
    AttemptEnded,
    AttemptStarted,
    Body,
    Observation,
    Step,
    StepAdded,
    ToolCall,
    Trajectory,
    Verdict,
    VerdictAdded,
    VerdictStatus,
)
from assay.store import RunStore, query, seal, search
from benchmarks._measure import cost_of, machine_facts, markdown_table, own_process

__all__ = ["PROMISES", "measure_store", "table"]

ATTEMPTS, STEPS, TASKS, SAMPLE = 100_000, 20, 1_000, 1_000
RUN, NEEDLE, EVERY = "generated", "deadbeefcafe", 5_000
RATE = "SELECT task, avg((outcome = 'pass')::INT) FROM trajectories GROUP BY task ORDER BY task"
PROMISES = {"open one by id": 20.0, "pass rate by task": 200.0, "search, a rare word": 2_000.0}
"""Question to the milliseconds that its median may take at full size."""
_LETTERS = "etaoinshrdlucmfwypvbgkjqxz_./-"
WORDS = ["".join(random.Random(n).choices(_LETTERS, range(30, 0, -1), k=2 + n % 9)) for n in range(6_000)]
WEIGHTS = list(accumulate(1 / (rank + 3) for rank in range(len(WORDS))))


def measure_store(scale: float = 1.0, folder: Path | None = None) -> dict[str, Any]:
    """All numbers at `scale` times 100,000 trajectories; in a folder of its own, which is removed, unless one is named.

    A named folder is kept, and a run that lies there is measured as it is.
    """
    count = max(100, round(ATTEMPTS * scale))
    with tempfile.TemporaryDirectory(prefix="assay-bench-") as scratch:
        root = folder or Path(scratch) / "store"
        made: dict[str, Any] = {}
        if not (root / "runs" / RUN).exists():
            made, peak = own_process(_make, str(root), count)
            made["peak MiB"] = peak
        found, peak = own_process(_read, str(root), count)
        sizes = _sizes(root, Path(scratch), count)
    return {"attempts": count, "steps": count * STEPS, "made": made, "read": found, "read peak MiB": peak} | sizes


def _make(folder: str, count: int) -> dict[str, float]:
    """Appends all of them, and seals the run."""
    root = Path(folder)
    with RunStore.create(root, RUN, {}) as store:

        def append() -> None:
            for start in range(0, count, 100):
                store.append_all([(f"{_name(n)}.0", _bodies(n)) for n in range(start, min(start + 100, count))])

        appended = cost_of(append)
    sealed = cost_of(lambda: seal(root, RUN))
    return {
        "making and appending CPU s": appended.cpu_s,
        "making and appending wall s": appended.wall_s,
        "sealing CPU s": sealed.cpu_s,
        "sealing wall s": sealed.wall_s,
    }


def _read(folder: str, count: int) -> dict[str, dict[str, float]]:
    """Each question several times."""
    root, draw = Path(folder), random.Random(1)

    def by_id() -> None:
        name = _name(draw.randrange(count))
        with RunStore.open(root, RUN) as store:
            assert store.trajectory(store.find(name).chain).attempt == name

    def by_beginning() -> None:
        with RunStore.open(root, RUN) as store:
            store.find(_name(count // 2)[:-1])

    hits = len(range(3, count, EVERY))
    questions: dict[str, tuple[Callable[[], object], int]] = {
        "open one by id": (by_id, 21),
        "find one by a beginning": (by_beginning, 5),
        "pass rate by task": (lambda: query(root, RATE), 5),
        "search, a rare word": (lambda: _expect(search(root, NEEDLE, limit=10_000), hits), 5),
        "search, a word in every step": (lambda: _expect(search(root, WORDS[5]), 100), 5),
        "search, a word that is nowhere": (lambda: _expect(search(root, "qzj/xkv-zqx"), 0), 3),
        "search, letters in every block, together nowhere": (lambda: _expect(search(root, _made_of_common()), 0), 3),
    }
    for ask, _ in questions.values():
        ask()
    return {name: _timed(ask, repeats) for name, (ask, repeats) in questions.items()}


def _timed(ask: Callable[[], object], repeats: int) -> dict[str, float]:
    costs = [cost_of(ask) for _ in range(repeats)]
    wall = sorted(cost.wall_s * 1e3 for cost in costs)
    return {"ms": median(wall), "best ms": wall[0], "CPU ms": median(cost.cpu_s * 1e3 for cost in costs)}


def _expect(hits: tuple[object, ...], count: int) -> None:
    assert len(hits) == count, f"{len(hits)} hits, and not {count}"


def _made_of_common() -> str:
    """A text that no step holds, of letters that follow each other in every block: nothing can be left out unread."""
    return f"{WORDS[0]} {WORDS[1]} {WORDS[0]} {WORDS[1]} {WORDS[0]} {WORDS[1]} {WORDS[0]} {WORDS[1]}"


def _sizes(root: Path, scratch: Path, count: int) -> dict[str, Any]:
    """Bytes a step here, and of the first thousand trajectories elsewhere."""
    sealed = {path.name: path.stat().st_size for path in (root / "runs" / RUN / "sealed").iterdir()}
    sample = [_trajectory(n) for n in range(min(SAMPLE, count))]
    steps = len(sample) * STEPS
    written = {"JSONL": sum(len(_json_line(n)) for n in range(len(sample))) / steps}
    for name, title in (("inspect", ".eval"), ("atif", "ATIF")):
        written[title] = _exported(name, sample, scratch / title.strip(".")) / steps
    mine = {"sealed": sum(sealed.values()) / (count * STEPS)}
    mine |= {f"of that {name}": size / (count * STEPS) for name, size in sorted(sealed.items())}
    return {"bytes a step": mine | written}


def _exported(name: str, sample: list[Trajectory], target: Path) -> int:
    from assay.formats.interface import ExportContext
    from assay.formats.registry import load_format

    writing = ExportContext(read_blob=lambda _: b"", report_loss=lambda _: None)
    load_format(name).write(sample, target, writing)
    files = [target] if target.is_file() else [path for path in target.rglob("*") if path.is_file()]
    return sum(path.stat().st_size for path in files)


def _json_line(number: int) -> bytes:
    import msgspec

    return msgspec.json.encode({"attempt": _name(number), "events": _bodies(number)}) + b"\n"


def _trajectory(number: int) -> Trajectory:
    bodies = _bodies(number)
    started = next(body for body in bodies if isinstance(body, AttemptStarted))
    verdicts = tuple(body.verdict for body in bodies if isinstance(body, VerdictAdded))
    return Trajectory(
        run=RUN,
        attempt=started.attempt,
        chain=f"{started.attempt}.0",
        task=started.task,
        task_digest=started.task_digest,
        agent=started.agent,
        model=started.model,
        seed=started.seed,
        number=started.number,
        retry=0,
        started=started,
        finished=next(body for body in bodies if isinstance(body, AttemptEnded)),
        isolation=None,
        steps=tuple(body.step for body in bodies if isinstance(body, StepAdded)),
        calls=(),
        evidence=(),
        verdicts=verdicts,
        notes=(),
        head="",
        length=len(bodies),
        outcome=verdicts[0].status,
    )


def _name(number: int) -> str:
    return f"task-{number % TASKS:04d}@{number // TASKS}"


def _bodies(number: int) -> list[Body]:
    """20 steps with a command and about 800 bytes of output. One trajectory in 5,000 holds the rare word."""
    draw = random.Random(number)
    task, at = f"task-{number % TASKS:04d}", float(number)
    started = AttemptStarted(RUN, _name(number), task, "blake3:" + "1" * 64, "a", "m", number, number // TASKS, at=at)
    steps = [
        StepAdded(_step(draw, index, at + index, rare=number % EVERY == 3 and index == 7)) for index in range(STEPS)
    ]
    status: VerdictStatus = "pass" if draw.random() < 0.4 else "fail"
    verdict = VerdictAdded(Verdict("tests", "outcome", status, float(status == "pass"), "counted"))
    return [started, *steps, verdict, AttemptEnded("done", metrics={"wall_s": 20.0}, at=at + 20)]


def _step(draw: random.Random, index: int, at: float, *, rare: bool) -> Step:
    words = draw.choices(WORDS, cum_weights=WEIGHTS, k=150)
    own = f"{draw.getrandbits(64):016x} {draw.randrange(10_000)}"
    output = "\n".join(" ".join(words[start : start + 12]) for start in range(0, 130, 12)) + f"\n{own}"
    if rare:
        output += f" {NEEDLE}"
    command = {"command": " ".join(words[130:138])}
    call = ToolCall(f"c{index}", "shell", json.dumps(command), command)
    seen = Observation(output, f"c{index}", int(draw.random() < 0.3), duration_s=0.5)
    return Step(index, "agent", " ".join(words[138:]), None, (call,), (seen,), started=at, ended=at + 0.5)


def table(found: dict[str, Any]) -> str:
    """The result as Markdown."""
    keys = ("ms", "best ms", "CPU ms")
    read = [(name, PROMISES.get(name, "-"), *(cost[k] for k in keys)) for name, cost in found["read"].items()]
    sizes = list(found["bytes a step"].items())
    made = list(found["made"].items())
    parts = [
        f"{found['attempts']:,} trajectories, {found['steps']:,} steps",
        markdown_table(("asked of the sealed run", "promised ms", "median ms", "best ms", "CPU ms"), read),
        markdown_table(("bytes a step", "bytes"), sizes),
        *([markdown_table(("making it", ""), made)] if made else []),
    ]
    return "\n\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks._analysis_store", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, metavar="X", help="times 100,000 trajectories")
    parser.add_argument("--folder", type=Path, help="keep the store here, and measure what lies there")
    given = parser.parse_args()
    began = time.perf_counter()
    print(table(measure_store(given.scale, given.folder)))
    facts = machine_facts()
    print(f"\n{facts['cpu']}, {facts['cores']} cores, load {facts['load']:.1f}; {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
