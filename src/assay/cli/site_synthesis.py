"""`assay synth walks` and `assay synth site`: tasks and sites from what was done on pages."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from assay.errors import UserError
from assay.synthesis.sites.from_runs_config import SiteFromRunsConfig

from .options import takes_config
from .output import console, emit_json, quantity, say
from .shared import JsonOption, StoreOption, pick_runs, settings_with
from .tables import print_rows

if TYPE_CHECKING:
    from assay.synthesis.sites.from_runs import SiteFile
    from assay.synthesis.sites.walk_family import WalkReport


class WalkTasksConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of tasks from walks over pages."""

    app: str = ""
    """Applications, joined by `+`, such as `shop` or `airline+mail`; empty with `--site`."""
    site: str = ""
    """Sites from state machines, joined by `+`, such as `bakery+garage`, in place of an application."""
    count: int = 10
    """Number of tasks; fewer if the walks do not suffice."""
    seed: int = 0
    """Decides worlds and walks; the family `walks` makes the same tasks of the same seed."""
    walks: int = 200
    """Walks in each world."""
    in_browser: bool = False
    """Makes the walks in a real Chromium, too; the tasks are the same, at a second or so an act."""
    without_browser: bool = False
    """Does not carry the reference plans out in a real Chromium."""

    def __post_init__(self) -> None:
        if self.in_browser and self.without_browser:
            raise UserError("in_browser and without_browser: give one of them")


@takes_config(WalkTasksConfig, arguments=("app",))
def walks(config: WalkTasksConfig, as_json: JsonOption = False) -> None:
    """Makes tasks by interaction first: walks over pages of applications or sites, whose effects are asked for later.

    Prints what the walks share, which branches mean nothing, which effects became no task, and on how many wrong states
    the rewards were tried. Exits with 1 if a plan does not end in a browser as it does by tools.

    Examples:

      assay synth walks shop --count 20

      assay synth walks tracker+mail --count 10 --walks 500 --seed 3 --without-browser

      assay synth walks --site bakery+garage --count 4 --walks 60 --in-browser
    """
    from assay.synthesis.sites.browser_client import make_in_browser
    from assay.synthesis.sites.browser_replay import replay_in_browser
    from assay.synthesis.sites.walk_family import WalkTasks

    family = WalkTasks(app=config.app, site=config.site, walks=config.walks)
    if config.in_browser:
        tasks, report = asyncio.run(make_in_browser(family, config.count, config.seed))
    else:
        tasks, report = family.make(config.count, config.seed)
    problems = asyncio.run(replay_in_browser(tasks)) if not config.without_browser else {}
    if as_json:
        shown = [{"id": task.id, "digest": task.digest, "problem": problems.get(task.id, "")} for task in tasks]
        emit_json(
            {
                **msgspec.to_builtins(report),
                "saved": report.saved,
                "made": shown,
                "walked_in_browser": config.in_browser,
                "replayed": not config.without_browser,
            }
        )
    else:
        _print_walks(report)
        if not config.without_browser:
            console().print(f"{quantity(len(tasks) - len(problems), 'plan')} of {len(tasks)} done in a browser")
        for name, problem in problems.items():
            console().print(f"{name}: {problem}")
        place = f"app={config.app}" if config.app else f"site={config.site}"
        said = f"family:walks,{place},walks={config.walks},n={config.count},seed={config.seed}"
        say(f"next: assay run {said} --agent oracle --agent null --run proof")
    if problems:
        raise SystemExit(1)


@takes_config(SiteFromRunsConfig, arguments=("runs",))
def site(config: SiteFromRunsConfig, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Recovers a mock site from recorded attempts in a browser, and measures how faithful it is to attempts left out.

    Screens, what led where and the data behind it become a state machine, whose pages the family `sites` serves. What
    no record shows ends on a page that says so, and such an attempt is `unknown`.

    Examples:

      assay synth site my-run --out site.json

      assay synth site first second --out shop.json --reading pages --held-out 0.3 --seed 2
    """
    from pathlib import Path

    from assay.learning.reading import RunReader
    from assay.learning.rows_config import RowsConfig
    from assay.synthesis.sites.from_runs import make_site
    from assay.synthesis.sites.recorded_walks import read_walk

    settings, walks = settings_with(store), []
    for run in pick_runs(config.runs, settings):
        with RunReader.open(settings, run, RowsConfig()) as reader:
            walks += [read_walk(one) for one in reader.trajectories() if one.task.startswith(config.task)]
    made = asyncio.run(make_site(walks, config))
    Path(config.out).write_bytes(msgspec.json.format(msgspec.json.encode(made), indent=1) + b"\n")
    if as_json:
        emit_json({name: value for name, value in msgspec.to_builtins(made).items() if name != "machine"})
    else:
        _print_site(made)
        say(f"next: assay run family:sites,machine={config.out},least=2,n=4 --agent oracle --agent null --run mock")


def _print_site(made: SiteFile) -> None:
    figures = made.figures
    console().print(
        f"site {made.machine.name}, read by {made.reading}: {quantity(figures['screens'], 'screen')} and "
        f"{quantity(figures['transitions'], 'transition')} from {quantity(figures['steps'], 'step')} of "
        f"{quantity(len(made.recovered_from), 'attempt')}; left out: {made.other_starts} attempts of another start"
    )
    console().print(
        f"{figures['assumed']} offers are assumed to lead where they led from other screens, {figures['unrecorded']} "
        f"lead to the page “not recorded”; {quantity(figures['contradicted'], 'step')} contradicted the others"
    )
    found = made.fidelity
    if found is None:
        return
    agreement = "" if found.agreement is None else f"; their pages agree in {found.agreement:.1%} of the lines"
    console().print(
        f"fidelity on {quantity(found.walks, 'attempt')} held out: {found.reproduced} of {found.steps} steps "
        f"({found.share:.1%}) reproduced, {found.whole} attempts to their end{agreement}"
    )
    console().print(
        f"each step by itself: {found.right} predicted right, {found.wrong} wrong, {found.unknown} not known"
    )
    if found.differences:
        print_rows([{"first difference": kind, "attempts": str(count)} for kind, count in found.differences.items()])


def _print_walks(report: WalkReport) -> None:
    console().print(
        f"{quantity(report.tasks, 'task')} of {quantity(report.effects, 'effect')} in "
        f"{quantity(report.worlds, 'world')}; each reward failed on its wrong states, {report.wrong_states} in all"
    )
    console().print(
        f"{report.walks} walks of {report.walked} acts: {report.played} were played, the others are shared "
        f"({report.saved:.0%} saved); {report.nodes} pages, to which {report.merged} further acts led"
    )
    rows = [("branch pruned", reason, count) for reason, count in report.pruned.items()]
    rows += [("effect refused", reason, count) for reason, count in report.refused.items()]
    if rows:
        print_rows([{"what": what, "reason": reason, "count": str(count)} for what, reason, count in rows])
