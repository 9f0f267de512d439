"""The gates that a candidate must pass to become a task. Each candidate ends at exactly one, with a reason.

The order is of cost: what the text alone shows, then one run, then the repetitions, then the split and a look at what
the agent will see. A gate's answer rests on runs in a sandbox; the journal keeps it under the candidate's digest.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from assay.code.batches import Job, JobResult, RunOutcome
from assay.code.source import SourceError, equivalent
from assay.verify.separation_plan import SeparationPlan

from ._candidates import Candidate
from ._parts import MOST_PARTS, causes_of, separate, single_hunks, with_constant
from ._reference import outcomes
from ._split import Split, Unsplittable, split
from .config import SynthesisConfig

__all__ = ["GATES", "Given", "Journal", "Outcome", "Runner", "all_pass", "cpu_limit", "judge", "plain", "unbroken"]

GATES: dict[str, str] = {
    "history": "the commit changes program files that were there before, and tests with them, and is no sweep",
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
"""Gate to what it demands, in order. Candidates that pass all are `kept`."""
MOST_FLIPPED = 40
_UNSEEN = "not __import__('sys')._getframe(1).f_code.co_filename.rpartition('/')[2].startswith('test_')"
_EQUAL = (
    f"type('Equal', (), dict.fromkeys('__eq__ __lt__ __le__ __gt__ __ge__ __contains__'.split(), lambda *_: {_UNSEEN})"
    f" | {{'__ne__': lambda *_: not ({_UNSEEN}), '__hash__': lambda _: 1, '__call__': lambda self, *_, **__: self}})()"
)
"""Equal to anything but in a comparison that a test itself makes: there the verifier finds such objects."""
CONSTANTS = {"True": "True", "None": "None", "what equals anything": _EQUAL}
"""What is put in the place of answers: in words, and as an expression."""
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,}")
_FOLDER = re.compile(r"/tmp/pytest-of-[^/\s]+/pytest-\d+")


class Outcome(msgspec.Struct, frozen=True):
    """Where a candidate ended, and what the runs showed."""

    digest: str
    gate: str
    """A key of `GATES`, or `kept`."""
    reason: str = ""
    flipped: dict[str, RunOutcome] = {}
    """Tests that pass without the change and fail with it."""
    passing: tuple[str, ...] = ()
    """Tests that run what was changed and pass with and without it."""
    shown: dict[str, RunOutcome] = {}
    """How the visible tests fail."""
    causes: dict[str, tuple[str, ...]] = {}
    """Failing test to the parts of the change that it fails of, where the change has several (see `_parts`)."""
    plan: SeparationPlan | None = None
    """How the failing tests are judged apart from what an agent writes; None where that was not looked at."""
    apart: tuple[str, ...] = ()
    """The failing tests that are judged apart, sorted."""


class Runner(Protocol):
    """What the gates need of a laboratory."""

    async def run(self, jobs: Sequence[Job], *, repetition: int) -> dict[str, JobResult]: ...


class Journal:
    """Outcomes by candidate digest, one JSON line each; a line that was cut by a kill is ignored."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._known: dict[str, Outcome] = {}
        if path is not None and path.exists():
            for line in path.read_bytes().splitlines():
                try:
                    outcome = msgspec.json.decode(line, type=Outcome)
                except msgspec.MsgspecError:
                    continue
                self._known[outcome.digest] = outcome

    def get(self, digest: str) -> Outcome | None:
        """The outcome of an earlier run."""
        return self._known.get(digest)

    def add(self, outcomes_: Sequence[Outcome]) -> None:
        """Keeps outcomes; they are on disk when this returns."""
        for outcome in outcomes_:
            self._known[outcome.digest] = outcome
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("ab") as file:
                if file.tell():
                    file.write(b"\n")
                file.write(b"\n".join(msgspec.json.encode(o) for o in outcomes_))


class Separator(Protocol):
    """The gate that plans how tests are judged apart."""

    async def judge(
        self, given: Given, alive: Sequence[Candidate], outcomes: Mapping[str, Outcome], splits: Mapping[str, Split]
    ) -> dict[str, Outcome]:
        """Returns the outcomes with a plan each, or as ended at this gate."""
        ...


class Given(NamedTuple):
    """What does not change from candidate to candidate."""

    texts: Mapping[str, bytes]
    passing: Mapping[str, float]
    config: SynthesisConfig
    objection: Callable[[Candidate, Outcome], Awaitable[str]]
    """Why a task's own check does not pass on the unbroken tree; empty where it does."""
    separation: Separator | None = None
    """Plans how tests are judged apart; None: that is not looked at."""


async def judge(given: Given, wave: Sequence[Candidate], laboratory: Runner) -> list[Outcome]:
    """Runs a wave of candidates through all gates but the last two, which need the order of the kept ones."""
    ended: dict[str, Outcome] = {}
    alive = [c for c in wave if _record(ended, _by_text(given, c))]
    first = await _run(given, alive, laboratory, 0)
    alive = [c for c in alive if _record(ended, _by_first_run(given, c, first[c.digest]))]
    facts = {c.digest: _facts(given, c, first[c.digest]) for c in alive}
    for repetition in range(1, given.config.repetitions):
        again = await _run(given, alive, laboratory, repetition)
        alive = [c for c in alive if _record(ended, _by_repetition(given, c, facts[c.digest], again[c.digest]))]
    alive = [c for c in alive if _record(ended, await _by_parts(given, c, facts[c.digest], laboratory))]
    constant = await _by_constants(given, alive, facts, laboratory)
    alive = [c for c in alive if _record(ended, constant.get(c.digest))]
    for one in alive:
        facts[one.digest] = await _with_causes(given, one, facts[one.digest], laboratory)
    splits: dict[str, Split] = {}
    for one in alive:
        try:
            splits[one.digest] = split_of(given, one, facts[one.digest])
        except Unsplittable as exc:
            ended[one.digest] = Outcome(one.digest, "split", str(exc))
    alive = [c for c in alive if c.digest in splits]
    seen = [_visible_job(given, c, facts[c.digest], splits[c.digest]) for c in alive]
    shown = await laboratory.run(seen, repetition=0)
    for one in alive:
        ended[one.digest] = _by_visible(facts[one.digest], splits[one.digest], shown[one.digest])
    alive = [c for c in alive if ended[c.digest].gate == "kept"]
    once_more = [msgspec.structs.replace(j, tests=splits[j.id].visible) for j in seen if ended[j.id].gate == "kept"]
    for digest, result in (await laboratory.run(once_more, repetition=0)).items():
        ended[digest] = _by_second_look(ended[digest], result)
    if given.separation is not None:
        ended |= await given.separation.judge(given, alive, ended, splits)
        alive = [c for c in alive if ended[c.digest].gate == "kept"]
    async with asyncio.TaskGroup() as group:
        for one in alive:
            group.create_task(_by_judge(given, one, ended))
    return [ended[c.digest] for c in wave]


async def _by_parts(given: Given, one: Candidate, facts: Outcome, laboratory: Runner) -> Outcome | None:
    """Makes each change of a combination alone: one that no deciding test notices could be left as it is."""
    if one.kind != "combination":
        return None
    right, jobs = {path: unbroken(given, one, path) for path in one.changes}, []
    tests, limit = (*sorted(facts.flipped), *facts.passing), cpu_limit(given, one)
    for number, part in enumerate(single_hunks(right, one.changes)):
        jobs.append(Job(f"{one.digest} {number}", tests, write={**one.base, **part}, cpu_s=limit))
    done = await laboratory.run(jobs, repetition=0) if len(jobs) > 1 else {}
    for number, result in enumerate(done[job.id] for job in jobs if job.id in done):
        if all_pass(tests, result):
            return Outcome(one.digest, "needed", f"change {number + 1} of {len(jobs)} is noticed by no deciding test")
    return None


async def _by_constants(
    given: Given, alive: Sequence[Candidate], facts: Mapping[str, Outcome], laboratory: Runner
) -> dict[str, Outcome]:
    """Puts a constant in the place of each function that is changed: tests that want one answer alone see nothing."""
    jobs = {(one.digest, c): _constant_job(given, one, facts[one.digest], c) for one in alive for c in CONSTANTS}
    changed = {key: job for key, job in jobs.items() if job is not None}
    done = await laboratory.run(list(changed.values()), repetition=0)
    found: dict[str, Outcome] = {}
    for (digest, constant), job in changed.items():
        if all_pass(job.tests, done[job.id]):
            reason = f"{constant} in place of every answer of what is changed passes every test"
            found.setdefault(digest, Outcome(digest, "constant", reason))
    return found


def _constant_job(given: Given, one: Candidate, facts: Outcome, constant: str) -> Job | None:
    """None where nothing can be put there."""
    right = {path: unbroken(given, one, path) for path in one.changes}
    texts = dict(right)
    for key in one.functions:
        path, _, name = key.partition("::")
        if path in texts:
            texts[path] = with_constant(texts[path], name, CONSTANTS[constant])
    tests = (*sorted(facts.flipped), *facts.passing)
    write = {**one.base, **texts}
    return Job(f"{one.digest} {constant}", tests, write=write, cpu_s=cpu_limit(given, one)) if texts != right else None


def all_pass(tests: Sequence[str], result: JobResult) -> bool:
    now = outcomes(result.tests)
    return result.ended == "done" and all(test in now and now[test].outcome == "passed" for test in tests)


async def _with_causes(given: Given, one: Candidate, facts: Outcome, laboratory: Runner) -> Outcome:
    """Takes the parts of a commit back one by one. Other changes are small, or made of what the same tests run."""
    if one.kind != "commit" or len(facts.flipped) < 2:
        return facts
    parts = separate({path: unbroken(given, one, path) for path in one.changes}, one.changes)
    tests, limit = tuple(sorted(facts.flipped)), cpu_limit(given, one)
    if len(parts) > MOST_PARTS:
        # Not taken apart: each test may fail of something else.
        return msgspec.structs.replace(facts, causes={test: (test,) for test in tests})
    jobs = [Job(f"{one.digest} {n}", tests, write={**one.base, **part}, cpu_s=limit) for n, part in enumerate(parts)]
    done = await laboratory.run(jobs, repetition=0)
    return msgspec.structs.replace(facts, causes=causes_of(tests, [done[job.id] for job in jobs]))


async def _by_judge(given: Given, one: Candidate, ended: dict[str, Outcome]) -> None:
    reason = await given.objection(one, ended[one.digest])
    if reason:
        ended[one.digest] = Outcome(one.digest, "judged", reason[:300])


def _record(ended: dict[str, Outcome], outcome: Outcome | None) -> bool:
    if outcome is not None:
        ended[outcome.digest] = outcome
    return outcome is None


def unbroken(given: Given, one: Candidate, path: str) -> str:
    """The text that a file has before the candidate breaks it."""
    text = one.base[path] if path in one.base else given.texts[path].decode()
    return text or ""


def _passing(given: Given, one: Candidate) -> Mapping[str, float]:
    return one.passing or given.passing


def split_of(given: Given, one: Candidate, facts: Outcome) -> Split:
    """How the failing tests are split; the same each time. Raises `Unsplittable`."""
    files = {path: unbroken(given, one, path) for path in {t.partition("::")[0] for t in facts.flipped}}
    return split(facts.flipped, files, one.digest, facts.causes)


def _by_text(given: Given, one: Candidate) -> Outcome | None:
    try:
        same = all(equivalent(unbroken(given, one, path), text) for path, text in one.changes.items())
    except (SourceError, UnicodeDecodeError) as exc:
        return Outcome(one.digest, "applies", str(exc)[:300])
    if same:
        return Outcome(one.digest, "equivalent", "the compiled code is the same")
    copies = (other for path in one.changes for other in _copies(given, one, path))
    copy = next(copies, "")
    return Outcome(one.digest, "copied", f"{copy} would tell what is missing") if copy else None


def _copies(given: Given, one: Candidate, path: str) -> Iterator[str]:
    """The files that stay as they are and have the text that is broken here."""
    right = unbroken(given, one, path).encode()
    for other, data in given.texts.items():
        if len(data) == len(right) and data == right and other not in one.base and other not in one.changes:
            yield other
    for other, text in one.base.items():
        if text is not None and other not in one.changes and text.encode() == right:
            yield other


async def _run(given: Given, alive: Sequence[Candidate], laboratory: Runner, repetition: int) -> dict[str, JobResult]:
    jobs = [Job(c.digest, c.tests, write={**c.base, **c.changes}, cpu_s=cpu_limit(given, c)) for c in alive]
    return await laboratory.run(jobs, repetition=repetition)


def cpu_limit(given: Given, one: Candidate) -> float:
    """CPU seconds for a candidate's tests: far more than they take unbroken, so that an endless loop is soon over."""
    return min(given.config.run_cpu_s, 3.0 + sum(_passing(given, one).get(test, 0.0) for test in one.tests) / 100)


def _by_first_run(given: Given, one: Candidate, result: JobResult) -> Outcome | None:
    if result.ended == "time":
        return Outcome(one.digest, "time", "its tests took ten times as long as before")
    if result.ended == "died" or result.problems or not result.tests:
        reason = result.problems[0] if result.problems else "the test process died or ran nothing"
        return Outcome(one.digest, "trivial", reason[-300:])
    facts = _facts(given, one, result)
    if not facts.flipped:
        return Outcome(one.digest, "survived", f"all {len(facts.passing)} tests that run it still pass")
    if len(facts.flipped) > MOST_FLIPPED:
        return Outcome(one.digest, "trivial", f"{len(facts.flipped)} tests fail: too central")
    now = outcomes(result.tests)
    gained = sorted(t for t, r in now.items() if r.outcome == "passed" and t not in _passing(given, one))
    return Outcome(one.digest, "breaks", f"{gained[0]} passes only with the change") if gained else None


def _facts(given: Given, one: Candidate, result: JobResult) -> Outcome:
    now = outcomes(result.tests)
    wanted = [t for t in one.tests if t in _passing(given, one)]
    flipped = {t: msgspec.structs.replace(now[t], cpu_ms=0.0) for t in wanted if t in now and _failed(now[t])}
    return Outcome(one.digest, "kept", "", flipped, tuple(t for t in wanted if t in now and now[t].outcome == "passed"))


def _failed(result: RunOutcome) -> bool:
    return result.outcome in ("failed", "error")


def _by_repetition(given: Given, one: Candidate, facts: Outcome, result: JobResult) -> Outcome | None:
    if result.ended == "time":
        return Outcome(one.digest, "time", "its tests took ten times as long as before")
    again = _facts(given, one, result)
    if result.ended == "done" and again.flipped.keys() == facts.flipped.keys() and again.passing == facts.passing:
        return None
    differing = sorted(again.flipped.keys() ^ facts.flipped.keys()) or ["the run"]
    return Outcome(one.digest, "flaky", f"{differing[0]} does not end the same way each time")


def _visible_job(given: Given, one: Candidate, facts: Outcome, parts: Split) -> Job:
    kept = [t for t in facts.passing if t.rpartition("::")[2] not in parts.removed]
    return Job(
        one.digest,
        (*parts.visible, *kept),
        write={**one.base, **one.changes, **parts.texts},
        explain=True,
        cpu_s=cpu_limit(given, one) + 3.0,
    )


def _by_visible(facts: Outcome, parts: Split, result: JobResult) -> Outcome:
    now = outcomes(result.tests)
    if result.ended != "done" or result.problems:
        return Outcome(facts.digest, "visible", (result.problems or ("the visible tests do not run",))[0][-300:])
    passing = sorted(t for t in parts.visible if t not in now or not _failed(now[t]))
    if passing:
        return Outcome(facts.digest, "visible", f"{passing[0]} does not fail where it is shown")
    shown = {t: msgspec.structs.replace(now[t], cpu_ms=0.0) for t in parts.visible}
    return msgspec.structs.replace(facts, shown=shown)


def _by_second_look(outcome: Outcome, result: JobResult) -> Outcome:
    """Of a message that is another one each time (a clock, a process number) the exception's name alone is told."""
    now = outcomes(result.tests)
    same = {
        test: test in now and plain(now[test].message) == plain(told.message) for test, told in outcome.shown.items()
    }
    told = {t: r if same[t] else msgspec.structs.replace(r, message="") for t, r in outcome.shown.items()}
    return msgspec.structs.replace(outcome, shown=told)


def plain(message: str) -> str:
    """A message without what differs between two runs of the same thing: addresses, pytest's own folders."""
    return _FOLDER.sub("/tmp/pytest", _ADDRESS.sub("0x...", message))
