"""Rows of services that an attempt changed, on its page of changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay.records import AttemptStarted, Evidence, EvidenceAdded
from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings
from assay.store import RunStore
from assay.viewer.changes import make_changes
from assay.viewer.row_changes import MOST_ROWS

TASK = "family:services,app=shop,n=1,seed=3,writes=2,level=explicit"


def services_of(root: Path, chain: str) -> Any:
    return json.loads(make_changes(root, {"run": "r", "chain": chain}))["services"]


@pytest.mark.newest
async def test_changed_rows_are_those_of_the_facts(tmp_path: Path) -> None:
    settings = Settings(cache=tmp_path / "cache", store=tmp_path)
    await start_run(RunConfig(tasks=(TASK,), agent="oracle", run="r"), settings, Tally())
    with RunStore.open(tmp_path, "r") as store:
        chain = store.attempts()[0].chain
        evidence = store.trajectory(chain).evidence
    facts = next(one.data["facts"] for one in reversed(evidence) if one.kind == "facts")
    found = services_of(tmp_path, chain)
    assert found["left_out"] == 0
    assert [(row["table"], row["key"]) for row in found["rows"]] == [
        (change["table"], " ".join(change["key"])) for change in facts["changes"]
    ]
    assert [row["words"] for row in found["rows"]] == facts["difference"]
    kinds = {row["kind"] for row in found["rows"]}
    assert {"added", "changed"} <= kinds
    (moved,) = (row for row in found["rows"] if row["kind"] == "changed" and row["table"] == "shop_orders")
    ((column, before, after),) = moved["cells"]
    assert column == "address_id"
    assert before != after


@pytest.mark.newest
@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"solved": True}, None),
        ({"services": ["a"], "changes": "none"}, None),
        ({"services": ["a"], "changes": [{"table": "t", "key": [{}], "before": None, "after": {}}]}, None),
        ({"services": ["a"], "changes": []}, {"rows": [], "left_out": 0}),
    ],
)
def test_facts_of_another_kind_are_left_alone(tmp_path: Path, facts: dict[str, Any], expected: Any) -> None:
    write(tmp_path, facts)
    assert services_of(tmp_path, "t@0.0") == expected


@pytest.mark.newest
def test_many_and_long_rows_are_bounded(tmp_path: Path) -> None:
    row = {"table": "t", "key": ["k" * 9999], "before": None, "after": {"a": "<b>" * 9999, "n": None}}
    write(tmp_path, {"services": ["a"], "changes": [row] * (MOST_ROWS + 3), "difference": ["short"]})
    found = services_of(tmp_path, "t@0.0")
    assert (len(found["rows"]), found["left_out"]) == (MOST_ROWS, 3)
    assert (found["rows"][0]["kind"], found["rows"][0]["words"]) == ("added", "")
    assert [len(cell[2]) for cell in found["rows"][0]["cells"]] == [2000]


def write(root: Path, facts: dict[str, Any]) -> None:
    with RunStore.create(root, "r", {}) as store:
        started = AttemptStarted("r", "t@0", "t", "d", "loop", None, 0, 0)
        store.append("t@0.0", [started, EvidenceAdded(Evidence("w0", "state", "facts", {"facts": facts}))])
