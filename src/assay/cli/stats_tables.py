"""Tables of `assay stats --table`; `assay.statistics` computes the numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.analysis.columns import MEASURES
from assay.analysis.refusals import sum_refusals
from assay.api.summaries import interval_text
from assay.statistics import (
    blind_replay_line,
    build_grid,
    count_by_task,
    find_flakes,
    outcome_consistency,
    predictive_validity,
    profile_tasks,
    report_card,
    split_halves,
    summarise_spending,
)

from . import process_tables, semi_online_tables, service_tables, team_tables
from .capability_table import capability_rows, sum_capabilities
from .context_table import context_rows, sum_context_cuts
from .evidence_table import evidence_rows, sum_evidence
from .pick_table import pick_rows, sum_picks
from .refusal_table import refusal_rows
from .route_table import route_rows, sum_routes
from .table_input import TableInput
from .task_economy import economy_rows, sum_economies

if TYPE_CHECKING:
    from assay.statistics import Amount, RateGrid, ReportCard, TaskCount, VarianceComponent

Rows = list[dict[str, str]]


class Table(NamedTuple):
    """A table: its computation and its rendering."""

    make: Callable[[TableInput], Any]
    rows: Callable[[Any], Rows]
    empty: str


def _who(agent: str, model: str | None) -> dict[str, str]:
    return {"agent": agent, "model": model or "-"}


def _number(value: float | None, digits: int = 3) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _spending(data: TableInput) -> Any:
    return summarise_spending([(one.outcome, one.used) for one in data.attempts], tuple(MEASURES))


def _spending_rows(groups: Any) -> Rows:
    return [
        {
            **_who(one.agent, one.model),
            "pass@1 [95%]": interval_text(one.pass_at_1),
            "measure": amount.measure,
            "an attempt [95%]": _amount_text(amount),
            "median": f"{amount.median:.4g}",
            "most": f"{amount.most:.4g}",
            "in all": f"{'>= ' if amount.missing else ''}{amount.total:.6g}",
            "a pass": "-" if amount.per_pass is None else f"{amount.per_pass:.4g}",
            "not known": str(amount.missing),
            "front": "yes" if amount.on_front else "-",
        }
        for one in groups
        for amount in one.amounts
    ]


def _amount_text(amount: Amount) -> str:
    mean = amount.mean
    if mean.value is None or mean.low is None or mean.high is None:
        return "-" if mean.value is None else f"{mean.value:.4g}"
    return f"{mean.value:.4g} [{mean.low:.4g}, {mean.high:.4g}]"


def _tasks(data: TableInput) -> Any:
    return profile_tasks(data.counts)


def _task_rows(profiles: Any) -> Rows:
    return [
        {
            "task": one.task,
            "attempts": str(one.attempts),
            "rate [95%]": f"{one.rate:.3f} [{one.interval.low:.3f}, {one.interval.high:.3f}]",
            "band": one.band,
            "configurations": str(one.configurations),
            "discrimination": _number(one.discrimination, 2),
            "mixed": str(one.mixed),
            "p (1 - p)": _number(one.contrast),
        }
        for one in sorted(profiles, key=lambda profile: (profile.rate, profile.task))
    ]


def _grid(data: TableInput) -> Any:
    factors = {
        "agent": [one.outcome.agent for one in data.attempts],
        "model": [one.outcome.model or "-" for one in data.attempts],
        "options": [data.options[one.source] for one in data.attempts],
        "run": [data.runs[one.source] for one in data.attempts],
    }
    varying = {name: column for name, column in factors.items() if name in ("agent", "model") or len(set(column)) > 1}
    one, other = factors["options"], factors["run"]
    same_split = len(set(zip(one, other, strict=True))) == len(set(one)) == len(set(other))
    if "options" in varying and same_split:
        del varying["run"]  # a run is known by its options: two names of one factor explain nothing apart
    return build_grid([one.outcome for one in data.attempts], varying)


def _grid_rows(grid: RateGrid) -> Rows:
    cells: Rows = [
        {
            **dict(zip(grid.factors, cell.levels, strict=True)),
            "tasks": str(cell.tasks),
            "attempts": str(cell.attempts),
            "pass@1 [95%]": interval_text(cell.pass_at_1),
        }
        for cell in grid.cells
    ]
    return [*cells, *(_component_row(grid, part) for part in grid.components)]


def _component_row(grid: RateGrid, part: VarianceComponent) -> dict[str, str]:
    share = "nothing varies" if part.share is None else f"explains {part.share:.1%}"
    return {grid.factors[0]: f"({part.name})", "pass@1 [95%]": share}


def _flakes(data: TableInput) -> Any:
    from collections import Counter

    reverified = [one.outcome for one in data.attempts if one.reverified in ("disagree", "flaky")]
    return find_flakes(data.counts, Counter((one.agent, one.model, one.task) for one in reverified))


def _flake_rows(flakes: Any) -> Rows:
    return [
        {
            "task": one.task,
            **_who(one.agent, one.model),
            "passed": f"{one.passed} of {one.judged}",
            "rate [95%]": f"{one.rate:.3f} [{one.interval.low:.3f}, {one.interval.high:.3f}]",
            "verifier differed": str(one.verifier),
        }
        for one in flakes
    ]


def _scores(data: TableInput) -> Any:
    names = sorted({name for one in data.attempts for name in one.scores})
    cards = {}
    for name in names:
        scored = [one for one in data.attempts if name in one.scores and one.outcome.status in ("pass", "fail")]
        good = [one.outcome.status == "pass" and not one.outcome.doubtful for one in scored]
        inside = [one for one in scored if 0 <= one.scores[name] <= 1]
        if scored and len(inside) == len(scored):
            cards[name] = report_card([one.scores[name] for one in scored], good, [one.outcome.task for one in scored])
    return cards


def _score_rows(cards: dict[str, ReportCard]) -> Rows:
    return [
        {
            "score": name,
            "attempts": str(card.n),
            "AUC [95%]": _number(card.auc)
            + ("" if card.auc_interval is None else f" [{card.auc_interval.low:.3f}, {card.auc_interval.high:.3f}]"),
            "ECE": _number(card.ece),
            "Brier": _number(card.brier),
            "its pick passes": _number(card.selected),
            "a blind pick": _number(card.at_random),
            "the best pick": _number(card.at_best),
        }
        for name, card in cards.items()
    ]


class ReliabilityRow(NamedTuple):
    """Run-to-run consistency of one configuration."""

    agent: str
    model: str | None
    consistency: Any
    blind_replay: float | None
    k: int


def _reliability(data: TableInput) -> Any:
    groups: dict[tuple[str, str | None], list[TaskCount]] = {}
    for count in data.counts:
        groups.setdefault((count.agent, count.model), []).append(count)
    return [
        ReliabilityRow(agent, model, outcome_consistency(mine), blind_replay_line(mine, data.k), data.k)
        for (agent, model), mine in groups.items()
    ]


def _reliability_rows(rows: list[ReliabilityRow]) -> Rows:
    return [
        {
            **_who(one.agent, one.model),
            "consistency [95%]": interval_text(one.consistency),
            f"blind replay of the best of {one.k}": _number(one.blind_replay),
        }
        for one in rows
    ]


def _ranking(data: TableInput) -> Any:
    if len(data.runs) == 1:
        return predictive_validity(*split_halves(data.counts))
    sides = [[one.outcome for one in data.attempts if (one.source == 0) is first] for first in (True, False)]
    return predictive_validity(*(count_by_task(side) for side in sides))


def _ranking_rows(ranking: Any) -> Rows:
    if ranking.value is None:
        return []
    ends = "" if ranking.interval is None else f" [{ranking.interval.low:.3f}, {ranking.interval.high:.3f}]"
    return [{"configurations": str(ranking.n), "rank correlation [95%]": f"{ranking.value:.3f}{ends}"}]


TABLES: dict[str, Table] = {
    "spending": Table(_spending, _spending_rows, "no attempt says what it used"),
    "tasks": Table(_tasks, _task_rows, "no task was judged"),
    "grid": Table(_grid, _grid_rows, "no attempt has ended"),
    "flakes": Table(_flakes, _flake_rows, "nothing flips: every task came out the same each time"),
    "scores": Table(_scores, _score_rows, "no attempt has a process score in [0, 1]: `assay audit` gives some"),
    "reliability": Table(_reliability, _reliability_rows, "no attempt has ended"),
    "ranking": Table(
        _ranking, _ranking_rows, "a ranking needs three configurations that were judged at the same tasks"
    ),
    "picks": Table(
        lambda data: sum_picks(data.picks),
        pick_rows,
        "no attempt was of a combinator with a judge, such as best-of:4:AGENT",
    ),
    semi_online_tables.SEMI_ONLINE: Table(
        lambda data: semi_online_tables.semi_online(data.replays, data.attempts, data.options),
        semi_online_tables.semi_online_rows,
        "no run is a semi-online replay: `assay replay --semi-online` makes one",
    ),
    semi_online_tables.AGREEMENT: Table(
        lambda data: semi_online_tables.agreement(data.replays, data.attempts, data.options),
        semi_online_tables.agreement_rows,
        "name semi-online replays and live runs of the same agents, with the same options, at the same tasks",
    ),
    "instructions": Table(
        lambda data: service_tables.instructions(data.served, data.counts),
        service_tables.instruction_rows,
        "no follower was judged at a task of services: run an agent beside `oracle`, the control",
    ),
    "pairs": Table(
        lambda data: service_tables.pairs(data.served),
        service_tables.pair_rows,
        "no agent was run at both tasks of a pair, as `assay synth twins` makes them",
    ),
    "clauses": Table(
        lambda data: service_tables.clauses(data.served),
        service_tables.clause_rows,
        "no attempt is at a task of services with a plan",
    ),
    "conversations": Table(
        lambda data: process_tables.sum_conversations(data.processes, data.message_cost),
        process_tables.conversation_rows,
        "no attempt on services has a person to talk to, as those of family:services,level=persona",
    ),
    "efficiency": Table(
        lambda data: process_tables.sum_efficiency(data.processes),
        process_tables.efficiency_rows,
        "no attempt on services has recorded its facts",
    ),
    "routes": Table(
        lambda data: sum_routes(data.routes),
        route_rows,
        "no attempt was judged by the check `route`, as those of family:sites are",
    ),
    "capabilities": Table(
        lambda data: sum_capabilities(data.attempts, data.needed),
        capability_rows,
        "no attempt is at a task on pages with a plan, as those of family:sites are",
    ),
    "refusals": Table(
        lambda data: sum_refusals(data.refusals),
        refusal_rows,
        "no judged task must be declined, as every second of a family with twins=true and requests of kind=forbidden",
    ),
    "actors": Table(
        lambda data: team_tables.sum_actors(data.teams),
        team_tables.actor_rows,
        "no attempt was of a team (--agent team)",
    ),
    "evidence": Table(
        lambda data: sum_evidence(data.evidence),
        evidence_rows,
        "no attempt is at a task whose world names the facts that it needs, as family:split-constraints does",
    ),
    "economy": Table(
        lambda data: sum_economies(data.economies),
        economy_rows,
        "no attempt was judged by the check `economy` (needs=true)",
    ),
    "context": Table(
        lambda data: sum_context_cuts(data.cuts),
        context_rows,
        "no attempt cut its context",
    ),
}
"""Tables beside `rates`, in display order."""
