"""Logs that were written twice, joined or appended to: nothing is counted twice, nothing is mixed, and it is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay.formats.registry import load_formats, matching_formats
from assay.formats.shared.usage import total_usage
from assay.records import AttemptEnded, ModelCall, ModelCalled, StepAdded, Usage
from tests.formats.generated import Blobs, read_all

HERE = Path(__file__).parent
SPANS = sorted(
    [*(HERE / "traces" / "written").glob("*.jsonl"), *(HERE / "fixtures").glob("otel-genai-*.jsonl")],
    key=lambda path: path.name,
)
SESSION_FOLDERS = ("claude-code", "claude-code-sub-agent", "codex", "codex-sub-agent", "pi", "gemini-cli", "opencode")
SESSIONS = [
    HERE / "fixtures" / "claude-agent-sdk.jsonl",
    *sorted(path for name in SESSION_FOLDERS for path in (HERE / "sessions" / name).glob("*.jsonl")),
]


def counts(path: Path) -> tuple[Any, list[Any]]:
    """The attempts, turns, calls and tokens of a file, and what is told of it."""
    (format,) = matching_formats(path, load_formats())
    found, problems = read_all(format, path, Blobs())
    steps = [body.step for one in found for body in one.bodies if isinstance(body, StepAdded)]
    usages = [body.call.usage for one in found for body in one.bodies if isinstance(body, ModelCalled)]
    tokens = sum((usage.prompt_tokens or 0) + (usage.completion_tokens or 0) for usage in usages)
    acts = sum(len(step.tool_calls) for step in steps), sum(len(step.observations) for step in steps)
    return (len(found), len(steps), *acts, len(usages), tokens), problems


@pytest.mark.parametrize("path", [*SPANS, *SESSIONS], ids=lambda path: f"{path.parent.name}-{path.stem[:24]}")
@pytest.mark.parametrize("how", ["each line twice", "the file twice"])
def test_a_log_that_repeats_itself_is_counted_once_and_told(path: Path, how: str, tmp_path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    twice = [line for line in lines for _ in range(2)] if how == "each line twice" else lines * 2
    (tmp_path / path.name).write_bytes(b"".join(twice))
    wanted, told = counts(path)
    assert not told
    found, problems = counts(tmp_path / path.name)
    assert found == wanted
    assert problems
    assert all(problem.is_remark for problem in problems)


@pytest.mark.parametrize("path", SPANS, ids=lambda path: path.name)
def test_spans_printed_over_several_lines_are_those_of_the_log(path: Path, tmp_path: Path) -> None:
    rows = [json.loads(line) for line in path.read_bytes().splitlines()]
    (tmp_path / "pretty.json").write_text("\n".join(json.dumps(row, indent=2) for row in rows), encoding="utf-8")
    assert counts(tmp_path / "pretty.json") == counts(path)


def test_a_span_with_other_content_is_read_as_it_was_last(tmp_path: Path) -> None:
    path = HERE / "traces" / "written" / "langsmith.jsonl"
    rows = [json.loads(line) for line in path.read_bytes().splitlines()]
    changed = next({**row, "end_time": None, "outputs": None} for row in rows if row["run_type"] == "llm")
    (tmp_path / "runs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [changed, *rows]), encoding="utf-8")
    found, problems = counts(tmp_path / "runs.jsonl")
    assert found == counts(path)[0]
    assert [("the last is read" in one.problem, one.is_remark) for one in problems] == [(True, False)]


def stream(session: str) -> list[dict[str, Any]]:
    """What `claude -p --output-format stream-json` prints of one run."""
    call = {"type": "tool_use", "id": f"toolu_{session}", "name": "Bash", "input": {"command": "ls"}}
    result = {"type": "tool_result", "tool_use_id": f"toolu_{session}", "content": session}
    answer = {"role": "assistant", "id": f"msg_{session}", "content": [call], "usage": {"output_tokens": 5}}
    done = {"type": "result", "subtype": "success", "result": "done", "num_turns": 1, "total_cost_usd": 0.25}
    rows = [
        {"type": "system", "subtype": "init", "model": "claude-made"},
        {"type": "assistant", "message": answer, "parent_tool_use_id": None},
        {"type": "user", "message": {"role": "user", "content": [result]}, "parent_tool_use_id": None},
        done,
    ]
    return [{**row, "session_id": session} for row in rows]


def test_runs_of_claude_that_print_into_one_file_are_attempts_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    rows = [*stream("one"), *stream("two")]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + "not JSON\n", encoding="utf-8")
    (format,) = matching_formats(path, load_formats())
    found, problems = read_all(format, path, Blobs())
    assert [one.key for one in found] == ["session one", "session two"]
    assert sum(not problem.is_remark for problem in problems) == 1
    for one, name in zip(found, ("one", "two"), strict=True):
        (step,) = [body.step for body in one.bodies if isinstance(body, StepAdded)]
        assert [seen.content for seen in step.observations] == [name]
        assert [body.metrics["cost_usd"] for body in one.bodies if isinstance(body, AttemptEnded)] == [0.25]


def events(thread: str) -> list[dict[str, Any]]:
    """What `codex exec --json` prints of one run: ids of items begin again."""
    item = {"id": "item_0", "type": "command_execution", "command": f"echo {thread}", "aggregated_output": thread}
    usage = {"input_tokens": 7, "cached_input_tokens": 0, "output_tokens": 2}
    return [
        {"type": "thread.started", "thread_id": thread},
        {"type": "turn.started"},
        {"type": "item.completed", "item": {**item, "exit_code": 0, "status": "completed"}},
        {"type": "turn.completed", "usage": usage},
    ]


def test_threads_of_codex_that_print_into_one_file_are_attempts_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in [*events("one"), *events("two")]), encoding="utf-8")
    (format,) = matching_formats(path, load_formats())
    found, problems = read_all(format, path, Blobs())
    assert not problems
    assert [one.key for one in found] == ["thread one", "thread two"]
    texts = [[s.content for b in one.bodies if isinstance(b, StepAdded) for s in b.step.observations] for one in found]
    assert texts == [["one"], ["two"]]


@pytest.mark.parametrize("name", ["codex", "claude-code"])
def test_sessions_joined_into_one_file_are_told(name: str, tmp_path: Path) -> None:
    first = next((HERE / "sessions" / name).glob("*.jsonl"))
    second = min((HERE / "sessions" / f"{name}-sub-agent").glob("*.jsonl"), key=lambda path: path.stat().st_size)
    (tmp_path / first.name).write_bytes(first.read_bytes() + second.read_bytes())
    _, problems = counts(tmp_path / first.name)
    assert any("begins within another session" in problem.problem for problem in problems)


def test_tokens_that_nothing_counted_are_no_total() -> None:
    calls = [ModelCall(name, "openai-responses", "m", {}, None, Usage(0, 0)) for name in ("a", "b")]
    assert total_usage(ModelCalled(call) for call in calls) == {}
    counted = ModelCall("c", "openai-responses", "m", {}, None, Usage(0, 3))
    assert total_usage([ModelCalled(counted)]) == {"prompt_tokens": 0, "completion_tokens": 3}
