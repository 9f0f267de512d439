"""How faithful is a site that was recovered from recordings? `docs/experiments/recovered-sites.md` has the results.

`drawn` draws random walks over the machines of the ten sites, without a browser: the trees are those that the sites'
pages would show. `recorded` records attempts at five tasks of a site in a real Chromium, of a walker and of the oracle,
and replays those held out on the mock, in Chromium, too. In both, each walk held out counts up to its first difference.

    python -m experiments.recovered_sites drawn
    python -m experiments.recovered_sites recorded museum shop
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import msgspec

from assay.learning.reading import RunReader
from assay.learning.rows_config import RowsConfig
from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings
from assay.statistics import mean_interval
from assay.store import list_runs
from assay.synthesis.sites.domains import DOMAINS
from assay.synthesis.sites.drawing import draw_machine
from assay.synthesis.sites.fidelity import measure_fidelity
from assay.synthesis.sites.recorded_walks import RecordedWalk, read_walk
from assay.synthesis.sites.recovery import recover, share_predicted

from ._drawn_walks import draw_walk

COUNTS = (2, 4, 8, 16, 32)
HELD, STEPS = 20, 30
ACTS, TRIES = 12, 2


def _drawn() -> None:
    """Prints the share of steps predicted by number of walks: mean over the ten sites, with interval."""
    print("| walks | steps predicted [95%] | by site | forms that do what they did | offers not recorded |")
    print("|---:|---:|---:|---:|---:|")
    for count in COUNTS:
        shares, right_forms, unknown = list[float](), list[float](), list[int]()
        for domain in DOMAINS:
            machine = draw_machine(domain, 11)
            site = recover([draw_walk(machine, seed, STEPS) for seed in range(count)], by_pages=False)
            held = [draw_walk(machine, 1_000 + seed, STEPS) for seed in range(HELD)]
            right, total = share_predicted(site, held)
            shares.append(right / total)
            unknown.append(site.figures.unrecorded)
            found = site.machine.by_transition
            same = [
                one.name in found
                and (found[one.name].asks, found[one.name].adds, found[one.name].code) == (one.asks, one.adds, one.code)
                for one in machine.transitions
            ]
            right_forms.append(fmean(same))
        interval = mean_interval(shares)
        ends = "" if interval is None else f" [{interval.low:.2f}, {interval.high:.2f}]"
        print(
            f"| {count} | {fmean(shares):.2f}{ends} | {min(shares):.2f} to {max(shares):.2f} | "
            f"{fmean(right_forms):.2f} | {fmean(unknown):.1f} |"
        )


async def _record(source: str, settings: Settings) -> list[RecordedWalk]:
    """Returns the walks of a site, which are recorded if they are not there yet."""
    is_site = source in {domain.name for domain in DOMAINS}
    family = f"sites,site={source}" if is_site else f"services,app={source},interface=pages,level=explicit"
    walker, options = ("page-walker", {"acts": ACTS}) if is_site else ("random-world", {"steps": ACTS})
    walks = []
    for agent, attempts, given in ((walker, TRIES, options), ("oracle", 1, {})):
        run, tasks = f"{source}-{agent}", f"family:{family},n=5,seed=1"
        config = RunConfig(
            tasks=(tasks,), run=run, agent=agent, agent_options=given, attempts=attempts, seed=1, concurrency=2
        )
        if run not in list_runs(settings.store):
            await start_run(config, settings, Tally())
        with RunReader.open(settings, run, RowsConfig()) as reader:
            walks += [read_walk(one) for one in reader.trajectories()]
    found = [walk for walk in walks if walk.moves]
    start = Counter(walk.start for walk in found).most_common(1)[0][0]
    same = [walk for walk in found if walk.start == start]
    random.Random(f"{source}/held out").shuffle(same)
    return same


async def _recorded(sources: Sequence[str], settings: Settings) -> None:
    """Prints a row for each site and reading."""
    columns = (
        "site", "reading", "attempts", "screens", "transitions", "offers not recorded", "contradicted",
        "steps reproduced", "whole attempts", "lines that agree", "first differences",
    )  # fmt: skip
    print(f"| {' | '.join(columns)} |\n|---|---|{'---:|' * (len(columns) - 3)}---|")
    for source in sources:
        walks = await _record(source, settings)
        count = len(walks) // 4
        for by_pages in (False, True):
            site = recover(walks[count:], by_pages=by_pages)
            found = await measure_fidelity(site, walks[:count], seed=7)
            figures = site.figures
            differences = ", ".join(f"{kind} ({n})" for kind, n in sorted(found.differences.items())) or "-"
            agreement = "-" if found.agreement is None else f"{found.agreement:.3f}"
            print(
                f"| {source} | {'pages' if by_pages else 'values'} | {len(walks) - count} | {figures.screens} | "
                f"{figures.transitions} | {figures.unrecorded} | {figures.contradicted} | "
                f"{found.reproduced} of {found.steps} | {found.whole} of {found.walks} | {agreement} | {differences} |",
                flush=True,
            )


def main() -> None:
    """Runs one of the two parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("drawn", "recorded"))
    parser.add_argument("sites", nargs="*", default=["museum", "shop"])
    parser.add_argument("--store", type=Path, help="where the runs are kept; default: a temporary folder")
    given = parser.parse_args()
    if given.part == "drawn":
        _drawn()
        return
    with tempfile.TemporaryDirectory() as scratch:
        settings = msgspec.structs.replace(Settings.from_environment(), store=given.store or Path(scratch))
        asyncio.run(_recorded(given.sites, settings))


if __name__ == "__main__":
    main()
