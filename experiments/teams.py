"""Teams: what a channel buys, and whether forks find who contributed (results: `docs/experiments/teams.md`).

Every cell is an ordinary run at the same tasks of `split-constraints`, five run seeds. Acts are calls of the world's
tool, of which every arm has the same number. No agent here asks a model.

Set before the runs: with a channel two actors pass at least 30 points more than without. The bar of credit by forks is
that of `team_credit`.

    python -m experiments.teams channel --record
    python -m experiments.teams credit --record
    python -m experiments.teams advice --record
    python -m experiments.teams designs --record
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import cache
from statistics import fmean
from typing import Any, NamedTuple

import msgspec

from assay.agents.clue_solver import Knowledge, read_clues
from assay.analysis.actor_usage import actor_usage
from assay.environments.worlds.split_constraints import SplitConstraints
from assay.learning.evolution.evolve import evolve
from assay.learning.evolution.recipe import EvolveRecipe
from assay.learning.trainer.rollouts import complete_run
from assay.records import TEAM_SEND, Step, Trajectory
from assay.rollout import RunConfig, Tally
from assay.rollout.rejudge.config import MarginalsConfig
from assay.rollout.rejudge.marginals import Marginal, MarginalsReport, measure_marginals
from assay.settings import Settings
from assay.store import RunStore
from assay.tasks import find_tasks

from ._paired import gain_cells, rate_cell, seed_gains, task_means
from ._results import Bar, Recording, Table
from ._running import make_parser, open_recording, open_store
from .evolution import decision_cells

SEEDS = (1, 2, 3, 4, 5)
TASKS = "family:split-constraints,n=40,variables=5,values=4,seed=21"
CREDIT_TASKS = "family:split-constraints,n=3,variables=5,values=4,parts=3,turns=5,seed=22"
FORKS = (8, 16, 32)
TELL = 0.6
SOLVER = "clue-solver"
Row = dict[str, Any]


class Arm(NamedTuple):
    """One agent with its options."""

    label: str
    agent: str
    options: dict[str, Any]


def _team(*, channel: bool, **options: Any) -> dict[str, Any]:
    roles = [{"name": name, "agent": SOLVER, "options": options} for name in ("one", "two")]
    return {"roles": roles, "channels": [{"name": "table"}] if channel else []}


ARMS = (
    Arm("two actors, no channel", "team", _team(channel=False)),
    Arm("two actors, a channel", "team", _team(channel=True)),
    Arm("two actors, a channel with decoys", "team", _team(channel=True, decoy=True)),
    Arm("one agent, all constraints", SOLVER, {}),
    Arm("one agent, one part", "team", {"roles": [{"name": "one", "agent": SOLVER, "view": 1}]}),
)


def run_name(*parts: object) -> str:
    return "".join(c if c.isalnum() else "-" for c in "-".join(map(str, parts)))


async def make_trajectories(
    label: str, tasks: str, seed: int, settings: Settings, agent: str, options: Row
) -> list[Trajectory]:
    """Makes a run, or reads the one that is there."""
    name = run_name(label, seed)
    config = RunConfig(tasks=(tasks,), run=name, seed=seed, agent=agent, agent_options=options)
    rows = await complete_run(config, settings)
    with RunStore.open(settings.store, name) as store:
        return [store.trajectory(row.chain) for row in rows]


# The channel.


def _stated(made: Trajectory) -> float:
    """Returns the largest share of variables that an actor held for certain, and rightly, at its end."""
    planted = _planted(_worlds(TASKS)[made.task])
    stated = [item.data["values"] for item in made.evidence if item.kind == "stated_values"]
    return max(
        (sum(planted[name] == value for name, value in one.items()) / len(planted) for one in stated), default=0.0
    )


@cache
def _worlds(tasks: str) -> dict[str, SplitConstraints]:
    """Returns the worlds of a family's tasks, by task."""
    found = ((one.task.id, one.task.environment) for one in find_tasks([tasks]))
    return {name: SplitConstraints(spec.parameters, spec.seed) for name, spec in found}


def _planted(world: SplitConstraints) -> dict[str, int]:
    known = _knowledge(world, read_clues(world.render()))
    return known.certain()


def _knowledge(world: SplitConstraints, clues: Sequence[str]) -> Knowledge:
    known = Knowledge("ABCDEFGH"[: world.config.variables], world.config.values)
    known.add(clues)
    return known


def _measures(made: Trajectory) -> dict[str, float]:
    usage = actor_usage(made)
    acts = sum(one.acts for one in usage) if usage else len(made.steps)
    return {
        "passed": float(made.outcome == "pass"),
        "stated": _stated(made),
        "acts": float(acts),
        "turns": float(len(made.steps)),
        "messages": float(sum(one.sent for one in usage)),
    }


Values = dict[tuple[int, str], float]
"""One measure by seed and task."""


async def _compare(arms: Sequence[Arm], settings: Settings, seeds: Sequence[int]) -> tuple[Table, dict[str, Values]]:
    """Returns the table of arms, of which the first is the base, and the passes of each arm."""
    cells: dict[str, dict[str, Values]] = {}
    for arm in arms:
        cell = cells.setdefault(arm.label, {})
        for seed in seeds:
            for made in await make_trajectories(arm.label, TASKS, seed, settings, arm.agent, arm.options):
                for name, value in _measures(made).items():
                    cell.setdefault(name, {})[seed, made.task] = value
    base, rows = cells[arms[0].label]["passed"], []
    for label, cell in cells.items():
        passed = rate_cell(list(task_means(cell["passed"]).values()))
        measures = (("stated", 3), ("acts", 1), ("messages", 1), ("turns", 1))
        means = (f"{fmean(cell[name].values()):.{digits}f}" for name, digits in measures)
        rows.append([label, passed, *gain_cells(cell["passed"], base), *means])
    columns = ["arm", "passed [95%]", f"over {arms[0].label} [95%]", "by seed", "rightly stated", "acts", "messages"]
    return Table([*columns, "turns"], rows), {label: cell["passed"] for label, cell in cells.items()}


async def _channel(settings: Settings, recording: Recording) -> None:
    table, passed = await _compare(ARMS, settings, recording.seeds)
    gains = seed_gains(passed[ARMS[1].label], passed[ARMS[0].label])
    shown = f"{fmean(gains):+.3f}, at least {min(gains):+.3f}"
    bar = Bar("a channel at least 30 points above none", f"{shown} in a seed", fmean(gains) >= 0.3)
    recording.write({"arms": table}, [bar])


async def _advice(settings: Settings, recording: Recording) -> None:
    table, _ = await _compare(ADVICE, settings, recording.seeds)
    recording.write({"arms": table})


# An adviser on a budget.


def _advised(turns: int | None, **adviser: Any) -> dict[str, Any]:
    """Returns a worker with one part, and an adviser with the other that tells a clue a turn and cannot act."""
    options = {"batch": 1, "decoy": adviser.pop("decoy", False)}
    roles = [
        {"name": "adviser", "agent": SOLVER, "tools": [], "options": options, "turns": turns, **adviser},
        {"name": "worker", "agent": SOLVER, "options": {"reread": 1}},
    ]
    channels = [{"name": "advice", "writers": ["adviser"], "readers": ["worker"]}]
    return {"roles": roles, "channels": channels}


ADVICE = (
    Arm("no adviser", "team", _advised(None) | {"absent": ["adviser"]}),
    *(Arm(f"{turns} turns, from the first on", "team", _advised(turns)) for turns in (1, 2, 3, 4)),
    Arm("no budget", "team", _advised(None)),
    Arm("2 turns, every 4th", "team", _advised(2, every=4)),
    Arm("2 turns, after 8", "team", _advised(2, after=8)),
    Arm("2 turns, after 16", "team", _advised(2, after=16)),
    Arm("2 turns of decoys", "team", _advised(2, decoy=True)),
)


# A designer of teams.


def _roles(**options: Any) -> list[dict[str, Any]]:
    return [{"name": name, "agent": SOLVER, "options": options} for name in ("one", "two")]


DESIGNS: dict[str, list[Any]] = {
    "roles": [_roles(decoy=True), _roles(tell=0.3), _roles()],
    "channels": [[], [{"name": "table", "writers": ["one"]}], [{"name": "table"}]],
    "absent": [[], ["two"]],
}


def _design_recipe(method: str, seed: int) -> EvolveRecipe:
    """Returns a search of 256 (designs) or 252 (grid: 18 combinations, 14 tasks) attempts."""
    world = "family:split-constraints,variables=5,values=4"
    search: dict[str, Any] = {"method": method, "seed": seed, "tasks": [f"{world},n=64,seed={seed * 10 + 1}"]}
    if method == "grid":
        search["tasks"] = [f"{world},n=14,seed={seed * 10 + 1}"]
    fields: dict[str, Any] = {
        "name": f"{method}-{seed}",
        "agent": "team",
        "base": {"roles": _roles(tell=0.3), "channels": [], "absent": []},
        "space": DESIGNS,
        "search": search,
        "gate": {"tasks": [f"{world},n=60,seed={seed * 10 + 2}"], "seed": seed},
    }
    return msgspec.convert(fields, EvolveRecipe)


async def _designs(settings: Settings, recording: Recording) -> None:
    rows = []
    for seed in recording.seeds:
        for method in ("designs", "grid"):
            own = msgspec.structs.replace(settings, store=settings.store / method)  # the holdout's budget is each one's
            found = await evolve(_design_recipe(method, seed), own)
            options = found.winner["roles"][0]["options"] or "all"
            ways = [", ".join(one.get("writers", ["both"])) for one in found.winner["channels"]]
            actors = 2 - len(found.winner["absent"])
            rows.append([f"{seed}, {method}", str(options), ways[0] if ways else "none", str(actors)])
            rows[-1] += decision_cells(found)
            print(" | ".join(rows[-1]), flush=True)
    columns = ["seed, method", "winner tells", "writers", "actors", "claimed by the search", "on held-out tasks"]
    recording.write({"searches": Table([*columns, "decision"], rows)})


# Credit by forks.


CREDIT_TEAM: dict[str, Any] = {
    "order": "hand-off",
    "roles": [
        {"name": "one", "agent": SOLVER, "tools": [], "hand_off_to": ["two"], "options": {"tell": TELL, "batch": 1}},
        {"name": "two", "agent": SOLVER, "tools": [], "hand_off_to": ["solver"], "options": {"tell": TELL, "batch": 1}},
        {"name": "solver", "agent": SOLVER, "hand_off_to": []},
    ],
    "channels": [{"name": "table", "writers": ["one", "two"], "readers": ["solver"]}],
}


class Exact:
    """Exact chances of success in the credit team, by enumeration.

    The tellers tell each of their clues with the chance `TELL`; the solver then assigns each variable once, by a random
    one of the assignments that fit, so that it succeeds with the chance 1 / (number of assignments that fit).
    """

    def __init__(self, made: Trajectory, tasks: str = "") -> None:
        self.world = _worlds(tasks or CREDIT_TASKS)[made.task]
        self.parts = [read_clues(self.world.view(part)) for part in (1, 2, 3)]
        self.planted = tuple(_planted(self.world).values())

    def chance(self, told: Sequence[str], open_clues: Sequence[str], current: Sequence[int]) -> float:
        """Returns the chance of success after what was told, with clues yet to be drawn, from an assignment."""
        if any(value not in (0, right) for value, right in zip(current, self.planted, strict=True)):
            return 0.0
        total = 0.0
        for drawn in itertools.product((False, True), repeat=len(open_clues)):
            more = [clue for clue, is_told in zip(open_clues, drawn, strict=True) if is_told]
            known = _knowledge(self.world, [*self.parts[2], *told, *more])
            weight = TELL ** len(more) * (1 - TELL) ** (len(open_clues) - len(more))
            total += weight / len(known.matching(current))
        return total

    def marginals(self, made: Trajectory) -> Iterator[tuple[int, float]]:
        """Yields the exact marginal of each act, by step."""
        for step, with_it, without_it in self.chances(made):
            yield step, with_it - without_it

    def chances(self, made: Trajectory) -> Iterator[tuple[int, float, float]]:
        """Yields the exact chances of success with each act and with a passed turn in its place, by step."""
        told: list[str] = []
        left = {"one": list(self.parts[0]), "two": list(self.parts[1])}
        current = [0] * len(self.planted)
        for step in made.steps:
            actor = step.actor_name or ""
            before = (list(told), list(current))
            if left.get(actor):
                left[actor].pop(0)
            told += [
                clue
                for call in step.tool_calls
                if call.name == TEAM_SEND
                for clue in read_clues((call.parsed or {})["text"])
            ]
            _assign(step, current)
            if step.tool_calls:
                rest = [clue for clues in left.values() for clue in clues]
                yield step.index, self.chance(told, rest, current), self.chance(before[0], rest, before[1])


def _assign(step: Step, current: list[int]) -> None:
    for call in step.tool_calls:
        if call.name == "assign" and call.parsed is not None:
            current["ABCDEFGH".index(call.parsed["variable"])] = call.parsed["value"]


def spearman(one: Sequence[float], other: Sequence[float]) -> float:
    """Returns the rank correlation; equal values share their mean rank. 0 where all values of one side are equal."""
    from scipy.stats import spearmanr

    if len(set(one)) < 2 or len(set(other)) < 2:
        return 0.0
    return float(spearmanr(one, other).statistic)


class Scores(NamedTuple):
    """One seed's rank correlations with the exact marginals, and what the estimates cost."""

    acts: float
    messages: float
    shared: float
    units: int
    report: MarginalsReport


async def _credit_seed(seed: int, forks: int, settings: Settings) -> Scores:
    made = await make_trajectories("credit", CREDIT_TASKS, seed, settings, "team", CREDIT_TEAM)
    exact = {(one.attempt, step): value for one in made for step, value in Exact(one).marginals(one)}
    outcome = {one.attempt: float(one.outcome == "pass") for one in made}
    report = await measure_marginals(run_name("credit", seed), MarginalsConfig(forks=forks), settings, Tally())
    found = [one for one in report.marginals if one.marginal is not None and one.step is not None]
    told = [one for one in found if one.act.startswith(TEAM_SEND)]

    def correlation(units: Sequence[Marginal], estimates: Sequence[float]) -> float:
        return spearman(estimates, [exact[one.attempt, one.step or 0] for one in units])

    return Scores(
        correlation(found, [one.marginal or 0.0 for one in found]),
        correlation(told, [one.marginal or 0.0 for one in told]),
        correlation(found, [outcome[one.attempt] for one in found]),
        len(found),
        report,
    )


async def _credit(settings: Settings, recording: Recording) -> None:
    rows = []
    for forks in FORKS:
        scores = [await _credit_seed(seed, forks, settings) for seed in recording.seeds]
        columns = [[getattr(one, name) for one in scores] for name in ("acts", "messages", "shared")]
        shown = [f"{fmean(column):.3f}, {min(column):.3f}" for column in columns]
        reports = [one.report for one in scores]
        cost = [sum(getattr(one, name) for one in reports) for name in ("continuations", "turns", "cpu_s")]
        counts = [f"{cost[0]:,}", f"{cost[1]:,}", f"{cost[2]:.0f}"]
        rows.append([str(forks), str(sum(one.units for one in scores)), *shown, *counts])
    named = ["forks of each side", "acts", "all acts: mean, least seed", "messages alone", "shared outcome"]
    recording.write({"forks": Table([*named, "continuations", "their turns", "CPU-s"], rows)})


PARTS: dict[str, Callable[[Settings, Recording], Coroutine[Any, Any, None]]] = {
    "channel": _channel,
    "credit": _credit,
    "advice": _advice,
    "designs": _designs,
}


def main() -> None:
    """Runs one part."""
    given = make_parser(__doc__, list(PARTS), SEEDS).parse_args()
    name = "team-credit-8-to-32" if given.part == "credit" else f"team-{given.part}"
    recording = open_recording(name, f"teams {given.part}", given, __doc__, SEEDS)
    with open_store(given.store) as settings:
        asyncio.run(PARTS[given.part](settings, recording))


if __name__ == "__main__":
    main()
