"""Makes 50 tasks of each application and tries what the family promises, on the ordinary rollout and admission.

    python -m tests.synthesis.services.campaign [--tasks N] [--seed S] [--only APP] [--out FILE]

Per application: the reference solution passes every task; doing nothing, talking and the calls of another seed pass
none; the same seed makes the same tasks; no two are near-duplicates; admission admits all of them. Then dialogues: who
asks for what they need reaches the goal, in the same words each time, and the first message never suffices.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from assay.admission.battery import admit
from assay.admission.config import AdmitConfig
from assay.admission.probes import BLIND
from assay.environments.services.plans import PlannedCall
from assay.environments.services.users import UserScript
from assay.environments.services.world import ServiceWorld
from assay.records import Task
from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings
from assay.statistics import wilson
from assay.store import RunStore
from assay.synthesis.services.family import ServiceTasks
from assay.synthesis.services.similarity import is_near, word_triples
from assay.tasks import LoadedTask
from assay.verify.interface import WorldInput
from assay.verify.state_check import StateCheck

APPS = ("airline", "bank", "console", "mail", "shop", "tracker")
RESULTS = Path(__file__).with_name("results.json")


def measure(app: str, count: int, seed: int, dialogues: int, cache: Path) -> dict[str, Any]:
    """Returns the figures of one application; `failures` lists what breaks a promise."""
    tasks = ServiceTasks(app=app, kind="mixed").tasks(count, seed)
    failures = [] if ServiceTasks(app=app, kind="mixed").tasks(count, seed) == tasks else ["a seed makes other tasks"]
    if len(tasks) < count:
        failures.append(f"only {len(tasks)} of {count} tasks were made")
    passed = {}
    with tempfile.TemporaryDirectory() as store:
        settings = Settings(cache=cache, store=Path(store))
        for agent in ("oracle", "null"):
            passed[agent] = asyncio.run(_passes(app, count, seed, agent, settings))
        admitted = asyncio.run(admit_all(tasks, settings))
    failures += [f"not admitted: {task}" for task, found in admitted.items() if not found["admitted"]]
    near = list(_near_duplicates(tasks))
    failures += [f"near-duplicates: {one} and {two}" for one, two in near]
    personas = ServiceTasks(app=app, level="persona").tasks(dialogues, seed)
    goals = [_dialogue(task) for task in personas]
    failures += [f"dialogue: {task.id}: {goal}" for task, goal in zip(personas, goals, strict=True) if goal]
    blind = sum(found["blind"] == "pass" for found in admitted.values())
    talk = sum(found["talk"] for found in admitted.values())
    sensitivity = [found["sensitivity"] for found in admitted.values() if found["sensitivity"] is not None]
    mutants = [sum(found[name] for found in admitted.values()) for name in ("rejected", "tried")]
    wrong = passed["oracle"] != len(tasks) or passed["null"] or blind > 0.02 * len(tasks) or talk
    return {
        "app": app,
        "tasks": len(tasks),
        "kinds": {kind: sum(kind in task.tags for task in tasks) for kind in ("impossible", "forbidden", "ambiguous",
                                                                              "question")},
        "levels": {level: sum(level in task.tags for task in tasks) for level in ("explicit", "implicit", "persona")},
        "given": round(statistics.mean(float(str(task.metadata["given"])) for task in tasks), 3),
        "oracle": passed["oracle"],
        "null": passed["null"],
        "blind_replay": blind,
        "talk": talk,
        "admitted": sum(found["admitted"] for found in admitted.values()),
        "weak": sum(found["weak"] for found in admitted.values()),
        "sensitivity": {"median": statistics.median(sensitivity), "mutants": mutants, "interval": wilson(*mutants)},
        "dialogues": len(personas),
        "reached": sum(not goal for goal in goals),
        "failures": failures + (["a bar is not met"] if wrong else []),
    }  # fmt: skip


async def _passes(app: str, count: int, seed: int, agent: str, settings: Settings) -> int:
    family = f"family:services,app={app},kind=mixed,n={count},seed={seed}"
    done = await start_run(RunConfig(tasks=(family,), agent=agent, run=f"{app}-{agent}"), settings, Tally())
    with RunStore.open(done.store, done.run) as store:
        return sum(row.outcome == "pass" for row in store.attempts())


async def admit_all(tasks: Sequence[Task], settings: Settings) -> dict[str, dict[str, Any]]:
    """Returns by task what admission found."""
    config = AdmitConfig(tasks=("given",), run="admission", n=1)
    done = await admit(config, settings, Tally(), tasks=[LoadedTask(task, None) for task in tasks])
    found = {}
    for report in done.reports:
        outcomes = {probe.probe: probe.outcome for probe in report.probes}
        judged = report.sensitivity
        found[report.task] = {
            "admitted": report.is_admitted,
            "weak": sum(one.severity == "weak" for one in report.findings),
            "blind": outcomes.get(BLIND),
            "talk": any(
                outcome == "pass" for probe, outcome in outcomes.items() if probe.endswith(("talk", "guesses"))
            ),
            "sensitivity": None if judged is None else judged.worst,
            "rejected": 0 if judged is None else judged.rejected,
            "tried": 0 if judged is None else judged.tried - judged.equivalent,
        }
    return found


def _near_duplicates(tasks: Sequence[Task]) -> Iterator[tuple[str, str]]:
    shingles = [(task.id, word_triples(task)) for task in tasks]
    for at, (one, first) in enumerate(shingles):
        for two, second in shingles[at + 1 :]:
            if is_near(first, [second]):
                yield one, two


def _dialogue(task: Task) -> str:
    """Asks for each fact, and then carries the plan out; returns what is wrong with the conversation, '' if nothing."""
    parameters = task.environment.parameters
    script = msgspec.convert(parameters["knobs"]["conversation"]["script"], UserScript)
    plan = msgspec.convert(parameters["plan"], tuple[PlannedCall, ...])
    said = []
    for _ in range(2):
        world = ServiceWorld(parameters, task.environment.seed)
        words = [world.act("read_messages", {}).content]
        if any(fact.text in words[0] for fact in script.facts):
            return "the first message says what must be asked for"
        for _ in range(8):
            missing = [fact for fact in script.facts if fact.text not in " ".join(words)]
            if not missing:
                break
            question = f"Which {missing[0].cues[0]} do you mean?"
            words.append(world.act("send_message", {"text": question}).content)
        if missing:
            return f"was not told: {missing[0].text}"
        for call in plan:
            if world.act(call.action, call.arguments).error:
                return f"{call.action} was refused"
        check = next(check for check in task.checks if check.kind == "state")
        given = WorldInput(task, check, world.facts(), None)
        if asyncio.run(StateCheck().judge_world(given)).verdict.status != "pass":
            return "the goal was not reached"
        said.append(words)
    return "" if said[0] == said[1] else "the same seed said other words"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.synthesis.services.campaign", description=__doc__)
    parser.add_argument("--tasks", type=int, default=50, help="tasks of an application")
    parser.add_argument("--dialogues", type=int, default=170, help="conversations of an application")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="one application")
    parser.add_argument("--out", type=Path, default=RESULTS, help="the result, a JSON file")
    given = parser.parse_args()
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    rows: list[dict[str, Any]] = []
    names = ("tasks", "oracle", "null", "blind_replay", "talk", "admitted", "weak", "dialogues", "reached")
    sys.stdout.write(f"{'application':12}" + "".join(f"{name:>13}" for name in names) + "   sensitivity\n")
    with tempfile.TemporaryDirectory() as cache:
        for app in APPS if given.only is None else (given.only,):
            row = measure(app, given.tasks, given.seed, given.dialogues, Path(cache))
            rows.append(row)
            found = row["sensitivity"]
            low, high = found["interval"]
            shown = f"   {found['median']:.2f}, {found['mutants'][0]}/{found['mutants'][1]} [{low:.3f}, {high:.3f}]"
            sys.stdout.write(f"{app:12}" + "".join(f"{row[name]:>13}" for name in names) + shown + "\n")
            sys.stdout.writelines(f"  {failure}\n" for failure in row["failures"])
            sys.stdout.flush()
            given.out.write_text(
                json.dumps({"commit": commit, "seed": given.seed, "applications": rows}, indent=1) + "\n"
            )
    return 1 if any(row["failures"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
