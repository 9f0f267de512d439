"""`assay curate` over a run that was really made."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from assay.errors import StoreError, UserError
from assay.learning.curation.config import CurateConfig
from assay.learning.curation.curate import curate
from assay.settings import Settings
from tests.learning.curation.made import assay, lines


def test_every_attempt_is_decided_about_and_the_kept_are_written(settings: Settings, tmp_path: Path) -> None:
    out = tmp_path / "selected"
    report = curate(CurateConfig(runs=("g",), out=str(out), where=("verdicts", "diversity:most=2")), settings)
    decided = lines(out / "decisions.jsonl")
    assert report.attempts == len(decided) == 16
    assert report.by_licence == {"not declared": report.kept}
    assert {one["source"] for one in decided} == {"family grid, seed 3"}
    kept = [one for one in decided if one["kept"]]
    assert report.kept == len(kept) == report.conversations
    assert all(one["why"] and one["head"] for one in decided)
    assert {one["outcome"] for one in kept} == {"pass"}
    told = lines(out / "conversations.jsonl")
    assert {one["source"]["chain"] for one in told} == {one["chain"] for one in kept}
    assert told[0]["messages"][1]["content"].startswith("Move to the goal")
    assert json.loads((out / "manifest.json").read_text())["report"]["kept"] == len(kept)


def test_attempts_at_held_out_tasks_are_left_out(settings: Settings, tmp_path: Path) -> None:
    held = ("family:grid,n=2,seed=3,turns=4",)
    config = CurateConfig(runs=("g",), out=str(tmp_path / "o"), where=("leakage",), held_out=held)
    report = curate(config, settings)
    assert report.stages == (("leakage", 16, 8),)


def test_the_command_says_what_each_stage_did(settings: Settings, tmp_path: Path) -> None:
    where = ["--where", "difficulty:bands=never", "--out", str(tmp_path / "o")]
    said = assay("curate", "g", "--store", str(settings.store), *where)
    assert "difficulty" in said
    assert "of 16 attempts kept" in said


def test_the_same_selection_made_again_replaces_the_folder(settings: Settings, tmp_path: Path) -> None:
    config = CurateConfig(runs=("g",), out=str(tmp_path / "o"), write=("conversations", "rows"))
    first = curate(config, settings)
    made = {path.name: path.read_bytes() for path in (tmp_path / "o").iterdir()}
    (tmp_path / "o" / "conversations.jsonl").write_text("damaged")
    assert curate(config, settings) == first
    assert {path.name: path.read_bytes() for path in (tmp_path / "o").iterdir()} == made
    assert [path.name for path in tmp_path.iterdir()] == ["o"]


def test_another_selection_is_not_written_over_an_older_one(settings: Settings, tmp_path: Path) -> None:
    config = CurateConfig(runs=("g",), out=str(tmp_path / "o"), write=("rows",))
    curate(config, settings)
    made = (tmp_path / "o" / "manifest.json").read_bytes()
    for other, said in ((("duplicates",), r"other options \(where\)"), (config.where, "verdicts have changed since")):
        with pytest.raises(UserError, match=f"{said}.*: name another --out, or move it away"):
            curate(msgspec.structs.replace(config, where=other), settings)
        (tmp_path / "o" / "decisions.jsonl").write_text("{}\n")
    assert (tmp_path / "o" / "manifest.json").read_bytes() == made
    assert [path.name for path in tmp_path.iterdir()] == ["o"]


def test_nothing_is_written_over_and_nothing_half(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "o").mkdir()
    with pytest.raises(UserError, match="exists"):
        curate(CurateConfig(runs=("g",), out=str(tmp_path / "o")), settings)
    with pytest.raises(StoreError):
        curate(CurateConfig(runs=("nothing",), out=str(tmp_path / "p")), settings)
    assert [path.name for path in tmp_path.iterdir()] == ["o"]
