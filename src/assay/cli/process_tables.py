"""Tables `conversations` and `efficiency` of `assay stats`: process measures of attempts on services, summed up.

An attempt without a measure is left out of its mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from statistics import fmean
from typing import Any, Final

from assay.api.service_measures import ConversationMeasures, ProcessMeasures
from assay.environments.services.dialogue_measures import interview_utility
from assay.statistics import Interval, difference_interval, mean_interval

PROCESS_TABLES = ("conversations", "efficiency")
Rows = list[dict[str, str]]
_SHOWN_TURNS: Final = 8
_Interval = Callable[[Sequence[float]], Interval | None]


def sum_conversations(attempts: Iterable[ProcessMeasures], message_cost: float) -> list[dict[str, Any]]:
    """Returns the conversations by agent and model; means are over tasks."""

    def utility(talk: ConversationMeasures) -> float | None:
        return None if talk.interview is None else interview_utility(talk.interview, message_cost)

    found = []
    for (agent, model), mine in _groups(one for one in attempts if one.conversation is not None).items():
        talks = [one.conversation for one in mine if one.conversation is not None]
        known = [talk.emotions for talk in talks if talk.emotions]
        by_turn = [fmean(v for v in values if v is not None) for values in zip_longest(*known)]
        asked = [talk.interview for talk in talks if talk.interview is not None]
        found.append(
            {
                "agent": agent,
                "model": model,
                "attempts": len(talks),
                "messages": fmean(one.messages for one in asked) if asked else None,
                "needed": sum(one.needed for one in asked),
                "obtained": sum(one.obtained for one in asked),
                **_mean("utility", mine, utility, difference_interval),
                **_mean("excess", mine, lambda talk: talk.excess),
                **_mean("emotion", mine, lambda talk: talk.emotions[-1] if talk.emotions else None, mean_interval),
                "emotion_by_turn": by_turn,
                "left": sum(talk.has_left for talk in talks),
                **_mean("consistency", mine, lambda talk: talk.consistency),
            }
        )
    return found


def conversation_rows(groups: list[dict[str, Any]]) -> Rows:
    """Returns the rows of the table `conversations`."""
    return [
        {
            "agent": one["agent"],
            "model": one["model"] or "-",
            "attempts": str(one["attempts"]),
            "messages": "-" if one["messages"] is None else f"{one['messages']:.2f}",
            "facts": f"{one['obtained']} of {one['needed']}",
            "utility [95%]": _format_mean(one, "utility"),
            "beyond need": _format_mean(one, "excess"),
            "emotion at the end [95%]": _format_mean(one, "emotion"),
            "by turn": " ".join(f"{value:.2f}" for value in one["emotion_by_turn"][:_SHOWN_TURNS]) or "-",
            "left": str(one["left"]),
            "in role": _format_mean(one, "consistency"),
        }
        for one in groups
    ]


def sum_efficiency(attempts: Iterable[ProcessMeasures]) -> list[dict[str, Any]]:
    """Returns completeness, efficiency and precision by agent and model; means are over tasks."""
    found = []
    for (agent, model), mine in _groups(one for one in attempts if one.completeness or one.calls).items():
        writes = [one.writes for one in mine if one.writes is not None]
        calls = [one.calls for one in mine if one.calls is not None]
        found.append(
            {
                "agent": agent,
                "model": model,
                "attempts": len(mine),
                **_mean_of("completeness", mine, _completeness),
                **_mean_of("efficiency", mine, lambda one: one.calls and one.calls.efficiency),
                **_mean_of("product", mine, _product, mean_interval),
                "calls": sum(one.made for one in calls),
                "reference_calls": sum(one.reference for one in calls),
                **_mean_of("precision", mine, lambda one: one.writes and one.writes.precision, mean_interval),
                "writes": sum(one.writes for one in writes),
                "wanted_writes": sum(one.wanted for one in writes),
                "reads": sum(one.reads for one in writes),
                "reference_reads": sum(one.reference_reads for one in writes),
            }
        )
    return found


def efficiency_rows(groups: list[dict[str, Any]]) -> Rows:
    """Returns the rows of the table `efficiency`."""
    return [
        {
            "agent": one["agent"],
            "model": one["model"] or "-",
            "attempts": str(one["attempts"]),
            "completeness": _format_mean(one, "completeness"),
            "efficiency": _format_mean(one, "efficiency"),
            "product [95%]": _format_mean(one, "product"),
            "calls / plan": f"{one['calls']} / {one['reference_calls']}",
            "precision [95%]": _format_mean(one, "precision"),
            "wanted writes": f"{one['wanted_writes']} of {one['writes']}",
            "reads / plan": f"{one['reads']} / {one['reference_reads']}",
        }
        for one in groups
    ]


def _completeness(one: ProcessMeasures) -> float | None:
    found = one.completeness
    return None if found is None or found.required == 0 else found.met / found.required


def _product(one: ProcessMeasures) -> float | None:
    share = _completeness(one)
    if share is None or one.calls is None:
        return None
    efficiency = one.calls.efficiency
    return share if efficiency is None else share * efficiency


def _groups(attempts: Iterable[ProcessMeasures]) -> dict[tuple[str, str | None], list[ProcessMeasures]]:
    groups: dict[tuple[str, str | None], list[ProcessMeasures]] = {}
    for one in attempts:
        groups.setdefault((one.agent, one.model), []).append(one)
    return groups


def _mean(
    name: str,
    attempts: Iterable[ProcessMeasures],
    value: Callable[[ConversationMeasures], float | None],
    interval: _Interval | None = None,
) -> dict[str, Any]:
    return _mean_of(name, attempts, lambda one: None if one.conversation is None else value(one.conversation), interval)


def _mean_of(
    name: str,
    attempts: Iterable[ProcessMeasures],
    value: Callable[[ProcessMeasures], float | None],
    interval: _Interval | None = None,
) -> dict[str, Any]:
    """Returns the mean over tasks of a value, None where no attempt has it, and its interval if asked for."""
    by_task: dict[str, list[float]] = {}
    for one in attempts:
        found = value(one)
        if found is not None:
            by_task.setdefault(one.task, []).append(found)
    means = [fmean(several) for several in by_task.values()]
    summed = {name: fmean(means) if means else None}
    if interval is None:
        return summed
    ends = interval(means)
    return {**summed, f"{name}_low": ends and ends.low, f"{name}_high": ends and ends.high}


def _format_mean(group: Mapping[str, Any], name: str) -> str:
    value, low = group[name], group.get(f"{name}_low")
    if value is None:
        return "-"
    return f"{value:.3f}" + ("" if low is None else f" [{low:.3f}, {group[f'{name}_high']:.3f}]")
