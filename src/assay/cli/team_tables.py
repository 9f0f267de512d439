"""Table `actors` of `assay stats`: each actor's part in the attempts of a team."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from assay.analysis.actor_usage import ActorUsage, actor_usage
from assay.records import TEAM, VerdictStatus
from assay.store import RunStore, final_rows

Rows = list[dict[str, str]]
_MEANS = ("turns", "acts", "sent", "received", "hand_offs", "refused", "calls", "prompt_tokens", "completion_tokens")


class TeamAttempt(NamedTuple):
    """The actors of one attempt and the outcome that they share."""

    agent: str
    model: str | None
    outcome: VerdictStatus | None
    usage: tuple[ActorUsage, ...]


def read_team_attempts(root: Path, runs: Sequence[str]) -> tuple[TeamAttempt, ...]:
    """Returns the ended attempts of teams."""
    found = []
    mark = f'"kind":"{TEAM}"'.encode()
    for run in runs:
        with RunStore.open(root, run) as store:
            for row in final_rows(store.attempts()):
                if next(iter(store.links(row.chain, mark)), None) is not None:
                    usage = tuple(actor_usage(store.trajectory(row.chain)))
                    found.append(TeamAttempt(row.agent, row.model, row.outcome, usage))
    return tuple(found)


def sum_actors(attempts: Iterable[TeamAttempt]) -> list[dict[str, Any]]:
    """Returns means over attempts by agent, model and actor; `passed` is the team's."""
    groups: dict[tuple[str, str | None, str], list[tuple[ActorUsage, bool]]] = {}
    for one in attempts:
        for usage in one.usage:
            groups.setdefault((one.agent, one.model, usage.actor), []).append((usage, one.outcome == "pass"))
    found = []
    for (agent, model, actor), parts in groups.items():
        costs = [usage.cost_usd for usage, _ in parts]
        known = [cost for cost in costs if cost is not None]
        found.append(
            {
                "agent": agent,
                "model": model,
                "actor": actor,
                "attempts": len(parts),
                "passed": sum(passed for _, passed in parts),
                **{name: fmean(getattr(usage, name) for usage, _ in parts) for name in _MEANS},
                "cost_usd": sum(known) if len(known) == len(costs) else None,
            }
        )
    return found


def actor_rows(groups: list[dict[str, Any]]) -> Rows:
    """Returns the rows of the table `actors`."""
    return [
        {
            "agent": one["agent"][:60],
            "actor": one["actor"],
            "attempts": str(one["attempts"]),
            "team passed": str(one["passed"]),
            "turns": f"{one['turns']:.1f}",
            "acts": f"{one['acts']:.1f}",
            "sent": f"{one['sent']:.1f}",
            "received": f"{one['received']:.1f}",
            "hand-offs": f"{one['hand_offs']:.1f}",
            "refused": f"{one['refused']:.1f}",
            "model calls": f"{one['calls']:.1f}",
            "tokens": f"{one['prompt_tokens'] + one['completion_tokens']:.0f}",
            "cost": "-" if one["cost_usd"] is None else f"${one['cost_usd']:.4f}",
        }
        for one in groups
    ]
