"""Verdicts, evidence and notes added to an attempt after it ended; the first judgement is never changed.

On a live run it is appended to the attempt's own chain, after its end; on a sealed run it becomes an addendum about
that chain. The same calls read both.

Invariant: the outcome and the score of an attempt's row are those that were first judged;
`assay.verdicts.CurrentVerdicts` puts both side by side.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from assay.errors import StoreError, UserError
from assay.records import Body, EvidenceAdded, Noted, VerdictAdded, canonical_bytes
from assay.verdicts import CurrentVerdicts, current_verdicts

from .addenda import addenda, append_addenda
from .chain import decode_body
from .layout import Layout
from .rows import AttemptRow, ends_attempt
from .run import RunStore
from .sealed import VerdictSummary, summary_of

AUDITED = "audited"
"""Name of the note that holds an audit's findings."""
SEGMENT_BYTES = 4 << 20
FEW = 200
"""Up to this many chains are looked up one by one; for more, all verdicts are read."""


def annotate(root: Path, run: str, chain: str, bodies: Sequence[Body]) -> None:
    """Adds verdicts, evidence and notes to a chain of a run without a writer; on a live run it has ended or was cut.

    Raises:
        UserError: There is nothing to add, no such chain, it has not ended, or a body is of another type.
        StoreError: The run is being written, or cannot be.
    """
    annotate_all(root, run, {chain: bodies})


def annotate_all(root: Path, run: str, bodies_by_chain: Mapping[str, Sequence[Body]]) -> None:
    """Adds events to many chains: in one transaction on a live run, in few segments on a sealed one.

    Raises:
        UserError: As `annotate`; nothing was added.
        StoreError: As `annotate`. Of a sealed run some segments may have been added.
    """
    batch = [(chain, tuple(bodies)) for chain, bodies in bodies_by_chain.items() if bodies]
    if not batch:
        raise UserError(f"nothing to add to run {run!r}")
    for chain, bodies in batch:
        _require_appendable(chain, bodies)
    layout = Layout(root, run)
    layout.require()
    if not layout.is_sealed:
        try:
            _append_live(root, run, batch)
        except StoreError:
            if not layout.is_sealed:  # else it was sealed at this moment
                raise
        else:
            return
    for part in _split_batch(batch):
        append_addenda(root, run, part)


def later_events(root: Path, run: str) -> dict[str, tuple[Body, ...]]:
    """Returns the events that each chain got after it ended, oldest first; chains without any are left out.

    Events of addenda that concern the whole run are not included.

    Raises:
        StoreError: The run is missing or damaged.
    """
    found: defaultdict[str, list[Body]] = defaultdict(list)
    with RunStore.open(root, run) as store, store.snapshot():
        ended = store.ended_at()
        for row in store.attempts():
            at = ended.get(row.chain)
            if row.interrupted:
                found[row.chain] += _bodies_after_end(event.body for event in store.events(row.chain))
            elif at is not None and at + 1 < row.length:
                found[row.chain] += map(decode_body, store.part(row.chain, at + 1, row.length))
        sealed = store.is_sealed
    for addendum in addenda(root, run) if sealed else ():
        for part in addendum.parts():
            if part.about is not None:
                found[part.about].append(part.event.body)
    return {chain: tuple(bodies) for chain, bodies in found.items() if bodies}


def load_current_verdicts(root: Path, run: str) -> dict[str, CurrentVerdicts]:
    """Returns the current verdicts of each chain, by all verdicts of the chain and of the addenda about it.

    Raises:
        StoreError: The run is missing or damaged.
    """
    with RunStore.open(root, run) as store, store.snapshot():
        return current_verdicts_by_chain(store, store.attempts())


def current_verdicts_by_chain(
    store: RunStore, rows: Sequence[AttemptRow], verdicts: Iterable[VerdictSummary] | None = None
) -> dict[str, CurrentVerdicts]:
    """Returns the current verdicts of some chains of an open run.

    `verdicts` are those of the chains, where the caller has read them from the events (`check_rows`); None reads them
    here, of a sealed run from its table of verdicts.
    """
    judged: defaultdict[str, list[VerdictSummary]] = defaultdict(list)
    if verdicts is None:
        verdicts = store.judged({row.chain for row in rows} if len(rows) <= FEW else None)
    for verdict in verdicts:
        judged[verdict.chain].append(verdict)
    for verdict in _addendum_verdicts(store.layout.root, store.run) if store.is_sealed else ():
        judged[verdict.chain].append(verdict)
    known: dict[tuple[object, ...], CurrentVerdicts] = {}  # most attempts of a run are judged like others
    found = {}
    for row in rows:
        mine = judged[row.chain]
        key = (row.outcome, row.score, *(verdict[1:] for verdict in mine))
        if key not in known:
            known[key] = current_verdicts(row.outcome, row.score, mine)
        found[row.chain] = known[key]
    return found


def _append_live(root: Path, run: str, batch: Sequence[tuple[str, Sequence[Body]]]) -> None:
    with RunStore.open(root, run, write=True) as store:
        for chain, _ in batch:
            row = store.row(chain)
            if row is None:
                raise UserError(f"run {run!r} has no chain {chain!r}: `assay ls {run} --all` shows them")
            if row.finished is None and not row.interrupted:
                raise UserError(f"chain {chain!r} of run {run!r} has not ended: finish it with `assay resume {run}`")
        store.append_all(batch)


def _require_appendable(chain: str, bodies: Iterable[Body]) -> None:
    for body in bodies:
        is_learnt = isinstance(body, VerdictAdded | EvidenceAdded | Noted)
        if not is_learnt or (isinstance(body, Noted) and body.name in ("about", "retried", "interrupted")):
            what = body.name if isinstance(body, Noted) else type(body).__name__
            raise UserError(f"{what} cannot be added to {chain!r} after its end: give verdicts, evidence or notes")


def _split_batch(batch: Sequence[tuple[str, Sequence[Body]]]) -> Iterator[list[tuple[str | None, Sequence[Body]]]]:
    """Splits the batch into segments of bounded size; the bodies of one chain stay together."""
    part: list[tuple[str | None, Sequence[Body]]] = []
    size = 0
    for chain, bodies in batch:
        part.append((chain, bodies))
        size += sum(len(canonical_bytes(body)) for body in bodies)
        if size >= SEGMENT_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def _bodies_after_end(bodies: Iterable[Body]) -> Iterator[Body]:
    closed = False
    for body in bodies:
        if closed:
            yield body
        closed = closed or ends_attempt(body)


def _addendum_verdicts(root: Path, run: str) -> Iterator[VerdictSummary]:
    for addendum in addenda(root, run):
        for about, event in addendum.parts():
            if about is not None and isinstance(event.body, VerdictAdded):
                yield summary_of(about, event.body.verdict)
