"""Rollouts of NeMo Gym, after its description: items, tokens, rewards, and round trips."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from assay.formats.interface import ExportContext, ImportedTrajectory
from assay.formats.verifiers.nemo_gym import NemoGymFormat
from assay.records import AttemptStarted, Body, ModelCall, ModelCalled, Step, StepAdded, Trajectory
from tests.formats.generated import ROUND_TRIPS, Blobs, assembled, plain, read_all, read_whole, round_trip, trajectories

NEMO = NemoGymFormat()


@ROUND_TRIPS
@given(trajectories())
def test_a_generated_trajectory_comes_back_the_same(trajectory: Trajectory) -> None:
    round_trip(NEMO, [trajectory], ".jsonl")


def read(path: Path) -> list[Trajectory]:
    return read_whole(NEMO, path)


def message(text: str, **named: Any) -> dict[str, Any]:
    said: list[dict[str, Any]] = [{"annotations": [], "text": text, "type": "output_text", "logprobs": None}]
    return {"id": "m", "content": said, "role": "assistant", "status": "completed", "type": "message", **named}


def called(id_: str, name: str, **named: Any) -> dict[str, Any]:
    return {"arguments": '{"x": 1}', "call_id": id_, "name": name, "type": "function_call", "id": id_, **named}


def tokens(prompt: list[int], sampled: list[int]) -> dict[str, Any]:
    return {"prompt_token_ids": prompt, "generation_token_ids": sampled, "generation_log_probs": [-0.5] * len(sampled)}


ROLLOUT = {
    "responses_create_params": {
        "input": [{"role": "system", "content": "be kind"}, {"role": "user", "content": "go", "type": "message"}],
        "tools": [{"type": "function", "name": "look"}], "parallel_tool_calls": True,
    },
    "response": {
        "id": "r", "created_at": 1786127376.0, "model": "policy", "error": None,
        "output": [
            {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "hm"}], "content": None},
            called("c1", "look", **tokens([1, 2, 3], [4, 5])),
            {"type": "function_call_output", "call_id": "c1", "output": "seen", "id": "c1", "status": "completed"},
            message("done", **tokens([1, 2, 3, 4, 5, 6], [7])),
            {"role": "user", "content": "thanks", "type": "message"},
            message("bye"), message(""),
        ],
        "usage": {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12},
    },
    "reward": 1.0, "score": 1.0, "_ng_task_index": 3, "_ng_rollout_index": 2,
    "agent_ref": {"type": "responses_api_agents", "name": "simple"},
}  # fmt: skip


SAID: dict[str, Any] = {"type": "message", "role": "assistant", "status": "completed"}
ITEMS: list[dict[str, Any]] = [
    {"role": "user", "content": "Look."},
    {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c", "output": "a"},
    {**SAID, "content": "An a."},
    {"role": "user", "content": "Thanks."},
]
QUOTING: dict[str, Any] = {
    "responses_create_params": {"input": ITEMS, "tools": []},
    "response": {
        **{"id": "resp_1", "object": "response", "created_at": 1765834047.0, "model": "m", "error": None},
        **{"output": [{**SAID, "id": "msg_1", "content": [{"type": "output_text", "text": "Bye."}]}]},
        **{"usage": {"input_tokens": 30, "output_tokens": 2, "total_tokens": 32}},
    },
    "reward": 1.0,
}  # fmt: skip
"""A rollout as the examples of NeMo Gym have them: without tokens, after a conversation that its request quotes."""


def rollouts(tmp_path: Path, *rows: Any) -> Path:
    path = tmp_path / "rollouts.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_items_become_turns_and_tokens_calls(tmp_path: Path) -> None:
    path = rollouts(tmp_path, ROLLOUT)
    assert NEMO.recognises(path)
    one = read(path)[0]
    assert [(s.actor, s.message) for s in one.steps] == [
        ("environment", "be kind"), ("user", "go"), ("agent", None), ("agent", "done"), ("user", "thanks"),
        ("agent", "bye"), ("agent", ""),
    ]  # fmt: skip
    assert (one.steps[2].reasoning, one.steps[2].tool_calls[0].name) == ("hm", "look")
    assert one.steps[2].observations[0].content == "seen"
    told = [(c.prompt_token_ids, c.completion_token_ids, c.shared_tokens, c.parent) for c in one.calls]
    assert told == [((1, 2, 3), (4, 5), 0, None), ((6,), (7,), 5, "c0")]
    assert (one.task, one.number, one.agent, one.model, one.outcome) == ("3", 2, "simple", "policy", "pass")


def test_turns_that_the_request_quotes_are_not_the_agents(tmp_path: Path) -> None:
    (one,) = read(rollouts(tmp_path, QUOTING))
    assert [(s.actor, s.message, len(s.tool_calls), len(s.observations)) for s in one.steps] == [
        ("user", "Look.", 0, 0), ("environment", None, 1, 1), ("environment", "An a.", 0, 0), ("user", "Thanks.", 0, 0),
        ("agent", "Bye.", 0, 0),
    ]  # fmt: skip
    assert one.finished is not None
    assert one.finished.metrics == {"prompt_tokens": 30, "completion_tokens": 2}


@pytest.mark.parametrize("rollout", [ROLLOUT, QUOTING], ids=["with tokens", "quoting"])
def test_a_rollout_is_written_again_as_it_was(rollout: dict[str, Any], tmp_path: Path) -> None:
    path, target = rollouts(tmp_path, rollout), tmp_path / "again.jsonl"
    NEMO.write(read(path), target, ExportContext(Blobs().content, lambda loss: pytest.fail(str(loss))))
    assert json.loads(target.read_text()) == rollout
    assert list(map(plain, read(target))) == list(map(plain, read(path)))


@pytest.mark.parametrize(("reward", "status"), [(1.0, "pass"), (0.4, "fail"), (-3, "unknown"), (None, "unknown")])
def test_a_reward_is_a_verdict_on_a_scale(tmp_path: Path, reward: float | None, status: str) -> None:
    assert read(rollouts(tmp_path, {**ROLLOUT, "reward": reward}))[0].outcome == status


@pytest.mark.parametrize(
    "bad", [{"generation_log_probs": [1]}, {"prompt_token_ids": [-1]}, {"generation_token_ids": "x"}]
)
def test_tokens_that_do_not_fit_stay_in_their_item(tmp_path: Path, bad: dict[str, Any]) -> None:
    row = json.loads(json.dumps(ROLLOUT))
    row["response"]["output"] = [message("a", **{**tokens([1], [2, 3]), **bad})]
    path, target = rollouts(tmp_path, row), tmp_path / "again.jsonl"
    one = read(path)[0]
    assert one.calls == ()
    NEMO.write([one], target, ExportContext(Blobs().content, lambda loss: pytest.fail(str(loss))))
    assert json.loads(target.read_text()) == row


def test_what_is_no_rollout_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    row = json.loads(json.dumps(ROLLOUT))
    row["response"]["output"].insert(0, 7)
    found, unreadable = read_all(NEMO, rollouts(tmp_path, [1], row), Blobs())
    assert len(found) == 1
    assert [u.place for u in unreadable] == ["line 1", "line 2.output[0]"]


def test_tokens_of_attempts_from_elsewhere_are_written(tmp_path: Path) -> None:
    first = ModelCall("a", "d", "m", {}, None, prompt_token_ids=(1, 2), completion_token_ids=(3,), logprobs=(-0.5,))
    second = ModelCall(
        "b", "d", "m", {}, None, prompt_token_ids=(4,), completion_token_ids=(5, 6), parent="a", shared_tokens=3
    )
    said = (("user", "go", None), ("agent", "x", "a"), ("user", "on", None), ("agent", "y", "b"))
    bodies: list[Body] = [ModelCalled(first), ModelCalled(second)]
    bodies += [StepAdded(Step(n, actor, text, call=call)) for n, (actor, text, call) in enumerate(said)]  # type: ignore[arg-type]
    started = AttemptStarted("r", "a1", "t", "", "agent", "m", 0, 0)
    target = tmp_path / "out.jsonl"
    NEMO.write(
        [assembled(ImportedTrajectory("", started, tuple(bodies)))],
        target,
        ExportContext(Blobs().content, lambda loss: None),
    )
    told = [(c.prompt_token_ids, c.completion_token_ids, c.logprobs, c.shared_tokens) for c in read(target)[0].calls]
    assert told == [((1, 2), (3,), (-0.5,), 0), ((4,), (5, 6), None, 3)]
