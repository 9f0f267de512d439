"""Layers that nodes share through the place: whoever makes one first puts it there, others download it.

layers/recipes/KIND-NAME.json  which layers a recipe gave, and what else is known of them
layers/HEX.tar.zst             one layer; HEX is the BLAKE3 of the archive

Both are created once. A download is resumed where a killed process left it, verified by the digest of the archive and
by that of the unpacked files, and renamed into the cache. One process of a machine downloads a layer, others wait for
it.

Invariant: whatever is wrong with what the place has, or with the disk, is a warning, and the layer is made here as
without other machines. Not covered: a writer of the place who puts a layer and its recipe there; it decides what runs
in sandboxes, as it decides which agent runs.
"""

from __future__ import annotations

import asyncio
import logging
import re
import tempfile
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import msgspec
from blake3 import blake3

from assay.environments.workspace.cached_layers import BYTE_CODE, folder_of, install_cached, read_cached
from assay.environments.workspace.layer_archive import pack_layer, unpack_layer
from assay.environments.workspace.layer_exchange import LayerRecipe, single_flight
from assay.environments.workspace.layer_use import note_fetched
from assay.errors import StoreError
from assay.store.objects import UrlObjectStore
from assay.store.objects.transfer import create_or_find, write_in_thread

MOST_ARCHIVE_BYTES = 1 << 30
"""A layer whose archive is larger is made on each machine."""
MOST_RECORD_BYTES = 1 << 20
MOST_LAYERS = 16
PIECE_BYTES = 8 << 20
"""Bytes of an archive that are downloaded at once."""
MOST_ANNOUNCED = 512
"""Demands that a node says it has."""

_log = logging.getLogger(__name__)
_HEX = re.compile(r"[0-9a-f]{64}")


class ArchivedLayer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A layer in the place."""

    digest: str
    """Of its unpacked files."""
    archive: str
    """BLAKE3 of the archive."""
    size: int
    """Bytes of the archive."""

    @property
    def key(self) -> str:
        return f"layers/{self.archive}.tar.zst"


class LayerRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Layers of a recipe on the machine that was first."""

    schema_version: int
    recipe: str
    layers: tuple[ArchivedLayer, ...]
    """Lowest first."""
    facts: dict[str, Any]


class SharedLayers:
    """The `LayerExchange` of a node."""

    def __init__(self, place: UrlObjectStore, cache: Path) -> None:
        self._place, self._cache, self._folder = place, cache, cache / "layers"
        self._settled: set[LayerRecipe] = set()
        """Recipes that the place has, or that it was found not to take."""
        self._prepared: dict[str, tuple[Path, ...]] = {}
        """The folders of the layers of each demand."""

    async def fetch(self, recipe: LayerRecipe) -> None:
        """Puts the layers of a recipe into the cache, as `LayerExchange.fetch`."""
        if await asyncio.to_thread(read_cached, self._cache, recipe) is not None:
            return
        try:
            async with single_flight(self._folder / f"{recipe}.lock"):
                if await asyncio.to_thread(read_cached, self._cache, recipe) is None:
                    await self._fetch(recipe)
        except (StoreError, ValueError, OSError) as exc:
            _log.warning("the layer %s of %s is not used: %s. It is made on this machine", recipe, self._place, exc)

    async def _fetch(self, recipe: LayerRecipe) -> None:
        record = await self._read_record(recipe)
        if record is None:
            return
        missing = [one for one in record.layers if not folder_of(self._cache, recipe, one.digest).is_dir()]
        for one in missing:
            await self._download(recipe, one)
        try:
            await write_in_thread(self._install, recipe, record)
        finally:  # they are whole: what cannot be installed now cannot be so later, and a full disk needs the space
            for one in missing:
                self._partial(recipe, one).unlink(missing_ok=True)
        if recipe.kind == "root":
            for one in missing:
                note_fetched(folder_of(self._cache, recipe, one.digest))
        self._settled.add(recipe)
        size = sum(one.size for one in missing)
        _log.info("the layer %s was downloaded from %s: %d bytes", recipe, self._place, size)

    async def _read_record(self, recipe: LayerRecipe) -> LayerRecord | None:
        key = _record_key(recipe)
        try:
            record = msgspec.json.decode(await self._place.read(key, limit=MOST_RECORD_BYTES), type=LayerRecord)
        except FileNotFoundError:
            return None
        except (ValueError, RecursionError) as exc:
            raise StoreError(f"{key} is damaged: {exc}") from exc
        if record.recipe != str(recipe) or record.schema_version != 1 or len(record.layers) > MOST_LAYERS:
            raise StoreError(f"{key} is of another recipe or version: it was changed")
        for one in record.layers:
            if not _HEX.fullmatch(one.archive) or not 0 < one.size <= MOST_ARCHIVE_BYTES:
                raise StoreError(f"{key} names an invalid archive: it was changed")
        return record

    def _partial(self, recipe: LayerRecipe, one: ArchivedLayer) -> Path:
        return self._folder / f"{recipe}.{one.archive}.part"

    async def _download(self, recipe: LayerRecipe, one: ArchivedLayer) -> None:
        """Downloads what is missing of an archive. Raises `StoreError` if it is another one, `OSError`."""
        path = self._partial(recipe, one)
        there = path.stat().st_size if path.exists() else 0
        for is_resumed in (0 < there <= one.size, False):
            try:
                await self._append(one, path, there if is_resumed else 0)
            except OSError:
                path.unlink(missing_ok=True)  # a full disk: others need the space
                raise
            if await asyncio.to_thread(_hash_file, path) == one.archive:
                return
            path.unlink()
            if not is_resumed:
                raise StoreError(f"{one.key} does not have its digest: it was changed. Delete it, and its recipe")

    async def _append(self, one: ArchivedLayer, path: Path, start: int) -> None:
        with path.open("r+b" if start else "wb") as file:
            file.seek(start)
            while start < one.size:
                end = min(start + PIECE_BYTES, one.size)
                try:
                    data = await self._place.read_range(one.key, start, end)
                except FileNotFoundError:
                    raise StoreError(f"{one.key} is missing: it was removed") from None
                if len(data) != end - start:
                    raise StoreError(f"{one.key} has fewer than its {one.size:,} bytes: it was changed")
                await asyncio.to_thread(_write, file, data)
                start = end

    def _install(self, recipe: LayerRecipe, record: LayerRecord) -> None:
        archives = {one.digest: one for one in record.layers}
        with tempfile.TemporaryDirectory(dir=self._folder, prefix=".unpacking-") as work:

            def unpack(digest: str) -> Path:
                folder = Path(work) / digest
                folder.mkdir(mode=0o755)
                try:
                    unpack_layer(self._partial(recipe, archives[digest]), folder)
                except ValueError as exc:
                    raise StoreError(f"{archives[digest].key} is refused: {exc}") from exc
                return folder

            install_cached(self._cache, recipe, [one.digest for one in record.layers], record.facts, unpack)

    async def offer(self, recipe: LayerRecipe) -> None:
        """Puts the layers of a recipe into the place, as `LayerExchange.offer`."""
        if recipe in self._settled:
            return
        self._settled.add(recipe)
        try:
            async with single_flight(self._folder / f"{recipe}.lock"):
                await self._offer(recipe)
        except (StoreError, ValueError, OSError) as exc:
            _log.warning("the layer %s is not shared through %s: %s", recipe, self._place, exc)

    async def _offer(self, recipe: LayerRecipe) -> None:
        cached = await asyncio.to_thread(read_cached, self._cache, recipe)
        if cached is None:
            return
        there = await self._read_record(recipe)
        if there is not None:
            if recipe.kind == "root" and there.facts != cached.facts:
                raise StoreError(f"it has another root file system {cached.facts['name']!r}: give each its own name")
            return
        archived = tuple([await self._upload(recipe, folder) for folder in cached.folders])
        record = LayerRecord(1, str(recipe), archived, cached.facts)
        await create_or_find(self._place, _record_key(recipe), msgspec.json.encode(record))

    async def _upload(self, recipe: LayerRecipe, folder: Path) -> ArchivedLayer:
        with tempfile.TemporaryDirectory(dir=self._folder, prefix=".packing-") as work:
            path = Path(work) / "archive"
            await write_in_thread(_pack, folder, path, recipe)
            data = await asyncio.to_thread(path.read_bytes)
        one = ArchivedLayer(folder.name, blake3(data).hexdigest(), len(data))
        await create_or_find(self._place, one.key, data)
        return one

    def prepared(self, demands: Collection[str], folders: Collection[Path]) -> None:
        """Notes, for later processes too, that the cache has what a task demands."""
        new = [one for one in demands if self._prepared.get(one) != tuple(folders)]
        self._prepared |= dict.fromkeys(demands, tuple(folders))
        names = [str(one.relative_to(self._cache)) for one in folders if one.is_relative_to(self._cache)]
        for demand in new:
            path = self._note(demand)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(msgspec.json.encode(names))
            except OSError as exc:  # it is only of use for placement
                _log.warning("%s cannot be written: %s", path, exc)

    def recall(self, demands: Iterable[str]) -> None:
        """Finds what earlier processes prepared of these demands."""
        for demand in demands:
            try:
                names = msgspec.json.decode(self._note(demand).read_bytes(), type=list[str])
            except (OSError, msgspec.MsgspecError):
                continue
            self._prepared[demand] = tuple(self._cache / name for name in names)

    def available(self) -> frozenset[str]:
        """Returns the demands that the cache fulfils, the latest first if they are many."""
        latest = list(self._prepared.items())[-MOST_ANNOUNCED:]
        return frozenset(demand for demand, folders in latest if all(one.is_dir() for one in folders))

    def _note(self, demand: str) -> Path:
        return self._folder / "prepared" / f"{demand.rpartition(':')[2]}.json"


def _record_key(recipe: LayerRecipe) -> str:
    return f"layers/recipes/{recipe}.json"


def _pack(folder: Path, archive: Path, recipe: LayerRecipe) -> None:
    pack_layer(folder, archive, leave_out=BYTE_CODE if recipe.kind == "tools" else None)
    if archive.stat().st_size > MOST_ARCHIVE_BYTES:
        raise ValueError(f"its archive has more than {MOST_ARCHIVE_BYTES >> 30} GiB")


def _write(file: Any, data: bytes) -> None:
    file.write(data)
    file.flush()


def _hash_file(path: Path) -> str:
    return blake3(max_threads=1).update_mmap(path).hexdigest()
