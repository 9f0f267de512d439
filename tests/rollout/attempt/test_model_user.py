"""A person whose words a model chooses: recorded, replayed without the model, and never the agent's failure."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.agents.interface import Attempt
from assay.environments.services.conversation import conversation
from assay.environments.services.users import ChangeOfMind, Fact, UserAct, UserScript
from assay.environments.services.world import ServiceWorld
from assay.errors import AssayError, UserError
from assay.records import Check, EnvironmentSpec, Task, ToolCall, Trajectory, digest_record
from assay.rollout import ReverifyConfig, RunConfig, Tally, reverify, start_run
from assay.rollout.rejudge.config import ReplayConfig
from assay.rollout.rejudge.replay import replay
from assay.settings import Settings
from assay.store import RunStore
from assay.tasks import LoadedTask
from tests.environments.services.lending import lending
from tests.environments.services.test_world import member

EMAIL = Fact("email", "My email address is m0@example.org.", ("email",))
PIN = Fact("pin", "The PIN is 4711.", ("pin",), "withheld")
SCRIPT = UserScript("I want to borrow a book.", (EMAIL, PIN))
HONEST = {"match": "email", "reply": "Sure, it is m0@example.org."}


class Asker:
    """Sends messages, and swallows whatever goes wrong."""

    name = "asker"
    needs_model = False

    def __init__(self, messages: str) -> None:
        self.messages = messages.split("|")

    async def run(self, attempt: Attempt) -> None:
        (tool,) = (one for one in attempt.tools.specs() if one.description.startswith("Sends a message to the person"))
        (field,) = tool.parameters["properties"]
        for number, text in enumerate(self.messages):
            arguments = {field: text}
            with suppress(AssayError):
                await attempt.act([ToolCall(f"c{number}", tool.name, json.dumps(arguments), arguments)])
        attempt.finish("asked")


def lending_task(script: UserScript, driver: str = "model") -> LoadedTask:
    knobs = {"conversation": {"script": msgspec.to_builtins(script), "driver": driver}}
    services = ["tests.environments.services.lending:lending", "conversation"]
    spec = EnvironmentSpec("assay.environments.services.world:ServiceWorld", {"services": services, "knobs": knobs}, 1)
    check = Check("nothing", "state", {"outcomes": [{"changes": []}]})
    return LoadedTask(Task("lend", "Ask.", spec, (check,), digest=digest_record([script])), None)


def settings(root: Path) -> Settings:
    return Settings(root / "cache", root / "store")


def run(root: Path, messages: str, script: UserScript = SCRIPT, *, rules: Any = (HONEST,), **config: Any) -> Trajectory:
    path = root / "user.json"
    path.write_text(json.dumps({"rules": list(rules), "default": "I am not sure."}))
    options = {"user_model": f"scripted:{path}", "retries": 0, **config}
    made = RunConfig(
        tasks=("-",),
        agent="tests.rollout.attempt.test_model_user:Asker",
        agent_options={"messages": messages},
        run="r",
        **options,
    )
    asyncio.run(start_run(made, settings(root), Tally(), tasks=[lending_task(script)]))
    with RunStore.open(root / "store", "r") as store:
        return store.trajectory(next(row for row in store.attempts() if row.final).chain)


def facts_of(trajectory: Trajectory) -> dict[str, Any]:
    found: dict[str, Any] = next(e.data["facts"] for e in trajectory.evidence if e.kind == "facts")
    return found


def test_the_persons_turns_are_steps_and_calls_of_their_own(tmp_path: Path) -> None:
    done = run(tmp_path, "Hello.|Your email?")
    assert [(step.index, step.actor) for step in done.steps] == [(0, "agent"), (1, "user"), (2, "agent"), (3, "user")]
    assert [seen.content for step in done.steps if step.actor == "agent" for seen in step.observations] == [
        step.message for step in done.steps if step.actor == "user"
    ]
    assert [step.call for step in done.steps if step.actor == "user"] == [call.id for call in done.user_calls]
    assert (len(done.user_calls), done.calls, done.outcome) == (2, (), "pass")
    assert {call.actor for call in done.user_calls} == {"user"}


def test_cost_is_in_the_attempt_and_apart_from_the_agents(tmp_path: Path) -> None:
    done = run(tmp_path, "Hello.|Your email?")
    assert done.finished is not None
    metrics = done.finished.metrics
    assert (metrics["user_calls"], metrics["model_calls"]) == (2.0, 0.0)
    assert metrics["user_tokens"] == sum(
        (call.usage.prompt_tokens or 0) + (call.usage.completion_tokens or 0) for call in done.user_calls
    )
    assert metrics["user_tokens"] > 0


def test_the_checklist_names_turn_and_message(tmp_path: Path) -> None:
    email, pin = facts_of(run(tmp_path, "Hello.|Your email?"))["summaries"]["conversation"]["checklist"]
    assert (email["status"], email["turn"], email["message"], email["quote"]) == ("told", 2, 4, HONEST["reply"])
    assert pin["status"] == "not told"


@pytest.mark.parametrize(
    ("messages", "reply", "kind"),
    [
        ("Your PIN?", "It is 4711.", "withheld"),
        ("Hello.", "I am m0@example.org.", "early"),
        ("Your email?", "It is m9@example.org.", "contradicted"),
        ("Hello.", "I am m9@example.org.", "invented"),
        ("Hello.", "", "silent"),
        ("Hello.", {"content": "Bye.", "tool_calls": [{"name": "leave_conversation"}]}, "left early"),
    ],
)
def test_leaving_the_script_breaks_the_attempt(tmp_path: Path, messages: str, reply: Any, kind: str) -> None:
    done = run(tmp_path, f"{messages}|Hello again.", rules=[{"match": ".", "reply": reply}])
    assert done.finished is not None
    assert (done.finished.broke, done.outcome) == ("user", None)
    found = next(e.data["deviations"] for e in done.evidence if e.kind == "user_deviations")
    assert [deviation["kind"] for deviation in found] == [kind]
    assert sum(step.actor == "user" for step in done.steps) == 1


def test_a_change_of_mind_that_is_left_out_breaks_the_attempt(tmp_path: Path) -> None:
    script = msgspec.structs.replace(SCRIPT, changes=(ChangeOfMind(1, "Actually, I want two books."),))
    done = run(tmp_path, "Your email?", script)
    assert done.finished is not None
    assert done.finished.broke == "user"
    assert "change left out" in str(done.finished.error)


def test_an_attempt_that_broke_so_is_tried_again(tmp_path: Path) -> None:
    run(tmp_path, "Your PIN?", rules=[{"match": ".", "reply": "It is 4711."}], retries=1)
    with RunStore.open(tmp_path / "store", "r") as store:
        assert [(row.retry, row.broke, row.final) for row in store.attempts()] == [
            (0, "user", False),
            (1, "user", True),
        ]


def test_a_replay_and_a_new_judgement_ask_no_model(tmp_path: Path) -> None:
    run(tmp_path, "Hello.|Your email?")
    (tmp_path / "user.json").unlink()
    report = asyncio.run(replay("r", ReplayConfig(all=True, allow_task_code=True), settings(tmp_path), Tally()))
    assert [(one.problem, one.agrees) for one in report.results] == [(None, True)]
    judged = asyncio.run(reverify("r", ReverifyConfig(again=1, allow_task_code=True), settings(tmp_path)))
    assert [one.mark for one in judged.results] == ["agree"]


@pytest.mark.parametrize(
    "disturb", ["failures:rate=0.5", "slow:rate=0.9:timeouts=1.0:made=0.2", "renamed:rate=1", "noise:rate=1"]
)
def test_only_messages_that_reach_the_person_behind_disturbances_are_answered(tmp_path: Path, disturb: str) -> None:
    messages = ["Hello.", "Hello?", "Hello again.", "Your email?", "Your email please?", "Is that your email?"]
    done = run(tmp_path, "|".join(messages), disturb=disturb)
    facts = facts_of(done)
    sent = [call["arguments"]["text"] for call in facts["calls"] if call["action"] == "send_message"]
    assert [step.actor for step in done.steps].count("user") == len(done.user_calls) == len(sent)
    assert all(call["code"] is None for call in facts["calls"])
    assert (sent == messages) == disturb.startswith(("renamed", "noise"))
    assert [text for text in messages if text in sent] == sent
    assert facts["summaries"]["conversation"]["checklist"][0]["status"] == "told"
    (tmp_path / "user.json").unlink()
    report = asyncio.run(replay("r", ReplayConfig(all=True, allow_task_code=True), settings(tmp_path), Tally()))
    assert [(one.problem, one.agrees) for one in report.results] == [(None, True)]
    judged = asyncio.run(reverify("r", ReverifyConfig(again=1, allow_task_code=True), settings(tmp_path)))
    assert [one.mark for one in judged.results] == ["agree"]


def test_the_person_acts_with_the_tools_of_the_script(tmp_path: Path) -> None:
    who = member(ServiceWorld.of([lending], 1))
    script = UserScript("Hi.", acts=(UserAct("list_loans", {"member_id": who}, ("loans",)),))
    act = {"tool_calls": [{"name": "list_loans", "arguments": {"member_id": who}}]}
    rules = [{"match": "loans", "reply": act}, {"match": r"^\[|^\{|^Error", "reply": "There are none."}]
    done = run(tmp_path, "Could you look at your loans?", script, rules=rules)
    assert done.outcome == "pass"
    assert [step.actor for step in done.steps] == ["agent", "user", "user"]
    assert [call["role"] for call in facts_of(done)["calls"]] == ["user", "user", "agent"]


def test_a_person_who_left_says_nothing_more(tmp_path: Path) -> None:
    bye = {"content": "Thanks, bye.", "tool_calls": [{"name": "leave_conversation"}]}
    done = run(tmp_path, "It has been done.|And more?|  ", rules=[{"match": ".", "reply": bye}])
    assert [seen.content for step in done.steps if step.actor == "agent" for seen in step.observations][:2] == [
        "Thanks, bye.",
        "(The person has left the conversation.)",
    ]
    assert len(done.user_calls) == 1


def test_a_run_without_a_model_for_the_person_does_not_begin(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="add --user-model"):
        run(tmp_path, "Hello.", user_model=None)


def test_a_world_answers_only_with_what_was_given_for_that_message() -> None:
    knobs = {"script": msgspec.to_builtins(SCRIPT), "driver": "model"}
    world = ServiceWorld.of([conversation], 1, {"conversation": knobs})
    assert world.act("send_message", {"text": "Hello."}).error
    assert not world.act("give_answer", {"text": "Hi."}, "user").error
    twin = world.fork()
    assert [one.act("send_message", {"text": "Hello."}).content for one in (world, twin)] == ["Hi.", "Hi."]
    assert world.database.digest() == twin.database.digest()
    assert world.act("send_message", {"text": "Hello?"}).error
    assert world.act("give_answer", {"text": "I am an agent."}).error
    rules = ServiceWorld.of([conversation], 1, {"conversation": {"script": msgspec.to_builtins(SCRIPT)}})
    assert rules.act("give_answer", {"text": "Hi."}, "user").error
