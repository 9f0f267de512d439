from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from assay.errors import StoreError, UserError
from assay.records import AttemptStarted, Noted, Observation, Step, StepAdded, Verdict, VerdictAdded
from assay.store import RunStore, addenda, append_addendum, audit, query, seal
from assay.store.tables import TABLES

Fill = Callable[..., None]


def everything(store: RunStore) -> tuple[object, ...]:
    found = store.attempts(), list(store.trajectories()), list(store.links())
    return *found, store.manifest(), store.interrupted()


def test_live_and_sealed_read_the_same(tmp_path: Path, fill: Fill) -> None:
    fill()
    with RunStore.open(tmp_path, "r") as store:
        before = everything(store)
        chains = {c: list(store.events(c)) for c in ("t.a.0.0", "t.a.99.0", "absent")}
    report = seal(tmp_path, "r")
    with RunStore.open(tmp_path, "r") as store:
        after = everything(store)
        assert {c: list(store.events(c)) for c in chains} == chains
    assert after == before
    assert (report.chains, report.events, report.unfinished) == (4, 22, ("t.a.99.0",))
    assert not list((tmp_path / "runs" / "r").glob("run.sqlite*"))


def test_a_sealed_run_takes_no_events_and_seals_once(tmp_path: Path, fill: Fill) -> None:
    fill()
    first = seal(tmp_path, "r")
    with pytest.raises(StoreError, match="is sealed"):
        RunStore.open(tmp_path, "r", write=True)
    again = seal(tmp_path, "r")
    assert again.already
    assert again.head == first.head


def test_a_run_that_is_being_written_is_not_sealed(tmp_path: Path, fill: Fill) -> None:
    fill()
    with RunStore.open(tmp_path, "r", write=True), pytest.raises(StoreError, match=f"process {os.getpid()}"):
        seal(tmp_path, "r")
    assert (tmp_path / "runs" / "r" / "run.sqlite").exists()


def test_a_damaged_run_is_not_sealed(tmp_path: Path, fill: Fill) -> None:
    fill()
    with RunStore.open(tmp_path, "r", write=True) as store:
        store.live.connection.execute(
            "UPDATE events SET body = replace(body, 'remark', 'demark') WHERE chain = 't.a.1.0'"
        )
    with pytest.raises(StoreError, match=r"chain t\.a\.1\.0, event 5: changed"):
        seal(tmp_path, "r")
    assert not list((tmp_path / "runs" / "r").glob("sealed*"))


def test_a_seal_killed_before_removing_the_live_file_is_finished_by_the_next(tmp_path: Path, fill: Fill) -> None:
    fill()
    path = tmp_path / "runs" / "r" / "run.sqlite"
    data = path.read_bytes()
    seal(tmp_path, "r")
    path.write_bytes(data)
    (path.parent / "sealed.1.tmp").mkdir()
    assert seal(tmp_path, "r").already
    assert not path.exists()


def test_plain_pyarrow_opens_every_table(tmp_path: Path, fill: Fill) -> None:
    import pyarrow.parquet as pq

    fill()
    seal(tmp_path, "r")
    tables = {n: pq.read_table(tmp_path / "runs" / "r" / "sealed" / f"{n}.parquet") for n in TABLES}
    assert {n: t.column_names for n, t in tables.items()} == {n: list(c) for n, c in TABLES.items()}
    assert tables["steps"].column("outputs").to_pylist() == [["needle in output"]] * 3
    assert tables["calls"].column("prompt_token_ids").to_pylist() == [[1, 2]] * 3


BIG = """
import sys
from pathlib import Path
from assay.records import AttemptEnded, AttemptStarted, Observation, Step, StepAdded
from assay.store import RunStore, seal
root = Path(sys.argv[1])
with RunStore.create(root, "big", {}) as store:
    store.append("c", [AttemptStarted("big", "a", "t", "d", "a", None, 1, 0)])
    for index in range(int(sys.argv[2])):
        text = f"{index:08d}" * (int(sys.argv[3]) // 8)
        store.append("c", [StepAdded(Step(index, "agent", observations=(Observation(text),)))])
import pyarrow.parquet, duckdb
def peak():  # of this program alone: getrusage's begins at what the parent had
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
before = peak()
seal(root, "big")
with RunStore.open(root, "big") as store:
    count = sum(1 for _ in store.links("c"))
print(count, (peak() - before) // 1024)
"""


@pytest.mark.long
@pytest.mark.parametrize(("steps", "size", "mib"), [(96, 1 << 20, 90), (1, 48 << 20, 500)])
def test_sealing_takes_bounded_memory(tmp_path: Path, steps: int, size: int, mib: int) -> None:
    argv = [sys.executable, "-c", BIG, str(tmp_path), str(steps), str(size)]
    count, grown = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()
    assert int(count) == steps + 1
    assert int(grown) < mib


@pytest.mark.parametrize("cut", [0, 3, 100, 0.5, -1])
@pytest.mark.parametrize("name", ["events", "trajectories"])
def test_damaged_parquet_is_a_store_error(tmp_path: Path, fill: Fill, name: str, cut: float) -> None:
    fill()
    seal(tmp_path, "r")
    path = tmp_path / "runs" / "r" / "sealed" / f"{name}.parquet"
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * cut) if cut == 0.5 else int(cut)])
    with RunStore.open(tmp_path, "r") as store, pytest.raises(StoreError, match=f"{name}.parquet cannot be read"):
        store.attempts() if name == "trajectories" else list(store.links())
    assert any(f"{name}.parquet" in p.what for p in audit(tmp_path, "r"))


@pytest.mark.long
def test_any_flipped_byte_of_a_sealed_file_is_noticed(tmp_path: Path, fill: Fill) -> None:
    fill(attempts=1)
    seal(tmp_path, "r")
    path = tmp_path / "runs" / "r" / "sealed" / "events.parquet"
    data = path.read_bytes()
    for at in range(0, len(data), len(data) // 40):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :])
        assert audit(tmp_path, "r"), at
    path.write_bytes(data)
    assert audit(tmp_path, "r") == ()


def test_addenda_continue_the_sealed_head(tmp_path: Path, fill: Fill) -> None:
    fill()
    head = seal(tmp_path, "r").head
    judged = VerdictAdded(Verdict("later", "process", "fail", 0.0, "seen again"))
    first = append_addendum(tmp_path, "r", [judged], about="t.a.0.0")
    second = append_addendum(tmp_path, "r", [Noted("remark")])
    assert addenda(tmp_path, "r") == (first, second)
    assert (first.events[0].previous, second.events[0].previous) == (head, first.head)
    assert (first.about, first.events[1].body, second.chain) == ("t.a.0.0", judged, "addendum.1")
    assert audit(tmp_path, "r") == ()


def test_an_addendum_is_added_without_reading_all_earlier_ones(
    tmp_path: Path, fill: Fill, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill()
    seal(tmp_path, "r")
    module, read = sys.modules["assay.store.addenda"], list[int]()
    segment_links = module.segment_links
    monkeypatch.setattr(module, "segment_links", lambda layout, n: read.append(n) or segment_links(layout, n))
    for _ in range(6):
        append_addendum(tmp_path, "r", [Noted("remark")])
    assert read == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5]
    assert audit(tmp_path, "r") == ()


def test_addenda_say_what_to_do(tmp_path: Path, fill: Fill) -> None:
    fill()
    with pytest.raises(StoreError, match="assay seal r"):
        append_addendum(tmp_path, "r", [Noted("x")])
    assert addenda(tmp_path, "r") == ()
    seal(tmp_path, "r")
    with pytest.raises(UserError, match="has no chain 'zebra'"):
        append_addendum(tmp_path, "r", [Noted("x")], about="zebra")
    with pytest.raises(UserError, match="nothing to add"):
        append_addendum(tmp_path, "r", [])


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("change", "event 0: changed"),
        ("remove", "it is missing"),
        ("garbage", "cannot be read"),
        ("swap", "belongs to"),
    ],
)
def test_a_touched_addendum_is_found(tmp_path: Path, fill: Fill, what: str, expected: str) -> None:
    fill()
    seal(tmp_path, "r")
    for name in ("first", "second"):
        append_addendum(tmp_path, "r", [Noted(name)])
    path = tmp_path / "runs" / "r" / "addenda" / "0.json"
    data = path.read_bytes()
    path.unlink()
    if what != "remove":
        changed = {
            "change": data.replace(b"first", b"worst"),
            "garbage": data[:-3],
            "swap": data.replace(b'"r"', b'"q"'),
        }
        path.write_bytes(changed[what])
    assert expected in " ".join(map(str, audit(tmp_path, "r")))


def test_huge_numbers_seal_and_come_back(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, "r", {}) as store:
        seen = (Observation("x", exit_code=2**70),)
        body = [
            AttemptStarted("r", "a", "t", "d", "a", None, 2**64 - 1, 0),
            StepAdded(Step(0, "agent", observations=seen)),
        ]
        store.append("c", body)
    seal(tmp_path, "r")
    with RunStore.open(tmp_path, "r") as store:
        assert [e.body for e in store.events("c")] == body
    assert audit(tmp_path, "r") == ()
    assert query(tmp_path, "SELECT seed FROM trajectories").rows == ((None,),)
