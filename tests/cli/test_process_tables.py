"""`assay stats --table conversations` and `efficiency`: sums of hand-made measures, and hostile records."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.api.service_measures import ConversationMeasures, ProcessMeasures, read_process_measures
from assay.cli.process_tables import conversation_rows, efficiency_rows, sum_conversations, sum_efficiency
from assay.cli.stats import stats
from assay.environments.services.dialogue_measures import MESSAGE_COST, Interview
from assay.environments.services.world import ServiceWorld
from assay.records import AttemptEnded, AttemptStarted, Evidence, EvidenceAdded, Task
from assay.rollout.attempt.model_user import USER_DEVIATIONS
from assay.store import RunStore
from assay.store.blobs import BlobStore
from assay.synthesis.services.family import ServiceTasks
from assay.verdicts.names import IMPORTED
from assay.verify.tool_use import CallCount, Completeness, WriteCount

ONE = ConversationMeasures(Interview(2, 2, 4), (1.0, 0.8), consistency=1.0, excess=2)
TWO = ConversationMeasures(Interview(2, 1, 2), (1.0, 0.4, 0.0), has_left=True, consistency=0.5)
MODEL = ConversationMeasures(Interview(1, 1, 1))
ATTEMPTS = (
    ProcessMeasures("a", None, "t0", ONE, Completeness(2, 2), CallCount(4, 2), WriteCount(3, 2, 2, 1)),
    ProcessMeasures("a", None, "t1", TWO, Completeness(1, 2), CallCount(1, 2), WriteCount(0, 2, 1, 1)),
    ProcessMeasures("a", None, "t2", None, Completeness(0, 0), None, None),
    ProcessMeasures("b", "m", "t0", MODEL, None, CallCount(0, 2), None),
)


def test_conversations_by_hand() -> None:
    first, second = sum_conversations(ATTEMPTS, 0.05)
    assert (first["attempts"], first["messages"], first["needed"], first["obtained"]) == (2, 3.0, 4, 3)
    assert first["utility"] == pytest.approx((0.8 + 0.4) / 2)
    assert (first["emotion"], first["left"], first["consistency"], first["excess"]) == (0.4, 1, 0.75, 2.0)
    assert first["emotion_by_turn"] == pytest.approx([1.0, 0.6, 0.0])  # the third has one conversation
    assert (second["emotion"], second["emotion_by_turn"], second["consistency"]) == (None, [], None)
    assert second["utility"] == pytest.approx(0.95)
    assert [row["by turn"] for row in conversation_rows([first, second])] == ["1.00 0.60 0.00", "-"]


def test_an_attempt_that_its_person_broke_counts_for_their_consistency_alone(tmp_path: Path, task: Task) -> None:
    record = BlobStore(tmp_path / "blobs").put(msgspec.json.encode(task))
    deviations = [{"kind": "early", "turn": 4, "subject": "email", "quote": ""}]
    evidence = [
        Evidence("t", "state", "task", {"record": record}),
        Evidence("d", "audit", USER_DEVIATIONS, {"deviations": deviations}),
    ]
    with RunStore.create(tmp_path, "r", {}) as run:
        started = AttemptStarted("r", "x-0", task.id, task.digest, "a", None, 0, 0, at=1.0)
        run.append("x-0.0", [started, *map(EvidenceAdded, evidence), AttemptEnded("done", at=2.0)])
    found = read_process_measures(tmp_path, ("r",))
    (group,) = sum_conversations(found, 0.05)
    assert (group["consistency"], group["messages"], group["utility"], group["needed"]) == (0.75, None, None, 0)
    assert conversation_rows([group])[0]["in role"] == "0.750"
    assert sum_efficiency(found) == []


def test_efficiency_by_hand() -> None:
    first, second = sum_efficiency(ATTEMPTS)
    assert (first["completeness"], first["efficiency"]) == (0.75, 0.75)
    assert first["product"] == pytest.approx((1.0 * 0.5 + 0.5 * 1.0) / 2)
    assert first["precision"] == 0.75
    assert 0 < first["precision_low"] < 0.75 < first["precision_high"] < 1
    assert [first[name] for name in ("calls", "reference_calls", "writes", "wanted_writes", "reads")] == [5, 4, 3, 2, 3]
    assert (second["efficiency"], second["product"], second["precision"]) == (None, None, None)
    assert efficiency_rows([second])[0]["precision [95%]"] == "-"


def stored(root: Path, task: Task, facts: dict[str, Any], **config: Any) -> tuple[ProcessMeasures, ...]:
    record = BlobStore(root / "blobs").put(msgspec.json.encode(task))
    evidence = [
        Evidence("t", "state", "task", {"digest": task.digest, "record": record}),
        Evidence("f", "state", "facts", {"facts": facts, "digest": "blake3:0"}),
    ]
    with RunStore.create(root, "r", {}) as run:
        started = AttemptStarted("r", "x-0", task.id, task.digest, "a", None, 0, 0, config=config, at=1.0)
        run.append("x-0.0", [started, *map(EvidenceAdded, evidence), AttemptEnded("done", at=2.0)])
    return read_process_measures(root, ("r",))


@pytest.fixture(scope="module")
def task() -> Task:
    return ServiceTasks(app="shop", level="persona", writes=1).tasks(1, 0)[0]


def facts_of(task: Task, *messages: str) -> dict[str, Any]:
    world = ServiceWorld(task.environment.parameters, task.environment.seed)
    for text in messages:
        world.act("send_message", {"text": text})
    for call in world.oracle():
        world.act(call.name, call.parsed or {})
    facts: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(world.facts()))
    return facts


def test_a_recorded_attempt_is_measured(tmp_path: Path, task: Task) -> None:
    (found,) = stored(tmp_path, task, facts_of(task, "The sky is blue."))
    assert found.conversation is not None
    assert found.conversation.emotions == pytest.approx((1.0, (11 / 12 + 1) / 2))
    assert found.conversation.consistency is None  # no step has what the agent was answered
    assert (found.calls and found.calls.efficiency, found.writes and found.writes.precision) == (1.0, 1.0)


def test_minimal_questions_are_read_where_a_task_has_them(tmp_path: Path, task: Task) -> None:
    asked = msgspec.structs.replace(task, metadata={"needs": {"questions": 1}})
    (found,) = stored(tmp_path, asked, facts_of(task, "Hello.", "The sky is blue.", "Well?"))
    assert found.conversation is not None
    assert found.conversation.excess == 2


def test_a_record_of_another_system_loads_no_service(tmp_path: Path, task: Task) -> None:
    (found,) = stored(tmp_path, task, facts_of(task), **{IMPORTED: {}})
    assert (found.calls is not None, found.writes) == (True, None)


def test_code_that_a_task_names_does_not_run(tmp_path: Path, task: Task) -> None:
    code = tmp_path / "evil.py"
    code.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nshop = None\n")
    parameters = {**task.environment.parameters, "services": [f"{code}:shop"]}
    environment = msgspec.structs.replace(task.environment, parameters=parameters)
    (found,) = stored(tmp_path, msgspec.structs.replace(task, environment=environment), facts_of(task))
    assert found.writes is None
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "broken", [{"calls": "many"}, {"calls": [{"role": "agent"}]}, {"summaries": []}, {"changes": 3}, {"trace": [1]}]
)
def test_facts_of_another_shape_are_left_out(tmp_path: Path, task: Task, broken: dict[str, Any]) -> None:
    for found in stored(tmp_path, task, {**facts_of(task, "Hello."), **broken}):
        assert None in (found.conversation, found.completeness, found.conversation and found.conversation.consistency)


@pytest.mark.parametrize("services", [3, [["x"]], "shop"])
def test_services_that_are_no_list_of_names_are_not_loaded(tmp_path: Path, task: Task, services: Any) -> None:
    environment = msgspec.structs.replace(
        task.environment, parameters={**task.environment.parameters, "services": services}
    )
    (found,) = stored(tmp_path, msgspec.structs.replace(task, environment=environment), facts_of(task))
    assert found.writes is None


def test_the_command_and_the_function_have_one_default() -> None:
    assert inspect.signature(stats).parameters["message_cost"].default == MESSAGE_COST
