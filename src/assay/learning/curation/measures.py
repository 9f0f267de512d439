"""What is measured of an attempt before anything is selected: how it stands, how it works, what it is made of.

Pure over trajectories. Text and observations are looked at once and let go: what stays of an attempt is its candidate,
and until its task is complete its states.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

import msgspec

from assay.analysis.actions import actions_of
from assay.analysis.interface import Action
from assay.analysis.outcomes import outcome_of
from assay.analysis.quotient import quotient_of, semantic_efficiency
from assay.analysis.recovery import recovery_of
from assay.analysis.stages import Stage, stages_of
from assay.analysis.states import State, states_of
from assay.analysis.waste import waste_of
from assay.formats.shared.output_files import outcome_verdict
from assay.records import Trajectory
from assay.verdicts import current_verdicts_of, is_imported_record, trust_of

from .interface import Candidate
from .similar import HeldOut, signature

__all__ = ["Measured", "cycles_of", "finished", "measure", "text_of"]


class Measured(NamedTuple):
    """An attempt of which all is known but how it compares with the others at its task."""

    candidate: Candidate
    states: tuple[State, ...]
    came: tuple[str, ...]
    """What each act came to."""


def measure(trajectory: Trajectory, instruction: str = "", held_out: HeldOut | None = None) -> Measured:
    """Measures one attempt.

    Args:
        trajectory: With what was learnt of it since.
        instruction: Of its task, for finding what leaked; empty where it is not known.
        held_out: What must not leak.
    """
    actions = actions_of(trajectory)
    stages = stages_of(actions)
    states = states_of(actions, stages)
    found = recovery_of(actions, states)
    cycles = cycles_of(actions, stages)
    text = text_of(trajectory, actions)
    judged = outcome_verdict(trajectory)
    current, trust = current_verdicts_of(trajectory), trust_of(trajectory)
    finished_ = trajectory.finished
    metrics = finished_.metrics if finished_ else {}
    made = Candidate(
        run=trajectory.run,
        chain=trajectory.chain,
        attempt=trajectory.attempt,
        task=trajectory.task,
        task_digest=trajectory.task_digest,
        agent=trajectory.agent,
        model=trajectory.model,
        head=trajectory.head,
        outcome=trajectory.outcome,
        score=judged.score if judged else None,
        integrity=current.integrity,
        process=current.process,
        process_score=min(current.scores.values(), default=None),
        safety=current.safety,
        doubt=trust.doubt,
        imported=is_imported_record(trajectory.started),
        separation=trust.separation,
        stopped=finished_.stopped if finished_ else None,
        acts=len(actions),
        tokens=metrics.get("completion_tokens"),
        cost_usd=metrics.get("cost_usd"),
        density=len({place for cycle in cycles for place in range(*cycle)}) / len(actions) if actions else 0.0,
        cycles=len(cycles),
        errors=len(found.errors),
        recovered=len(found.recovered),
        reflective=sum(not each.repeated for each in found.recovered),
        waste=waste_of(states).severity,
        signature=signature(text),
        twin=held_out.nearest(f"{instruction}\n{text}", trajectory.task_digest) if held_out else None,
    )
    return Measured(made, states, tuple(outcome_of(action) for action in actions))


def finished(measured: Sequence[Measured]) -> list[Candidate]:
    """Candidates, in their order, with what only all attempts at a task together show: moves and distinct acts."""
    tasks: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for number, one in enumerate(measured):
        tasks[one.candidate.task, one.candidate.task_digest].append(number)
    found = [one.candidate for one in measured]
    for numbers in tasks.values():
        held = [measured[number] for number in numbers]
        graph = quotient_of([one.states for one in held], [one.came for one in held], [None] * len(held))
        codes: dict[tuple[int, int], int] = {}
        for place, number in enumerate(numbers):
            moves = {codes.setdefault(pair, len(codes)) for pair in pairwise([0, *graph.walks[place]])}
            found[number] = msgspec.structs.replace(
                found[number], moves=tuple(sorted(moves)), distinct=round(semantic_efficiency(graph, place), 4)
            )
    return found


def cycles_of(actions: Sequence[Action], stages: Sequence[Stage]) -> list[tuple[int, int]]:
    """Whole cycles of inspecting, acting and verifying, as first position and the one after the last. Ours.

    A cycle is a run of acts that look (explore or verify), then one that changes (implement), then one that checks
    (verify) of which at least one act brought something back: what nobody could see verified nothing. Acts that only
    speak or organise break no run. The checking end of a cycle may be the looking beginning of the next.
    """
    runs: list[tuple[Stage, int, int]] = []
    told = [position for position, stage in enumerate(stages) if stage != "orchestrate"]
    for stage, places in groupby(told, key=lambda position: stages[position]):
        held = list(places)
        runs.append((stage, held[0], held[-1] + 1))
    found = []
    for (look, start, _), (change, _, _), (check, began, end) in zip(runs, runs[1:], runs[2:], strict=False):
        seen = any(actions[position].observation is not None for position in range(began, end))
        if look in ("explore", "verify") and change == "implement" and check == "verify" and seen:
            found.append((start, end))
    return found


def text_of(trajectory: Trajectory, actions: Sequence[Action]) -> str:
    """What the agent said, wrote and asked for, in order; not what it was shown."""
    steps = {step.index: step for step in trajectory.steps}
    told: set[int] = set()
    parts = []
    for action in actions:
        step = steps[action.step]
        if action.step not in told and step.message:
            parts.append(step.message)
        told.add(action.step)
        if action.command is not None:
            parts.append(action.command)
        elif action.call >= 0:
            # The raw text: what was parsed may hold what no encoder takes.
            parts.append(f"{action.tool} {step.tool_calls[action.call].arguments}")
    return "\n".join(parts)
