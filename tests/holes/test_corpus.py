"""The corpus is what it says: well-formed tasks whose reference solutions pass and whose empty attempts do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.agents.cheats import CHEATS
from assay.rollout.plan import Verification
from tests.sampling import draw_sample

from .attempts import Attempted, null, oracle, run_probes
from .corpus import HERE, KINDS, SETTINGS, Kind, table, tasks_in

RUN: dict[Kind, int] = {"holed": 4, "sound": 3, "missed": 1}
"""How many tasks of each kind are run here, drawn by a seed; `make campaign` runs all."""
EARLY = {"early-exit"}
"""Its script stops early."""


def test_there_are_enough() -> None:
    holes = [known.hole for known in tasks_in("holed").values()]
    assert len(holes) >= 30
    assert sum(hole is not None and hole.incident is not None for hole in holes) >= 10
    # What a script chooses to compare is its own: no default verification closes these.
    assert sum(hole is not None and hole.default == "passes" for hole in holes) <= 0.35 * len(holes)
    assert len(tasks_in("sound")) == 22
    assert len(tasks_in("missed")) == 5


@pytest.mark.parametrize("name", tasks_in("holed"))
def test_holed_task_says_what_its_hole_is_and_which_cheats_are_for_it(name: str) -> None:
    known = tasks_in("holed")[name]
    assert known.hole is not None
    assert known.hole.hole
    assert known.hole.cheats
    assert set(known.hole.cheats) <= {cheat.name for cheat in CHEATS}
    assert set(known.hole.closed_by) <= SETTINGS
    assert bool(known.hole.closed_by) == (known.hole.default == "fails")
    readme = HERE / "holed" / name / "README.md"
    assert readme.exists() == (known.hole.incident is not None)
    assert known.hole.incident is None or known.hole.incident in readme.read_text()


def test_the_readme_has_the_table_of_all_holes() -> None:
    assert table() in (HERE / "README.md").read_text()


@pytest.mark.parametrize("kind", KINDS)
def test_no_task_has_a_fault_that_lint_finds(kind: Kind) -> None:
    for known in tasks_in(kind).values():
        assert known.loaded.warnings == ()
        assert known.loaded.task.oracle is not None


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
async def test_reference_solutions_pass_and_doing_nothing_does_not(kind: Kind, tmp_path: Path) -> None:
    known = tasks_in(kind)
    names = {*draw_sample(list(known), RUN[kind]), *EARLY.intersection(known)}
    loaded = [known[name].loaded for name in sorted(names)]
    asked: Verification = "as_asked"  # by default the solutions are tried before every cheat, in test_holes
    probes = [make(one, asked) for one in loaded for make in (oracle, null)]
    found = await run_probes(probes, tmp_path)
    assert len(found) == len(probes)
    assert wrong(found) == {}


def wrong(found: dict[str, Attempted]) -> dict[str, Attempted]:
    """Attempts that ended otherwise than they have to. A script that stops early (`early-exit`) leaves no reward, which
    is no pass and no failure either."""
    early_outcomes = ("unknown", "error")
    wanted: dict[str, tuple[str, ...]] = {name: ("pass",) if "@oracle" in name else ("fail",) for name in found}
    early = tuple(f"holes/{name}@null" for name in EARLY)
    wanted |= {name: early_outcomes for name in found if name.startswith(early)}
    return {name: ended for name, ended in found.items() if ended.outcome not in wanted[name]}
