"""A paired trial of a skill on held-out tasks: screened first, then run in three arms, decided at the first look that
allows it.

The arms are no skill, the skill, and a placebo of equal length, by the same agent on the same tasks with the same
seeds; each is an ordinary run in the store, one for each look. Before anything is run the skill must be valid, hold no
leak of the trial's tasks, and its versions must not rest on attempts at these tasks. The seed of the runs depends on
the version, so that a candidate that was made after an earlier trial is not judged by the same random draws.

An attempt without a verdict counts as failed with the skill and as passed without it, so that neither an outage nor a
skill that breaks attempts can pass for a gain. So does one that was begun again and drawn anew (`store.redrawn`), so
that retries, and an interruption of what goes badly, cannot.

With `harm_attempts`, tasks that passed without the skill are tried again in both arms where the looks refuse it for no
gain and it lost more than it gained: the reason is then harm, if it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from assay.agents.building import build_agent
from assay.analysis.columns import measure_attempts
from assay.errors import StoreError, UserError
from assay.learning.trainer.rollouts import complete_run, count_outcomes
from assay.records import digest_record
from assay.rollout.config import RunConfig
from assay.settings import Settings
from assay.statistics import TaskCount
from assay.store import RunStore, final_rows, load_current_verdicts
from assay.tasks import LoadedTask, find_tasks

from .decision import TaskPasses, TrialDecision, TrialDesign, add_harm_check, choose_harm_tasks, decide_trial
from .evidence import evidence_tasks
from .folder import SkillFolder, validate_skill
from .holdouts import HoldoutLedger, HoldoutUse
from .kinship import keys_of_task, kinship_keys
from .leaks import scan_leaks, secrets_of_task
from .library import SkillLibrary, SkillSummary
from .named_files import digest_named_files
from .placebo import make_placebo
from .records import ArmResult, HarmCheck, RefusalCause, SkillEntry, TrialRecord
from .trial_config import TrialConfig

_LISTED = 5
Report = Callable[[str], None]


async def run_trial(config: TrialConfig, settings: Settings, report: Report = lambda _: None) -> SkillEntry:
    """Runs or continues the trial of a skill's newest version and records its decision.

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
    tasks = _order_tasks(find_tasks(config.tasks), config.protected)
    screened = screen_skill(skill, tasks)
    if screened is not None:
        return library.record_trial(config.skill, summary.version, screened)
    _require_unseen(summary, skill, tasks, settings)
    folders = _arm_folders(library, summary, skill, with_placebo=not config.no_placebo)
    for folder in folders.values():
        _require_agent(config, folder)  # before anything of the holdout is spent
    use = _spend(config, summary, tasks, settings)
    trial = await _Trial(config, settings, tasks, use, folders, report).run()
    return library.record_trial(config.skill, summary.version, trial)


def _order_tasks(tasks: Sequence[LoadedTask], protected: Sequence[str]) -> list[LoadedTask]:
    """Returns protected tasks first, then the others by digest: looks get alike parts of sources that grow harder."""
    missing = sorted(set(protected) - {one.task.id for one in tasks})
    if missing:
        raise UserError(
            f"protected tasks are not among the trial's tasks: {', '.join(missing[:_LISTED])}; correct the ids"
        )
    unique = {one.task.digest: one for one in tasks}
    return sorted(unique.values(), key=lambda one: (one.task.id not in protected, one.task.digest))


def _spend(config: TrialConfig, summary: SkillSummary, tasks: Sequence[LoadedTask], settings: Settings) -> HoldoutUse:
    ledger, library = HoldoutLedger(settings.store), SkillLibrary(settings.store)
    ledger.require_uses(
        entry.trial.use
        for name in library.names()
        for entry in library.entries(name)
        if entry.trial is not None and entry.trial.use
    )
    retirements = sum(entry.kind == "retire" for entry in summary.entries)
    files = digest_named_files(config.agent, config.model, config.agent_options)
    design = [
        config.agent, config.agent_options, config.model, config.attempts, config.looks, config.alpha,
        config.no_placebo, sorted(config.protected), config.seed, retirements,
        *([config.harm_attempts] if config.harm_attempts else []), *([files] if files else []),
    ]  # fmt: skip
    return ledger.spend(
        [one.task.digest for one in tasks],
        config.alpha,
        skill=config.skill,
        version=summary.version,
        design=digest_record(design),
        kin=kinship_keys(tasks),
    )


class _Trial:
    """The runs of one trial, look after look."""

    def __init__(
        self,
        config: TrialConfig,
        settings: Settings,
        tasks: Sequence[LoadedTask],
        use: HoldoutUse,
        folders: Mapping[str, Path | None],
        report: Report,
    ) -> None:
        self._config, self._settings, self._tasks = config, settings, tasks
        self._use, self._folders, self._report = use, folders, report
        self._runs: dict[str, list[str]] = {arm: [] for arm in folders}
        self._counts: dict[str, dict[str, TaskCount]] = {arm: {} for arm in folders}

    async def run(self) -> TrialRecord:
        """Makes the attempts of each look until one decides, and returns the record."""
        config = self._config
        design = TrialDesign(
            self._use.alpha, len(self._tasks), config.attempts, frozenset(config.protected),
            has_harm_check=config.harm_attempts > 0,
        )  # fmt: skip
        looks, decision = list[list[TaskPasses]](), None
        parts = split_looks(self._tasks, config.looks)
        for number, part in enumerate(parts, 1):
            for arm in self._folders:
                self._report(f"look {number} of {len(parts)}: {arm}, {_attempts(len(part) * config.attempts)}")
                run, counts = await self._run_arm(arm, str(number), part, config.attempts)
                self._runs[arm].append(run)
                self._counts[arm] |= counts
            self._require_judged(number)
            looks.append(passes_of(self._counts, part, config.attempts))
            decision = decide_trial(looks, design)
            if decision is not None:
                break
        if decision is None:
            raise StoreError(f"the trial of {config.skill} ended without a decision")
        decision, check = await self._check_harm(decision, [one for look in looks for one in look], design)
        return TrialRecord(
            accepted=decision.accepted, causes=decision.causes, reasons=decision.reasons, holdout=self._use.holdout,
            alpha=self._use.alpha, arms=tuple(map(self._arm_result, self._folders)), p_none=decision.p_none,
            p_placebo=decision.p_placebo, p_both=decision.p_both, looks=decision.looks, planned=len(self._tasks),
            unjudged=sum(self._unjudged(arm) for arm in self._folders), earlier_uses=self._use.earlier,
            use=self._use.digest, harm_check=check,
        )  # fmt: skip

    async def _check_harm(
        self, decision: TrialDecision, seen: Sequence[TaskPasses], design: TrialDesign
    ) -> tuple[TrialDecision, HarmCheck | None]:
        """Tries the tasks that passed without the skill again, where the plan and the looks ask for that."""
        names, attempts = choose_harm_tasks(seen, decision, design), self._config.harm_attempts
        if not names:
            return decision, None
        tasks = [one for one in self._tasks if one.task.id in names]
        runs, counts = dict[str, str](), dict[str, dict[str, TaskCount]]()
        for arm in ("none", "skill"):
            self._report(f"harm check: {arm}, {_attempts(len(tasks) * attempts)}")
            runs[arm], counts[arm] = await self._run_arm(arm, "harm", tasks, attempts)
        passes = passes_of(counts, tasks, attempts)
        decision, p_harm = add_harm_check(decision, passes, attempts, design)
        passed = sum(one.none for one in passes), sum(one.skill for one in passes)
        check = HarmCheck((runs["none"], runs["skill"]), len(tasks), attempts, passed, p_harm, design.harm_level)
        return decision, check

    async def _run_arm(
        self, arm: str, part: str, tasks: Sequence[LoadedTask], attempts: int
    ) -> tuple[str, dict[str, TaskCount]]:
        """Makes one run of an arm; returns its name and its counts by task."""
        run = f"{self._config.skill}-trial-{self._use.digest[7:19]}-{arm}-{part}"
        number: int | str = int(part) if part.isdecimal() else part
        seed = int(digest_record([self._config.seed, self._use.version, self._use.holdout, number])[7:14], 16)
        config = RunConfig(
            tasks=self._config.tasks, agent=self._config.agent, model=self._config.model,
            agent_options=_agent_options(self._config, self._folders[arm]), attempts=attempts,
            concurrency=self._config.concurrency, seed=seed, run=run,
        )  # fmt: skip
        await complete_run(config, self._settings, tasks=tasks)
        counts = {one.task: one for one in count_outcomes(self._settings, run)}
        return run, {one.task.id: counts.get(one.task.id) or _no_count(one.task.id) for one in tasks}

    def _require_judged(self, number: int) -> None:
        """Raises `UserError` where no attempt without the skill has a verdict: the agent, the tasks or the model server
        failed, and the skill must not be refused for that."""
        if not any(one.judged for one in self._counts["none"].values()):
            run = self._runs["none"][-1]
            raise UserError(
                f"no attempt without the skill was judged until look {number}, so nothing is decided and the skill "
                f"keeps its state: `assay ls {run}` shows why; correct that, and try on other held-out tasks"
            )

    def _unjudged(self, arm: str) -> int:
        return sum(max(0, self._config.attempts - one.judged) for one in self._counts[arm].values())

    def _arm_result(self, arm: str) -> ArmResult:
        counts = list(self._counts[arm].values())
        amounts: dict[str, list[float]] = {"turns": [], "tokens": [], "cost_usd": []}
        for run in self._runs[arm]:
            current = load_current_verdicts(self._settings.store, run)
            with RunStore.open(self._settings.store, run) as store:
                for measures in measure_attempts(final_rows(store.attempts()), current):
                    for name in amounts.keys() & measures.used.keys():
                        amounts[name].append(measures.used[name])
        return ArmResult(
            arm, tuple(self._runs[arm]), len(counts), sum(one.passed for one in counts),
            sum(one.judged for one in counts),
            _mean([one.passed / one.judged for one in counts if one.judged]), _mean(amounts["turns"]),
            _mean(amounts["tokens"]), _mean(amounts["cost_usd"]),
        )  # fmt: skip


def passes_of(
    arms: Mapping[str, Mapping[str, TaskCount]], tasks: Sequence[LoadedTask], attempts: int
) -> list[TaskPasses]:
    """Returns the passes of each arm at each task; an attempt without a verdict counts against the skill, and so does a
    doubted pass: whoever finds reasons for doubt in one arm alone would make a gain of them."""
    found = []
    for name in (one.task.id for one in tasks):
        passes = {
            arm: counts[name].passed + (0 if arm == "skill" else _undecided(counts[name], attempts))
            for arm, counts in arms.items()
        }
        found.append(TaskPasses(name, passes["none"], passes["skill"], passes.get("placebo")))
    return found


def _undecided(count: TaskCount, attempts: int) -> int:
    return count.doubtful + max(0, attempts - count.judged)


def _attempts(number: int) -> str:
    return "1 attempt" if number == 1 else f"{number} attempts"


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _no_count(task: str) -> TaskCount:
    return TaskCount(agent="", model=None, task=task, passed=0, failed=0, unknown=0, error=0)


def split_looks(tasks: Sequence[LoadedTask], looks: int) -> list[Sequence[LoadedTask]]:
    """Returns the tasks in parts of equal size, as many as there are looks or tasks."""
    number = min(looks, len(tasks))
    ends = [round(len(tasks) * part / number) for part in range(number + 1)]
    return [tasks[start:end] for start, end in pairwise(ends)]


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


def _require_unseen(summary: SkillSummary, skill: SkillFolder, tasks: Sequence[LoadedTask], settings: Settings) -> None:
    """Raises `UserError` for tasks that the skill rests on: by its own claims, and by those of any skill of the store
    from which it has a line, since a copy under another name brings no claims."""
    library, lines = SkillLibrary(settings.store), {line.strip() for line in skill.text.splitlines()}
    claims = [claim for entry in summary.entries for claim in entry.claims]
    for name in library.names():
        if name != summary.name:
            claims += [c for entry in library.entries(name) for c in entry.claims if c.text.strip() in lines]
    seen = evidence_tasks(claims, settings)
    both = [one.task.id for one in tasks if not seen.isdisjoint((one.task.digest, *keys_of_task(one)))]
    if both:
        raise UserError(
            f"{len(both)} of the trial's tasks are in the runs that the skill was distilled from "
            f"({', '.join(both[:_LISTED])}{', ...' if len(both) > _LISTED else ''}): take tasks of another seed, or of "
            "part=test"
        )


def _arm_folders(
    library: SkillLibrary, summary: SkillSummary, skill: SkillFolder, *, with_placebo: bool
) -> dict[str, Path | None]:
    folders: dict[str, Path | None] = {"none": None, "skill": library.folder_of(summary.name, summary.version)}
    if with_placebo:
        folders["placebo"] = library.placebo_of(summary.name, summary.version, make_placebo(skill))
    return folders


def _agent_options(config: TrialConfig, folder: Path | None) -> dict[str, Any]:
    return {**config.agent_options, **({} if folder is None else {"skill": str(folder.resolve())})}


def _require_agent(config: TrialConfig, folder: Path | None) -> None:
    try:
        build_agent(config.agent, _agent_options(config, folder), model=config.model)
    except UserError as exc:
        raise UserError(
            f"the trial cannot be run: {exc}. It gives the agent the skill's folder as its option `skill`; compare "
            "runs of an agent without that option with `assay gate`"
        ) from exc
