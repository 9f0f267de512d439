"""Training data and held-out tasks share nothing, or nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.errors import UserError
from assay.learning.export.config import WriteConfig
from assay.learning.export.exporting import export_for_training
from assay.learning.held_out import find_held_out
from assay.records import AttemptEnded, AttemptStarted, Step, StepAdded
from assay.settings import Settings
from assay.store import RunStore
from assay.tasks import init_task, load_task
from tests.learning.credit.rows import row

pytestmark = pytest.mark.quick


def record(root: Path, task: str, digest: str) -> Settings:
    with RunStore.create(root, "r", {}) as store:
        started = AttemptStarted("r", f"{task}@0", task, digest, "loop", None, 1, 0, at=1.0)
        steps = [StepAdded(Step(n, actor, "words")) for n, actor in enumerate(("user", "agent"))]  # type: ignore[arg-type]
        store.append(f"{task}@0.0", [started, *steps, AttemptEnded("done", at=2.0)])
    return Settings(root / "cache", root)


def config_of(root: Path, *held_out: str) -> WriteConfig:
    return WriteConfig(to="openai", out=str(root / "rows.jsonl"), include="all", held_out=held_out)


def test_an_export_with_an_attempt_at_a_held_out_task_is_refused(tmp_path: Path) -> None:
    init_task(tmp_path / "tasks" / "hello")
    loaded = load_task(tmp_path / "tasks" / "hello")
    settings = record(tmp_path / "store", loaded.task.id, loaded.task.digest)
    with pytest.raises(UserError, match=r"1 held-out task would be trained on \(hello\): nothing is written"):
        export_for_training("r", config_of(tmp_path, str(tmp_path / "tasks")), settings)
    assert not list(tmp_path.glob("rows.jsonl*"))


def test_another_version_of_a_task_is_another_task(tmp_path: Path) -> None:
    init_task(tmp_path / "tasks" / "hello")
    settings = record(tmp_path / "store", "hello", "blake3:" + "1" * 64)
    assert export_for_training("r", config_of(tmp_path, str(tmp_path / "tasks")), settings).written == 1


def test_rows_of_a_file_are_compared_by_the_task_id(tmp_path: Path) -> None:
    init_task(tmp_path / "hello")
    held_out = find_held_out((str(tmp_path / "hello"),))
    held_out.require_rows_apart([row("a", task="other")])
    with pytest.raises(UserError, match="1 held-out task would be trained on"):
        held_out.require_rows_apart([row("a", task="hello")])
