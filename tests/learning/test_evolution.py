"""Evolution of a configuration: search, gate, ledger, and the same result after an interruption."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from assay.agents.expert import ExpertAgent
from assay.cli.app import build_app
from assay.errors import StoreError, UserError
from assay.learning.evolution.evolve import EvolveReport, evolve
from assay.learning.evolution.option_leaks import find_option_leak
from assay.learning.evolution.recipe import EvolveRecipe
from assay.learning.memory import add_to_memory
from assay.learning.skills.holdouts import HoldoutLedger
from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings
from assay.store import list_runs
from assay.tasks import find_tasks

RECIPE: dict[str, Any] = {
    "name": "quiet",
    "agent": "expert",
    "base": {"noise": 0.8},
    "space": {"noise": [0.8, 0.4, 0.0], "steps": [50, 60]},
    "search": {"tasks": ["family:grid,n=16,size=4,seed=1"]},
    "gate": {"tasks": ["family:grid,n=40,size=4,seed=2"]},
}


def recipe(**changes: Any) -> EvolveRecipe:
    return msgspec.convert({**RECIPE, **changes}, EvolveRecipe)


def settings_in(folder: Path) -> Settings:
    return Settings(folder / "cache", folder / "store")


class Interrupted(Exception):
    """Ends a search in the middle."""


async def test_a_better_configuration_is_accepted_and_an_interrupted_search_ends_alike(tmp_path: Path) -> None:
    whole = await evolve(recipe(), settings_in(tmp_path / "a"))
    assert (whole.winner, whole.accepted) == ({"noise": 0.0}, True)
    assert whole.held_out is not None
    assert whole.held_out[1] == 1.0 > whole.held_out[0] + 0.3
    assert {one.options["noise"] for one in whole.candidates if one.on_front} == {0.0}

    said = list[str]()

    def stop(text: str) -> None:
        said.append(text)
        if len(said) in (3, 6):
            raise Interrupted

    other = settings_in(tmp_path / "b")
    for _ in range(2):
        with pytest.raises(Interrupted):
            await evolve(recipe(), other, stop)
    resumed = await evolve(recipe(), other)
    assert plain(resumed) == plain(whole)
    runs = len(list_runs(other.store))
    assert plain(await evolve(recipe(), other)) == plain(whole)
    assert len(list_runs(other.store)) == runs == len(list_runs(tmp_path / "a" / "store"))
    assert len(HoldoutLedger(other.store).uses()) == 1


def plain(found: EvolveReport) -> dict[str, Any]:
    return {**msgspec.to_builtins(found), "ledger": ""}


async def test_halving_comes_to_the_same_winner_with_fewer_attempts(tmp_path: Path) -> None:
    halved = await evolve(recipe(search={**RECIPE["search"], "method": "halving"}), settings_in(tmp_path))
    assert halved.winner["noise"] == 0.0
    assert sum(one.tasks for one in halved.candidates) < 7 * 16
    assert halved.accepted


async def test_what_only_the_search_believes_is_refused(tmp_path: Path) -> None:
    space = {"steps": [50, 51, 52, 53, 54, 55]}  # the same policy: a step limit that no attempt meets
    search = {**RECIPE["search"], "seed": 4}
    null = recipe(space=space, agent=f"{__file__}:Coin", base={"steps": 50}, search=search)
    found = await evolve(null, settings_in(tmp_path))
    assert found.claimed[1] > found.claimed[0]
    assert found.held_out is not None
    assert (found.accepted, abs(found.held_out[1] - found.held_out[0]) < 0.3) == (False, True)
    assert "the present configuration" in found.reasons[0]


class Coin:
    """Solves or does nothing by a coin that its option seeds: no value of it is better than another."""

    name = "coin"
    needs_model = False
    takes_advice = True

    def __init__(self, steps: int) -> None:
        self._steps = steps

    async def run(self, attempt: Any) -> None:
        import random

        if random.Random(f"{attempt.seed}/{self._steps}").random() < 0.5:
            while attempt.ended is None:
                await attempt.act([attempt.tools.advice()])
        else:
            attempt.finish("tails")


FEW_MOVES = """
contract = "calm"
[[rules]]
name = "few-moves"
kind = "governance"
require = 'count(call.name == "move") <= 3'
"""


async def test_a_winner_that_is_less_safe_is_refused_and_both_are_on_the_front(tmp_path: Path) -> None:
    (tmp_path / "calm.toml").write_text(FEW_MOVES)
    given = recipe(base={"steps": 3}, space={"steps": [3, 50]}, contracts=(str(tmp_path / "calm.toml"),))
    found = await evolve(given, settings_in(tmp_path))
    by_steps = {one.options["steps"]: one for one in found.candidates}
    assert by_steps[50].rate > by_steps[3].rate
    assert (by_steps[3].unsafe, by_steps[50].unsafe) == (0.0, pytest.approx(1 - by_steps[3].rate))
    assert by_steps[3].on_front
    assert by_steps[50].on_front
    assert not found.accepted
    assert found.reasons[0].startswith("a safety contract was broken in")
    assert plain(await evolve(given, settings_in(tmp_path))) == plain(found)


async def test_tasks_of_the_search_decide_nothing_and_a_name_is_of_one_recipe(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    with pytest.raises(UserError, match="16 tasks of the gate are tasks of the search"):
        await evolve(recipe(gate={"tasks": RECIPE["search"]["tasks"]}), settings)
    same = {"noise": [0.8, 1.0]}
    found = await evolve(recipe(space=same), settings)
    assert (found.accepted, found.held_out) == (False, None)
    assert HoldoutLedger(settings.store).uses() == []
    with pytest.raises(UserError, match="another recipe"):
        await evolve(recipe(), settings)
    ledger = Path(found.ledger)
    ledger.write_bytes(ledger.read_bytes().replace(b'"tasks":16', b'"tasks":17'))
    with pytest.raises(StoreError):
        await evolve(recipe(space=same), settings)


def test_the_command_prints_what_was_claimed_and_what_is_true(tmp_path: Path) -> None:
    file = Path(__file__).parents[2] / "recipes" / "evolve_search.toml"
    words = ["--set", "search.tasks=['family:adventure,n=8,rooms=4,locks=1,seed=1']"]
    words += ["--set", "gate.tasks=['family:adventure,n=8,rooms=4,locks=1,seed=2']", "--store", str(tmp_path / "s")]
    done = CliRunner().invoke(build_app(), ["evolve", str(file), *words])
    assert done.exit_code == 1, done.output
    assert "claimed by the search" in done.stdout
    again = CliRunner().invoke(build_app(), ["evolve", str(file), *words, "--json"])
    told = json.loads(again.stdout)
    assert (told["name"], told["accepted"], len(told["candidates"])) == ("small-budget", False, 6)


@pytest.mark.quick
@pytest.mark.parametrize("change", [{"space": {}}, {"space": {"noise": []}}, {"name": "a/b"}, {"name": ""}])
def test_a_search_that_cannot_work_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises((UserError, msgspec.ValidationError)):
        recipe(**change)


async def test_winner_with_a_memory_of_the_gates_tasks_is_not_tried(tmp_path: Path) -> None:
    gate = "family:adventure,n=2,rooms=3,locks=0,seed=91"
    settings, memory = settings_in(tmp_path), tmp_path / "m.jsonl"
    await start_run(RunConfig(tasks=(gate,), agent="explorer", run="known"), settings, Tally())
    add_to_memory(memory, ["known"], settings)
    (tmp_path / "empty.jsonl").write_bytes(b"")
    for tasks, leaks in ((gate, True), (gate.replace("91", "92"), False)):
        found = find_option_leak({"memory": str(memory)}, {"memory": ""}, find_tasks((tasks,)))
        assert (found is not None) == leaks
    assert find_option_leak({"memory": str(memory)}, {"memory": str(memory)}, find_tasks((gate,))) is None
    prompt = {"prompt": "In adventure-locks0-rooms3-91-1 go north twice."}
    assert find_option_leak(prompt, {}, find_tasks((gate,))) is not None


async def test_leak_in_an_option_ends_in_a_refusal_and_spends_nothing(tmp_path: Path) -> None:
    note = tmp_path / "note.txt"
    note.write_text("grid-size4-2-3: right, right, down")
    search = {**RECIPE["search"], "method": "grid"}
    changed = recipe(agent=f"{__file__}:NotedAgent", space={"noise": [0.0], "note": [str(note)]}, search=search)
    report = await evolve(changed, settings_in(tmp_path))
    assert not report.accepted
    assert "option note holds a task id" in report.reasons[0]
    assert HoldoutLedger(tmp_path / "store").uses() == []


class NotedAgent(ExpertAgent):
    """The expert, with a note."""

    def __init__(self, note: str = "", **options: Any) -> None:
        super().__init__(**options)
