"""Do composite tools save calls and keep success? `docs/experiments/composite-tools.md` has the plan and the results.

For each application of the family `services` the rule-driven solver makes attempts at tasks of one seed; composite
tools are mined in its passes and executed again; then it does tasks of another seed, with and without the tools, with
the same draws. A call is what the agent asks for: a composite counts once, whatever it expands to.

Set before the runs: 24 tasks of each application; no application passes fewer tasks with the tools; at least 10% fewer
calls in four applications of six. Second series, without bars: a tool may end in a change (`--writes`).

    python -m experiments.composite_tools --record
    python -m experiments.composite_tools --writes --record
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from assay.errors import UserError
from assay.learning.skills.composites import MinedSkill, mine_skill
from assay.learning.skills.folder import validate_skill, write_skill
from assay.learning.skills.mining_config import MiningConfig
from assay.learning.trainer.rollouts import complete_run
from assay.records import Trajectory
from assay.rollout import RunConfig, Tally
from assay.settings import Settings
from assay.statistics import format_p_value, sign_flip_test
from assay.store import RunStore, final_rows
from assay.verdicts import trust_of

from ._paired import mean_cell
from ._results import Bar, Recording, Table
from ._running import make_parser, open_recording, open_store

SEED, WRITES_SEED, TASKS = 301, 311, 24
"""Seeds of the tasks that are mined; held-out tasks have the next."""
APPS = ("airline", "bank", "console", "mail", "shop", "tracker")
AGENT = "tests.synthesis.services.solver_agent:SolverAgent"


class Outcome(NamedTuple):
    """One attempt on a held-out task."""

    passed: bool
    calls: int
    """Calls that the agent asked for."""
    made: int
    """Calls that the environment received."""
    stopped: int
    """Composites that stopped before their end."""


def read_outcome(trajectory: Trajectory) -> Outcome:
    """Counts an attempt's calls; a composite is one call of the agent."""
    made = sum(len(step.tool_calls) for step in trajectory.steps if step.actor == "agent")
    composites = [one.data for one in trajectory.evidence if one.kind == "composite_call"]
    asked = made - sum(one["done"] - 1 for one in composites)
    return Outcome(trust_of(trajectory).trusted, asked, made, sum("problem" in one for one in composites))


async def make_run(settings: Settings, run: str, tasks: str, skill: str = "") -> dict[str, Outcome]:
    """Makes one run of the solver and returns the outcome of each task."""
    options = {"skill": skill} if skill else {}
    config = RunConfig(tasks=(tasks,), agent=AGENT, agent_options=options, run=run, concurrency=2)
    await complete_run(config, settings)
    with RunStore.open(settings.store, run) as store:
        return {row.task: read_outcome(store.trajectory(row.chain)) for row in final_rows(store.attempts())}


class AppResult(NamedTuple):
    """One application: outcomes of the mined run, and of held-out tasks with and without tools, by task."""

    app: str
    first: dict[str, Outcome]
    mined: MinedSkill | None
    """None where no sequence could be mined."""
    plain: dict[str, Outcome]
    composite: dict[str, Outcome]

    @property
    def saved(self) -> list[float]:
        """Calls saved at each task."""
        return [float(self.plain[task].calls - self.composite[task].calls) for task in self.plain]

    @property
    def share(self) -> float:
        """Share of calls that is saved."""
        return sum(self.saved) / sum(one.calls for one in self.plain.values()) if self.plain else 0.0

    @property
    def flips(self) -> list[int]:
        """1 for a task that is gained with the tools, -1 for one that is lost."""
        return [self.composite[task].passed - self.plain[task].passed for task in self.plain]


async def measure_app(settings: Settings, app: str, seed: int, *, writes: bool) -> AppResult:
    """Mines tools of an application and tries them on held-out tasks."""
    family = f"family:services,app={app},kind=mixed,n={TASKS}"
    first = await make_run(settings, f"{app}-mined", f"{family},seed={seed}")
    config = MiningConfig(runs=(f"{app}-mined",), name=f"{app}-tools", writes=writes)
    try:
        mined = await mine_skill(config, settings, Tally())
    except UserError:
        return AppResult(app, first, None, {}, {})
    folder = settings.store / "skills-out" / f"{app}-tools"
    write_skill(mined.skill, folder)
    assert validate_skill(mined.skill) == ()
    held = f"{family},seed={seed + 1}"
    plain = await make_run(settings, f"{app}-plain", held)
    return AppResult(app, first, mined, plain, await make_run(settings, f"{app}-composite", held, str(folder)))


def app_row(one: AppResult) -> list[str]:
    """Returns the row of an application."""
    first = f"{sum(seen.passed for seen in one.first.values())} of {len(one.first)}"
    if one.mined is None:
        return [one.app, first, "none mined", *["-"] * 6]
    plain, composite = list(one.plain.values()), list(one.composite.values())
    return [
        one.app,
        first,
        f"{sum(tool.is_offered for tool in one.mined.tools)} of {len(one.mined.tools)}",
        f"{sum(seen.passed for seen in plain)}, {sum(seen.passed for seen in composite)}",
        f"{one.flips.count(1)}, {one.flips.count(-1)}",
        f"{fmean(seen.calls for seen in plain):.1f}",
        f"{fmean(seen.calls for seen in composite):.1f}",
        f"{one.share:.0%}",
        f"{fmean(seen.made for seen in composite):.1f}",
    ]


def report(found: Sequence[AppResult], recording: Recording, *, has_bars: bool) -> None:
    """Reports the applications, all together, the tools, and the bars."""
    saved = [calls for one in found for calls in one.saved]
    most, stopped = (
        max(1.0, max(map(abs, saved))),
        sum(seen.stopped for one in found for seen in one.composite.values()),
    )
    together = [
        ["held-out tasks", str(len(saved))],
        ["calls saved a task [95%]", mean_cell([one / most for one in saved], most, 2)],
        ["one-sided p", format_p_value(sign_flip_test(saved), digits=4)],
        ["composites that stopped before their end", str(stopped)],
    ]
    tools = []
    for one in found:
        for tool in () if one.mined is None else one.mined.tools:
            mined, verdict = tool.mined, tool.problem or "offered"
            tools.append([f"{one.app}: {mined.tool.name}", str(len(mined.occurrences)), str(mined.tasks), verdict])
    columns = ["application", "mined in", "offered", "passed: without, with", "gained, lost", "calls", "with", "saved"]
    tables = {
        "applications": Table([*columns, "made"], [app_row(one) for one in found]),
        "together": Table(["all applications", "measured"], together),
        "tools": Table(["tool", "occurrences", "tasks", "executed again"], tools),
    }
    fewer = sum(sum(one.flips) < 0 for one in found)
    enough = sum(one.share >= 0.1 for one in found)
    bars = [
        Bar("no application passes fewer tasks", f"{fewer} of {len(found)} do", not fewer),
        Bar("at least 10% fewer calls in four applications of six", f"in {enough} of {len(found)}", enough >= 4),
    ]
    recording.write(tables, bars if has_bars else [])


async def measure(settings: Settings, seed: int, *, writes: bool) -> list[AppResult]:
    """Measures every application."""
    return [await measure_app(settings, app, seed, writes=writes) for app in APPS]


def main() -> None:
    """Measures every application."""
    parser = make_parser(__doc__)
    parser.add_argument("--writes", action="store_true", help="the second series: a tool may end in a change")
    given = parser.parse_args()
    name, words, seed = "composite-tools", "composite_tools", SEED
    if given.writes:
        name, words, seed = f"{name}-writes", f"{words} --writes", WRITES_SEED
    recording = open_recording(name, words, given, __doc__, [seed])
    with open_store(given.store) as settings:
        report(asyncio.run(measure(settings, seed, writes=given.writes)), recording, has_bars=not given.writes)


if __name__ == "__main__":
    main()
