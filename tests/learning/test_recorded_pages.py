"""Learning leaves semi-online replays out: their pages need not follow from the acts before them."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.errors import UserError
from assay.learning.memory import add_to_memory
from assay.learning.policies import learn_policy
from assay.learning.skills.evidence import distil_from_runs
from assay.learning.values import learn_value
from assay.records import AttemptEnded, AttemptStarted, Evidence, EvidenceAdded, Verdict, VerdictAdded
from assay.settings import Settings
from assay.store import RunStore


def test_nothing_is_learnt_from_semi_online_replays(tmp_path: Path) -> None:
    settings = Settings(tmp_path / "cache", tmp_path / "store")
    with RunStore.create(settings.store, "replayed", {}) as store:
        config = {"semi_online": {"run": "live"}}
        started = AttemptStarted("replayed", "t@0", "t", "d", "semi-online+loop", None, 0, 0, config=config, at=1.0)
        verdict = Verdict("facts", "outcome", "pass", 1.0, "")
        store.append("t@0.0", [started, VerdictAdded(verdict), AttemptEnded("done", at=2.0)])
    change = add_to_memory(tmp_path / "memory.jsonl", ["replayed"], settings)
    assert (change.added, change.left_out) == (0, 1)
    with pytest.raises(UserError, match="learnt from passes"):
        learn_policy(["replayed"], settings)
    with pytest.raises(UserError, match="no attempt of replayed passed"):
        learn_value(["replayed"], settings, 0.9)
    with pytest.raises(UserError, match="no attempt of replayed is an undoubted pass"):
        distil_from_runs("x", ["replayed"], settings)


def test_a_task_record_that_is_no_digest_is_an_error_of_the_record(tmp_path: Path) -> None:
    settings = Settings(tmp_path / "cache", tmp_path / "store")
    with RunStore.create(settings.store, "forged", {}) as store:
        started = AttemptStarted("forged", "t@0", "t", "d", "loop", None, 0, 0, at=1.0)
        task = EvidenceAdded(Evidence("task", "audit", "task", {"record": [], "listing": {}}))
        verdict = Verdict("facts", "outcome", "pass", 1.0, "")
        store.append("t@0.0", [started, task, VerdictAdded(verdict), AttemptEnded("done", at=2.0)])
    with pytest.raises(UserError, match="named by no digest"):
        learn_policy(["forged"], settings)
    with pytest.raises(UserError, match="named by no digest"):
        add_to_memory(tmp_path / "memory.jsonl", ["forged"], settings)
