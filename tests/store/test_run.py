from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import cast

import msgspec
import pytest

from assay.errors import StoreError, UserError
from assay.records import (
    GENESIS,
    AttemptEnded,
    AttemptStarted,
    Body,
    ModelCall,
    ModelCalled,
    Noted,
    Observation,
    Step,
    StepAdded,
    Usage,
    Verdict,
    VerdictAdded,
    canonical_bytes,
    decode,
)
from assay.store import AttemptRow, RunStore, audit, list_runs, newest_run, verify_links
from tests.store.chains import verify_chain
from tests.store.nobody import read_as_nobody

pytestmark = pytest.mark.quick


def test_every_record_type_round_trips(live: RunStore, chain: Callable[..., list[Body]]) -> None:
    blob = next(live.blobs.addresses())
    events = list(live.events("t.a.1.0"))
    assert [e.body for e in events] == chain(blob, 1)
    assert verify_chain(events, head=live.attempts()[1].head) is None


def test_trajectory_holds_what_was_appended(live: RunStore) -> None:
    found = live.trajectory("t.a.0.0")
    assert (len(found.steps), len(found.calls), len(found.evidence), len(found.verdicts)) == (1, 1, 1, 1)
    assert found.outcome == "pass"
    assert found.finished is not None
    assert decode(canonical_bytes(found), type(found)) == found


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800", object()])
def test_what_json_cannot_hold_is_refused_and_leaves_the_chain(live: RunStore, tmp_path: Path, value: object) -> None:
    with RunStore.open(tmp_path, "r", write=True) as store:
        before = next(r for r in store.attempts() if r.attempt == "t.a.99")
        with pytest.raises(StoreError, match=r"an event of t\.a\.99\.0 cannot be recorded"):
            store.append("t.a.99.0", [Noted("fine"), Noted("x", {"v": value})])
        store.append("t.a.99.0", [Noted("fine")])
        assert len(list(store.events("t.a.99.0"))) == before.length + 1


@pytest.mark.parametrize(
    "where", ["prompt_token_ids", "completion_token_ids", "logprobs", "response", "usage", "cost_usd"]
)
def test_a_call_with_what_json_cannot_hold_is_refused(tmp_path: Path, where: str) -> None:
    nan = float("nan")
    odd = {"response": {"x": [nan]}, "usage": Usage(prompt_tokens=cast("int", nan)), "cost_usd": nan}
    call = ModelCall(
        "a", "openai-chat", "m", {"stop": None}, {"refusal": None}, prompt_token_ids=(1,), logprobs=(-0.5,)
    )
    with RunStore.create(tmp_path, "r", {}) as store:
        store.append("t.a.0", [ModelCalled(call)])
        with pytest.raises(StoreError, match="only finite numbers"):
            store.append("t.a.0", [ModelCalled(msgspec.structs.replace(call, **{where: odd.get(where, (1, nan))}))])


def test_a_body_that_could_not_be_read_back_is_refused(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, "r", {}) as store:
        verdict = VerdictAdded(Verdict("c", "outcome", "maybe", 1, ""))
        step = StepAdded(Step(0, "agent", observations=(Observation("", exit_code=True),)))
        for wrong in (Noted(name=3), AttemptEnded(metrics={"x": "many"}), verdict, step):
            with pytest.raises(StoreError, match="cannot be recorded"):
                store.append("c", [wrong])
        assert store.attempts() == []


def test_whole_numbers_in_float_fields_keep_the_chain(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, "r", {}) as store:
        verdict = VerdictAdded(Verdict("c", "outcome", "pass", 1, ""))
        head = store.append("c", [Noted("first", at=1), verdict, AttemptEnded(metrics={"turns": 3}, at=2)])
        assert verify_chain(store.events("c"), head=head) is None
        assert verify_links(store.links("c"), head) is None
    assert audit(tmp_path, "r") == ()


def test_appending_nothing_changes_nothing(live: RunStore, tmp_path: Path) -> None:
    with RunStore.open(tmp_path, "r", write=True) as store:
        assert store.append("new", []) == GENESIS
        assert len(store.attempts()) == 4


def test_interrupted_chains_are_found_and_marked_once(live: RunStore, tmp_path: Path) -> None:
    with RunStore.open(tmp_path, "r", write=True) as store:
        assert store.interrupted() == ["t.a.99.0"]
        store.mark_interrupted("t.a.99.0")
        assert store.interrupted() == []
        assert not store.find("t.a.99").final


def test_find_takes_unique_beginnings_and_lists_others(live: RunStore) -> None:
    assert live.find("t.a.1").attempt == "t.a.1"
    assert live.find("t.a.9").attempt == "t.a.99"
    with pytest.raises(UserError, match="beginning of several attempts"):
        live.find("t.a")
    with pytest.raises(UserError, match="is not an attempt of run r"):
        live.find("zebra")


def test_a_reader_cannot_append(live: RunStore) -> None:
    with pytest.raises(StoreError, match="open for reading only"):
        live.append("c", [Noted("x")])


@pytest.mark.parametrize("name", ["../evil", "..", ".", "", "/etc", "a/b", "a\x00b", "x" * 121, ".hidden", "a\n", "ü"])
def test_names_that_leave_the_folder_are_refused(tmp_path: Path, name: str) -> None:
    for act in (lambda: RunStore.create(tmp_path, name, {}), lambda: RunStore.open(tmp_path, name)):
        with pytest.raises(UserError, match="is not a valid run name"):
            act()
    assert not list(tmp_path.iterdir())


def test_an_existing_run_and_a_missing_one_say_what_to_do(live: RunStore, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="assay resume r"):
        RunStore.create(tmp_path, "r", {})
    with pytest.raises(StoreError, match=r"no run is called 'q' .*newest are r"):
        RunStore.open(tmp_path, "q")


def test_runs_are_listed_in_the_order_in_which_they_were_made(tmp_path: Path, fill: Callable[..., None]) -> None:
    for at, run in enumerate(["b", "a", "c"]):
        fill(run, 1)
        os.utime(tmp_path / "runs" / run / "manifest.json", ns=(at, at))
    (tmp_path / "runs" / "c" / "manifest.json").unlink()
    (tmp_path / "runs" / "not a run").mkdir()
    assert list_runs(tmp_path) == ["b", "a", "c"]
    assert newest_run(tmp_path) == "c"


def test_rows_say_what_the_events_say(live: RunStore) -> None:
    row = live.attempts()[0]
    assert (row.outcome, row.score, row.steps, row.length, row.isolation) == ("pass", 1.0, 1, 7, "namespaces")
    assert row == msgspec.json.decode(canonical_bytes(row), type=AttemptRow)


def test_a_snapshot_does_not_see_what_is_appended_meanwhile(live: RunStore, tmp_path: Path) -> None:
    with live.snapshot():
        before = live.attempts()
        with RunStore.open(tmp_path, "r", write=True) as store:
            store.append("later", [AttemptStarted("r", "x", "t", "d", "a", None, 1, 0)])
        assert live.attempts() == before
    assert len(live.attempts()) == len(before) + 1


def test_a_folder_that_cannot_be_written_can_be_read(live: RunStore, tmp_path: Path) -> None:
    live.close()
    done = read_as_nobody(tmp_path, "r")
    assert done.stdout.split() == ["4", "7"], done.stderr


def test_an_unclosed_run_in_such_a_folder_says_what_to_do(live: RunStore, tmp_path: Path) -> None:
    with RunStore.open(tmp_path, "r", write=True) as store:
        store.append("t.a.99.0", [Noted("x")])
        copy = tmp_path / "runs" / "copy"
        copy.mkdir()
        for name in ("run.sqlite", "run.sqlite-wal", "manifest.json"):
            (copy / name).write_bytes((tmp_path / "runs" / "r" / name).read_bytes())
    live.close()
    (tmp_path / "runs" / "r").rename(tmp_path / "other")
    copy.rename(tmp_path / "runs" / "r")
    done = read_as_nobody(tmp_path, "r")
    assert "copy the folder to where you may write" in done.stderr


class Waiting:
    """Events of one chain that wait."""

    def __init__(self, chain: str, *bodies: Body) -> None:
        self.chain = chain
        self.bodies = list(bodies)

    def pending(self) -> list[Body]:
        return self.bodies

    def committed(self) -> None:
        self.bodies = []


def started(attempt: str) -> AttemptStarted:
    return AttemptStarted("r", attempt, "t", "", "a", None, 0, 0)


async def test_chains_that_commit_together_take_one_transaction(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, "r", {}) as store:
        statements: list[str] = []
        store.live.connection.set_trace_callback(statements.append)
        many = [Waiting(f"a{n}.0", started(f"a{n}")) for n in range(5)]
        for one in many:
            store.group_commit.schedule(one, 10.0)
        await asyncio.gather(*(store.group_commit.commit(one) for one in many))
        assert statements.count("COMMIT") == 1
        assert [one.bodies for one in many] == [[]] * 5
        assert len(store.attempts()) == 5


async def test_what_may_wait_is_committed_together_a_moment_later(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, "r", {}) as store:
        many = [Waiting(f"a{n}.0", started(f"a{n}")) for n in range(5)]
        bad = Waiting("b.0", Noted("x", {"value": float("nan")}))
        for one in (*many, bad):
            store.group_commit.schedule(one, 0.02)
        assert store.attempts() == []
        await asyncio.sleep(0.1)
        assert len(store.attempts()) == 5
        assert [one.bodies for one in many] == [[]] * 5
        with pytest.raises(StoreError):  # what could not be committed is told to whoever commits it next
            await store.group_commit.commit(bad)


async def test_what_has_just_come_is_not_committed_when_others_are_due(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, "r", {}) as store:
        first, second = Waiting("a.0", started("a")), Waiting("b.0", started("b"))
        store.group_commit.schedule(first, 0.4)
        await asyncio.sleep(0.3)
        store.group_commit.schedule(second, 0.4)
        await asyncio.sleep(0.15)
        assert [row.attempt for row in store.attempts()] == ["a"]
        await asyncio.sleep(0.4)
        assert [row.attempt for row in store.attempts()] == ["a", "b"]


async def test_a_shorter_wait_is_kept_beside_a_longer_one(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, "r", {}) as store:
        store.group_commit.schedule(Waiting("a.0", started("a")), 10.0)
        store.group_commit.schedule(Waiting("b.0", started("b")), 0.02)
        await asyncio.sleep(0.2)
        assert [row.attempt for row in store.attempts()] == ["b"]


async def test_one_chain_that_cannot_be_committed_takes_no_other_with_it(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, "r", {}) as store:
        good, bad = Waiting("a.0", started("a")), Waiting("b.0", Noted("x", {"value": float("nan")}))
        for one in (good, bad):
            store.group_commit.schedule(one, 10.0)
        done = await asyncio.gather(
            store.group_commit.commit(good), store.group_commit.commit(bad), return_exceptions=True
        )
        assert done[0] is None
        assert isinstance(done[1], StoreError)
        assert (good.bodies, len(bad.bodies)) == ([], 1)
        assert [row.attempt for row in store.attempts()] == ["a"]
