"""A conversation that the loop cut is a row for each segment, all under the attempt's one outcome."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from assay.agents._context import SUMMARY_REQUEST
from assay.cli.app import build_app
from assay.gateway.interface import ModelRequest
from assay.learning.conversation import conversations
from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings
from assay.store import RunStore
from assay.verdicts import trust_of

TASKS = "family:experiments/locks_world.py:LocksTasks,n=2,notes=4,filler=400,seed=1"


FACT = re.compile(r"To open the (\w+), use the (\w+)\.")


def answer(request: ModelRequest) -> dict[str, object] | str:
    """Reads notes until it knows four facts, and uses the tool that one of them names; a summary holds them all."""
    text = "\n".join(str(message["content"]) for message in request.messages)
    facts = dict(FACT.findall(text))
    if request.messages[-1]["content"] == SUMMARY_REQUEST:
        return " ".join(f"To open the {name}, use the {tool}." for name, tool in facts.items())
    if len(facts) < 4:
        return {"tool_calls": [{"name": "read", "arguments": {}, "id": f"read{len(request.messages)}"}]}
    wanted = text.split("Open the ")[1].split(".")[0]
    return {"tool_calls": [{"name": "use", "arguments": {"tool": facts[wanted]}}]}


@pytest.mark.parametrize("policy", ["summarise", "drop"])
async def test_each_segment_is_a_row_under_the_shared_outcome(policy: str, tmp_path: Path) -> None:
    settings = Settings(tmp_path / "cache", tmp_path / "store")
    options = {"context": policy, "context_chars": 1_000, "keep_outputs": 1, "system": ""}
    config = RunConfig(
        tasks=(TASKS,), agent="loop", agent_options=options, model=f"scripted:{__file__}:answer", run="cut"
    )
    await start_run(config, settings, Tally())
    with RunStore.open(settings.store, "cut") as store:
        trajectories = [store.trajectory(row.chain) for row in store.attempts()]
    for trajectory in trajectories:
        cuts = [item for item in trajectory.evidence if item.kind == "context_dropped"]
        lines = list(conversations(trajectory))
        assert len(lines) == 1 + len(cuts) >= 2
        own = [turn for line in lines for turn in line.own if turn]
        assert len(own) == len(trajectory.calls)  # each turn is trained once, a summary like any other
    outcomes = [trust_of(trajectory).outcome_class for trajectory in trajectories]
    assert outcomes == (["pass", "pass"] if policy == "summarise" else ["fail", "fail"])
    words = ["stats", "cut", "--table", "context", "--store", str(settings.store), "--json"]
    (found,) = json.loads(CliRunner().invoke(build_app(), words).stdout)["tables"]["context"]
    assert (found["attempts"], found["cut"]) == (2, 2)
    assert found["dropped"] >= found["known"] >= found["needed"]
