"""A campaign goes on where it was interrupted, and takes no rows of another one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.adversary.campaign import Campaign, assign, run_campaign
from tests.adversary.library import Script

NOTHING = Script("nothing", "attack", ("direct",), "true\n", "nothing is done", "no work")


def run(folder: Path, folders: dict[str, Path], seed: int = 1) -> tuple[dict[str, object], list[str]]:
    said: list[str] = []
    campaign = Campaign(seed, assign([NOTHING], folders), folder / "out.json")
    return json.loads(json.dumps(run_campaign(campaign, said.append))), said


@pytest.mark.long
def test_rows_are_taken_from_the_same_campaign_alone(tmp_path: Path, base_folders: dict[str, Path]) -> None:
    first, _ = run(tmp_path, base_folders)
    with (tmp_path / "out.rows.jsonl").open("a") as file:
        file.write('{"key": "cut sho')
    again, said = run(tmp_path, base_folders)
    assert said == ["1 attempts, 1 of them already made"]
    assert again["rows"] == first["rows"]
    assert len(json.loads((tmp_path / "out.json").read_text())["rows"]) == 1
    assert "0 of them already made" in run(tmp_path, base_folders, seed=2)[1][0]
