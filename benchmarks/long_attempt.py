"""CPU a step and memory of one long attempt: constant and linear, or not.

One attempt of many steps runs in process with the scripted model, once through the loop agent and once through an agent
that is a Python function. The world notes the CPU and the resident memory at some steps; what follows the last step
(verdicts, closing the chain) is a row of its own. Each agent runs in a fresh process.

    python -m benchmarks.long_attempt
    python -m benchmarks.long_attempt --steps 100000
    python -m benchmarks.long_attempt --quick
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from assay.agents.functions import FunctionAgent
from assay.environments.schemas import tool_definitions
from assay.gateway.interface import MessageLog, ModelRequest
from assay.records import Check, EnvironmentSpec, Observation, Task, ToolCall, digest_record
from assay.rollout import RunConfig, RunParts, Tally, start_run
from assay.rollout.recording import model_calls
from assay.settings import Settings
from assay.store import RunStore
from assay.tasks import LoadedTask
from benchmarks._counter import ADD, Counter
from benchmarks._measure import own_process
from benchmarks._report import Report, Target, options

HOW = "CPU of the whole process a step over a window of steps, and resident memory at its end; one attempt a process"
COLUMNS = (
    *("agent", "steps", "cpu_ms_per_step", "comparing_ms", "times_reference", "rest_reference"),
    *("resident_mib", "kib_per_step", "own_kib"),
)
WINDOWS = ((1, 100), (901, 1_000), (1_901, 2_000), (4_801, 5_000), (9_501, 10_000), (49_001, 50_000), (99_001, 100_000))
"""First and last step of each window; windows beyond the number of steps are left out."""
SAID = "The counter is not where it should be yet, so I add one to it."
REFERENCE_ROUNDS = 20
LIST = "function, list"
AGENTS = ("loop", "function", LIST)
"""The last asks with a plain list. What of it was sent before may have been changed in place, so the list is compared
with the request before it, message by message. The CPU of that, and the memory of the list itself, are given apart."""


class Mark(NamedTuple):
    """Notes of a step."""

    used_s: float
    comparing_s: float
    """Part of it that went into comparing lists of messages."""
    held_mib: float
    reference_s: float
    """CPU of the reference loop."""


class Clock:
    """Notes CPU and memory at the ends of the windows."""

    def __init__(self) -> None:
        self.marks: dict[int, Mark] = {}
        self.comparing_s = 0.0
        self.own_kib_per_step = 0.0
        """Memory of the agent's own list and of its tool messages."""
        self._wanted = {edge for first, last in WINDOWS for edge in (first - 1, last)}
        self._own_s = 0.0

    def note(self, step: int, *, always: bool = False) -> None:
        """Notes a step, if it is the edge of a window."""
        if not always and step not in self._wanted:
            return
        used = time.process_time() - self._own_s
        reference_s = reference_loop()
        self.marks[step] = Mark(used, self.comparing_s, resident_mib(), reference_s)
        self._own_s = time.process_time() - used


CLOCK = Clock()


class TimedCounter(Counter):
    """Notes the CPU time at each change."""

    def __init__(self, parameters: dict[str, Any], seed: int) -> None:
        super().__init__(parameters, seed)
        CLOCK.note(0)

    async def call(self, name: str, arguments: dict[str, Any]) -> Observation:
        seen = await super().call(name, arguments)
        CLOCK.note(self.value)
        return seen


def reference_loop() -> float:
    """Returns the CPU seconds of a fixed piece of Python work, the least of some rounds."""
    found = []
    for _ in range(REFERENCE_ROUNDS):
        began = time.process_time()
        encoded = json.dumps([{"role": "user", "content": "x" * 100, "at": at} for at in range(100)])
        json.loads(encoded)
        found.append(time.process_time() - began)
    return min(found)


def resident_mib() -> float:
    """Memory held now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * resource.getpagesize() / 2**20


async def count_up(attempt: Any) -> None:
    """Asks for each step with the whole conversation, and acts."""
    await _count_up(attempt, MessageLog([{"role": "user", "content": attempt.task.instruction}]))


async def count_up_in_list(attempt: Any) -> None:
    """Does the same with a plain list, while what it takes to compare the list is noted."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": attempt.task.instruction}]
    compare = model_calls._continued_log

    def timed(*arguments: Any) -> Any:
        began = time.process_time()
        try:
            return compare(*arguments)
        finally:
            CLOCK.comparing_s += time.process_time() - began

    model_calls._continued_log = timed
    try:
        await _count_up(attempt, messages)
    finally:
        model_calls._continued_log = compare
    own = [message for message in messages if message["role"] == "tool"]  # answers are shared with the record
    CLOCK.own_kib_per_step = (sys.getsizeof(messages) + sum(map(sys.getsizeof, own))) / 1024 / len(own)


async def _count_up(attempt: Any, messages: list[dict[str, Any]]) -> None:
    tools = tool_definitions((ADD,))
    for _ in range(attempt.task.environment.parameters["steps"]):
        call, reply = await attempt.ask(ModelRequest(messages, tools))
        messages.append(reply.message)
        made = reply.message["tool_calls"][0]
        arguments = made["function"]["arguments"]
        parsed = ToolCall(made["id"], "add", arguments, json.loads(arguments))
        (observation,) = await attempt.act([parsed], message=reply.message["content"], call=call)
        messages.append({"role": "tool", "tool_call_id": parsed.id, "content": observation.content})


def run_attempt(agent: str, steps: int, folder: Path) -> list[dict[str, Any]]:
    """Runs one attempt and returns its rows."""
    script = folder / "script.json"
    reply = {"content": SAID, "tool_calls": [{"name": "add", "arguments": {"by": 1}}]}
    script.write_text(json.dumps({"replies": [reply], "after": "last"}))
    config = RunConfig(
        tasks=("-",),
        agent="loop",
        agent_options={"max_turns": steps} if agent == "loop" else {},
        model=f"scripted:{script}",
        attempts=1,
        run="long",
    )
    task = Task(
        id="count",
        instruction="Add to the counter, one at a time.",
        environment=EnvironmentSpec(f"{__name__}:TimedCounter", {"steps": steps}),
        checks=(Check("sum", "facts", {"expected": {"value": steps}}),),
        digest=digest_record("count"),
    )
    tally = Tally()
    functions = {"function": count_up, LIST: count_up_in_list}
    own = FunctionAgent(functions[agent], needs_model=True) if agent in functions else None
    settings = Settings(cache=folder, store=folder / "store")
    asyncio.run(start_run(config, settings, tally, tasks=[LoadedTask(task, None)], parts=RunParts(agent=own)))
    if tally.outcomes["pass"] != 1:
        raise SystemExit(f"{tally.outcomes}: the attempt should have passed")
    CLOCK.note(steps + 1, always=True)
    return _rows(agent, steps, folder / "store")


def _rows(agent: str, steps: int, store: Path) -> list[dict[str, Any]]:
    marks, rows = CLOCK.marks, []
    for first, last in WINDOWS:
        if last not in marks:
            continue
        rows.append(_row(agent, f"{first:,}-{last:,}", marks[first - 1], marks[last], last - first + 1))
        rows[-1]["kib_per_step"] = (marks[last].held_mib - marks[0].held_mib) * 1024 / last
        if agent == LIST:
            rows[-1]["own_kib"] = CLOCK.own_kib_per_step
            rows[-1]["ns_per_message"] = rows[-1]["comparing_ms"] * 1e6 / (first + last)  # two a step, half way
    if steps in marks:
        rows.append(_row(agent, "closing, a step", marks[steps], marks[steps + 1], steps))
    with RunStore.open(store, "long") as run:
        (row,) = run.attempts()
    rows[-1] |= {"integrity": row.integrity, "events": row.length}
    return rows


def _row(agent: str, steps: str, before: Mark, after: Mark, count: int) -> dict[str, Any]:
    """Returns the row of a window of `count` steps."""
    used_s, comparing_s = after.used_s - before.used_s, after.comparing_s - before.comparing_s
    return {
        "agent": agent,
        "steps": steps,
        "cpu_ms_per_step": used_s * 1000 / count,
        "comparing_ms": comparing_s * 1000 / count,
        "times_reference": used_s / count / after.reference_s,
        "rest_reference": (used_s - comparing_s) / count / after.reference_s,
        "resident_mib": after.held_mib,
    }


def measure(agent: str, steps: int) -> list[dict[str, Any]]:
    """Runs one attempt in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="long-attempt-") as folder:
        return run_attempt(agent, steps, Path(folder))


def main(arguments: list[str] | None = None) -> Report:
    """Measures, prints, writes."""
    parser = options("long_attempt", "CPU a step and memory of one long attempt.")
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--agent", choices=AGENTS, action="append", help="only this one; repeatable")
    given = parser.parse_args(arguments)
    steps = 1_000 if given.quick else given.steps
    rows = [row for agent in given.agent or AGENTS for row in own_process(measure, agent, steps)[0]]
    report = Report("long_attempt", HOW, rows, _targets(rows), {})
    report.finish(COLUMNS, given.into)
    return report


def _targets(rows: list[dict[str, Any]]) -> list[Target]:
    targets = []
    for agent in dict.fromkeys(row["agent"] for row in rows):
        own = [row for row in rows if row["agent"] == agent and not row["steps"].startswith("closing")]
        grown = own[-1]["rest_reference"] / own[0]["rest_reference"]
        apart = " without comparing" if agent == LIST else ""
        targets.append(Target(f"{agent}: CPU of a late step{apart}, times that of a first one", "times", 1.3, grown))
        held = own[-1]["kib_per_step"] - own[-1].get("own_kib", 0.0)
        apart = " without its own list" if agent == LIST else ""
        targets.append(Target(f"{agent}: memory a step{apart}", "KiB", 2.93, held))
        if agent == LIST:
            targets.append(Target(f"{agent}: comparing a message", "ns", 50.0, own[-1]["ns_per_message"]))
    return targets


if __name__ == "__main__":
    main()
