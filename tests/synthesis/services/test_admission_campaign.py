"""The committed results of the admission of whole benchmarks, and a part of their tasks admitted again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.sampling import WHOLE
from tests.synthesis.services.admission_campaign import RESULTS, SETS, refusals, tasks_of

FOUND: dict[str, dict[str, Any]] = {one["set"]: one for one in json.loads(RESULTS.read_bytes())}
NOTHING, ALL_NUMBERS = "null.nothing", "cheat.shortcut-all-numbers"
ALL_ACTS, TRANSFER = "cheat.shortcut-all-acts", "cheat.shortcut-one-call-transfer_to_human_agents"
ORACLE = "oracle.1"
CAUSES = {
    "airline": {NOTHING: 23, ALL_NUMBERS: 1},
    "retail": {NOTHING: 11},
    "telecom": {TRANSFER: 20, ALL_ACTS: 23},
    "banking_knowledge": {ORACLE: 1},
    "mock": {NOTHING: 1, TRANSFER: 1, ORACLE: 2},
    "workbench": {NOTHING: 124},
}
"""Number of refused tasks by the first cause, over all tasks."""


@pytest.mark.quick
@pytest.mark.parametrize("name", SETS)
def test_each_refused_task_has_one_of_the_known_causes(name: str) -> None:
    found, wanted = FOUND[name], CAUSES[name]
    counts = {cause: sum(cause in causes for causes in found["refused"].values()) for cause in wanted}
    assert counts == wanted
    assert found["tasks"] - found["admitted"] == len(found["refused"]) == sum(wanted.values())


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", SETS)
def test_admission_refuses_the_same_tasks_for_the_same_causes(name: str) -> None:
    tasks = tasks_of(name, 1_000 if WHOLE else 8)
    assert refusals(tasks) == {
        task.id: FOUND[name]["refused"][task.id] for task in tasks if task.id in FOUND[name]["refused"]
    }
