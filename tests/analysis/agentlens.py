"""AgentLens-Bench as the tests need it: the annotated rows, the runs read by our importer, the merged references."""

from __future__ import annotations

import csv
import json
import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from assay.analysis.actions import actions_of
from assay.analysis.interface import Action
from assay.analysis.stages import Stage
from assay.analysis.states import State, states_of
from assay.formats.benchmarks.agentlens import AgentLensFormat
from assay.formats.interface import ImportContext
from assay.records import Step, StepAdded
from tests.analysis.made import call, step, trajectory

STAGES: dict[str, Stage] = {
    "exploration": "explore",
    "implementation": "implement",
    "verification": "verify",
    "orchestration": "orchestrate",
}
PATHS = 50
"""As many as the published code looks at. Which, it does not say: here random walks of one seed."""


class Run(NamedTuple):
    """One of the runs, with its annotations and the stages published for its acts."""

    name: str
    row: dict[str, str]
    actions: tuple[Action, ...]
    stages: tuple[Stage, ...]
    published: tuple[State, ...]
    """Its acts by the published tool, file and stage."""

    @property
    def passed(self) -> bool:
        return self.row["passed"] == "True"


def annotations(folder: Path) -> dict[str, dict[str, str]]:
    with (folder / "annotations" / "trajectories.csv").open(newline="") as file:
        return {row["trajectory_id"]: row for row in csv.DictReader(file)}


def runs(folder: Path) -> list[Run]:
    rows = annotations(folder)
    return [_run(path, rows[path.stem]) for path in sorted((folder / "trajectories").glob("*/*.json"))]


def _run(path: Path, row: dict[str, str]) -> Run:
    problems: list[Any] = []
    (imported,) = AgentLensFormat().read(path, ImportContext(lambda data: "", problems.append))
    assert not problems
    steps = [body.step for body in imported.bodies if isinstance(body, StepAdded)]
    actions = actions_of(trajectory(*steps))
    published = tuple(_state(steps[action.step], action) for action in actions)
    return Run(path.stem, row, actions, tuple(each.stage for each in published), published)


def _state(of: Step, action: Action) -> State:
    told = of.extra
    return State(STAGES[told["intent_stage"]], action.kind, told["tool_used"], told["file_path"])


def references(folder: Path) -> Iterator[tuple[str, list[tuple[State, ...]]]]:
    """Each task with a merged reference, and paths through it from its beginning to an end that an attempt had."""
    for path in sorted((folder / "ground_truth").glob("*.json")):
        merged = json.loads(path.read_text())
        named = [(name, node) for name, node in merged["states"].items() if node["log_entry"]]
        entries = [node["log_entry"] for _, node in named]
        actions = actions_of(trajectory(*(step(call(entry["tool"], entry["args"])) for entry in entries)))
        states = states_of(actions, [STAGES[node["intent_stage"]] for _, node in named])
        held = dict(zip((name for name, _ in named), states, strict=True))
        ways = [tuple(held[name] for name in way if name in held) for way in _walks(merged)]
        yield path.name.removesuffix("_merged_pta.json"), [way for way in ways if way]


def _walks(merged: dict[str, Any]) -> list[tuple[str, ...]]:
    draw = random.Random(0)
    following: dict[str, list[str]] = defaultdict(list)
    for each in merged["transitions"]:
        if each["to_state"] not in following[each["from_state"]]:
            following[each["from_state"]].append(each["to_state"])
    ends = set(merged["metadata"]["real_terminal_ids"])
    found = set()
    for _ in range(PATHS):
        way, last = [merged["initial_state"]], 0
        while after := [each for each in following[way[-1]] if each not in way]:
            way.append(draw.choice(after))
            last = len(way) if way[-1] in ends else last
        found.add(tuple(way[:last]))
    return sorted(found)
