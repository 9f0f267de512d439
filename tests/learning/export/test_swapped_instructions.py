"""Swapped instructions in a real Chromium: a negative is one only by the checks of the task whose words they are."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.environments.services.plans import play
from assay.environments.services.world import ServiceWorld
from assay.learning.export.config import WriteConfig
from assay.learning.export.exporting import export_for_training
from assay.learning.export.interface import ExportSource
from assay.learning.export.swapped_instructions import SwappedInstructions
from assay.learning.reading import RunReader
from assay.learning.rows_config import RowsConfig
from assay.records import Task, Trajectory, digest_bytes
from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings
from assay.synthesis.sites.family import SiteTasks
from assay.verify.interface import WorldInput
from assay.verify.state_check import StateCheck
from tests.optional import require_browser

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
OPTIONS: dict[str, Any] = {"site": "museum", "least": 2, "most": 5}
TASKS = "family:sites,site=museum,n=3,seed=3,least=2,most=5"


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    require_browser()
    folder = tmp_path_factory.mktemp("swapped")
    settings = Settings(folder / "cache", folder / "store")
    for agent, options in (("oracle", {}), ("random-world", {"steps": 12})):
        config = RunConfig(tasks=(TASKS,), agent=agent, agent_options=options, run=agent)
        asyncio.run(start_run(config, settings, Tally()))
    return settings


def read_lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "examples.jsonl").read_text().splitlines()]


async def passes(task: Task, other: Task) -> bool:
    """Returns whether the plan of one task brings about what another one asks for."""
    parameters = {name: value for name, value in task.environment.parameters.items() if name != "site"}
    world = ServiceWorld(parameters, task.environment.seed)
    facts = play(world, world.plan).facts()
    return (await StateCheck().judge_world(WorldInput(other, other.checks[0], facts, None))).verdict.status == "pass"


async def test_each_label_is_that_of_the_checks_of_the_task_whose_instruction_it_is(
    settings: Settings, tmp_path: Path
) -> None:
    report = await asyncio.to_thread(
        export_for_training, "oracle", WriteConfig(to="swapped-instructions", out=str(tmp_path / "o")), settings
    )
    lines = read_lines(tmp_path / "o")
    tasks = {task.id: task for task in SiteTasks(**OPTIONS).tasks(3, seed=3)}
    assert (report.written, len(lines), len(tasks)) == (9, 9, 3)
    for line in lines:
        task, other = tasks[line["task"]], tasks[line["instruction_of"]]
        assert line["instruction"] == other.instruction
        assert line["swapped"] == (task.id != other.id)
        assert line["fulfilled"] == await passes(task, other) == (not line["swapped"])
        flags = [frame["fulfilled"] for frame in line["frames"]]
        assert flags == [*[False] * (len(flags) - 1), line["fulfilled"]]
        assert line["departs"] is None or line["swapped"]
    assert any(line["departs"] is not None for line in lines)


def test_pictures_are_there_by_their_digest_and_frames_are_fewer_than_screens(
    settings: Settings, tmp_path: Path
) -> None:
    export_for_training("oracle", WriteConfig(to="swapped-instructions", out=str(tmp_path / "o")), settings)
    lines = read_lines(tmp_path / "o")
    for frame in (frame for line in lines for frame in line["frames"]):
        data = (tmp_path / "o" / frame["file"]).read_bytes()
        assert digest_bytes(data) == frame["image"]
        assert data[8:12] == b"WEBP"
    with RunReader.open(settings, "oracle", RowsConfig()) as reader:
        screens = {one.attempt: [e for e in one.evidence if e.kind == "screen"] for one in reader.trajectories()}
    assert all(2 <= len(line["frames"]) < len(screens[line["attempt"]]) for line in lines)


def test_failed_attempts_are_negatives_of_their_own_instruction(settings: Settings, tmp_path: Path) -> None:
    export_for_training("random-world", WriteConfig(to="swapped-instructions", out=str(tmp_path / "o")), settings)
    lines = read_lines(tmp_path / "o")
    assert {line["fulfilled"] for line in lines} == {False}
    assert any(not line["swapped"] for line in lines)
    for line in lines:
        assert {frame["fulfilled"] for frame in line["frames"]} == {False}


class Source(ExportSource):
    """The run of the oracle; the second task asks for what the first does, in other words, and the third for what
    cannot be judged."""

    run = "oracle"

    def __init__(self, reader: RunReader) -> None:
        self.losses: list[tuple[str, str]] = []
        self._reader = reader

    def trajectories(self) -> Iterator[Trajectory]:
        return self._reader.trajectories()

    def blob(self, digest: str) -> bytes:
        return self._reader.blob(digest)

    def record_loss(self, attempt: str, field: str, why: str, count: int = 1) -> None:
        self.losses.append((field, why))

    def task(self, trajectory: Trajectory) -> Task | None:
        tasks = [self._reader.task(one) for one in self._reader.trajectories()]
        at = next(at for at, one in enumerate(tasks) if one is not None and one.id == trajectory.task)
        first, mine = tasks[0], tasks[at]
        assert first is not None
        assert mine is not None
        if at == 1:
            return msgspec.structs.replace(first, id="same", instruction="The same in other words.", digest="blake3:1")
        if at == 2:
            broken = (msgspec.structs.replace(first.checks[0], parameters={"outcomes": 3}),)
            return msgspec.structs.replace(mine, id="broken", checks=broken, digest="blake3:2")
        return mine


def test_a_swap_that_is_fulfilled_or_cannot_be_judged_is_no_negative(settings: Settings, tmp_path: Path) -> None:
    with RunReader.open(settings, "oracle", RowsConfig()) as reader:
        source = Source(reader)
        assert SwappedInstructions().write(source, tmp_path / "o") == 1
    (line,) = read_lines(tmp_path / "o")
    assert (line["swapped"], line["fulfilled"]) == (False, True)
    assert ("swapped instruction", "the attempt fulfils it, too: same") in source.losses
    assert ("swapped instruction", "the attempt cannot be judged by it: broken") in source.losses
    left_out = [why for field, why in source.losses if field == "attempt"]
    assert left_out == ["its final facts do not give its recorded outcome"] * 2
