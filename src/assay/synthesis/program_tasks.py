"""Makes tasks "write this function as a program in another language" from the calls in a package's tests.

Each function ends at one gate. A function is accepted if fresh inputs fail the unrepaired state and at least 95% of
the drawn mutants (answered through the same protocol by `reference_answers.py`), its solution passes the task's own
check and its empty state fails it. The solution is a program of the user's, else the language's bridge to the
reference; without either, no program in the language was judged, and the task has no solution.
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
from assay.environments.interface import Backend
from assay.errors import UserError
from assay.records import digest_record
from assay.tasks.write import write_task
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

from ._call_plans import find_failing_versions, measure_draft
from ._entry_trace import compare_changes
from ._manifest import remove_stale_tasks, write_manifest
from ._opening import OpenedSource, open_source
from ._own_check import run_check
from ._plain_calls import PlainFunction, draft_plan, find_plain_functions
from ._program_folder import (
    BRIDGE,
    ProgramParts,
    collect_adapter_files,
    collect_solution_files,
    describe_call,
    draft_program_task,
    render_bridge,
)
from ._progress import Progress, ignore_progress
from ._separation import DecidingTests
from ._splice_proof import draw_mutants
from .call_tasks_config import ProgramTasksConfig

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
    """Rejected function to the reason."""
    tasks: tuple[ProgramEntry, ...]
    not_separate: int = 0


class _FunctionOutcome(NamedTuple):
    gate: str
    reason: str = ""
    parts: ProgramParts | None = None


async def synthesise_programs(
    config: ProgramTasksConfig, *, backend: Backend, cache: Path, progress: Progress | None = None
) -> ProgramReport:
    """Makes tasks.

    Raises:
        UserError: There is nothing to make tasks from, or the language is not installed.
        EnvironmentFailure: The sandbox broke.
    """
    tell = progress or ignore_progress
    language = await asyncio.to_thread(load_language, config.language)
    label = Path(config.language).stem
    ended: list[tuple[PlainFunction, _FunctionOutcome]] = []
    async with open_source(config.measuring, backend, cache, tell) as source:
        await _require_language(source, language, label)
        tell("recording the calls of the tests", 0, 1)
        listed = await find_plain_functions(source, config.measuring)
        random.Random(f"{config.seed} programs").shuffle(listed)
        builder = _ProgramTaskBuilder(source, config, language, label)
        while listed and sum(outcome.gate == "kept" for _, outcome in ended) < config.count:
            missing = config.count - sum(outcome.gate == "kept" for _, outcome in ended)
            wave = [listed.pop(0) for _ in range(min(config.concurrency, missing, len(listed)))]
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(builder.make(one)) for one in wave]
            ended += [(one, task.result()) for one, task in zip(wave, tasks, strict=True)]
            tell("judging functions", sum(outcome.gate == "kept" for _, outcome in ended), config.count)
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


class _ProgramTaskBuilder:
    """Builds one task for each function."""

    def __init__(self, source: OpenedSource, config: ProgramTasksConfig, language: ProgramLanguage, label: str) -> None:
        self._source, self._config = source, config
        self._language, self._label = language, label

    async def make(self, one: PlainFunction) -> _FunctionOutcome:
        """Returns the gate at which the function ended, with its parts if it was accepted."""
        called = describe_call(one, self._language)
        stub = next((site for site in find_sites(one.text, [FEATURE.name]) if site.function == one.name), None)
        if called is None or stub is None or not ast.get_docstring(one.node) or len(one.calls) < MIN_CALLS:
            return _FunctionOutcome("shape", GATES["shape"])
        draft = msgspec.structs.replace(draft_plan(self._source, one), program=called)
        fair = await self._answer_recorded(draft, one)
        if len(fair) < MIN_CALLS:
            return _FunctionOutcome("examples", f"{len(fair)} of {len(one.calls)} recorded calls have answers in JSON")
        deciding = self._deciding_tests(one, apply(one.text, stub))
        plan = await self._measure(draft, one, deciding)
        if isinstance(plan, str):
            return _FunctionOutcome("power", plan)
        solution, bridged = await asyncio.to_thread(self._find_solution, one)
        parts = ProgramParts(one, plan, _choose_examples(plan, one.calls, fair), solution, bridged)
        return await self._judge(parts)

    def _deciding_tests(self, one: PlainFunction, broken: str) -> DecidingTests:
        cases = tuple(sorted({call.test for call in one.calls}))
        identity = digest_record([self._source.tree.digest, one.key]).partition(":")[2][:16]
        return DecidingTests(
            identity, {one.path: one.text}, {one.path: broken}, {}, cases, self._config.measuring.run_cpu_s
        )

    async def _answer_recorded(self, draft: CallPlan, one: PlainFunction) -> dict[int, Answer]:
        laboratory = self._source.laboratory
        async with opened(laboratory.backend, calls_spec(laboratory.spec), laboratory.state) as workspace:
            fix = ReferenceFix(one.path, 0, "", "")
            return (await answer_by_reference(workspace, draft, list(enumerate(one.calls)), [fix])).answers

    async def _measure(self, draft: CallPlan, one: PlainFunction, deciding: DecidingTests) -> CallPlan | str:
        """Measures the power with the reference and its mutants as programs; returns the plan or the reason."""
        laboratory, called = self._source.laboratory, draft.program
        changes = compare_changes(deciding.right, deciding.broken)
        if called is None or changes is None:
            return "the reference changes more than bodies of functions"
        drawn = draw_mutants(deciding.right, changes, deciding.id, self._config.mutants)
        failing = await find_failing_versions(laboratory, deciding, drawn, deciding.cases)
        if not failing:
            return f"the tests fail none of {len(drawn)} drawn mutants"
        # The adapter is part of the unrepaired tree: mutants are programs of the same protocol.
        beside = {path: data.decode() for path, data in collect_adapter_files(self._source.tree, one, called).items()}
        measured = msgspec.structs.replace(draft, program=msgspec.structs.replace(called, language=BRIDGE))
        outcome = await measure_draft(laboratory, deciding._replace(base=beside), measured, failing)
        if not isinstance(outcome, CallPlan):
            return outcome.reason
        shipped = msgspec.structs.replace(called, language=msgspec.structs.replace(called.language, bridge=""))
        most = int(MAX_ASKED * outcome.fair_share)
        return msgspec.structs.replace(outcome, program=shipped, inputs=max(outcome.inputs, min(WANTED_INPUTS, most)))

    def _find_solution(self, one: PlainFunction) -> tuple[str, bool]:
        """Returns the program and whether it starts the reference."""
        path = Path(self._config.solutions) / f"{one.name}{Path(self._language.file).suffix}"
        if not self._config.solutions or not path.is_file():
            bridge = render_bridge(self._language)
            return bridge, bool(bridge)
        if path.stat().st_size > MAX_SOLUTION_BYTES:
            raise UserError(f"{path} has more than {MAX_SOLUTION_BYTES} bytes; provide a smaller program")
        return path.read_text(encoding="utf-8"), False

    async def _judge(self, parts: ProgramParts) -> _FunctionOutcome:
        laboratory = self._source.laboratory
        with tempfile.TemporaryDirectory(prefix="assay-program-") as scratch:
            draft = draft_program_task(self._source, parts, "candidate", self._label)
            loaded = await asyncio.to_thread(write_task, Path(scratch) / "task", draft)
            if parts.solution:
                state = await laboratory.snapshot_with(collect_solution_files(parts, self._source.tree))
                try:
                    verdict = await run_check(laboratory, loaded.task, Path(scratch) / "task", state)
                finally:
                    await laboratory.backend.release(state)
                if verdict.status != "pass":
                    return _FunctionOutcome("solution", f"{verdict.status}: {verdict.reason}")
            null = await run_check(laboratory, loaded.task, Path(scratch) / "task", laboratory.state)
        if null.status != "fail":
            return _FunctionOutcome("null", f"{null.status}: {null.reason}")
        return _FunctionOutcome("kept", parts=parts)


def _choose_examples(
    plan: CallPlan, calls: Sequence[CallProgram], fair: dict[int, Answer]
) -> tuple[tuple[str, str], ...]:
    """Returns short requests with their answers, of as many tests as possible."""
    assert plan.program is not None, "a plan of a program"
    found = []
    for number, answer in sorted(fair.items()):
        request, shown = write_request(calls[number], plan.program), write_json_answer(answer)
        if request is not None and max(len(request), len(shown)) <= MAX_EXAMPLE:
            found.append((request, shown))
    return tuple(found[:MAX_EXAMPLES])


def _write(
    source: OpenedSource,
    config: ProgramTasksConfig,
    label: str,
    ended: Sequence[tuple[PlainFunction, _FunctionOutcome]],
) -> ProgramReport:
    out, tree = Path(config.out), source.tree
    out.mkdir(parents=True, exist_ok=True)
    kept = {
        _name_program_task(source, one, label): outcome.parts for one, outcome in ended if outcome.parts is not None
    }
    remove_stale_tasks(out, set(kept))
    entries = []
    for identity, parts in kept.items():
        digest = write_task(
            out / identity, draft_program_task(source, parts, identity, label), replace=True
        ).task.digest
        solution = "bridge" if parts.bridged else "program" if parts.solution else "none"
        plan, one = parts.plan, parts.function
        entries.append(ProgramEntry(identity, digest, one.key, len(plan.programs), plan.inputs, plan.mutants, solution))
    counts = Counter(outcome.gate for _, outcome in ended)
    report = ProgramReport(
        source=tree.title,
        source_digest=tree.digest,
        language=label,
        seed=config.seed,
        candidates=len(ended),
        kept=len(entries),
        ended={gate: counts[gate] for gate in (*GATES, "kept")},
        reasons={one.key: f"{outcome.gate}: {outcome.reason}" for one, outcome in ended if outcome.gate != "kept"},
        tasks=tuple(entries),
    )
    write_manifest(out, report)
    return report


def _name_program_task(source: OpenedSource, one: PlainFunction, label: str) -> str:
    module = Path(one.path).stem
    words = [source.tree.name, *([] if module in ("__init__", source.tree.name) else [module]), one.name, label]
    return "-".join("".join(c if c.isalnum() else "-" for c in word.lower()).strip("-") for word in words)
