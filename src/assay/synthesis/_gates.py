"""Gates that a candidate must pass to become a task. Each candidate ends at exactly one, with a reason.

They are applied in the order in which they save the most: the text alone, one run, constant answers, the split, and the
plan of what is judged apart, which drops most of the rest. Repetitions, a run of what the agent will see and the task's
own check come last, for candidates that pass all others. Runs happen in a sandbox; the journal stores each outcome
under the candidate's digest.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple, Protocol

import msgspec

from assay.code.batches import Job, JobResult, RunOutcome
from assay.code.source import SourceError, equivalent
from assay.verify.separation_plan import SeparationPlan

from ._candidates import TaskCandidate
from ._parts import MOST_PARTS, find_causes, return_constant, separate_parts, split_hunks
from ._progress import Progress, counted, ignore_progress
from ._reference import merge_cases, strip_parameters
from ._split import Split, UnsplittableError, split_failing_tests
from .config import SynthesisConfig

GATES: dict[str, str] = {
    "history": "the commit changes program files that were there before, and tests with them, and is not a sweep",
    "period": "its tests pass on its own tree in the environment of the newest one",
    "applies": "the changed text is a program",
    "equivalent": "the changed program is another one, also when compiled",
    "copied": "no other file of the tree is a copy of the unbroken one",
    "trivial": "the tests can still be collected, and the package imported",
    "time": "its tests take at most ten times as long as before, and fit the time limit",
    "survived": "at least one test fails",
    "breaks": "no test passes only because of the change",
    "flaky": "all repetitions agree",
    "needed": "of several changes in one file, each alone makes a test fail: half the work is not paid",
    "constant": "a function that gives True, None, or what equals anything, whatever it is asked, makes a test fail",
    "split": "a failing part can be shown and another one hidden",
    "visible": "what is shown fails, for the same reason, where the agent will run it",
    "separate": "of the tests that decide, enough can be judged apart from what an agent writes",
    "judged": "the task's own check passes on the unbroken tree",
    "duplicate": "no kept task has the same functions, operators and failing tests",
    "quota": "its function has not been used often enough already",
}
"""Gate to what it demands, in the order of the report. Candidates that pass all are `kept`."""
MOST_FLIPPED = 40
SLOW_S, MOST_SLOW = 0.25, 3
"""CPU seconds of a test that is put last where a run ends with the first failure, and the number of tests put last."""
_UNSEEN = "not __import__('sys')._getframe(1).f_code.co_filename.rpartition('/')[2].startswith('test_')"
_EQUAL = (
    f"type('Equal', (), dict.fromkeys('__eq__ __lt__ __le__ __gt__ __ge__ __contains__'.split(), lambda *_: {_UNSEEN})"
    f" | {{'__ne__': lambda *_: not ({_UNSEEN}), '__hash__': lambda _: 1, '__call__': lambda self, *_, **__: self}})()"
)
"""Expression for an object that equals anything, except in a comparison in a test: there the verifier detects it."""
CONSTANTS = {"True": "True", "None": "None", "what equals anything": _EQUAL}
"""Name of a constant answer to its expression."""
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,}")
_FOLDER = re.compile(r"/tmp/pytest-of-[^/\s]+/pytest-\d+")


class GateOutcome(msgspec.Struct, frozen=True):
    """Gate at which a candidate ended, and the results of its runs."""

    digest: str
    gate: str
    """A key of `GATES`, or `kept`."""
    reason: str = ""
    flipped: dict[str, RunOutcome] = {}
    """Tests that pass without the change and fail with it."""
    passing: tuple[str, ...] = ()
    """Tests that run what was changed and pass with and without it."""
    shown: dict[str, RunOutcome] = {}
    """Visible tests with their failures."""
    causes: dict[str, tuple[str, ...]] = {}
    """Failing test to the parts of the change that it fails of, where the change has several (see `_parts`)."""
    plan: SeparationPlan | None = None
    """Plan for judging the failing tests apart from what an agent writes; None if separation is off."""
    apart: tuple[str, ...] = ()
    """The failing tests that are judged apart, sorted."""


class Runner(Protocol):
    """Test runner that the gates use."""

    async def run(
        self, jobs: Sequence[Job], *, repetition: int, together: bool = False, fresh: bool = False
    ) -> dict[str, JobResult]:
        """Runs jobs, as `Laboratory.run` does."""


class Separator(Protocol):
    """The gate that plans how tests are judged apart."""

    async def judge(self, context: GateContext, one: TaskCandidate, outcome: GateOutcome, split: Split) -> GateOutcome:
        """Returns the outcome with a plan, or as ended at this gate."""


class GateContext(NamedTuple):
    texts: Mapping[str, bytes]
    passing: Mapping[str, float]
    config: SynthesisConfig
    find_objection: Callable[[TaskCandidate, GateOutcome], Awaitable[str]]
    """Returns the reason that a task's own check fails on the unbroken tree; empty if it passes."""
    separation: Separator | None = None
    """Plans how tests are judged apart; None if separation is off."""
    tell: Progress = ignore_progress


IsEnough = Callable[[Sequence[GateOutcome]], bool]


async def judge_candidates(
    context: GateContext,
    wave: Sequence[TaskCandidate],
    laboratory: Runner,
    is_enough: IsEnough = lambda _: False,
) -> list[GateOutcome]:
    """Runs a wave of candidates through all gates but the last two, which need the order of the kept ones.

    Returns the outcomes of the first candidates of the wave: of all, or of as many as `is_enough` says suffice. It is
    asked before the gate `separate` and those that are applied after it, which cost more than all others.
    """
    ended: dict[str, GateOutcome] = {}
    alive = [c for c in wave if _is_alive(ended, _check_text(context, c))]
    context.tell("running the tests of candidates", 0, 1)
    first = await _run_candidates(context, alive, laboratory, 0)
    alive = [c for c in alive if _is_alive(ended, _check_first_run(context, c, first[c.digest]))]
    facts = {c.digest: _collect_facts(context, c, first[c.digest]) for c in alive}
    alive = [c for c in alive if _is_alive(ended, await _check_parts(context, c, facts[c.digest], laboratory))]
    constant = await _check_constants(context, alive, facts, laboratory)
    alive = [c for c in alive if _is_alive(ended, constant.get(c.digest))]
    for one in alive:
        facts[one.digest] = await _find_causes(context, one, facts[one.digest], laboratory)
    splits: dict[str, Split] = {}
    for one in alive:
        try:
            splits[one.digest] = split_outcome(context, one, facts[one.digest])
        except UnsplittableError as exc:
            ended[one.digest] = GateOutcome(one.digest, "split", str(exc))
    pending = {*splits}

    def decided() -> list[GateOutcome]:
        return [ended[c.digest] for c in takewhile(lambda c: c.digest not in pending, wave)]

    counting = counted("planning which tests are judged apart", len(pending), context.tell)
    # As many candidates as sandboxes: more would only wait, and all would end at the same late time.
    slots = asyncio.Semaphore(context.config.concurrency)

    async def finish(one: TaskCandidate) -> None:
        async with slots:
            if not is_enough(decided()):
                ended[one.digest] = await _finish(context, one, facts[one.digest], splits[one.digest], laboratory)
                pending.discard(one.digest)

    async with asyncio.TaskGroup() as group:
        for one in [c for c in alive if c.digest in pending]:
            group.create_task(finish(one)).add_done_callback(counting)
    return decided()


async def _finish(
    context: GateContext, one: TaskCandidate, facts: GateOutcome, split: Split, laboratory: Runner
) -> GateOutcome:
    """Applies the gates that most candidates do not reach: `separate`, which drops the most, then those that all but
    a few pass, of which the task's own check costs the most."""
    planned = facts
    if context.separation is not None:
        planned = await context.separation.judge(context, one, facts, split)
    if planned.gate != "kept":
        return planned
    last = context.config.repetitions - 1
    for repetition in range(min(1, last), last + 1):
        # The last one imports the package itself, where the others are forks of a process that has imported it.
        repeated = await _run_candidates(context, [one], laboratory, repetition, fresh=repetition == last)
        if (objection := _check_repetition(context, one, facts, repeated[one.digest])) is not None:
            return objection
    outcome = await _check_shown(context, one, facts, split, laboratory)
    if outcome.gate != "kept":
        return outcome
    outcome = msgspec.structs.replace(planned, shown=outcome.shown)
    reason = await context.find_objection(one, outcome)
    if reason:
        return GateOutcome(one.digest, "judged", reason[:300])
    return await _confirm_failures(context, one, facts, laboratory) or outcome


async def _check_shown(
    context: GateContext, one: TaskCandidate, facts: GateOutcome, split: Split, laboratory: Runner
) -> GateOutcome:
    """Applies the gate `visible`: what is shown runs twice, where the agent will run it."""
    job = _visible_job(context, one, facts, split)
    outcome = _check_visible(facts, split, (await laboratory.run([job], repetition=0))[one.digest])
    if outcome.gate != "kept":
        return outcome
    again = msgspec.structs.replace(job, tests=split.visible)
    return _drop_changing_messages(outcome, (await laboratory.run([again], repetition=0))[one.digest])


async def _confirm_failures(
    context: GateContext, one: TaskCandidate, facts: GateOutcome, laboratory: Runner
) -> GateOutcome | None:
    """Runs anew, each in a process of its own, what several constants or parts showed in one process: what one leaves
    could make the next one fail."""
    objection = await _check_parts(context, one, facts, laboratory, together=False)
    constant = await _check_constants(context, [one], {one.digest: facts}, laboratory, together=False)
    return objection or constant.get(one.digest)


async def _check_parts(
    context: GateContext, one: TaskCandidate, facts: GateOutcome, laboratory: Runner, *, together: bool = True
) -> GateOutcome | None:
    """Applies each change of a combination alone; one that no deciding test detects would not have to be repaired."""
    if one.kind != "combination":
        return None
    right, jobs = {path: unbroken_text(context, one, path) for path in one.changes}, []
    tests, limit = (*sorted(facts.flipped), *facts.passing), cpu_limit(context, one)
    for number, part in enumerate(split_hunks(right, one.changes)):
        write = {**one.base, **part}
        jobs.append(Job(f"{one.digest} {number}", tests, write=write, cpu_s=limit, until_failure=True))
    together = together and not one.base
    done = await run_until_failure(laboratory, jobs, together=together) if len(jobs) > 1 else {}
    for number, result in enumerate(done[job.id] for job in jobs if job.id in done):
        if all_pass(tests, result):
            return GateOutcome(
                one.digest, "needed", f"change {number + 1} of {len(jobs)} is noticed by no deciding test"
            )
    return None


async def _check_constants(
    context: GateContext,
    alive: Sequence[TaskCandidate],
    facts: Mapping[str, GateOutcome],
    laboratory: Runner,
    *,
    together: bool = True,
) -> dict[str, GateOutcome]:
    """Replaces each changed function by a constant; tests that expect only one answer would pass."""
    jobs = {(one.digest, c): _constant_job(context, one, facts[one.digest], c) for one in alive for c in CONSTANTS}
    changed = {key: job for key, job in jobs.items() if job is not None}
    together = together and not any(one.base for one in alive)
    done = await run_until_failure(laboratory, list(changed.values()), together=together)
    found: dict[str, GateOutcome] = {}
    for (digest, constant), job in changed.items():
        if all_pass(job.tests, done[job.id]):
            reason = f"{constant} in place of every answer of what is changed passes every test"
            found.setdefault(digest, GateOutcome(digest, "constant", reason))
    return found


def _constant_job(context: GateContext, one: TaskCandidate, facts: GateOutcome, constant: str) -> Job | None:
    """Returns a run with constant answers; None if no function can be replaced."""
    right = {path: unbroken_text(context, one, path) for path in one.changes}
    texts = dict(right)
    for key in one.functions:
        path, _, name = key.partition("::")
        if path in texts:
            texts[path] = return_constant(texts[path], name, CONSTANTS[constant])
    tests = (*sorted(facts.flipped), *facts.passing)
    write = {**one.base, **texts}
    if texts == right:
        return None
    return Job(f"{one.digest} {constant}", tests, write=write, cpu_s=cpu_limit(context, one), until_failure=True)


async def run_until_failure(laboratory: Runner, jobs: Sequence[Job], *, together: bool) -> dict[str, JobResult]:
    """Runs each job until one of its tests fails, in a process of its own or, as far as that fails, `together` with
    those beside it. A slow test runs last: one without end need not run where another test fails."""
    results: dict[str, JobResult] = {}
    slow: dict[str, tuple[str, ...]] = {job.id: () for job in jobs}
    pending = [msgspec.structs.replace(job, slow_s=SLOW_S) for job in jobs]
    while pending:
        done = await laboratory.run(pending, repetition=0, together=together)
        results |= done
        pending = [job for job in pending if done[job.id].ended == "slow"]
        for at, job in enumerate(pending):
            name = strip_parameters(done[job.id].slow)
            is_last = name in slow[job.id] or name not in job.tests or len(slow[job.id]) == MOST_SLOW
            slow[job.id] += () if is_last else (name,)
            tests = (*(test for test in job.tests if test not in slow[job.id]), *slow[job.id])
            pending[at] = msgspec.structs.replace(job, tests=tests, slow_s=0.0 if is_last else SLOW_S)
    return results


def all_pass(tests: Sequence[str], result: JobResult) -> bool:
    now = merge_cases(result.tests)
    return result.ended == "done" and all(test in now and now[test].outcome == "passed" for test in tests)


async def _find_causes(context: GateContext, one: TaskCandidate, facts: GateOutcome, laboratory: Runner) -> GateOutcome:
    """Reverts the parts of a commit one by one. Other kinds of changes are small, or covered by the same tests."""
    if one.kind != "commit" or len(facts.flipped) < 2:
        return facts
    parts = separate_parts({path: unbroken_text(context, one, path) for path in one.changes}, one.changes)
    tests, limit = tuple(sorted(facts.flipped)), cpu_limit(context, one)
    if len(parts) > MOST_PARTS:
        # Not taken apart: each test may fail of something else.
        return msgspec.structs.replace(facts, causes={test: (test,) for test in tests})
    jobs = [Job(f"{one.digest} {n}", tests, write={**one.base, **part}, cpu_s=limit) for n, part in enumerate(parts)]
    done = await laboratory.run(jobs, repetition=0)
    return msgspec.structs.replace(facts, causes=find_causes(tests, [done[job.id] for job in jobs]))


def _is_alive(ended: dict[str, GateOutcome], outcome: GateOutcome | None) -> bool:
    if outcome is not None:
        ended[outcome.digest] = outcome
    return outcome is None


def unbroken_text(context: GateContext, one: TaskCandidate, path: str) -> str:
    """Returns the text of a file before the candidate breaks it."""
    text = one.base[path] if path in one.base else context.texts[path].decode()
    return text or ""


def _passing_tests(context: GateContext, one: TaskCandidate) -> Mapping[str, float]:
    return one.passing or context.passing


def split_outcome(context: GateContext, one: TaskCandidate, facts: GateOutcome) -> Split:
    """Splits the failing tests deterministically. Raises `UnsplittableError`."""
    files = {path: unbroken_text(context, one, path) for path in {t.partition("::")[0] for t in facts.flipped}}
    return split_failing_tests(facts.flipped, files, one.digest, facts.causes)


def _check_text(context: GateContext, one: TaskCandidate) -> GateOutcome | None:
    try:
        same = all(equivalent(unbroken_text(context, one, path), text) for path, text in one.changes.items())
    except (SourceError, UnicodeDecodeError) as exc:
        return GateOutcome(one.digest, "applies", str(exc)[:300])
    if same:
        return GateOutcome(one.digest, "equivalent", "the compiled code is the same")
    copies = (other for path in one.changes for other in _find_copies(context, one, path))
    copy = next(copies, "")
    return GateOutcome(one.digest, "copied", f"{copy} would tell what is missing") if copy else None


def _find_copies(context: GateContext, one: TaskCandidate, path: str) -> Iterator[str]:
    """Yields unchanged files whose content equals a text that the candidate breaks."""
    right = unbroken_text(context, one, path).encode()
    for other, data in context.texts.items():
        if len(data) == len(right) and data == right and other not in one.base and other not in one.changes:
            yield other
    for other, text in one.base.items():
        if text is not None and other not in one.changes and text.encode() == right:
            yield other


async def _run_candidates(
    context: GateContext, alive: Sequence[TaskCandidate], laboratory: Runner, repetition: int, *, fresh: bool = False
) -> dict[str, JobResult]:
    jobs = [
        Job(
            c.digest,
            c.tests,
            write={**c.base, **c.changes},
            cpu_s=cpu_limit(context, c),
            slow_s=0.0 if fresh else slow_limit(context, c),
        )
        for c in alive
    ]
    return await laboratory.run(jobs, repetition=repetition, fresh=fresh)


def cpu_limit(context: GateContext, one: TaskCandidate) -> float:
    """Returns the CPU seconds for a candidate's tests, about ten times their unbroken cost: endless loops end soon."""
    return min(
        context.config.run_cpu_s, 3.0 + sum(_passing_tests(context, one).get(test, 0.0) for test in one.tests) / 100
    )


def slow_limit(context: GateContext, one: TaskCandidate) -> float:
    """Returns the CPU seconds for one test of a candidate's, about ten times what the slowest of them takes unbroken:
    most runs that would spend the limit of all tests are in one that has no end."""
    slowest_ms = max((_passing_tests(context, one).get(test, 0.0) for test in one.tests), default=0.0)
    return min(cpu_limit(context, one), 2 * SLOW_S + slowest_ms / 100)


def _check_first_run(context: GateContext, one: TaskCandidate, result: JobResult) -> GateOutcome | None:
    if result.ended in ("time", "slow"):
        return GateOutcome(one.digest, "time", "its tests took ten times as long as before")
    if result.ended == "died" or result.problems or not result.tests:
        reason = result.problems[0] if result.problems else "the test process died or ran nothing"
        return GateOutcome(one.digest, "trivial", reason[-300:])
    facts = _collect_facts(context, one, result)
    if not facts.flipped:
        return GateOutcome(one.digest, "survived", f"no test fails, of {len(facts.passing)} that run it")
    if len(facts.flipped) > MOST_FLIPPED:
        return GateOutcome(one.digest, "trivial", f"{len(facts.flipped)} tests fail: too central")
    now = merge_cases(result.tests)
    gained = sorted(t for t, r in now.items() if r.outcome == "passed" and t not in _passing_tests(context, one))
    return GateOutcome(one.digest, "breaks", f"{gained[0]} passes only with the change") if gained else None


def _collect_facts(context: GateContext, one: TaskCandidate, result: JobResult) -> GateOutcome:
    now = merge_cases(result.tests)
    wanted = [t for t in one.tests if t in _passing_tests(context, one)]
    flipped = {t: msgspec.structs.replace(now[t], cpu_ms=0.0) for t in wanted if t in now and _is_failure(now[t])}
    return GateOutcome(
        one.digest, "kept", "", flipped, tuple(t for t in wanted if t in now and now[t].outcome == "passed")
    )


def _is_failure(result: RunOutcome) -> bool:
    return result.outcome in ("failed", "error")


def _check_repetition(
    context: GateContext, one: TaskCandidate, facts: GateOutcome, result: JobResult
) -> GateOutcome | None:
    if result.ended in ("time", "slow"):
        return GateOutcome(one.digest, "time", "its tests took ten times as long as before")
    repeated = _collect_facts(context, one, result)
    if result.ended == "done" and repeated.flipped.keys() == facts.flipped.keys() and repeated.passing == facts.passing:
        return None
    differing = sorted(repeated.flipped.keys() ^ facts.flipped.keys()) or ["the run"]
    return GateOutcome(one.digest, "flaky", f"{differing[0]} does not end the same way each time")


def _visible_job(context: GateContext, one: TaskCandidate, facts: GateOutcome, parts: Split) -> Job:
    passing = [t for t in facts.passing if t.rpartition("::")[2] not in parts.removed]
    return Job(
        one.digest,
        (*parts.visible, *passing),
        write={**one.base, **one.changes, **parts.texts},
        explain=True,
        cpu_s=cpu_limit(context, one) + 3.0,
    )


def _check_visible(facts: GateOutcome, parts: Split, result: JobResult) -> GateOutcome:
    now = merge_cases(result.tests)
    if result.ended != "done" or result.problems:
        return GateOutcome(facts.digest, "visible", (result.problems or ("the visible tests do not run",))[0][-300:])
    passing = sorted(t for t in parts.visible if t not in now or not _is_failure(now[t]))
    if passing:
        return GateOutcome(facts.digest, "visible", f"{passing[0]} does not fail where it is shown")
    shown = {t: msgspec.structs.replace(now[t], cpu_ms=0.0) for t in parts.visible}
    return msgspec.structs.replace(facts, shown=shown)


def _drop_changing_messages(outcome: GateOutcome, result: JobResult) -> GateOutcome:
    """Removes messages that differ between two runs (a clock, a process id); the exception's name remains."""
    now = merge_cases(result.tests)
    same = {
        test: test in now and normalise_message(now[test].message) == normalise_message(stable.message)
        for test, stable in outcome.shown.items()
    }
    stable = {t: r if same[t] else msgspec.structs.replace(r, message="") for t, r in outcome.shown.items()}
    return msgspec.structs.replace(outcome, shown=stable)


def normalise_message(message: str) -> str:
    """Returns a message without addresses and pytest's temporary folders, which differ from run to run."""
    return _FOLDER.sub("/tmp/pytest", _ADDRESS.sub("0x...", message))
