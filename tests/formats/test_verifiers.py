"""Traces of verifiers: what its own program wrote, graphs with branches and tokens, older rollouts, round trips."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from assay.formats.interface import ExportContext, ImportedTrajectory
from assay.formats.verifiers.format import VerifiersFormat
from assay.records import AttemptStarted, Body, ModelCall, ModelCalled, Step, StepAdded, Trajectory
from tests.formats.generated import ROUND_TRIPS, Blobs, assembled, plain, read_all, read_whole, round_trip, trajectories

VERIFIERS = VerifiersFormat()
TRACES = Path(__file__).parent / "fixtures" / "verifiers-traces.jsonl"


@ROUND_TRIPS
@given(trajectories())
def test_a_generated_trajectory_comes_back_the_same(trajectory: Trajectory) -> None:
    round_trip(VERIFIERS, [trajectory], ".jsonl")


def read(path: Path) -> list[Trajectory]:
    return read_whole(VERIFIERS, path)


def test_what_verifiers_wrote_is_read() -> None:
    found = read(TRACES)
    assert VERIFIERS.recognises(TRACES)
    assert sorted((t.task, t.number, t.outcome) for t in found) == [
        ("sum-0", 0, "pass"), ("sum-0", 1, "pass"), ("sum-0", 2, "unknown"), ("sum-1", 0, "fail"), ("sum-1", 1, "fail")
    ]  # fmt: skip
    one = next(t for t in found if t.task == "sum-0")
    assert [s.actor for s in one.steps] == ["environment", "user", "agent", "agent"]
    assert (one.steps[2].reasoning, one.steps[2].observations[0].content) == ("I should list.", "hello\n")
    assert [c.usage.prompt_tokens for c in one.calls] == [20, 21]
    assert [(c.parent, c.shared_messages) for c in one.calls] == [(None, 0), ("n2", 3)]
    assert one.evidence[0].data["values"] == {"reward": 1.0, "correct": 1.0}


def test_a_provider_that_fails_is_not_the_agents_failure() -> None:
    broken = next(t for t in read(TRACES) if t.outcome == "unknown")
    assert broken.finished is not None
    assert broken.finished.broke == "provider"
    assert [bool(c.error) for c in broken.calls] == [True, True, True]


def test_what_verifiers_wrote_is_written_again_byte_for_byte_the_same_json(tmp_path: Path) -> None:
    target = tmp_path / "again.jsonl"
    VERIFIERS.write(read(TRACES), target, ExportContext(Blobs().content, lambda loss: pytest.fail(str(loss))))
    was, now = (list(map(json.loads, p.read_text().splitlines())) for p in (TRACES, target))
    assert was == now
    assert list(map(plain, read(target))) == list(map(plain, read(TRACES)))


def node(role: str, text: str, parent: int | None = None, **named: Any) -> dict[str, Any]:
    sampled = role == "assistant"
    base = {"message": {"role": role, "content": text}, "sampled": sampled, "timestamp": 1.0}
    return base | ({} if parent is None else {"parent": parent}) | named


def traces_of(tmp_path: Path, *nodes: Any, **named: Any) -> Path:
    task = {"type": "T", "data": {"id": "t"}}
    trace = {"version": 1, "id": "x", "task": task, "agent": {"config": {"model": "m"}}, "nodes": list(nodes)}
    path = tmp_path / "traces.jsonl"
    path.write_text(json.dumps({"id": "e", "env": {"id": "v"}, "task": task, "traces": [{**trace, **named}]}) + "\n")
    return path


def test_tokens_are_kept_as_they_were_sampled(tmp_path: Path) -> None:
    first = node("assistant", "a", 0, token_ids=[3, 4, 5], mask=[False, True, True], logprobs=[-0.5, -0.25])
    second = node("assistant", "b", 2, token_ids=[8, 9], mask=[False, True], logprobs=[-1.0])
    path = traces_of(
        tmp_path, node("user", "u", token_ids=[1, 2]), first, node("user", "v", 1, token_ids=[6, 7]), second
    )
    one = read(path)[0]
    told = [(c.prompt_token_ids, c.completion_token_ids, c.logprobs, c.shared_tokens) for c in one.calls]
    assert told == [((1, 2, 3), (4, 5), (-0.5, -0.25), 0), ((6, 7, 8), (9,), (-1.0,), 5)]


def test_branches_of_a_graph_are_calls_with_their_own_parents(tmp_path: Path) -> None:
    path = traces_of(
        tmp_path, node("user", "u"), node("assistant", "a", 0), node("assistant", "b", 0), node("user", "w", 1),
        node("assistant", "c", 3),
    )  # fmt: skip
    assert [(c.id, c.parent, c.shared_messages) for c in read(path)[0].calls] == [
        ("n1", None, 0), ("n2", None, 0), ("n4", "n1", 2)
    ]  # fmt: skip


@pytest.mark.parametrize("parent", [-1, 0, 7, 10**30, "x", True])
def test_a_parent_that_is_none_makes_a_root(tmp_path: Path, parent: Any) -> None:
    one = read(traces_of(tmp_path, node("assistant", "a", parent)))[0]
    assert [c.parent for c in one.calls] == [None]


@pytest.mark.parametrize(
    ("rewards", "status", "score"),
    [
        ({"a": {"score": 1.0}}, "pass", 1.0),
        ({"a": {"score": 1.0, "weight": 0.5}, "b": {"score": 0.0, "weight": 0.5}}, "fail", 0.5),
        ({"a": {"score": 3.0}}, "unknown", None),
        ({"a": None}, "unknown", None),
        ({}, "unknown", None),
    ],
)
def test_rewards_are_a_verdict_on_a_scale(tmp_path: Path, rewards: Any, status: str, score: float | None) -> None:
    one = read(traces_of(tmp_path, node("user", "u"), rewards=rewards))[0]
    assert [(v.status, v.score) for v in one.verdicts] == [(status, score)]


def test_rollouts_of_older_versions_are_read_and_written_again(tmp_path: Path) -> None:
    row = {
        "example_id": 3, "task": "gsm8k", "prompt": [{"role": "user", "content": "2+2"}],
        "completion": [{"role": "assistant", "content": "4"}], "reward": 1.0, "answer": "4", "info": {}, "judge": 0.5,
    }  # fmt: skip
    path, target = tmp_path / "results.jsonl", tmp_path / "again.jsonl"
    path.write_text(json.dumps(row) + "\n")
    assert VERIFIERS.recognises(path)
    one = read(path)[0]
    assert (one.task, one.outcome, [s.message for s in one.steps]) == ("gsm8k/3", "pass", ["2+2", "4"])
    VERIFIERS.write([one], target, ExportContext(Blobs().content, lambda loss: pytest.fail(str(loss))))
    assert json.loads(target.read_text()) == row


def test_what_is_no_row_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    path = traces_of(tmp_path, node("user", "u"), 3)
    path.write_text("[1]\n{\n" + path.read_text())
    found, unreadable = read_all(VERIFIERS, path, Blobs())
    assert len(found) == 1
    assert [u.place for u in unreadable] == ["line 1", "line 2", "line 3.traces[0].nodes[1]"]


@pytest.mark.parametrize("odd", [{"calls": 3}, {"errors": 3}, {"nodes": 3}, {"nodes": None}])
def test_what_is_no_list_is_passed_over(tmp_path: Path, odd: dict[str, Any]) -> None:
    path = traces_of(tmp_path, {**node("user", "u"), "token_ids": 3, "mask": [True]})
    row = json.loads(path.read_text())
    row["traces"][0] |= odd
    path.write_text(json.dumps(row) + "\n")
    found, unreadable = read_all(VERIFIERS, path, Blobs())
    assert len(found) == 1
    assert [u.place for u in unreadable] == (["line 1.traces[0]"] if "nodes" in odd else [])


LOAD = """
import sys
from pathlib import Path
from verifiers.v1.trace import WireTrace
from verifiers.v1.utils.trace_store import read_episodes
print([[n.message.role for n in e.traces[0].nodes] for e in read_episodes(Path(sys.argv[1]), WireTrace)])
"""


def test_verifiers_reads_what_was_written(tmp_path: Path) -> None:
    python = os.environ.get("ASSAY_VERIFIERS_PYTHON")
    if not python:
        pytest.skip("ASSAY_VERIFIERS_PYTHON names no Python with verifiers: its own reader is not asked")
    from tests.formats.generated import BLOBS

    made: list[Trajectory] = []

    @settings(max_examples=40, database=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
    @given(trajectories())
    def collect(trajectory: Trajectory) -> None:
        made.append(trajectory)

    collect()
    VERIFIERS.write([*read(TRACES), *made], tmp_path / "traces.jsonl", ExportContext(BLOBS.content, lambda loss: None))
    done = subprocess.run([python, "-c", LOAD, str(tmp_path)], capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("assistant") >= 8


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
    VERIFIERS.write(
        [assembled(ImportedTrajectory("", started, tuple(bodies)))],
        target,
        ExportContext(Blobs().content, lambda loss: None),
    )
    told = [(c.prompt_token_ids, c.completion_token_ids, c.logprobs, c.shared_tokens) for c in read(target)[0].calls]
    assert told == [((1, 2), (3,), (-0.5,), 0), ((4,), (5, 6), None, 3)]
