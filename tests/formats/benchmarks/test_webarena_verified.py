"""Logs of WebArena-Verified: its responses are judged as it judges them, and what is not covered stays unknown."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.errors import UserError
from assay.formats.benchmarks.webarena_network import NetworkEvaluator, NetworkSpec
from assay.formats.benchmarks.webarena_verified import (
    Evaluator,
    WebArenaTask,
    WebArenaVerifiedFormat,
    judge_task,
    read_tasks,
)
from assay.formats.interface import ImportContext, ReadProblem
from assay.records import EvidenceAdded, VerdictAdded
from tests.environments.services.benchmark_data import shared_folder

COUNTS = [{"month": "May", "count": 8}, {"month": "June", "count": [13, 14]}]


def make_task(**parts: Any) -> WebArenaTask:
    schema = {"type": "object", "properties": {"month": {"format": "month"}, "count": {"type": "number"}}}
    expected = {"task_type": "retrieve", "status": "SUCCESS", "retrieved_data": COUNTS}
    evaluator = {"evaluator": "AgentResponseEvaluator", "results_schema": {"type": "array", "items": schema}}
    task = {
        "task_id": 107, "intent_template_id": 1, "sites": ["shopping"], "intent": "Count.", "start_urls": ["__A__"],
        "eval": [{**evaluator, "expected": {**expected, **parts.pop("expected", {})}, **parts}],
    }  # fmt: skip
    return msgspec.convert(task, WebArenaTask)


def respond(**parts: Any) -> dict[str, Any]:
    return {"task_type": "RETRIEVE", "status": "success", "retrieved_data": COUNTS, "error_details": None, **parts}


@pytest.mark.parametrize(
    ("parts", "status"),
    [
        ({"retrieved_data": [{"month": "Jun", "count": "13"}, {"month": "5", "count": 8.0}]}, "pass"),
        ({"retrieved_data": [{"month": "June", "count": 14}, {"month": "May", "count": "8"}]}, "pass"),
        ({"retrieved_data": [{"month": "June", "count": 15}, {"month": "May", "count": 8}]}, "fail"),
        ({"retrieved_data": COUNTS[:1]}, "fail"),
        ({"retrieved_data": [*COUNTS, COUNTS[0]]}, "fail"),
        ({"retrieved_data": None}, "fail"),
        ({"retrieved_data": "x"}, "fail"),
        ({"task_type": "NAVIGATE"}, "fail"),
        ({"status": "NOT_FOUND_ERROR"}, "fail"),
        ({"status": None}, "fail"),
    ],
)
def test_responses_are_compared_by_type(parts: dict[str, Any], status: str) -> None:
    given = respond(retrieved_data=[{"month": "may", "count": 8}, {"month": "june", "count": 13}]) | parts
    assert judge_task(make_task(), given).status == status


def test_the_order_counts_only_where_the_task_says_so() -> None:
    given = respond(retrieved_data=[{"month": "June", "count": 13}, {"month": "May", "count": 8}])
    assert judge_task(make_task(), given).status == "pass"
    assert judge_task(make_task(ordered=True), given).status == "fail"


def test_texts_are_compared_as_upstream_does() -> None:
    strings = {"type": "array", "items": {"type": "string"}}
    task = make_task(results_schema=strings, expected={"retrieved_data": ["Buffalo-Niagara", ["Yes", "Ja"], "^a+$"]})
    assert judge_task(task, respond(retrieved_data=["“x", "ja.", "aaa"])).status == "fail"
    assert judge_task(task, respond(retrieved_data=["buffalo niagara", "'ja'.", "AAA"])).status == "pass"


def test_what_is_not_covered_is_unknown_unless_something_failed() -> None:
    dates = make_task(results_schema={"type": "array", "items": {"type": "string", "format": "duration"}})
    assert judge_task(dates, respond()).status == "unknown"
    assert judge_task(dates, respond(status="x")).status == "fail"
    network = NetworkEvaluator(NetworkSpec(url="x"))
    both = msgspec.structs.replace(make_task(), eval=(*make_task().eval, network))
    given = respond(retrieved_data=[{"month": "May", "count": 8}, {"month": "June", "count": 13}])
    assert judge_task(both, given).status == "unknown"
    assert judge_task(make_task(), ["x"]).status == "fail"


def read_folder(folder: Path) -> tuple[Any, list[ReadProblem]]:
    problems: list[ReadProblem] = []
    reading = ImportContext(lambda _: "0" * 64, problems.append)
    (read,) = WebArenaVerifiedFormat().read(folder / "agent_response.json", reading)
    return read, problems


def write_log(root: Path, response: Any, result: str | None = None) -> Path:
    folder = root / "agent_logs" / "107"
    folder.mkdir(parents=True)
    (folder / "agent_response.json").write_text(json.dumps(response))
    if result is not None:
        (folder / "eval_result.json").write_text(json.dumps({"status": result}))
    (root / "webarena-verified.json").write_bytes(msgspec.json.encode([make_task()]))
    return folder


def verdict_of(read: Any) -> Any:
    return next(body.verdict for body in read.bodies if isinstance(body, VerdictAdded))


def test_a_log_is_read_with_its_task_and_trace(tmp_path: Path) -> None:
    folder = write_log(tmp_path, respond(task_type="NAVIGATE"), "failure")
    request = {"request": {"method": "GET", "url": "http://x.test/"}, "response": {"status": 200}}
    trace = {"log": {"entries": [{**request, "startedDateTime": "2025-10-19T14:40:28.342Z"}]}}
    (folder / "network.har.gz").write_bytes(gzip.compress(json.dumps(trace).encode()))
    read, problems = read_folder(folder)
    assert problems == []
    assert WebArenaVerifiedFormat().recognises(folder / "agent_response.json")
    assert (verdict_of(read).status, read.started.task) == ("fail", "webarena-verified-107")
    network, check = (body.evidence.data for body in read.bodies if isinstance(body, EvidenceAdded))
    assert network["requests"] == [{"method": "GET", "url": "http://x.test/", "status": 200}]
    assert check["recorded"] == check["judged"] == "fail"


def test_a_result_that_differs_from_ours_is_unknown(tmp_path: Path) -> None:
    read, _ = read_folder(write_log(tmp_path, respond(task_type="NAVIGATE"), "success"))
    assert verdict_of(read).status == "unknown"
    assert "recorded as pass, and judged as fail" in verdict_of(read).reason


def test_broken_files_are_named(tmp_path: Path) -> None:
    folder = write_log(tmp_path, respond())
    (folder / "network.har.gz").write_bytes(b"no gzip")
    (tmp_path / "webarena-verified.json").write_text("[]")
    read, problems = read_folder(folder)
    assert verdict_of(read).status == "unknown"
    assert [problem.problem.partition(":")[0] for problem in problems] == [
        "no task 107 was found",
        "the trace cannot be read",
    ]
    (tmp_path / "webarena-verified.json").write_text("{}")
    with pytest.raises(UserError, match="does not hold the tasks"):
        read_folder(folder)


def test_the_two_logged_tasks_and_all_812() -> None:
    folder = shared_folder("environments", "webarena")
    tasks = read_tasks(folder / "webarena-verified.json.gz")
    kinds = Counter(
        one.expected["task_type"] if one.expected["status"] == "SUCCESS" else "error"
        for task in tasks.values()
        for one in task.eval
        if isinstance(one, Evaluator)
    )
    assert len(tasks) == 812
    assert kinds == {"mutate": 364, "retrieve": 297, "navigate": 111, "error": 40}
    for number, status in ((107, "fail"), (108, "pass")):
        read, problems = read_folder(folder / "agent_logs" / str(number))
        assert problems == []
        assert verdict_of(read).status == status
        check = [body.evidence.data for body in read.bodies if isinstance(body, EvidenceAdded)][-1]
        assert check["judged"] == check["recorded"] == status
