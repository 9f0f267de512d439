"""Builds the trajectory of an episode in BrowserGym: a page before each action, and the page after the last one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from assay.formats.shared.builder import TrajectoryBuilder, tool_call
from assay.formats.shared.content_parts import as_text
from assay.formats.shared.round_trip_builder import count_or_none, get_path, number, text_or_none
from assay.records import AttemptEnded

from .actions import parse_action

SCREEN = "screen"
"""Kind of the evidence that the viewer shows beside a turn."""


class EpisodeStep(NamedTuple):
    """A page and what was done there."""

    number: int
    action: str | None = None
    """Text of the action; None where the episode ended."""
    reasoning: str | None = None
    url: str = ""
    title: str = ""
    tree: str = ""
    """Accessibility tree as text."""
    error: str = ""
    """Error of the action before, in BrowserGym's words."""
    messages: Any = None
    """Messages that the agent sent to a model for this action, as the source has them."""
    stats: Any = None
    picture: bytes | None = None
    started: float | None = None
    ended: float | None = None


def add_episode(builder: TrajectoryBuilder, goal: str, steps: Sequence[EpisodeStep]) -> None:
    """Adds the turns of an episode."""
    builder.add_step("user", goal)
    acted = ""
    waiting: str | None = None
    for step in steps:
        if waiting is None:
            made = builder.add_step("environment", observations=(_observe(builder, step, None),))
        else:
            made = builder.add_result(_observe(builder, step, waiting))
        _add_screen(builder, made.index, step, acted)
        waiting = None
        if step.action is None:
            continue
        calls = parse_action(step.action)
        acted = calls[-1].name if calls else ""
        named = [tool_call(f"s{step.number}.{at}", *call) for at, call in enumerate(calls or ())]
        waiting = named[-1].id if named else None
        prompt = None if step.messages is None else _store_messages(builder, step)
        builder.add_step(
            "agent",
            None if named else step.action,
            reasoning=step.reasoning,
            tool_calls=tuple(named),
            started=step.started,
            ended=step.ended,
            extra={"action": step.action, "stats": step.stats, "messages": prompt},
        )


def _observe(builder: TrajectoryBuilder, step: EpisodeStep, call: str | None) -> Any:
    lines = [f"Error: {step.error}"] if step.error else []
    lines += [f"Address: {step.url}"] if step.url else []
    return builder.make_observation("\n".join([*lines, step.tree]), call, error=bool(step.error))


def _add_screen(builder: TrajectoryBuilder, index: int, step: EpisodeStep, acted: str) -> None:
    tree = builder.keep_text(step.tree)
    data: dict[str, Any] = {"act": acted, "url": step.url[:2_000], "title": step.title[:500], "tree": tree}
    image = None if step.picture is None else builder.keep_bytes(step.picture)
    data |= {"image": image, "point": None}
    builder.add_evidence(SCREEN, data, blobs=(tree,) if image is None else (tree, image), beside=index)


def _store_messages(builder: TrajectoryBuilder, step: EpisodeStep) -> str:
    """Stores the messages of an action and returns their digest: what the model answered is not told apart in them."""
    return builder.keep_text(json.dumps(step.messages, ensure_ascii=False))


def goal_text(goal: Any) -> str:
    """Returns the text of a goal, which is a text or parts of a message."""
    return goal if isinstance(goal, str) else as_text(goal if isinstance(goal, list) else None)


def add_reward(builder: TrajectoryBuilder, summary: dict[str, Any]) -> AttemptEnded:
    """Adds the reward as the source's claim, and returns how the episode ended.

    BrowserGym counts any reward above 0 as success, also of pages that pay for parts, so no reward is a verdict here.
    """
    reward = builder.read_reward(summary.get("cum_reward"))
    rewards = {} if reward is None else {"cum_reward": reward}
    raw = builder.read_reward(summary.get("cum_raw_reward"))
    rewards |= {} if raw is None else {"cum_raw_reward": raw}
    told = "no reward" if reward is None else f"the reward {reward:g}"
    builder.add_verdict("unknown", None, f"AgentLab recorded {told}, which was not checked here", (), rewards)
    error = text_or_none(summary.get("err_msg"))
    metrics = {
        name.removeprefix("stats.cum_"): number(value) for name, value in summary.items() if "stats.cum_" in name
    }
    return AttemptEnded(
        ended="the environment ended the episode" if summary.get("terminated") is True else None,
        stopped="turns" if summary.get("truncated") is True and error is None else None,
        broke=None if error is None else _boundary_of(text_or_none(summary.get("stack_trace")) or ""),
        error=error,
        metrics={name: value for name, value in metrics.items() if value is not None},
    )


def _boundary_of(trace: str) -> str:
    """Returns whose code raised an exception, by AgentLab's own functions in its trace."""
    if "step_info.from_action(" in trace:
        return "agent"
    is_environment = any(call in trace for call in ("step_info.from_step(", "step_info.from_reset(", ".make_env("))
    return "environment" if is_environment else "unknown"


def seed_of(arguments: Any) -> int:
    """Returns the seed of an episode; 0 where it is not known."""
    return count_or_none(get_path(arguments, "task_seed")) or 0
