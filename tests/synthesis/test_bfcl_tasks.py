"""The task family `bfcl-multi-turn`: what is judged, and the golden figures of BFCL's own tasks."""

from __future__ import annotations

import importlib.util
import json
import random
from pathlib import Path
from typing import Any

import pytest

from assay.environments.services.apps.bfcl.extension import FILE, read_extension_file
from assay.environments.services.plans import PlannedCall
from assay.errors import UserError
from assay.records import Task
from assay.synthesis.services.bfcl import SETS, BfclTasks
from tests.environments.services.benchmark_data import shared_folder
from tests.synthesis.services.bfcl_campaign import END, judge, opened, plan_of, shortened

TICKETS = {"ticket_queue": [{"id": 1, "title": "x", "status": "Open", "created_by": "ada"}], "current_user": "ada"}
SOURCE: dict[str, Any] = {
    "id": "multi_turn_base_0",
    "question": [[{"role": "user", "content": text}] for text in ("Close ticket 1.", "Thanks.", "Show it.")],
    "initial_config": {"TicketAPI": TICKETS},
    "involved_classes": ["TicketAPI", "MathAPI"],
}
CALLS = [["close_ticket(1)", "add(a=1, b=1)"], [], ["get_ticket(ticket_id=1)"]]


def write(folder: Path, source: dict[str, Any], calls: list[list[str]], name: str = "base") -> Path:
    (folder / f"BFCL_v4_multi_turn_{name}.json").write_text(json.dumps(source) + "\n")
    answers = folder / "possible_answer"
    answers.mkdir(exist_ok=True)
    (answers / f"BFCL_v4_multi_turn_{name}.json").write_text(json.dumps({"id": source["id"], "ground_truth": calls}))
    return folder


def small(folder: Path, **options: Any) -> Task:
    (task,) = BfclTasks(data=str(folder), **options).tasks(5, 0)
    return task


def test_a_turn_is_judged_by_its_state_and_by_the_results_until_its_end(tmp_path: Path) -> None:
    task = small(write(tmp_path, SOURCE, CALLS))
    close, total, shown = (
        PlannedCall("close_ticket", {"ticket_id": 1}),
        PlannedCall("add", {"a": 1, "b": 1}),
        PlannedCall("get_ticket", {"ticket_id": 1}),
    )
    read = PlannedCall("ticket_get_login_status")
    assert plan_of(task) == (close, total, END, END, shown)
    assert judge(task, *plan_of(task)) == "pass"
    assert judge(task, total, read, close, END, read, END, shown, END) == "pass"
    assert judge(task, close, total, shown, END, END, read) == "pass"  # obtained in an earlier turn
    assert judge(task, close, total, END, END) == "fail"  # no call in the last turn
    assert judge(task, close, total, shown, END, END) == "fail"
    assert judge(task, close, END, total, END, shown) == "fail"  # obtained too late
    assert judge(task, total, END, close, END, shown) == "fail"  # done too late
    assert judge(task, close, total, END, shown) == "fail"  # not all turns were taken
    logout = PlannedCall("logout")
    assert judge(task, close, total, END, logout, END, shown) == "fail"  # the state of the last turn differs


def test_the_agent_is_told_the_first_request_alone(tmp_path: Path) -> None:
    task = small(write(tmp_path, SOURCE, CALLS))
    assert "The person says: Close ticket 1." in str(task.instruction)
    assert "Show it" not in str(task.instruction)
    world = opened(task)
    assert [world.act("end_turn", {"message": "?"}).content for _ in range(2)] == ["Thanks.", "Show it."]
    names = {spec.name for spec in world.specs()}
    assert {"close_ticket", "end_turn"} < names
    assert "report_turns" not in names


def test_a_missing_tool_that_the_reference_needs_before_is_there_from_the_start(tmp_path: Path) -> None:
    source = SOURCE | {"id": "multi_turn_miss_func_0", "missed_function": {"1": ["close_ticket", "add"]}}
    calls = [["close_ticket(1)"], [], ["add(a=1, b=1)"]]
    task = small(write(tmp_path, source, calls, "miss_func"), set="miss_func")
    assert task.metadata["not_withheld"] == ["close_ticket"]
    assert judge(task, *plan_of(task)) == "pass"
    assert opened(task).act("add", {"a": 1, "b": 1}).error


def test_missing_tools_come_with_their_turn(tmp_path: Path) -> None:
    source = SOURCE | {"id": "multi_turn_miss_func_0", "missed_function": {"1": ["add"]}}
    source["question"] = [SOURCE["question"][0], []]
    task = small(write(tmp_path, source, [["close_ticket(1)"], ["add(a=1, b=1)"]], "miss_func"), set="miss_func")
    world = opened(task)
    assert world.act("add", {"a": 1, "b": 1}).error
    assert world.act("end_turn", {"message": "No."}).content == "More of your tools are available now. What about now?"
    assert world.act("add", {"a": 1, "b": 1}).content == '{"result": 2}'
    assert judge(task, *plan_of(task)) == "pass"


@pytest.mark.parametrize(
    ("source", "calls", "message"),
    [
        ({}, [["close_ticket(1)"]], "no reference with a list of calls for each turn"),
        ({}, [["__import__('os').system('x')"], [], []], "cannot be read: not a call of a tool"),
        ({}, [["close_ticket(open('x'))"], [], []], "cannot be read: malformed node"),
        ({}, [["cd('x')"], [], []], "its classes have no such tool"),
        ({}, [["close_ticket()"], [], []], "the reference call of close_ticket fails"),
        ({"involved_classes": ["WebSearchAPI"]}, CALLS, "needs the tool class 'WebSearchAPI'"),
        ({"initial_config": {"TicketAPI": 3}}, CALLS, "cannot be read"),
    ],
)
def test_what_does_not_fit_is_named(
    tmp_path: Path, source: dict[str, Any], calls: list[list[str]], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        small(write(tmp_path, SOURCE | source, calls))


def test_wrong_options_and_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="set=long of the family 'bfcl-multi-turn': expected base, long_context"):
        BfclTasks(data=str(tmp_path), set="long")
    with pytest.raises(UserError, match=r"needs the module of the long context: Found no long_context\.py"):
        BfclTasks(data=str(tmp_path), set="long_context")
    with pytest.raises(UserError, match=r"Found no BFCL_v4_multi_turn_base\.json"):
        small(tmp_path)
    with pytest.raises(UserError, match="base has no such task"):
        small(write(tmp_path, SOURCE, CALLS), task=7)


# BFCL's own tasks.


def source_folder(name: str) -> Path:
    """Returns the folder of a set's files; skips the test where they are absent."""
    folder = shared_folder("environments", "bfcl")
    if name != "long_context" or (folder / FILE).is_file():
        return folder
    spec = importlib.util.find_spec("bfcl_eval")
    for place in spec.submodule_search_locations or () if spec else ():
        try:
            read_extension_file(str(Path(place).parent))
        except ValueError:
            continue
        return Path(place).parent
    pytest.skip(f"{FILE} of bfcl-eval is not here: put it beside the files of shared/data/environments/bfcl")


@pytest.mark.parametrize("name", SETS)
def test_references_pass_and_less_does_not_in_a_sample(name: str) -> None:
    folder = source_folder(name)
    for number in sorted(random.Random(0).sample(range(200), 4)):
        (task,) = BfclTasks(data=str(folder), set=name, task=number).tasks(1, 0)
        assert judge(task, *plan_of(task)) == "pass", task.id
        assert judge(task) == "fail", task.id
        assert all(judge(task, *plan) == "fail" for plan in shortened(task)), task.id
