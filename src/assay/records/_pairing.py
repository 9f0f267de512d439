"""Which call of a step each of its observations answers.

A model may give several calls one id, or empty ids: equal ids are matched in turn.
"""

from __future__ import annotations

from collections.abc import Sequence

from ._step import Observation, ToolCall


def match_calls(calls: Sequence[ToolCall], observations: Sequence[Observation]) -> list[int | None]:
    """Returns the position of the call that each observation names; None if it names no call of the step.

    Of several calls with one id, each gets one observation in order. Those left over belong to the last of these calls,
    except that with an empty id they name no call.
    """
    positions: dict[str, list[int]] = {}
    for position in range(len(calls) - 1, -1, -1):
        positions.setdefault(calls[position].id, []).append(position)
    matched: list[int | None] = []
    for observation in observations:
        waiting = None if observation.call_id is None else positions.get(observation.call_id)
        if not waiting:
            matched.append(None)
        else:
            matched.append(waiting.pop() if len(waiting) > 1 or not observation.call_id else waiting[0])
    return matched


def pair_observations(calls: Sequence[ToolCall], observations: Sequence[Observation]) -> list[tuple[Observation, ...]]:
    """Returns the observations of each call.

    Those that name no call go, in order, one each to the calls that got none by name; the last call gets those left
    over.
    """
    if len(calls) == 1 and len(observations) <= 1:
        return [tuple(observations)]
    paired: list[list[Observation]] = [[] for _ in calls]
    unnamed: list[Observation] = []
    for observation, position in zip(observations, match_calls(calls, observations), strict=True):
        (unnamed if position is None else paired[position]).append(observation)
    empty = [found for found in paired if not found]
    for number, observation in enumerate(unnamed):
        if number < len(empty):
            empty[number].append(observation)
        elif paired:
            paired[-1].append(observation)
    return [tuple(found) for found in paired]
