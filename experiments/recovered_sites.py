"""How faithful is a site that was recovered from recordings? `docs/experiments/recovered-sites.md` has the results.

`drawn` draws walks of four agents over the machines of the ten sites, without a browser: the trees are those that the
sites' pages would show. `recorded` records attempts of several agents in a real Chromium, at five tasks of each source,
and holds half of them out. Each step held out is predicted by itself, from where the record was: right, wrong, or not
known. `--record` writes the figures with commit and seeds.

    python -m experiments.recovered_sites drawn --record
    python -m experiments.recovered_sites recorded shop mail tracker bakery garage --store runs --record
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Any

from assay.learning.reading import RunReader
from assay.learning.rows_config import RowsConfig
from assay.learning.trainer.rollouts import complete_run
from assay.rollout import RunConfig
from assay.settings import Settings
from assay.statistics import mean_interval
from assay.synthesis.sites.domains import DOMAINS
from assay.synthesis.sites.drawing import draw_machine
from assay.synthesis.sites.recorded_walks import RecordedWalk, read_walk
from assay.synthesis.sites.recovery import TransitionCounts, count_transitions, recover, share_predicted

from ._drawn_walks import POLICIES, draw_walk
from ._results import Table
from ._running import make_parser, open_recording, open_store

SEEDS = (1, 2, 3)
COUNTS = (2, 4, 8, 16, 32, 64)
HELD, STEPS = 12, 30
"""Walks of each agent at each site that are held out, and their longest length."""
SITES = frozenset(domain.name for domain in DOMAINS)
SITE_AGENTS = {
    "oracle": ({}, 1),
    "page-walker": ({"acts": 12}, 2),
    "random-world": ({"steps": 15}, 1),
}
APP_AGENTS: dict[str, tuple[dict[str, Any], int]] = {"oracle": ({}, 1), "random-world": ({"steps": 12}, 3)}
"""Options and attempts at each task."""
KINDS = ("right", "wrong", "unknown")


def shares(counts: Sequence[TransitionCounts]) -> dict[str, Any]:
    """Returns the mean shares over sites, each with its interval and the counts."""
    found: dict[str, Any] = {kind: sum(getattr(one, kind) for one in counts) for kind in KINDS}
    for kind in KINDS:
        of_sites = [getattr(one, kind) / sum(one) for one in counts if sum(one)]
        interval = mean_interval(of_sites)
        found[f"{kind}_share"] = round(fmean(of_sites), 4)
        found[f"{kind}_interval"] = None if interval is None else [round(interval.low, 4), round(interval.high, 4)]
        found[f"{kind}_by_site"] = [round(one, 4) for one in of_sites]
    return found


def _drawn(seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Returns a row for each number of walks and each agent that was held out, and one for all of them."""
    agents = list(POLICIES)
    counts: dict[tuple[int, str], list[TransitionCounts]] = {}
    whole: dict[int, list[float]] = {count: [] for count in COUNTS}
    refused: dict[int, list[int]] = {count: [] for count in COUNTS}
    for domain, seed in ((domain, seed) for seed in seeds for domain in DOMAINS):
        machine = draw_machine(domain, 10 + seed)
        walks = [draw_walk(machine, seed * 10_007 + at, STEPS, agents[at % len(agents)]) for at in range(COUNTS[-1])]
        held = {
            agent: [draw_walk(machine, seed * 10_007 + 1_000 + at, STEPS, agent) for at in range(HELD)]
            for agent in agents
        }
        for count in COUNTS:
            site = recover(walks[:count], by_pages=False)
            for agent, ones in held.items():
                counts.setdefault((count, agent), []).append(count_transitions(site, ones))
            right, total = share_predicted(site, [walk for ones in held.values() for walk in ones])
            whole[count].append(right / total)
            refused[count].append(site.figures.unrecorded)
    rows = []
    for count in COUNTS:
        every = [_sum(one) for one in zip(*(counts[count, agent] for agent in agents), strict=True)]
        more = {"to_first_difference": round(fmean(whole[count]), 4), "offers_not_recorded": fmean(refused[count])}
        rows.append({"walks": count, "held": "all", **shares(every), **more})
        rows += [{"walks": count, "held": agent, **shares(counts[count, agent])} for agent in agents]
    return rows


def _sum(counts: Iterable[TransitionCounts]) -> TransitionCounts:
    return TransitionCounts(*(sum(one) for one in zip(*counts, strict=True)))


async def _record(source: str, settings: Settings, seed: int) -> dict[str, list[RecordedWalk]]:
    """Returns the walks of a source by agent, which are recorded if they are not there yet."""
    is_site = source in SITES
    family = f"sites,site={source}" if is_site else f"services,app={source},interface=pages,level=explicit"
    agents: dict[str, Any] = SITE_AGENTS if is_site else APP_AGENTS
    walks: dict[str, list[RecordedWalk]] = {}
    for agent, (options, attempts) in agents.items():
        run, tasks = f"{source}-{agent}", f"family:{family},n=5,seed={seed}"
        config = RunConfig(
            tasks=(tasks,), run=run, agent=agent, agent_options=options, attempts=attempts, seed=seed, concurrency=2
        )
        await complete_run(config, settings)
        with RunReader.open(settings, run, RowsConfig()) as reader:
            walks[agent] = [walk for one in reader.trajectories() if (walk := read_walk(one)).moves]
    start = Counter(walk.start for ones in walks.values() for walk in ones).most_common(1)[0][0]
    return {agent: [walk for walk in ones if walk.start == start] for agent, ones in walks.items()}


async def _recorded(sources: Sequence[str], settings: Settings, seed: int) -> list[dict[str, Any]]:
    """Returns a row for each source, reading and number of attempts: half of each agent's attempts is held out."""
    rows = []
    for source in sources:
        kept, held = list[RecordedWalk](), list[RecordedWalk]()
        for agent, walks in (await _record(source, settings, seed)).items():
            random.Random(f"{seed}/{source}/{agent}/held out").shuffle(walks)
            held += walks[: (len(walks) + 1) // 2]
            kept += walks[(len(walks) + 1) // 2 :]
        random.Random(f"{seed}/{source}/order").shuffle(kept)
        for count in (*(one for one in COUNTS if one < len(kept)), len(kept)):
            for by_pages in (False, True):
                site = recover(kept[:count], by_pages=by_pages)
                of_attempts = [one for walk in held if sum(one := count_transitions(site, [walk]))]
                right, total = share_predicted(site, held)
                rows.append(
                    {
                        "source": source,
                        "attempts": count,
                        "held": len(of_attempts),
                        "reading": "pages" if by_pages else "values",
                        **shares(of_attempts),
                        "to_first_difference": round(right / total, 4) if total else None,
                        **{name: value for name, value in site.figures._asdict().items() if name != "walks"},
                    }
                )
    return rows


def _table(rows: Sequence[dict[str, Any]], first: dict[str, str]) -> Table:
    """Returns the table of some rows; `first` names the columns before the shares, by field."""
    columns = [*first, *("predicted right [95%]", "wrong", "not known", "to the first difference")]
    listed = []
    for row in rows:
        cells = [str(row[name]) for name in first.values()]
        for kind in KINDS:
            ends = row[f"{kind}_interval"]
            cells.append(f"{row[f'{kind}_share']:.3f}" + (f" [{ends[0]:.3f}, {ends[1]:.3f}]" if ends else ""))
        until = row.get("to_first_difference")
        listed.append([*cells, "" if until is None else f"{until:.2f}"])
    return Table(columns, listed)


def main() -> None:
    """Runs one of the two parts."""
    parser = make_parser(__doc__, ("drawn", "recorded"))
    parser.add_argument("sources", nargs="*", default=["museum", "shop"])
    given = parser.parse_args()
    words = f"recovered_sites {given.part}"
    if given.part == "drawn":
        plan = f"{len(DOMAINS)} sites a seed, {HELD} walks held out of each of {len(POLICIES)} agents, {STEPS} steps"
        recording = open_recording("recovered-sites-drawn", words, given, plan, SEEDS)
        rows = _drawn(SEEDS)
        every = [row for row in rows if row["held"] == "all"]
        agents = [row for row in rows if row["held"] != "all"]
        tables = {
            "all": _table(every, {"walks": "walks"}),
            "by agent": _table(agents, {"walks": "walks", "agent held out": "held"}),
        }
    else:
        plan = f"half of each agent's attempts held out; sites {SITE_AGENTS}, applications {APP_AGENTS}"
        words = " ".join([words, *given.sources])
        recording = open_recording("recovered-sites-recorded", words, given, plan, SEEDS[:1])
        with open_store(given.store) as settings:
            rows = asyncio.run(_recorded(given.sources, settings, SEEDS[0]))
        columns = {"source": "source", "reading": "reading", "attempts": "attempts", "held out": "held"}
        tables = {"all": _table(rows, columns)}
    recording.write(tables, rows=rows)


if __name__ == "__main__":
    main()
