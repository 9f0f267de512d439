"""A paired trial of a skill on held-out tasks: screened first, then run in three arms, decided once.

The arms are no skill, the skill, and a placebo of equal length, by the same agent on the same tasks with the same
seeds; each is an ordinary run in the store. Before anything is run the skill must be valid, hold no leak of the trial's
tasks, and the tasks must be ones that neither its evidence nor an earlier trial of its versions has seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from assay.agents.building import build_agent
from assay.errors import UserError
from assay.learning.trainer.rollouts import complete_run, count_outcomes
from assay.records import digest_record
from assay.rollout.config import RunConfig
from assay.settings import Settings
from assay.statistics import TaskCount
from assay.store import RunStore, final_rows
from assay.tasks import LoadedTask, find_tasks

from .decision import decide_trial
from .evidence import evidence_tasks
from .folder import SkillFolder, validate_skill, write_skill
from .holdouts import HoldoutLedger
from .leaks import scan_leaks, secrets_of_task
from .library import SkillLibrary, SkillSummary
from .placebo import make_placebo
from .records import ArmResult, RefusalCause, SkillEntry, TrialRecord
from .trial_config import TrialConfig

_LISTED = 5


async def run_trial(config: TrialConfig, settings: Settings) -> SkillEntry:
    """Runs or completes the trial of a skill's newest version and records its decision.

    Raises:
        UserError: The skill is unknown or retired, the tasks were seen by its search, or the holdout is used up.
    """
    library = SkillLibrary(settings.store)
    summary = library.summary(config.skill)
    if summary.state == "retired":
        raise UserError(f"skill {config.skill!r} is retired: distil, import or edit a new version first")
    if not config.tasks:
        raise UserError("a trial needs held-out tasks: name them with --tasks")
    skill = library.load(config.skill, summary.version)
    tasks = find_tasks(config.tasks)
    screened = screen_skill(skill, tasks)
    if screened is not None:
        return library.record_trial(config.skill, summary.version, screened)
    _require_unseen(summary, tasks, settings)
    use = HoldoutLedger(settings.store).spend(
        [one.task.digest for one in tasks],
        config.alpha,
        skill=config.skill,
        version=summary.version,
        design=_design_digest(config),
    )
    name = f"{config.skill}-trial-{use.digest[7:19]}"
    folders = _arm_folders(library, summary, skill, with_placebo=config.placebo)
    counts, arms = dict[str, list[TaskCount]](), list[ArmResult]()
    for arm, folder in folders.items():
        run = f"{name}-{arm}"
        await complete_run(_run_config(config, run, folder), settings, tasks=tasks)
        counts[arm] = [msgspec.structs.replace(one, agent=arm) for one in count_outcomes(settings, run)]
        arms.append(_arm_result(arm, run, counts[arm], settings))
    decision = decide_trial(counts["none"], counts["skill"], counts.get("placebo"), use.alpha, config.protected)
    return library.record_trial(config.skill, summary.version, TrialRecord(
        accepted=decision.accepted, causes=decision.causes, reasons=decision.reasons, holdout=use.holdout,
        alpha=use.alpha, arms=tuple(arms), p_none=decision.p_none, p_placebo=decision.p_placebo,
    ))  # fmt: skip


def _design_digest(config: TrialConfig) -> str:
    return digest_record([config.agent, config.agent_options, config.model, config.attempts, config.seed])


def screen_skill(skill: SkillFolder, tasks: Sequence[LoadedTask]) -> TrialRecord | None:
    """Returns the refusal of a skill that is invalid or leaks one of the tasks; None for one that may be tried."""
    problems = validate_skill(skill)
    leaks = tuple(map(str, scan_leaks(skill, [secrets_of_task(one) for one in tasks])))
    causes: list[RefusalCause] = [*(["invalid"] if problems else []), *(["leak"] if leaks else [])]  # type: ignore[list-item]
    if not causes:
        return None
    reasons = (*(f"invalid: {one}" for one in problems), *(f"it holds a {one}" for one in leaks[:_LISTED]))
    return TrialRecord(
        accepted=False, causes=tuple(causes), reasons=reasons, holdout="", alpha=0.0, arms=(), p_none=None,
        p_placebo=None, leaks=leaks,
    )  # fmt: skip


def _require_unseen(summary: SkillSummary, tasks: Sequence[LoadedTask], settings: Settings) -> None:
    seen = evidence_tasks(summary.claims, settings)
    both = [one.task.id for one in tasks if one.task.digest in seen]
    if both:
        raise UserError(
            f"{len(both)} of the trial's tasks are ones that the skill was distilled from ({', '.join(both[:_LISTED])}"
            f"{', ...' if len(both) > _LISTED else ''}): take tasks of another seed, or of part=test"
        )


def _arm_folders(
    library: SkillLibrary, summary: SkillSummary, skill: SkillFolder, *, with_placebo: bool
) -> dict[str, Path | None]:
    own = library.folder_of(summary.name, summary.version)
    folders: dict[str, Path | None] = {"none": None, "skill": own}
    if with_placebo:
        placebo, folder = make_placebo(skill), own.parent / "placebo" / summary.name
        if not folder.is_dir():
            write_skill(placebo, folder)
        folders["placebo"] = folder
    return folders


def _run_config(config: TrialConfig, run: str, folder: Path | None) -> RunConfig:
    options = {**config.agent_options, **({} if folder is None else {"skill": str(folder.resolve())})}
    try:
        build_agent(config.agent, options, model=config.model)
    except TypeError as exc:
        raise UserError(
            f"agent {config.agent!r} cannot take part in a trial: it has no option `skill` ({exc}); compare two runs "
            "of it with `assay gate` instead"
        ) from exc
    return RunConfig(
        tasks=config.tasks, agent=config.agent, agent_options=options, model=config.model, attempts=config.attempts,
        concurrency=config.concurrency, seed=config.seed, run=run,
    )  # fmt: skip


def _arm_result(arm: str, run: str, counts: Sequence[TaskCount], settings: Settings) -> ArmResult:
    passed, judged = sum(one.passed for one in counts), sum(one.judged for one in counts)
    rates = [one.passed / one.judged for one in counts if one.judged]
    with RunStore.open(settings.store, run) as store:
        steps = [row.steps for row in final_rows(store.attempts())]
    return ArmResult(
        arm, run, len(counts), passed, judged, sum(rates) / len(rates) if rates else None,
        sum(steps) / len(steps) if steps else None,
    )  # fmt: skip
