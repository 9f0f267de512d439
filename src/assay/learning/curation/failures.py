"""What can be learnt from a failed attempt once somebody has shown how it could have been won. Pure.

Three kinds of lesson, each a conversation in which only some turns are learnt from:

- `salvage`, after SCOPE (catalogued from its abstract): the attempt up to the step that lost it, and from there the one
  that won. All turns are learnt from: those of the beginning led to a state from which it was won.
- `fission`, after Fission-GRPO (catalogued from its abstract): the attempt up to and with an act that came to an error,
  a diagnosis in words, and from there the one that won. Only turns after the diagnosis are learnt from: how to get over
  an error, not how to make one. At the decisive step the state after the error cannot be won any more; there the
  diagnosis is told before the step, as an instance to be tried again (`Instance`).
- `reattempt`, after Agent-RLVR (catalogued from its abstract): the task tried again with guidance drawn from how the
  first try failed. The guidance is left out of the lesson's prompt, and the lesson says that there was some.

The forms are ours; the papers' were not seen. And one pair (`Contrast`): at the decisive step, what lost against what
won, from the same state.

Nothing here is a pass that somebody doubts: who calls hands over attempts that passed and that nothing speaks against.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import msgspec

from assay.analysis.actions import actions_of_step
from assay.analysis.attribution import attribute_by_replay
from assay.analysis.outcomes import is_error
from assay.records import Observation, Step, ToolCall, Trajectory

from .config import Guidance

__all__ = ["Contrast", "Instance", "Lesson", "contrast_at", "decisive_feedback", "diagnosis", "errors_in", "fissioned",
           "guidance_of", "own_steps", "reattempted", "salvaged"]  # fmt: skip

QUOTED = 600


class Lesson(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation to learn from, made of a failed attempt and one that won."""

    kind: Literal["salvage", "fission", "reattempt"]
    steps: tuple[Step, ...]
    """Numbered anew; a step of the actor `user` is the diagnosis."""
    learn: tuple[bool, ...]
    """For each step whether it is learnt from."""
    prefix: int
    """How many steps of the failed attempt's agent it begins with."""
    failed: str
    """Chain of the failed attempt."""
    won: str
    """Chain of the one that won, in the run `won_run`."""
    won_run: str
    won_head: str
    feedback: str | None = None
    """What was told in between, or as guidance."""
    why: str


class Contrast(NamedTuple):
    """Two ways to go on from the same state: the first step that lost, and the first of what won."""

    before: tuple[Step, ...]
    chosen: Step
    rejected: Step


class Instance(msgspec.Struct, frozen=True):
    """Where to let a policy try again: after `prefix` steps of a recorded attempt, told `feedback`."""

    run: str
    chain: str
    prefix: int
    feedback: str


def own_steps(won: Trajectory) -> tuple[Step, ...]:
    """The agent's steps of a continuation, without those that only did the beginning again."""
    again = next((e.data.get("steps") for e in won.evidence if e.kind == "replayed"), 0)
    acting = [step for step in won.steps if step.actor == "agent"]
    return tuple(acting[again if isinstance(again, int) else 0 :])


def salvaged(failed: Trajectory, won: Trajectory, prefix: int) -> Lesson:
    """The beginning of a failed attempt and the end of one that won from there."""
    steps = _joined([*_acting(failed)[:prefix], *own_steps(won)])
    return Lesson(
        kind="salvage",
        steps=steps,
        learn=(True,) * len(steps),
        prefix=prefix,
        **_of(failed, won),
        why=f"step {prefix} lost it: before it {_who(won)} still won; {prefix} of its steps are kept",
    )


def fissioned(failed: Trajectory, won: Trajectory, prefix: int) -> Lesson:
    """The beginning up to and with an error, a diagnosis, and the end of an attempt that won from there.

    Raises:
        ValueError: The last step of the beginning came to no error.
    """
    acting = _acting(failed)
    if not 0 < prefix <= len(acting) or not errors_in(acting[prefix - 1]):
        raise ValueError(f"step {prefix - 1} of {failed.attempt} came to no error: there is nothing to get over")
    told = diagnosis(acting[prefix - 1])
    ending = own_steps(won)
    steps = _joined([*acting[:prefix], Step(0, "user", told), *ending])
    return Lesson(
        kind="fission",
        steps=steps,
        learn=(False,) * (prefix + 1) + (True,) * len(ending),
        prefix=prefix,
        feedback=told,
        **_of(failed, won),
        why=f"step {prefix - 1} came to an error that {_who(won)} got over",
    )


def reattempted(failed: Trajectory, won: Trajectory, guidance: str) -> Lesson:
    """The guided attempt that won, to be learnt as if it had not been guided."""
    steps = _joined(own_steps(won))
    return Lesson(
        kind="reattempt",
        steps=steps,
        learn=(True,) * len(steps),
        prefix=0,
        feedback=guidance,
        **_of(failed, won),
        why="won when it was tried again with guidance, which is left out of the prompt",
    )


def contrast_at(failed: Trajectory, won: Trajectory, decisive: int) -> Contrast | None:
    """The decisive step against the first step of what won from before it; None where they say the same."""
    acting, ending = _acting(failed), own_steps(won)
    if not ending or decisive >= len(acting):
        return None
    rejected, chosen = acting[decisive], ending[0]
    if [(c.name, c.arguments) for c in rejected.tool_calls] == [(c.name, c.arguments) for c in chosen.tool_calls] and (
        rejected.tool_calls or rejected.message == chosen.message
    ):
        return None
    *before, first = _joined([*acting[:decisive], rejected])
    return Contrast(tuple(before), _joined([*acting[:decisive], chosen])[-1], first)


def errors_in(step: Step) -> list[str]:
    """What the acts of a step that came to an error showed, in words cut short."""
    return [_cut(action.observation or "no output") for action in actions_of_step(step) if is_error(action)]


def diagnosis(step: Step) -> str:
    """What to tell who made a step: which act came to which error. From the record alone, no model is asked."""
    seen = "\n".join(errors_in(step))
    return (
        f"This did not work: {_did(step)}\nIt came to:\n{seen}\nFind out why before you go on, and do it another way."
    )


def decisive_feedback(failed: Trajectory, decisive: int) -> str:
    """What to tell who is to go on from before the decisive step."""
    found = attribute_by_replay(failed, decisive)
    did = _did(_acting(failed)[decisive])
    what = f" ({found.label.module}: {found.label.mode})" if found is not None else ""
    return f"An earlier try went on from here with: {did}\nThat lost the task{what}. Do something else."


def guidance_of(failed: Trajectory, level: Guidance = "checks") -> str:
    """What to tell before a task is tried again."""
    said = ["An earlier try at this task did not pass."]
    lost = [v for v in failed.verdicts if v.kind == "outcome" and v.status == "fail"]
    if level != "outcome":
        said += [f"The check {verdict.check!r} failed." for verdict in lost]
        ended = failed.finished
        if ended is not None and ended.stopped is not None:
            said.append(f"It was stopped by the limit on {ended.stopped}.")
    if level == "evidence":
        said += [_cut(verdict.reason) for verdict in lost if verdict.reason]
    return "\n".join(said)


def _who(won: Trajectory) -> str:
    return won.agent.removeprefix("replay+")


def _did(step: Step) -> str:
    calls = ", ".join(f"{call.name} {_cut(call.arguments)}" for call in step.tool_calls)
    return calls or _cut(step.message or "nothing")


def _of(failed: Trajectory, won: Trajectory) -> dict[str, str]:
    return {"failed": failed.chain, "won": won.chain, "won_run": won.run, "won_head": won.head}


def _acting(trajectory: Trajectory) -> list[Step]:
    return [step for step in trajectory.steps if step.actor == "agent"]


def _joined(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Steps of several attempts as one: numbered anew, calls named apart, without times, states and model calls."""
    return tuple(_joined_each(steps))


def _joined_each(steps: Sequence[Step]) -> Iterator[Step]:
    for index, step in enumerate(steps):
        names = {call.id: f"call-{index}-{place}" for place, call in enumerate(step.tool_calls)}
        yield Step(
            index,
            step.actor,
            step.message,
            step.reasoning,
            tuple(_called(call, names[call.id]) for call in step.tool_calls),
            tuple(_seen(seen, names) for seen in step.observations),
        )


def _called(call: ToolCall, name: str) -> ToolCall:
    return msgspec.structs.replace(call, id=name)


def _seen(seen: Observation, names: dict[str, str]) -> Observation:
    return msgspec.structs.replace(seen, call_id=names.get(seen.call_id or "", seen.call_id))


def _cut(text: str) -> str:
    return text if len(text) <= QUOTED else f"{text[: QUOTED // 2]} ... {text[-QUOTED // 2 :]}"
