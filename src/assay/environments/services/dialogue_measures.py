"""Process measures of a conversation: the person's emotion, what an interview obtained, consistency with the script.

Pure functions of the script and of what was said. A rule-driven person is a function of script, state and message, so
that the state at each turn follows from the logged messages alone.

Not covered: whether the task was done, which checks decide; the emotion of a person whose words a model chooses, whose
mood is not part of the recorded state.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from .faithfulness import Deviation, DialogueTurn, find_deviations
from .users import Mood, UserScript, UserState, begin, reply

MESSAGE_COST: Final = 0.05
"""Cost of a message to the person, as a share of all facts: the worth of the twentieth part of an interview."""
_EASE: Final[dict[Mood, float]] = {"calm": 1.0, "hurried": 0.5, "upset": 0.0}
_ASKED_FOR: Final = ("asked", "insisted")
_SAYS: Final = " It says: "


class Interview(NamedTuple):
    """Facts that an agent learnt from a person, and the number of messages."""

    needed: int
    """Facts that the person tells only when asked."""
    obtained: int
    """Those of them that were told rightly."""
    messages: int
    """Messages of the agent to the person."""


class Dialogue(NamedTuple):
    """The conversation of a rule-driven person as the script has it."""

    states: tuple[UserState, ...]
    """State after the first message, and after each answer until the person leaves."""
    turns: tuple[DialogueTurn, ...]
    """Texts and acts of each turn."""


def follow_script(script: UserScript, messages: Iterable[str]) -> Dialogue:
    """Returns the conversation that a rule-driven person has with an agent that sends these messages."""
    state, _ = begin(script)
    states, turns = [state], []
    for message in messages:
        if state.left:
            break
        state, answer, acts = reply(script, state, message)
        calls = tuple((act.action, act.arguments) for act in acts)
        states.append(state)
        turns.append(DialogueTurn(message, answer, calls, has_left=state.left))
    return Dialogue(tuple(states), tuple(turns))


def score_emotion(script: UserScript, state: UserState) -> float:
    """Returns the emotion of a rule-driven person, from 0 to 1.

    The mean of the patience that is left, as a share of the script's, and of the mood (`calm` 1, `hurried` 0.5, `upset`
    0); 0 for a person who has left. Within a conversation it never rises.
    """
    if state.left:
        return 0.0
    share = min(1.0, max(0.0, state.patience / script.patience)) if script.patience > 0 else 0.0
    return (share + _EASE[state.mood]) / 2


def summarize_interview(script: UserScript, state: UserState, messages: int) -> Interview:
    """Returns what an interview obtained, from the state at its end."""
    needed = {fact.name for fact in script.facts if fact.disclosure in _ASKED_FOR}
    return Interview(len(needed), len(needed.intersection(state.told)), messages)


def interview_utility(interview: Interview, message_cost: float = MESSAGE_COST) -> float | None:
    """Returns the share of the needed facts that were obtained, less a cost for each message.

    The costs are at most 1, so that the utility is between -1 and 1. None where no fact has to be asked for.
    """
    if interview.needed == 0:
        return None
    return interview.obtained / interview.needed - min(1.0, message_cost * interview.messages)


def recorded_turns(dialogue: Dialogue, answers: Sequence[str]) -> tuple[DialogueTurn, ...]:
    """Returns the turns of a conversation with the answers that were recorded in place of those of the script.

    What follows the script's words in an answer is what a tool of the person's own returned.
    """
    turns = []
    for turn, answer in zip(dialogue.turns, answers, strict=False):
        has_result = answer.startswith(turn.answer + _SAYS)
        results = (answer[len(turn.answer) :],) if has_result else ()
        turns.append(turn._replace(answer=answer, results=results))
    return tuple(turns)


def persona_consistency(script: UserScript, turns: Sequence[DialogueTurn]) -> float | None:
    """Returns the share of turns in which the person keeps to the script; None without turns."""
    return share_without_deviations(find_deviations(script, turns), len(turns))


def share_without_deviations(deviations: Iterable[Deviation], turns: int) -> float | None:
    """Returns the share of turns without a deviation; None without turns.

    A turn that ended the conversation because of its deviation counts, whether or not it is one of `turns`.
    """
    wrong = {deviation.turn for deviation in deviations}
    total = max([turns, *wrong])
    return None if total == 0 else 1 - len(wrong) / total
