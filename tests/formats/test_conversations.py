"""Conversations of libraries and command-line agents: what is read has the counts of an independent count."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from assay.formats.registry import find_format
from assay.records import Trajectory
from tests.formats.generated import Blobs, read_all, read_whole
from tests.formats.test_traces import Counts, counted

HERE = Path(__file__).parent / "sessions"


class Sample(NamedTuple):
    """A file and what it holds."""

    path: str
    format: str
    counts: Counts
    costs: float | None = None


SAMPLES = [
    Sample("gemini-cli/session.jsonl", "gemini-cli", Counts(3, 2, 2, 450, 63 + 3 * 7)),
    Sample("opencode/export.json", "opencode", Counts(3, 2, 2, 450, 63), 0.000456),
    Sample("opencode/events.jsonl", "opencode", Counts(3, 2, 2, 450, 63), 0.000456),
    Sample("smolagents/code.json", "smolagents", Counts(3, 3, 3, 450, 63)),
    Sample("smolagents/tool-calling.json", "smolagents", Counts(6, 5, 5, 850, 125)),
    Sample("autogen/result.json", "autogen", Counts(3, 2, 2, 450, 63)),
    Sample("autogen/team-state.json", "autogen", Counts(3, 2, 2, 450, 63)),
    Sample("pydantic-ai/messages.json", "pydantic-ai", Counts(3, 2, 2, 450, 63)),
    Sample("langgraph/state.json", "langgraph", Counts(3, 2, 2, 450, 63)),
    Sample("langgraph/state-dict.json", "langgraph", Counts(3, 2, 2, 450, 63)),
    Sample("langgraph/state-dumpd.json", "langgraph", Counts(3, 2, 2, 450, 63)),
]
"""The tokens are what the scripted model reported (450 and 63 in three calls), or the totals that the file states."""


def read(name: str) -> Trajectory:
    path = HERE / name
    (one,) = read_whole(find_format(path), path)
    return one


def values(found: Any, key: str) -> list[Any]:
    """Returns the values of a key at any depth, in order."""
    if isinstance(found, list):
        return [value for item in found for value in values(item, key)]
    if not isinstance(found, dict):
        return []
    own = [found[key]] if key in found else []
    return own + [value for item in found.values() for value in values(item, key)]


def document(name: str) -> Any:
    text = (HERE / name).read_text()
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.path)
def test_a_session_has_its_counts(sample: Sample) -> None:
    assert find_format(HERE / sample.path).name == sample.format
    one = read(sample.path)
    assert counted(one) == sample.counts
    cost = [call.cost_usd for call in one.calls]
    assert (
        cost == [None] * len(cost) if sample.costs is None else sum(c or 0 for c in cost) == pytest.approx(sample.costs)
    )


def test_totals_of_the_files_are_those_read() -> None:
    result = document("smolagents/tool-calling.json")[0]
    used = result["token_usage"]
    one = read("smolagents/tool-calling.json")
    assert counted(one)[3:] == (used["input_tokens"], used["output_tokens"])
    info = document("opencode/export.json")[0]["info"]
    spent = info["tokens"]
    assert counted(read("opencode/export.json"))[3:] == (spent["input"] + spent["cache"]["read"], spent["output"])


def test_calls_and_results_are_those_of_the_files() -> None:
    parts = values(document("opencode/export.json"), "callID")
    assert parts == [call.id for step in read("opencode/export.json").steps for call in step.tool_calls]
    kinds = values(document("pydantic-ai/messages.json"), "part_kind")
    assert counted(read("pydantic-ai/messages.json"))[1:3] == (kinds.count("tool-call"), kinds.count("tool-return"))
    ids = values(document("gemini-cli/session.jsonl"), "toolCalls")
    assert counted(read("gemini-cli/session.jsonl"))[1] == len({call["id"] for calls in ids for call in calls})


FAILED = {
    "gemini-cli/session.jsonl": [False, False],
    "opencode/export.json": [False, False],
    "smolagents/code.json": [False, True, False],
    "autogen/result.json": [False, True],
    "pydantic-ai/messages.json": [False, True],
}


@pytest.mark.parametrize("name", FAILED)
def test_failures_are_those_that_the_program_told_its_model(name: str) -> None:
    assert [seen.error for step in read(name).steps for seen in step.observations] == FAILED[name]


@pytest.mark.parametrize("name", ["gemini-cli/session.jsonl", "opencode/export.json"])
def test_exit_codes_are_read(name: str) -> None:
    codes = [seen.exit_code for step in read(name).steps for seen in step.observations]
    assert codes == ([None, 1] if name.startswith("gemini") else [0, 1])


def test_a_limit_of_steps_is_told() -> None:
    finished = read("smolagents/tool-calling.json").finished
    assert finished is not None
    assert finished.stopped == "turns"


def test_the_instruction_of_gemini_is_not_its_context() -> None:
    one = read("gemini-cli/session.jsonl")
    assert [step.message for step in one.steps if step.actor == "user"] == [
        "Write one line into log.txt, then read missing.txt."
    ]
    assert one.steps[2].reasoning == "Plan: I think."


def test_the_same_instruction_is_the_same_task() -> None:
    names = ("gemini-cli/session.jsonl", "autogen/result.json", "pydantic-ai/messages.json", "langgraph/state.json")
    assert len({read(name).task for name in names}) == 1


def test_an_older_gemini_session_is_one_document(tmp_path: Path) -> None:
    head, *lines = document("gemini-cli/session.jsonl")
    by_id = {line["id"]: line for line in lines if "id" in line}
    path = tmp_path / "session-1.json"
    path.write_text(json.dumps(head | {"messages": list(by_id.values())}, indent=2))
    (one,) = read_whole(find_format(path), path)
    assert counted(one) == Counts(3, 2, 2, 450, 84)


def test_a_rewound_gemini_session_marks_what_it_left(tmp_path: Path) -> None:
    lines = (HERE / "gemini-cli" / "session.jsonl").read_text().splitlines()
    second = [json.loads(line)["id"] for line in lines if '"type":"gemini"' in line][2]
    again = {"id": "again", "type": "gemini", "content": "Only this.", "tokens": {"input": 1, "output": 1}}
    path = tmp_path / "session.jsonl"
    path.write_text("\n".join([*lines, json.dumps({"$rewindTo": second}), json.dumps(again)]) + "\n")
    (one,) = read_whole(find_format(path), path)
    turns = [step for step in one.steps if step.actor == "agent"]
    assert [step.extra.get("branch") for step in turns] == [None, "left", "left", None]
    assert turns[-1].message == "Only this."


def test_messages_that_gemini_left_twice_under_one_id_both_stay(tmp_path: Path) -> None:
    head = {"sessionId": "s", "projectHash": "h", "startTime": "2026-01-01T00:00:00Z"}
    said = [{"id": id_, "type": "user", "content": text} for id_, text in (("a", "A"), ("b", "B"), ("b", "C"))]
    rest = [{"$set": {"messages": [{"id": "a", "type": "user", "content": "D"}]}}]
    path = tmp_path / "session.jsonl"
    path.write_text("\n".join(map(json.dumps, [head, *said[:2], {"$rewindTo": "b"}, said[2], *rest])) + "\n")
    (one,) = read_whole(find_format(path), path)
    assert [(step.message, step.extra.get("branch")) for step in one.steps] == [
        ("B", "left"),
        ("C", "left"),
        ("D", None),
    ]


@pytest.mark.long
def test_very_many_rewinds_of_gemini_take_no_longer_than_their_length(tmp_path: Path) -> None:
    lines: list[Any] = [{"sessionId": "s", "projectHash": "h", "startTime": "2026-01-01T00:00:00Z"}]
    for position in range(20_000):
        lines += [{"id": f"m{position}", "type": "user", "content": "x"}, {"$rewindTo": "m0"}]
    path = tmp_path / "session.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    began = time.process_time()
    (one,) = read_whole(find_format(path), path)
    assert {step.extra.get("branch") for step in one.steps} == {"left"}
    assert len(one.steps) == 20_000
    assert time.process_time() - began < 30  # minutes where each rewind walks the whole history


def test_a_history_that_gemini_shortened_stays_in_the_record(tmp_path: Path) -> None:
    lines = (HERE / "gemini-cli" / "session.jsonl").read_text().splitlines()
    summary = {"id": "s", "type": "user", "content": [{"text": "Summary."}]}
    path = tmp_path / "session.jsonl"
    path.write_text("\n".join([*lines, json.dumps({"$set": {"messages": [summary]}})]) + "\n")
    (one,) = read_whole(find_format(path), path)
    assert counted(one) == Counts(3, 2, 2, 450, 84)
    assert [step.message for step in one.steps if "branch" not in step.extra] == ["Summary."]


def test_a_thread_of_langgraph_is_read(tmp_path: Path) -> None:
    (state,) = document("langgraph/state.json")
    path = tmp_path / "threads.json"
    path.write_text(json.dumps([{"values": state, "next": []}, {"values": state, "next": ["tools"]}]))
    found = read_whole(find_format(path), path)
    assert [counted(one) for one in found] == [Counts(3, 2, 2, 450, 63)] * 2


def test_a_retry_of_pydantic_ai_is_a_failed_result(tmp_path: Path) -> None:
    (messages,) = document("pydantic-ai/messages.json")
    last = next(p for m in messages for p in m["parts"] if p.get("outcome") == "retried")
    last |= {"part_kind": "retry-prompt", "outcome": None}
    path = tmp_path / "messages.json"
    path.write_text(json.dumps(messages))
    (one,) = read_whole(find_format(path), path)
    assert [seen.error for step in one.steps for seen in step.observations] == [False, True]


def test_tools_that_a_provider_runs_for_pydantic_ai_are_calls_and_results(tmp_path: Path) -> None:
    about = {"tool_name": "web_search", "tool_call_id": "w"}
    parts = [
        {"part_kind": "builtin-tool-call", "args": {"q": "x"}, **about},
        {"part_kind": "builtin-tool-return", "content": "found", **about},
        {"part_kind": "text", "content": "It is."},
    ]
    path = tmp_path / "messages.json"
    asked = {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "Look."}]}
    path.write_text(json.dumps([asked, {"kind": "response", "parts": parts, "model_name": "m"}]))
    (one,) = read_whole(find_format(path), path)
    assert [(step.actor, step.message) for step in one.steps] == [("user", "Look."), ("agent", "It is.")]
    assert [(c.id, c.name, c.parsed) for c in one.steps[1].tool_calls] == [("w", "web_search", {"q": "x"})]
    assert [(o.call_id, o.content) for o in one.steps[1].observations] == [("w", "found")]
    assert [call.model for call in one.calls] == ["m"]


def test_runs_of_docent_have_their_turns_and_scores() -> None:
    path = HERE / "docent" / "runs.jsonl"
    found = read_whole(find_format(path), path)
    roles = [[m["role"] for t in run["transcripts"] for m in t["messages"]] for run in document("docent/runs.jsonl")]
    expected = [(roles_.count("assistant"), roles_.count("tool")) for roles_ in roles]
    assert [(counted(one).turns, counted(one).results) for one in found] == expected
    assert [one.outcome for one in found] == [None, "fail"]
    assert found[1].evidence[0].data["values"] == {"correct": 0.0, "tests_passed": 1.0}
    assert [seen.error for step in found[1].steps for seen in step.observations] == [True]


def test_a_run_that_cannot_be_read_does_not_lose_the_next(tmp_path: Path) -> None:
    lines = (HERE / "docent" / "runs.jsonl").read_text().splitlines()
    path = tmp_path / "runs.jsonl"
    path.write_text("\n".join([lines[0], '{"transcripts": []}', lines[1]]) + "\n")
    found, problems = read_all(find_format(path), path, Blobs())
    assert (len(found), [problem.place for problem in problems]) == (2, ["line 2"])


def test_events_of_opencode_say_the_same_as_its_export() -> None:
    exported, printed = read("opencode/export.json"), read("opencode/events.jsonl")
    assert [step.tool_calls for step in printed.steps] == [step.tool_calls for step in exported.steps[1:]]
    assert [step.observations for step in printed.steps] == [step.observations for step in exported.steps[1:]]
    assert printed.task.startswith("ses_")
