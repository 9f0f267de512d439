"""Exported advantages of a team, weighted by how consistently each actor's progress orders the attempts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from assay.analysis.evidence_graph import build_evidence_graph
from assay.environments.worlds.opening import needed_facts
from assay.errors import UserError
from assay.learning.export.config import WriteConfig
from assay.learning.export.exporting import export_for_training
from assay.learning.reading import rows_of_run
from assay.learning.row_files import read_rows
from assay.learning.rows_config import RowsConfig
from assay.records import Body, Evidence, EvidenceAdded, ModelCalled, StepAdded
from assay.rollout import RunConfig, Tally, start_run
from assay.rollout.exchange.exporting import sidecar_of
from assay.settings import Settings
from assay.store import RunStore
from assay.tasks import find_tasks
from tests.learning.recorded import store_run

TEAM = Path(__file__).parents[3] / "docs_src" / "team.toml"
PROGRESS = {"pass": [0.25, 0.5, 0.5], "fail": [0.0, 0.0, 0.25]}
"""After the two steps of `scout` and the one of `clerk`, which gain .5 and 0 in a pass, and 0 and .25 in a fail."""


def team_attempt(attempt: Callable[..., list[Body]], number: int, outcome: str, progress: list[float]) -> list[Body]:
    """One attempt of two actors: the second one's calls and steps come after those of the first."""
    events = attempt(f"a{number}", "up", "right", outcome=outcome, number=number)
    later = attempt(f"b{number}", "key:k")
    acted = [*_as_actor(events, "scout", 0), *_as_actor(later, "clerk", 2)]
    columns: dict[str, Any] = {"steps": [0, 1, 2], "rewards": [0.0] * 3, "progress": progress, "errors": [False] * 3}
    rest = [one for one in events[1:] if not isinstance(one, ModelCalled | StepAdded | EvidenceAdded)]
    return [events[0], *acted, EvidenceAdded(Evidence("episode", "state", "episode", columns)), *rest]


def _as_actor(events: list[Body], name: str, start: int) -> list[Body]:
    found: list[Body] = []
    for one in events:
        if isinstance(one, ModelCalled):
            call = replace(one.call, id=f"{name}-{one.call.id}", branch=name, actor_name=name)
            found.append(ModelCalled(replace(call, parent=call.parent and f"{name}-{call.parent}")))
        elif isinstance(one, StepAdded):
            step = one.step
            found.append(
                StepAdded(replace(step, index=start + step.index, actor_name=name, call=f"{name}-{step.call}"))
            )
    return found


def test_weights_of_actors_reach_the_exported_rows(attempt: Callable[..., list[Body]], tmp_path: Path) -> None:
    made = [
        team_attempt(attempt, number, outcome, PROGRESS[outcome])
        for number, outcome in enumerate(["pass", "fail", "pass", "fail"])
    ]
    settings = Settings(tmp_path / "cache", store_run(tmp_path / "store", made))

    def exported(name: str, **options: Any) -> dict[str, Any]:
        out = tmp_path / name
        config = {"to": "rows", "out": str(out), "credit": "grpo"} | options
        export_for_training("r", WriteConfig(**config), settings)
        return {f"{row.attempt}/{row.actor}": row for row in read_rows(out)}

    with pytest.raises(UserError, match="--credit-actors has no effect"):
        exported("none.parquet", credit=None, credit_actors="rank-consistency")
    plain = exported("plain.parquet")
    weighed = exported("weighed.parquet", credit_actors="rank-consistency", turn_rewards="progress")
    assert len(plain) == 8
    added = json.loads(sidecar_of(tmp_path / "weighed.parquet").read_bytes())["additions"]
    assert [one["why"] for one in added if one["field"] == "weights of actors"] == [
        "clerk: 0.000, mean over 1; tau -1.000 in 1 of them",
        "scout: 2.000, mean over 1; tau +1.000 in 1 of them",
    ]
    for key, row in weighed.items():
        factor = 2 if row.actor == "scout" else 0  # tau is 1 and -1
        assert row.advantages is not None
        assert np.any(plain[key].advantages)
        np.testing.assert_allclose(row.advantages, factor * plain[key].advantages)
    assert [turn.reward for turn in weighed["a0/scout"].turns] == [0.25, 0.25]
    assert [turn.reward for turn in weighed["a1/clerk"].turns] == [0.25]
    assert {turn.reward for row in plain.values() for turn in row.turns} == {0.0}


TELLING = """
def tell(request):
    told = [message for message in request.messages if message["role"] == "assistant"]
    text = request.messages[1]["content"]
    calls = [{"name": "team_send", "arguments": {"channel": "table", "text": text}}]
    return "told" if told else {"tool_calls": calls}
"""


def make_run(settings: Settings, run: str, tasks: str, **fields: Any) -> None:
    config = RunConfig(tasks=(tasks,), run=run, **fields)
    asyncio.run(start_run(config, settings, Tally()))


def test_rewards_by_coverage_are_the_first_finds_of_a_team(model_folder: Path, tmp_path: Path) -> None:
    settings = Settings(tmp_path / "cache", tmp_path / "store")
    (tmp_path / "model.py").write_text(TELLING)
    roles = [{"name": "reader", "agent": "loop", "tools": []}, {"name": "solver", "agent": "clue-solver"}]
    team = {"roles": roles, "channels": [{"name": "table", "writers": ["reader"], "readers": ["solver"]}]}
    tasks = "family:split-constraints,n=1,variables=4,values=3"
    make_run(settings, "pair", tasks, agent="team", agent_options=team, model=f"scripted:{tmp_path}/model.py:tell")
    make_run(settings, "grid", "family:grid,n=1", agent="expert")
    wanted = RowsConfig(turn_rewards="coverage", rendered=True, model=str(model_folder))
    rewards = [turn.reward for row in rows_of_run(settings, "pair", wanted) for turn in row.turns]
    with RunStore.open(settings.store, "pair") as store:
        made = store.trajectory(store.attempts()[0].chain)
    known = needed_facts(next(iter(find_tasks([tasks]))).task)
    assert sum(rewards) == pytest.approx(build_evidence_graph(made, *known).found / len(known.facts))
    assert sum(rewards) > 0
    with pytest.raises(UserError, match="names no facts"):
        list(rows_of_run(settings, "grid", wanted))


@pytest.mark.parametrize("to", ["openai", "trl-chat"])
def test_steps_of_several_actors_are_not_exported_as_the_conversation_of_one(to: str, tmp_path: Path) -> None:
    settings = Settings(tmp_path / "cache", tmp_path / "store")
    make_run(settings, "pair", "family:split-constraints,n=1", agent="team", agent_options={"file": str(TEAM)})
    with pytest.raises(UserError, match="several actors acted without a model"):
        export_for_training("pair", WriteConfig(to=to, out=str(tmp_path / "out")), settings)
