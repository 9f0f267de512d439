"""Renders the soundness report of a set of tasks as JSON and Markdown. Pure and deterministic.

Text of tasks and agents is hostile: Markdown shows it in one line, with tags, links and table marks escaped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median

import msgspec

from assay.errors import UserError, describe_os_error
from assay.records import Separation
from assay.rollout.admitted import BATTERY
from assay.rollout.exchange.secret_check import SecretCheck
from assay.settings import Settings
from assay.statistics import Interval, median_interval
from assay.verdicts import SEPARATIONS

from .config import AdmitConfig
from .findings import SEVERITIES, AdmissionFinding
from .probe import GROUPS
from .probes import LEFT_OUT
from .sensitivity import Sensitivity
from .soundness import TaskReport

MOST_TEXT = 600
MOST_DIFF_LINES = 60
_COLUMNS = (
    "task", "result", "separation", "holes", "broken", "weak", "rejected at best", "at worst", "flakes", "s", "MiB",
    "battery",
)  # fmt: skip


class Summary(msgspec.Struct, frozen=True):
    """Totals of a set of tasks."""

    tasks: int
    admitted: int
    """Tasks admitted under every tried verification whose verifier accepted no proven wrong solution."""
    with_holes: int
    findings: dict[str, int]
    """Severity to number of findings."""
    flaky: int
    """Tasks whose reference solution fails at least once."""
    sensitivity_tasks: int
    """Tasks with judged mutants."""
    sensitivity_best: float | None
    """Median over those tasks of the share of rejected mutants, without undecided ones."""
    sensitivity_best_interval: Interval | None
    sensitivity_worst: float | None
    """The same, counting every undecided mutant as wrongly accepted."""
    sensitivity_worst_interval: Interval | None
    verification_s: float | None
    """Median seconds of one verification."""
    peak_mib: float | None
    """Peak memory of a verifier."""
    battery_s: float
    """Seconds of all attempts together."""
    in_verifications: float | None
    """Median over tasks of the battery's cost, as a multiple of the reference solution's attempts; in CPU seconds where
    the sandbox reports them, else in wall time."""
    attempts: int
    most_in_verifications: float | None = None
    """Maximum over tasks of the same."""
    in_verifications_by_clock: float | None = None
    """Median in wall time, which other work on the machine affects."""
    most_in_verifications_by_clock: float | None = None
    accept_wrong: int = 0
    """Tasks without a hole whose verifier accepted a solution that is proven wrong."""
    separations: dict[Separation, int] = {}
    """Grade of separation to number of tasks, from the reference solution's attempts."""
    not_tested: str = ""
    """Skipped probes, with the number of tasks and the reason."""


class SetReport(msgspec.Struct, frozen=True):
    """Report of a set of tasks."""

    run: str
    battery: str
    quick: bool
    verification: str
    summary: Summary
    tasks: tuple[TaskReport, ...]


def summarise_set(run: str, config: AdmitConfig, reports: Sequence[TaskReport]) -> SetReport:
    """Returns the report of a set."""
    return SetReport(run, BATTERY, config.quick, config.verification, _summary(reports), tuple(reports))


def _summary(reports: Sequence[TaskReport]) -> Summary:
    counts = Counter(f.severity for report in reports for f in report.findings)
    best = [s.best for r in reports if (s := r.sensitivity) is not None and s.best is not None]
    worst = [s.worst for r in reports if (s := r.sensitivity) is not None and s.worst is not None]
    peaks = [r.cost.peak_mib for r in reports if r.cost.peak_mib is not None]
    return Summary(
        tasks=len(reports),
        admitted=sum(r.is_admitted and not r.accepted_wrongly for r in reports),
        accept_wrong=sum(r.is_admitted and r.accepted_wrongly > 0 for r in reports),
        separations={grade: n for grade in SEPARATIONS if (n := sum(r.separation == grade for r in reports))},
        not_tested=_not_tested(reports),
        with_holes=sum(any(f.severity == "hole" for f in r.findings) for r in reports),
        findings={name: counts[name] for name in SEVERITIES},
        flaky=sum(any(f.kind == "oracle-flaky" for f in r.findings) for r in reports),
        sensitivity_tasks=len(best),
        sensitivity_best=median(best) if best else None,
        sensitivity_best_interval=median_interval(best),
        sensitivity_worst=median(worst) if worst else None,
        sensitivity_worst_interval=median_interval(worst),
        verification_s=_median(r.cost.verification_s for r in reports),
        peak_mib=max(peaks) if peaks else None,
        battery_s=round(sum(r.cost.battery_s for r in reports), 3),
        in_verifications=_median(r.cost.in_verifications for r in reports),
        attempts=sum(r.cost.attempts for r in reports),
        most_in_verifications=_most(r.cost.in_verifications for r in reports),
        in_verifications_by_clock=_median(r.cost.in_verifications_by_clock for r in reports),
        most_in_verifications_by_clock=_most(r.cost.in_verifications_by_clock for r in reports),
    )


def _not_tested(reports: Sequence[TaskReport]) -> str:
    """Returns one line of skipped probes, numbers of tasks and reasons; probes skipped by --quick are only counted."""
    reasons: dict[str, dict[str, set[str]]] = {}
    for report in reports:
        for one in report.untried:
            name = one.probe.removeprefix("cheat.").removeprefix("oracle.")
            reasons.setdefault(one.reason, {}).setdefault(name, set()).add(report.task)
    parts = []
    for reason, probes in reasons.items():
        tasks = set().union(*probes.values())
        named = f"{len(probes)} probes" if reason == LEFT_OUT else ", ".join(probes)
        parts.append(f"{named} ({len(tasks)} of {len(reports)} tasks: {reason})")
    return "; ".join(parts)


def summary_line(summary: Summary) -> str:
    """Returns the number of admitted tasks as a sentence."""
    more = f"; {summary.accept_wrong} more: weak, accepting wrong solutions" if summary.accept_wrong else ""
    return f"{summary.admitted} of {summary.tasks} tasks are admitted{more}"


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _most(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def write_report(report: SetReport, folder: Path, settings: Settings) -> tuple[Path, Path]:
    """Writes `report.md` and `report.json`, secrets redacted. Raises `UserError` where the folder cannot be written."""
    check = SecretCheck([], settings)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        as_text, as_json = folder / "report.md", folder / "report.json"
        encoded = check.clean(msgspec.json.encode(report, order="deterministic")).data
        # Rendered after redaction: Markdown escapes hide the shape of a key.
        as_text.write_text(markdown(msgspec.json.decode(encoded, type=SetReport)), encoding="utf-8")
        as_json.write_bytes(msgspec.json.format(encoded, indent=2) + b"\n")
    except OSError as exc:
        raise UserError(
            f"the report cannot be written: {describe_os_error(exc, folder, elsewhere='choose another --output')}"
        ) from exc
    return as_text, as_json


def markdown(report: SetReport) -> str:
    return "\n".join([*_head(report), *(line for task in report.tasks for line in _task(task))]) + "\n"


def _head(report: SetReport) -> list[str]:
    summary = report.summary
    battery = f"{'quick ' if report.quick else ''}battery {report.battery}, verification {report.verification}"
    lines = [
        "# Soundness report",
        "",
        f"Run `{_code(report.run)}`: {battery}. {summary_line(summary)}.",
        "",
        "| | |",
        "|---|---|",
        f"| tasks with holes | {summary.with_holes} |",
        f"| findings | {', '.join(f'{n} {name}' for name, n in summary.findings.items() if n) or 'none'} |",
        f"| flaky tasks | {summary.flaky} |",
        f"| separation | {', '.join(f'{grade}: {n}' for grade, n in summary.separations.items())} |",
        f"| changed solutions rejected, at best | {_median_share(summary, summary.sensitivity_best_interval)} |",
        f"| at worst | {_median_share(summary, summary.sensitivity_worst_interval, worst=True)} |",
        f"| one verification | {_seconds(summary.verification_s)}, {_mib(summary.peak_mib)} |",
        f"| the battery | {summary.attempts} attempts, {summary.battery_s:.0f} s |",
        f"| a task's battery, in attempts by its solution | {_times(summary.in_verifications)} (median), at most "
        f"{_times(summary.most_in_verifications)}; by the clock {_times(summary.in_verifications_by_clock)}, at most "
        f"{_times(summary.most_in_verifications_by_clock)} |",
        "",
        f"| {' | '.join(_COLUMNS)} |",
        f"|{'---|' * len(_COLUMNS)}",
    ]
    return [
        *lines,
        *map(_row, report.tasks),
        "",
        f"Not tested: {_line(summary.not_tested or 'nothing', 20 * MOST_TEXT)}.",
    ]


def _row(task: TaskReport) -> str:
    count = Counter(f.severity for f in task.findings)
    seen, flakes = task.sensitivity, task.completeness
    cells = [
        _line(task.task),
        task.conclusion if task.is_admitted else f"**{task.conclusion}**",
        task.separation,
        *(str(count[name]) for name in ("hole", "broken", "weak")),
        _share(seen.best, seen.best_interval) if seen is not None else "-",
        _share(seen.worst, seen.worst_interval) if seen is not None else "-",
        f"{flakes.tried - flakes.passed} of {flakes.tried}",
        "-" if task.cost.verification_s is None else f"{task.cost.verification_s:.2f}",
        "-" if task.cost.peak_mib is None else f"{task.cost.peak_mib:.0f}",
        _times(task.cost.in_verifications),
    ]
    return f"| {' | '.join(cells)} |"


def _task(task: TaskReport) -> list[str]:
    said = ", ".join(f"{name}: {task.conclusion_under(name)}" for name in task.admitted)
    reached = f"Separation of the passing solution: {task.separation}."
    lines = ["", f"## {_line(task.task)}", "", f"{said}. {reached} Digest `{_code(task.task_digest)}`.", ""]
    lines += [_finding(f) for f in task.findings] or ["Nothing was found."]
    return [*lines, "", *_groups(task), *_sensitivity(task.sensitivity), *_difficulty(task)]


def _finding(finding: AdmissionFinding) -> str:
    where = f" `{_code(finding.probe)}`" if finding.probe else ""
    under = f" ({finding.verification})" if finding.verification else ""
    guess = ", a guess" if finding.heuristic else ""
    closed = f" Closed by: {_line('; '.join(finding.closed_by))}." if finding.closed_by else ""
    return f"- **{finding.severity}{guess}** {finding.kind}{where}{under}: {_line(finding.text.rstrip('.'))}.{closed}"


def _groups(task: TaskReport) -> list[str]:
    lines = ["| what | as wanted | otherwise | broke |", "|---|---|---|---|"]
    for group, meaning in GROUPS.items():
        mine = [p for p in task.probes if p.group == group and (p.wanted is not None or group == "sensitivity")]
        if not mine:
            continue
        judged = [p for p in mine if p.outcome is not None]
        good = [p for p in judged if (p.passed if p.wanted == "pass" else not p.passed)]
        lines.append(f"| {meaning} | {len(good)} | {len(judged) - len(good)} | {len(mine) - len(judged)} |")
    broken = [
        name for name, outcome in task.completeness.circumstances.items() if outcome not in ("pass", "not tested")
    ]
    if broken:
        lines += ["", f"The solution does not pass when this differs: {', '.join(broken)}."]
    return lines


def _sensitivity(rates: Sensitivity | None) -> list[str]:
    if rates is None:
        return []
    lines = [
        "",
        f"Changed solutions: {rates.tried} judged, {rates.rejected} rejected; of {len(rates.survivors)} survivors "
        f"{rates.changed} are shown to behave differently, {rates.equivalent} are equivalent, {rates.undecided} are "
        f"undecided. Rejected at best {_share(rates.best, rates.best_interval)}, at worst "
        f"{_share(rates.worst, rates.worst_interval)}.",
    ]
    for one in rates.survivors:
        if one.judgement == "equivalent":
            continue
        shown = f", {one.by}: {one.witness}" if one.witness else ""
        lines += ["", f"- `{_code(one.name)}` ({_line(one.operator)}): {one.judgement}{_line(shown)}", ""]
        lines += [f"      {_plain(line)}" for line in one.diff.splitlines()[:MOST_DIFF_LINES]]
    return lines


def _difficulty(task: TaskReport) -> list[str]:
    if not task.difficulty:
        return []
    lines = ["", "| agent | model | pass rate | attempts |", "|---|---|---|---|"]
    return lines + [
        f"| {_line(r.agent)} | {_line(r.model or '-')} | {_share(r.rate, r.interval)} | {r.judged} |"
        for r in task.difficulty
    ]


def _share(value: float | None, interval: Interval | None) -> str:
    if value is None or interval is None:
        return "-"
    return f"{value:.2f} [{interval.low:.2f}, {interval.high:.2f}]"


def _median_share(summary: Summary, interval: Interval | None, *, worst: bool = False) -> str:
    if interval is None:
        return f"not given: too few tasks for an interval ({summary.sensitivity_tasks})"
    value = summary.sensitivity_worst if worst else summary.sensitivity_best
    return f"{_share(value, interval)}, median of {summary.sensitivity_tasks} tasks"


def _seconds(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.2f} s"


def _mib(value: float | None) -> str:
    return "memory not measured" if value is None else f"at most {value:.0f} MiB"


def _times(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _plain(text: str) -> str:
    return "".join(c if c.isprintable() or c == "\t" else "?" for c in text)


def _line(text: str, most: int = MOST_TEXT) -> str:
    """Returns hostile text as one escaped line of Markdown."""
    one = " ".join(_plain(text.replace("\n", " ")).split())
    cut = one if len(one) <= most else f"{one[:most]} ..."
    for mark in "\\`*_[]<>|#":
        cut = cut.replace(mark, f"\\{mark}")
    return cut


def _code(text: str) -> str:
    """Returns hostile text that is safe inside backquotes."""
    return _plain(text.replace("\n", " ")).replace("`", "'").replace("|", "/")[:MOST_TEXT]
