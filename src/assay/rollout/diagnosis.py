"""Sentences about a run as a whole that its table does not show: it measured nothing, or not the intended thing.

Pure functions over tasks and summary rows; the callers print the sentences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from assay.records import Limits
from assay.store import AttemptRow, final_rows
from assay.tasks import LoadedTask, lint_task
from assay.tasks.findings import TaskFinding

if TYPE_CHECKING:
    from assay.statistics import GroupSummary  # numpy, which runs do without

MOST_LINTED = 100
"""Task folders that are linted before a run; reading more would delay it by seconds."""
LISTED = 5
_OPTIONS = {name: f"--max-{name.replace('_', '-')}" for name in Limits.__struct_fields__}


class RunDiagnosis(NamedTuple):
    """Why the result of a run may mean nothing."""

    all_broke: str | None = None
    """Set if every attempt broke, with the first cause."""
    warnings: tuple[str, ...] = ()


def diagnose_run(rows: Iterable[AttemptRow]) -> RunDiagnosis:
    """Examines the deciding trials of a run; an empty run gives an empty diagnosis."""
    decided = final_rows(rows)
    if not decided:
        return RunDiagnosis()
    if all(row.broke is not None or row.outcome == "error" for row in decided):
        return RunDiagnosis(all_broke=_describe_breakage(decided))
    found = (_describe_silence(decided), _describe_limit(decided), _describe_unjudged(decided))
    return RunDiagnosis(warnings=tuple(one for one in found if one is not None))


def describe_shortfall(groups: Iterable[GroupSummary], least: float) -> str | None:
    """Returns a sentence for each configuration whose pass@1 is below `least`; None if no configuration is.

    An attempt without a judgement counts as failed, and so does a doubtful pass. A run without a decided attempt falls
    short.
    """
    rates = [(one.agent, one.model, one.pass_at_1_bounds.worst or 0.0, one) for one in groups]
    if not rates:
        return f"pass@1 is unknown, and --fail-under asks for {least:g}: no attempt has ended"
    short = [
        f"pass@1 of {agent if model is None else f'{agent}, {model}'} is {rate:.3f} ({one.passed} of {one.n_attempts} "
        f"attempts passed; {one.failed} failed, {one.doubtful} doubtful, {one.unknown + one.error} without a judgement)"
        for agent, model, rate, one in rates
        if not rate >= least - 1e-12  # also where `least` is no number
    ]
    return f"{'; '.join(short)}: --fail-under asks for {least:g}" if short else None


def _describe_breakage(rows: Sequence[AttemptRow]) -> str:
    counts = Counter(row.broke or "verifier" for row in rows).most_common()  # outcome `error`: a check could not judge
    causes = ", ".join(f"{name} failed in {count}" for name, count in counts)
    first = rows[0]
    return (
        f"every attempt broke ({len(rows)} of {len(rows)}: {causes}): the rates measure that and not the agent; "
        f"first {first.attempt}: {first.error or 'a check could not judge'}; `assay show {first.attempt} --run "
        f"{first.run}` tells more"
    )


def _describe_silence(rows: Sequence[AttemptRow]) -> str | None:
    """Returns a warning if a model was given and no attempt asked it."""
    models = sorted({row.model for row in rows if row.model is not None})
    counts = [row.metrics.get("model_calls") for row in rows if row.model is not None]
    if not models or any(count != 0 for count in counts):
        return None
    return (
        f"no attempt asked the model {', '.join(models)}: the agent {rows[0].agent} made no call through the endpoint "
        "that it was given (a program finds it in OPENAI_BASE_URL and the like; a Python agent calls attempt.ask); "
        f"`assay show {rows[0].attempt} --run {rows[0].run}` shows what it did"
    )


def _describe_limit(rows: Sequence[AttemptRow]) -> str | None:
    """Returns a warning if one limit stopped every attempt."""
    limits = {row.stopped for row in rows}
    limit = next(iter(limits))
    if len(limits) > 1 or limit is None or limit not in _OPTIONS:
        return None
    count = "the only attempt was" if len(rows) == 1 else f"all {len(rows)} attempts were"
    return (
        f"{count} stopped by the limit {limit}, so the agent never finished: raise it with {_OPTIONS[limit]}, "
        "or in the task's own limits"
    )


def _describe_unjudged(rows: Sequence[AttemptRow]) -> str | None:
    """Returns a warning if no attempt that ran was judged."""
    if any(row.outcome not in (None, "unknown") or row.broke is not None for row in rows):
        return None
    first = rows[0]
    return (
        f"no attempt could be judged ({len(rows)} of {len(rows)} are unknown): `assay show {first.attempt} --run "
        f"{first.run}` tells what the checks missed"
    )


def lint_warnings(tasks: Sequence[LoadedTask]) -> list[str]:
    """Returns what lint finds in task folders: each unknown key, and one line for each other rule.

    Raises:
        UserError: A folder cannot be read.
    """
    folders = list(dict.fromkeys(one.folder for one in tasks if one.folder is not None))
    found = [(folder, finding) for folder in folders[:MOST_LINTED] for finding in lint_task(folder)]
    serious = [(folder, finding) for folder, finding in found if finding.severity != "note"]
    keys = [f"{folder}/{finding}" for folder, finding in serious if finding.rule == "unknown-key"]
    shown = [f"{key}; the key has no effect" for key in keys[:LISTED]]
    if len(keys) > LISTED:
        shown.append(f"{len(keys) - LISTED} more unknown keys (`assay lint` lists them)")
    rest = [(folder, finding) for folder, finding in serious if finding.rule != "unknown-key"]
    return [*shown, *_group_by_rule(rest)]


def _group_by_rule(found: Sequence[tuple[Path, TaskFinding]]) -> list[str]:
    lines = []
    for rule, count in Counter(finding.rule for _, finding in found).items():
        folder, first = next((folder, finding) for folder, finding in found if finding.rule == rule)
        more = "" if count == 1 else f" ({count} such findings: `assay lint` lists them)"
        lines.append(f"{folder}/{first}{more}")
    return lines
