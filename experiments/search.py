"""Is search over forks better than starting again, at equal acts? `docs/experiments/search.md` has the results.

Each attempt has 300 acts. `restarts` tries again at random and stops as soon as the verifier passes a try; `best-first`
searches over forks by one of three values: novelty, a value learnt from the verified attempts of a novelty search on
other tasks, and the world's own progress. Restarts and progress use privileged knowledge.

Set before the runs: 40 tasks in each of five seeds; best-first by the world's progress passes at least 25 points more
than restarts in two of three worlds, and by a learnt value at least half of that gain.

With `--entropy` the arms are those of entropy-branched search: a policy learnt from the same verified attempts bounds
how many acts are tried in a state. Set before that run: 12 tasks in each of five fresh seeds; at equal acts
entropy-branched search by novelty passes at least 10 points more than best-first by novelty in two of three worlds, and
at least 25 points more than restarts in two of three. The options of the policy were not tuned.

    python -m experiments.search --record
    python -m experiments.search --entropy --record
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import msgspec

from assay.errors import UserError
from assay.learning.policies import learn_policy
from assay.learning.values import learn_value
from assay.settings import Settings

from ._paired import mean_cell, range_cell
from ._results import Bar, Table
from ._running import make_parser, open_recording, open_store
from .combinators import Arm, Cell, run_arm

SEEDS = (1, 2, 3, 4, 5)
ACTS, TASKS = 300, 40
WORLDS = {"adventure,rooms=7,locks=2": 300, "maze": 60, "sokoban": 60}
"""World to the number of tasks that its value is learnt on."""
SEARCH: dict[str, Any] = {"acts": ACTS}
ENTROPY_SEEDS, ENTROPY_TASKS = (11, 12, 13, 14, 15), 12
ENTROPY_WORLDS = {"adventure,rooms=7,locks=2": 60, "maze": 30, "sokoban": 40}
"""World to the number of tasks that its value and its policy are learnt on."""
RESTARTS, NOVELTY, LEARNT = "restarts (verifier stops)", "best-first, novelty", "best-first, learnt"
PROGRESS = "best-first, progress (privileged)"
ENTROPY = "entropy-branched, novelty"


class Learnt(NamedTuple):
    """Files that are learnt in one seed on tasks that no arm sees; None where there is nothing to learn from."""

    value: Path | None
    policy: Path | None
    passes: str


async def _learn(world: str, number: int, seed: int, settings: Settings) -> Learnt:
    """Has a novelty search make other tasks, and learns a value and a policy from that."""
    tasks = f"family:{world},n={number},seed={seed * 1000 + 7}"
    arm = Arm("explored", "best-first", SEARCH)
    await run_arm(arm, tasks, [seed], settings)
    run, files = arm.run_name(tasks, seed), []
    shown = "all"
    for kind in ("value", "policy"):
        file: Path | None = settings.store / f"{kind}-{world.partition(',')[0]}-{seed}.json"
        try:
            if kind == "value":
                learnt = learn_value([run], settings, 0.9)
                made: Any = learnt.value
                shown = f"{learnt.passed} of {learnt.attempts}"
            else:
                made = learn_policy([run], settings).policy
            if file is not None:
                file.write_bytes(msgspec.json.encode(made))
        except UserError:  # every attempt passed, or none did
            file = None
        files.append(file)
    return Learnt(files[0], files[1], shown)


def _arms(learnt: Learnt, *, with_entropy: bool) -> list[Arm]:
    arms = [
        Arm(RESTARTS, f"retry:{ACTS}:random-world", {"judge": "verdict"}, ACTS),
        Arm(NOVELTY, "best-first", SEARCH | {"value": "novelty"}),
    ]
    if learnt.value is not None:
        arms.append(Arm(LEARNT, "best-first", SEARCH | {"value": str(learnt.value)}))
    if not with_entropy:
        return [*arms, Arm(PROGRESS, "best-first", SEARCH | {"value": "progress"})]
    if learnt.policy is None:
        return arms
    policy = SEARCH | {"policy": str(learnt.policy)}
    arms += [
        Arm(ENTROPY, "best-first", policy | {"value": "novelty"}),
        Arm("entropy-branched, confidence", "best-first", policy | {"value": "confidence"}),
    ]
    if learnt.value is not None:
        arms.append(Arm("entropy-branched, learnt", "best-first", policy | {"value": str(learnt.value)}))
    return arms


async def run_world(
    world: str, seeds: Sequence[int], settings: Settings, *, with_entropy: bool
) -> tuple[Table, dict[str, float], list[str]]:
    """Returns the table of a world, the success of each arm, and the passes that what was learnt rests on."""
    cells: dict[str, list[Cell]] = {}
    passes = []
    number = (ENTROPY_WORLDS if with_entropy else WORLDS)[world]
    for seed in seeds:
        tasks = f"family:{world},n={ENTROPY_TASKS if with_entropy else TASKS},seed={seed}"
        learnt = await _learn(world, number, seed, settings)
        passes.append(learnt.passes)
        for arm in _arms(learnt, with_entropy=with_entropy):
            cells.setdefault(arm.label, []).append(await run_arm(arm, tasks, [seed], settings))
        print(f"{world}: seed {seed} is done", flush=True)
    complete = {label: found for label, found in cells.items() if len(found) == len(seeds)}
    base, rows = next(iter(complete.values())), []
    for label, found in complete.items():
        passed = [value for cell in found for value in cell.passed.values()]
        acts = [value for cell in found for value in cell.turns.values()]
        shown = ["-", "-"] if found is base else _gain(found, base)
        rows.append([label, f"{fmean(passed):.3f}", *shown, f"{fmean(acts):.0f}"])
    columns = ["arm", "passed", "gain over restarts [95%]", "by seed", "acts"]
    rates = {label: fmean(v for cell in found for v in cell.passed.values()) for label, found in complete.items()}
    return Table(columns, rows), rates, passes


def _gain(found: Sequence[Cell], base: Sequence[Cell]) -> list[str]:
    pairs = zip(found, base, strict=True)
    differences = [[cell.passed[key] - other.passed[key] for key in cell.passed] for cell, other in pairs]
    return [
        mean_cell([one for several in differences for one in several]),
        range_cell([fmean(one) for one in differences]),
    ]


def make_bars(rates: dict[str, dict[str, float]]) -> list[Bar]:
    """Returns the bars of best-first search, from the success of each arm by world."""
    gains, parts = dict[str, float](), dict[str, float]()
    for world, one in rates.items():
        gains[world] = one[PROGRESS] - one[RESTARTS]
        if LEARNT in one and gains[world] > 0:
            parts[world] = (one[LEARNT] - one[RESTARTS]) / gains[world]
    shown = ", ".join(f"{world} {share:.0%}" for world, share in parts.items())
    return [
        _gain_bar("best-first by progress at least 25 points above restarts", gains, 0.25),
        Bar("a learnt value keeps at least half of that gain, where there is one", shown,
            bool(parts) and min(parts.values()) >= 0.5),
    ]  # fmt: skip


def make_entropy_bars(rates: dict[str, dict[str, float]]) -> list[Bar]:
    """Returns the bars of entropy-branched search, from the success of each arm by world."""
    return [
        _gain_bar(bar, {world: one.get(ENTROPY, 0.0) - one[other] for world, one in rates.items()}, least)
        for bar, other, least in (
            ("entropy-branched by novelty at least 10 points above best-first by novelty", NOVELTY, 0.10),
            ("entropy-branched by novelty at least 25 points above restarts", RESTARTS, 0.25),
        )
    ]


def _gain_bar(bar: str, gains: dict[str, float], least: float) -> Bar:
    shown = ", ".join(f"{world} {gain:+.3f}" for world, gain in gains.items())
    met = sum(one >= least - 1e-9 for one in gains.values()) >= 2  # .3 - .2 is a gain of .1
    return Bar(f"{bar}, in two of three worlds", shown, met)


def main() -> None:
    """Runs all worlds."""
    parser = make_parser(__doc__, seeds=())
    parser.add_argument("--worlds", nargs="+", choices=[one.partition(",")[0] for one in WORLDS])
    parser.add_argument("--entropy", action="store_true", help="the arms of entropy-branched search")
    given = parser.parse_args()
    name, words, planned = "best-first-search", "search", SEEDS
    if given.entropy:
        name, words, planned = "entropy-search", "search --entropy", ENTROPY_SEEDS
    if given.record and given.worlds:
        parser.error("--record wants all worlds")
    recording = open_recording(name, words, given, __doc__, planned)
    found = dict[str, tuple[Table, dict[str, float], list[str]]]()
    with open_store(given.store) as settings:
        for world in WORLDS:
            short = world.partition(",")[0]
            if given.worlds is None or short in given.worlds:
                found[short] = asyncio.run(run_world(world, recording.seeds, settings, with_entropy=given.entropy))
    rates = {world: one for world, (_, one, _) in found.items()}
    bars = make_entropy_bars(rates) if given.entropy else make_bars(rates)
    tables = {world: table for world, (table, _, _) in found.items()}
    recording.write(
        tables, [] if given.worlds else bars, passes={world: passes for world, (_, _, passes) in found.items()}
    )


if __name__ == "__main__":
    main()
