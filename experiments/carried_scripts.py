"""Scripts carried over to other looks of a site: `docs/experiments/carried-scripts.md` has the results.

Recorded attempts of `oracle` in a real Chromium, under the looks of seed 0, are repeated under the looks of other
seeds. Arms: the calls word for word, whose elements are numbers (`assay replay`); elements found by role and name
alone; and by everything (`assay replay --carry`). Success is the verdict of the task's own checks on the final state.

    python -m experiments.carried_scripts --record
"""

from __future__ import annotations

import asyncio
from statistics import fmean
from typing import Final, Literal, NamedTuple

from assay.environments.services.pages.theme import Theme, draw_theme
from assay.learning.trainer.rollouts import complete_run
from assay.rollout import RunConfig, Tally
from assay.rollout.rejudge.config import ReplayConfig
from assay.rollout.rejudge.replay import ReplayResult, replay
from assay.settings import Settings

from ._paired import rate_cell
from ._results import Table
from ._running import make_parser, open_recording, open_store

HOME: Final = 0
"""Seed of the looks of the recorded attempts."""
THEMES: Final = (1, 2, 3, 4, 5)
SOURCES: Final = {
    **{
        app: f"family:services,app={app},interface=pages,level=explicit,n=1,seed=4"
        for app in ("bank", "mail", "shop", "tracker")
    },
    **{site: f"family:sites,site={site},least=4,most=9,n=1,seed=4" for site in ("museum", "parcels")},
}
ARMS: Final[tuple[Literal["no", "names", "elements"], ...]] = ("no", "names", "elements")
ACTS: Final = ("choices", "confirmation", "dates", "rows", "submit", "search")
"""Parts of the looks that change what must be done, or what elements are called."""


class Carried(NamedTuple):
    """One script under other looks."""

    source: str
    attempt: str
    theme: int
    passed: float
    matched: float | None
    """Share of the acts on elements that were matched; None for calls word for word."""


async def measure(settings: Settings) -> dict[str, list[Carried]]:
    """Returns the carried scripts of each arm; only attempts that passed are carried."""
    found: dict[str, list[Carried]] = {arm: [] for arm in ARMS}
    for source, tasks in SOURCES.items():
        name = f"home-{source}"
        await complete_run(RunConfig(tasks=(f"{tasks},theme={HOME}",), agent="oracle", run=name), settings)
        for theme in THEMES:
            for arm in ARMS:
                today = (f"{tasks},theme={theme}",)
                config = ReplayConfig(all=True, carry=arm, tasks=today, check_version="today", no_experiments=True)
                report = await replay(name, config, settings, Tally())
                found[arm] += [_read(source, theme, one) for one in report.results]
    return found


def _read(source: str, theme: int, one: ReplayResult) -> Carried:
    if one.carried is not None:
        carried = one.carried
        matched = carried.matched / carried.acts if carried.acts else 1.0
        return Carried(source, one.attempt, theme, float(carried.outcome[1] == "pass"), matched)
    now = None if one.comparison is None else one.comparison.outcome[1]
    return Carried(source, one.attempt, theme, float(now == "pass"), None)


def describe_looks(theme: Theme, home: Theme) -> str:
    """Returns the parts of the looks that change acts and differ from those of the recordings."""
    parts = theme._asdict()
    return ", ".join(f"{name} {parts[name]}" for name in ACTS if parts[name] != home._asdict()[name]) or "the same"


def make_tables(found: dict[str, list[Carried]]) -> dict[str, Table]:
    """Returns success by what elements are matched by, and by looks."""
    rows = []
    for arm, carried in found.items():
        scripts: dict[tuple[str, str], list[float]] = {}
        for one in carried:
            scripts.setdefault((one.source, one.attempt), []).append(one.passed)
        shares = [one.matched for one in carried if one.matched is not None]
        matched = f"{fmean(shares):.3f}" if shares else "-"
        rows.append([arm, str(len(carried)), rate_cell([fmean(some) for some in scripts.values()]), matched])
    looks = []
    for theme in THEMES:
        cells = [fmean(one.passed for one in found[arm] if one.theme == theme) for arm in ARMS]
        changed = describe_looks(draw_theme(theme), draw_theme(HOME))
        looks.append([f"{theme}: {changed}", *(f"{cell:.2f}" for cell in cells)])
    return {
        "arms": Table(["matched by", "scripts", "success, by script [95%]", "acts matched"], rows),
        "looks": Table(["looks, and what differs from seed 0 and changes acts or names", *ARMS], looks),
    }


def main() -> None:
    """Makes all runs and prints the tables."""
    given = make_parser(__doc__).parse_args()
    recording = open_recording("carried-scripts", "carried_scripts", given, __doc__, THEMES)
    with open_store(given.store) as settings:
        found = asyncio.run(measure(settings))
    failed = [f"{one.source} {one.attempt} theme {one.theme}" for one in found["elements"] if not one.passed]
    recording.write(make_tables(found), failed_by_elements=failed)


if __name__ == "__main__":
    main()
