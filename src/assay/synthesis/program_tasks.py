"""Makes tasks "write this function as a program in another language" from the calls in a package's tests.

Each function ends at one gate (`_program_judging`). The solution is a program of the user's, else the language's bridge
to the reference; without either, no program in the language was judged, and the task has no solution.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from assay.environments.interface import Backend
from assay.errors import UserError
from assay.tasks.write import write_task
from assay.verify.calls import ProgramLanguage, calls_spec, load_language
from assay.verify.sanitise import opened

from ._manifest import remove_stale_tasks, write_manifest
from ._opening import OpenedSource, open_source
from ._plain_calls import PlainFunction, find_plain_functions
from ._program_folder import ProgramParts, draft_program_task, render_bridge
from ._program_judging import GATES
from ._progress import Progress, ignore_progress
from ._units import JudgeElsewhere, ProgramOutcome, ProgramsBasis, ProgramUnit, describe_function, unit_digest
from .call_tasks_config import ProgramTasksConfig
from .judging import make_judge

MAX_SOLUTION_BYTES = 1 << 20


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


async def synthesise_programs(
    config: ProgramTasksConfig,
    *,
    backend: Backend,
    cache: Path,
    progress: Progress | None = None,
    elsewhere: JudgeElsewhere | None = None,
) -> ProgramReport:
    """Makes tasks. Functions are judged `elsewhere`, if that is given.

    Raises:
        UserError: There is nothing to make tasks from, or the language is not installed.
        EnvironmentFailure: The sandbox broke.
    """
    tell = progress or ignore_progress
    language = await asyncio.to_thread(load_language, config.language)
    basis = ProgramsBasis(language, Path(config.language).stem, config.mutants)
    ended: list[tuple[PlainFunction, ProgramUnit, ProgramOutcome]] = []
    async with open_source(config.measuring, backend, cache, tell) as source:
        await _require_language(source, language, basis.label)
        tell("recording the calls of the tests", 0, 1)
        listed = await find_plain_functions(source, config.measuring)
        random.Random(f"{config.seed} programs").shuffle(listed)
        judge = make_judge(source, config.measuring, "programs", elsewhere, tell, basis)
        while listed and (missing := config.count - sum(outcome.gate == "kept" for _, _, outcome in ended)) > 0:
            wave, listed = listed[:missing], listed[missing:]
            units = [await asyncio.to_thread(_describe_unit, one, config, language) for one in wave]
            ended += zip(wave, units, await judge(units), strict=True)
            tell("judging functions", sum(outcome.gate == "kept" for _, _, outcome in ended), config.count)
        return await asyncio.to_thread(_write, source, config, basis.label, ended)


def _describe_unit(one: PlainFunction, config: ProgramTasksConfig, language: ProgramLanguage) -> ProgramUnit:
    solution, bridged = _find_solution(one, config, language)
    function = describe_function(one)
    return ProgramUnit(unit_digest(function, solution, bridged), function, solution, bridged)


def _find_solution(one: PlainFunction, config: ProgramTasksConfig, language: ProgramLanguage) -> tuple[str, bool]:
    """Returns the program and whether it starts the reference."""
    path = Path(config.solutions) / f"{one.name}{Path(language.file).suffix}"
    if not config.solutions or not path.is_file():
        bridge = render_bridge(language)
        return bridge, bool(bridge)
    if path.stat().st_size > MAX_SOLUTION_BYTES:
        raise UserError(f"{path} has more than {MAX_SOLUTION_BYTES} bytes; provide a smaller program")
    return path.read_text(encoding="utf-8"), False


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


def _write(
    source: OpenedSource,
    config: ProgramTasksConfig,
    label: str,
    ended: Sequence[tuple[PlainFunction, ProgramUnit, ProgramOutcome]],
) -> ProgramReport:
    out, tree = Path(config.out), source.tree
    out.mkdir(parents=True, exist_ok=True)
    kept = {
        _name_program_task(source, one, label): ProgramParts(
            one, outcome.plan, outcome.examples, unit.solution, unit.bridged
        )
        for one, unit, outcome in ended
        if outcome.plan is not None
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
    counts = Counter(outcome.gate for _, _, outcome in ended)
    report = ProgramReport(
        source=tree.title,
        source_digest=tree.digest,
        language=label,
        seed=config.seed,
        candidates=len(ended),
        kept=len(entries),
        ended={gate: counts[gate] for gate in (*GATES, "kept")},
        reasons={one.key: f"{outcome.gate}: {outcome.reason}" for one, _, outcome in ended if outcome.gate != "kept"},
        tasks=tuple(entries),
    )
    write_manifest(out, report)
    return report


def _name_program_task(source: OpenedSource, one: PlainFunction, label: str) -> str:
    module = Path(one.path).stem
    words = [source.tree.name, *([] if module in ("__init__", source.tree.name) else [module]), one.name, label]
    return "-".join("".join(c if c.isalnum() else "-" for c in word.lower()).strip("-") for word in words)
