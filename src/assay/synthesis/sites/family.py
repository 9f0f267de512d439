"""The task family `sites`: a site from a state machine, and a state of it that must be brought about.

Each task has a start and a goal; the reference solution is the shortest way that breadth-first search finds. A task is
kept if its way has the wanted length and no way leads to the goal without a code that has to be read, so that neither
chance nor the calls of another world do. The same `n`, `seed` and options give the same tasks.

Tasks on a site that was recovered from records (`machine`) may be done without reading a code, because records may
not show what asks for one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from assay.environments.browser.picture_options import FamilyPictures
from assay.environments.services.machines.machine import Machine, State
from assay.environments.services.machines.search import Reach
from assay.environments.services.plans import outcome_key
from assay.errors import UserError
from assay.records import Task

from .domains import DOMAINS, Domain
from .from_runs import read_site_file
from .searched_site import OPENINGS, SearchedSite, SiteTaskName

_TASKS_OF_A_SITE: Final = 5
_TRIES: Final = 12
"""Starts that are drawn in one site, and goals for each of them."""
STARTS: Final = ("first", "any")


class SiteTasks:
    """Tasks on sites from state machines.

    Args:
        site: Names of sites, joined by `+`, in turn; default: all ten.
        machine: File of a site that `assay synth site` recovered from recorded attempts, in place of `site`.
        interface: How the agent reaches the site: `pages` in a browser, or `tools`.
        start: State in which a task begins: `first`, the site's own, or `any` state that can be reached.
        least: Smallest number of steps of a shortest way.
        most: Largest number.
        marks: True for pictures of pages in which elements are marked with their numbers.
        picture_type: Form of pictures: `webp` or `png`.
        computer: True to offer the tool `computer` of computer-use models, too.
        aims: True to note what acts on pages aim at, and to judge it by the check `pointing`.
        theme: Seed of the looks of the pages; default: the world's own.
    """

    def __init__(
        self,
        *,
        site: str = "",
        machine: str = "",
        interface: str = "pages",
        start: str = "first",
        least: int = 5,
        most: int = 14,
        marks: bool = False,
        picture_type: str = "webp",
        computer: bool = False,
        aims: bool = False,
        theme: int | None = None,
    ) -> None:
        known = {domain.name: domain for domain in DOMAINS}
        names = [name for name in str(site).split("+") if name] or list(known)
        if unknown := [name for name in names if name not in known]:
            raise UserError(f"site={unknown[0]} of the family 'sites': expected {', '.join(known)}, joined by +")
        if interface not in OPENINGS:
            raise UserError(f"interface={interface} of the family 'sites': expected pages or tools")
        if start not in STARTS:
            raise UserError(f"start={start} of the family 'sites': expected {' or '.join(STARTS)}")
        if not (type(least) is int and type(most) is int and 1 <= least <= most):
            raise UserError(f"least={least}, most={most} of the family 'sites': expected numbers, 1 <= least <= most")
        if site and machine:
            raise UserError("site and machine of the family 'sites': give one of them")
        drawn = tuple(_draws(known[name]) for name in dict.fromkeys(names))
        self._sites = (_recovers(read_site_file(Path(machine)).machine),) if machine else drawn
        self._interface, self._start, self._lengths = interface, start, range(least, most + 1)
        self._pictures = FamilyPictures(
            "sites", marks, picture_type, computer, aims, theme, has_pages=interface == "pages"
        )

    def tasks(self, n: int, seed: int) -> tuple[Task, ...]:
        made: list[Task] = []
        outcomes: set[tuple[str, bytes]] = set()
        drawn = 0
        while len(made) < n:
            site = self._sites[drawn % len(self._sites)](seed * 10_007 + drawn // len(self._sites))
            drawn += 1
            found = list(self._tasks_of(site, seed, len(made), min(_TASKS_OF_A_SITE, n - len(made)), outcomes))
            if not found and drawn >= 3 * len(self._sites) + len(made):
                break  # the lengths that were asked for occur nowhere
            made += found
        return self._pictures.apply(made)

    def _tasks_of(
        self, site: SearchedSite, seed: int, first: int, count: int, outcomes: set[tuple[str, bytes]]
    ) -> Iterator[Task]:
        draw = random.Random(f"{site.machine.name}/{seed}/{site.seed}/{self._start}")
        number = first
        for _ in range(_TRIES):
            reach = site.reach if self._start == "first" else site.reach_from(site.draw_start(draw))
            for goal in self._goals(reach, draw):
                task = self._task(site, reach, goal, seed, number)
                if task is None or (site.machine.name, task[1]) in outcomes:
                    continue
                outcomes.add((site.machine.name, task[1]))
                number += 1
                yield task[0]
                if number == first + count:
                    return
                if self._start == "any":
                    break  # the next task begins elsewhere

    def _goals(self, reach: Reach, draw: random.Random) -> Iterator[State]:
        """Yields states of the wanted distances, each distance as often as any other."""
        by_distance: dict[int, list[State]] = {}
        for state, distance in reach.states.items():
            if distance in self._lengths and state.screen != reach.machine.unrecorded:
                by_distance.setdefault(distance, []).append(state)
        for _ in range(_TRIES if by_distance else 0):
            yield draw.choice(by_distance[draw.choice(sorted(by_distance))])

    def _task(self, site: SearchedSite, reach: Reach, goal: State, seed: int, number: int) -> tuple[Task, bytes] | None:
        """Returns the task of a goal and the key of its outcome; None if the goal can be reached without reading."""
        way = reach.way_to(goal)
        if not way or (site.demands_reading and goal in reach.unread_states):
            return None
        found = site.bring_about(reach, way)
        if found is None:
            return None
        machine = site.machine
        name = "-".join(["sites", machine.name, self._interface, self._start, f"d{len(way)}", str(seed), str(number)])
        source = f"family sites, {machine.name}, seed {seed}"
        place = SiteTaskName(name, self._interface, source)
        return site.task(place, found), outcome_key(found.world)


def _draws(domain: Domain) -> Callable[[int], SearchedSite]:
    """Returns what makes the site of a domain from a seed."""
    return lambda seed: SearchedSite.drawn(domain, seed)


def _recovers(machine: Machine) -> Callable[[int], SearchedSite]:
    """Returns what makes a recovered site from a seed, which decides its codes alone."""
    return lambda seed: SearchedSite(machine, seed, demands_reading=False)
