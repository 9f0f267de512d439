"""Makes tasks from a real Python package: breaks it so that its own tests fail, and keeps candidates that pass all
gates.

The package's code is hostile: all of it runs in sandboxes, none on the host. The same source, configuration and tool
layer give the same tasks, byte for byte; a stopped run continues from its journal in the cache.

The agent `repair` uses the same mutation operators, so its rate on these tasks is a self-check of the pipeline,
not a score. Not covered: a package whose tests report false results gets unsound tasks; admission finds them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice, takewhile
from pathlib import Path
from typing import NamedTuple, Protocol

from assay.environments.interface import Backend

from ._candidates import TaskCandidate, find_targets, generate_candidates
from ._gates import GateContext, GateOutcome, IsEnough, judge_candidates, split_outcome
from ._history import find_commit_candidates
from ._journal import Journal
from ._manifest import remove_stale_tasks, write_manifest
from ._opening import OpenedSource, open_source
from ._progress import Progress, ignore_progress
from ._reference import Reference
from ._task_folder import SharedParts, TaskMaterial, name_task, pack_archive, write_folder
from ._tree import SourceTree
from .config import SynthesisConfig
from .judging import JudgeElsewhere, JudgingBasis, open_gates
from .report import ManifestEntry, SynthesisReport, count_methods, difficulty, gate_table, list_dropped, release_uses

FROM_JOURNAL = "judged by an earlier run"
"""Message to `Progress` for each wave of which the journal holds candidates."""
JUDGING = "judging candidates, tasks kept"
"""Message to `Progress` with the number of kept and of requested tasks."""
WAVE = 8
"""The fewest candidates that are judged together."""


class JudgedCandidates(NamedTuple):
    """Accepted tasks, and the outcome of every candidate."""

    tasks: list[TaskMaterial]
    ended: list[tuple[TaskCandidate, GateOutcome]]


async def synthesise(
    config: SynthesisConfig,
    *,
    backend: Backend,
    cache: Path,
    progress: Progress | None = None,
    elsewhere: JudgeElsewhere | None = None,
) -> SynthesisReport:
    """Makes tasks; `cache` holds the tool layer, and the journal that lets a stopped run go on. Candidates are judged
    `elsewhere`, if that is given.

    Returns:
        The report, which is also written to `<out>/manifest.json`. It may contain fewer tasks than requested.

    Raises:
        UserError: No tasks can be made from the source; the message says what is missing.
        EnvironmentFailure: The sandbox broke.
    """
    tell = progress or ignore_progress
    async with open_source(config, backend, cache, tell) as source:
        tree, laboratory, reference = source.tree, source.laboratory, source.reference
        journal = Journal(source.folder / "journal.jsonl", GateOutcome)
        commits = source.folder / "history.jsonl"
        history = await find_commit_candidates(tree, laboratory, backend, config, commits, tell)
        stream = chain(history.candidates, generate_candidates(tree, reference, config))
        async with open_gates(source, config, tell) as context:
            if elsewhere is None:
                judge: _Judge = partial(judge_candidates, context, laboratory=laboratory)
            else:
                judge = partial(_judge_elsewhere, elsewhere, JudgingBasis(source.folder.name, config, reference), tell)
            judged = await _judge_all(context, stream, judge, journal)
    judged.ended[:0] = history.ended
    return await asyncio.to_thread(_write_tasks, tree, reference, config, source, judged)


class _Judge(Protocol):
    """Judges candidates; see `judge_candidates`."""

    def __call__(self, wave: Sequence[TaskCandidate], *, is_enough: IsEnough) -> Awaitable[list[GateOutcome]]: ...


async def _judge_elsewhere(
    elsewhere: JudgeElsewhere,
    basis: JudgingBasis,
    tell: Progress,
    wave: Sequence[TaskCandidate],
    *,
    is_enough: IsEnough,
) -> list[GateOutcome]:
    """Judges a whole wave: a candidate less would save others no time."""
    return [] if is_enough([]) else await elsewhere(basis, wave, tell)


async def _judge_all(
    context: GateContext,
    stream: Iterator[TaskCandidate],
    judge: _Judge,
    journal: Journal[GateOutcome],
) -> JudgedCandidates:
    config, judged, tell = context.config, JudgedCandidates([], []), context.tell
    tell(JUDGING, 0, config.count)
    limited = islice(stream, config.candidate_limit)
    while len(judged.tasks) < config.count:
        # Waves depend only on the tasks accepted so far, so that the same seed tries the same candidates.
        wave = list(islice(limited, max(WAVE, (config.count - len(judged.tasks)) * 4 // 3)))
        if not wave:
            break
        known = {c.digest: journal.get(c.digest) for c in wave}
        fresh = [c for c in wave if known[c.digest] is None]
        if len(fresh) < len(wave):
            tell(FROM_JOURNAL, len(wave) - len(fresh), len(wave))
        results = await judge(fresh, is_enough=partial(_is_enough, context, judged, wave, known))
        journal.add(results)
        outcomes = {o.digest: o for o in results} | {d: o for d, o in known.items() if o is not None}
        for one in wave:
            if len(judged.tasks) < config.count:
                judged.ended.append((one, _apply_quota(context, judged, one, outcomes[one.digest])))
        tell(JUDGING, len(judged.tasks), config.count)
    return judged


def _is_enough(
    context: GateContext,
    judged: JudgedCandidates,
    wave: Sequence[TaskCandidate],
    known: Mapping[str, GateOutcome | None],
    results: Sequence[GateOutcome],
) -> bool:
    """Returns True if the results of the first candidates of a wave, with those of an earlier run, fill the set."""
    outcomes, count = {**known, **{outcome.digest: outcome for outcome in results}}, context.config.count
    first = list(takewhile(lambda pair: pair[1] is not None, ((one, outcomes[one.digest]) for one in wave)))
    if len(judged.tasks) + sum(outcome is not None and outcome.gate == "kept" for _, outcome in first) < count:
        return False
    trial = JudgedCandidates(list(judged.tasks), [])
    for one, outcome in first:
        if outcome is not None and len(trial.tasks) < count:
            _apply_quota(context, trial, one, outcome)
    return len(trial.tasks) >= count


def _apply_quota(
    context: GateContext, judged: JudgedCandidates, one: TaskCandidate, outcome: GateOutcome
) -> GateOutcome:
    if outcome.gate != "kept":
        return outcome
    functions = set(one.functions)
    # Commits that change the same central function are different tasks.
    is_commit = one.kind == "commit"
    related = [
        t
        for t in judged.tasks
        if functions & set(t.candidate.functions) and (not is_commit or t.candidate.functions == one.functions)
    ]
    for other in related:
        same = other.candidate.functions == one.functions and other.outcome.flipped.keys() == outcome.flipped.keys()
        if same and other.candidate.operators == one.operators:
            return GateOutcome(one.digest, "duplicate", f"as {other.candidate.digest}")
    if sum(t.candidate.kind == one.kind for t in related) >= context.config.per_function:
        return GateOutcome(one.digest, "quota", f"{min(functions)} has enough tasks")
    judged.tasks.append(TaskMaterial(one, outcome, split_outcome(context, one, outcome)))
    return outcome


def _write_tasks(
    tree: SourceTree, reference: Reference, config: SynthesisConfig, source: OpenedSource, judged: JudgedCandidates
) -> SynthesisReport:
    touched = {
        path for parts in judged.tasks for path in (*parts.candidate.changes, *parts.candidate.base, *parts.split.texts)
    }
    archived = frozenset(set(tree.files) - touched)
    shared = SharedParts(tree, pack_archive(tree.files, touched), archived, source.pins, source.masked, reference.cases)
    out = Path(config.out)
    out.mkdir(parents=True, exist_ok=True)
    remove_stale_tasks(out, {name_task(tree, parts.candidate) for parts in judged.tasks})
    entries = []
    for parts in judged.tasks:
        digest = write_folder(out, shared, parts)
        entries.append(_manifest_entry(tree, reference, parts, digest))
    report = SynthesisReport(
        source=tree.title,
        source_digest=tree.digest,
        kind=tree.kind,
        seed=config.seed,
        requirements=source.pins,
        test_files=len({test.partition("::")[0] for test in reference.passing}),
        tests=len(reference.passing),
        functions=len(find_targets(tree, reference, config)),
        candidates=len(judged.ended),
        table=gate_table(judged.ended),
        dropped=list_dropped(judged.ended),
        left_out=reference.left_out,
        tasks=tuple(entries),
        kept=len(entries),
        not_separate=sum(outcome.gate == "separate" for _, outcome in judged.ended),
    )
    write_manifest(out, report)
    return report


def _manifest_entry(tree: SourceTree, reference: Reference, parts: TaskMaterial, digest: str) -> ManifestEntry:
    one, outcome, split = parts
    return ManifestEntry(
        id=name_task(tree, one),
        digest=digest,
        candidate=one.digest,
        kind=one.kind,
        operators=one.operators,
        functions=one.functions,
        lines=one.lines,
        visible=split.visible,
        hidden=split.hidden,
        also=outcome.passing,
        separation=count_methods(outcome),
        releases=release_uses(outcome),
        split=split.how,
        difficulty=difficulty(tree, reference, one, outcome, split),
    )
