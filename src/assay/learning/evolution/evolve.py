"""Evolves an agent's configuration: a free search on some tasks, then one gate on others.

The search compares means, as often as it likes; what it claims is printed beside what the gate measured. The gate is
that of skills without the placebo: a paired sequential test of the winner against the present configuration on tasks
that the search never saw, whose error budget is spent and counted in the ledger of holdouts. Every candidate is an
ordinary run, so that an interrupted search continues, and comes to the same result, by the same command.

`STORE/evolution/NAME.jsonl` is the ledger: one chained record for each evaluation, and one for the decision.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from assay.analysis.columns import measure_attempts
from assay.errors import StoreError, UserError
from assay.gateway.backends import open_backend
from assay.gateway.interface import ModelRequest
from assay.learning.skills.decision import TaskPasses, TrialDesign, decide_trial
from assay.learning.skills.holdouts import HoldoutLedger, HoldoutUse
from assay.learning.skills.kinship import keys_of_task, kinship_keys
from assay.learning.skills.named_files import digest_named_files
from assay.learning.skills.trial import split_looks
from assay.learning.trainer.rollouts import complete_run, count_outcomes
from assay.records import DIGEST_PREFIX, digest_record
from assay.rollout.config import RunConfig
from assay.settings import Settings
from assay.store import RunStore, final_rows, load_current_verdicts
from assay.store.chained_file import ChainedFile
from assay.tasks import LoadedTask, find_tasks

from .agent_code import AgentCode, CandidateError, CodeCandidate
from .designer import Designer, design_credit
from .feedback import read_feedback
from .gepa_search import GepaOptions, TaskFeedback, Texts, search_texts
from .mutation import TriedChange, write_prompt
from .option_leaks import find_option_leak
from .racing import Race
from .recipe import CODE, EvolveGateOptions, EvolveRecipe, EvolveSearchOptions

Report = Callable[[str], None]
_LEAST_TASKS = 4
"""Tasks of the first rung of successive halving."""


class EvolutionEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One record of a ledger."""

    kind: Literal["candidate", "gate", "proposal", "code"]
    recipe: str
    """Digest of the recipe."""
    options: dict[str, Any]
    runs: tuple[str, ...]
    tasks: int
    rate: float
    """Share of passed attempts, mean over tasks; an attempt without a verdict counts as failed."""
    turns: float | None
    accepted: bool | None = None
    """The gate's decision, or of code whether it may be tried; None for a candidate."""
    base_rate: float | None = None
    """The present configuration's rate on the same tasks; of a gate."""
    reasons: tuple[str, ...] = ()
    prompt: str = ""
    """Digest of the prompt that a model answered, and how often it was asked before; of a proposal."""
    text: str = ""
    """Its answer; of code the unified diff from the agent's present folder."""
    previous: str = ""
    credit: float | msgspec.UnsetType = msgspec.UNSET
    """The designer's, of a design in its round; other records have none."""
    unsafe: float | msgspec.UnsetType = msgspec.UNSET
    """Share of attempts that broke a safety contract; none where no attempt was judged on safety."""

    @property
    def digest(self) -> str:
        """Returns the content address."""
        return digest_record(self)


class EvaluatedOptions(NamedTuple):
    """One evaluated configuration of the search."""

    options: dict[str, Any]
    run: str
    tasks: int
    rate: float
    turns: float | None
    unsafe: float | None = None
    """Share of attempts that broke a safety contract; None where no attempt was judged on safety."""
    on_front: bool = False
    """True if none on as many tasks is better in rate, turns or safety and no worse in the others."""


class _ArmFigures(NamedTuple):
    """Result of one run."""

    rate: float
    turns: float | None
    unsafe: float | None

    @property
    def recorded_unsafe(self) -> float | msgspec.UnsetType:
        return msgspec.UNSET if self.unsafe is None else self.unsafe


class EvolveReport(msgspec.Struct, frozen=True):
    """The result of a search."""

    name: str
    base: dict[str, Any]
    winner: dict[str, Any]
    claimed: tuple[float, float]
    """Rates of base and winner on the tasks of the search: the winner's is too high, by the choice."""
    held_out: tuple[float, float] | None
    """The same on the tasks of the gate; None if the search found nothing better."""
    accepted: bool
    reasons: tuple[str, ...]
    candidates: tuple[EvaluatedOptions, ...]
    ledger: str
    code: str | None = None
    """Folder of the winner's code; None where code was no part of the search."""


async def evolve(recipe: EvolveRecipe, settings: Settings, report: Report = lambda _: None) -> EvolveReport:
    """Searches, gates, and records both.

    Raises:
        UserError: Tasks of the gate are among those of the search, the holdout is used up, or the name belongs to
            another recipe.
        StoreError: The ledger is damaged.
    """
    search, held_out = find_tasks(recipe.search.tasks), find_tasks(recipe.gate.tasks)
    known = {one.task.digest for one in search} | kinship_keys(search)
    both = [one.task.id for one in held_out if not known.isdisjoint((one.task.digest, *keys_of_task(one)))]
    if both:
        raise UserError(
            f"{len(both)} tasks of the gate are tasks of the search: take another seed of the family for [gate]"
        )
    return await _Evolution(recipe, settings, report, held_out).run(search, held_out)


async def measure_options(
    recipe: EvolveRecipe,
    settings: Settings,
    report: Report,
    several: Callable[[EvolveRecipe], Sequence[dict[str, Any]]],
) -> list[EvaluatedOptions]:
    """Measures configurations on the tasks of the search, and adds them to the ledger. Raises as `evolve`.

    `several` returns them for the recipe in which digests stand for the paths of code.
    """
    held_out = find_tasks(recipe.gate.tasks) if recipe.code is not None else []
    evolution, tasks = _Evolution(recipe, settings, report, held_out), find_tasks(recipe.search.tasks)
    return [await evolution.evaluate(options, tasks) for options in several(evolution.recipe)]


class _Evolution:
    def __init__(
        self, recipe: EvolveRecipe, settings: Settings, report: Report, held_out: Sequence[LoadedTask]
    ) -> None:
        self._code = None if recipe.code is None else AgentCode(recipe.code, settings.store, held_out)
        recipe, variants = (recipe, []) if self._code is None else self._code.resolve(recipe)
        self.recipe = self._recipe = recipe
        self._settings, self._report = settings, report
        self._ledger = ChainedFile(settings.store / "evolution" / f"{recipe.name}.jsonl", EvolutionEntry)
        self._found: dict[tuple[str, int], EvaluatedOptions] = {}
        self._asked: dict[str, int] = {}
        self._whole: Sequence[LoadedTask] = ()
        others = {entry.recipe for entry in self._ledger.read()} - {recipe.digest}
        if others:
            raise UserError(f"{self._ledger.path} is of another recipe: give this one another name")
        for one in variants:
            self._append_code(one)

    async def run(self, search: Sequence[LoadedTask], held_out: Sequence[LoadedTask]) -> EvolveReport:
        ways = {
            "coordinate": self._by_coordinate,
            "grid": self._by_grid,
            "halving": self._by_halving,
            "racing": self._by_racing,
            "designs": self._by_designs,
            "gepa": self._by_gepa,
            "mutate": self._by_mutation,
        }
        base = await self.evaluate(self._recipe.base, search)
        winner = await ways[self._recipe.search.method](search)
        nothing = "no candidate is better on the tasks of the search: nothing to decide"
        decided: tuple[bool, tuple[str, ...]] = (False, (nothing,))
        rates: tuple[float, float] | None = None
        if digest_record(winner.options) != digest_record(base.options) and winner.rate > base.rate:
            leak = await asyncio.to_thread(find_option_leak, winner.options, self._recipe.base, held_out)
            if leak is None:
                decided, rates = await self._gate(winner, held_out)
            else:
                decided = (False, (f"{leak}: it is not tried",))
        recipe = self._recipe
        return EvolveReport(
            recipe.name, recipe.base, winner.options, (base.rate, winner.rate), rates, *decided,
            _mark_front(list(self._found.values())), str(self._ledger.path),
            None if self._code is None else str(self._code.folder_of(str(winner.options[CODE]))),
        )  # fmt: skip

    async def _by_coordinate(self, tasks: Sequence[LoadedTask]) -> EvaluatedOptions:
        best = await self.evaluate(self._recipe.base, tasks)
        for _ in range(self._recipe.search.sweeps):
            for option, values in self._recipe.space.items():
                for value in values:
                    other = await self.evaluate({**best.options, option: value}, tasks)
                    best = other if other.rate > best.rate else best
        return best

    async def _by_grid(self, tasks: Sequence[LoadedTask]) -> EvaluatedOptions:
        made = [await self.evaluate(options, tasks) for options in self._recipe.combinations()]
        return max(made, key=lambda one: one.rate)

    async def _by_gepa(self, tasks: Sequence[LoadedTask]) -> EvaluatedOptions:
        search, recipe = self._recipe.search, self._recipe
        options = GepaOptions(search.seed, search.calls, recipe.space, search.proposer is not None)
        start = {option: str(recipe.base[option]) for option in recipe.space}
        self._whole = tasks
        texts = await search_texts(start, tasks, self, options)
        return await self.evaluate({**recipe.base, **texts}, tasks)

    async def evaluate_texts(self, texts: Texts, tasks: Sequence[LoadedTask]) -> list[TaskFeedback]:
        """Implements `CandidateRuns`: a part of the tasks is a run of its own, named by the tasks."""
        search = self._recipe.search
        options = {**self._recipe.base, **texts}
        if len(tasks) == len(self._whole):
            run = (await self.evaluate(options, tasks)).run
        else:
            run = self._part_run(options, tasks)
            self._append_candidate(options, run, len(tasks), await self._run_arm(options, tasks, run, search))
        return await asyncio.to_thread(read_feedback, self._settings, run, tasks, self._recipe.search.attempts)

    def _part_run(self, options: dict[str, Any], tasks: Sequence[LoadedTask]) -> str:
        """Returns the name of the run of a configuration on a part of the tasks, and reports it."""
        part = digest_record([one.task.digest for one in tasks])[7:15]
        run = f"{self._recipe.name}-{digest_record(options)[7:15]}-{len(tasks)}-{part}"
        self._report(f"{run}: {len(tasks)} tasks, {show_options(options)}")
        return run

    async def _by_designs(self, tasks: Sequence[LoadedTask]) -> EvaluatedOptions:
        search, recipe = self._recipe.search, self._recipe
        designer = Designer(recipe.space, search.seed)
        for number in range(search.rounds):
            batch = [tasks[(number * search.batch + n) % len(tasks)] for n in range(min(search.batch, len(tasks)))]
            drawn = designer.draw(search.designs)
            made = []
            for design in drawn:
                options = {**recipe.base, **designer.options(design)}
                run = self._part_run(options, batch)
                made.append((options, run, await self._run_arm(options, batch, run, search)))
            credit_of = design_credit([figures.rate for _, _, figures in made])
            designer.learn(drawn, credit_of)
            for (options, run, figures), credit in zip(made, credit_of, strict=True):
                self._append_candidate(options, run, len(batch), figures, credit)
        return await self.evaluate({**recipe.base, **designer.options(designer.best())}, tasks)

    async def propose_text(self, prompt: str) -> str:
        """Implements `CandidateRuns`."""
        digest = digest_record(prompt)
        number = self._asked[digest] = self._asked.get(digest, -1) + 1
        name = f"{digest}#{number}"
        for entry in self._ledger.read():
            if entry.kind == "proposal" and entry.prompt == name:
                return entry.text
        model = self._recipe.search.proposer or ""
        self._report(f"{model} writes a new text")
        backend = open_backend(model, self._settings)
        try:
            reply = await backend.complete(ModelRequest([{"role": "user", "content": prompt}]))
        finally:
            await backend.close()
        content = reply.message.get("content")
        text = content if isinstance(content, str) else ""
        self._append(EvolutionEntry("proposal", self._recipe.digest, {}, (name,), 0, 0.0, None, prompt=name, text=text))
        return text

    async def _by_halving(self, tasks: Sequence[LoadedTask]) -> EvaluatedOptions:
        left = list(self._recipe.combinations())
        rungs = max(1, (len(left) - 1).bit_length())
        for rung in range(rungs):
            number = max(_LEAST_TASKS, round(len(tasks) / 2 ** (rungs - 1 - rung)))
            made = [await self.evaluate(options, tasks[:number]) for options in left]
            made.sort(key=lambda one: (-one.rate, one.turns or 0.0))
            left = [one.options for one in made[: max(1, (len(made) + 1) // 2)]]
        return await self.evaluate(left[0], tasks)

    async def _by_mutation(self, tasks: Sequence[LoadedTask]) -> EvaluatedOptions:
        """Lets a model change the best code so far, after the variants that the recipe lists."""
        code, search = self._code, self._recipe.search
        if code is None:
            raise UserError("method = 'mutate' changes the agent's code: name its folder in [code]")
        best = await self._by_coordinate(tasks)
        earlier = list[TriedChange]()
        for _ in range(search.proposals):
            present = str(best.options[CODE])
            shown = {path: data for path, data in code.tree_of(present).files.items() if code.may_change(path)}
            feedback = await asyncio.to_thread(read_feedback, self._settings, best.run, tasks, search.attempts)
            answer = await self.propose_text(write_prompt(shown, best.rate, feedback, earlier))
            try:
                made = code.changed_by_answer(present, answer)
            except CandidateError as exc:
                self._report(f"refused: {exc}")
                self._append_refused_code(present, answer, str(exc))
                earlier.append(TriedChange("", f"An answer was refused: {exc}"))
                continue
            self._append_code(made)
            other = await self.evaluate({**best.options, CODE: made.digest}, tasks)
            earlier.append(TriedChange(made.diff, f"This version passed {other.rate:.3f} of its attempts:"))
            best = other if other.rate > best.rate else best
        return best

    def _append_code(self, made: CodeCandidate) -> None:
        options, runs = {CODE: made.digest}, (made.digest,)
        self._append(EvolutionEntry("code", self._recipe.digest, options, runs, 0, 0.0, None, True, text=made.diff))

    def _append_refused_code(self, present: str, answer: str, reason: str) -> None:
        options, runs = {CODE: present}, (digest_record([present, answer]),)
        self._append(EvolutionEntry("code", self._recipe.digest, options, runs, 0, 0.0, None, False, reasons=(reason,)))

    async def _by_racing(self, tasks: Sequence[LoadedTask]) -> EvaluatedOptions:
        search = self._recipe.search
        candidates = {digest_record(options): options for options in self._recipe.combinations()}
        parts = split_looks(sorted(tasks, key=lambda one: one.task.digest), search.rounds)
        race = Race(list(candidates), attempts=search.attempts, looks=len(parts), level=search.level)
        for part in parts:
            passes = dict[str, list[int]]()
            for digest in race.left:
                run = self._part_run(candidates[digest], part)
                figures = await self._run_arm(candidates[digest], part, run, search)
                self._append_candidate(candidates[digest], run, len(part), figures)
                counts = {one.task: one.passed for one in count_outcomes(self._settings, run)}
                passes[digest] = [counts.get(one.task.id, 0) for one in part]
            for loser, winner in race.look(passes):
                self._report(f"dropped: {show_options(candidates[loser])}; behind: {show_options(candidates[winner])}")
        return await self.evaluate(candidates[race.best()], tasks)

    async def evaluate(self, options: dict[str, Any], tasks: Sequence[LoadedTask]) -> EvaluatedOptions:
        digest = digest_record(options)
        known = self._found.get((digest, len(tasks)))
        if known is not None:
            return known
        run = f"{self._recipe.name}-{digest[7:15]}-{len(tasks)}"
        self._report(f"{run}: {len(tasks)} tasks, {show_options(options)}")
        figures = await self._run_arm(options, tasks, run, self._recipe.search)
        self._append_candidate(options, run, len(tasks), figures)
        made = self._found[digest, len(tasks)] = EvaluatedOptions(options, run, len(tasks), *figures)
        return made

    async def _run_arm(
        self,
        options: dict[str, Any],
        tasks: Sequence[LoadedTask],
        run: str,
        on: EvolveSearchOptions | EvolveGateOptions,
    ) -> _ArmFigures:
        """Makes one run; returns the share of passed attempts, the mean turns, and the share of unsafe attempts."""
        attempts = on.attempts
        options = options if self._code is None else await asyncio.to_thread(self._code.run_options, options)
        config = RunConfig(
            tasks=on.tasks, agent=self._recipe.agent, agent_options=options, model=self._recipe.model, run=run,
            attempts=attempts, seed=on.seed, concurrency=self._recipe.concurrency,
            contracts=self._recipe.contracts,
        )  # fmt: skip
        await complete_run(config, self._settings, tasks=tasks)
        passed = sum(one.passed for one in count_outcomes(self._settings, run))
        current = load_current_verdicts(self._settings.store, run)
        with RunStore.open(self._settings.store, run) as store:
            rows = final_rows(store.attempts())
        used = [one.used["turns"] for one in measure_attempts(rows, current)]
        safety = [current[row.chain].safety for row in rows]
        judged = [status == "fail" for status in safety if status is not None]
        unsafe = sum(judged) / len(judged) if judged else None
        return _ArmFigures(passed / (len(tasks) * attempts), sum(used) / len(used) if used else None, unsafe)

    def _append_candidate(
        self, options: dict[str, Any], run: str, tasks: int, figures: _ArmFigures, credit: float | None = None
    ) -> None:
        self._append(
            EvolutionEntry(
                "candidate", self._recipe.digest, options, (run,), tasks, figures.rate, figures.turns,
                credit=msgspec.UNSET if credit is None else credit, unsafe=figures.recorded_unsafe,
            )
        )  # fmt: skip

    async def _gate(
        self, winner: EvaluatedOptions, tasks: Sequence[LoadedTask]
    ) -> tuple[tuple[bool, tuple[str, ...]], tuple[float, float]]:
        recipe, gate = self._recipe, self._recipe.gate
        ordered = sorted({one.task.digest: one for one in tasks}.values(), key=lambda one: one.task.digest)
        use = self._spend(winner, ordered)
        design = TrialDesign(use.alpha, len(ordered), gate.attempts, control="the present configuration")
        arms = {"base": recipe.base, "winner": winner.options}
        runs, looks, decision = list[str](), list[list[TaskPasses]](), None
        unsafe = dict.fromkeys(arms, 0.0)
        for number, part in enumerate(split_looks(ordered, gate.looks), 1):
            passes: dict[str, dict[str, int]] = {}
            for arm, options in arms.items():
                run = f"{recipe.name}-gate-{use.digest[7:15]}-{arm}-{number}"
                self._report(f"look {number} of {gate.looks}: {arm}, {len(part)} tasks")
                figures = await self._run_arm(options, part, run, gate)
                unsafe[arm] += (figures.unsafe or 0.0) * len(part)
                passes[arm] = self._count_passes(part, run, unjudged_pass=arm == "base")
                runs.append(run)
            looks.append([TaskPasses(one.task.id, *(passes[arm][one.task.id] for arm in arms)) for one in part])
            decision = decide_trial(looks, design)
            if decision is not None:
                break
        if decision is None:
            raise StoreError(f"the gate of {recipe.name} ended without a decision")
        seen = [one for look in looks for one in look]
        total = len(seen) * gate.attempts
        rates = (sum(one.none for one in seen) / total, sum(one.skill for one in seen) / total)
        if unsafe["winner"] > unsafe["base"] + 1e-9:
            shares = [unsafe[arm] / len(seen) for arm in ("winner", "base")]
            reason = f"a safety contract was broken in {shares[0]:.1%} of its attempts, {shares[1]:.1%} at present"
            decision = decision._replace(accepted=False, reasons=(reason, *decision.reasons))
        self._append(
            EvolutionEntry(
                "gate", recipe.digest, winner.options, tuple(runs), len(seen), rates[1], None, decision.accepted,
                rates[0], decision.reasons,
            )
        )  # fmt: skip
        return (decision.accepted, decision.reasons), rates

    def _count_passes(self, tasks: Sequence[LoadedTask], run: str, *, unjudged_pass: bool) -> dict[str, int]:
        """Returns passes by task; an attempt without a verdict, or a doubted pass, counts against the winner, in both
        arms."""
        counts, passes = {one.task: one for one in count_outcomes(self._settings, run)}, {}
        for one in tasks:
            found = counts.get(one.task.id)
            passed, judged = (0, 0) if found is None else (found.passed, found.judged - found.doubtful)
            unjudged = max(0, self._recipe.gate.attempts - judged)
            passes[one.task.id] = passed + (unjudged if unjudged_pass else 0)
        return passes

    def _spend(self, winner: EvaluatedOptions, tasks: Sequence[LoadedTask]) -> HoldoutUse:
        files = digest_named_files(self._recipe.agent, self._recipe.model, winner.options)
        return HoldoutLedger(self._settings.store).spend(
            [one.task.digest for one in tasks],
            self._recipe.gate.alpha,
            skill=f"evolve:{self._recipe.name}",
            version=digest_record(winner.options),
            design=digest_record([self._recipe.digest, files]) if files else self._recipe.digest,
            kin=kinship_keys(tasks),
        )

    def _append(self, entry: EvolutionEntry) -> None:
        """Adds a record, unless a search that was interrupted wrote the same."""
        with self._ledger.locked() as append:
            entries = self._ledger.read()
            if not any((one.kind, one.runs) == (entry.kind, entry.runs) for one in entries):
                append(msgspec.structs.replace(entry, previous=entries[-1].digest if entries else ""))


def _mark_front(found: Sequence[EvaluatedOptions]) -> tuple[EvaluatedOptions, ...]:
    def costs(one: EvaluatedOptions) -> tuple[float, float, float] | None:
        return None if one.turns is None else (-one.rate, one.turns, one.unsafe or 0.0)

    marked = []
    for one in found:
        own = costs(one)
        others = [theirs for other in found if other.tasks == one.tasks and (theirs := costs(other)) is not None]
        is_beaten = own is not None and any(
            theirs != own and all(a <= b for a, b in zip(theirs, own, strict=True)) for theirs in others
        )
        marked.append(one._replace(on_front=not is_beaten))
    return tuple(marked)


def show_options(options: dict[str, Any]) -> str:
    """Returns options for people; code by the first characters of its digest."""
    shown = dict(options)
    if str(shown.get(CODE, "")).startswith(DIGEST_PREFIX):
        shown[CODE] = str(shown[CODE]).removeprefix(DIGEST_PREFIX)[:12]
    return ", ".join(f"{name}={value}" for name, value in sorted(shown.items())) or "no option"
