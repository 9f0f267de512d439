"""Makes tasks "write this function as a program in another language" from the calls that a package's tests make.

Each function ends at one gate. Kept is a function of which fresh inputs fail the unrepaired state and at least 95% of
the drawn mutants (answered through the same protocol by `reference_answers.py`), whose solution passes the task's own
check and whose empty state fails it. The solution is a program of the user's, else the language's bridge to the
reference; without either nothing in the language was judged, and the task has no solution.
"""

from __future__ import annotations

import ast
import asyncio
import random
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from assay.code.operators import FEATURE, apply, find_sites
from assay.environments.interface import Backend, Snapshot
from assay.errors import UserError
from assay.records import Task, digest_record
from assay.tasks.write import write_task
from assay.verify import JudgeRequest, verify_outcome
from assay.verify.calls import (
    Answer,
    CallPlan,
    CallProgram,
    ProgramLanguage,
    ReferenceFix,
    answer_by_reference,
    calls_spec,
    load_language,
    write_json_answer,
    write_request,
)
from assay.verify.sanitise import opened

from ._call_plans import failing_mutants, measure_draft
from ._entry_trace import changes_of
from ._judged import DiscardedOutputs
from ._laboratory import WORKSPACE
from ._manifest import remove_older, write_manifest
from ._opening import OpenedSource, Progress, open_source
from ._plain_calls import PlainFunction, draft_of, find_plain_functions
from ._program_folder import (
    BRIDGE,
    ProgramParts,
    answering_files,
    bridge_of,
    called_program,
    draft_program_task,
    solution_files,
)
from ._separation import Deciding
from ._splice_proof import mutants_of
from .call_tasks_config import ProgramTasksConfig

__all__ = ["ProgramEntry", "ProgramReport", "synthesise_programs"]

MIN_CALLS = 2
WANTED_INPUTS, MAX_ASKED = 100, 600
"""A program answers a hundred inputs nearly as fast as twenty, and no test judges beside them."""
MAX_EXAMPLES = 6
MAX_EXAMPLE = 300
"""Characters of a shown request or answer."""
MAX_SOLUTION_BYTES = 1 << 20
GATES = {
    "shape": "the function has a docstring, named arguments, 3 to 60 statements, and at least two plain calls",
    "examples": "the reference answers at least two recorded calls in a way that JSON can say",
    "power": "fresh inputs fail the unrepaired state and 95% of the mutants that the tests fail",
    "solution": "the solution passes the task's own check",
    "null": "the empty state fails the task's own check",
}


class ProgramEntry(msgspec.Struct, frozen=True):
    """One kept task, as in `manifest.json`."""

    id: str
    digest: str
    function: str
    """`path::name`."""
    calls: int
    """Recorded calls that inputs are drawn from."""
    inputs: int
    """Fresh inputs that must be compared for a pass."""
    mutants: tuple[int, int]
    """Mutants that a draw fails, of those drawn that the tests fail."""
    solution: str
    """`program`: a user's, judged; `bridge`: starts the reference; `none`: nothing in the language was judged."""


class ProgramReport(msgspec.Struct, frozen=True):
    """The whole, as in `manifest.json`."""

    source: str
    source_digest: str
    language: str
    seed: int
    candidates: int
    kept: int
    ended: dict[str, int]
    """Gate to the number of functions that ended there."""
    reasons: dict[str, str]
    """Function to why it was not kept."""
    tasks: tuple[ProgramEntry, ...]
    not_separate: int = 0


class _Made(NamedTuple):
    gate: str
    reason: str = ""
    parts: ProgramParts | None = None


async def synthesise_programs(
    config: ProgramTasksConfig, *, backend: Backend, cache: Path, progress: Progress | None = None
) -> ProgramReport:
    """Makes tasks.

    Args:
        config: What from, in which language, how many.
        backend: Where everything is run.
        cache: For the tool layer and the measured tests.
        progress: Told what is going on.

    Raises:
        UserError: There is nothing to make tasks from, or the language is not installed.
        EnvironmentFailure: The sandbox broke.
    """
    tell = progress or (lambda _what, _done, _all: None)
    language = await asyncio.to_thread(load_language, config.language)
    label = Path(config.language).stem
    ended: list[tuple[PlainFunction, _Made]] = []
    async with open_source(config.measuring, backend, cache, tell) as source:
        await _require_language(source, language, label)
        tell("recording the calls of the tests", 0, 1)
        listed = await find_plain_functions(source, config.measuring)
        random.Random(f"{config.seed} programs").shuffle(listed)
        maker = _Maker(source, config, language, label)
        while listed and sum(made.gate == "kept" for _, made in ended) < config.count:
            left = config.count - sum(made.gate == "kept" for _, made in ended)
            wave = [listed.pop(0) for _ in range(min(config.concurrency, left, len(listed)))]
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(maker.make(one)) for one in wave]
            ended += [(one, task.result()) for one, task in zip(wave, tasks, strict=True)]
            tell("judging functions", sum(made.gate == "kept" for _, made in ended), config.count)
        return await asyncio.to_thread(_write, source, config, label, ended)


async def _require_language(source: OpenedSource, language: ProgramLanguage, label: str) -> None:
    if not language.probe:
        return
    async with opened(source.laboratory.backend, calls_spec(source.laboratory.spec)) as workspace:
        result = await workspace.exec(language.probe, timeout_s=60.0)
    if result.exit_code != 0:
        raise UserError(
            f"{label} is not installed where the sandbox finds it: `{' '.join(language.probe)}` ended with exit code "
            f"{result.exit_code}. Install it for all users (below /usr), or name another --language"
        )


class _Maker:
    """Makes the task of one function after the other."""

    def __init__(self, source: OpenedSource, config: ProgramTasksConfig, language: ProgramLanguage, label: str) -> None:
        self._source, self._config = source, config
        self._language, self._label = language, label

    async def make(self, one: PlainFunction) -> _Made:
        """Returns where the function ended."""
        called = called_program(one, self._language)
        stub = next((site for site in find_sites(one.text, [FEATURE.name]) if site.function == one.name), None)
        documented = _is_documented(one)
        if called is None or stub is None or not documented or len(one.calls) < MIN_CALLS:
            return _Made("shape", GATES["shape"])
        draft = msgspec.structs.replace(draft_of(self._source, one), program=called)
        fair = await self._answer_recorded(draft, one)
        if len(fair) < MIN_CALLS:
            return _Made("examples", f"{len(fair)} of {len(one.calls)} recorded calls have answers in JSON")
        deciding = self._deciding(one, apply(one.text, stub))
        plan = await self._measure(draft, one, deciding)
        if isinstance(plan, str):
            return _Made("power", plan)
        solution, bridged = await asyncio.to_thread(self._solution, one)
        parts = ProgramParts(one, plan, _examples(plan, one.calls, fair), solution, bridged)
        return await self._judge(parts)

    def _deciding(self, one: PlainFunction, broken: str) -> Deciding:
        cases = tuple(sorted({call.test for call in one.calls}))
        identity = digest_record([self._source.tree.digest, one.key]).partition(":")[2][:16]
        return Deciding(identity, {one.path: one.text}, {one.path: broken}, {}, cases, self._config.measuring.run_cpu_s)

    async def _answer_recorded(self, draft: CallPlan, one: PlainFunction) -> dict[int, Answer]:
        laboratory = self._source.laboratory
        async with opened(laboratory.backend, calls_spec(laboratory.spec), laboratory.state) as workspace:
            fix = ReferenceFix(one.path, 0, "", "")
            return (await answer_by_reference(workspace, draft, list(enumerate(one.calls)), [fix])).answers

    async def _measure(self, draft: CallPlan, one: PlainFunction, deciding: Deciding) -> CallPlan | str:
        """Measures the power with the reference and its mutants as programs; returns the plan or the reason."""
        laboratory, called = self._source.laboratory, draft.program
        changes = changes_of(deciding.right, deciding.broken)
        if called is None or changes is None:
            return "the reference changes more than bodies of functions"
        drawn = mutants_of(deciding.right, changes, deciding.id, self._config.mutants)
        failing = await failing_mutants(laboratory, deciding, drawn, deciding.cases)
        if not failing:
            return f"the tests fail none of {len(drawn)} drawn mutants"
        # The adapter is part of the unrepaired tree: mutants are programs of the same protocol.
        beside = {path: data.decode() for path, data in answering_files(self._source.tree, one, called).items()}
        measured = msgspec.structs.replace(draft, program=msgspec.structs.replace(called, language=BRIDGE))
        made = await measure_draft(laboratory, deciding._replace(base=beside), measured, failing)
        if not isinstance(made, CallPlan):
            return made.reason
        bare = msgspec.structs.replace(called, language=msgspec.structs.replace(called.language, bridge=""))
        most = int(MAX_ASKED * made.fair_share)
        return msgspec.structs.replace(made, program=bare, inputs=max(made.inputs, min(WANTED_INPUTS, most)))

    def _solution(self, one: PlainFunction) -> tuple[str, bool]:
        """Returns the program and whether it starts the reference."""
        path = Path(self._config.solutions) / f"{one.name}{Path(self._language.file).suffix}"
        if not self._config.solutions or not path.is_file():
            bridge = bridge_of(self._language)
            return bridge, bool(bridge)
        if path.stat().st_size > MAX_SOLUTION_BYTES:
            raise UserError(f"{path} has more than {MAX_SOLUTION_BYTES} bytes: it is no program written by hand")
        return path.read_text(encoding="utf-8"), False

    async def _judge(self, parts: ProgramParts) -> _Made:
        with tempfile.TemporaryDirectory(prefix="assay-program-") as place:
            draft = draft_program_task(self._source, parts, "candidate", self._label)
            loaded = await asyncio.to_thread(write_task, Path(place) / "task", draft)
            if parts.solution:
                state = await self._state_with(parts)
                try:
                    verdict = await self._verdict(loaded.task, Path(place) / "task", state)
                finally:
                    await self._source.laboratory.backend.release(state)
                if verdict[0] != "pass":
                    return _Made("solution", f"{verdict[0]}: {verdict[1]}")
            null = await self._verdict(loaded.task, Path(place) / "task", self._source.laboratory.state)
        if null[0] != "fail":
            return _Made("null", f"{null[0]}: {null[1]}")
        return _Made("kept", parts=parts)

    async def _state_with(self, parts: ProgramParts) -> Snapshot:
        laboratory = self._source.laboratory
        async with opened(laboratory.backend, laboratory.spec, laboratory.state) as workspace:
            for path, data in solution_files(parts, self._source.tree).items():
                await workspace.write(f"{WORKSPACE}/{path}", data)
            return await workspace.snapshot()

    async def _verdict(self, task: Task, folder: Path, state: Snapshot) -> tuple[str, str]:
        laboratory = self._source.laboratory
        request = JudgeRequest(
            task=task,
            folder=folder,
            backend=laboratory.backend,
            spec=laboratory.spec,
            # Nobody has changed anything: the laboratory's state is the image of the task to come.
            state=msgspec.structs.replace(state, changes=()),
            blobs=DiscardedOutputs(),
        )
        (result,) = await verify_outcome(request)
        return result.verdict.status, result.verdict.reason


def _is_documented(one: PlainFunction) -> bool:
    return bool(ast.get_docstring(one.node))


def _examples(plan: CallPlan, calls: Sequence[CallProgram], fair: dict[int, Answer]) -> tuple[tuple[str, str], ...]:
    """Returns short requests with their answers, of as many tests as possible."""
    assert plan.program is not None, "a plan of a program"
    found = []
    for number, answer in sorted(fair.items()):
        request, shown = write_request(calls[number], plan.program), write_json_answer(answer)
        if request is not None and max(len(request), len(shown)) <= MAX_EXAMPLE:
            found.append((request, shown))
    return tuple(found[:MAX_EXAMPLES])


def _write(
    source: OpenedSource, config: ProgramTasksConfig, label: str, ended: Sequence[tuple[PlainFunction, _Made]]
) -> ProgramReport:
    out, tree = Path(config.out), source.tree
    out.mkdir(parents=True, exist_ok=True)
    kept = {_identity(source, one, label): made.parts for one, made in ended if made.parts is not None}
    remove_older(out, set(kept))
    entries = []
    for identity, parts in kept.items():
        digest = write_task(
            out / identity, draft_program_task(source, parts, identity, label), replace=True
        ).task.digest
        solution = "bridge" if parts.bridged else "program" if parts.solution else "none"
        plan, one = parts.plan, parts.function
        entries.append(ProgramEntry(identity, digest, one.key, len(plan.programs), plan.inputs, plan.mutants, solution))
    counts = Counter(made.gate for _, made in ended)
    report = ProgramReport(
        source=f"{tree.name} {tree.version}".strip(),
        source_digest=tree.digest,
        language=label,
        seed=config.seed,
        candidates=len(ended),
        kept=len(entries),
        ended={gate: counts[gate] for gate in (*GATES, "kept")},
        reasons={one.key: f"{made.gate}: {made.reason}" for one, made in ended if made.gate != "kept"},
        tasks=tuple(entries),
    )
    write_manifest(out, report)
    return report


def _identity(source: OpenedSource, one: PlainFunction, label: str) -> str:
    module = Path(one.path).stem
    words = [source.tree.name, *([] if module in ("__init__", source.tree.name) else [module]), one.name, label]
    return "-".join("".join(c if c.isalnum() else "-" for c in word.lower()).strip("-") for word in words)
