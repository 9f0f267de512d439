"""ATIF: round trips, what it holds, hostile documents, and Harbor's own models."""

from __future__ import annotations

import copy
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from assay.formats.harbor.atif import AtifFormat
from assay.formats.harbor.format import HarborFormat
from assay.formats.interface import ExportContext
from assay.records import Trajectory
from tests.formats.generated import (
    BLOBS,
    FEATURES,
    ROUND_TRIPS,
    Blobs,
    assembled,
    made_up,
    read_all,
    round_trip,
    trajectories,
)

FULL: dict[str, Any] = {
    "schema_version": "ATIF-v1.8",
    "session_id": "s-1",
    "trajectory_id": "t-1",
    "agent": {"name": "coder", "version": "2.1", "model_name": "m-1", "tool_definitions": [{"type": "function"}],
              "extra": {"a": 1}},
    "notes": "as designed",
    "final_metrics": {"total_prompt_tokens": 12, "total_cost_usd": 0.5, "total_steps": 3, "extra": {"b": 2}},
    "continued_trajectory_ref": "next.json",
    "extra": {"c": 3},
    "steps": [
        {"step_id": 1, "source": "system", "message": "You act.", "timestamp": "2026-01-01T00:00:00Z"},
        {"step_id": 2, "source": "user", "message": [
            {"type": "text", "text": "look"},
            {"type": "image", "source": {"media_type": "image/png", "path": "images/1.png"}},
        ], "is_copied_context": True},
        {"step_id": 3, "source": "agent", "message": "", "model_name": "m-2", "reasoning_effort": "high",
         "reasoning_content": "think", "llm_call_count": 2, "extra": {"d": 4},
         "tool_calls": [
             {"tool_call_id": "x", "function_name": "bash", "arguments": {"command": "ls"}, "extra": {"e": 5}},
             {"tool_call_id": "y", "function_name": "ask", "arguments": {}},
         ],
         "observation": {"results": [
             {"source_call_id": "y", "content": "later", "subagent_trajectory_ref": [{"trajectory_id": "t-2"}]},
             {"source_call_id": "x", "content": "a.txt", "extra": {"f": 6}},
             {"content": [{"type": "text", "text": "seen"}]},
         ]},
         "metrics": {"prompt_tokens": 12, "completion_tokens": 3, "cached_tokens": 4, "cost_usd": 0.5,
                     "prompt_token_ids": [1, 2], "completion_token_ids": [3], "logprobs": [-0.5], "extra": {"g": 7}}},
    ],
    "subagent_trajectories": [{
        "schema_version": "ATIF-v1.8", "trajectory_id": "t-2", "agent": {"name": "helper", "version": "1"},
        "steps": [{"step_id": 1, "source": "agent", "message": "hi", "llm_call_count": 0}],
    }],
}  # fmt: skip


def written(path: Path, document: Any) -> Path:
    path.write_text(json.dumps(document))
    return path


@ROUND_TRIPS
@given(trajectories())
def test_a_generated_trajectory_comes_back_the_same(trajectory: Trajectory) -> None:
    round_trip(AtifFormat(), [trajectory], ".json")


@pytest.mark.parametrize("version", [f"ATIF-v1.{minor}" for minor in range(9)])
def test_every_version_is_read(version: str, tmp_path: Path) -> None:
    path = written(tmp_path / "t.json", {**FULL, "schema_version": version})
    assert AtifFormat().recognises(path)
    (root, sub), unreadable = read_all(AtifFormat(), path, Blobs())
    assert not unreadable
    assert root.started.config["imported"]["version"] == version
    assert (root.started.agent, root.started.model, sub.started.agent) == ("coder", "m-1", "helper")
    assert sub.started.config["imported"]["fields"]["parent"] == "t-1"


def test_a_step_holds_what_the_document_said(tmp_path: Path) -> None:
    (root, _), _ = read_all(AtifFormat(), written(tmp_path / "t.json", FULL), Blobs())
    trajectory = assembled(root)
    system, user, agent = trajectory.steps
    assert (system.actor, user.actor, agent.actor, user.message) == ("environment", "user", "agent", "look")
    assert [(c.name, c.parsed) for c in agent.tool_calls] == [("bash", {"command": "ls"}), ("ask", {})]
    assert [(o.call_id, o.content) for o in agent.observations] == [("y", "later"), ("x", "a.txt"), (None, "seen")]
    (call,) = trajectory.calls
    assert (call.model, call.usage.cached_tokens, call.cost_usd, call.logprobs) == ("m-2", 4, 0.5, (-0.5,))
    assert system.started == 1767225600.0


def test_a_document_comes_back_as_it_was(tmp_path: Path) -> None:
    blobs, losses = Blobs(), list[Any]()
    (root, _), _ = read_all(AtifFormat(), written(tmp_path / "t.json", FULL), blobs)
    AtifFormat().write([assembled(root)], tmp_path / "again.json", ExportContext(blobs.content, losses.append))
    again = json.loads((tmp_path / "again.json").read_bytes())
    wanted = copy.deepcopy({k: v for k, v in FULL.items() if k not in ("subagent_trajectories", "extra")})
    wanted["steps"][0]["timestamp"] = "2026-01-01T00:00:00+00:00"
    wanted["steps"][2]["observation"]["results"][2]["content"] = "seen"  # parts that are text alone are text
    assert _without_own_words({k: v for k, v in again.items() if k != "extra"}) == wanted
    assert again["extra"]["c"] == 3
    assert not losses


def _without_own_words(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_own_words(item) for item in value]
    if isinstance(value, dict):
        kept = {k: _without_own_words(v) for k, v in value.items() if k != "assay"}
        return {k: v for k, v in kept.items() if not (k == "extra" and v == {})}
    return value


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"steps": [7]}, "steps[0]"),
        ({"steps": [{"step_id": 1, "source": "robot", "message": ""}]}, "steps[0].source"),
        ({"steps": [{"step_id": 1, "source": "agent", "message": 7}]}, "steps[0].message"),
        ({"steps": [{"source": "agent", "message": "", "tool_calls": {}}]}, "steps[0].tool_calls"),
        ({"steps": [{"source": "agent", "message": "", "tool_calls": [7]}]}, "steps[0].tool_calls[0]"),
        ({"steps": [{"source": "agent", "observation": {"results": [7]}}]}, "steps[0].observation.results[0]"),
        ({"steps": [{"source": "agent", "metrics": {"logprobs": ["x"]}}]}, "steps[0].metrics.logprobs"),
        ({"extra": {"assay": {"verdicts": [{"check": 7}]}}}, "extra.assay.verdicts[0]"),
        ({"extra": {"assay": {"started": {"seed": "x"}}}}, "extra.assay.started.seed"),
    ],
)
def test_what_does_not_fit_is_named_by_its_field_and_the_rest_is_read(
    change: dict[str, Any], place: str, tmp_path: Path
) -> None:
    found, unreadable = read_all(AtifFormat(), written(tmp_path / "t.json", {**FULL, **change}), Blobs())
    assert [u.place for u in unreadable] == [place]
    assert len(found) == 2


def test_a_verdict_in_a_document_is_a_claim(tmp_path: Path) -> None:
    verdict = {"check": "tests", "kind": "outcome", "status": "pass", "score": 1.0, "reason": "said so"}
    document = {**FULL, "extra": {"assay": {"verdicts": [verdict]}}}
    (found, _), _ = read_all(AtifFormat(), written(tmp_path / "t.json", document), Blobs())
    assert [v.marks for v in assembled(found).verdicts] == [("imported",)]


VALIDATE = """
import sys
from pathlib import Path
from harbor.models.trajectories.trajectory import Trajectory
from harbor.models.trial.result import TrialResult
from harbor.models.job.result import JobResult
for path in sorted(Path(sys.argv[1]).rglob("*.json")):
    text = path.read_text()
    kind = {"result.json": TrialResult, "trajectory.json": Trajectory}.get(path.name)
    kind = Trajectory if path.parent.name == "atif" else kind
    kind = JobResult if path.name == "result.json" and "n_total_trials" in text else kind
    if kind is not None:
        kind.model_validate_json(text)
        print(path.name)
"""


@pytest.mark.long
def test_harbors_own_models_take_what_is_written(tmp_path: Path) -> None:
    python = os.environ.get("ASSAY_HARBOR_PYTHON")
    if not python:
        pytest.skip("ASSAY_HARBOR_PYTHON names no Python that has the package harbor (scripts/harbor-for-tests.sh)")
    made = [made_up(seed, FEATURES[seed % 3 :: 2 + seed % 4], seed % 7) for seed in range(300)]
    (full, _), _ = read_all(AtifFormat(), written(tmp_path / "full", FULL), BLOBS)
    writing = ExportContext(BLOBS.content, lambda _: None)
    AtifFormat().write([*made, assembled(full)], tmp_path / "atif", writing)
    HarborFormat().write([*made, assembled(full)], tmp_path / "job", writing)
    done = subprocess.run([python, "-c", VALIDATE, str(tmp_path)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(done.stdout.splitlines()) == 301 * 3 + 1
