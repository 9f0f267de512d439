"""What cheats make of the corpus: every hole is found as asked, none in a sound task, and what is missed is said."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

from assay.agents.cheats import CHEATS
from assay.agents.cheats.interface import Cheat, CheatAgent, Knowledge
from assay.rollout.plan import Verification
from tests.sampling import WHOLE, draw_sample

from .attempts import Attempted, Probe, attempts, ended
from .corpus import Kind, Known, tasks_in

pytestmark = pytest.mark.timeout(600)
BY_NAME = {cheat.name: cheat for cheat in CHEATS}
CLOSED, OPEN = 4, 1
"""How many holed tasks are tried here, of those that the default verification closes and of the others; `make campaign`
tries all. Every cheat is tried on a careless verifier in `tests/agents/cheats/test_cheats.py`."""
TASKS = 3
"""Of the sound tasks, and of those whose holes are missed, so many are tried here, each with every twelfth cheat;
`make campaign` tries each cheat on two of all; `assay admit tests/holes/sound tests/holes/missed --verification
as-asked` tries all on all."""


class TaskEvidence(NamedTuple):
    """How a cheat fared on a task."""

    task: str
    cheat: str
    verification: Verification
    ended: Attempted


async def tried(
    wanted: Iterable[tuple[Known, Cheat]], verifications: Iterable[Verification], store: Path
) -> list[TaskEvidence]:
    """Every wanted pair where the cheat applies, under each verification."""
    pairs = list(wanted)
    tasks = {known.name: known.loaded for known, _ in pairs}
    async with attempts(store, concurrency=6) as run:
        told = await run.learn(list(tasks.values()))
        probes = {
            (known.name, cheat.name, asked): Probe(known.loaded, cheat.name, CheatAgent(cheat, knowledge), asked)
            for known, cheat in pairs
            if applies(cheat, knowledge := told[known.loaded.task.id])
            for asked in verifications
        }
        await run.add(list(probes.values()))
    found = ended(store)
    return [TaskEvidence(task, cheat, asked, found[probe.id]) for (task, cheat, asked), probe in probes.items()]


def applies(cheat: Cheat, knowledge: Knowledge) -> bool:
    return cheat.applies(knowledge) is None


RACES = {"swapped-while-read", "verifier-environment"}


@pytest.mark.long
async def test_every_hole_is_found_as_asked_and_most_are_closed_by_default(tmp_path: Path) -> None:
    corpus = drawn_holes()
    pairs = [(known, BY_NAME[name]) for known in corpus if known.hole for name in known.hole.cheats]
    found = await tried(pairs, ("as_asked", "default"), tmp_path / "first")
    through = {(t.task, t.cheat, t.verification) for t in found if t.ended.outcome == "pass"}
    for again in range(2):  # who races a verifier may lose on a busy machine, and can try again
        lost = [(k, c) for k, c in pairs if c.name in RACES and (k.name, c.name, "as_asked") not in through]
        more = await tried(lost, ("as_asked",), tmp_path / str(again)) if lost else []
        through |= {(t.task, t.cheat, t.verification) for t in more if t.ended.outcome == "pass"}
    assert {(known.name, cheat.name, "as_asked") for known, cheat in pairs} <= through
    passed = {task for task, _, asked in through if asked == "default"}
    assert passed == {known.name for known in corpus if known.hole and known.hole.default == "passes"}


def drawn_holes() -> list[Known]:
    holed = [known for known in tasks_in("holed").values() if known.hole]
    closed = [known for known in holed if known.hole and known.hole.default == "fails"]
    return draw_sample(closed, CLOSED) + draw_sample([known for known in holed if known not in closed], OPEN)


@pytest.mark.long
async def test_no_cheat_gets_through_a_sound_task(tmp_path: Path) -> None:
    await none_gets_through("sound", tmp_path)


@pytest.mark.long
async def test_holes_that_no_cheat_is_for_are_not_found(tmp_path: Path) -> None:
    await none_gets_through("missed", tmp_path)


async def none_gets_through(kind: Kind, store: Path) -> None:
    tasks = draw_sample(list(tasks_in(kind).values()), TASKS)
    of, most = (len(tasks), 2) if WHOLE else (4 * TASKS, 1)
    pairs = [(k, c) for i, k in enumerate(tasks) for j, c in enumerate(CHEATS) if (i + j) % of < most]
    found = await tried(pairs, ("as_asked",), store)
    assert len({t.task for t in found}) == len(tasks)
    assert [t for t in found if t.ended.outcome == "pass"] == []
