"""What is learnt later stands beside what was first judged, on live and on sealed runs alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from assay.errors import StoreError, UserError
from assay.records import AttemptEnded, Body, Evidence, EvidenceAdded, Noted, Verdict, VerdictAdded
from assay.store import (
    RunStore,
    addenda,
    annotate,
    annotate_all,
    audit,
    later_events,
    load_current_verdicts,
    query,
    seal,
)
from assay.verdicts import assess

pytestmark = pytest.mark.newest
Fill = Callable[..., None]


def judged(check: str, kind: str, status: str, *marks: str) -> VerdictAdded:
    return VerdictAdded(Verdict(check, kind, status, 0.0, "judged later", marks=marks))  # type: ignore[arg-type]


def test_what_is_learnt_comes_back_in_order(run: Path) -> None:
    first = (judged("audit", "integrity", "fail"), EvidenceAdded(Evidence("l0", "audit", "finding", {})))
    annotate(run, "r", "t.a.1.0", first)
    annotate(run, "r", "t.a.1.0", [Noted("remark")])
    assert later_events(run, "r") == {"t.a.1.0": (*first, Noted("remark"))}
    assert audit(run, "r") == ()


def test_a_later_outcome_never_changes_the_first(run: Path) -> None:
    annotate(run, "r", "t.a.1.0", [judged("reverify:tests", "outcome", "fail", "disagree")])
    with RunStore.open(run, "r") as store:
        row = store.find("t.a.1")
        assert (row.outcome, row.score, store.trajectory(row.chain).outcome) == ("pass", 1.0, "pass")
    found = load_current_verdicts(run, "r")["t.a.1.0"]
    assert (found.outcome, found.score, found.reverified) == ("pass", 1.0, "disagree")
    assert assess(found).outcome_class == "doubt"


def test_queries_show_what_was_learnt(run: Path) -> None:
    annotate(run, "r", "t.a.1.0", [judged("audit", "integrity", "fail")])
    sql = "SELECT chain, status FROM verdicts WHERE kind = 'integrity'"
    assert query(run, sql).rows == (("t.a.1.0", "fail"),)
    assert query(run, "SELECT DISTINCT outcome FROM trajectories WHERE final").rows == (("pass",),)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([("a", "fail"), ("a", "pass")], "pass"),
        ([("a", "fail"), ("b", "pass")], "fail"),
        ([("a", "pass"), ("b", "unknown")], "unknown"),
        ([("a", "error"), ("b", "unknown")], "error"),
        ([], None),
    ],
)
def test_the_newest_of_each_check_counts_and_of_those_the_worst(
    run: Path, given: list[tuple[str, str]], expected: str | None
) -> None:
    for check, status in given:
        annotate(run, "r", "t.a.0.0", [judged(check, "integrity", status)])
    assert load_current_verdicts(run, "r")["t.a.0.0"].integrity == expected
    with RunStore.open(run, "r") as store:
        assert store.find("t.a.0").integrity == (None if store.is_sealed else expected)


def test_reverification_and_kinds_are_kept_apart(run: Path) -> None:
    given = [("reverify:a", "outcome", "pass", "agree"), ("reverify:b", "outcome", "unknown", "cannot")]
    annotate(run, "r", "t.a.0.0", [judged(*one) for one in given])
    annotate(run, "r", "t.a.0.0", [judged("p", "process", "fail"), judged("s", "safety", "pass")])
    found = load_current_verdicts(run, "r")["t.a.0.0"]
    assert (found.reverified, found.process, found.safety, found.integrity) == ("cannot", "fail", "pass", None)
    assert found.outcome == "pass"
    assert assess(found).trusted
    assert set(load_current_verdicts(run, "r")) == {"t.a.0.0", "t.a.1.0", "t.a.2.0", "t.a.99.0"}


def test_many_chains_are_annotated_at_once(run: Path) -> None:
    given: dict[str, list[Body]] = {f"t.a.{n}.0": [judged("audit", "integrity", "pass")] for n in range(3)}
    annotate_all(run, "r", given)
    assert {chain: list(bodies) for chain, bodies in later_events(run, "r").items()} == given
    assert len(addenda(run, "r")) <= 1
    assert audit(run, "r") == ()


def test_what_was_learnt_live_is_sealed_with_the_run(tmp_path: Path, fill: Fill) -> None:
    fill()
    annotate(tmp_path, "r", "t.a.1.0", [judged("audit", "integrity", "fail")])
    before = later_events(tmp_path, "r"), load_current_verdicts(tmp_path, "r")
    seal(tmp_path, "r")
    assert (later_events(tmp_path, "r"), load_current_verdicts(tmp_path, "r")) == before
    with RunStore.open(tmp_path, "r") as store:
        assert store.find("t.a.1").integrity == "fail"


def test_a_try_that_was_cut_can_be_annotated_and_one_under_way_not(tmp_path: Path, fill: Fill) -> None:
    fill()
    with pytest.raises(UserError, match="has not ended"):
        annotate(tmp_path, "r", "t.a.99.0", [judged("audit", "integrity", "fail")])
    with RunStore.open(tmp_path, "r", write=True) as store:
        store.mark_interrupted("t.a.99.0")
    annotate(tmp_path, "r", "t.a.99.0", [judged("audit", "integrity", "fail")])
    assert later_events(tmp_path, "r") == {"t.a.99.0": (judged("audit", "integrity", "fail"),)}


@pytest.mark.parametrize(
    ("chain", "bodies", "said"),
    [
        ("zebra", [Noted("x")], "has no chain 'zebra'"),
        ("t.a.0.0", [], "nothing to add"),
        ("t.a.0.0", [AttemptEnded()], "AttemptEnded cannot be added"),
        ("t.a.0.0", [Noted("about", {"chain": "t.a.1.0"})], "about cannot be added"),
    ],
)
def test_what_cannot_be_learnt_is_refused(run: Path, chain: str, bodies: list[Body], said: str) -> None:
    with pytest.raises(UserError, match=said):
        annotate(run, "r", chain, bodies)
    assert later_events(run, "r") == {}


def test_a_run_that_is_being_written_is_not_annotated(tmp_path: Path, fill: Fill) -> None:
    fill()
    with RunStore.open(tmp_path, "r", write=True), pytest.raises(StoreError, match="is being written"):
        annotate(tmp_path, "r", "t.a.0.0", [Noted("x")])


def test_a_failed_append_leaves_the_integrity_as_it_was(tmp_path: Path, fill: Fill) -> None:
    fill()
    with RunStore.open(tmp_path, "r", write=True) as store:
        bad: list[Body] = [judged("audit", "integrity", "fail"), Noted("x", {"value": float("nan")})]
        with pytest.raises(StoreError):
            store.append("t.a.99.0", bad)
        store.append("t.a.99.0", [judged("other", "integrity", "pass")])
        assert {row.chain: row.integrity for row in store.attempts()}["t.a.99.0"] == "pass"
    assert audit(tmp_path, "r") == ()
