"""`assay router`: the page's example, in text and JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from assay.cli.app import build_app
from assay.rollout.rejudge.tier_labels import TierLabels

ROOT = Path(__file__).parents[2]


def assay(store: Path, *words: str) -> Any:
    return CliRunner().invoke(build_app(), [*words, "--store", str(store)])


def page_of(said: str) -> str:
    """Returns an output as pages show it, without spaces at the ends of lines."""
    return "\n".join(line.rstrip() for line in said.splitlines())


def test_the_example_of_the_page_labels_and_scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    store, page = tmp_path / "store", (ROOT / "docs" / "how-to" / "try-several-times.md").read_text(encoding="utf-8")
    assay(store, "run", "family:tables,n=20", "--agent", "expert", "--run", "recorded")
    label = ("router", "label", "--config", "docs_src/tiers.toml")
    said = assay(store, *label, "--run", "recorded").stdout
    labels = said.split()[-1]
    assert page_of(said.replace(labels, "LABELS")) in page
    routes = ("--route", "after-error", "--route", "docs_src/step_router.py:pick")
    assert page_of(assay(store, "router", "score", labels, *routes).stdout) in page
    found = json.loads(assay(store, "router", "score", labels, *routes, "--json").stdout)
    assert [one["router"] for one in found["scores"]][:2] == ["after-error", "docs_src/step_router.py:pick"]
    again = json.loads(assay(store, *label, "--every", "50", "--forks", "1", "--json").stdout)
    assert again["run"] == "recorded"  # not the newer run, which holds tries


def test_labels_of_no_step_are_shown_without_shares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def label_nothing(*_: object) -> TierLabels:
        costs = {"weak": 1.0, "strong": 9.0}
        return TierLabels(run="r", labels="l", tiers=costs, need=1.0, steps=(), tries=0, turns=0, untried=("t@0:0",))

    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("assay.rollout.rejudge.tier_labels.label_tiers", label_nothing)
    assay(tmp_path, "run", "family:tables,n=1", "--agent", "expert", "--run", "r")
    tiers = ("--tier", "weak=random-world", "--cost", "weak=1", "--tier", "strong=expert", "--cost", "strong=9")
    said = assay(tmp_path, "router", "label", "--run", "r", *tiers)
    assert said.exit_code == 0
    assert [line.split()[-2:] for line in said.stdout.splitlines()[1:3]] == [["0", "-"]] * 2
    assert "1 further steps have no state that could be rebuilt, and no label: t@0:0" in said.stdout
