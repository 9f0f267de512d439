"""Judges stored trajectories by all rules and appends the new findings (`assay audit`).

Worker processes judge; only this process writes. Unchanged verdicts are not written again, so a second audit adds
nothing unless rules, contracts or later events have changed.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from itertools import chain as chained
from itertools import groupby
from multiprocessing import get_context
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from assay.analysis.actions import actions_of
from assay.analysis.card import Card, TaskCard, card_of, task_cards
from assay.analysis.commit_facts import CommitFacts, merge_facts
from assay.analysis.contracts import Contract
from assay.analysis.integrity import commit_facts
from assay.analysis.interface import Action, Finding
from assay.analysis.judge import INTEGRITY, MODEL, Assessment, judge, rules
from assay.analysis.subject import Subject
from assay.errors import BoundaryError, EnvironmentFailure, VerifierError, boundary
from assay.gateway.interface import ModelBackend
from assay.records import Body, Evidence, EvidenceAdded, Noted, Verdict, VerdictAdded, digest_record
from assay.rollout.audit.blob_texts import texts_of
from assay.rollout.audit.config import AuditConfig
from assay.rollout.limits.contract_guards import load_contracts, unique_contracts
from assay.store import ADMISSION, AUDITED, AttemptRow, RunStore, annotate_all, later_events
from assay.verify.model_judge import judge_by_model, questions_digest

MODEL_JUDGE: Final = "model_judge"
"""Kind of the evidence that holds a model judge's exchanges."""
REFERENCES: Final = 6
"""Passing attempts at the same task that an attempt's process is compared with."""
CHUNK: Final = 16
MOST_CHUNK: Final = 64
"""Attempts that a worker judges at a time: at least `CHUNK`, more where there are many."""
WRITTEN: Final = 256
"""Attempts whose verdicts are written in one transaction."""
FEW: Final = 24
"""Attempts up to which no worker processes are started."""


class AuditReport(msgspec.Struct, frozen=True):
    """The result of an audit."""

    run: str
    cards: tuple[Card, ...]
    tasks: tuple[TaskCard, ...]
    added: int
    """New or changed verdicts."""
    discarded: int
    """Findings of the model judge discarded because their quotes are not in the record."""
    seconds: float


class _Batch(NamedTuple):
    root: Path
    run: str
    task: str
    chains: tuple[str, ...]
    references: tuple[str, ...]
    contracts: tuple[Contract, ...]
    later: Mapping[str, tuple[Verdict, ...]]
    """Verdicts by chain from addenda."""
    others: tuple[str, ...] = ()
    """Attempts at the same task that are not judged."""
    commits: CommitFacts | None = None
    """What all attempts at the task prove of commits; None while each is judged by itself."""


class _JudgedAttempt(NamedTuple):
    """A worker's result for one attempt."""

    chain: str
    card: Card
    verdicts: tuple[Verdict, ...]
    findings: tuple[Finding, ...]
    known: tuple[Verdict, ...]
    """Verdicts already in its chain."""
    noted: tuple[Noted, ...]
    """Audit notes already in its chain."""
    commits: CommitFacts
    """What its record proves of commits."""


OnProgress = Callable[[int, int], None]


def audit_run(
    root: Path,
    run: str,
    config: AuditConfig,
    on_progress: OnProgress | None = None,
    backend: ModelBackend | None = None,
) -> AuditReport:
    """Judges the deciding tries of a run without a writer; closes the model that `config.judge` names.

    Raises:
        UserError: A contract cannot be read, or an attempt does not exist.
        StoreError: The run is damaged, or is being written.
    """
    began = time.monotonic()
    model_judge = None if backend is None else _ModelJudge(root, run, backend)
    try:
        cards, counts = _judge_and_store(root, run, config, on_progress or (lambda _done, _total: None), model_judge)
    finally:
        if model_judge is not None:
            model_judge.close()
    cards.sort(key=lambda card: card.chain)
    seconds = round(time.monotonic() - began, 3)
    return AuditReport(run, tuple(cards), task_cards(cards), counts["added"], counts["discarded"], seconds)


def _judge_and_store(
    root: Path, run: str, config: AuditConfig, on_progress: OnProgress, model_judge: _ModelJudge | None
) -> tuple[list[Card], Counter[str]]:
    """Judges attempts and writes new findings in transactions of `WRITTEN` attempts."""
    contracts = unique_contracts(load_contracts(config.contracts))
    rows = _select_rows(root, run, config.attempt)
    before = later_events(root, run) if rows else {}
    cards: list[Card] = []
    counts: Counter[str] = Counter()
    batch: dict[str, list[Body]] = {}
    workers = config.workers or os.cpu_count() or 1
    most = min(MOST_CHUNK, max(CHUNK, len(rows) // (4 * workers)))
    batches = _make_batches(root, run, rows, contracts, before, most)
    for done in _judge_batches(batches, workers, most):
        later = before.get(done.chain, ())
        asked = (
            model_judge(done, later)
            if model_judge is not None
            else ModelFindings(tuple(_earlier_model_findings(done, later)))
        )
        cards.append(msgspec.structs.replace(done.card, findings=(*done.card.findings, *asked.findings)))
        new = [*asked.evidence, *_new_bodies(done, later, (*done.findings, *asked.findings))]
        counts["discarded"] += asked.discarded
        counts["added"] += sum(isinstance(body, VerdictAdded) for body in new)
        if new and not config.dry_run:
            batch[done.chain] = new
        if len(batch) >= WRITTEN:
            annotate_all(root, run, batch)
            batch = {}
        on_progress(len(cards), len(rows))
    if batch:
        annotate_all(root, run, batch)
    return cards, counts


def subject_of(store: RunStore, chain: str) -> Subject:
    """Returns a stored attempt as the rules' subject."""
    trajectory = store.trajectory(chain)
    return Subject(trajectory, actions_of(trajectory), texts_of(store.blobs))


def _select_rows(root: Path, run: str, wanted: Sequence[str]) -> list[AttemptRow]:
    with RunStore.open(root, run) as store:
        if wanted:
            found = [store.find(name) for name in wanted]
        else:
            found = [row for row in store.attempts() if row.final or row.interrupted]
    return [row for row in found if row.agent != ADMISSION]


def _make_batches(
    root: Path,
    run: str,
    rows: Sequence[AttemptRow],
    contracts: tuple[Contract, ...],
    before: Mapping[str, Sequence[Body]],
    most: int,
) -> list[_Batch]:
    """Groups up to `most` attempts at a task, so that a worker reads the passing references once per batch."""
    by_task: defaultdict[str, list[AttemptRow]] = defaultdict(list)
    for row in rows:
        by_task[row.task_digest or row.task].append(row)
    with RunStore.open(root, run) as store:
        passed: defaultdict[str, list[str]] = defaultdict(list)
        attempts: defaultdict[str, list[str]] = defaultdict(list)
        for row in store.attempts():
            task = row.task_digest or row.task
            if row.agent == ADMISSION or not (row.final or row.interrupted):
                continue
            attempts[task].append(row.chain)
            if row.outcome == "pass" and row.final:
                passed[task].append(row.chain)
    works = []
    for task, found in by_task.items():
        references = tuple(passed[task][:REFERENCES])
        judged = {row.chain for row in found}
        others = tuple(chain for chain in attempts[task] if chain not in judged)
        for at in range(0, len(found), most):
            chains = tuple(row.chain for row in found[at : at + most])
            later = {
                chain: tuple(b.verdict for b in before.get(chain, ()) if isinstance(b, VerdictAdded))
                for chain in chains
            }
            works.append(_Batch(root, run, task, chains, references, contracts, later, others))
    return works


def _judge_batches(batches: Sequence[_Batch], workers: int, most: int) -> Iterator[_JudgedAttempt]:
    groups = _group_batches(batches, most)
    wanted = min(workers, len(groups))
    if wanted <= 1 or sum(len(batch.chains) for batch in batches) <= FEW:
        yield from _judge_tasks(batches, chained.from_iterable(map(_judge_group, groups)))
        return
    with boundary(EnvironmentFailure, "judging in worker processes"), _pool(wanted) as pool:
        yield from _judge_tasks(batches, chained.from_iterable(pool.map(_judge_group, groups)))


def _group_batches(batches: Sequence[_Batch], most: int) -> list[list[_Batch]]:
    """Returns groups of consecutive batches with up to `most` attempts, for which a worker opens the store once."""
    groups: list[list[_Batch]] = []
    room = 0
    for batch in batches:
        if len(batch.chains) > room:
            groups.append([])
            room = most
        groups[-1].append(batch)
        room -= len(batch.chains)
    return groups


def _judge_tasks(works: Sequence[_Batch], judged: Iterable[list[_JudgedAttempt]]) -> Iterator[_JudgedAttempt]:
    """Yields the judged attempts of each task; those that name commits are judged again by what all of them prove."""
    pairs = zip(works, judged, strict=True)
    for _, batches in groupby(pairs, key=lambda pair: pair[0].task):
        task = list(batches)
        commits = _commits_of_task(task)
        for work, found in task:
            for done in found:
                if commits is None or not done.commits.named:
                    yield done
                else:
                    yield from _judge_group([work._replace(chains=(done.chain,), commits=commits)])[0]


def _commits_of_task(task: Sequence[tuple[_Batch, list[_JudgedAttempt]]]) -> CommitFacts | None:
    """Returns what all attempts at a task prove of commits; None where that changes nothing."""
    facts = [done.commits for _, found in task for done in found]
    first = task[0][0]
    if not any(one.named for one in facts) or len(facts) + len(first.others) < 2:
        return None
    with RunStore.open(first.root, first.run) as store:
        facts += [_commit_facts(subject_of(store, chain)) for chain in first.others]
    return merge_facts(facts)


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Opens a pool of spawned processes: forking a process with threads may deadlock."""
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _judge_group(batches: Sequence[_Batch]) -> list[list[_JudgedAttempt]]:
    with RunStore.open(batches[0].root, batches[0].run) as store:
        return [[*_judge_batch(store, batch)] for batch in batches]


def _judge_batch(store: RunStore, batch: _Batch) -> Iterator[_JudgedAttempt]:
    references = {chain: subject_of(store, chain) for chain in batch.references}
    for chain in batch.chains:
        subject = (references.get(chain) or subject_of(store, chain))._replace(commits=batch.commits)
        others = [other.actions for name, other in references.items() if name != chain and other.actions]
        judged = _judge_attempt(subject, batch.contracts, others[: REFERENCES - 1])
        trajectory = subject.trajectory
        card = card_of(trajectory, (*batch.later[chain], *judged.verdicts), judged.findings)
        noted = tuple(note for note in trajectory.notes if note.name == AUDITED)
        commits = _commit_facts(subject)
        yield _JudgedAttempt(chain, card, judged.verdicts, judged.findings, trajectory.verdicts, noted, commits)


def _commit_facts(subject: Subject) -> CommitFacts:
    """Returns what an attempt proves of commits; nothing where its record cannot be judged."""
    try:
        with boundary(VerifierError, "reading the commits of the record"):
            return commit_facts(subject)
    except BoundaryError:
        return CommitFacts()


def _judge_attempt(
    subject: Subject, contracts: Sequence[Contract], references: Sequence[Sequence[Action]]
) -> Assessment:
    """Applies the rules. A failing rule becomes an `error` verdict."""
    try:
        with boundary(VerifierError, "judging the record"):
            return judge(subject, contracts, references)
    except BoundaryError as exc:
        reason = str(exc)[:300]
        return Assessment((), (Verdict(INTEGRITY, "integrity", "error", None, reason, verifier=rules()),))


class ModelFindings(NamedTuple):
    """A model judge's findings on one attempt."""

    findings: tuple[Finding, ...]
    evidence: tuple[EvidenceAdded, ...] = ()
    discarded: int = 0


class _ModelJudge:
    """Asks a model about attempts, once each."""

    def __init__(self, root: Path, run: str, backend: ModelBackend) -> None:
        self._root, self._run, self._backend = root, run, backend
        self._runner = asyncio.Runner()  # one loop for all, to which the model's connections belong

    def close(self) -> None:
        with self._runner as runner:
            runner.run(self._backend.close())

    def __call__(self, done: _JudgedAttempt, before: Sequence[Body]) -> ModelFindings:
        asked = (self._backend.name, questions_digest())
        for body in before:
            if isinstance(body, EvidenceAdded) and body.evidence.kind == MODEL_JUDGE:
                data = body.evidence.data
                if (data.get("model"), data.get("questions")) == asked:
                    return ModelFindings(tuple(_earlier_model_findings(done, before)))
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
        return ModelFindings(found.findings, (evidence,), len(found.discarded))


def _earlier_model_findings(done: _JudgedAttempt, before: Sequence[Body]) -> Iterator[Finding]:
    noted = [*done.noted, *(body for body in before if isinstance(body, Noted) and body.name == AUDITED)]
    for finding in noted[-1].data.get("findings", []) if noted else []:
        if str(finding.get("rule", "")).startswith(MODEL):
            yield msgspec.convert(finding, Finding)


def _new_bodies(done: _JudgedAttempt, before: Sequence[Body], found: Sequence[Finding]) -> list[Body]:
    """Returns the verdicts that differ from the newest of their check, and the findings if they changed."""
    later = [body.verdict for body in before if isinstance(body, VerdictAdded)]
    known = {(verdict.kind, verdict.check): verdict for verdict in (*done.known, *later)}
    new = [v for v in done.verdicts if known.get((v.kind, v.check)) != v]
    noted = [*done.noted, *(body for body in before if isinstance(body, Noted) and body.name == AUDITED)]
    findings = msgspec.json.decode(msgspec.json.encode(found))  # as the store gives it back
    bodies: list[Body] = [VerdictAdded(verdict) for verdict in new]
    found_before = noted[-1].data.get("findings") if noted else []
    if findings != found_before:
        bodies.insert(0, Noted(AUDITED, {"findings": findings}, time.time()))
    return bodies
