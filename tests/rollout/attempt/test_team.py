"""Teams in ordinary runs: who did what, what each may do, in which order, and what a record shows of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assay.agents.teams.agent import TeamAgent
from assay.agents.teams.spec import read_team
from assay.analysis.actions import actions_of
from assay.analysis.actor_usage import actor_usage
from assay.analysis.contracts import findings_of_contract, read_contract
from assay.analysis.subject import Subject
from assay.errors import AgentError
from assay.records import Limits, Trajectory, world_calls
from assay.rollout import RunConfig, Tally, start_run
from assay.rollout.rejudge.config import ReplayConfig
from assay.rollout.rejudge.replay import replay
from assay.settings import Settings
from assay.store import RunStore
from tests.rollout.acting import write_task
from tests.rollout.attempt import teaming
from tests.rollout.counting import counting_task
from tests.store.chains import verify_chain

HERE = Path(teaming.__file__)


def role(name: str, actor: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "agent": f"{HERE}:{actor}", **fields}


async def count(tmp_path: Path, team: dict[str, Any], limits: Limits | None = None, **fields: Any) -> Trajectory:
    """Runs a team at the task to reach ten."""
    settings = Settings(tmp_path / "cache", tmp_path / "store")
    config = RunConfig(tasks=("-",), agent="team", agent_options=team, run="r", **fields)
    await start_run(config, settings, Tally(), tasks=[counting_task(limits=limits)])
    with RunStore.open(settings.store, "r") as store:
        (row,) = store.attempts()
        assert verify_chain(store.events(row.chain), head=row.head) is None
        return store.trajectory(row.chain)


def kinds(made: Trajectory, kind: str) -> list[dict[str, Any]]:
    return [item.data for item in made.evidence if item.kind == kind]


def acts(made: Trajectory) -> list[tuple[str | None, list[str]]]:
    return [(step.actor_name, [call.name for call in step.tool_calls]) for step in made.steps]


async def test_actors_take_turns_and_every_step_names_its_actor(tmp_path: Path) -> None:
    roles = [role("one", "Adder", options={"by": 2, "times": 3}), role("two", "Adder", options={"by": 2, "times": 2})]
    made = await count(tmp_path, {"roles": roles})
    assert [step.actor_name for step in made.steps] == ["one", "two", "one", "two", "one"]
    assert {step.actor for step in made.steps} == {"agent"}
    assert (made.outcome, made.finished and made.finished.ended) == ("pass", "every actor has ended")
    (team,) = kinds(made, "team")
    assert [one["name"] for one in team["team"]["roles"]] == ["one", "two"]


async def test_a_message_reaches_the_readers_and_the_record_says_who_sent_it(tmp_path: Path) -> None:
    team = {
        "roles": [role("boss", "Teller", options={"text": "add 10"}, tools=[]), role("hand", "Follower")],
        "channels": [{"name": "table", "writers": ["boss"]}],
    }
    made = await count(tmp_path, team)
    assert made.outcome == "pass"
    assert kinds(made, "team_message") == [
        {"id": "m1", "channel": "table", "sender": "boss", "receivers": ["hand"], "text": "add 10", "step": 0}
    ]
    assert acts(made) == [("boss", ["team_send"]), ("hand", ["team_read"]), ("hand", ["add"]), ("hand", ["team_read"])]
    assert [len(world_calls(step)) for step in made.steps] == [0, 0, 1, 0]
    boss, hand = actor_usage(made)
    assert (boss.sent, boss.acts, hand.received, hand.acts, hand.turns) == (1, 0, 1, 1, 3)


async def test_a_hand_off_begins_the_other_actor_and_its_end_returns_the_turn(tmp_path: Path) -> None:
    roles = [role("manager", "Manager", tools=[]), role("worker", "Worker", hand_off_to=[])]
    made = await count(tmp_path, {"roles": roles, "order": "hand-off"})
    assert [one for one, _ in acts(made)] == ["manager", "worker", "manager"] * 2
    assert made.outcome == "pass"
    passed = [(one["sender"], one["receiver"], one["text"], one["returns"]) for one in kinds(made, "hand_off")]
    assert passed == [
        ("manager", "worker", "add 3", False),
        ("worker", "manager", "3", True),
        ("manager", "worker", "add 7", False),
        ("worker", "manager", "10", True),
    ]
    assert '"from":"worker"' in made.steps[2].observations[0].content
    assert made.finished is not None
    assert made.finished.ended == "every actor has ended"


async def test_a_budget_of_turns_ends_an_actor_and_a_schedule_delays_it(tmp_path: Path) -> None:
    roles = [role("adviser", "Adder", options={"times": 9}, turns=2, after=1, every=3),
             role("worker", "Adder", options={"times": 5})]  # fmt: skip
    made = await count(tmp_path, {"roles": roles})
    assert [step.actor_name[:1] for step in made.steps if step.actor_name] == ["w", "a", "w", "w", "a", "w", "w"]


async def test_those_that_wait_for_their_time_act_where_nobody_else_can(tmp_path: Path) -> None:
    roles = [role("early", "Adder"), role("late", "Adder", options={"times": 2}, after=50)]
    made = await count(tmp_path, {"roles": roles})
    assert [step.actor_name for step in made.steps] == ["early", "late", "late"]


async def test_an_adviser_is_handed_to_no_more_often_than_its_budget(tmp_path: Path) -> None:
    roles = [role("manager", "Manager", tools=[]), role("worker", "Worker", hand_off_to=[], turns=1)]
    made = await count(tmp_path, {"roles": roles, "order": "hand-off"})
    assert [one for one, _ in acts(made)] == ["manager", "worker", *["manager"] * 3]
    assert made.steps[3].observations[0].content == "to: 'worker' has taken its 1 turns"
    assert [one["returns"] for one in kinds(made, "hand_off")] == [False, True]


async def test_an_actor_cannot_use_what_its_role_lacks_nor_speak_as_another(tmp_path: Path) -> None:
    team = {
        "roles": [role("impostor", "Impostor", tools=[]), role("honest", "Adder", hand_off_to=[])],
        "channels": [{"name": "orders", "writers": ["honest"]}],
    }
    made = await count(tmp_path, team)
    assert kinds(made, "facts")[0]["facts"] == {"value": 1}
    assert kinds(made, "team_message") == kinds(made, "hand_off") == []
    denied = [(one["actor"], one["tool"], one["step"]) for one in kinds(made, "guard") if one["decision"] == "denied"]
    assert denied == [("impostor", "add", 0), ("impostor", "team_send", 2), ("impostor", "team_hand_off", 3)]
    (tried,) = kinds(made, "tried")
    assert tried["actor"] == "impostor"
    forbidden, around, sent, handed, noted = tried["problems"]
    assert "may not use the tool 'add'" in forbidden
    assert "call it through act()" in around
    assert "has no 'team_send'" in sent
    assert "has no 'team_hand_off'" in handed
    assert "added by the runner alone" in noted
    assert actor_usage(made)[0].refused == 3


async def test_an_actor_cannot_act_out_of_its_turn(tmp_path: Path) -> None:
    made = await count(tmp_path, {"roles": [role("hurrier", "Hurrier"), role("slow", "Slow")]})
    assert kinds(made, "facts")[0]["facts"] == {"value": 2}
    assert "acts out of its turn" in kinds(made, "hurried")[0]["problem"]


async def test_an_actor_gets_neither_parameters_nor_workspace_nor_another_ones_instruction(tmp_path: Path) -> None:
    roles = [role("a", "Looker", instructions="Only for a."), role("b", "Looker")]
    first, second = kinds(await count(tmp_path, {"roles": roles}), "looked")
    assert (first["actor"], second["actor"]) == ("a", "b")
    assert "Only for a." in first["instruction"]
    assert "Only for a." not in second["instruction"]
    assert (first["parameters"], first["has_workspace"], first["has_solution"]) == ({}, False, False)
    assert first["seed"] != second["seed"]


async def test_a_failing_actor_breaks_the_attempt_as_the_agent_and_is_named(tmp_path: Path) -> None:
    made = await count(tmp_path, {"roles": [role("good", "Adder", options={"times": 9}), role("bad", "Failing")]})
    assert made.finished is not None
    assert (made.finished.broke, "actor bad" in str(made.finished.error)) == ("agent", True)
    assert [one for one, _ in acts(made)] == ["good", "bad", "good"]


async def test_a_limit_of_turns_bounds_all_actors_together(tmp_path: Path) -> None:
    roles = [role(name, "Adder", options={"times": 50}) for name in ("a", "b", "c")]
    made = await count(tmp_path, {"roles": roles}, limits=Limits(turns=7))
    assert (len(made.steps), made.finished and made.finished.stopped) == (7, "turns")


async def test_an_absent_actor_does_nothing_and_the_name_says_so(tmp_path: Path) -> None:
    roles = [role("a", "Adder", options={"times": 10}), role("b", "Adder")]
    made = await count(tmp_path, {"roles": roles, "absent": ["b"]})
    assert (made.outcome, made.agent) == ("pass", "team:a=adder+b=adder-b")
    assert {step.actor_name for step in made.steps} == {"a"}


async def test_a_team_inside_another_agent_says_that_it_has_no_seats() -> None:
    from assay.agents.testing import FakeAttempt

    team = TeamAgent(read_team({"roles": [{"name": "a"}]}), {"a": teaming.Adder()})
    with pytest.raises(AgentError, match="this attempt seats one"):
        await team.run(FakeAttempt())


async def test_a_team_works_in_a_sandbox_by_its_tools_and_is_replayed(tmp_path: Path) -> None:
    write_task(tmp_path / "task")
    team = {
        "roles": [role("boss", "Teller", options={"text": "write done"}, tools=[]), role("hand", "Writer")],
        "channels": [{"name": "table"}],
    }
    settings = Settings(Settings.from_environment().cache, tmp_path / "store")
    config = RunConfig(tasks=(str(tmp_path / "task"),), agent="team", agent_options=team, run="r")
    await start_run(config, settings, Tally())
    with RunStore.open(tmp_path / "store", "r") as store:
        made = store.trajectory(store.attempts()[0].chain)
    assert (made.outcome, acts(made)) == ("pass", [("boss", ["team_send"]), ("hand", ["shell"])])
    report = await replay("r", ReplayConfig(all=True, no_experiments=True), settings, Tally())
    assert report.counts == {"agree": 1, "differ": 0, "cannot": 0}


FLOW = """contract = "secrets"
[[agents]]
name = "clerk"
may_call = ["team_*"]
[[labels]]
name = "number"
source = 'who == "clerk" and call.name == "add"'
may_reach = ["tool:team_send", "auditor"]
"""


async def test_rules_of_permission_and_flow_fire_on_a_recorded_team(tmp_path: Path) -> None:
    roles = [role("clerk", "Leaker"), role("auditor", "Reader"), role("guest", "Reader")]
    made = await count(tmp_path, {"roles": roles, "channels": [{"name": "table"}]})
    subject = Subject(made, actions_of(made), lambda _: None)
    found = findings_of_contract(read_contract(FLOW, "flow"), subject)
    assert [(one.rule, one.data["who"]) for one in found] == [
        ("secrets.permission", "clerk"),
        ("secrets.number", "guest"),
    ]
    kept = await count(tmp_path / "kept", {"roles": roles, "channels": [{"name": "table", "readers": ["auditor"]}]})
    found = findings_of_contract(read_contract(FLOW, "flow"), Subject(kept, actions_of(kept), lambda _: None))
    assert [one.rule for one in found] == ["secrets.permission"]


async def test_model_calls_are_each_actors_own_and_a_handed_task_is_a_sub_agents(tmp_path: Path) -> None:
    roles = [{"name": "boss", "agent": "loop", "tools": []}, {"name": "hand", "agent": "loop", "hand_off_to": []}]
    model = f"scripted:{HERE}:boss_and_worker"
    made = await count(tmp_path, {"roles": roles, "order": "hand-off"}, model=model)
    assert made.outcome == "pass"
    calls = [(call.actor_name, call.cause, call.branch) for call in made.calls]
    assert [name for name, _, _ in calls] == ["boss", "hand", "hand", "boss"]
    assert [cause for _, cause, _ in calls] == ["root", "sub_agent", None, None]
    assert calls[0][2] == calls[3][2] != calls[1][2] == calls[2][2]
    assert [step.actor_name for step in made.steps if step.call is not None] == ["boss", "hand", "hand", "boss"]
    boss, hand = actor_usage(made)
    assert (boss.calls, hand.calls, boss.hand_offs, hand.acts) == (2, 2, 1, 1)
    tools = {name: {one["function"]["name"] for one in call.request["tools"]} for name, call in
             ((call.actor_name, call) for call in made.calls if "tools" in call.request)}  # fmt: skip
    assert tools == {"boss": {"team_hand_off", "team_read", "finish"}, "hand": {"add", "team_read", "finish"}}


async def test_what_follows_a_hand_off_in_the_same_act_is_not_done(tmp_path: Path) -> None:
    roles = [role("hasty", "Hasty", options={"times": 3}), role("worker", "Worker")]
    made = await count(tmp_path, {"roles": roles, "order": "hand-off"})
    assert acts(made)[:2] == [("hasty", ["team_hand_off", "add", *["team_hand_off"] * 3]), ("worker", ["add"])]
    assert [one.error for one in made.steps[0].observations] == [False, True, True, True, True]
    assert len(kinds(made, "hand_off")) == 2  # to the worker and back
    assert [one["reason"][:28] for one in kinds(made, "guard")] == ["Refused: the turn is that of"] * 4
    assert made.outcome == "fail"  # 3, and neither 10 nor 3 and 3


async def test_an_actor_cannot_break_the_next_one_by_a_text_that_no_record_holds(tmp_path: Path) -> None:
    team = {"roles": [role("odd", "Surrogate"), role("hand", "Follower")], "channels": [{"name": "table"}]}
    made = await count(tmp_path, team)
    assert made.outcome == "pass"
    assert kinds(made, "team_message")[0]["text"] == "\\ud800 add 10"
    assert made.steps[0].tool_calls[0].parsed == {"channel": "table", "text": "\\ud800 add 10"}


async def test_a_hand_off_evades_neither_the_time_of_an_actor_nor_the_bound_on_unread_messages(tmp_path: Path) -> None:
    first = role("hasty", "Hasty", options={"by": 10, "times": 1_200}, hand_off_to=["worker"])
    made = await count(tmp_path, {"roles": [first, role("worker", "Worker", after=5)]})
    assert "after 5 turns of the team" in made.steps[0].observations[0].content
    assert not kinds(made, "hand_off")


async def test_hand_offs_fill_an_inbox_no_further_than_messages_do(tmp_path: Path) -> None:
    first = role("hasty", "Hasty", options={"by": 10, "times": 1_200}, hand_off_to=["worker"])
    made = await count(tmp_path, {"roles": [first, role("worker", "Worker")]})
    assert len(kinds(made, "hand_off")) == 1_000
    assert "1000 unread" in made.steps[0].observations[-1].content


async def test_what_an_actor_returns_is_bounded_as_a_message_is(tmp_path: Path) -> None:
    roles = [role("manager", "Manager"), role("worker", "Surrogate")]
    channels = [{"name": "table", "writers": ["worker"]}]
    made = await count(tmp_path, {"roles": roles, "channels": channels, "order": "hand-off"})
    returned = [one["text"] for one in kinds(made, "hand_off") if one["returns"]]
    assert [text[:8] for text in returned] == ["\\ud800xx"] * 2
    assert {len(text) for text in returned} == {20_000}
    assert made.finished is not None
    assert made.finished.broke is None
