"""Reads attempts of stored runs for distillation, and looks up what claims cite.

Invariant: attempts are read after their hash chains verified; a claim resolves only if its attempt is stored, the cited
head is one of its chain, its pass is not doubted, and it holds every cited step.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from assay.agents.text_rules import parse_rules
from assay.analysis.judged_path import judged_path
from assay.errors import AssayError, UserError
from assay.learning.curation.lessons import opening_for
from assay.learning.reading import RunReader, verified_outcome
from assay.learning.rows_config import RowsConfig
from assay.records import Trajectory, digest_bytes
from assay.rollout.rejudge.config import ReplayConfig
from assay.rollout.rejudge.recorded_task import RecordedTasks
from assay.rollout.run_inputs import find_recorded_tasks
from assay.rollout.run_manifest import read_manifest
from assay.settings import Settings
from assay.store import RunStore, final_rows
from assay.verdicts import trust_of
from assay.verify.reverification import CannotRebuildError

from .distil import DistilledSkill, TextAttempt, TextTurn, distil_rules, write_rule_skill
from .failure_rules import (
    LEAST_TASKS,
    FailureCase,
    cases_of,
    cases_of_continuation,
    failure_claims,
    with_earlier,
    without_leaks,
)
from .folder import SKILL_FILE
from .kinship import kinship_keys
from .leaks import TaskSecrets, secrets_of_task
from .library import SkillLibrary
from .records import Claim, EvidenceRef


class StoredAttempts(NamedTuple):
    """Judged attempts of runs, and the skill that their agent had loaded."""

    attempts: list[TextAttempt]
    left_out: int
    """Attempts that are doubted, unjudged or broken."""
    skill: str | None
    """Digest of the SKILL.md that every attempt loaded; None if none did."""
    failures: list[FailureCase]
    """Failed calls of the attempts."""


def read_attempts(runs: Sequence[str], settings: Settings) -> StoredAttempts:
    """Reads the attempts of runs; their texts are of use where they are of text adventures.

    Raises:
        UserError: A run is unknown, or its attempts followed different skills.
        StoreError: A run is not what was recorded.
    """
    attempts, left_out, skills = list[TextAttempt](), 0, set[str | None]()
    failures, continued = list[FailureCase](), dict[str, list[Trajectory]]()
    for run in runs:
        with RunReader.open(settings, run, RowsConfig()) as reader:
            for trajectory in reader.trajectories():
                kind = verified_outcome(trajectory)
                if kind is None:
                    left_out += 1
                    continue
                skills.add(loaded_skill(trajectory))
                attempts.append(_text_attempt(reader, trajectory, passed=kind == "pass"))
                failures += cases_of(judged_path(trajectory), passed=kind == "pass")
                if kind == "pass" and (origin := _continued_run(trajectory)) is not None:
                    continued.setdefault(origin, []).append(trajectory)
    if len(skills) > 1:
        raise UserError(
            f"the attempts of {', '.join(runs)} followed {len(skills)} different skills (or some none): distil from "
            "runs of one agent with one skill"
        )
    failures += _failures_of_continued(continued, settings)
    return StoredAttempts(attempts, left_out, skills.pop() if skills else None, failures)


def _continued_run(trajectory: Trajectory) -> str | None:
    """Returns the run of the attempt that this one continues from before one of its steps; None for any other."""
    origin = trajectory.started.config.get("rewound")
    run = origin.get("run") if isinstance(origin, dict) else None
    return run if isinstance(run, str) else None


def _failures_of_continued(continued: Mapping[str, Sequence[Trajectory]], settings: Settings) -> Iterator[FailureCase]:
    for run, passes in continued.items():
        with RunReader.open(settings, run, RowsConfig()) as reader:
            for failed in reader.trajectories():
                if verified_outcome(failed) != "fail":
                    continue
                for won in passes:
                    match won.started.config["rewound"]:
                        case {"chain": failed.chain, "prefix": int(prefix)}:
                            yield from cases_of_continuation(failed, won, prefix)


class ContrastAttempt(NamedTuple):
    """One judged attempt: the way that was judged."""

    trajectory: Trajectory
    passed: bool


class JudgedRuns(NamedTuple):
    """Judged attempts of runs of any kind of task."""

    attempts: list[ContrastAttempt]
    secrets: list[TaskSecrets]
    """Texts of their tasks that a skill may not hold."""
    left_out: int
    """Attempts that are doubted, unjudged or broken."""


def read_judged(runs: Sequence[str], settings: Settings) -> JudgedRuns:
    """Reads the judged attempts of runs, as the way that was judged, with the secrets of their tasks.

    Raises:
        UserError: A task is not available, so that nothing could be scanned for its texts.
        StoreError: A run is not what was recorded.
    """
    judged, secrets, left_out = list[ContrastAttempt](), dict[str, TaskSecrets](), 0
    for run in runs:
        config = ReplayConfig(run=run, all=True)
        with (
            RunReader.open(settings, run, RowsConfig()) as reader,
            RunStore.open(settings.store, run) as store,
            RecordedTasks.chosen(store, config) as tasks,
        ):
            for trajectory in reader.trajectories():
                kind = verified_outcome(trajectory)
                if kind is None:
                    left_out += 1
                    continue
                judged.append(ContrastAttempt(judged_path(trajectory), kind == "pass"))
                if trajectory.task_digest not in secrets:
                    secrets[trajectory.task_digest] = _secrets(tasks, trajectory)
    return JudgedRuns(judged, list(secrets.values()), left_out)


def _secrets(tasks: RecordedTasks, trajectory: Trajectory) -> TaskSecrets:
    try:
        return secrets_of_task(tasks.to_read(trajectory))
    except CannotRebuildError as exc:
        raise UserError(
            f"a skill cannot be scanned for texts of task {trajectory.task!r}, so none is made: {exc}"
        ) from exc


def loaded_skill(trajectory: Trajectory) -> str | None:
    """Returns the digest of the SKILL.md that the agent recorded as loaded; None if it recorded none."""
    for one in trajectory.evidence:
        if one.kind == "skill_loaded" and isinstance(digest := one.data.get("digest"), str):
            return digest
    return None


def _text_attempt(reader: RunReader, trajectory: Trajectory, *, passed: bool) -> TextAttempt:
    turns, brief = list(_turns(trajectory)), ""
    if turns:
        brief = reader.instruction(trajectory) or _opening_text(reader, trajectory)
    source = EvidenceRef(trajectory.run, trajectory.attempt, trajectory.chain, trajectory.head, ())
    return TextAttempt(source, passed, brief, turns)


def _opening_text(reader: RunReader, trajectory: Trajectory) -> str:
    contents = (message.get("content") for message in opening_for(reader, trajectory).messages)
    return "\n".join(content for content in contents if isinstance(content, str))


def _turns(trajectory: Trajectory) -> Iterator[TextTurn]:
    for step in trajectory.steps:
        if step.actor != "agent":
            continue
        for call, observation in zip(step.tool_calls, step.observations, strict=False):
            command = (call.parsed or {}).get("command")
            if isinstance(command, str):
                yield TextTurn(step.index, command, observation.content)


def distil_from_runs(name: str, runs: Sequence[str], settings: Settings) -> tuple[DistilledSkill, int]:
    """Distils a skill from runs; returns it with the number of attempts left out.

    Where the attempts followed a version of the same skill, its rules are refined and its evidence is kept.

    Raises:
        UserError: No attempt passed, no rule has support, or the attempts followed a skill that is not in the store.
    """
    stored = read_attempts(runs, settings)
    if not any(one.passed for one in stored.attempts):
        raise UserError(
            f"no attempt of {', '.join(runs)} is an undoubted pass, and rules are distilled from passes alone: make "
            "more attempts, or take easier tasks"
        )
    earlier, known = _followed(name, stored.skill, SkillLibrary(settings.store))
    failures = failure_claims(stored.failures)
    if failures:
        failures = without_leaks(failures, read_judged(runs, settings).secrets)
    failures = with_earlier(failures, known)
    try:
        claims = distil_rules(stored.attempts, earlier, known)
    except ValueError as exc:
        if not failures:
            raise UserError(
                f"{', '.join(runs)}: {exc}; acts are counted at tasks of the family adventure, and no failed call was "
                f"mended alike at {LEAST_TASKS} tasks of these runs"
            ) from exc
        claims = ()
    if not claims and not failures:
        raise UserError("passing attempts do not differ from chance in any act: make more attempts")
    return write_rule_skill(name, claims, stored.attempts, failures), stored.left_out


def _followed(name: str, digest: str | None, library: SkillLibrary) -> tuple[dict[str, float], tuple[Claim, ...]]:
    if digest is None:
        return {}, ()
    entries = library.entries(name) if name in library.names() else []
    for entry in reversed(entries):
        if entry.kind in ("import", "distil", "edit"):
            skill = library.load(name, entry.version)
            if digest_bytes(skill.files[SKILL_FILE]) == digest:
                return parse_rules(skill.text), entry.claims
    raise UserError(
        f"the attempts followed a skill that is not a version of {name!r} in this store: give the name of that skill"
    )


def unresolved_claims(claims: Sequence[Claim], settings: Settings) -> list[str]:
    """Returns what is wrong with the evidence of claims; empty if every citation resolves."""
    problems = [f"{claim.text[:60]!r} cites nothing" for claim in claims if not any(r.steps for r in claim.evidence)]
    cited: dict[str, dict[str, _Cited]] = {}
    for claim in claims:
        for ref in claim.evidence:
            one = cited.setdefault(ref.run, {}).setdefault(ref.chain, _Cited(set(), set()))
            one.heads.add(ref.head)
            one.steps.update(ref.steps)
    for run, chains in sorted(cited.items()):
        try:
            with RunReader.open(settings, run, RowsConfig()) as reader, RunStore.open(settings.store, run) as store:
                stored = {one.chain: one for one in reader.trajectories() if one.chain in chains}
                for chain, what in sorted(chains.items()):
                    problems += _attempt_problems(run, chain, stored.get(chain), what, store)
        except AssayError as exc:
            problems.append(f"run {run}: {exc}")
    return problems


class _Cited(NamedTuple):
    """Heads and steps of one chain that claims cite."""

    heads: set[str]
    steps: set[int]


def _attempt_problems(
    run: str, chain: str, attempt: Trajectory | None, cited: _Cited, store: RunStore
) -> Iterator[str]:
    if attempt is None:
        yield f"run {run} has no decided attempt of the chain {chain}"
        return
    if not trust_of(attempt).trusted:
        yield f"attempt {attempt.attempt} of run {run} has no trusted pass"
    missing = cited.steps - {step.index for step in attempt.steps}
    if missing:
        yield f"attempt {attempt.attempt} of run {run} has no step {min(missing)}"
    unknown = cited.heads - {attempt.head} - {link.digest for link in store.links(chain)}
    if unknown:
        yield f"attempt {attempt.attempt} of run {run} never had the head {min(unknown)}"


def evidence_tasks(claims: Iterable[Claim], settings: Settings) -> frozenset[str]:
    """Returns the digests of all tasks in the runs that claims cite, which the search has seen, and their keys by
    content where the tasks can be loaded as they were.

    Raises:
        UserError: A cited run is not in the store, so what the search has seen cannot be known.
    """
    seen: set[str] = set()
    for run in sorted({ref.run for claim in claims for ref in claim.evidence}):
        with RunStore.open(settings.store, run) as store:
            seen |= {row.task_digest for row in final_rows(store.attempts())}
            with contextlib.suppress(UserError):  # not made by `assay run`, or its tasks are gone
                config, recorded = read_manifest(store)
                seen |= kinship_keys(one for one in find_recorded_tasks(config) if one.task.id in recorded)
    return frozenset(seen)
