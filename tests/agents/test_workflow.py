"""Workflows: what the check refuses, how nodes are grounded, validated and routed, and how adherence is measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from assay.agents.composites import parse_result
from assay.agents.workflow.interpreter import Interpreter, RecordedResult, follow
from assay.agents.workflow.spec import Workflow, check_workflow, read_workflow
from assay.cli.app import build_app
from assay.errors import UserError
from tests.rollout.counting import counting_task

DOCS = Path(__file__).parents[2] / "docs_src"
TASKS = f"family:{DOCS / 'refund_world.py'}:RefundTasks,n=12,seed=5"
TEXT = "Its customer's address is bo@post.example (nothing else is known)."
FLOW = read_workflow(DOCS / "refund.toml")
ORDERS = [{"id": "O1", "amount": 7, "paid": True}, {"id": "O2", "amount": 9, "paid": False}]


def flow(*nodes: dict[str, Any], **fields: Any) -> Workflow:
    return msgspec.convert({"workflow": "w", "nodes": list(nodes), **fields}, Workflow)


def drive(interpreter: Interpreter, *results: Any) -> list[tuple[str, dict[str, Any]]]:
    """Gives results in turn (an exception is a failed call); returns the calls."""
    made = []
    for result in results:
        call = interpreter.propose()
        assert call is not None
        made.append((call.tool, call.arguments))
        interpreter.take(str(result) if isinstance(result, Exception) else result, error=isinstance(result, Exception))
    return made


def test_values_pass_between_nodes_with_their_types() -> None:
    interpreter = Interpreter(FLOW, TEXT)
    assert drive(interpreter, {"id": "C1"}, ORDERS, "paid back") == [
        ("find_customer", {"email": "bo@post.example"}),
        ("list_orders", {"customer": "C1"}),
        ("refund", {"order": "O1", "amount": 7}),
    ]
    assert (interpreter.propose(), interpreter.is_done, interpreter.failed) == (None, True, None)


def test_a_condition_that_does_not_hold_makes_no_call_and_routes() -> None:
    interpreter = Interpreter(FLOW, TEXT)
    calls = drive(interpreter, {"id": "C1"}, [{**ORDERS[0], "paid": False}], "declined")
    assert calls[-1] == ("decline", {"order": "O1"})
    assert [(one.node, one.phase, one.ok) for one in interpreter.events][2:] == [
        ("pay", "require", False),
        ("decline", "ensure", True),
    ]


def test_a_failed_call_is_made_again_until_its_tries_are_used_up() -> None:
    interpreter = Interpreter(FLOW, TEXT)
    calls = drive(interpreter, *[OSError("no line")] * 4)
    assert {tool for tool, _ in calls} == {"find_customer"}
    assert interpreter.propose() is None
    assert interpreter.failed is not None
    assert (interpreter.failed.node, interpreter.failed.phase) == ("find", "execute")


def test_a_result_without_what_is_ensured_is_a_failure() -> None:
    interpreter = Interpreter(FLOW, TEXT)
    drive(interpreter, {"id": None}, {"id": "C1"}, "no list", ORDERS)
    assert [(one.node, one.ok) for one in interpreter.events] == [
        ("find", False), ("find", True), ("orders", False), ("orders", True)]  # fmt: skip


def test_a_task_without_the_input_ends_at_the_first_node() -> None:
    interpreter = Interpreter(FLOW, "nothing of use")
    assert interpreter.propose() is None
    assert interpreter.failed is not None
    assert interpreter.failed.reason == "{input.email} has no value"


def test_a_circle_ends() -> None:
    interpreter = Interpreter(flow({"name": "a", "tool": "t", "next": "a"}, most=5), "")
    assert len(drive(interpreter, *range(5))) == 5
    assert interpreter.propose() is None


@pytest.mark.parametrize(
    ("nodes", "fields", "problem"),
    [
        ([{"name": "a", "tool": "t"}, {"name": "a", "tool": "t"}], {}, "two nodes are called 'a'"),
        ([{"name": "a", "tool": "t", "next": "b"}], {}, "next is 'b', and no node is called that"),
        ([{"name": "a", "tool": "t", "next": "end"}, {"name": "b", "tool": "t"}], {}, "node 'b' is never reached"),
        ([{"name": "input", "tool": "t"}], {}, "no node may be called 'input'"),
        ([{"name": "a", "tool": "t", "arguments": {"x": "{input.y}"}}], {}, "there is no such input"),
        ([{"name": "a", "tool": "t", "arguments": {"x": "{result.y}"}}], {}, "known in ensure alone"),
        ([{"name": "a", "tool": "t"}], {"inputs": {"x": "no group"}}, "has 0 groups"),
        ([{"name": "a", "tool": "t"}], {"inputs": {"x": "("}}, "is no pattern of RE2"),
        (
            [
                {"name": "a", "tool": "t", "otherwise": "c"},
                {"name": "b", "tool": "t"},
                {"name": "c", "tool": "t", "arguments": {"x": "{a.id}"}},
            ],
            {},
            "node 'a' need not have succeeded before",
        ),
    ],
)
def test_what_cannot_work_is_found_without_a_run(
    nodes: list[dict[str, Any]], fields: dict[str, Any], problem: str
) -> None:
    assert problem in "; ".join(check_workflow(flow(*nodes, **fields)))


def test_deviations_are_counted_and_a_return_to_the_workflow_too() -> None:
    calls = [
        RecordedResult(0, "find_customer", {"email": "bo@post.example"}, {"id": "C1"}, error=False),
        RecordedResult(1, "decline", {"order": "O9"}, "declined", error=False),
        RecordedResult(2, "list_orders", {"customer": "C1"}, ORDERS, error=False),
        RecordedResult(3, "refund", {"order": "O1", "amount": 8}, "paid back", error=False),
    ]
    task = counting_task().task
    found = follow(FLOW, msgspec.structs.replace(task, instruction=TEXT), calls)
    assert (found.calls, found.followed, found.share, found.is_finished) == (4, 2, 0.5, False)
    assert (found.deviated_at, found.expected) == (1, "orders: list_orders(customer='C1')")


def assay(store: Path, *words: str) -> Any:
    return CliRunner().invoke(build_app(), [*words, "--store", str(store)])


def test_the_agent_passes_also_where_calls_fail_and_follows_itself(tmp_path: Path) -> None:
    flaky = f"{TASKS},wrap=failures:rate=0.3"
    words = ("--agent", "workflow", "--agent-option", f"file={DOCS / 'refund.toml'}", "--run", "flaky")
    assert "12 pass" in assay(tmp_path, "run", flaky, *words).output
    found = json.loads(assay(tmp_path, "workflow", "follow", str(DOCS / "refund.toml"), "flaky", "--json").stdout)
    assert {(one["share"], one["adherence"]["is_finished"]) for one in found} == {(1.0, True)}
    assert assay(tmp_path, "run", TASKS, "--agent", "random-world", "--run", "random").exit_code == 0
    found = json.loads(assay(tmp_path, "workflow", "follow", str(DOCS / "refund.toml"), "random", "--json").stdout)
    assert max(one["share"] for one in found) < 0.5


def test_an_environment_without_its_tools_is_the_tasks_failure(tmp_path: Path) -> None:
    words = ("--agent", "workflow", "--agent-option", f"file={DOCS / 'refund.toml'}")
    made = assay(tmp_path, "run", "family:grid,n=1", *words)
    assert made.exit_code == 3
    assert "lacks; it has move" in " ".join(made.output.split())


@pytest.mark.parametrize(
    "value",
    [
        "1" * 5_000,
        "9" * 25,
        "0x" + "f" * 5_000,
        "2020-01-01",
        "2020-01-01T00:00:00",
        "12:00:00",
        "nan",
        "-inf",
        "[" * 60 + "]" * 60,
    ],
)
def test_values_that_no_call_can_have_are_refused(tmp_path: Path, value: str) -> None:
    file = tmp_path / "flow.toml"
    file.write_text(f'workflow = "w"\n[[nodes]]\nname = "a"\ntool = "t"\narguments = {{ x = {value} }}\n')
    with pytest.raises(UserError, match="does not hold a workflow"):
        read_workflow(file)
    file.write_text('workflow = "w"\n[[nodes]]\nname = "a"\ntool = "t"\narguments' + ".a" * 20_000 + " = 1\n")
    with pytest.raises(UserError, match="too many dots"):
        read_workflow(file)
    file.write_text('workflow = "w"\n[[nodes]]\nname = "a"\ntool = "t"\narguments' + ".a" * 2_000 + " = 1\n")
    with pytest.raises(UserError, match="nested deeper"):
        read_workflow(file)


def test_names_end_at_their_line(tmp_path: Path) -> None:
    (tmp_path / "flow.toml").write_text('workflow = "w\\n"\n[[nodes]]\nname = "a"\ntool = "t"\n')
    with pytest.raises(UserError, match="workflow"):
        read_workflow(tmp_path / "flow.toml")


def test_a_sign_that_counts_as_a_digit_is_no_place_in_a_list() -> None:
    interpreter = Interpreter(flow({"name": "a", "tool": "t", "ensure": [{"value": "{result.\u00b2}"}]}), "")
    drive(interpreter, [1, 2, 3])
    assert interpreter.failed is not None
    assert "has no value" in interpreter.failed.reason


def test_texts_that_double_with_each_node_end_in_a_failure() -> None:
    double = {"name": "b", "tool": "t", "arguments": {"x": "{a}{a}"}}
    interpreter = Interpreter(flow({"name": "a", "tool": "t"}, double), "")
    drive(interpreter, "x" * 600_000)
    assert interpreter.propose() is None
    assert interpreter.failed is not None
    assert (interpreter.failed.phase, "more than" in interpreter.failed.reason) == ("ground", True)


def test_reasons_are_short_whatever_is_compared() -> None:
    wanted = {"value": "{result}", "op": "equals", "other": "x" * 100_000}
    interpreter = Interpreter(flow({"name": "a", "tool": "t", "ensure": [wanted]}), "")
    drive(interpreter, "y" * 100_000)
    assert interpreter.failed is not None
    assert len(interpreter.failed.reason) < 400


def test_a_missing_and_a_wrong_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        read_workflow(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text('workflow = "w"\n[[nodes]]\nname = "a"\ntools = "t"\n')
    found = CliRunner().invoke(build_app(), ["workflow", "check", str(tmp_path / "bad.toml")])
    assert (found.exit_code, "tools" in found.output) == (2, True)


@pytest.mark.parametrize(
    ("value", "op", "other", "holds"),
    [
        ({"a": 1}, "contains", {"a": 1}, False),
        ({"a": 1}, "contains", "a", True),
        ([{"a": 1}], "contains", {"a": 1}, True),
        ([1], "contains", True, False),
        (1, "equals", True, False),
        (0, "differs", False, True),
        ([{"a": 1}], "equals", [{"a": True}], False),
        (5, "equals", 5.0, True),
    ],
)
def test_any_two_values_can_be_compared_and_true_is_not_one(value: Any, op: str, other: Any, holds: bool) -> None:
    ensure = [{"value": "{result.x}", "op": op, "other": other}]
    interpreter = Interpreter(flow({"name": "a", "tool": "t", "ensure": ensure}), TEXT)
    drive(interpreter, {"x": value})
    assert interpreter.events[0].ok is holds


def test_a_call_with_true_in_the_place_of_one_does_not_follow() -> None:
    one = flow({"name": "a", "tool": "t", "arguments": {"n": 1}})
    task = counting_task().task
    followed = [follow(one, task, [RecordedResult(0, "t", {"n": n}, None, False)]).followed for n in (1, 1.0, True)]
    assert followed == [1, 1, 0]


def test_a_result_that_is_nested_too_deeply_is_a_text() -> None:
    assert parse_result("[" * 990 + "]" * 990) == "[" * 990 + "]" * 990
    assert parse_result('{"a": [' + "[]," * 500 + "[]]}") == {"a": [[]] * 501}
