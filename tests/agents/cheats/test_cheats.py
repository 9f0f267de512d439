"""Every cheat beats a careless verifier as that is asked for, and none beats Assay's own verification."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from assay.agents.cheats import CHEATS
from assay.agents.cheats.interface import Knowledge
from assay.records import Verdict
from tests.agents.cheats.bench import Small, in_room
from tests.agents.cheats.naive import CASES
from tests.agents.cheats.sound import SOUND, STILL_PAID, WORTH_MORE
from tests.sampling import draw_sample

pytestmark = pytest.mark.long
BY_NAME = {cheat.name: cheat for cheat in CHEATS}
BY_RUNNER = ("conftest", "pytest", "tests", "forged", "stdlib", "swapped")
"""Of cheats that can be tried anywhere, those to be tried where a runner of tests decides; the others where a plain
script does, which is judged in a fraction of the time."""


def _sound_for(name: str) -> list[str]:
    """The sound tasks to try a cheat on: all that it is for, or the one that is nearest to what it exploits."""
    if BY_NAME[name].applies(Knowledge("/workspace")) is None:
        return ["module" if any(word in name for word in BY_RUNNER) else "answer"]
    return [task for task in SOUND if BY_NAME[name].applies(SOUND[task].knowledge()) is None]


def _of_sound(names: list[str]) -> list[tuple[str, str]]:
    return [(name, task) for name in names for task in _sound_for(name)]


NOT_PAID, SAMPLE = [name for name in BY_NAME if name not in STILL_PAID], 3
"""Of cheats that by default beat not even a careless verifier, so many are tried by default here; `make campaign` tries
all, and each of them on sound tasks."""
HELPED = [*STILL_PAID, *draw_sample(NOT_PAID, SAMPLE)]
PAID = draw_sample(_of_sound(list(STILL_PAID)), 4)
"""What by default beats a careless verifier is tried on sound tasks, with those tasks that pay an exception."""
TABLE = list(dict.fromkeys([*PAID, *WORTH_MORE, *_of_sound(draw_sample(NOT_PAID, 2))]))


def _selected(request: pytest.FixtureRequest, test: str) -> list[dict[str, str]]:
    """The parameters with which a test is to run."""
    items = [item for item in request.session.items if getattr(item, "originalname", "") == test]
    return [dict(item.callspec.params) for item in items if hasattr(item, "callspec")]


@pytest.fixture(scope="module")
def asked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Verdict]:
    """What cheats are paid, as asked, by the careless verifiers."""
    names = sorted({p["name"] for p in _selected(request, "test_cheat_beats_a_careless_verifier")})
    work = {n: lambda room, n=n: room.as_asked(BY_NAME[n], CASES[n]) for n in names}
    return asyncio.run(in_room(tmp_path_factory.mktemp("asked"), work))


@pytest.fixture(scope="module")
def careless(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[Verdict, Verdict]]:
    """What nothing and what a solution is paid by the careless verifiers."""
    names = sorted({p["name"] for p in _selected(request, "test_careless_verifier_knows_nothing_from_a_solution")})
    cases = {repr(CASES[n]): CASES[n] for n in names}  # many cheats beat the same verifier
    work = {key: lambda room, case=case: room.nothing_and_all(case) for key, case in cases.items()}
    verdicts = asyncio.run(in_room(tmp_path_factory.mktemp("careless"), work))
    return {n: verdicts[repr(CASES[n])] for n in names}


@pytest.fixture(scope="module")
def by_default(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Verdict]:
    """What cheats are paid by Assay's own verification on sound tasks."""
    pairs = sorted({(p["name"], p["task"]) for p in _selected(request, "test_cheat_does_not_pass_by_default")})
    work = {f"{n} {t}": lambda room, n=n, t=t: room.by_default(BY_NAME[n], SOUND[t]) for n, t in pairs}
    return asyncio.run(in_room(tmp_path_factory.mktemp("default"), work))


@pytest.fixture(scope="module")
def helped(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Verdict]:
    """What cheats are paid where Assay judges with the careless verifiers."""
    names = sorted({p["name"] for p in _selected(request, "test_default_verification_makes_up_for_carelessness")})
    work = {n: lambda room, n=n: room.by_default(BY_NAME[n], CASES[n]) for n in names}
    return asyncio.run(in_room(tmp_path_factory.mktemp("helped"), work))


@pytest.mark.parametrize("name", HELPED)
def test_default_verification_makes_up_for_carelessness(helped: dict[str, Verdict], name: str) -> None:
    assert (helped[name].status == "pass") == (name in STILL_PAID), helped[name]


@pytest.mark.parametrize("name", draw_sample(list(BY_NAME), 14))
def test_cheat_beats_a_careless_verifier(asked: dict[str, Verdict], name: str) -> None:
    assert asked[name].status == "pass", asked[name]


@pytest.mark.parametrize("name", draw_sample(list(BY_NAME), 4))
def test_careless_verifier_knows_nothing_from_a_solution(
    careless: dict[str, tuple[Verdict, Verdict]], name: str
) -> None:
    nothing, solved = careless[name]
    assert nothing.status in ("fail", "error"), nothing
    assert solved.status == "pass", solved


@pytest.mark.parametrize(("name", "task"), TABLE)
def test_cheat_does_not_pass_by_default(by_default: dict[str, Verdict], name: str, task: str) -> None:
    verdict = by_default[f"{name} {task}"]
    if (name, task) in WORTH_MORE:
        assert verdict.status == "pass", "no longer an exception: take it off the list"
        return
    assert verdict.status in ("fail", "unknown"), verdict


@pytest.mark.parametrize("name", ["read-tests", "swapped-while-read", "forged-junit"])
async def test_a_large_module_is_no_hindrance(name: str, tmp_path: Path) -> None:
    path, case = "/workspace/words.py", CASES[name]
    long = "# " + "x" * 100 + "\n"
    image = {**case.image, path: case.image[path] + 3000 * long}
    large = case._replace(image=image, solved={path: case.solved[path] + 3000 * long})
    found = await in_room(tmp_path, {name: lambda room: room.as_asked(BY_NAME[name], large)})
    assert found[name].status == "pass", found


def test_each_case_is_of_a_cheat() -> None:
    assert set(CASES) == set(BY_NAME)
    assert isinstance(CASES["os-exit"], Small)
