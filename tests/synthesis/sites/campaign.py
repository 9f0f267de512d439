"""200 tasks on sites in a real Chromium: 20 of each application, and 8 of each of ten sites from state machines.

    python -m tests.synthesis.sites.campaign [--share N] [--seed S] [--only GROUP] [--out FILE]

Per task: the reference plan by links and forms passes, with the calls, the changes and the digest of the same plan by
tools; an untouched world does not pass, and neither does a random walker. Of every fourth task the walker and the plan
are forked at a drawn act: the state goes through bytes into a new world in a new context, and both go on with the same
acts, which must be shown the same pages and end in the same state. The results name the user who ran it (`uid`) and
those of the browser's processes (`browser_uids`).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from assay.environments.browser.picture_options import SITE
from assay.environments.browser.pool import close_browsers
from assay.environments.browser.site_world import SiteWorld
from assay.environments.services.plans import play
from assay.records import Task, ToolCall
from assay.synthesis.services.family import ServiceTasks
from assay.synthesis.sites.domains import DOMAINS
from assay.synthesis.sites.family import SiteTasks
from assay.verify.answer_check import AnswerCheck
from assay.verify.interface import WorldCheck, WorldInput
from assay.verify.service_checks import PolicyCheck
from assay.verify.state_check import StateCheck

APPS: Final = ("airline", "bank", "console", "mail", "shop", "tracker")
RESULTS: Final = Path(__file__).with_name("results.json")
OF_AN_APP, OF_A_SITE = 20, 8
WALKED: Final = 30
"""Acts of the random walker."""
FORK_EVERY: Final = 4
CONCURRENT: Final = 3
"""Tasks that share the browser at a time."""
CHECKS: Final[dict[str, WorldCheck]] = {"state": StateCheck(), "policy": PolicyCheck(), "answer": AnswerCheck()}
"""The checks that decide the outcome."""
NextAct = Callable[[SiteWorld], ToolCall | None]


class Trial(NamedTuple):
    """A task and how it is played."""

    task: Task
    number: int
    has_fork: bool


def trials(seed: int, group: str, most: int | None = None) -> Iterator[Trial]:
    """Yields the trials of an application or a site, the first ones alone if `most` is given. Half of the tasks of a
    site begin in any of its states."""
    if group in APPS:
        tasks = ServiceTasks(app=group, level="explicit", interface="pages").tasks(most or OF_AN_APP, seed)
    else:
        half = most or OF_A_SITE // 2
        first = SiteTasks(site=group).tasks(half, seed)
        tasks = (*first, *SiteTasks(site=group, start="any", least=3).tasks(half, seed))
    for number, task in enumerate(tasks[:most]):
        yield Trial(task, number, number % FORK_EVERY == seed % FORK_EVERY)


async def play_trial(trial: Trial, seed: int, walked: int = WALKED) -> dict[str, Any]:
    """Returns the figures of a task; `failures` lists what breaks a promise."""
    task, failures = trial.task, list[str]()
    began = time.monotonic()
    found: dict[str, Any] = {"task": task.id, "oracle": False, "null": False, "walker": False, "forks": 0, "acts": 0}
    draw = random.Random(f"{seed}/{task.id}")
    async with opened(task, trial.number) as world:
        found["null"] = await passes(task, world)
        by_tools = play(world.service, world.service.plan)
        fork_at = draw.randrange(1, len(world.service.plan) + 1) if trial.has_fork else None
        found["acts"], broken = await follow(world, trial, lambda one: one.advice(), None, fork_at)
        failures += [f"fork of the plan: {problem}" for problem in broken]
        found["oracle"] = await passes(task, world)
        if await world.digest() != by_tools.database.digest() or world.service.calls != by_tools.calls:
            failures.append("the plan by pages ends otherwise than by tools")
    async with opened(task, trial.number) as world:
        fork_at = draw.randrange(1, walked) if trial.has_fork else None
        drawn = Draws(draw.randrange(1 << 32))
        _, broken = await follow(world, trial, drawn.next_act, walked, fork_at)
        failures += [f"fork of a walk: {problem}" for problem in broken]
        found["walker"] = await passes(task, world)
    found["forks"] = 2 if trial.has_fork else 0
    failures += [] if found["oracle"] else ["the reference plan does not pass"]
    failures += ["doing nothing passes"] if found["null"] else []
    return {**found, "seconds": round(time.monotonic() - began, 1), "failures": failures}


class Draws:
    """Draws of a walker that depend on the number of acts of its world alone, so that a fork draws the same."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.done: Counter[int] = Counter()

    def next_act(self, world: SiteWorld) -> ToolCall | None:
        """Returns the next random act in a world."""
        number = self.done[id(world)]
        self.done[id(world)] += 1
        return world.any_act(random.Random(f"{self._seed}/{number}"))


@asynccontextmanager
async def opened(task: Task, theme: int, state: bytes | None = None) -> AsyncIterator[SiteWorld]:
    """Opens the world of a task, or restores a state of it."""
    site = {"theme": theme, "pictures": False}
    world = SiteWorld({**task.environment.parameters, SITE: site}, task.environment.seed)
    try:
        if state is not None:
            world.restore(state)
            await world.open()
        yield world
    finally:
        await world.close()


async def follow(
    world: SiteWorld, trial: Trial, next_act: NextAct, most: int | None, fork_at: int | None
) -> tuple[int, list[str]]:
    """Does acts until there are no more; with a fork from then on in both. Returns their number and what differed."""
    acts, state = 0, None
    later: list[tuple[ToolCall, str]] = []
    digest_then, calls_then = None, 0
    while (most is None or acts < most) and (call := next_act(world)) is not None:
        seen = await world.call(call.name, call.parsed or {})
        acts += 1
        if state is not None:
            later.append((call, seen.content))
        if acts == fork_at:
            state, calls_then, digest_then = world.snapshot(), len(world.service.calls), await world.digest()
    if state is None:
        return acts, [] if fork_at is None else ["it ended before it was forked"]
    problems = []
    async with opened(trial.task, trial.number, state) as fork:
        if len(fork.service.calls) != calls_then or await fork.digest() != digest_then:
            problems.append("restoring it called something")
        if isinstance(owner := getattr(next_act, "__self__", None), Draws):
            owner.done[id(fork)] = acts - len(later)
        for number, (call, seen_then) in enumerate(later):
            again = next_act(fork)
            if again is None or (again.name, again.parsed) != (call.name, call.parsed):
                problems.append(f"act {number} after it is another: {call.name}, {again}")
                break
            seen = await fork.call(call.name, call.parsed or {})
            if seen.content != seen_then:
                problems.append(f"after act {number} ({call.name} {call.parsed}) it is shown another page")
                break
        if await fork.digest() != await world.digest():
            problems.append("it ends in another state")
    return acts, problems


async def passes(task: Task, world: SiteWorld) -> bool:
    """Returns whether all checks that decide the outcome pass."""
    facts = world.facts()
    for check in task.checks:
        if check.kind in CHECKS:
            result = await CHECKS[check.kind].judge_world(WorldInput(task, check, facts, await world.digest()))
            if result.verdict.status != "pass":
                return False
    return True


async def measure(group: str, seed: int, share: int) -> dict[str, Any]:
    """Returns the figures of an application or site; one of `share` tasks is played."""
    turn = asyncio.Semaphore(CONCURRENT)

    async def played(trial: Trial) -> dict[str, Any]:
        async with turn:
            return await play_trial(trial, seed)

    async with asyncio.TaskGroup() as tasks:
        playing = [tasks.create_task(played(one)) for one in trials(seed, group) if one.number % share == 0]
    rows = [one.result() for one in playing]
    return {
        "group": group,
        "tasks": len(rows),
        **{name: sum(row[name] for row in rows) for name in ("oracle", "null", "walker", "forks", "acts")},
        "seconds": round(sum(row["seconds"] for row in rows), 1),
        "failures": [f"{row['task']}: {failure}" for row in rows for failure in row["failures"]],
    }


def find_users() -> dict[str, Any]:
    """Returns the user who runs this, and those of the browser's processes, as this process sees them."""
    statuses: dict[int, dict[str, str]] = {}
    for file in Path("/proc").glob("[0-9]*/status"):
        with suppress(OSError):  # it ended meanwhile
            statuses[int(file.parent.name)] = dict(
                line.split(":", 1) for line in file.read_text().splitlines() if ":" in line
            )
    ours = {os.getpid()}
    while more := {pid for pid, status in statuses.items() if int(status["PPid"]) in ours} - ours:
        ours |= more
    found = set[int]()
    for pid in ours & statuses.keys():
        with suppress(OSError):
            if b"--remote-debugging-pipe" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                found.add(int(statuses[pid]["Uid"].split()[0]))
    return {"uid": os.getuid(), "browser_uids": sorted(found)}


async def run(groups: tuple[str, ...], seed: int, share: int, out: Path) -> bool:
    """Plays all groups and writes the results; returns whether every bar is met."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    names = ("tasks", "oracle", "null", "walker", "forks", "acts", "seconds")
    sys.stdout.write(f"{'site':10}" + "".join(f"{name:>9}" for name in names) + "\n")
    rows: list[dict[str, Any]] = []
    users: dict[str, Any] = {}
    try:
        for group in groups:
            rows.append(await measure(group, seed, share))
            users = users or find_users()
            sys.stdout.write(f"{group:10}" + "".join(f"{rows[-1][name]:>9}" for name in names) + "\n")
            sys.stdout.writelines(f"  {failure}\n" for failure in rows[-1]["failures"])
            sys.stdout.flush()
            sums = {name: round(sum(row[name] for row in rows), 1) for name in names}
            found = {"commit": commit, "seed": seed, "share": share, **users, "all": sums, "groups": rows}
            out.write_text(json.dumps(found, indent=1) + "\n")
    finally:
        await close_browsers()
    return not any(row["failures"] for row in rows) and sum(row["walker"] for row in rows) < 0.05 * sum(
        row["tasks"] for row in rows
    )


def main() -> int:
    groups = (*APPS, *(domain.name for domain in DOMAINS))
    parser = argparse.ArgumentParser(prog="python -m tests.synthesis.sites.campaign", description=__doc__)
    parser.add_argument("--share", type=int, default=1, help="play one of so many tasks")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=groups, action="append", help="an application or site; repeatable")
    parser.add_argument("--out", type=Path, default=RESULTS, help="the result, a JSON file")
    given = parser.parse_args()
    return 0 if asyncio.run(run(tuple(given.only or groups), given.seed, given.share, given.out)) else 1


if __name__ == "__main__":
    sys.exit(main())
