"""How faithful is a site that was recovered from recordings? `docs/experiments/recovered-sites.md` has the results.

Attempts of `page-walker` and of the oracle are recorded in a real Chromium. A quarter is held out; from some of the
rest, a mock is recovered. The attempts held out are replayed on it, each up to its first difference from the record.

    python -m experiments.recovered_sites --store FOLDER
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
from assay.synthesis.sites.fidelity import measure_fidelity
from assay.synthesis.sites.recorded_walks import RecordedWalk, read_walk
from assay.synthesis.sites.recovery import RecoveredSite, recover, share_predicted

SITES = ("museum", "hotel", "permits")
APPLICATIONS = ("shop", "bank")
ACTS, TRIES = 20, 4
COUNTS = (3, 6, 12)


async def _record(source: str, settings: Settings) -> list[RecordedWalk]:
    """Returns the walks of a site, which are recorded if they are not there yet."""
    is_site = source in SITES
    tasks = f"family:sites,site={source},n=5,seed=1" if is_site else f"family:services,app={source},interface=pages,n=1"
    walks = []
    for agent, attempts in (("page-walker", TRIES if is_site else 5 * TRIES), ("oracle", 1)):
        run = f"{source}-{agent}"
        options = {"acts": ACTS} if agent == "page-walker" else {}
        config = RunConfig(
            tasks=(tasks,), run=run, agent=agent, agent_options=options, attempts=attempts, seed=1, concurrency=2
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


def _rate(site: RecoveredSite, walks: Sequence[RecordedWalk]) -> str:
    shares = []
    for walk in walks:
        right, total = share_predicted(site, [walk])
        if total:
            shares.append(right / total)
    interval = mean_interval(shares)
    ends = "" if interval is None else f" [{interval.low:.2f}, {interval.high:.2f}]"
    return f"{fmean(shares):.2f}{ends}"


async def _site(source: str, settings: Settings) -> tuple[list[str], str]:
    """Returns the rows of the curve, and the row of the replay in a browser."""
    walks = await _record(source, settings)
    count = len(walks) // 4
    held, rest = walks[:count], walks[count:]
    rows = []
    for number in (*(one for one in COUNTS if one < len(rest)), len(rest)):
        cells = [_rate(recover(rest[:number], by_pages=by_pages), held) for by_pages in (False, True)]
        chosen = "pages" if recover(rest[:number]).by_pages else "values"
        rows.append(f"| {source} | {number} | {cells[0]} | {cells[1]} | {chosen} |")
    site = recover(rest)
    found = await measure_fidelity(site, held, seed=7)
    figures = site.figures
    differences = ", ".join(f"{kind} {count}" for kind, count in sorted(found.differences.items())) or "-"
    agreement = "-" if found.agreement is None else f"{found.agreement:.3f}"
    return rows, (
        f"| {source} | {figures.screens} | {figures.transitions} | {figures.unrecorded} | "
        f"{figures.contradicted} | "
        f"{found.reproduced} of {found.steps} ({found.share:.2f}) | {found.predicted} | "
        f"{found.whole} of {found.walks} | "
        f"{agreement} | {differences} |"
    )


async def _all(sources: Sequence[str], settings: Settings) -> None:
    curve, replays = list[str](), list[str]()
    for source in sources:
        rows, replay = await _site(source, settings)
        curve += rows
        replays.append(replay)
    print("| site | attempts | by values [95%] | by pages [95%] | chosen |\n|---|---:|---:|---:|---|")
    print("\n".join(curve))
    print(
        "\n| site | screens | transitions | offers not recorded | contradicted | reproduced | predicted "
        "| whole attempts | lines that agree | first differences |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---|"
    )
    print("\n".join(replays))


def main() -> None:
    """Runs all sites and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, help="where the runs are kept; default: a temporary folder")
    parser.add_argument("--sites", nargs="+", default=[*SITES, *APPLICATIONS])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        settings = msgspec.structs.replace(Settings.from_environment(), store=given.store or Path(scratch))
        asyncio.run(_all(given.sites, settings))


if __name__ == "__main__":
    main()
