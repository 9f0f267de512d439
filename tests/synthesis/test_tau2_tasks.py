"""The task family `tau2`: what is judged, how the person is met, and which tasks doing nothing passes."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.environments.services.conversation import conversation
from assay.environments.services.declaration import Service
from assay.environments.services.plans import PlannedCall, play
from assay.environments.services.transaction import Transaction
from assay.environments.services.users import UserAct, UserScript, begin, reply
from assay.environments.services.world import ServiceWorld
from assay.errors import UserError
from assay.records import Task, VerdictStatus
from assay.synthesis.services.scenario import Instructions, Scenario, Unscriptable, as_script, as_ticket, first_person
from assay.synthesis.services.tau2 import Tau2Tasks, TauBenchTasks, _reports
from assay.synthesis.services.tau2_tasks import Criteria, SourceTask, phone_acts
from assay.verdicts import worst_outcome
from assay.verify.outcome import WorldRequest, verify_world
from tests.environments.services.benchmark_data import read_json, shared_folder
from tests.environments.services.small_bank import write_bank
from tests.environments.services.small_tau2 import write_data
from tests.sampling import WHOLE, draw_sample


def small(folder: Path, **options: Any) -> tuple[Task, ...]:
    return tuple(Tau2Tasks(domain="retail", data=str(folder), **options).tasks(10, 0))


def opened(task: Task) -> ServiceWorld:
    return ServiceWorld(task.environment.parameters, task.environment.seed)


def plan_of(task: Task) -> tuple[PlannedCall, ...]:
    return msgspec.convert(task.environment.parameters["plan"], tuple[PlannedCall, ...])


def judge(task: Task, world: ServiceWorld) -> VerdictStatus:
    results = asyncio.run(verify_world(WorldRequest(task, world.facts(), None)))
    assert all(one.verdict.separation == "no-agent-code" for one in results)
    return worst_outcome(one.verdict.status for one in results)


def test_references_pass_and_nothing_passes_where_nothing_is_wanted(tmp_path: Path) -> None:
    tasks = small(write_data(tmp_path))
    assert [judge(task, play(opened(task), plan_of(task))) for task in tasks] == ["pass"] * 5
    assert [judge(task, opened(task)) for task in tasks] == ["fail", "fail", "fail", "pass", "fail"]


def test_a_task_says_what_is_not_judged_and_how_the_person_is_met(tmp_path: Path) -> None:
    tasks = small(write_data(tmp_path))
    assert [task.metadata["not_judged"] for task in tasks] == [[]] * 4 + [["assertion in words: The agent is polite."]]
    assert [task.metadata["person"] for task in tasks] == [
        "script",
        "ticket: the person's conduct depends on the conversation ('if')",
        "script",
        "script",
        "script",
    ]
    assert "If the agent refuses, you give up." in str(tasks[1].instruction)
    assert "send_message" not in str(tasks[1].instruction)
    assert tasks[0].environment.parameters["services"] == ["tau2-retail", "conversation"]
    listened = small(tmp_path, person="ticket", task="2")[0]
    assert "send_message" in str(listened.instruction)
    assert judge(listened, play(opened(listened), plan_of(listened))) == "pass"


def test_a_task_does_not_depend_on_the_folder(tmp_path: Path) -> None:
    here, there = small(write_data(tmp_path / "a")), small(write_data(tmp_path / "b", "domains", compressed=True))
    assert [task.digest for task in here] == [task.digest for task in there]
    assert len({task.digest for task in here}) == 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "dev"}, "split=dev of the family 'tau2': retail has base, test"),
        ({"task": "9"}, "retail has no such task"),
        ({"person": "model"}, "expected auto or ticket"),
        ({"domain": "bank"}, "expected airline, retail, telecom, banking_knowledge, mock"),
    ],
)
def test_wrong_options_are_named(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        tuple(Tau2Tasks(**{"domain": "retail", "data": str(write_data(tmp_path)), **options}).tasks(3, 0))


def test_splits_choose_tasks_and_missing_files_are_named(tmp_path: Path) -> None:
    assert [task.metadata["task"] for task in small(write_data(tmp_path), split="test")] == ["1"]
    (tmp_path / "retail" / "policy.md").unlink()
    with pytest.raises(UserError, match=r"Found no policy\.md"):
        small(tmp_path)
    (tmp_path / "retail" / "tasks.json").write_text('[{"id": 3}]')
    with pytest.raises(UserError, match="tasks of retail cannot be read"):
        small(tmp_path)


HOLDS = {"func_name": "assert_holds", "arguments": {"name": "a"}}
MESSAGES = {"initial_state": {"message_history": [{"role": "narrator", "content": "Once."}]}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"evaluation_criteria": {"env_assertions": [HOLDS, {**HOLDS, "assert_value": False}],
                                     "reward_basis": ["ENV_ASSERTION"]}},
            "task 0 of retail (FILE): two assertions of 'assert_holds' contradict each other",
        ),
        (MESSAGES, "The tasks of retail cannot be read: FILE: Invalid enum value 'narrator'"),
        (
            {"evaluation_criteria": {"actions": [{"name": "fly"}]}},
            "task 0 of retail (FILE): the reference calls 'fly', which is not a tool there",
        ),
    ],
)  # fmt: skip
def test_faults_of_a_task_file_are_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    file = write_data(tmp_path) / "retail" / "tasks.json"
    file.write_text(json.dumps([{**json.loads(file.read_text())[0], **change}]))
    with pytest.raises(UserError) as raised:
        small(tmp_path)
    assert str(raised.value).startswith(message.replace("FILE", str(file)))


def test_assertions_that_are_repeated_are_judged_once() -> None:
    criteria = msgspec.convert({"env_assertions": [HOLDS, HOLDS], "reward_basis": ["ENV_ASSERTION"]}, Criteria)
    assert len(_reports(SourceTask("0", Scenario("x"), criteria), judges_calls=False)) == 1


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (b"\xffBe kind.", "FOLDER/retail/policy.md is not UTF-8"),
        (b"{{component:greeting}}", "Found no prompts/components/greeting.md"),
    ],
)
def test_faults_of_a_policy_are_named(tmp_path: Path, policy: bytes, message: str) -> None:
    (write_data(tmp_path) / "retail" / "policy.md").write_bytes(policy)
    with pytest.raises(UserError) as raised:
        small(tmp_path)
    assert str(raised.value).startswith(message.replace("FOLDER", str(tmp_path)))


# A bank whose tools only documents name.


@pytest.mark.parametrize("split", [False, True])
def test_tasks_of_a_bank_are_tickets_judged_by_its_database_or_by_calls(tmp_path: Path, *, split: bool) -> None:
    tasks = tuple(Tau2Tasks(domain="banking_knowledge", data=write_bank(tmp_path, split=split)).tasks(5, 0))
    assert [task.metadata["task"] for task in tasks] == ["close", "hand over"]
    assert all("Policy\nBe kind.\nSearch first." in str(task.instruction) for task in tasks)
    assert "You have the tools of the person" in str(tasks[0].instruction)
    assert [judge(task, play(opened(task), plan_of(task))) for task in tasks] == ["pass", "pass"]
    assert [judge(task, opened(task)) for task in tasks] == ["fail", "fail"]
    assert judge(tasks[1], transferred(tasks[1], "other")) == "pass"
    assert judge(tasks[1], transferred(tasks[1], "abusive_customer_behavior")) == "fail"
    with pytest.raises(UserError, match="no split_tasks"):
        tuple(Tau2Tasks(domain="banking_knowledge", data=str(tmp_path), split="test").tasks(1, 0))


def transferred(task: Task, reason: str) -> ServiceWorld:
    """Returns the world of a task in which nothing was done but one hand-over to a human agent."""
    call = PlannedCall("transfer_to_human_agents", {"summary": "They need help.", "reason": reason})
    return play(opened(task), [call])


# Scenarios.


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("You are Ada.", "I am Ada."),
        ("You want what they send you by your bank.", "I want what they send me by my bank."),
        ("You want it sent to you yourself.", "I want it sent to me myself."),
        ("You'd like that; it is yours.", "I'd like that; it is mine."),
        ("You name is Ada.", "My name is Ada."),
    ],
)
def test_a_scenario_is_said_in_the_first_person(text: str, wanted: str) -> None:
    assert first_person(text) == wanted


def test_scripts_are_made_of_scenarios_without_conditions() -> None:
    told = Instructions(
        "You want a refund.", ".", "You are Ada.\nYour user id is ada_hill_1234.", "You forgot the rest."
    )
    script = as_script(Scenario(told))
    state, first = begin(script)
    assert first == "I want a refund."
    assert reply(script, state, "What is your user id?")[1] == "My user id is ada_hill_1234."
    assert "You forgot the rest." in as_ticket(Scenario(told))
    assert as_ticket(Scenario("Just this. ")) == "Just this."
    for conduct in ("Insist on it.", "Unless it is free, you pay.", "Hurry."):
        with pytest.raises(Unscriptable):
            as_script(Scenario(msgspec.structs.replace(told, task_instructions=conduct)))
    with pytest.raises(Unscriptable, match="one text"):
        as_script(Scenario("Just this."))


def test_a_request_makes_the_person_do_exactly_what_it_says() -> None:
    acts = phone_acts()
    script = UserScript(acts=acts)
    for act in acts:
        _, _, done = reply(script, begin(script)[0], f"I need you to {act.cues[0]}.")
        assert act in done, act
        others = [other.action for other in done if other != act]
        assert all(name.startswith(("check_", "can_send")) for name in others), (act, others)
    _, _, done = reply(script, begin(script)[0], "Is airplane mode on? What does the screen say?")
    assert [act.action for act in done] == []


def test_a_person_reads_out_what_their_tool_says() -> None:
    app = Service("lamp", "A lamp.")

    @app.view(roles=("user",))
    def look(tx: Transaction) -> str:
        """Looks at the lamp."""
        return "It is green."

    acts = [{"action": "look", "arguments": {}, "cues": ["lamp"], "says_result": says} for says in (True, False)]
    for act, ending in zip(acts, (" It says: It is green.", "."), strict=True):
        world = ServiceWorld.of([app, conversation], 0, {"conversation": {"script": {"acts": [act]}}})
        answer = world.act("send_message", {"text": "Please tell me about the lamp?"}).content
        assert answer.endswith(ending)
        assert ("green" in answer) is bool(act["says_result"])
    assert UserAct("look", {}, ()).says_result is False


# The whole benchmark in a campaign, a sample of each domain in the suite.


SAMPLE = 24


def published(domain: str) -> tuple[list[Task], dict[str, dict[str, Any]]]:
    folder = shared_folder("environments", "tau2")
    figures = {one["id"]: one for one in read_json(folder / "gold_hashes.json")[domain]}
    return sampled_tasks(Tau2Tasks(domain=domain, data=str(folder))), figures


def sampled_tasks(family: Tau2Tasks | TauBenchTasks, count: int = SAMPLE) -> list[Task]:
    return [family._build(source) for source in draw_sample(family._sources(), count)]


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("domain", "expected"),
    [
        ("airline", {"tasks": 50, "null": 23, "scripts": 3} if WHOLE else {"tasks": 24, "null": 13, "scripts": 1}),
        (
            "retail",
            {"tasks": 114, "null": 11, "in_words": 40, "scripts": 22}
            if WHOLE
            else {"tasks": 24, "null": 4, "in_words": 7, "scripts": 4},
        ),
    ],
)
def test_states_decide_as_the_published_hashes_do(domain: str, expected: dict[str, int]) -> None:
    tasks, figures = published(domain)
    seen: Counter[str] = Counter()
    for task in tasks:
        wanted = figures[task.metadata["task"]]
        assert task.metadata["hash_before"] == wanted["initial"][0]
        assert task.metadata["hash_after"] == wanted["gold"][0]
        start = opened(task)
        assert judge(task, play(start, plan_of(task))) == "pass", task.id
        passes = judge(task, start) == "pass"
        told = bool(wanted["communicate"]) and "COMMUNICATE" in wanted["basis"]
        assert passes == (wanted["initial"] == wanted["gold"] and not told), task.id
        seen += Counter(
            tasks=1,
            null=passes,
            in_words=bool(task.metadata["not_judged"]),
            scripts=task.metadata["person"] == "script",
        )
    assert seen == expected


@pytest.mark.long
@pytest.mark.timeout(900)
def test_telecom_is_judged_by_its_assertions_and_twenty_tasks_by_a_transfer() -> None:
    tasks, figures = published("telecom")
    seen: Counter[str] = Counter()
    everything = " ".join(f"I need you to {act.cues[0]}." for act in phone_acts())
    for task in tasks:
        start = opened(task)
        assert task.metadata["not_judged"] == []
        assert judge(task, play(start, [PlannedCall("send_message", {"text": everything})])) == "fail", task.id
        transferred = play(start, [PlannedCall("transfer_to_human_agents", {"summary": "They need help."})])
        seen += Counter(
            tasks=1,
            reference=judge(task, play(start, plan_of(task))) == "pass",
            nothing=judge(task, start) == "pass",
            transfer=judge(task, transferred) == "pass",
        )
    sample = {"tasks": 24, "reference": 24, "transfer": 5}
    assert seen == ({"tasks": 114, "reference": 114, "transfer": 20} if WHOLE else sample)
    assert len(figures) == 114


@pytest.mark.timeout(900)
def test_a_ticket_gives_the_agent_the_phone() -> None:
    folder = shared_folder("environments", "tau2")
    for task in Tau2Tasks(domain="telecom", data=str(folder), person="ticket").tasks(3, 0):
        assert re.search(r"Ticket\nThe user is experiencing issues", str(task.instruction))
        start = opened(task)
        assert "toggle_airplane_mode" in {spec.name for spec in start.specs()}
        assert judge(task, play(start, plan_of(task))) == "pass"
        assert judge(task, start) == "fail"


def test_mock_has_two_tasks_that_their_references_fail() -> None:
    tasks, figures = published("mock")
    assert len(tasks) == len(figures) == 10
    seen: dict[str, list[str]] = {"reference": [], "nothing": [], "transfer": []}
    for task in tasks:
        name = task.metadata["task"]
        assert task.metadata["hash_before"] == figures[name]["initial"][0]
        assert task.metadata["hash_after"] == figures[name]["gold"][0]
        start = opened(task)
        worlds = {
            "reference": play(start, plan_of(task)),
            "nothing": start,
            "transfer": play(start, [PlannedCall("transfer_to_human_agents", {"summary": "They need help."})]),
        }
        for key, world in worlds.items():
            seen[key] += [name] if (judge(task, world) == "pass") != (key == "reference") else []
    assert seen == {
        "reference": ["update_task_with_history_and_env_assertions", "update_task_with_user_tools"],
        "nothing": ["create_task_1_nl_eval"],
        "transfer": ["create_task_1_nl_eval", "impossible_task_1"],
    }
    history = next(task for task in tasks if task.metadata["task"] == "update_task_with_message_history")
    assert "The conversation so far\nPerson: I need to create a task" in str(history.instruction)


def test_tasks_of_the_bank_pass_by_a_transfer_only_if_that_is_what_is_wanted() -> None:
    folder = shared_folder("environments", "tau2")
    figures = {one["id"]: one for one in read_json(folder / "gold_hashes.json")["banking_knowledge"]}
    seen: Counter[str] = Counter()
    for task in Tau2Tasks(domain="banking_knowledge", data=str(folder)).tasks(11, 0):
        start = opened(task)
        assert task.metadata["hash_before"] == figures[task.metadata["task"]]["initial"][0]
        assert judge(task, play(start, plan_of(task))) == "pass", task.id
        wanted = [call for call in plan_of(task) if call.action == "transfer_to_human_agents"]
        seen += Counter(
            tasks=1,
            nothing=judge(task, start) == "pass",
            transfer=judge(task, transferred(task, "other")) == "pass",
            wanted=judge(task, play(start, wanted)) == "pass",
        )
    assert seen == {"tasks": 11, "wanted": 4}
    broken, reading = (
        next(iter(Tau2Tasks(domain="banking_knowledge", data=str(folder), task=name).tasks(1, 0)))
        for name in ("task_083", "task_046")
    )
    assert judge(broken, play(opened(broken), plan_of(broken))) == "fail"
    # Computed by the original with the reads that it logs in a run, which `gold_hashes.json` leaves out.
    assert reading.metadata["hash_after"].startswith("1a6cce53ec073a0f")
    writes = [call for call in plan_of(reading) if "get_" not in str(call.arguments)]
    assert judge(reading, play(opened(reading), writes)) == "fail"


# tau-bench, version 1.


def test_results_that_are_none_are_named(tmp_path: Path) -> None:
    (tmp_path / "runs.json").write_text('[{"task_id": "x"}]')
    for name, message in (("runs.json", "holds no results of tau-bench"), ("none.json", r"Found no none\.json")):
        with pytest.raises(UserError, match=message):
            tuple(TauBenchTasks(data=str(tmp_path), results=str(tmp_path / name)).tasks(1, 0))


@pytest.mark.long
@pytest.mark.timeout(900)
def test_recorded_runs_of_the_first_version_are_judged_as_recorded() -> None:
    data = str(shared_folder("environments", "tau-bench-v1"))
    file = shared_folder("tau-bench", "gpt-4o-airline-tasks-00-24.json")
    tasks = {task.metadata["task"]: task for task in sampled_tasks(TauBenchTasks(data=data, results=str(file)), 10)}
    seen: Counter[str] = Counter()
    for task in tasks.values():
        assert judge(task, play(opened(task), plan_of(task))) == "pass", task.id
        seen += Counter(tasks=1, nothing=judge(task, opened(task)) == "pass")
    for run in read_json(file):
        recorded = (run["info"].get("reward_info") or {}).get("info", {})
        if "r_actions" in recorded and str(run["task_id"]) in tasks:
            task = tasks[str(run["task_id"])]
            only_state = msgspec.structs.replace(task, checks=task.checks[:1])
            world = opened(task)
            for name, arguments in calls_of(run):
                world.act(name, arguments)
            seen += Counter(runs=1, equal=(judge(only_state, world) == "pass") == bool(recorded["r_actions"]))
    sample = {"tasks": 10, "nothing": 3, "runs": 36, "equal": 36}
    assert seen == ({"tasks": 25, "nothing": 7, "runs": 88, "equal": 88} if WHOLE else sample)


def calls_of(run: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Returns the recorded calls: of several in a message the first was executed."""
    made = [message["tool_calls"][0]["function"] for message in run["traj"] if message.get("tool_calls")]
    return [(function["name"], json.loads(function["arguments"])) for function in made]
