"""Exports and trainings take the attempts that a folder of `assay curate` selects, and no others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assay.errors import UserError
from assay.learning.curation.config import CurateConfig
from assay.learning.curation.curate import curate
from assay.learning.export.config import WriteConfig
from assay.learning.export.exporting import export_for_training
from assay.learning.selected import read_selected
from assay.records import StepAdded
from assay.settings import Settings
from assay.store import RunStore
from tests.learning.curation.made import lines
from tests.learning.test_held_out import record


def export(settings: Settings, out: Path, *selected: Path) -> list[str]:
    config = WriteConfig(to="openai", out=str(out), include="all", selected=tuple(map(str, selected)))
    export_for_training("g", config, settings)
    return [one["attempt"] for one in json.loads(out.with_name(f"{out.name}.losses.json").read_text())["attempts"]]


def test_an_export_takes_what_was_selected(settings: Settings, tmp_path: Path) -> None:
    where = ("verdicts", "diversity:most=1")
    report = curate(CurateConfig(runs=("g",), out=str(tmp_path / "o"), where=where, write=()), settings)
    selected = {one["attempt"] for one in lines(tmp_path / "o" / "decisions.jsonl") if one["kept"]}
    assert set(export(settings, tmp_path / "rows.jsonl", tmp_path / "o")) == selected
    assert 0 < report.kept == len(selected) < report.attempts


def curated(tmp_path: Path) -> Settings:
    """A store with one attempt, and the folder `o` that selects it."""
    settings = record(tmp_path / "store", "hello", "blake3:" + "1" * 64)
    curate(CurateConfig(runs=("r",), out=str(tmp_path / "o"), where=(), write=()), settings)
    return settings


def test_an_attempt_that_changed_since_is_refused(tmp_path: Path) -> None:
    settings = curated(tmp_path)
    config = WriteConfig(to="openai", out=str(tmp_path / "rows.jsonl"), include="all", selected=(str(tmp_path / "o"),))
    with RunStore.open(settings.store, "r", write=True) as store:
        step = store.trajectory("hello@0.0").steps[-1]
        store.append("hello@0.0", [StepAdded(step)])
    with pytest.raises(UserError, match=r"1 attempts of run 'r' have changed since .* \(the first: hello@0\)"):
        export_for_training("r", config, settings)


def test_a_run_of_which_nothing_was_selected_is_refused(tmp_path: Path, settings: Settings) -> None:
    curated(tmp_path)
    with pytest.raises(UserError, match="selects no attempt of run 'g'"):
        export(settings, tmp_path / "rows.jsonl", tmp_path / "o")


def test_what_is_not_a_whole_selection_is_refused(tmp_path: Path) -> None:
    curated(tmp_path)
    folder = tmp_path / "o"
    assert read_selected([str(folder)]) == {"r": {"hello@0.0": lines(folder / "decisions.jsonl")[0]["head"]}}
    decided = (folder / "decisions.jsonl").read_text()
    for text, problem in (
        ("", "has 0 decisions and selects 0 attempts; .* says 1 and 1"),
        (decided.replace("true", "false", 1), "selects 0 attempts; .* says 1 and 1"),
        ("[]", "does not hold what `assay curate` writes"),
    ):
        (folder / "decisions.jsonl").write_text(text)
        with pytest.raises(UserError, match=problem):
            read_selected([str(folder)])
    (folder / "manifest.json").unlink()
    with pytest.raises(UserError, match="name a folder of `assay curate`"):
        read_selected([str(folder)])
