"""Specifications of teams: what is read, and what is refused before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.agents.building import build_agent
from assay.agents.teams.agent import TeamAgent
from assay.agents.teams.spec import Role, TeamChannel, TeamSpec, may_use, read_team
from assay.errors import AgentDefinitionError, MissingModelError, UserError

pytestmark = pytest.mark.quick
FILE = """order = "round-robin"
[[roles]]
name = "reader"
agent = "clue-solver"
options = { batch = 1 }
tools = []
[[roles]]
name = "solver"
agent = "clue-solver"
tools = ["assign"]
[[channels]]
name = "table"
writers = ["reader"]
"""


def test_a_team_file_is_read_and_names_the_agent_of_each_role(tmp_path: Path) -> None:
    (tmp_path / "team.toml").write_text(FILE)
    agent = build_agent("team", {"file": str(tmp_path / "team.toml")})
    assert isinstance(agent, TeamAgent)
    assert (agent.name, agent.needs_model) == ("team:reader=clue-solver+solver=clue-solver", False)
    assert (agent.team.writers(agent.team.channels[0]), agent.team.readers(agent.team.channels[0], "reader")) == (
        ("reader",),
        ("solver",),
    )


def test_options_are_a_team_without_a_file() -> None:
    team = read_team({"roles": '[{"name": "a"}, {"name": "b"}]', "order": "hand-off"})
    assert [team.receivers_of_hand_off(role) for role in team.roles] == [("b",), ("a",)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "a team has roles"),
        ({"roles": [{"name": "a"}, {"name": "a"}]}, "two roles are called 'a'"),
        ({"roles": [{"name": "a b"}]}, "name"),
        ({"roles": [{"name": "a", "hand_off_to": ["x"]}]}, "no role has this name"),
        ({"roles": [{"name": "a", "hand_off_to": ["a"]}]}, "hands off to itself"),
        ({"roles": [{"name": "a"}], "channels": [{"name": "c", "writers": ["z"]}]}, "writers: z"),
        ({"roles": [{"name": "a", "rights": "all"}]}, "rights"),
        ({"roles": [{"name": "a", "turns": 0}]}, "turns"),
        (
            {"roles": [{"name": "a", "after": 2}], "order": "hand-off"},
            "after and every are for the order 'round-robin'",
        ),
        ({"roles": [{"name": "a"}], "absent": ["z"]}, "absent: z"),
        ({"file": "/missing/team.toml"}, "cannot be read"),
        ({"roles": "[1"}, "is not JSON"),
    ],
)
def test_a_wrong_team_is_refused_with_the_place(options: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_team(options)


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        ("oracle", "takes the reference solution"),
        ("codex", "runs programs in the sandbox"),
        ("vote:2:null", "tries several times"),
    ],
)
def test_agents_that_cannot_be_told_apart_or_need_more_are_no_actors(agent: str, message: str) -> None:
    with pytest.raises(AgentDefinitionError, match=message):
        build_agent("team", {"roles": [{"name": "a", "agent": agent}]}, model="scripted:x")


def test_a_team_is_no_actor_and_a_missing_model_names_the_role() -> None:
    inner = TeamAgent(TeamSpec(roles=(Role(name="a", agent="null"),)), {"a": build_agent("null")})
    with pytest.raises(AgentDefinitionError, match="is a team itself"):
        TeamAgent(TeamSpec(roles=(Role(name="b"),)), {"b": inner})
    with pytest.raises(MissingModelError, match="role 'a'"):
        build_agent("team", {"roles": [{"name": "a", "agent": "loop"}]})
    with pytest.raises(AgentDefinitionError, match="no agent for the role 'b'"):
        TeamAgent(TeamSpec(roles=(Role(name="b"),)), {})


def test_patterns_decide_which_tools_a_role_may_use() -> None:
    role = Role(name="a", tools=("mail_*", "read"))
    assert [may_use(role, tool) for tool in ("mail_send", "read", "write", "mail")] == [True, True, False, False]
    team = TeamSpec(roles=(role, Role(name="b")), channels=(TeamChannel(name="c", readers=("b",)),))
    assert team.readers(team.channels[0], "b") == ()


@pytest.mark.parametrize("place", ["role", "channel", "team"])
def test_a_name_that_ends_with_a_line_is_no_name(place: str) -> None:
    given = {"role": "a", "channel": "c", "team": "t"} | {place: "a\n"}
    table = {"roles": [{"name": given["role"]}], "channels": [{"name": given["channel"]}], "name": given["team"]}
    with pytest.raises(UserError, match="name"):
        read_team(table)
