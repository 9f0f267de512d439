"""Options are ranked by what changing each alone does."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
from typer.testing import CliRunner

from assay.cli.app import build_app
from assay.learning.skills.holdouts import HoldoutLedger
from assay.store import list_runs
from tests.learning.test_evolution import RECIPE, settings_in


def test_the_option_that_matters_is_first_and_nothing_is_decided(tmp_path: Path) -> None:
    table = {**RECIPE, "base": {"noise": 0.8, "steps": 50}}
    (tmp_path / "r.toml").write_bytes(msgspec.toml.encode(table))
    words = ["evolve", str(tmp_path / "r.toml"), "--rank", "--store", str(tmp_path / "store")]
    made = CliRunner().invoke(build_app(), [*words, "--json"])
    assert made.exit_code == 0, made.output
    found = json.loads(made.stdout)
    noise, steps = found["components"]
    assert (noise["option"], [one["value"] for one in noise["values"]]) == ("noise", [0.0, 0.4])
    assert noise["values"][0]["gain"] > 0.4 > abs(steps["values"][0]["gain"])
    low, high = noise["values"][0]["interval"]
    assert 0 < low < noise["values"][0]["gain"] < high
    assert found["agreement"]["n"] == 4
    settings = settings_in(tmp_path)
    assert HoldoutLedger(settings.store).uses() == []
    assert len(list_runs(settings.store)) == 4
    shown = CliRunner().invoke(build_app(), words).stdout
    assert shown.splitlines()[1].split()[:3] == ["1", "noise", "0.0"]
    assert "two halves of the tasks" in shown
