"""Each clause of an instruction is tied to what judges it, in every kind of task."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from assay.cli.service_tables import clauses, instructions, pairs, read_served
from assay.errors import TaskError
from assay.records import Check, Task, Trajectory
from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings
from assay.statistics import count_by_task
from assay.store import RunStore
from assay.synthesis.services.attempted import acts_of
from assay.synthesis.services.clauses import ClauseReader, ClauseResult
from assay.synthesis.services.family import ServiceTasks
from assay.synthesis.services.planned import PlannedTask
from assay.tasks import LoadedTask
from assay.tasks.sources import names_family_code

PARTIAL = """
class Partial:
    '''Carries out the plan without its last call, which it is handed here.'''
    name = "partial"
    needs_model = False

    async def run(self, attempt):
        from assay.records import ToolCall, canonical_bytes
        plan = [*attempt.task.environment.parameters["plan"]][:-1]
        calls = [
            ToolCall(f"c{n}", call["action"], canonical_bytes(call["arguments"]).decode(), call["arguments"])
            for n, call in enumerate(plan)
        ]
        for call in calls:
            await attempt.act([call])
        attempt.finish("done")
"""


def run(folder: Path, task: Task, agent: str, name: str = "r") -> Trajectory:
    config = RunConfig(tasks=("-",), agent=agent, run=name)
    settings = Settings(folder / "cache", folder / "store")
    asyncio.run(start_run(config, settings, Tally(), tasks=[LoadedTask(task, None)]))
    with RunStore.open(settings.store, name) as store:
        return store.trajectory(store.attempts()[0].chain)


def results(task: Task, trajectory: Trajectory) -> tuple[ClauseResult, ...]:
    return ClauseReader(PlannedTask(task)).results(trajectory)


@pytest.mark.parametrize("kind", ["possible", "impossible", "question"])
def test_the_control_meets_every_clause_and_doing_nothing_meets_no_request(kind: str, tmp_path: Path) -> None:
    (task,) = ServiceTasks(app="shop", level="implicit", kind=kind, writes=2).tasks(1, 4)
    asked = [one for one in ClauseReader(PlannedTask(task)).clauses() if one.kind not in ("rule", "nothing else")]
    assert len(asked) == 2
    assert all(one.tied_to for one in asked)
    kinds = {"possible": {"request"}, "impossible": {"request", "refusal"}, "question": {"answer"}}[kind]
    assert {one.kind for one in asked} == kinds
    done = results(task, run(tmp_path, task, "oracle", "oracle"))
    assert all(one.met for one in done)
    undone = results(task, run(tmp_path, task, "null", "null"))
    assert {one.met for one in undone if one.clause.kind in kinds} <= {False, None}
    assert {one.met for one in undone if one.clause.kind not in kinds} == {True}


def test_a_request_that_was_left_out_is_the_clause_that_is_not_met(tmp_path: Path) -> None:
    (task,) = ServiceTasks(app="mail", level="implicit", writes=2).tasks(1, 4)
    (tmp_path / "partial.py").write_text(PARTIAL)
    trajectory = run(tmp_path, task, f"{tmp_path / 'partial.py'}")
    found = [one for one in results(task, trajectory) if one.clause.kind == "request"]
    assert [one.met for one in found] == [True, False]
    assert found[1].missing == found[1].clause.tied_to
    acts = acts_of(PlannedTask(task), trajectory)
    assert acts == PlannedTask(task).acts[:1]


def test_what_the_record_does_not_say_is_not_judged(tmp_path: Path) -> None:
    (task,) = ServiceTasks(app="mail", level="implicit", writes=1).tasks(1, 4)
    trajectory = run(tmp_path, task, "oracle")
    for facts in (None, {}, {"changes": 5, "calls": []}, {"changes": [], "calls": 7}):
        evidence: list[Any] = [one for one in trajectory.evidence if one.kind != "facts"]
        if facts is not None:
            old = next(one for one in trajectory.evidence if one.kind == "facts")
            evidence.append(replace(old, data={"facts": facts}))
        judged = results(task, replace(trajectory, evidence=tuple(evidence)))
        assert judged
        assert all(one.met is not True for one in judged if one.clause.kind == "request")
    broken = replace(task, checks=(Check("state", "state", {"outcomes": 5}),))
    with pytest.raises(TaskError):
        ClauseReader(PlannedTask(broken))


def test_tasks_that_name_code_are_compared_only_by_permission(tmp_path: Path) -> None:
    app = Path(__file__).parents[3] / "docs_src" / "bike_service.py"
    (task,) = ServiceTasks(app=f"{app}:bikes", level="implicit", writes=1).tasks(1, 1)
    run(tmp_path, task, "oracle")
    said: list[str] = []
    assert read_served(tmp_path / "store", ["r"], said.append) == ()
    assert "--allow-task-code" in said[0]
    (one,) = read_served(tmp_path / "store", ["r"], said.append, allow_task_code=True)
    assert (one.fidelity, one.outcome) == (1.0, "pass")
    assert instructions([one], count_by_task([])) == pairs([one]) == []
    assert {row.met for row in clauses([one])} == {1}


@pytest.mark.parametrize(
    ("name", "is_code"),
    [
        ("family:services,app=shop+mail,n=2", False),
        ("family:services,app=file.py:shop", True),
        ("family:services,app=shop+file.py:more", True),
        ("family:written,path=tasks.jsonl", False),
        ("family:written,path=tasks.jsonl,allow_code=true", True),
        ("family:file.py", True),
        ("tasks/", False),
    ],
)
def test_options_of_a_family_that_name_code_are_code(name: str, is_code: bool) -> None:
    assert names_family_code(name) is is_code
