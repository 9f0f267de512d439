"""Chat JSONL and ShareGPT: round trips, columns, and rows that are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from assay.formats.chat.format import ChatFormat
from assay.formats.chat.sharegpt import ShareGptFormat
from assay.formats.interface import ExportContext, Format
from assay.records import Trajectory
from tests.formats.generated import ROUND_TRIPS, Blobs, assembled, read_all, round_trip, trajectories

CALLS = [
    {"id": "a", "type": "function", "function": {"name": "ls", "arguments": '{"path": "."}'}},
    {"id": "b", "type": "function", "function": {"name": "cat", "arguments": "{broken"}},
]
TALK: dict[str, Any] = {
    "id": 7,
    "tools": [{"type": "function", "function": {"name": "ls"}}],
    "messages": [
        {"role": "system", "content": "You act."},
        {
            "role": "user",
            "content": [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "x"}}],
        },
        {"role": "assistant", "content": None, "tool_calls": CALLS, "refusal": None},
        {"role": "tool", "tool_call_id": "b", "content": "no such file"},
        {"role": "tool", "tool_call_id": "a", "content": "a.txt"},
        {"role": "assistant", "content": "One file."},
    ],
}


def rows(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("format", [ChatFormat(), ShareGptFormat()], ids=lambda f: f.name)
def test_a_generated_trajectory_comes_back_the_same(format: Format) -> None:
    @ROUND_TRIPS
    @given(trajectories())
    def goes_round(trajectory: Trajectory) -> None:
        round_trip(format, [trajectory], ".jsonl")

    goes_round()


def test_rows_that_others_recorded_come_back_byte_for_byte_as_values(shared_data: Path, tmp_path: Path) -> None:
    source, blobs = shared_data / "swe-smith" / "ft_xml_example.jsonl", Blobs()
    found, unreadable = read_all(ChatFormat(), source, blobs)
    ChatFormat().write(map(assembled, found), tmp_path / "again.jsonl", ExportContext(blobs.content, lambda _: None))
    assert not unreadable
    was, now = (path.read_text().splitlines() for path in (source, tmp_path / "again.jsonl"))
    assert list(map(json.loads, was)) == list(map(json.loads, now))


def test_results_stand_with_the_calls_that_they_answer_and_nothing_of_a_row_is_dropped(tmp_path: Path) -> None:
    blobs = Blobs()
    ((found,), _) = read_all(ChatFormat(), rows(tmp_path / "in.jsonl", TALK), blobs)
    trajectory = assembled(found)
    agent = trajectory.steps[2]
    assert [(c.id, c.parsed, c.error is None) for c in agent.tool_calls] == [
        ("a", {"path": "."}, True),
        ("b", None, False),
    ]
    assert [(o.call_id, o.content) for o in agent.observations] == [("b", "no such file"), ("a", "a.txt")]
    ChatFormat().write([trajectory], tmp_path / "out.jsonl", ExportContext(blobs.content, lambda _: None))
    assert json.loads((tmp_path / "out.jsonl").read_bytes()) == TALK


def test_an_array_of_conversations_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "in.json").write_text(json.dumps([TALK, 7, TALK], indent=1))
    assert ChatFormat().recognises(tmp_path / "in.json")
    found, (unreadable,) = read_all(ChatFormat(), tmp_path / "in.json", Blobs())
    assert [f.key for f in found] == ["[0]", "[2]"]
    assert unreadable.place == "[1]"


def test_calls_of_sharegpt_that_stand_together_are_one_steps(tmp_path: Path) -> None:
    turns = [("human", "go"), ("gpt", "I look"), ("function_call", '{"name": "ls", "arguments": {"p": 1}}'),
             ("function_call", '{"name": "cat", "arguments": "{}"}'), ("observation", "a"), ("observation", "b"),
             ("function_call", "no json"), ("tool", "c"), ("gpt", "done")]  # fmt: skip
    row = {"conversations": [{"from": who, "value": value} for who, value in turns], "source": "somewhere"}
    ((found,), _) = read_all(ShareGptFormat(), rows(tmp_path / "in.jsonl", row), Blobs())
    steps = assembled(found).steps
    assert [[c.name for c in s.tool_calls] for s in steps] == [[], ["ls", "cat"], [""], []]
    assert [[(o.call_id, o.content) for o in s.observations] for s in steps] == [
        [], [("call_1", "a"), ("call_2", "b")], [("call_3", "c")], []
    ]  # fmt: skip
    ShareGptFormat().write([assembled(found)], tmp_path / "out.jsonl", ExportContext(Blobs().content, lambda _: None))
    assert json.loads((tmp_path / "out.jsonl").read_bytes()) == row


def test_what_ends_a_row_early_is_told_and_the_next_one_is_read(tmp_path: Path) -> None:
    path = rows(
        tmp_path / "in.jsonl", {"conversations": [{"from": "human", "value": "x"}, 7]}, {"conversations": 8}, []
    )
    found, unreadable = read_all(ShareGptFormat(), path, Blobs())
    assert len(found) == 1
    assert [u.place for u in unreadable] == ["line 1.conversations[1]", "line 2", "line 3"]
