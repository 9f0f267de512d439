"""Queries over the runs of a place, of which only the tables that they name are fetched."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.errors import StoreError, UserError
from assay.records import Verdict, VerdictAdded
from assay.store import append_addendum, query, seal
from assay.store.layout import Layout
from assay.store.objects import ObjectStoreError, Publisher, check_place, fetch_run, query_place
from tests.store.conftest import write_run
from tests.store.objects.simulated import SimulatedStore

COUNT = "select run, count(*) from trajectories group by all"
VERDICTS = 'select run, chain, "check", status, addendum from verdicts order by all'


class CountingStore(SimulatedStore):
    """Counts what is read, by the last part of the key."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: Counter[str] = Counter()

    async def read(self, key: str, *, limit: int | None = None, size: int | None = None) -> bytes:
        self.reads[key.rpartition("/")[2]] += 1
        return await super().read(key, limit=limit, size=size)


@pytest.fixture
def store(sealed_store: Path, tmp_path: Path) -> Path:
    root = tmp_path / "store"
    shutil.copytree(sealed_store, root)
    return root


async def published(store: Path) -> CountingStore:
    place = CountingStore()
    await Publisher(store, place).publish("r")
    place.reads.clear()
    return place


async def test_the_manifests_and_the_table_that_is_named_are_read_once(store: Path, tmp_path: Path) -> None:
    place = await published(store)
    assert (await query_place(place, COUNT, tmp_path / "cache")).rows == query(store, COUNT).rows
    assert place.reads == {"0.json": 1, "1.json": 1, "trajectories.parquet": 1}
    assert (await query_place(place, COUNT, tmp_path / "cache")).rows == query(store, COUNT).rows
    assert place.reads.total() == 3


async def test_verdicts_of_addenda_are_among_the_rows(store: Path, tmp_path: Path) -> None:
    place = await published(store)
    before = await query_place(place, VERDICTS, tmp_path / "cache")
    (chain,) = query(store, "select min(chain) from trajectories").rows[0]
    append_addendum(store, "r", [VerdictAdded(Verdict("later", "outcome", "fail", 0.0, "seen later"))], about=chain)
    await Publisher(store, place).publish("r")
    found = await query_place(place, VERDICTS, tmp_path / "cache")
    assert found.rows == query(store, VERDICTS).rows
    assert len(found.rows) == len(before.rows) + 1


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: bytes([data[0] ^ 1]) + data[1:]])
async def test_a_changed_table_is_refused_and_is_not_in_the_cache(store: Path, tmp_path: Path, change) -> None:
    place = await published(store)
    (key,) = (one for one in place.objects if one.endswith("/trajectories.parquet"))
    whole = place.objects[key]
    place.objects[key] = change(whole)
    with pytest.raises(StoreError, match=r"trajectories\.parquet was (cut|changed)"):
        await query_place(place, COUNT, tmp_path / "cache")
    place.objects[key] = whole
    assert (await query_place(place, COUNT, tmp_path / "cache")).rows == query(store, COUNT).rows


async def test_a_cut_file_of_the_cache_is_fetched_again(store: Path, tmp_path: Path) -> None:
    place = await published(store)
    await query_place(place, COUNT, tmp_path / "cache")
    (table,) = (tmp_path / "cache" / "tables").glob("*.parquet")
    table.write_bytes(b"")
    assert (await query_place(place, COUNT, tmp_path / "cache")).rows == query(store, COUNT).rows


async def test_another_run_of_the_same_name_is_read_anew(store: Path, tmp_path: Path) -> None:
    await query_place(await published(store), COUNT, tmp_path / "cache")
    write_run(tmp_path / "other", "r", 1)
    seal(tmp_path / "other", "r")
    place = await published(tmp_path / "other")
    found = await query_place(place, COUNT, tmp_path / "cache")
    assert found.rows == query(tmp_path / "other", COUNT).rows != query(store, COUNT).rows


async def test_an_incomplete_run_is_left_out_and_refused_by_name(store: Path, tmp_path: Path) -> None:
    place = await published(store)
    manifest = place.objects["index/r/0.json"].replace(b'"r"', b'"s"')
    place.objects["index/s/0.json"] = _without_files(manifest)
    assert [row[0] for row in (await query_place(place, COUNT, tmp_path / "cache")).rows] == ["r"]
    with pytest.raises(StoreError, match="run s is not complete"):
        await query_place(place, COUNT, tmp_path / "cache", runs=["s"])


def _without_files(manifest: bytes) -> bytes:
    found = msgspec.json.decode(manifest)
    return msgspec.json.encode({**found, "objects": [one for one in found["objects"] if "path" not in one]})


async def test_unknown_runs_and_other_statements_are_refused_before_anything_is_read(
    store: Path, tmp_path: Path
) -> None:
    place = await published(store)
    with pytest.raises(StoreError, match="no run is called 'other'"):
        await query_place(place, COUNT, tmp_path / "cache", runs=["other"])
    with pytest.raises(UserError, match="must be one SELECT"):
        await query_place(place, "drop table trajectories", tmp_path / "cache")
    with pytest.raises(StoreError, match="no complete run"):
        await query_place(SimulatedStore(), COUNT, tmp_path / "cache")
    assert not place.reads


async def test_an_invalid_statement_is_named_though_the_place_fails_meanwhile(tmp_path: Path) -> None:
    class Unreachable(SimulatedStore):
        async def begin(self) -> None:
            raise ObjectStoreError("the place does not answer")

    with pytest.raises(UserError, match="must be one SELECT"):
        await query_place(Unreachable(), "drop table trajectories", tmp_path / "cache")
    with pytest.raises(ObjectStoreError, match="does not answer"):
        await query_place(Unreachable(), COUNT, tmp_path / "cache")


@pytest.mark.parametrize("exchanged", ["all", "trajectories.parquet"])
async def test_files_of_another_run_are_refused(exchanged: str, store: Path, tmp_path: Path) -> None:
    place = await published(store)
    write_run(store, "s", 1)
    seal(store, "s")
    await Publisher(store, place).publish("s")
    _exchange_files(place, exchanged)
    for asked in (query_place(place, COUNT, tmp_path / "cache"), fetch_run(place, "s", tmp_path / "copy")):
        with pytest.raises(StoreError, match=r"runs/s/segments/.*was exchanged"):
            await asked
    assert not Layout(tmp_path / "copy", "s").is_sealed
    assert any("was exchanged" in problem for problem in (await check_place(place)).problems)


def _exchange_files(place: CountingStore, exchanged: str) -> None:
    """Lists files of the run `r`, under keys that follow from their digests, as those of the run `s`."""
    listed = {
        run: [one for key in sorted(place.objects) if key.startswith(f"index/{run}/") for one in _objects(place, key)]
        for run in "rs"
    }
    theirs = {one["path"]: one for one in listed["r"] if "path" in one}
    ours = []
    for one in listed["s"]:
        other = theirs.get(one.get("path", ""))
        if other is not None and exchanged in ("all", one["path"].removeprefix("sealed/")):
            one = {**other, "key": other["key"].replace("runs/r/", "runs/s/")}
            place.objects[one["key"]] = place.objects[other["key"]]
        ours.append(one)
    for key in [key for key in place.objects if key.startswith("index/s/")]:
        del place.objects[key]
    manifest = {"version": 1, "run": "s", "number": 0, "previous": None, "objects": ours}
    place.objects["index/s/0.json"] = msgspec.json.encode(manifest)


def _objects(place: CountingStore, key: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = msgspec.json.decode(place.objects[key])["objects"]
    return found


async def test_an_object_that_is_larger_than_one_can_be_is_not_read(store: Path, tmp_path: Path) -> None:
    place = await published(store)
    key = max(key for key in place.objects if key.startswith("index/r/"))
    manifest = msgspec.json.decode(place.objects[key])
    place.objects[key] = msgspec.json.encode(
        {**manifest, "objects": [{**one, "size": 200 << 30} for one in manifest["objects"]]}
    )
    with pytest.raises(StoreError, match="larger than an object can be"):
        await query_place(place, COUNT, tmp_path / "cache")
