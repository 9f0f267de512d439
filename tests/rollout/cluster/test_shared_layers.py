"""Layers between machines: made once, downloaded by others, and whatever is wrong there is a warning."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from assay.environments.workspace.cached_layers import read_cached
from assay.environments.workspace.images import import_root
from assay.environments.workspace.layer_exchange import LayerRecipe
from assay.rollout.cluster import shared_layers
from assay.rollout.cluster.shared_layers import LayerRecord, SharedLayers
from assay.store.objects import UrlObjectStore, open_place
from tests.optional import require_packages

require_packages("obstore")
SIZE = 3 << 20


@pytest.fixture
def place(tmp_path: Path) -> UrlObjectStore:
    return open_place(str(tmp_path / "place"), create=True)


def _import(folder: Path, cache: Path, *, text: str = "one") -> LayerRecipe:
    """Imports a root file system that does not compress; returns its recipe."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "sh").write_text(text, encoding="utf-8")
    (folder / "data").write_bytes(os.urandom(SIZE))
    import_root("base:1", folder, cache)
    (record,) = (cache / "images" / "roots").glob("*.json")
    return LayerRecipe("root", record.stem)


async def _share(tmp_path: Path, place: UrlObjectStore) -> LayerRecipe:
    recipe = _import(tmp_path / "root", tmp_path / "one")
    await SharedLayers(place, tmp_path / "one").offer(recipe)
    return recipe


def _archive(tmp_path: Path) -> Path:
    (path,) = (tmp_path / "place" / "layers").glob("*.tar.zst")
    return path


async def _fetch(tmp_path: Path, place: UrlObjectStore, recipe: LayerRecipe) -> bool:
    await SharedLayers(place, tmp_path / "two").fetch(recipe)
    left = [path.name for path in (tmp_path / "two").rglob("*") if path.name.startswith((".unp", ".pack"))]
    assert not left
    return read_cached(tmp_path / "two", recipe) is not None


async def test_a_layer_is_made_once_and_downloaded_by_another_machine(tmp_path: Path, place: UrlObjectStore) -> None:
    recipe = await _share(tmp_path, place)
    assert await _fetch(tmp_path, place, recipe)
    one, two = (read_cached(tmp_path / name, recipe) for name in ("one", "two"))
    assert one is not None
    assert two is not None
    assert (one.folders[0].name, one.facts) == (two.folders[0].name, two.facts)
    assert (two.folders[0] / "data").read_bytes() == (tmp_path / "root" / "data").read_bytes()
    assert not list((tmp_path / "two" / "layers").glob("*.part"))


async def test_slots_and_processes_of_a_machine_download_a_layer_once(
    tmp_path: Path, place: UrlObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = await _share(tmp_path, place)
    read, ranges = UrlObjectStore.read_range, []

    async def counted(self: UrlObjectStore, key: str, start: int, end: int) -> bytes:
        ranges.append(key)
        await asyncio.sleep(0.05)
        return await read(self, key, start, end)

    monkeypatch.setattr(UrlObjectStore, "read_range", counted)
    nodes = [SharedLayers(place, tmp_path / "two") for _ in range(2)]
    await asyncio.gather(*[node.fetch(recipe) for node in nodes for _ in range(8)])
    assert len(ranges) == 1
    assert read_cached(tmp_path / "two", recipe) is not None


@pytest.mark.parametrize("damage", ["archive", "missing", "short", "record", "moved", "digest", "facts"])
async def test_a_layer_that_was_changed_is_refused_with_its_key(
    tmp_path: Path, place: UrlObjectStore, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    recipe = await _share(tmp_path, place)
    archive, record = _archive(tmp_path), tmp_path / "place" / "layers" / "recipes" / f"{recipe}.json"
    stored = msgspec.json.decode(record.read_bytes(), type=LayerRecord)
    match damage:
        case "archive":
            data = bytearray(archive.read_bytes())
            data[1000] ^= 1
            archive.write_bytes(data)
        case "missing":
            archive.unlink()
        case "short":
            os.truncate(archive, 5000)
        case "record":
            record.write_bytes(b"{")
        case "moved":
            record.write_bytes(msgspec.json.encode(msgspec.structs.replace(stored, recipe="root-" + "0" * 32)))
        case "digest":
            layers = [msgspec.structs.replace(one, digest="0" * 32) for one in stored.layers]
            record.write_bytes(msgspec.json.encode(msgspec.structs.replace(stored, layers=tuple(layers))))
        case "facts":
            record.write_bytes(msgspec.json.encode(msgspec.structs.replace(stored, facts={"name": "../other"})))
    assert not await _fetch(tmp_path, place, recipe)
    (warning,) = [one.getMessage() for one in caplog.records]
    assert "is not used: " in warning
    assert warning.endswith("It is made on this machine")
    if damage in ("archive", "missing", "short"):
        assert f"layers/{archive.name}" in warning


@pytest.mark.parametrize("digest", ["../../up", "/etc", "A" * 32])
async def test_a_digest_that_leads_out_of_the_cache_is_refused(
    tmp_path: Path, place: UrlObjectStore, digest: str
) -> None:
    recipe = await _share(tmp_path, place)
    record = tmp_path / "place" / "layers" / "recipes" / f"{recipe}.json"
    stored = msgspec.json.decode(record.read_bytes(), type=LayerRecord)
    layers = tuple(msgspec.structs.replace(one, digest=digest) for one in stored.layers)
    record.write_bytes(msgspec.json.encode(msgspec.structs.replace(stored, layers=layers)))
    assert not await _fetch(tmp_path, place, recipe)


PROGRAM = """
import asyncio, os, resource, sys
from pathlib import Path
from assay.environments.workspace.layer_exchange import LayerRecipe
from assay.rollout.cluster import shared_layers
from assay.store.objects import UrlObjectStore, open_place

place, cache, name, wait_s, limit = sys.argv[1:]
if int(limit):
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
shared_layers.PIECE_BYTES = 1 << 18
read = UrlObjectStore.read_range

async def slow(self, key, start, end):
    print(start, flush=True)
    await asyncio.sleep(float(wait_s))
    return await read(self, key, start, end)

UrlObjectStore.read_range = slow
layers = shared_layers.SharedLayers(open_place(place), Path(cache))
asyncio.run(layers.fetch(LayerRecipe("root", name)))
"""


def _download(tmp_path: Path, recipe: LayerRecipe, wait_s: float, limit: int = 0) -> subprocess.Popen[str]:
    words = [str(tmp_path / "place"), str(tmp_path / "two"), recipe.name, str(wait_s), str(limit)]
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", PROGRAM, *words], stdout=pipe, stderr=pipe, text=True)


async def test_a_download_goes_on_where_a_killed_process_left_it(tmp_path: Path, place: UrlObjectStore) -> None:
    recipe = await _share(tmp_path, place)
    first = _download(tmp_path, recipe, 0.2)
    until = time.monotonic() + 60
    while not (part := sum(path.stat().st_size for path in (tmp_path / "two").glob("layers/*.part"))) >= 1 << 19:
        assert first.poll() is None
        assert time.monotonic() < until
        await asyncio.sleep(0.02)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    second = _download(tmp_path, recipe, 0.0)
    starts, errors = second.communicate(timeout=60)
    assert (second.returncode, errors) == (0, "")
    assert int(starts.split()[0]) >= part
    assert read_cached(tmp_path / "two", recipe) is not None


async def test_a_full_disk_is_a_warning_and_leaves_no_rest(tmp_path: Path, place: UrlObjectStore) -> None:
    recipe = await _share(tmp_path, place)
    full = _download(tmp_path, recipe, 0.0, limit=1 << 20)  # the system refuses writes beyond, as a full disk does
    _, errors = full.communicate(timeout=60)
    assert full.returncode == 0
    assert "File too large" in errors
    assert "It is made on this machine" in errors
    assert not list((tmp_path / "two" / "layers").glob("*.part"))
    assert read_cached(tmp_path / "two", recipe) is None


async def test_another_root_of_the_same_name_is_not_shared(
    tmp_path: Path, place: UrlObjectStore, caplog: pytest.LogCaptureFixture
) -> None:
    await _share(tmp_path, place)
    recipe = _import(tmp_path / "other", tmp_path / "three", text="other")
    await SharedLayers(place, tmp_path / "three").offer(recipe)
    assert "it has another root file system 'base:1': give each its own name" in caplog.text


async def test_a_layer_that_is_too_large_for_the_way_is_not_shared(
    tmp_path: Path, place: UrlObjectStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(shared_layers, "MOST_ARCHIVE_BYTES", 1000)
    recipe = await _share(tmp_path, place)
    assert "is not shared through" in caplog.text
    assert not await _fetch(tmp_path, place, recipe)


def test_what_is_in_the_cache_is_known_to_the_next_process(tmp_path: Path, place: UrlObjectStore) -> None:
    cache, demands = tmp_path / "one", ("blake3:" + "a" * 64, "blake3:" + "b" * 64)
    for name in ("x", "y"):
        (cache / "images" / name).mkdir(parents=True)
    first = SharedLayers(place, cache)
    first.prepared(demands[:1], [cache / "images" / "x"])
    first.prepared(demands[1:], [cache / "images" / "y"])
    assert first.available() == set(demands)
    (cache / "images" / "y").rmdir()
    later = SharedLayers(place, cache)
    later.recall(demands)
    assert later.available() == set(demands[:1])
