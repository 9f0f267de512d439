"""Checks the blobs that the events of a run refer to, while another check reads these events."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from assay.errors import StoreError
from assay.records import AttemptEnded, Body, EvidenceAdded, ModelCalled, StepAdded

from .addenda import addendum_links
from .blobs import BlobStore
from .chain import Link, StoreProblem, decode_body
from .erase import MARKING, erasure_in
from .run import RunStore
from .trees import LISTING, listed_addresses

MISSING = "is missing"
_ADDRESS = re.compile(rb"blake3:[0-9a-f]{64}")


class BlobReferences:
    """The blobs that events require, and every other stored blob that their bytes name; each is checked once."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._checked: dict[str, str | None] = {}
        """Address to what is wrong with the blob."""
        self._found: list[tuple[str | None, StoreProblem]] = []
        """The address of a missing blob, else None, and the problem."""
        self._erased: set[str] = set()

    def watch(self, links: Iterable[Link]) -> Iterator[Link]:
        """Passes events on, and checks the blobs that they refer to."""
        for link in links:
            if b"blake3:" in link.body or MARKING in link.body:
                try:
                    self._check(link)
                except StoreError as exc:
                    self._found.append((None, StoreProblem(self._store.run, None, None, str(exc))))
            yield link

    def problems(self, *, already_read: bool) -> Iterator[StoreProblem]:
        """Yields the problems of all blobs, in the order of the events; a missing one that was erased is not a problem.

        `already_read`: the events of the run, without those of addenda, went through `watch`.
        """
        segments = addendum_links(self._store.layout)
        for links in ([] if already_read else [self._store.links()]) + [segment.links for segment in segments]:
            for _ in self.watch(links):
                pass
        yield from (problem for missing, problem in self._found if missing not in self._erased)

    def _check(self, link: Link) -> None:
        body = decode_body(link)
        erasure = erasure_in(link.chain, body)
        if erasure is not None:
            self._erased.add(erasure.blob)
        needed = _required_blobs(body, self._store.blobs, self._checked)
        named = {found.decode() for found in _ADDRESS.findall(link.body)}
        for address in sorted(needed | named):
            if address not in self._checked:
                self._checked[address] = _blob_problem(self._store.blobs, address)
            what = self._checked[address]
            if what is not None and (address in needed or what != MISSING):
                problem = StoreProblem(self._store.run, link.chain, link.index, f"blob {address} {what}")
                self._found.append((address if what == MISSING else None, problem))


def _required_blobs(body: Body, blobs: BlobStore, checked: Mapping[str, object]) -> set[str]:
    """Returns the blobs that an event requires, without those of a listing that was already checked.

    Other content addresses (of tasks, states, verifiers) need not be kept."""
    match body:
        case StepAdded(step):
            cuts = [cut for o in step.observations for cut in (o.truncated, o.stderr_truncated) if cut is not None]
            return {cut.digest for cut in cuts}
        case ModelCalled(call):
            sides = (call.raw_request, call.raw_response)
            return {side.blob for side in sides if side is not None and side.blob is not None}
        case EvidenceAdded(evidence):
            known = evidence.data.get(LISTING) in checked
            return {*evidence.blobs, *(() if known else listed_addresses(blobs, evidence))}
        case AttemptEnded():
            return set(body.artifacts.values())
        case _:
            return set()


def _blob_problem(blobs: BlobStore, address: str) -> str | None:
    try:
        path = blobs.path(address)
    except StoreError as exc:
        return str(exc)
    if not path.is_file():
        return MISSING
    return None if blobs.intact(address) else "does not have the bytes of its address"
