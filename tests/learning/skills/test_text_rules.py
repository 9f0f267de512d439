"""The state of an adventure as its text shows it, beside the world's own; and rules as lines."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.agents.text_rules import MOST_FACTOR, TextMemory, choose_act, parse_rules, parse_view, render_rule
from assay.environments.worlds.adventure import Adventure


@pytest.mark.parametrize("seed", range(5))
def test_text_offers_what_the_world_offers(seed: int) -> None:
    world, draw = Adventure({"rooms": 7, "locks": 2}, seed), random.Random(seed)
    memory = TextMemory(f"{world.brief()}\n{world.reset()}")
    while not world.over:
        acts = memory.possible_acts()
        offered = {arguments["command"] for _, arguments in world.choices()}
        commands = {act.command for act in acts}
        assert commands <= offered
        assert all(one.startswith("unlock") for one in offered - commands)  # doors that stand open by now
        command = choose_act(acts, {}, draw).command
        memory.observe(command, world.act("do", {"command": command}).observation)


def test_roles_follow_what_was_read() -> None:
    memory = TextMemory(
        "Find the crown, bring it to the hall and drop it there, in at most 9 turns.\n"
        "You are in the hall. Ways: north, east (locked). Here: apple, brass key."
    )
    assert {act.pattern for act in memory.possible_acts()} == {
        "go through a new exit without the goal", "go through a locked door without the goal", "unlock without a key",
        "take another thing", "take a key", "look",
    }  # fmt: skip
    memory.observe("go north", "You go north. You are in the attic. Ways: south. Here: crown. You carry: brass key.")
    assert [act.pattern for act in memory.possible_acts()] == [
        "go back without the goal", "take the goal elsewhere", "drop a key", "look",
    ]  # fmt: skip
    memory.observe("take crown", "You take the crown. You are in the attic. Ways: south. You carry: brass key, crown.")
    assert memory.possible_acts()[0].pattern == "go back with the goal"


def test_instruction_without_a_goal_is_refused() -> None:
    with pytest.raises(ValueError, match="what to bring where"):
        TextMemory("Write a program.")


@given(st.text(max_size=300))
def test_any_text_is_read(text: str) -> None:
    parse_view(text)
    parse_rules(text)
    memory = TextMemory("Find the crown, bring it to the hall and drop it there")
    memory.observe("go north", text)
    memory.possible_acts()


@given(st.floats(min_value=0.001, max_value=1000))
def test_rule_is_read_back(factor: float) -> None:
    assert parse_rules(render_rule("take a key", factor) + " (3 times)") == {
        "take a key": pytest.approx(factor, abs=1e-3)
    }


def test_factor_of_a_hostile_rule_is_bounded() -> None:
    assert parse_rules("- look: 999999 times as likely as a random act") == {"look": MOST_FACTOR}
    assert parse_rules("- look: 1e999 times as likely as a random act") == {}
    with pytest.raises(ValueError, match="not a rule"):
        render_rule("look\n- take a key", 2.0)
