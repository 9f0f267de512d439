"""The task family `walks`: tasks by interaction first. Walks over pages come before any wish; what they did is read
from the state, and the request is written afterwards.

An effect becomes a task if the reward that is made from the text alone fails on doing nothing, passes on the walk's own
end, and fails on the ends of other walks and of changed plans. The same `n`, `seed` and options give the same tasks,
whether the walks are made in this process or in a browser.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Coroutine, Mapping
from typing import Any, Final, TypeVar

import msgspec

from assay.environments.browser.picture_options import FamilyPictures
from assay.environments.services.outcome import as_json
from assay.environments.task_digest import digest_task
from assay.errors import UserError
from assay.records import Check, Task

from .page_client import PageClient, PageReader
from .reward_writer import Unreadable, gate
from .service_walks import ServiceWalks
from .site_walks import SiteWalks
from .walked_world import Effect, NoTask, OpenReader, Walkable, WalkedWorld

_TASKS_OF_A_WORLD: Final = 5
_BARREN_WORLDS: Final = 3
"""Worlds in a row without a task after which no more are sought."""
T = TypeVar("T")


class WalkReport(msgspec.Struct, frozen=True):
    """Figures of a synthesis."""

    worlds: int = 0
    walks: int = 0
    walked: int = 0
    """Acts of all walks."""
    played: int = 0
    """Acts that were carried out."""
    nodes: int = 0
    merged: int = 0
    """Acts that led to a page and state that another act had led to."""
    pruned: dict[str, int] = {}
    """Branches that were pruned, by reason."""
    effects: int = 0
    """Effects that can be asked for."""
    refused: dict[str, int] = {}
    """Effects that became no task, by reason."""
    wrong_states: int = 0
    """Wrong states on which rewards were tried; all of them failed for the tasks that were kept."""
    tasks: int = 0

    @property
    def saved(self) -> float:
        """Share of the acts that need not be played because walks share them."""
        return 1 - self.played / self.walked if self.walked else 0.0


class WalkTasks:
    """Tasks from walks over the pages of applications, or of sites from state machines.

    Args:
        app: Applications, joined by `+`, as for the family `services`.
        site: Sites, joined by `+`, in turn, as for the family `sites`; in place of `app`.
        interface: How the agent reaches them: `pages` in a browser, or `tools`.
        walks: Walks in each world.
        marks: True for pictures of pages in which elements are marked with their numbers.
        picture_type: Form of pictures: `webp` or `png`.
        computer: True to offer the tool `computer` of computer-use models, too.
        aims: True to note what acts on pages aim at, and to judge it by the check `pointing`.
        theme: Seed of the looks of the pages; default: the world's own.
    """

    def __init__(
        self,
        *,
        app: str = "",
        site: str = "",
        interface: str = "pages",
        walks: int = 200,
        marks: bool = False,
        picture_type: str = "webp",
        computer: bool = False,
        aims: bool = False,
        theme: int | None = None,
    ) -> None:
        if bool(app) == bool(site):
            raise UserError("app and site of the family 'walks': give one of them, such as app=shop or site=bakery")
        if type(walks) is not int or not 1 <= walks <= 100_000:
            raise UserError(f"walks={walks} of the family 'walks': expected 1 to 100000")
        self._worlds: Walkable = ServiceWalks(app, interface) if app else SiteWalks(site, interface)
        self._count = walks
        self._pictures = FamilyPictures(
            "walks", marks, picture_type, computer, aims, theme, has_pages=interface == "pages"
        )

    def tasks(self, n: int, seed: int) -> tuple[Task, ...]:
        return self.make(n, seed)[0]

    def make(self, n: int, seed: int) -> tuple[tuple[Task, ...], WalkReport]:
        """Returns the tasks, and the figures of how they were made; pages are read in this process."""
        return _run(self.make_with(n, seed, _open_client))

    async def make_with(self, n: int, seed: int, open_reader: OpenReader) -> tuple[tuple[Task, ...], WalkReport]:
        """Makes the same tasks with another reader of pages."""
        made: list[Task] = []
        outcomes: set[Any] = set()
        report, barren = WalkReport(), 0
        while len(made) < n and barren < _BARREN_WORLDS:
            explored = self._worlds.open(seed, report.worlds)
            reader = open_reader(explored)
            try:
                await explored.walk(reader, explored.world.seed, self._count)
            finally:
                await reader.close()
            refused: Counter[str] = Counter(report.refused)
            tried, before = report.wrong_states, len(made)
            for effect in explored.in_turn():
                if len(made) in (n, before + _TASKS_OF_A_WORLD):
                    break
                try:
                    task, count = self._task_from(effect, explored, (seed, len(made)), outcomes)
                except NoTask as exc:
                    refused[str(exc)] += 1
                else:
                    made.append(task)
                    tried += count
            barren = 0 if len(made) > before else barren + 1
            report = _add(report, explored, dict(refused), tried, len(made))
        return self._pictures.apply(made), report

    def _task_from(
        self, effect: Effect, explored: WalkedWorld, named: tuple[int, int], outcomes: set[Any]
    ) -> tuple[Task, int]:
        """Returns a task and the number of wrong states that its reward was tried on. Raises `NoTask`."""
        task = explored.draft_task(effect, named, outcomes)
        try:
            reward = explored.write_reward(str(task.instruction).partition("\n\n")[0])
        except Unreadable as exc:
            raise NoTask(f"the text alone does not say it: {exc}") from exc
        problem, tried = gate(reward, effect.changes, explored.wrong_states(effect))
        if problem:
            raise NoTask(f"the reward is not sound: {problem}")
        state = task.checks[0]
        checks = (Check(state.name, state.kind, {"outcomes": [{"changes": as_json(reward)}]}), *task.checks[1:])
        return msgspec.structs.replace(
            task,
            id=f"walks-{task.id.partition('-')[2]}",
            checks=checks,
            digest=digest_task(task.instruction, task.environment, checks),
            tags=("walks", *task.tags[1:]),
            source=f"family walks, {'+'.join(self._worlds.names)}, seed {named[0]}",
            metadata={**task.metadata, "wrong_states": tried},
        ), tried


def _open_client(explored: WalkedWorld) -> PageReader:
    return PageClient(explored.world.fork(), explored.world.seed)


def _add(
    report: WalkReport, explored: WalkedWorld, refused: Mapping[str, int], wrong_states: int, tasks: int
) -> WalkReport:
    assert explored.figures is not None, "walks were made"
    figures = explored.figures
    return WalkReport(
        report.worlds + 1,
        report.walks + figures.walks,
        report.walked + figures.walked,
        report.played + figures.played,
        report.nodes + figures.nodes,
        report.merged + figures.merged,
        dict(Counter(report.pruned) + Counter(figures.pruned)),
        report.effects + len(explored.effects),
        dict(refused),
        wrong_states,
        tasks,
    )


def _run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Returns the result of a coroutine that waits for nothing outside of this process, also within an event loop."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        coroutine.close()
    raise AssertionError("pages in this process wait for nothing")
