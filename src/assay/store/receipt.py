"""Receipts: a run's state at a moment, small enough to keep elsewhere, and checked without Assay's store.

A chain has no key: anyone with write access to a store can rewrite it, truncate it, or remove whole attempts, and every
digest holds again. A receipt kept elsewhere (a message, a commit, another machine) detects that. A signed one also
names its signer.

The form is JSON whose canonical bytes have sorted keys, no white space, and no other numbers than whole ones (a part of
RFC 8785). `statement` says what was there; it is signed as the bytes `assay-receipt-1`, a line feed, and its canonical
bytes. `root` is over the heads of all chains in order of their names (see `merkle`), so that `heads` and `proof`, which
lie beside the statement, are bound by it.

Invariant: a receipt covers a prefix. It makes no statement about what was appended later (events of a live run,
addenda); a check says how much that is.

Covered: a run written anew, in whole or in part; a cut end; attempts that were taken away, or put into a sealed run;
another manifest; addenda that are gone or others. Not covered: what came after the receipt; a receipt that lies where
the forger can write; the time, which the maker says; that what was recorded is what happened.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import msgspec

from assay.errors import StoreError, UserError, describe_os_error, remove_partial
from assay.records import canonical_bytes, digest_record

from .addenda import addendum_links
from .audit import audit
from .chain import Link, StoreProblem, verify_links
from .merkle import ChainHead, inclusion_proof, leaf_digest, merkle_root, root_from_proof
from .rows import AttemptRow
from .run import RunStore
from .signing import is_valid_signature, sign

SIGNED_AS = b"assay-receipt-1\n"
MOST_BYTES = 1 << 30
"""Of a receipt's file; a head takes about 110 bytes."""


class Statement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The state of a run that a receipt records."""

    run: str
    made: str
    """Time in UTC, as claimed by the maker: `2026-01-31T23:59:59Z`."""
    state: Literal["live", "sealed"]
    manifest: str
    """Digest of the manifest's canonical bytes."""
    chains: int
    events: int
    root: str
    addenda: Annotated[int, msgspec.Meta(ge=0)]
    addenda_head: str | None
    """Digest of the last event of the last addendum; or None."""


class Signature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The signature over the statement."""

    algorithm: Literal["Ed25519"]
    key: str
    value: str


class StoredEvent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An event with the exact text of its body."""

    previous: str
    body: str
    digest: str


class ChainProof(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A proof that one chain is among those of the statement, without naming the others."""

    chain: str
    length: int
    head: str
    index: int
    path: tuple[str, ...]
    events: tuple[StoredEvent, ...] | None = None
    """All events of the chain, in order."""


class Receipt(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A receipt as it lies in a file: with the heads of all chains, or with a proof for one."""

    statement: Statement
    assay_receipt: Literal[1]
    signature: Signature | None = None
    heads: tuple[ChainHead, ...] | None = None
    proof: ChainProof | None = None


class ReceiptCoverage(NamedTuple):
    """Extent of a run that a receipt covers, and the run's differences from the receipt."""

    problems: tuple[StoreProblem, ...]
    chains: int
    events: int
    addenda: int
    later_chains: int
    later_events: int
    later_addenda: int
    signed_by: str | None
    """The key of a valid signature; None where the receipt is not signed or the signature is invalid."""


def make_receipt(
    root: Path,
    run: str,
    *,
    key: Path | None = None,
    attempt: str | None = None,
    events: bool = False,
    check: bool = True,
) -> Receipt:
    """Makes a receipt of a run as it is now, live or sealed, also one with a writer; `key` is a private key file to
    sign it.

    With `attempt`, a proof for it takes the place of the heads of all chains, with its events on request. `check`
    recomputes all chains first, so that no damaged run gets a receipt.

    Raises:
        UserError: The attempt does not exist; the key cannot be used.
        StoreError: The run is missing or damaged.
    """
    if check:
        problem = next(iter(audit(root, run, blobs=False)), None)
        if problem is not None:
            raise StoreError(f"cannot make a receipt of a damaged run: {problem}")
    with RunStore.open(root, run) as store, store.snapshot():
        heads = tuple(sorted(ChainHead(row.chain, row.length, row.head) for row in store.attempts()))
        statement = _make_statement(store, heads)
        proof = None if attempt is None else _make_proof(store, heads, attempt, events=events)
    signature = None
    if key is not None:
        public, value = sign(key, signed_bytes(statement))
        signature = Signature("Ed25519", public, value)
    return Receipt(statement, 1, signature, None if proof else heads, proof)


def signed_bytes(statement: Statement) -> bytes:
    return SIGNED_AS + canonical_bytes(statement)


def write_receipt(receipt: Receipt, path: Path) -> None:
    """Writes a receipt. Raises `UserError` where a file is there, `OSError` where it cannot be written."""
    try:
        with remove_partial(path), path.open("xb") as file:
            file.write(canonical_bytes(receipt) + b"\n")
    except FileExistsError as exc:
        raise UserError(f"{path} exists: choose another name, receipts are not overwritten") from exc


def read_receipt(path: Path) -> Receipt:
    """Reads a receipt. Raises `UserError` where the file is not a valid one."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise UserError(f"{path} is too large for a receipt")
        found = msgspec.json.decode(path.read_bytes(), type=Receipt)
        canonical_bytes(found)  # what no JSON holds (half a surrogate pair) has no digest
    except OSError as exc:
        raise UserError(describe_os_error(exc, path)) from exc
    except (msgspec.DecodeError, ValueError, RecursionError) as exc:
        raise UserError(f"{path} is not a receipt of `assay receipt`: {exc}") from exc
    return found


def check_receipt(root: Path, run: str, receipt: Receipt, *, key: str | None = None) -> ReceiptCoverage:
    """Compares a run with a receipt of it, signed with the public `key` if one is given.

    The heads of the run are read from its rows and seal, which `audit` verifies: run that first.

    Raises:
        UserError: The signature cannot be checked, because `cryptography` is not installed.
        StoreError: The run is missing or cannot be read.
    """
    problems = [StoreProblem(run, None, None, what) for what in _receipt_problems(receipt, key)]
    problems += [StoreProblem(run, p.chain, p.index, p.what) for p in _proof_problems(receipt)]
    with RunStore.open(root, run) as store, store.snapshot():
        rows = {row.chain: row for row in store.attempts()}
        problems += _run_problems(store, receipt, rows)
        total = sum(row.length for row in rows.values())
        later = len(addendum_links(store.layout)) - receipt.statement.addenda
    statement, proof = receipt.statement, receipt.proof
    chains, events = (statement.chains, statement.events) if proof is None else (1, proof.length)
    signed_by = receipt.signature.key if receipt.signature and not _has_invalid_signature(receipt) else None
    left = max(0, len(rows) - chains), max(0, total - events), max(0, later)
    return ReceiptCoverage(tuple(problems), chains, events, statement.addenda, *left, signed_by)


def _make_statement(store: RunStore, heads: tuple[ChainHead, ...]) -> Statement:
    segments = addendum_links(store.layout) if store.is_sealed else ()
    return Statement(
        run=store.run,
        made=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        state="sealed" if store.is_sealed else "live",
        manifest=digest_record(store.manifest()),
        chains=len(heads),
        events=sum(head.length for head in heads),
        root=merkle_root(map(leaf_digest, heads)),
        addenda=len(segments),
        addenda_head=segments[-1].head if segments else None,
    )


def _make_proof(store: RunStore, heads: tuple[ChainHead, ...], attempt: str, *, events: bool) -> ChainProof:
    row = store.find(attempt)
    index = next(at for at, head in enumerate(heads) if head.chain == row.chain)
    kept = None
    if events:
        kept = tuple(StoredEvent(link.previous, link.body.decode(), link.digest) for link in store.links(row.chain))
    return ChainProof(
        row.chain, row.length, row.head, index, inclusion_proof([leaf_digest(head) for head in heads], index), kept
    )


def _receipt_problems(receipt: Receipt, key: str | None) -> Iterator[str]:
    """Checks the receipt's own consistency and its signature."""
    statement, heads = receipt.statement, receipt.heads
    if (heads is None) == (receipt.proof is None):
        yield "the receipt has neither heads nor a proof, or both: it was changed"
    if heads is not None:
        if list(heads) != sorted(set(heads)) or len({head.chain for head in heads}) != len(heads):
            yield "the heads in the receipt are not in order of their chains: it was changed"
        elif (statement.chains, statement.events) != (len(heads), sum(head.length for head in heads)):
            yield "the receipt has wrong counts of chains or events: it was changed"
        elif merkle_root(map(leaf_digest, heads)) != statement.root:
            yield "the heads in the receipt do not match its root: it was changed"
    if receipt.signature is None:
        if key is not None:
            yield "the receipt is not signed"
    elif _has_invalid_signature(receipt):
        yield "the signature in the receipt is invalid: it was changed"
    elif key is not None and receipt.signature.key != key:
        yield f"the receipt is signed by {receipt.signature.key}, and not by {key}"


def _has_invalid_signature(receipt: Receipt) -> bool:
    found = receipt.signature
    return found is None or not is_valid_signature(found.key, signed_bytes(receipt.statement), found.value)


def _proof_problems(receipt: Receipt) -> Iterator[StoreProblem]:
    """Checks that the proof leads to the root, and that the events in it lead to its head."""
    proof, statement = receipt.proof, receipt.statement
    if proof is None:
        return
    leaf = leaf_digest(ChainHead(proof.chain, proof.length, proof.head))
    if root_from_proof(leaf, proof.index, statement.chains, proof.path) != statement.root:
        yield StoreProblem(
            statement.run, proof.chain, None, "the proof in the receipt does not match its root: it was changed"
        )
    if proof.events is not None:
        links = (Link(proof.chain, n, e.previous, e.body.encode(), e.digest) for n, e in enumerate(proof.events))
        broken = verify_links(links, proof.head)
        if broken is not None:
            yield StoreProblem(
                statement.run, proof.chain, broken.at, f"in the receipt: {broken.problem}: {broken.detail}"
            )
        elif len(proof.events) != proof.length:
            yield StoreProblem(statement.run, proof.chain, None, "the receipt has a wrong number of events")


def _run_problems(store: RunStore, receipt: Receipt, rows: dict[str, AttemptRow]) -> Iterator[StoreProblem]:
    run, statement, proof = store.run, receipt.statement, receipt.proof
    if statement.run != run:
        yield StoreProblem(run, None, None, f"the receipt is of run {statement.run!r}")
        return
    if digest_record(store.manifest()) != statement.manifest:
        yield StoreProblem(run, None, None, "the manifest differs from the receipt's: it was changed")
    heads = receipt.heads or ()
    for head in heads if proof is None else (ChainHead(proof.chain, proof.length, proof.head),):
        what = _prefix_problem(store, head, rows.get(head.chain), statement.state)
        if what is not None:
            yield StoreProblem(run, head.chain, what[0], what[1])
    if statement.state == "sealed":
        if not store.is_sealed:
            yield StoreProblem(
                run, None, None, "the receipt is of the sealed run, but this one is live: it was replaced"
            )
        known = {head.chain for head in heads}
        for chain in sorted(set(rows) - known) if proof is None else ():
            yield StoreProblem(run, chain, None, "it is not in the receipt of the sealed run: it was added later")
    yield from _addenda_problems(store, statement)


def _prefix_problem(
    store: RunStore, head: ChainHead, row: AttemptRow | None, state: str
) -> tuple[int | None, str] | None:
    """Returns where and how a chain does not continue from the receipt; None where it does."""
    if row is None:
        return None, "the receipt has it and the run does not: it was removed"
    if row.length < head.length:
        return row.length, f"the receipt has {head.length} events of it, the run {row.length}: it was truncated"
    if row.length > head.length and state == "sealed":
        return head.length, f"the receipt of the sealed run has {head.length} events of it: more were added later"
    now = row.head if row.length == head.length else _digest_at(store, head)
    if now != head.head:
        return None, f"its first {head.length} events differ from the receipt's: it was rewritten"
    return None


def _digest_at(store: RunStore, head: ChainHead) -> str | None:
    return next((link.digest for link in store.links(head.chain) if link.index == head.length - 1), None)


def _addenda_problems(store: RunStore, statement: Statement) -> Iterator[StoreProblem]:
    if not statement.addenda:
        return
    segments = addendum_links(store.layout)
    if len(segments) < statement.addenda:
        what = f"the receipt has {statement.addenda} addenda, the run {len(segments)}: the last ones were removed"
        yield StoreProblem(store.run, f"addendum.{len(segments)}", None, what)
    elif segments[statement.addenda - 1].head != statement.addenda_head:
        what = "it or those before it differ from the receipt's: they were rewritten"
        yield StoreProblem(store.run, f"addendum.{statement.addenda - 1}", None, what)
