"""Other people's worlds keep our promises; what is not installed is skipped, and says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assay.admission.battery import admit
from assay.admission.config import AdmitConfig
from assay.environments.worlds.conformance import check_world
from assay.environments.worlds.opening import text_world, world_kind
from assay.environments.worlds.played import solution
from assay.errors import UserError
from assay.rollout import Tally
from assay.settings import Settings
from assay.tasks import find_tasks

MINIGRID = {"id": "MiniGrid-Empty-Random-5x5-v0"}
CASES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("minigrid", "gymnasium", {**MINIGRID, "view": "own"}),
    ("minigrid", "gymnasium", {"id": "MiniGrid-DoorKey-5x5-v0"}),
    ("gymnasium", "gymnasium", {"id": "FrozenLake-v1", "options": {"is_slippery": False}}),
    ("gymnasium", "gymnasium", {"id": "CartPole-v1", "success": 20.0}),
    ("reasoning_gym", "reasoning-gym", {"dataset": "chain_sum", "config": {"min_terms": 4}}),
    ("textarena", "textarena", {"id": "TowerOfHanoi-v0"}),
    ("textarena", "textarena", {"id": "GuessTheNumber-v0"}),
)


def needs(module: str) -> None:
    pytest.importorskip(module, reason=f"{module} is not installed: pip install 'assay[{module.replace('_', '-')}]'")


@pytest.mark.long
@pytest.mark.parametrize(
    ("module", "kind", "config"), CASES, ids=[str(next(iter(config.values()))) for *_, config in CASES]
)
def test_adapted_worlds_keep_every_promise(module: str, kind: str, config: dict[str, Any]) -> None:
    needs(module)
    found = check_world(lambda seed: text_world(world_kind(kind), config, seed), seeds=(1,))
    assert [one for one in found if one.problem] == []


def test_minigrid_is_shown_in_words_and_as_a_map() -> None:
    needs("minigrid")
    own, whole = (
        text_world(world_kind("gymnasium"), {"id": "MiniGrid-DoorKey-5x5-v0", "view": view}, 3).reset()
        for view in ("own", "map")
    )
    assert own == "you face right; locked yellow door 1 ahead 1 left; grey wall 1 ahead; yellow key 1 right"
    assert whole.splitlines()[0] == "#####"
    assert {"K", "L", "G"} <= set(whole)


@pytest.mark.long
async def test_a_searched_solution_lets_minigrid_be_admitted(tmp_path: Path) -> None:
    needs("minigrid")
    task = f"family:gymnasium,n=1,id={MINIGRID['id']},search=400"
    (loaded,) = find_tasks([task])
    parameters = loaded.task.environment.parameters
    world = text_world(world_kind("gymnasium"), parameters, loaded.task.environment.seed)
    assert 0 < len(solution(world)) < 8
    reports = (await admit(AdmitConfig(tasks=(task,), mutants=4), Settings(tmp_path / "c", tmp_path), Tally())).reports
    assert reports[0].admitted["default"]


@pytest.mark.quick
@pytest.mark.parametrize("name", ["os:system", "../x:y", "module:Env-v0", "a b"])
def test_an_id_that_imports_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="id"):
        world_kind("gymnasium")({"id": name}, 1)


def test_an_environment_that_is_not_there_is_told() -> None:
    needs("gymnasium")
    with pytest.raises(UserError, match=r"Nowhere-v0"):
        find_tasks(["family:gymnasium,n=1,id=Nowhere-v0"])


@pytest.mark.quick
def test_what_is_not_installed_is_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, family in (("textarena", "textarena,id=Bandit-v0"), ("reasoning_gym", "reasoning-gym,dataset=x")):
        monkeypatch.setitem(__import__("sys").modules, module, None)
        with pytest.raises(UserError, match="pip install"):
            find_tasks([f"family:{family},n=1"])


@pytest.mark.quick
@pytest.mark.parametrize("game", ["Debate-v0", "Wordle-v0", "Chess-v0"])
def test_games_that_would_reach_out_are_refused(game: str) -> None:
    with pytest.raises(UserError, match="TowerOfHanoi"):
        find_tasks([f"family:textarena,n=1,id={game}"])
