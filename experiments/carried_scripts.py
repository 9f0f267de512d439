"""Scripts carried over to other looks of a site: `docs/experiments/carried-scripts.md` has the results.

Recorded attempts of `oracle` in a real Chromium, under the looks of seed 0, are repeated under the looks of other
seeds. Arms: the calls word for word, whose elements are numbers (`assay replay`); elements found by role and name
alone; and by everything (`assay replay --carry`). Success is the verdict of the task's own checks on the final state.

    python -m experiments.carried_scripts --store FOLDER
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from statistics import fmean
from typing import Final, Literal, NamedTuple

import msgspec

from assay.environments.services.pages.theme import Theme, draw_theme
from assay.rollout import RunConfig, Tally, start_run
from assay.rollout.rejudge.config import ReplayConfig
from assay.rollout.rejudge.replay import ReplayResult, replay
from assay.settings import Settings
from assay.statistics import mean_interval
from assay.store import list_runs

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
        if name not in list_runs(settings.store):
            await start_run(RunConfig(tasks=(f"{tasks},theme={HOME}",), agent="oracle", run=name), settings, Tally())
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


def _rate(values: list[float]) -> str:
    interval = mean_interval(values)
    ends = "" if interval is None else f" [{interval.low:.3f}, {interval.high:.3f}]"
    return f"{fmean(values):.3f}{ends}"


def describe_looks(theme: Theme, home: Theme) -> str:
    """Returns the parts of the looks that change acts and differ from those of the recordings."""
    parts = theme._asdict()
    return ", ".join(f"{name} {parts[name]}" for name in ACTS if parts[name] != home._asdict()[name]) or "the same"


def main() -> None:
    """Makes all runs and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, required=True)
    settings = msgspec.structs.replace(Settings.from_environment(), store=parser.parse_args().store)
    found = asyncio.run(measure(settings))
    print("| matched by | scripts | success, by script [95%] | acts matched |")
    print("|---|---:|---:|---:|")
    for arm, carried in found.items():
        scripts: dict[tuple[str, str], list[float]] = {}
        for one in carried:
            scripts.setdefault((one.source, one.attempt), []).append(one.passed)
        shares = [one.matched for one in carried if one.matched is not None]
        matched = f"{fmean(shares):.3f}" if shares else "-"
        print(f"| {arm} | {len(carried)} | {_rate([fmean(some) for some in scripts.values()])} | {matched} |")
    print("\n| looks | differences | " + " | ".join(ARMS) + " |\n|---|---|" + "---:|" * len(ARMS))
    for theme in THEMES:
        cells = [fmean(one.passed for one in found[arm] if one.theme == theme) for arm in ARMS]
        looks = describe_looks(draw_theme(theme), draw_theme(HOME))
        print(f"| {theme} | {looks} | " + " | ".join(f"{cell:.2f}" for cell in cells) + " |")
    failed = [one for one in found["elements"] if not one.passed]
    for one in failed:
        print(
            f"failed by elements: {one.source} {one.attempt} theme {one.theme}, {one.matched:.2f} of its acts matched"
        )


if __name__ == "__main__":
    main()
