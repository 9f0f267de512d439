"""Program repair without a model: localises the fault by a coverage spectrum, then searches.

It runs the visible tests named by the instruction, ranks the covered lines by Ochiai, tries inverse mutation operators
there in batches, keeps an edit that makes fewer tests fail and none newly, and stops when all pass or its budget is
spent. The budget counts evaluations, not seconds, so one seed gives one outcome.

Evaluations run in a fork of the workspace, so that only kept edits reach the final state.

Its operators are those that tasks are mutated with, so its rate on such tasks is a self-check of the pipeline, not a
score. It cannot write missing code (a feature, a dropped statement).

A skill may say how likely each operator is: rules such as `- comparison swapped: 2.1 times as likely as a random act`.
"""

from __future__ import annotations

import random
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec

from assay.code.batches import Job, JobBatch, JobResult, RunOutcome, read_reply, write_request
from assay.code.operators import apply
from assay.environments.interface import Workspace
from assay.environments.payload import FORKED_TESTS
from assay.errors import AgentError, TaskError, UserError
from assay.records import Task

from ._options import read_options
from ._repair_search import (
    LIKELIHOOD,
    Edit,
    State,
    edit_key,
    has_failures,
    likelihoods_of,
    rank_edits,
    rank_suspects,
    state_of_run,
)
from ._skill_text import read_skill_text, skill_evidence
from .interface import Attempt
from .text_rules import parse_rules

HOME = "/tmp/repair"
EDIT = """import pathlib, sys
path, start, before, after = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
text = path.read_bytes().decode()
assert text[start : start + len(before)] == before
path.write_bytes((text[:start] + after + text[start + len(before) :]).encode())
"""
FIND = "find . -name 'test_*.py' -o -name '*_test.py' | sort | head -20"


class _Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    budget: Annotated[int, msgspec.Meta(ge=1)] = 40
    """Evaluations of the visible tests, including the first."""
    batch: Annotated[int, msgspec.Meta(ge=1)] = 20
    """Maximum evaluations per step."""
    cpu_s: Annotated[float, msgspec.Meta(gt=0)] = 3.0
    """Maximum CPU seconds of the failing tests, and of the rest, in one evaluation before it counts as failed."""
    skill: str = ""
    """Folder of an Agent Skill, or its SKILL.md, whose rules say how likely each operator is; empty for the agent's own
    table."""


class RepairAgent:
    """Searches for a repair. Options: `budget`, `batch`, `cpu_s`, `skill`."""

    name = "repair"
    needs_model = False

    def __init__(self, **options: Any) -> None:
        self._options = read_options(_Options, options, self.name)
        self._text = read_skill_text(Path(self._options.skill)) if self._options.skill else ""
        self._rules = parse_rules(self._text)
        self._likelihoods = likelihoods_of(self._rules)
        if self._text and not any(name.replace("_", " ") in self._rules for name in LIKELIHOOD):
            raise UserError(
                f"{self._options.skill} holds no rule that the agent {self.name!r} can follow: a rule is a line such "
                "as '- comparison swapped: 2.1000 times as likely as a random act', and names one of its operators"
            )

    async def run(self, attempt: Attempt) -> None:
        """Searches for a repair. Raises `TaskError` if the environment has no shell."""
        if attempt.workspace is None:
            raise TaskError(f"task {attempt.task.id!r}: the environment {attempt.task.environment.kind!r} has no shell")
        if self._text:
            attempt.note(skill_evidence(self._text, len(self._rules)))
        fork = await attempt.workspace.fork()
        try:
            await _Search(attempt, fork, self._options, self._likelihoods).run()
        finally:
            await fork.close()


def visible_tests(task: Task) -> tuple[str, ...]:
    """Returns the test files that the instruction runs with pytest; empty if it names none."""
    texts = [task.instruction] if isinstance(task.instruction, str) else [str(m.content) for m in task.instruction]
    found: dict[str, None] = {}
    for text in texts:
        for match in re.finditer(r"pytest\b([^\n`]*)", text):
            try:
                words = shlex.split(match[1])
            except ValueError:
                continue
            found.update(dict.fromkeys(w for w in words if re.fullmatch(r"[\w./-]+\.py(::[\w:]+)?", w)))
    return tuple(found)


class _Search:
    """Search of one attempt; `fork` is where everything is tried."""

    def __init__(self, attempt: Attempt, fork: Workspace, options: _Options, likelihoods: Mapping[str, float]) -> None:
        self._attempt, self._likelihoods = attempt, likelihoods
        self._fork = fork
        self._options = options
        self._rng = random.Random(attempt.seed)
        self._left = options.budget
        self._root = fork.spec.workdir
        self._tests: tuple[str, ...] = ()

    async def run(self) -> None:
        """Searches until the visible tests pass or the budget is spent."""
        for program in FORKED_TESTS:
            await self._fork.write(f"{HOME}/{program.name}", program.read_bytes())
        self._tests = visible_tests(self._attempt.task) or await self._find_tests()
        state = await self._measure("run the visible tests and note which lines they run")
        tried: set[tuple[str, str]] = set()
        while has_failures(state) and self._left > 1:  # the last one confirms what is kept
            better = await self._try_batch(state, tried)
            if better is None:
                break
            if isinstance(better, Edit):
                kept = await self._keep(better, state)
                state, tried = (kept, set()) if kept is not None else (state, tried)
        self._attempt.finish(self._closing(state))

    def _closing(self, state: State) -> str:
        spent = f"after {self._options.budget - self._left} evaluations"
        if not has_failures(state):
            return f"all visible tests pass {spent}"
        if state.failed:
            return f"{len(state.failed)} visible tests still fail {spent}"
        return f"the visible tests cannot be run: {(*state.result.problems, state.result.ended)[0][-300:]}"

    async def _find_tests(self) -> tuple[str, ...]:
        found = await self._attempt.shell(["sh", "-c", FIND], message="look for tests", fork=self._fork)
        return tuple(line.removeprefix("./") for line in found.stdout.splitlines() if line.endswith(".py"))

    async def _measure(self, message: str) -> State:
        """Runs the visible tests unchanged, in a fresh process, with line coverage."""
        self._left -= 1
        job = Job("now", self._placed(), measure=True, cpu_s=20 * self._options.cpu_s)
        (result,) = await self._run([job], message, warm=False)
        covered = {
            test: {path.removeprefix(self._root + "/"): lines for path, lines in files.items()}
            for test, files in result.covered.items()
        }
        return state_of_run(msgspec.structs.replace(result, covered=covered, tests=self._relative(result)))

    def _relative(self, result: JobResult) -> dict[str, RunOutcome]:
        prefix = self._root + "/"
        return {
            test: msgspec.structs.replace(
                outcome, frames=tuple((path.removeprefix(prefix), line) for path, line in outcome.frames)
            )
            for test, outcome in result.tests.items()
        }

    def _placed(self) -> tuple[str, ...]:
        return tuple(f"{self._root}/{test}" for test in self._tests)

    async def _try_batch(self, state: State, tried: set[tuple[str, str]]) -> Edit | bool | None:
        """Tries the next edits: returns the best helpful one, True if none helps, None if none is left."""
        ranked = rank_suspects(state, self._rng)
        texts = await self._read({suspect.line.path for suspect in ranked})
        chosen = rank_edits(ranked, texts, tried, self._rng, self._likelihoods)[
            : min(self._options.batch, self._left - 1)
        ]
        if not chosen:
            return None
        jobs = [self._job(str(index), edit, texts, state) for index, edit in enumerate(chosen)]
        message = f"try up to {len(jobs)} changes on the most suspicious lines"
        results = await self._run(jobs, message, warm=True)
        chosen = chosen[: len(results)]
        self._left -= len(chosen)
        tried.update(map(edit_key, chosen))
        gains: list[tuple[int, int, Edit]] = []
        for edit, result in zip(chosen, results, strict=False):
            now = state_of_run(result)
            complete = result.ended == "done" and not result.problems and state.passed <= now.passed
            if complete and len(now.failed) < len(state.failed):
                gains.append((len(now.failed), len(gains), edit))
        return min(gains)[2] if gains else True

    def _job(self, name: str, edit: Edit, texts: dict[str, str], state: State) -> Job:
        write: dict[str, str | None] = {f"{self._root}/{edit.path}": apply(texts[edit.path], edit.site)}
        return Job(
            name,
            self._placed(),
            write=write,
            give_up_on=tuple(sorted(state.failed)),
            # Limits that follow the measured CPU time would decide otherwise on a busy host.
            cpu_s=self._options.cpu_s,
            more_cpu_s=self._options.cpu_s,
        )

    async def _keep(self, edit: Edit, before: State) -> State | None:
        """Applies an edit in the fork and, if a fresh process confirms it, to the workspace; else returns None."""
        await self._fork.exec(self._command(edit, edit.site.before, edit.site.text))
        state = await self._measure(f"run the visible tests again with {edit.describe()}")
        if state.passed >= before.passed and len(state.failed) < len(before.failed):
            return await self._make(edit, state)
        await self._fork.exec(self._command(edit, edit.site.text, edit.site.before))
        return None

    async def _make(self, edit: Edit, state: State) -> State:
        command = self._command(edit, edit.site.before, edit.site.text)
        done = await self._attempt.shell(command, message=f"keep a change: {edit.describe()}")
        if done.exit_code != 0:
            raise AgentError(f"a change that helps could not be written to {edit.path}: {done.stderr.strip()[-300:]}")
        return state

    def _command(self, edit: Edit, before: str, after: str) -> list[str]:
        return ["python3", "-I", "-c", EDIT, f"{self._root}/{edit.path}", str(edit.site.start), before, after]

    async def _read(self, paths: set[str]) -> dict[str, str]:
        texts: dict[str, str] = {}
        for path in sorted(paths):
            try:
                texts[path] = (await self._fork.read(f"{self._root}/{path}", limit=2_000_000)).decode()
            except (OSError, ValueError):
                continue
        return texts

    async def _run(self, jobs: Sequence[Job], message: str, *, warm: bool) -> tuple[JobResult, ...]:
        """Evaluates; jobs that the runner did not reach are missing at the end."""
        batch = JobBatch(
            jobs=tuple(jobs),
            root=self._root,
            paths=(self._root, f"{self._root}/src"),
            cover=(self._root,),
            stop_when_green=warm,
            warm=warm,
        )
        await self._fork.write(f"{HOME}/request.json", write_request(batch))
        command = ["env", "PYTHONHASHSEED=0", "PYTHONDONTWRITEBYTECODE=1", "python3", f"{HOME}/{FORKED_TESTS[0].name}"]
        limit = sum(job.cpu_s for job in jobs) * 3 + 120
        await self._attempt.shell(
            [*command, f"{HOME}/request.json", f"{HOME}/reply.json"], message=message, timeout_s=limit, fork=self._fork
        )
        try:
            found = read_reply(await self._fork.read(f"{HOME}/reply.json", limit=128 * 1024 * 1024))
        except (OSError, ValueError):
            found = ()
        return found or tuple(JobResult(job.id, "died") for job in jobs)
