"""Derives lessons from failed attempts with the help of attempts that passed. Pure.

Three kinds of lesson, each a conversation in which only some turns are learnt from:

- `salvage`, after SCOPE (catalogued from its abstract): the attempt up to the step that lost it, and from there the one
  that won. All turns are learnt from: those of the beginning led to a state from which it was won.
- `fission`, after Fission-GRPO (catalogued from its abstract): the attempt up to and with an act that came to an error,
  a diagnosis in words, and from there the one that won. Only turns after the diagnosis are learnt from: how to get over
  an error, not how to make one.
- `reattempt`, after Agent-RLVR (catalogued from its abstract): the task tried again with guidance drawn from how the
  first try failed. The guidance is left out of the lesson's prompt, and the lesson says that there was some.

The forms are ours; the papers' were not seen. One pair (`StepContrast`) compares the failing and the winning step from
the decisive state. Callers pass undoubted passes only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import msgspec

from assay.analysis.actions import actions_of_step
from assay.analysis.outcomes import is_error
from assay.records import Observation, Separation, Step, ToolCall, Trajectory
from assay.verdicts import trust_of

from .config import Guidance

QUOTED = 600


class WinningAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """The undoubted pass that a lesson or a pair rests on."""

    run: str
    chain: str
    head: str
    agent: str
    separation: Separation


class Lesson(msgspec.Struct, frozen=True, kw_only=True):
    """A training conversation made of a failed attempt and one that passed."""

    kind: Literal["salvage", "fission", "reattempt"]
    steps: tuple[Step, ...]
    """Renumbered steps; a step of the actor `user` is the diagnosis."""
    learn: tuple[bool, ...]
    """For each step, whether it is trained."""
    prefix: int
    """Number of leading agent steps of the failed attempt."""
    won: WinningAttempt
    feedback: str | None = None
    """The diagnosis or the guidance."""
    why: str


class StepContrast(NamedTuple):
    """Two continuations of one state: the failing step and the winning step."""

    before: tuple[Step, ...]
    chosen: Step
    rejected: Step
    won: WinningAttempt


def own_steps(won: Trajectory) -> tuple[Step, ...]:
    """Returns the agent's steps of a continuation, without replayed ones."""
    replayed_count = next((e.data.get("steps") for e in won.evidence if e.kind == "replayed"), 0)
    agent_steps = [step for step in won.steps if step.actor == "agent"]
    return tuple(agent_steps[replayed_count if isinstance(replayed_count, int) else 0 :])


def salvage_lesson(failed: Trajectory, won: Trajectory, prefix: int) -> Lesson:
    """Joins the beginning of a failed attempt and the end of one that passed from there."""
    steps = _join_steps([*_acting(failed)[:prefix], *own_steps(won)])
    return Lesson(
        kind="salvage",
        steps=steps,
        learn=(True,) * len(steps),
        prefix=prefix,
        won=_winning_attempt(won),
        why=f"step {prefix} lost it: before it {_winner_name(won)} still won; {prefix} of its steps are kept",
    )


def fission_lesson(failed: Trajectory, won: Trajectory, prefix: int) -> Lesson:
    """Joins the beginning up to an error, a diagnosis, and the end of an attempt that passed from there.

    Raises:
        ValueError: The last step of the beginning came to no error.
    """
    agent_steps = _acting(failed)
    if not 0 < prefix <= len(agent_steps) or not errors_in(agent_steps[prefix - 1]):
        raise ValueError(f"step {prefix - 1} of {failed.attempt} came to no error: there is nothing to get over")
    feedback = describe_failure(agent_steps[prefix - 1])
    ending = own_steps(won)
    steps = _join_steps([*agent_steps[:prefix], Step(0, "user", feedback), *ending])
    return Lesson(
        kind="fission",
        steps=steps,
        learn=(False,) * (prefix + 1) + (True,) * len(ending),
        prefix=prefix,
        feedback=feedback,
        won=_winning_attempt(won),
        why=f"step {prefix - 1} came to an error that {_winner_name(won)} got over",
    )


def reattempt_lesson(won: Trajectory, guidance: str) -> Lesson:
    """Returns the guided attempt as a lesson without the guidance."""
    steps = _join_steps(own_steps(won))
    return Lesson(
        kind="reattempt",
        steps=steps,
        learn=(True,) * len(steps),
        prefix=0,
        feedback=guidance,
        won=_winning_attempt(won),
        why="won when it was tried again with guidance, which is left out of the prompt",
    )


def contrast_at(failed: Trajectory, won: Trajectory, decisive: int) -> StepContrast | None:
    """Returns the decisive step and the first winning step from before it; None if they are equal."""
    agent_steps, ending = _acting(failed), own_steps(won)
    if not ending or decisive >= len(agent_steps):
        return None
    rejected, chosen = agent_steps[decisive], ending[0]
    if [(c.name, c.arguments) for c in rejected.tool_calls] == [(c.name, c.arguments) for c in chosen.tool_calls] and (
        rejected.tool_calls or rejected.message == chosen.message
    ):
        return None
    *before, first = _join_steps([*agent_steps[:decisive], rejected])
    last = _join_steps([*agent_steps[:decisive], chosen])[-1]
    return StepContrast(tuple(before), last, first, _winning_attempt(won))


def errors_in(step: Step) -> list[str]:
    """Returns the truncated outputs of a step's failed actions."""
    return [_cut(action.observation or "no output") for action in actions_of_step(step) if is_error(action)]


def describe_failure(step: Step) -> str:
    """Returns a diagnosis of a step's errors, from the record alone."""
    observed = "\n".join(errors_in(step))
    act = _describe_act(step)
    return f"This did not work: {act}\nIt came to:\n{observed}\nFind out why before you go on, and do it another way."


def build_guidance(failed: Trajectory, level: Guidance = "checks") -> str:
    """Returns guidance for another try."""
    lines = ["An earlier try at this task did not pass."]
    lost = [v for v in failed.verdicts if v.kind == "outcome" and v.status == "fail"]
    if level != "outcome":
        lines += [f"The check {verdict.check!r} failed." for verdict in lost]
        ended = failed.finished
        if ended is not None and ended.stopped is not None:
            lines.append(f"It was stopped by the limit on {ended.stopped}.")
    if level == "evidence":
        lines += [_cut(verdict.reason) for verdict in lost if verdict.reason]
    return "\n".join(lines)


def _winner_name(won: Trajectory) -> str:
    return won.agent.removeprefix("replay+")


def _describe_act(step: Step) -> str:
    calls = ", ".join(f"{call.name} {_cut(call.arguments)}" for call in step.tool_calls)
    return calls or _cut(step.message or "nothing")


def _winning_attempt(won: Trajectory) -> WinningAttempt:
    separation = trust_of(won).separation
    return WinningAttempt(run=won.run, chain=won.chain, head=won.head, agent=won.agent, separation=separation)


def _acting(trajectory: Trajectory) -> list[Step]:
    return [step for step in trajectory.steps if step.actor == "agent"]


def _join_steps(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Joins steps of several attempts: renumbered, with distinct call ids, without times, states and model calls."""
    return tuple(_joined_each(steps))


def _joined_each(steps: Sequence[Step]) -> Iterator[Step]:
    for index, step in enumerate(steps):
        names = {call.id: f"call-{index}-{position}" for position, call in enumerate(step.tool_calls)}
        yield Step(
            index,
            step.actor,
            step.message,
            step.reasoning,
            tuple(_renamed_call(call, names[call.id]) for call in step.tool_calls),
            tuple(_renamed_observation(observed, names) for observed in step.observations),
        )


def _renamed_call(call: ToolCall, name: str) -> ToolCall:
    return msgspec.structs.replace(call, id=name)


def _renamed_observation(observed: Observation, names: dict[str, str]) -> Observation:
    return msgspec.structs.replace(observed, call_id=names.get(observed.call_id or "", observed.call_id))


def _cut(text: str) -> str:
    return text if len(text) <= QUOTED else f"{text[: QUOTED // 2]} ... {text[-QUOTED // 2 :]}"
