"""`assay router`: the page's example, in text and JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from assay.cli.app import build_app

ROOT = Path(__file__).parents[2]


def assay(store: Path, *words: str) -> Any:
    return CliRunner().invoke(build_app(), [*words, "--store", str(store)])


def test_the_example_of_the_page_labels_and_scores(tmp_path: Path) -> None:
    store, tiers = tmp_path / "store", str(ROOT / "docs_src" / "tiers.toml")
    assay(store, "run", "family:tables,n=4", "--agent", "expert", "--run", "recorded")
    result = assay(store, "router", "label", "--run", "recorded", "--config", tiers)
    assert result.exit_code == 0
    said = result.stdout
    assert [line.split()[:3] for line in said.splitlines()[1:4]] == [
        ["weak", "expert", "1"], ["mid", "expert", "4"], ["strong", "expert", "20"]
    ]  # fmt: skip
    labels = said.splitlines()[-1].rpartition(" ")[2]
    route = f"{ROOT / 'docs_src' / 'step_router.py'}:pick"
    scored = assay(store, "router", "score", labels, "--route", route, "--route", "after-error").stdout
    assert "always mid" in scored
    found = json.loads(assay(store, "router", "score", labels, "--route", route, "--json").stdout)
    scores = {one["router"]: one for one in found["scores"]}
    assert scores[route]["cost"] < scores["always strong"]["cost"]
    assert scores["the labels"]["right"] == 1
    again = json.loads(assay(store, "router", "label", "--config", tiers, "--json").stdout)
    assert again["run"] == "recorded"  # not the newer run, which holds tries
    assert scores[route]["steps"] == len(again["steps"])
