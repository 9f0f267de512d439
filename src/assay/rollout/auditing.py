"""Judges stored trajectories by all rules, and keeps what is learnt beside them (`assay audit`).

Attempts are judged in worker processes, and only this one writes. What was judged before with the same result is not
written again, so auditing twice adds nothing unless the rules, the contracts or what else was learnt have changed.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from assay.analysis.actions import actions_of
from assay.analysis.card import Card, TaskCard, card_of, task_cards
from assay.analysis.contracts import Contract
from assay.analysis.interface import Action, Finding
from assay.analysis.judge import INTEGRITY, MODEL, Judged, judge, rules
from assay.analysis.subject import Subject
from assay.errors import BoundaryError, EnvironmentFailure, StoreError, UserError, VerifierError, boundary
from assay.gateway.interface import ModelBackend
from assay.records import Body, Evidence, EvidenceAdded, Noted, Trajectory, Verdict, VerdictGiven, digest_record
from assay.rollout.limits.contract_guards import load_contracts, unique_contracts
from assay.store import AUDITED, AttemptRow, BlobStore, RunStore, annotate_all, later_events
from assay.verify.model_judge import judge_by_model, questions_digest

from .admitted import ADMISSION

__all__ = ["AUDITED", "AuditConfig", "AuditReport", "audit_run", "subject_of"]

MODEL_JUDGE: Final = "model_judge"
"""Kind of the evidence that holds what a model was asked and what it answered."""
REFERENCES: Final = 6
"""Attempts that passed which the process of the others at their task is compared with."""
CHUNK: Final = 16
"""Attempts that a worker judges at once."""
WRITTEN: Final = 256
"""Attempts whose verdicts are written in one transaction."""
MOST_TEXT: Final = 4 << 20
"""Bytes of a blob that rules may read."""
FEW: Final = 24
"""Attempts for which no worker processes are started."""


class AuditConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What to judge by."""

    contracts: tuple[str, ...] = ()
    """Safety contracts, as TOML files, beside those that the attempts were held to; repeatable."""
    attempt: tuple[str, ...] = ()
    """Only these attempts; repeatable."""
    judge: str | None = None
    """A model that is asked too, named as for `assay run --model`; what it says must quote the record, and decides
    nothing. Asked once for each attempt."""
    workers: int = 0
    """Processes that judge; 0 takes one a processor."""
    dry_run: bool = False
    """Judge and show, and keep nothing."""

    def __post_init__(self) -> None:
        """Refuses what cannot work."""
        if self.workers < 0:
            raise UserError(f"workers is {self.workers}: it must be 0 or more")


class AuditReport(msgspec.Struct, frozen=True):
    """What an audit found."""

    run: str
    cards: tuple[Card, ...]
    tasks: tuple[TaskCard, ...]
    added: int
    """Verdicts that are new, or not what they were."""
    discarded: int
    """Findings of the model that was asked which were thrown away, because their quotes are not in the record."""
    seconds: float


class _Work(NamedTuple):
    """What a worker is given."""

    root: Path
    run: str
    chains: tuple[str, ...]
    references: tuple[str, ...]
    contracts: tuple[Contract, ...]
    later: Mapping[str, tuple[Verdict, ...]]
    """Verdicts by chain that addenda hold."""


class _Done(NamedTuple):
    """What it gives back."""

    chain: str
    card: Card
    verdicts: tuple[Verdict, ...]
    findings: tuple[Finding, ...]
    known: tuple[Verdict, ...]
    """Verdicts that its chain holds already."""
    noted: tuple[Noted, ...]
    """Its chain's notes of what was found."""


Told = Callable[[int, int], None]


def audit_run(
    root: Path, run: str, config: AuditConfig, told: Told | None = None, backend: ModelBackend | None = None
) -> AuditReport:
    """Judges the deciding tries of a run.

    Args:
        root: The store.
        run: Live, where nobody writes it, or sealed.
        config: What to judge by.
        told: Told how many of how many are judged.
        backend: The model that `config.judge` names; it is closed here.

    Raises:
        UserError: A contract cannot be read, or there is no such attempt.
        StoreError: The run is damaged, or is being written.
    """
    began = time.monotonic()
    asker = None if backend is None else _Asker(root, run, backend)
    try:
        cards, counts = _audited(root, run, config, told or _unheard, asker)
    finally:
        if asker is not None:
            asker.close()
    cards.sort(key=lambda card: card.chain)
    seconds = round(time.monotonic() - began, 3)
    return AuditReport(run, tuple(cards), task_cards(cards), counts["added"], counts["discarded"], seconds)


def _unheard(done: int, total: int) -> None:
    """For who wants the end alone."""
    del done, total


def _audited(
    root: Path, run: str, config: AuditConfig, told: Told, asker: _Asker | None
) -> tuple[list[Card], Counter[str]]:
    """Judges, and writes what is new a few hundred attempts at a time."""
    contracts = unique_contracts(load_contracts(config.contracts))
    rows = _rows(root, run, config.attempt)
    before = later_events(root, run) if rows else {}
    cards: list[Card] = []
    counts: Counter[str] = Counter()
    batch: dict[str, list[Body]] = {}
    for done in _judged(_works(root, run, rows, contracts, before), config.workers, len(rows)):
        later = before.get(done.chain, ())
        asked = asker(done, later) if asker is not None else Asked(tuple(_of_model(done, later)))
        cards.append(msgspec.structs.replace(done.card, findings=(*done.card.findings, *asked.findings)))
        new = [*asked.evidence, *_new(done, later, (*done.findings, *asked.findings))]
        counts["discarded"] += asked.discarded
        counts["added"] += sum(isinstance(body, VerdictGiven) for body in new)
        if new and not config.dry_run:
            batch[done.chain] = new
        if len(batch) >= WRITTEN:
            annotate_all(root, run, batch)
            batch = {}
        told(len(cards), len(rows))
    if batch:
        annotate_all(root, run, batch)
    return cards, counts


def subject_of(store: RunStore, chain: str) -> Subject:
    """A stored attempt as rules see it."""
    trajectory = store.trajectory(chain)
    return Subject(trajectory, actions_of(trajectory), texts_of(store.blobs))


def texts_of(blobs: BlobStore) -> Callable[[str], str | None]:
    """Text of a blob; None where there is none, or it is too long or no text."""

    def text(digest: str) -> str | None:
        try:
            data = blobs.get(digest)
        except (StoreError, ValueError):
            return None
        if len(data) > MOST_TEXT:
            return None
        try:
            return data.decode()
        except UnicodeDecodeError:
            return None

    return text


def _rows(root: Path, run: str, wanted: Sequence[str]) -> list[AttemptRow]:
    with RunStore.open(root, run) as store:
        if wanted:
            found = [store.find(name) for name in wanted]
        else:
            found = [row for row in store.attempts() if row.final or row.interrupted]
    return [row for row in found if row.agent != ADMISSION]


def _works(
    root: Path,
    run: str,
    rows: Sequence[AttemptRow],
    contracts: tuple[Contract, ...],
    before: Mapping[str, Sequence[Body]],
) -> list[_Work]:
    """The work, task by task, so that what passed is read once for a few attempts."""
    by_task: defaultdict[str, list[AttemptRow]] = defaultdict(list)
    for row in rows:
        by_task[row.task_digest or row.task].append(row)
    with RunStore.open(root, run) as store:
        passed: defaultdict[str, list[str]] = defaultdict(list)
        for row in store.attempts():
            if row.outcome == "pass" and row.final and row.agent != ADMISSION:
                passed[row.task_digest or row.task].append(row.chain)
    works = []
    for task, found in by_task.items():
        references = tuple(passed[task][:REFERENCES])
        for at in range(0, len(found), CHUNK):
            chains = tuple(row.chain for row in found[at : at + CHUNK])
            later = {
                chain: tuple(b.verdict for b in before.get(chain, ()) if isinstance(b, VerdictGiven))
                for chain in chains
            }
            works.append(_Work(root, run, chains, references, contracts, later))
    return works


def _judged(works: Sequence[_Work], workers: int, attempts: int) -> Iterator[_Done]:
    wanted = min(workers or os.cpu_count() or 1, len(works))
    if wanted <= 1 or attempts <= FEW:
        for work in works:
            yield from _judge_all(work)
        return
    with boundary(EnvironmentFailure, "judging in worker processes"), _pool(wanted) as pool:
        for done in pool.map(_judge_all, works):
            yield from done


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Workers that are new processes: a fork of one with threads may hang."""
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _judge_all(work: _Work) -> list[_Done]:
    found = []
    with RunStore.open(work.root, work.run) as store:
        references = {chain: actions_of(store.trajectory(chain)) for chain in work.references}
        for chain in work.chains:
            subject = subject_of(store, chain)
            others = [actions for name, actions in references.items() if name != chain and actions]
            judged = _judged_one(subject, work.contracts, others[: REFERENCES - 1])
            card = card_of(subject.trajectory, (*work.later[chain], *judged.verdicts), judged.findings)
            found.append(_Done(chain, card, judged.verdicts, judged.findings, *_told_before(subject.trajectory)))
    return found


def _judged_one(subject: Subject, contracts: Sequence[Contract], references: Sequence[Sequence[Action]]) -> Judged:
    """What the rules say. A rule that fails by itself is no reason to leave the others unjudged, nor a pass."""
    try:
        with boundary(VerifierError, "judging the record"):
            return judge(subject, contracts, references)
    except BoundaryError as exc:
        reason = str(exc)[:300]
        return Judged((), (Verdict(INTEGRITY, "integrity", "error", None, reason, verifier=rules()),))


def _told_before(trajectory: Trajectory) -> tuple[tuple[Verdict, ...], tuple[Noted, ...]]:
    return trajectory.verdicts, tuple(note for note in trajectory.notes if note.name == AUDITED)


class Asked(NamedTuple):
    """What a model said of one attempt."""

    findings: tuple[Finding, ...]
    evidence: tuple[EvidenceAdded, ...] = ()
    discarded: int = 0


class _Asker:
    """Asks a model about attempts, once each."""

    def __init__(self, root: Path, run: str, backend: ModelBackend) -> None:
        self._root, self._run, self._backend = root, run, backend
        self._runner = asyncio.Runner()  # one loop for all, to which the model's connections belong

    def close(self) -> None:
        """Closes the model."""
        with self._runner as runner:
            runner.run(self._backend.close())

    def __call__(self, done: _Done, before: Sequence[Body]) -> Asked:
        asked = (self._backend.name, questions_digest())
        for body in before:
            if isinstance(body, EvidenceAdded) and body.evidence.kind == MODEL_JUDGE:
                data = body.evidence.data
                if (data.get("model"), data.get("questions")) == asked:
                    return Asked(tuple(_of_model(done, before)))
        with RunStore.open(self._root, self._run) as store:
            found = self._runner.run(judge_by_model(subject_of(store, done.chain), self._backend))
        data = {
            "model": asked[0],
            "questions": asked[1],
            "exchanges": list(found.exchanges),
            "discarded": msgspec.to_builtins(found.discarded),
            "errors": list(found.errors),
        }
        name = f"{MODEL_JUDGE}-{digest_record(data)[7:19]}"
        evidence = EvidenceAdded(Evidence(name, "gateway", MODEL_JUDGE, data, at=time.time()))
        return Asked(found.findings, (evidence,), len(found.discarded))


def _of_model(done: _Done, before: Sequence[Body]) -> Iterator[Finding]:
    """What a model said before."""
    noted = [*done.noted, *(body for body in before if isinstance(body, Noted) and body.name == AUDITED)]
    for finding in noted[-1].data.get("findings", []) if noted else []:
        if str(finding.get("rule", "")).startswith(MODEL):
            yield msgspec.convert(finding, Finding)


def _new(done: _Done, before: Sequence[Body], found: Sequence[Finding]) -> list[Body]:
    """What is not known yet: verdicts that are not as the newest of their check was, and the findings they rest on."""
    later = [body.verdict for body in before if isinstance(body, VerdictGiven)]
    known = {(verdict.kind, verdict.check): verdict for verdict in (*done.known, *later)}
    new = [v for v in done.verdicts if known.get((v.kind, v.check)) != v]
    noted = [*done.noted, *(body for body in before if isinstance(body, Noted) and body.name == AUDITED)]
    findings = msgspec.json.decode(msgspec.json.encode(found))  # as the store gives it back
    bodies: list[Body] = [VerdictGiven(verdict) for verdict in new]
    found_before = noted[-1].data.get("findings") if noted else []
    if findings != found_before:
        bodies.insert(0, Noted(AUDITED, {"findings": findings}, time.time()))
    return bodies
