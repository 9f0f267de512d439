"""Messages of `claude -p --output-format stream-json` and of the Agent SDK, in the shapes that version 2.1 prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay.formats.claude_code.format import ClaudeCodeFormat
from assay.formats.interface import ExportContext
from assay.formats.registry import find_format
from assay.records import Trajectory
from tests.formats.generated import Blobs, assembled, read_all

SESSION = {"session_id": "4d7d628e-a8f3-4e3b-9f8a-d7ca80af855f", "parent_tool_use_id": None}
USAGE = {"input_tokens": 9, "cache_creation_input_tokens": 45, "cache_read_input_tokens": 21, "output_tokens": 4}


def said(id_: str, *blocks: dict[str, Any], **more: Any) -> dict[str, Any]:
    message = {"id": id_, "type": "message", "role": "assistant", "model": "claude-haiku-4-5", "content": list(blocks)}
    return {"type": "assistant", "message": {**message, "stop_reason": None, "usage": USAGE}, **SESSION, **more}


CALL = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}
RESULT = {"tool_use_id": "toolu_1", "type": "tool_result", "content": "a.txt", "is_error": False}
LINES: list[dict[str, Any]] = [
    {"type": "system", "subtype": "init", "cwd": "/w", "tools": ["Bash"], "model": "claude-haiku-4-5", **SESSION},
    said("m1", {"type": "thinking", "thinking": "Look.", "signature": "s"}, uuid="u1"),
    said("m1", CALL, uuid="u2"),
    {
        "type": "user",
        "message": {"role": "user", "content": [RESULT]},
        "tool_use_result": {"stdout": "a.txt"},
        **SESSION,
    },
    said("m2", {"type": "text", "text": "One file."}, uuid="u3"),
    {
        **{"type": "result", "subtype": "success", "is_error": False, "duration_ms": 1800, "num_turns": 2},
        **{"result": "One file.", "stop_reason": "end_turn", "total_cost_usd": 0.0115, "usage": USAGE, **SESSION},
    },
]


def read(path: Path, text: str) -> tuple[Trajectory, list[str]]:
    path.write_text(text)
    assert find_format(path).name == "claude-code"
    (found,), problems = read_all(ClaudeCodeFormat(), path, Blobs())
    return assembled(found), [problem.problem for problem in problems]


@pytest.mark.parametrize(
    "text",
    ["".join(json.dumps(line) + "\n" for line in LINES), json.dumps(LINES), json.dumps(LINES, indent=1)],
    ids=["stream-json", "json --verbose", "indented"],
)
def test_a_stream_is_a_session_with_calls_cost_and_end(text: str, tmp_path: Path) -> None:
    one, problems = read(tmp_path / "run.jsonl", text)
    assert [(s.actor, s.message, s.reasoning) for s in one.steps] == [
        ("agent", None, "Look."),
        ("agent", "One file.", None),
    ]
    assert [(c.name, c.parsed) for c in one.steps[0].tool_calls] == [("Bash", {"command": "ls"})]
    assert [o.content for o in one.steps[0].observations] == ["a.txt"]
    assert [call.usage.prompt_tokens for call in one.calls] == [75, 75]
    assert one.finished is not None
    assert one.finished.metrics == {"cost_usd": 0.0115, "wall_s": 1.8, "turns": 2}
    assert one.finished.ended == "the model ended its turn"
    assert one.task == f"session-{SESSION['session_id']}"
    assert problems == ["the messages do not hold the prompt: the session's id names the task"]


def test_a_stream_is_written_as_it_was_read(tmp_path: Path) -> None:
    one, _ = read(tmp_path / "run.jsonl", "".join(json.dumps(line) + "\n" for line in LINES))
    ClaudeCodeFormat().write([one], tmp_path / "again.jsonl", ExportContext(Blobs().content, lambda _: None))
    assert [json.loads(line) for line in (tmp_path / "again.jsonl").read_text().splitlines()] == LINES


def test_a_sub_agents_messages_are_another_agents(tmp_path: Path) -> None:
    inner = said("m3", {"type": "text", "text": "Done below."}) | {"parent_tool_use_id": "toolu_1"}
    one, _ = read(tmp_path / "run.jsonl", "".join(json.dumps(line) + "\n" for line in [*LINES[:3], inner, *LINES[3:]]))
    assert [s.actor for s in one.steps] == ["agent", "other_agent", "agent"]


def test_a_limit_and_an_error_are_the_attempts_end(tmp_path: Path) -> None:
    stopped = {**LINES[-1], "subtype": "error_max_turns", "is_error": True}
    one, _ = read(tmp_path / "a.jsonl", "".join(json.dumps(line) + "\n" for line in [*LINES[:3], stopped]))
    assert one.finished is not None
    assert (one.finished.stopped, one.finished.broke) == ("turns", None)
    broke = {**LINES[-1], "subtype": "error_during_execution", "is_error": True, "result": "no route"}
    one, _ = read(tmp_path / "b.jsonl", "".join(json.dumps(line) + "\n" for line in [*LINES[:3], broke]))
    assert one.finished is not None
    assert (one.finished.broke, one.finished.error) == ("agent", "no route")


def test_the_single_result_of_output_format_json_is_the_answer(tmp_path: Path) -> None:
    one, _ = read(tmp_path / "result.json", json.dumps(LINES[-1]))
    assert [(s.actor, s.message) for s in one.steps] == [("agent", "One file.")]


def test_dataclasses_of_pythons_agent_sdk_are_the_same_session(tmp_path: Path) -> None:
    fixture = Path(__file__).parent / "fixtures" / "claude-agent-sdk.jsonl"
    one, problems = read(tmp_path / "sdk.jsonl", fixture.read_text())
    assert not problems
    assert [(s.actor, s.message) for s in one.steps] == [
        ("user", "How many files are here?"),
        ("agent", None),
        ("agent", "One file."),
    ]
    assert [(c.name, c.parsed) for c in one.steps[1].tool_calls] == [("Bash", {"command": "ls"})]
    assert (one.steps[1].reasoning, one.steps[1].observations[0].content) == ("Look.", "a.txt")
    assert one.finished is not None
    assert one.finished.metrics == {"cost_usd": 0.0115, "wall_s": 1.8, "turns": 2}
