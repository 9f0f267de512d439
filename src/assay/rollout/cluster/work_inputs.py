"""Recorded attempts that nodes read for their work: `runs/RUN/inputs/CHAIN`, each with the blobs that it names.

Invariant: a node has the exact bytes of a chain, which it recomputes, and stores it under the run that it is of.
"""

from __future__ import annotations

from collections.abc import Iterable

from assay.errors import StoreError
from assay.store import RunStore
from assay.store.objects.interface import ObjectStore
from assay.store.objects.transfer import create_or_find, transfer

from .commits import encode_input, pack_trial, read_record
from .fetch_trials import add_record
from .objects import input_key, list_pages, run_prefix
from .recorded_trial import read_chain
from .shared_blobs import BlobUploader


async def publish_inputs(objects: ObjectStore, run: str, store: RunStore, chains: Iterable[str]) -> None:
    """Puts chains of a store and their blobs into the place, unless they are there.

    Raises:
        StoreError: Another chain is there under the name of one of these: nodes would judge that.
    """
    prefix = f"{run_prefix(run)}inputs/"
    there = {entry.key async for page in list_pages(objects, prefix) for entry in page}
    uploader = BlobUploader(store, objects)

    async def publish(chain: str) -> None:
        row = store.row(chain)
        if row is None:
            raise StoreError(f"run {store.run!r} has no chain {chain!r}")
        head, events = read_chain(store, chain)
        body = pack_trial(chain, row.retry, head, events, None, await uploader(events))
        key = input_key(run, chain)
        if key not in there and await create_or_find(objects, key, encode_input(run, body)):
            return
        found = (await read_record(objects, key, run, chain)).body
        if (found.chain, found.retry, found.head, set(found.blobs)) != (chain, row.retry, head, set(body.blobs)):
            raise StoreError(f"{objects}: {key} is not the chain {chain!r} of run {store.run!r}: another one made it")

    await transfer(chains, publish)


class WorkInputs:
    """The inputs of a run on a node, in a store of the node."""

    def __init__(self, objects: ObjectStore, run: str, store: RunStore) -> None:
        """Creates the reader; `store` is open for writing, and has the name of the run that the chains are of."""
        self._objects, self._run, self._store = objects, run, store

    async def fetch(self, chain: str) -> None:
        """Copies a chain and its blobs, unless the store has it. Raises `StoreError` if it is missing or damaged."""
        if self._store.row(chain) is not None:
            return
        key = input_key(self._run, chain)
        record = await read_record(self._objects, key, self._run, chain)
        if record.kind != "input" or record.body.chain != chain:
            raise StoreError(f"{key} is not the input {chain!r}: it was changed")
        if self._store.row(chain) is None:  # nothing else fetched it meanwhile
            await add_record(self._store, self._objects, record)
