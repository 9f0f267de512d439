"""Files of groups, their cursors, and the versions of policies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from assay.errors import StoreError, UserError
from assay.learning.row_json import row_as_json, row_from_json
from assay.learning.rows import TrainingRow
from assay.learning.service.config import BatchRequest
from assay.learning.service.groups import (
    Group,
    GroupAttempt,
    GroupFile,
    GroupPage,
    count_groups,
    count_versions,
    make_attempt,
    read_between,
    read_groups,
    read_page,
)
from assay.learning.service.ledger import Ledger
from assay.learning.service.policies import STALE, UNKNOWN_VERSION, Handover, PolicyBook, PolicyVersion
from assay.learning.service.service_state import ServiceReader
from assay.records import VerdictStatus
from assay.store import AttemptRow
from tests.learning.credit.rows import row as make_row

pytestmark = pytest.mark.quick


def a_group(task: str, versions: dict[str, int] | None = None, unknown: int = 0) -> Group:
    rows = msgspec.Raw(b'[{"n":1}]')
    return Group(
        id=f"b:{task}", task=task, attempts=(), versions=versions or {}, unknown=unknown, row_count=1, rows=rows
    )


def write(path: Path, *tasks: str) -> None:
    file = GroupFile(path)
    for task in tasks:
        file.append(a_group(task))
    file.close()


def tasks_of(path: Path, after: int = 0) -> list[str]:
    return [stored.group.task for stored in read_groups(path, after)]


def test_pages_continue_where_the_last_one_ended(tmp_path: Path) -> None:
    path = tmp_path / "groups"
    write(path, *(f"t{n}" for n in range(10)))
    found, cursor = [], 0
    while page := read_page(path, cursor, 4).groups:
        found += [stored.group.task for stored in page]
        cursor = page[-1].next
    assert found == [f"t{n}" for n in range(10)]
    assert len(read_between(path, read_page(path, 0, 3).next, cursor)) == 7
    for wrong in (1, cursor - 1, cursor + 1, 2**62):
        with pytest.raises(UserError, match="not a cursor"):
            read_page(path, wrong, 4)


def test_a_torn_last_line_is_removed_and_written_again(tmp_path: Path) -> None:
    path = tmp_path / "groups"
    write(path, "t0", "t1")
    whole = path.read_bytes()
    for torn in (whole[:-1], whole[: len(whole) // 2 + 5], whole[:3], whole + b"{", whole + b'{"id":"b"' * 100_000):
        path.write_bytes(torn)
        before = tasks_of(path)
        write(path, "t0", "t1", "t2")
        assert tasks_of(path) == ["t0", "t1", "t2"]
        assert before == ["t0", "t1", "t2"][: len(before)]


def test_a_page_says_whether_more_groups_follow(tmp_path: Path) -> None:
    path = tmp_path / "groups"
    assert read_page(path, 0, 5) == GroupPage([], 0, has_more=False)
    write(path, "t0", "t1")
    path.write_bytes(path.read_bytes() + b'{"torn":')  # as after a full disk
    first = read_page(path, 0, 1)
    assert first.has_more
    assert not read_page(path, 0, 2).has_more
    second = read_page(path, first.next, 1)
    assert not second.has_more
    assert read_page(path, second.next, 1) == GroupPage([], second.next, has_more=False)


def test_no_group_is_written_twice(tmp_path: Path) -> None:
    write(tmp_path / "groups", "t0", "t0")
    write(tmp_path / "groups", "t0", "t1")
    assert tasks_of(tmp_path / "groups") == ["t0", "t1"]


@pytest.mark.parametrize("line", [b"{}\n", b"[[[[\n", b"\xff\n", b"\n"])
def test_a_damaged_line_is_an_error(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "groups"
    write(path, "t0")
    path.write_bytes(path.read_bytes() + line + path.read_bytes())
    with pytest.raises(StoreError, match="damaged line"):
        GroupFile(path)
    with pytest.raises(StoreError, match="damaged line"):
        read_page(path, 0, 10)


def a_request(**fields: Any) -> BatchRequest:
    plain = {"id": "b", "policy": {"name": "actor"}, "tasks": ["family:grid"]}
    return msgspec.convert(plain | fields, BatchRequest)


def test_versions_are_stored_and_never_go_back(tmp_path: Path) -> None:
    book = PolicyBook(tmp_path)
    for step, version in ((0, "a"), (1, "b"), (3, "d")):
        assert book.check("actor", PolicyVersion(step, version))
        book.add("actor", PolicyVersion(step, version))
    again = PolicyBook(tmp_path)
    assert again.find("actor").newest == PolicyVersion(3, "d")
    assert not again.check("actor", PolicyVersion(1, "b"))
    with pytest.raises(UserError, match="go back"):
        again.check("actor", PolicyVersion(2, "c"))
    with pytest.raises(UserError, match="has version d, not e"):
        again.check("actor", PolicyVersion(3, "e"))
    assert again.find("other").newest is None


def test_a_damaged_policy_is_named(tmp_path: Path) -> None:
    (tmp_path / "actor.json").write_bytes(b'{"name":')
    with pytest.raises(StoreError, match=r"actor\.json"):
        PolicyBook(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b'{"name": "\xff"}', b"[]"])
def test_a_damaged_file_is_named_and_not_a_traceback(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "actor.json").write_bytes(content)
    for opened in (PolicyBook, Ledger):
        with pytest.raises(StoreError, match=r"actor\.json is not a (policy|batch) of this version"):
            opened(tmp_path)


def test_a_cursor_that_was_edited_below_zero_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "service" / "b.json"
    Ledger(path.parent).add(a_request())
    path.write_bytes(path.read_bytes()[:-1] + b',"acknowledged":-5}')
    PolicyBook(path.parent / "policies")
    with pytest.raises(StoreError, match=r"b\.json is not a batch of this version"):
        ServiceReader(tmp_path).read()


@pytest.mark.parametrize(("most_lag", "begins_at"), [(None, 0), (0, 7), (2, 5), (9, 0)])
def test_the_state_names_the_step_at_which_a_batch_begins(tmp_path: Path, most_lag: int | None, begins_at: int) -> None:
    Ledger(tmp_path / "service").add(a_request(step=7, most_lag=most_lag))
    PolicyBook(tmp_path / "service" / "policies")
    state = ServiceReader(tmp_path).read()
    assert state is not None
    assert state.batches[0].begins_at == begins_at


def test_a_copy_of_a_file_does_not_replace_it(tmp_path: Path) -> None:
    ledger, book = Ledger(tmp_path / "service"), PolicyBook(tmp_path / "policies")
    ledger.add(a_request())
    book.add("actor", PolicyVersion(0, "a"))
    for folder, name in ((tmp_path / "service", "b"), (tmp_path / "policies", "actor")):
        (folder / f"{name}_old.json").write_bytes((folder / f"{name}.json").read_bytes())
        with pytest.raises(StoreError, match=rf"{name}_old\.json holds '{name}'.* move it away"):
            (Ledger if name == "b" else PolicyBook)(folder)


def test_a_group_that_stands_there_twice_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "groups"
    write(path, "t0", "t1")
    path.write_bytes(path.read_bytes() * 2)
    with pytest.raises(StoreError, match="has the group of t0 twice"):
        GroupFile(path)


def test_groups_of_a_batch_that_is_done_are_as_many_bytes_as_they_were(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    batch, _ = ledger.add(a_request())
    write(ledger.groups_path(batch), "t0", "t1")
    whole = ledger.groups_path(batch).read_bytes()
    done = msgspec.structs.replace(batch, state="done", groups_size=count_groups(ledger.groups_path(batch)).groups_size)
    ledger.require_whole_groups(done)
    for damaged in (whole[: len(whole) // 2], whole * 2, b""):
        ledger.groups_path(batch).write_bytes(damaged)
        ledger.require_whole_groups(batch)
        with pytest.raises(StoreError, match=f"had {len(whole)} when the batch was done"):
            ledger.require_whole_groups(done)


@pytest.mark.parametrize(
    ("outcome", "integrity", "broke", "reward"),
    [
        ("pass", None, None, 1.0),
        ("pass", "pass", None, 1.0),
        ("pass", "fail", None, 0.0),
        ("pass", "unknown", None, None),
        ("pass", "error", None, None),
        ("fail", "unknown", None, 0.0),
        ("fail", None, "agent", 0.0),
        ("fail", None, "provider", None),
        ("pass", "pass", "environment", None),
        ("unknown", "pass", None, None),
        (None, None, None, None),
    ],
)
def test_rewards_are_those_of_honest_attempts_that_were_judged(
    outcome: VerdictStatus | None, integrity: VerdictStatus | None, broke: str | None, reward: float | None
) -> None:
    row = AttemptRow(
        run="r", chain="t@0.0", attempt="t@0", task="t", task_digest="d", agent="loop", model=None, seed=0, number=0,
        retry=0, isolation=None, started=None, finished=None, ended=None, stopped=None, broke=broke, error=None,
        outcome=outcome, score=None, retried=False, interrupted=False, steps=0, metrics={}, head="h", length=1,
        integrity=integrity,
    )  # fmt: skip
    made = make_attempt(row)
    assert (made.reward, made.outcome, made.integrity) == (reward, outcome, integrity)


def test_a_batch_whose_attempts_all_broke_does_not_blame_the_policy(tmp_path: Path) -> None:
    path = tmp_path / "groups"
    broken = tuple(GroupAttempt(f"t@{n}", "c", broke="provider") for n in range(2))
    file = GroupFile(path)
    file.append(msgspec.structs.replace(a_group("t"), attempts=broken, row_count=0, rows=msgspec.Raw(b"[]")))
    file.close()
    with pytest.raises(UserError, match=r"all 2 were broken off \(2 by the provider\)"):
        count_groups(path)


@pytest.mark.parametrize(
    ("step", "most_lag", "admitted"),
    [(3, 0, True), (4, 0, False), (5, 2, True), (6, 2, False), (99, None, True)],
)
def test_a_batch_begins_when_its_tokens_will_be_fresh_enough(
    tmp_path: Path, step: int, most_lag: int | None, admitted: bool
) -> None:
    book, request = PolicyBook(tmp_path), a_request(step=step, most_lag=most_lag)
    assert not book.admits(request)
    book.add("actor", PolicyVersion(3, "d"))
    assert book.admits(request) == admitted
    assert not book.admits(a_request())


@pytest.mark.parametrize(
    ("versions", "now", "decision"),
    [
        (["s2"], 2, Handover(0, None)),
        (["s1", "s2"], 2, Handover(1, None)),
        (["s0", "s2"], 2, Handover(2, STALE)),
        (["s1"], 3, Handover(2, STALE)),  # it waited
        (["s1"], 1, Handover(1, None)),  # taken ahead of its step
        (["s0"], 0, Handover(2, STALE)),  # age at the batch's step, not at the present one
        (["s2", "other"], 2, Handover(None, UNKNOWN_VERSION)),
        ([None], 2, Handover(None, UNKNOWN_VERSION)),
        ([], 2, Handover(None, None)),
    ],
)
def test_groups_are_judged_by_their_oldest_token(
    tmp_path: Path, versions: list[str | None], now: int, decision: Handover
) -> None:
    book = PolicyBook(tmp_path)
    for step in range(now + 1):
        book.add("actor", PolicyVersion(step, f"s{step}"))
    assert book.judge(a_request(step=2, most_lag=1), versions) == decision
    assert book.judge(a_request(step=2), versions).dropped is None


def test_a_version_that_was_named_without_positions_counts_as_the_oldest_token(tmp_path: Path) -> None:
    row = msgspec.structs.replace(make_row("c"), weight_versions=("s1", "s0"))
    versions = count_versions([msgspec.structs.replace(row, versions=np.where(row.loss_mask, 0, -1).astype(np.int16))])
    assert (versions["s0"], versions["s1"] > 0) == (0, True)
    book = PolicyBook(tmp_path)
    for step in range(2):
        book.add("actor", PolicyVersion(step, f"s{step}"))
    assert book.judge(a_request(step=1, most_lag=0), versions) == Handover(1, STALE)


def test_weights_that_did_not_move_are_as_new_as_their_last_step(tmp_path: Path) -> None:
    book = PolicyBook(tmp_path)
    for step in range(3):
        book.add("actor", PolicyVersion(step, "same"))
    assert book.judge(a_request(step=2, most_lag=0), ["same"]) == Handover(0, None)


def test_a_row_passes_through_json_unchanged() -> None:
    rng = np.random.default_rng(0)
    row: TrainingRow = make_row("c")
    logprobs = np.where(row.logprobs != 0, -rng.random(len(row)).astype(np.float32), 0).astype(np.float32)
    row = msgspec.structs.replace(row, logprobs=logprobs, weights={"rl": rng.random(len(row)).astype(np.float32)})
    again = row_from_json(msgspec.json.decode(msgspec.json.encode(row_as_json(row) | {"batch": "b"})))
    for field in msgspec.structs.fields(row):
        one, other = getattr(row, field.name), getattr(again, field.name)
        if isinstance(one, np.ndarray):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)
        elif field.name == "weights":
            np.testing.assert_array_equal(one["rl"], other["rl"])
        else:
            assert one == other


@pytest.mark.parametrize(
    "change",
    [
        {"token_ids": [1]}, {"token_ids": "x"}, {"token_ids": None}, {"loss_mask": [2, 0]}, {"versions": [70_000]},
        {"logprobs": [{}]}, {"logprobs": [[1]]}, {"turns": 5}, {"weights": {"other": [1.0]}}, {"weights": [1]},
        {"token_ids": [10**30]}, {"run": 3},
    ],
)  # fmt: skip
def test_what_is_no_row_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="not a valid training row"):
        row_from_json(row_as_json(make_row("c")) | change)
    with pytest.raises(UserError, match="not a valid training row"):
        row_from_json([change])
