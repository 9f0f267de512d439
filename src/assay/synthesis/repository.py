"""Makes tasks from a real Python package: breaks it so that its own tests notice, and keeps what stands the gates.

The package's code is hostile: all of it runs in sandboxes, none on the host. The same source, configuration and tool
layer give the same tasks, byte for byte; a run that was stopped goes on from its journal in the cache.

`repair` and the mutation operators share their alphabet, so its rate on these tasks is a self-check of the plumbing,
not a score. Not covered: a package that lies about its own tests gets unsound tasks; admission is there to find them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from assay.environments.interface import Backend

from ._candidates import Candidate, candidates, targets
from ._gates import Given, Journal, Outcome, judge, split_of
from ._history import commit_candidates
from ._judged import Judge
from ._laboratory import Laboratory
from ._manifest import remove_older, write_manifest
from ._opening import OpenedSource, Progress, open_source
from ._reference import Reference
from ._separation_gate import SeparationGate
from ._task_folder import Shared, TaskParts, pack, task_id, write_folder
from ._tree import SourceTree
from .config import SynthesisConfig
from .report import ManifestEntry, SynthesisReport, difficulty, gate_table, methods_of, releases_of

__all__ = ["FROM_JOURNAL", "Progress", "synthesise"]

FROM_JOURNAL = "candidates judged by an earlier run"
"""Message to `Progress` for each wave of which the journal holds candidates."""
WAVE = 8
"""The fewest candidates that are judged together."""


class Kept(NamedTuple):
    """What was kept, and where everything tried has ended."""

    tasks: list[TaskParts]
    ended: list[tuple[Candidate, Outcome]]


async def synthesise(
    config: SynthesisConfig, *, backend: Backend, cache: Path, progress: Progress | None = None
) -> SynthesisReport:
    """Makes tasks.

    Args:
        config: What from, how many, and the limits.
        backend: Where everything is run.
        cache: For the tool layer, and for the journal that lets a stopped run go on.
        progress: Told what is going on.

    Returns:
        The report, which is also written to `<out>/manifest.json`. It may hold fewer tasks than were asked for.

    Raises:
        UserError: There is nothing to make tasks from; the message says what is missing.
        EnvironmentFailure: The sandbox broke.
    """
    tell = progress or (lambda _what, _done, _all: None)
    async with open_source(config, backend, cache, tell) as source:
        tree, laboratory, reference = source.tree, source.laboratory, source.reference
        journal = Journal(source.folder / "journal.jsonl")
        tell("looking at the history", 0, 1)
        history = await commit_candidates(tree, laboratory, backend, config, source.folder / "history.jsonl")
        stream = chain(history.candidates, candidates(tree, reference, config))
        async with Judge(tree, reference.cases, laboratory, backend, config.concurrency) as checking:
            separation = None
            if config.separation != "off":
                separation = SeparationGate(
                    tree, reference.cases, laboratory, config.separation_mutants, source.releases
                )
            given = Given(tree.files, reference.passing, config, checking.objection, separation)
            kept = await _judge_all(given, stream, laboratory, journal, tell)
    tell("writing the tasks", 0, len(kept.tasks))
    kept.ended[:0] = history.ended
    report = await asyncio.to_thread(_write, tree, reference, config, source, kept)
    tell("writing the tasks", len(kept.tasks), len(kept.tasks))
    return report


async def _judge_all(
    given: Given, stream: Iterator[Candidate], laboratory: Laboratory, journal: Journal, tell: Progress
) -> Kept:
    config, kept = given.config, Kept([], [])
    limited = islice(stream, config.candidate_limit)
    while len(kept.tasks) < config.count:
        # Waves depend on what was kept so far and on nothing else, so that the same seed tries the same candidates.
        wave = list(islice(limited, max(WAVE, (config.count - len(kept.tasks)) * 4 // 3)))
        if not wave:
            break
        known = {c.digest: journal.get(c.digest) for c in wave}
        fresh = [c for c in wave if known[c.digest] is None]
        if len(fresh) < len(wave):
            tell(FROM_JOURNAL, len(wave) - len(fresh), len(wave))
        judged = await judge(given, fresh, laboratory)
        journal.add(judged)
        found = {o.digest: o for o in judged} | {d: o for d, o in known.items() if o is not None}
        for one in wave:
            if len(kept.tasks) < config.count:
                kept.ended.append((one, _accept(given, kept, one, found[one.digest])))
        tell("judging candidates", len(kept.tasks), config.count)
    return kept


def _accept(given: Given, kept: Kept, one: Candidate, outcome: Outcome) -> Outcome:
    if outcome.gate != "kept":
        return outcome
    named = set(one.functions)
    # Commits that have a central function in common are other tasks all the same.
    whole = one.kind == "commit"
    mine = [
        t
        for t in kept.tasks
        if named & set(t.candidate.functions) and (not whole or t.candidate.functions == one.functions)
    ]
    for other in mine:
        same = other.candidate.functions == one.functions and other.outcome.flipped.keys() == outcome.flipped.keys()
        if same and other.candidate.operators == one.operators:
            return Outcome(one.digest, "duplicate", f"as {other.candidate.digest}")
    if sum(t.candidate.kind == one.kind for t in mine) >= given.config.per_function:
        return Outcome(one.digest, "quota", f"{min(named)} has enough tasks")
    kept.tasks.append(TaskParts(one, outcome, split_of(given, one, outcome)))
    return outcome


def _write(
    tree: SourceTree, reference: Reference, config: SynthesisConfig, source: OpenedSource, kept: Kept
) -> SynthesisReport:
    touched = {
        path for parts in kept.tasks for path in (*parts.candidate.changes, *parts.candidate.base, *parts.split.texts)
    }
    held = frozenset(set(tree.files) - touched)
    shared = Shared(tree, pack(tree.files, touched), held, source.pins, source.masked, reference.cases)
    out = Path(config.out)
    out.mkdir(parents=True, exist_ok=True)
    remove_older(out, {task_id(tree, parts.candidate) for parts in kept.tasks})
    entries = []
    for parts in kept.tasks:
        digest = write_folder(out, shared, parts)
        entries.append(_entry(tree, reference, parts, digest))
    report = SynthesisReport(
        source=f"{tree.name} {tree.version}".strip(),
        source_digest=tree.digest,
        kind=tree.kind,
        seed=config.seed,
        requirements=source.pins,
        test_files=len({test.partition("::")[0] for test in reference.passing}),
        tests=len(reference.passing),
        functions=len(targets(tree, reference, config)),
        candidates=len(kept.ended),
        table=gate_table(kept.ended),
        left_out=reference.left_out,
        tasks=tuple(entries),
        kept=len(entries),
        not_separate=sum(outcome.gate == "separate" for _, outcome in kept.ended),
    )
    write_manifest(out, report)
    return report


def _entry(tree: SourceTree, reference: Reference, parts: TaskParts, digest: str) -> ManifestEntry:
    one, outcome, parted = parts
    return ManifestEntry(
        id=task_id(tree, one),
        digest=digest,
        candidate=one.digest,
        kind=one.kind,
        operators=one.operators,
        functions=one.functions,
        lines=one.lines,
        visible=parted.visible,
        hidden=parted.hidden,
        also=outcome.passing,
        separation=methods_of(outcome),
        releases=releases_of(outcome),
        split=parted.how,
        difficulty=difficulty(tree, reference, one, outcome, parted),
    )
