"""Attempts of the battery that judges of many attempts may judge, and a run on nodes whose manifest is damaged."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from assay.admission.config import AdmitConfig
from assay.admission.probe import Probe
from assay.admission.probes import plan_attempt
from assay.agents.null import NullAgent
from assay.cli.app import build_app
from assay.rollout.admitted import BATTERY
from assay.rollout.run_manifest import PLACE
from assay.store import ADMISSION, RunStore
from assay.tasks import find_tasks
from tests.admission.folders import CAREFUL, write_task

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("group", "screened"),
    [("completeness", False), ("null", True), ("cheat", True), ("sensitivity", True), ("strictness", False)],
)
def test_only_attempts_that_should_fail_are_screened(tmp_path: Path, group: str, screened: bool) -> None:
    (loaded,) = find_tasks((str(write_task(tmp_path / "careful", CAREFUL)),))
    probe = Probe(f"{group}.one", group, None, NullAgent(), "one")  # type: ignore[arg-type]
    assert plan_attempt(probe, loaded, 0, AdmitConfig()).screened == screened


@pytest.mark.parametrize("place", [None, 3, {"url": "file:///shared"}])
def test_a_damaged_place_is_named(tmp_path: Path, place: object) -> None:
    task, store = write_task(tmp_path / "careful", CAREFUL), tmp_path / "store"
    (loaded,) = find_tasks((str(task),))
    config = msgspec.to_builtins(AdmitConfig(tasks=(str(task),), quick=True, run="a"))
    manifest = {ADMISSION: config, "battery": BATTERY, "tasks": {loaded.task.id: loaded.task.digest}, PLACE: place}
    RunStore.create(store, "a", json.loads(json.dumps(manifest))).close()
    done = CliRunner().invoke(build_app(), ["admit", "--resume", "a", "--store", str(store)])
    assert done.exit_code == 3, done.output
    assert "the manifest of run 'a' is damaged: place:" in done.output
