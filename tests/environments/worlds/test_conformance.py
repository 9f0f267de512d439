"""The checker passes what keeps its promises and names the one that is broken."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from assay.cli.app import build_app
from assay.environments.worlds.conformance import check_in_process, check_world
from assay.environments.worlds.grid import Grid
from assay.environments.worlds.interface import Turn
from assay.environments.worlds.opening import open_world
from assay.environments.worlds.played import PlayedWorld
from assay.errors import EnvironmentFailure
from assay.records import EnvironmentSpec
from tests.environments.worlds.every import NAMES, WORLDS, made
from tests.rollout.counting import CountingWorld

pytestmark = pytest.mark.newest


def broken(kind: Any) -> set[str]:
    return {one.name for one in check_world(lambda seed: kind({}, seed), seeds=(1, 2)) if one.problem}


@pytest.mark.parametrize("which", WORLDS, ids=NAMES)
def test_every_family_keeps_every_promise(which: Any) -> None:
    wrap = [{"kind": "failures"}, {"kind": "noise"}, {"kind": "paraphrase"}, {"kind": "twin"}]
    for more in ({}, {"wrap": wrap}):
        found = check_world(lambda seed, more=more: made(which, seed, **more), seeds=(1, 2**33))  # type: ignore[misc]
        assert [one for one in found if one.problem] == []


class Shared(Grid):
    def fork(self) -> Any:
        return self


class Raises(Grid):
    def act(self, name: str, arguments: Any) -> Turn:
        return Turn("", 0.0) if name == "no_such_tool" else super().act(name, dict(**arguments))


class Clocked(Grid):
    def render(self) -> str:
        return super().render() + os.urandom(4).hex()


class Nameless(Grid):
    def state(self) -> str:
        return "somewhere"


class Modest(Grid):
    def solved(self) -> bool:
        return False


class Boastful(Grid):
    def solved(self) -> bool:
        return True


class Forgetful(Grid):
    def restore(self, state: bytes) -> None:
        self.reset()


class Endless(Grid):
    def reset(self, seed: int | None = None) -> str:
        seen = super().reset(seed)
        self.limit = 10**9
        return seen

    def do_move(self, given: Any) -> Turn:
        return super().do_move(given)._replace(terminated=False)


class Paid(Grid):
    def act(self, name: str, arguments: Any) -> Turn:
        turn = super().act(name, arguments)
        return turn._replace(reward=float("nan")) if turn.error else turn


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "promise"),
    [
        (Shared, "a_fork_lives_alone"),
        (Raises, "wrong_acts_are_answered_and_change_nothing"),
        (Clocked, "a_seed_makes_one_world"),
        (Nameless, "states_are_named"),
        (Modest, "the_oracle_solves_what_can_be_solved"),
        (Boastful, "facts_are_plain_and_say_whether_it_is_solved"),
        (Forgetful, "what_was_kept_can_be_restored"),
        (Endless, "an_episode_ends_and_stays_so"),
        (Paid, "wrong_acts_are_answered_and_change_nothing"),
    ],
)
def test_a_broken_promise_is_named(kind: Any, promise: str) -> None:
    assert promise in broken(kind)


async def test_other_worlds_are_tried_as_well() -> None:
    found = await check_in_process(lambda: open_world(EnvironmentSpec("maze", {}, 3)))
    assert [one for one in found if one.problem] == []
    careless = await check_in_process(lambda: CountingWorld({}, 0))
    assert "wrong_calls_are_answered" in {one.name for one in careless if one.problem}


def test_the_command_says_what_holds_and_what_is_wrong(tmp_path: Path) -> None:
    run = CliRunner()
    good = run.invoke(build_app(), ["check", "environment", "maze", "--knob", "size=3", "--knob", "view=map"])
    assert (good.exit_code, "14 of 14 promises hold" in good.output) == (0, True)
    bad = run.invoke(build_app(), ["check", "environment", f"{__file__}:Nameless", "--json"])
    assert (bad.exit_code, '"kind": "text world"' in bad.output) == (1, True)


@pytest.mark.parametrize(
    "arguments", [["maze", "--knob", "size=x"], ["maze", "--knob", "size"], ["mase"], ["json:dumps"]]
)
def test_what_cannot_be_checked_is_told_in_a_sentence(arguments: list[str]) -> None:
    result = CliRunner().invoke(build_app(), ["check", "environment", *arguments])
    assert result.exit_code == 2


class Fragile(Grid):
    def act(self, name: str, arguments: Any) -> Turn:
        message = "the world's own bug"
        raise KeyError(message)


async def test_what_a_world_raises_is_the_environments_failure() -> None:
    with pytest.raises(EnvironmentFailure, match="own bug"):
        await PlayedWorld(Fragile({}, 1)).call("move", {"direction": "up"})
