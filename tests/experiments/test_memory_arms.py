"""Linked tasks: an oracle's retrieval is worth more than none, and experience of unlinked tasks is not."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

from assay.agents.memory import read_memory
from assay.settings import Settings
from experiments.linked_tasks import ARMS, run_seed


async def test_experience_of_linked_tasks_helps_and_of_unlinked_ones_does_not(tmp_path: Path) -> None:
    found = await run_seed(1, Settings(tmp_path / "cache", tmp_path), (6,), offices=(1, 2, 3, 4))
    rates = {arm: fmean(found[arm, 6]) for arm in ARMS}
    assert {len(found[arm, 6]) for arm in ARMS} == {16}
    assert rates["oracle"] > rates["none"] + 0.4
    assert rates["oracle"] >= rates["own"] > rates["unlinked"]
    linked, every = (read_memory(tmp_path / name) for name in ("known-1-2.jsonl", "all-1.jsonl"))
    assert (len(linked), len(every)) == (2, 8)
    assert {"office2" in record.task for record in linked} == {True}
